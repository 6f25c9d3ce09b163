use proptest::prelude::*;

use super::*;

fn texts(text: &str) -> Vec<&str> {
    words(text).into_iter().map(|word| word.text).collect()
}

/// Scans a text as a proof is scanned.
fn scan(text: &str) -> Result<(), Refused> {
    without_comments(text).and_then(|bare| check(&bare))
}

#[test]
fn comments_leave_lines_and_columns_as_they_were() {
    for (text, bare) in [
        ("a -- sorry\nb", "a         \nb"),
        ("a /- x /- sorry -/ y -/ c", "a                       c"),
        ("/-- doc\n é -/ theorem", "       \n      theorem"),
        ("«--» macro\nx", "«         \nx"),
        ("a - -1 - 2", "a - -1 - 2"),
        ("\"a\" -- b", "\"a\"     "),
    ] {
        assert_eq!(without_comments(text).as_deref(), Ok(bare), "{text}");
    }
    for text in ["a /- b", "x/-1", "\"a -- b\"", "'\"' -- b", "/-/"] {
        assert!(without_comments(text).is_err(), "{text}");
    }
}

#[test]
fn a_string_hides_nothing() {
    assert_eq!(texts("h' \"a sorry"), ["h'", "\"", "a", "sorry"]);
    for text in [
        "'\"' sorry '\"'",
        "\"\\\" sorry",
        "r#\"a \" sorry\"#",
        "s!\"{sorry}\"",
        "''\"' \"\n#eval 1",
        "\"\n#eval 1",
    ] {
        assert!(scan(text).is_err(), "{text}");
    }
}

#[test]
fn lines_are_counted_through_comments_and_strings() {
    let bare = without_comments("a\n/- \n -/ b \"\n\" c").unwrap();
    let lines: Vec<(&str, usize)> = words(&bare)
        .iter()
        .map(|word| (word.text, word.line))
        .collect();
    assert_eq!(lines, [("a", 1), ("b", 3), ("\"", 3), ("\"", 4), ("c", 4)]);
}

/// Texts that Lean 4.28 reads as a macro. An earlier scan took each for a comment or for another word.
#[test]
fn the_scan_sees_the_text_that_lean_reads() {
    let hidden = "macro \"x\" : term => `(True.intro)";
    for before in [
        "theorem t : 1 = 1 := Eq.refl 1",
        "theorem t : 1 = 1 := Eq.refl 0x1f",
        "theorem t : 1 = 1 := Eq.refl 1e5",
        "theorem t (x : Nat) [Inv Nat] : x⁻¹ = x⁻¹ := Eq.refl x⁻¹",
        "def C : Type := Nat\ndef D := Cᵒᵖ",
        "def t := «a»",
        "def t := f '",
        "example : α ≃o",
        "example : a ≡ b [ZMOD",
        "example : a =o",
    ] {
        assert!(scan(&format!("{before}{hidden}")).is_err(), "{before}");
    }
    // Whether this is a comment or not, Lean does not get it.
    for (before, after) in [
        ("theorem «--» : True := trivial ", ""),
        ("/-/- -/ ", " -- -/"),
        ("/--/ -- -/ ", ""),
        ("/-- -- -/\nx -- -/ ", "\n-- -/"),
    ] {
        let text = format!("{before}{hidden}{after}");
        if let Ok(bare) = without_comments(&text)
            && check(&bare).is_ok()
        {
            assert!(!bare.contains("macro"), "{text}: {bare}");
        }
    }
    assert!(check("rfl -- x").is_err() && check("rfl /- x -/").is_err());
}

#[test]
fn honest_proofs_pass() {
    for proof in [
        "exact ⟨h.2, h.1⟩",
        "induction n with\n  | zero => rfl\n  | succ k ih => rw [← Nat.add_assoc, ih]",
        "norm_num [h₀] at *\n  linarith",
        "have h : ∀ x, f x = 0 := by\n    intro x; simp [f]\n  omega -- no sorry here",
        "nlinarith [sq_nonneg (a - b), mul_pos ha hb]",
        "set_option maxHeartbeats 400000 in\ntheorem t : True := trivial",
        "@[simp] lemma foo : 1 = 1 := rfl",
        "decide",
        "rcases h with ⟨x, rfl⟩ | h'",
        "open Nat in\ntheorem t : 1 = 1 := rfl",
        "rw [show (5:ℝ) = 2 + 3 by norm_num]",
        "simp only [Finset.card_eq, #s]",
        "simp [h_constant, not_alternative, List.take_prefix, ←hstop, ¬h_native]",
        "exact (h_include : 2 * x ≤ 10) -- for instance, or as a constant",
        "section\nopen Nat in\nlemma a : 1 = 1 := rfl\nend",
        "@[simp, norm_cast] lemma foo : xs[0] = 1 := rfl",
    ] {
        assert_eq!(scan(proof), Ok(()), "{proof}");
    }
}

