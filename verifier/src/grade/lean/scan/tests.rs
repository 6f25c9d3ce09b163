use proptest::prelude::*;

use super::*;

fn texts(text: &str) -> Vec<&str> {
    words(text)
        .unwrap()
        .into_iter()
        .map(|word| word.text)
        .collect()
}

#[test]
fn comments_are_no_words_and_nest() {
    assert_eq!(
        texts("a -- sorry\nb /- x /- sorry -/ y -/ c"),
        ["a", "b", "c"]
    );
    assert_eq!(texts("/-- doc -/ theorem"), ["theorem"]);
    assert_eq!(words("a /- b"), None);
    assert_eq!(words("a \"b"), None);
}

#[test]
fn a_quote_hides_nothing() {
    assert_eq!(texts("'\"' sorry '\"'"), ["sorry"]);
    assert_eq!(texts("h' \"--\" sorry"), ["h'", "sorry"]);
    assert_eq!(texts("x' -- '\nsorry"), ["x'", "sorry"]);
    assert_eq!(texts(r##"r#"a " -- "# sorry"##), ["r", "a", "sorry"]);
    assert_eq!(texts("'\\'' sorry"), ["sorry"]);
    assert_eq!(texts("s!\"{sorry}\""), ["s!", "sorry"]);
}

#[test]
fn lines_are_counted_through_comments_and_strings() {
    let words = words("a\n/- \n -/ b \"\n\" c").unwrap();
    let lines: Vec<(&str, usize)> = words.iter().map(|word| (word.text, word.line)).collect();
    assert_eq!(lines, [("a", 1), ("b", 3), ("c", 4)]);
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
    ] {
        assert_eq!(check(proof), Ok(()), "{proof}");
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
    ] {
        assert!(check(proof).is_err(), "{proof}");
    }
}

#[test]
fn a_header_imports_opens_and_sets_options() {
    for header in [
        "",
        "import Mathlib\nimport Aesop\n\nset_option maxHeartbeats 0\n\nopen BigOperators Real Nat Topology Rat",
        "import Mathlib -- all of it\nopen Nat (factorial)\nnoncomputable section\nuniverse u v",
    ] {
        assert_eq!(check_header(header), Ok(()), "{header}");
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
    ] {
        assert!(check_header(header).is_err(), "{header}");
    }
}

#[test]
fn searches_are_found() {
    assert_eq!(search("intro h\nexact?").unwrap().word, "exact?");
    assert_eq!(search("exact h -- exact?"), None);
}

proptest! {
    #[test]
    fn no_text_makes_the_scan_panic(text in r#"(?s)(--|/-|-/|"|'|r#|\\|«|#|@\[|[a-zé.'!?_ \n]|.){0,60}"#) {
        let _ = check(&text);
        let _ = check_header(&text);
    }

    #[test]
    fn a_forbidden_word_on_a_line_of_its_own_is_found(before in "[a-z0-9 ()\\n]{0,30}", after in "[a-z0-9 ()\\n]{0,30}") {
        let text = format!("{before}\nsorry\n{after}");
        prop_assert!(check(&text).is_err());
    }
}
