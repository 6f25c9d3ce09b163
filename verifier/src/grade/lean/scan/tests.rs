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

/// The texts of a list in `cases.txt`, each on a line.
fn cases(list: &str) -> Vec<String> {
    let lists = include_str!("cases.txt").split("== ");
    let (_, texts) = lists
        .filter_map(|it| it.split_once('\n'))
        .find(|it| it.0 == list)
        .unwrap();
    texts
        .lines()
        .filter(|line| !line.is_empty())
        .map(|line| line.replace("\\n", "\n"))
        .collect()
}

#[test]
fn proofs_pass_and_cheats_and_unclear_configurations_are_refused() {
    for proof in cases("accepted proofs") {
        assert_eq!(scan(&proof), Ok(()), "{proof}");
    }
    for proof in cases("refused proofs") {
        assert!(scan(&proof).is_err(), "{proof}");
    }
}

#[test]
fn a_header_imports_opens_and_sets_options() {
    for header in cases("accepted headers").into_iter().chain([String::new()]) {
        assert_eq!(check_header(&header), without_comments(&header), "{header}");
    }
    for header in cases("refused headers") {
        assert!(check_header(&header).is_err(), "{header}");
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