#[test]
fn cheats_are_refused() {
    for proof in [
        "sorry",
        "exact sorry",
        "admit",
        "axiom cheat : False\ntheorem t : False := cheat",
        "native_decide",
        "decide +native",
        "simp; bv_decide",
        "mutual",
        "by_elab return default",
        "run_tac do pure ()",
        "exact Lean.ofReduceBool _ _ rfl",
        "#eval 1",
        "rfl\n#print axioms t",
        "rfl\nopen Lean Elab in run_cmd pure ()",
        "macro \"x\" : tactic => `(tactic| sorry)",
        "local notation \"∞\" => 0",
        "infixl:65 \" + \" => fun a b => a",
        "@[implemented_by foo] def bar := 1",
        "attribute [simp] foo",
        "instance : Add Nat := ⟨fun _ _ => 0⟩",
        "set_option debug.skipKernelTC true in rfl",
        "set_option pp.unicode.fun true",
        "import Foo",
        "unsafe def x := 1",
        "initialize x : Nat ← pure 1",
        "«sorry»",
        "exact dbg_trace \"x\"; rfl",
        "/- open comment",
        "simproc foo (_) := fun _ => pure .continue",
        "def x : IO Unit := pure ()",
        "exact Lean.Elab.Term.foo",
        "stop",
        "opaque x : False",
        "deriving instance Repr for X",
        "theorem t : True := trivial\nvariable [inst : Coe True False]",
        "variable (h : False) in",
        "include h\ntheorem t : True := trivial",
        "omit h in",
        "export Mine (Nat)",
        "open «Lean» in rfl",
        "exact _root_.Lean.foo",
        "1instance : Add Nat := x",
        "1set_option debug.skipKernelTC true in rfl",
        "@[simp [x], coe] theorem t : True := trivial",
        "declare_simp_like_tactic x",
        "rfl #guard_msgs in x",
        "rfl #guard_expr 1 = 1",
        "exact include_str \"x\"",
        "@[norm_num _ + _] def x := y",
        "def x : Mathlib.Meta.NormNum.NormNumExt where eval e := throw _",
        "aesop (add safe tactic x)",
        "set_library_suggestions fun _ _ => do println! \"x\"; pure #[]",
    ] {
        assert!(scan(proof).is_err(), "{proof}");
    }
}

#[test]
fn a_header_imports_opens_and_sets_options() {
    for header in [
        "",
        "import Mathlib\nimport Aesop\n\nset_option maxHeartbeats 0\n\nopen BigOperators Real Nat Topology Rat",
        "import Mathlib -- all of it\nopen Nat (factorial)\nnoncomputable section\nuniverse u v",
    ] {
        assert_eq!(check_header(header), without_comments(header), "{header}");
    }
    for header in [
        "import Mathlib\naxiom cheat : False",
        "import Mathlib\nlocal notation \"ℝ\" => ℕ",
        "open Nat in theorem t : True := trivial",
        "set_option debug.skipKernelTC true",
        "import Mathlib axiom cheat : False\n#eval 1",
        "namespace X",
        "open Nat /- ",
        "instance : Add Nat := sorry",
        "noncomputable def x := 1",
        "set_option maxHeartbeats 0 in axiom x : False",
        "import Mathlib\nrun_cmd pure ()",
        "module\nimport Mathlib",
        "open Nat 1run_cmd",
        "open Nat.1run_cmd foo",
        "open Natᵒᵖrun_cmd",
        "set_option maxHeartbeats 0run_cmd",
        "set_option linter.«x true",
    ] {
        assert!(check_header(header).is_err(), "{header}");
    }
}

#[test]
fn a_tactics_configuration_is_literal() {
    for proof in [
        "simp (config := { decide := true, maxSteps := 100 }) [h]",
        "simp (maxSteps := 100000) (decide := true) at h",
        "simp (disch := norm_num) only [foo (n := m + 1)]",
        "simp? +arith (contextual := true)",
        "nlinarith (config := {}) [sq_nonneg (a + b)]",
        "rw (config := { occs := .pos [1, 2] }) [h]",
        "exact foo (n := Nat.succ m) (k := fun x => x)",
        "apply foo (n := m)",
    ] {
        assert_eq!(scan(proof), Ok(()), "{proof}");
    }
    for proof in [
        "simp (maxSteps := run (.print 1))",
        "simp! (config := c)",
        "simp (decide := true) (maxSteps := n)",
        "linarith (config := { preprocessors := [one] })",
        "foo (config := bar)",
        "simp (config := { decide := true, maxSteps := f 1 })",
        "simp (maxSteps := (.print \"x\"))",
        "simp (maxSteps := 1",
    ] {
        assert!(scan(proof).is_err(), "{proof}");
    }
}

#[test]
fn names_of_code_outside_the_kernel_are_refused() {
    for proof in [
        "exact unsafeEIO x",
        "exact unsafeBaseIO x",
        "exact lcProof",
        "exact timeit \"a\" x",
        "exact allocprof \"a\" x",
        "open System in exact h",
        "exact (.print 1).asTask",
        "class abbrev C (α : Type) := Inhabited α",
    ] {
        assert!(scan(proof).is_err(), "{proof}");
    }
}

proptest! {
    #[test]
    fn no_text_makes_the_scan_panic(text in r#"(?s)(--|/-|-/|"|'|r#|\\|«|#|@\[|[a-zé.'!?_ \n]|.){0,60}"#) {
        let _ = check(&text);
        let _ = check_header(&text);
        if let Ok(bare) = without_comments(&text) {
            prop_assert!(!bare.contains("--") && !bare.contains("/-"));
            prop_assert_eq!(bare.matches('\n').count(), text.matches('\n').count());
        }
    }

    #[test]
    fn a_forbidden_word_on_a_line_of_its_own_is_found(before in "[a-z0-9 ()\\n]{0,30}", after in "[a-z0-9 ()\\n]{0,30}") {
        let text = format!("{before}\nsorry\n{after}");
        prop_assert!(check(&text).is_err());
    }
}
