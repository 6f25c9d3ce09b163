prelude

universe u v

inductive And (a b : Prop) : Prop where
  | intro (left : a) (right : b) : And a b

inductive Tree (α : Type u) : Type u where
  | leaf : Tree α
  | node (value : α) (left right : Tree α) : Tree α

axiom cheat : (p : Prop) → p

inductive False : Prop

inductive Eq {α : Sort u} (a : α) : α → Prop where
  | refl : Eq a a

structure Both (α : Type u) (β : Type v) where
  first : α
  second : β

inductive Exists {α : Sort u} (p : α → Prop) : Prop where
  | intro (w : α) (h : p w) : Exists p

inductive Less {α : Type u} : Tree α → Tree α → Prop where
  | leaf (a : α) (l r : Tree α) : Less Tree.leaf (Tree.node a l r)
  | left (a b : α) (l r s : Tree α) (h : Less l s) : Less (Tree.node a l r) (Tree.node b s r)

mutual
inductive Even : Type where
  | zero : Even
  | next (n : Odd) : Even
inductive Odd : Type where
  | next (n : Even) : Odd
end

noncomputable def mirrored {α : Type u} (t : Tree α) : Tree α :=
  Tree.rec (motive := fun _ => Tree α) Tree.leaf (fun a _ _ l r => Tree.node a r l) t

theorem mirrored_twice {α : Type u} (t : Tree α) : Eq (mirrored (mirrored t)) t :=
  Tree.rec (motive := fun t => Eq (mirrored (mirrored t)) t) (Eq.refl)
    (fun a l r hl hr =>
      Eq.rec (motive := fun l' _ => Eq (mirrored (mirrored (Tree.node a l r))) (Tree.node a l' r))
        (Eq.rec (motive := fun r' _ => Eq (mirrored (mirrored (Tree.node a l r))) (Tree.node a (mirrored (mirrored l)) r')) Eq.refl hr) hl) t

theorem eta {α : Type u} {β : Type v} (b : Both α β) : Eq (Both.mk b.first b.second) b := Eq.refl

theorem irrelevant (p : Prop) (h i : p) : Eq h i := Eq.refl

theorem cast {α : Type u} (a : α) (h : Eq a a) (m : Type u) (x : m) : Eq (Eq.rec (motive := fun _ _ => m) x h) x := Eq.refl

theorem absurd (p q : Prop) (h : p) (n : p → False) : q := False.rec (fun _ => q) (n h)

theorem swap (p q : Prop) (h : p) (n : q) : And q p :=
  let _ := fun (t : Tree Prop) => mirrored_twice t
  let _ := fun (b : Both Prop Prop) => eta b
  let _ := irrelevant p h h
  let _ := fun (m : Type) (x : m) => cast (α := Prop) p Eq.refl m x
  let _ := fun (n : p → False) => absurd p q h n
  let _ := fun (t : Tree Prop) => Less.left p q Tree.leaf t (Tree.node p t t) (Less.leaf p t t)
  let _ := Even.next (Odd.next Even.zero)
  let _ := Exists.intro (p := fun r => r) p h
  And.intro n h
