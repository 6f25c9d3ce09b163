prelude

universe u

inductive And (a b : Prop) : Prop where
  | intro (left : a) (right : b) : And a b

inductive Tree (α : Type u) : Type u where
  | leaf : Tree α
  | node (value : α) (left right : Tree α) : Tree α

axiom cheat : (p : Prop) → p

theorem right_of (p q : Prop) (h : And p q) : q := And.rec (fun _ right => right) h

theorem swap (p q : Prop) (h : And p q) : And q p :=
  And.intro (right_of p q h) (And.rec (fun left _ => left) h)
