prelude

universe u

inductive And (a b : Prop) : Prop where
  | intro (left : a) (right : b) : And a b

inductive Tree (α : Type u) : Type u where
  | leaf : Tree α
  | node (value : α) (left right : Tree α) : Tree α

axiom cheat : (p : Prop) → p

theorem swap (p q : Prop) (h : p) : And q p := cheat _
