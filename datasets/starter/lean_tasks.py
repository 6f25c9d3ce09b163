"""The tasks of starter-lean: the theorem in words, its statement, and a proof that core Lean 4 accepts."""

TASKS = [
    ("The conjunction of two propositions can be turned round.", "theorem and_swap_of (p q : Prop) (h : p ∧ q) : q ∧ p := by", "exact ⟨h.2, h.1⟩"),
    ("Zero is a right neutral element of addition.", "theorem add_zero_right (n : Nat) : n + 0 = n := by", "rfl"),
    ("Zero is a left neutral element of addition.", "theorem zero_add_left (n : Nat) : 0 + n = n := by", "induction n with\n  | zero => rfl\n  | succ k ih => rw [← Nat.add_assoc, ih]"),
    ("Implication is transitive.", "theorem implies_trans (p q r : Prop) (hpq : p → q) (hqr : q → r) : p → r := by", "intro hp\n  exact hqr (hpq hp)"),
    ("A proposition implies its double negation.", "theorem to_not_not (p : Prop) (hp : p) : ¬¬p := by", "intro hn\n  exact hn hp"),
    ("Addition of natural numbers is commutative.", "theorem sum_comm (a b : Nat) : a + b = b + a := by", "exact Nat.add_comm a b"),
    ("Appending the empty list changes nothing.", "theorem append_empty (xs : List Nat) : xs ++ [] = xs := by", "simp"),
    ("The length of two lists put together is the sum of their lengths.", "theorem length_of_append (xs ys : List Nat) : (xs ++ ys).length = xs.length + ys.length := by", "simp"),
    ("Negating a Boolean twice gives it back.", "theorem bool_not_not (b : Bool) : (!(!b)) = b := by", "cases b <;> rfl"),
    ("The disjunction of two propositions can be turned round.", "theorem or_swap_of (p q : Prop) (h : p ∨ q) : q ∨ p := by", "cases h with\n  | inl hp => exact Or.inr hp\n  | inr hq => exact Or.inl hq"),
    ("From a contradiction anything follows.", "theorem from_contradiction (p q : Prop) (hp : p) (hn : ¬p) : q := by", "exact absurd hp hn"),
    ("A small sum, computed.", "theorem seven_and_five : 7 + 5 = 12 := by", "rfl"),
    ("Two is smaller than five.", "theorem two_lt_five : 2 < 5 := by", "decide"),
    ("A number is smaller than its successor.", "theorem lt_next (n : Nat) : n < n + 1 := by", "exact Nat.lt_succ_self n"),
    ("De Morgan's law for a negated disjunction.", "theorem not_or_split (p q : Prop) (h : ¬(p ∨ q)) : ¬p ∧ ¬q := by", "exact ⟨fun hp => h (Or.inl hp), fun hq => h (Or.inr hq)⟩"),
    ("Contraposition.", "theorem contrapose_of (p q : Prop) (h : p → q) : ¬q → ¬p := by", "intro hq hp\n  exact hq (h hp)"),
    ("Multiplication distributes over addition.", "theorem mul_over_add (a b c : Nat) : a * (b + c) = a * b + a * c := by", "exact Nat.mul_add a b c"),
    ("Mapping the identity over a list changes nothing.", "theorem map_identity (xs : List Nat) : xs.map (fun x => x) = xs := by", "simp"),
    ("Reversing a list keeps its length.", "theorem length_of_reverse (xs : List Nat) : xs.reverse.length = xs.length := by", "simp"),
    ("Boolean conjunction is commutative.", "theorem bool_and_comm (a b : Bool) : (a && b) = (b && a) := by", "cases a <;> cases b <;> rfl"),
    ("Equality can be turned round.", "theorem eq_swap (a b : Nat) (h : a = b) : b = a := by", "exact h.symm"),
    ("There is a number whose double is ten.", "theorem half_of_ten : ∃ n : Nat, n + n = 10 := by", "exact ⟨5, rfl⟩"),
    ("A conjunction distributes over a disjunction.", "theorem and_over_or (p q r : Prop) (h : p ∧ (q ∨ r)) : (p ∧ q) ∨ (p ∧ r) := by", "cases h.2 with\n  | inl hq => exact Or.inl ⟨h.1, hq⟩\n  | inr hr => exact Or.inr ⟨h.1, hr⟩"),
    ("If a sum of two natural numbers is zero, both are zero.", "theorem both_zero (a b : Nat) (h : a + b = 0) : a = 0 ∧ b = 0 := by", "omega"),
    ("If every number has a property, so has every even one.", "theorem all_even (p : Nat → Prop) (h : ∀ n, p n) : ∀ n, p (2 * n) := by", "intro n\n  exact h (2 * n)"),
]

# Indices of the held-out tasks, from 0.
EVAL = {1, 4, 6, 9, 11, 14, 16, 19, 21, 24}
