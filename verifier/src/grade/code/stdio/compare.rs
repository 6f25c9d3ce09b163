//! Compares a program's output with the expected output. `docs/verifier.md` states the rule.
//!
//! Both texts are read as lines. Blanks at the end of a line do not count, nor do blank lines at the end of the text. Then both must have the same lines. In a line, a
//! number that is expected with a point or an exponent may have another notation and differ a little; everything else is compared as text.

use datasets::excerpt::excerpt;
use serde_json::{Value as Json, json};

/// Maximum difference of a number. It is absolute, or relative to the expected number if that is beyond ±1.
const TOLERANCE: f64 = 1e-6;

/// The first difference between two outputs.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Difference<'a> {
    /// Number of the line, from 1.
    line: usize,
    /// The expected line; `None` if the output has to end before it.
    expected: Option<&'a str>,
    /// The line that the program wrote; `None` if its output ends before it.
    got: Option<&'a str>,
}

impl Difference<'_> {
    /// As a verdict's detail.
    pub(super) fn detail(&self) -> Json {
        let line = |text: Option<&str>| text.map(excerpt);
        json!({ "line": self.line, "expected": line(self.expected), "got": line(self.got) })
    }
}

/// The first difference between the expected output and the output; `None` if they count as the same.
pub(super) fn difference<'a>(expected: &'a str, got: &'a str) -> Option<Difference<'a>> {
    let (mut expected, mut got) = (lines(expected), lines(got));
    for line in 1.. {
        match (expected.next(), got.next()) {
            (None, None) => return None,
            (Some(expected), Some(got)) if same_line(expected, got) => {}
            (expected, got) => {
                return Some(Difference {
                    line,
                    expected,
                    got,
                });
            }
        }
    }
    None
}

/// The lines of a text without the blanks at their ends, and without the blank lines at the text's end.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    let text = text.trim_end();
    let whole = (!text.is_empty()).then_some(text);
    whole
        .into_iter()
        .flat_map(|text| text.split('\n').map(str::trim_end))
}

fn same_line(expected: &str, got: &str) -> bool {
    if expected == got {
        return true;
    }
    let (mut expected, mut got) = (words(expected), words(got));
    loop {
        match (expected.next(), got.next()) {
            (None, None) => return true,
            (Some(expected), Some(got)) if same_word(expected, got) => {}
            _ => return false,
        }
    }
}

/// The texts between the blanks of a line; between two blanks, there is an empty one.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(char::is_whitespace)
}

fn same_word(expected: &str, got: &str) -> bool {
    if expected == got {
        return true;
    }
    if !expected.contains(['.', 'e', 'E']) {
        return false;
    }
    match (number(expected), number(got)) {
        (Some(expected), Some(got)) => {
            (expected - got).abs() <= TOLERANCE * expected.abs().max(1.0)
        }
        _ => false,
    }
}

/// A decimal number: a sign, digits with at most one point, an exponent. Not `nan`, `inf`, `0x10` or `1_000`.
fn number(word: &str) -> Option<f64> {
    let is_decimal = word
        .bytes()
        .all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    if !is_decimal {
        return None;
    }
    word.parse().ok().filter(|number: &f64| number.is_finite())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn same(expected: &str, got: &str) -> bool {
        difference(expected, got).is_none()
    }

    #[test]
    fn blanks_count_except_at_the_ends_of_lines_and_of_the_text() {
        for (expected, got) in [
            ("1\n2\n", "1\n2"),
            ("1\n2", "1  \n2\t\r\n \n\n"),
            ("", "\n \n"),
            ("a b\r\nc\r\n", "a b\nc\n"),
            ("  a", "  a "),
        ] {
            let both = [same(expected, got), same(got, expected)];
            assert_eq!(both, [true, true], "{expected:?} {got:?}");
        }
        for (expected, got) in [
            ("1\n2", "1\n\n2"),
            ("1\n2", "1 2"),
            ("1 2", "1  2"),
            ("1 2", "1\u{b}2x"),
            (" a", "a"),
            ("\n1", "1"),
            ("1", ""),
            ("", "1"),
            ("a", "A"),
            ("Yes", "YES"),
        ] {
            let both = [same(expected, got), same(got, expected)];
            assert_eq!(both, [false, false], "{expected:?} {got:?}");
        }
    }

    #[test]
    fn only_numbers_with_a_point_or_an_exponent_have_a_tolerance() {
        for (expected, passing, failing) in [
            ("0.5", ".5, 0.50000000001, 5e-1", "0.50001, 1/2, nan, 0.5."),
            ("1234567.0", "1234568.0", "1234569.0"),
            ("0.3333333333", "0.333333", ""),
            ("1.0", "1", ""),
            ("1e3", "1000", ""),
            ("-0.0", "0", ""),
            ("x 0.5 1", "x 0.5000 1", ""),
            ("1", "", "1.0, 01"),
            ("1000000000", "", "1000000001"),
            ("1e400", "", "2e400"),
            ("1.5", "", "1_5"),
            ("inf", "", "Infinity"),
            ("nan", "", "NaN"),
            ("e", "", "E"),
            (".", "", "0"),
            ("0.5 2", "", "0.5 2.0"),
            ("0.5\t1", "", "0.5"),
            ("1.2.3", "", "1.2"),
        ] {
            for (texts, passes) in [(passing, true), (failing, false)] {
                for got in texts.split(", ").filter(|got| !got.is_empty()) {
                    assert_eq!(same(expected, got), passes, "{expected:?} {got:?}");
                }
            }
        }
    }

    #[test]
    fn the_first_difference_is_described() {
        for (expected, got, detail) in [
            ("1\n2\n3", "1\n3\n3", json!([2, "2", "3"])),
            ("1\n2", "1\n", json!([2, "2", null])),
            ("", "1", json!([1, null, "1"])),
        ] {
            let found = difference(expected, got).unwrap().detail();
            let found = json!([found["line"], found["expected"], found["got"]]);
            assert_eq!(found, detail);
        }
    }

    proptest! {
        #[test]
        fn every_text_is_the_same_as_itself(text in "[ \\na-c0-9.e+-]{0,40}", end in "[ \\n\\t]{0,4}") {
            let ended = format!("{text}{end}");
            prop_assert_eq!(difference(&text, &ended), None);
        }
    }
}
