//! Whether two answers are the same.

use super::latex::{Normal, normalise};
use super::number::number;
use num_bigint::BigInt;
use num_rational::BigRational;

/// Lists longer than this are compared in order only.
const MAX_UNORDERED: usize = 64;

/// Why two answers were held equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// Both are numbers of the same exact value.
    Number,
    /// Their normal forms are the same text.
    Text,
    /// Tuples, lists or sets of equal elements.
    Elements,
}

impl Rule {
    /// As `detail` writes it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Rule::Number => "number",
            Rule::Text => "text",
            Rule::Elements => "elements",
        }
    }
}

/// The rule by which `given` is the same answer as `right`, or `None` where it is not.
#[must_use]
pub fn equal(right: &str, given: &str) -> Option<Rule> {
    let (right, given) = (normalise(right), normalise(given));
    if right.text.is_empty() || given.text.is_empty() {
        return None;
    }
    scalar(&right, &given).or_else(|| {
        // The comma in 10,080 parts no elements.
        let numbers = number(&right.text).is_some() || number(&given.text).is_some();
        if numbers {
            None
        } else {
            elements(&right.text, &given.text)
        }
    })
}

fn scalar(right: &Normal, given: &Normal) -> Option<Rule> {
    if let (Some(a), Some(b)) = (number(&right.text), number(&given.text)) {
        return same_quantity((&a, right.unit.as_deref()), (&b, given.unit.as_deref()))
            .then_some(Rule::Number);
    }
    let units_agree = right.unit.is_none() || given.unit.is_none() || right.unit == given.unit;
    (units_agree && same_text(&right.text, &given.text)).then_some(Rule::Text)
}

/// A unit may be left out, but not exchanged; 50% is both 50 and one half.
fn same_quantity(right: (&BigRational, Option<&str>), given: (&BigRational, Option<&str>)) -> bool {
    let hundred = || BigRational::from_integer(BigInt::from(100));
    match (right, given) {
        ((a, Some("percent")), (b, None)) => a == b || *a == b * hundred(),
        ((a, None), (b, Some("percent"))) => a == b || a * hundred() == *b,
        ((a, Some(unit)), (b, Some(other))) => a == b && unit == other,
        ((a, _), (b, _)) => a == b,
    }
}

fn same_text(right: &str, given: &str) -> bool {
    // Words may be capitalised as one likes; single letters are variables.
    let word = |text: &str| {
        text.len() > 1
            && text
                .bytes()
                .all(|byte| byte.is_ascii_alphabetic() || byte == b' ')
    };
    right == given || (word(right) && right.eq_ignore_ascii_case(given))
}

/// Tuples and intervals element by element; sets and bare lists in any order.
fn elements(right: &str, given: &str) -> Option<Rule> {
    let (right, given) = (List::read(right)?, List::read(given)?);
    if right.open != given.open
        || right.close != given.close
        || right.items.len() != given.items.len()
    {
        return None;
    }
    let same = |a: &str, b: &str| scalar(&normalise(a), &normalise(b)).is_some();
    let in_order = right
        .items
        .iter()
        .zip(&given.items)
        .all(|(a, b)| same(a, b));
    if in_order {
        return Some(Rule::Elements);
    }
    let unordered = matches!(right.open, "" | "\\{") && right.items.len() <= MAX_UNORDERED;
    if !unordered {
        return None;
    }
    let mut left = given.items;
    for item in &right.items {
        let at = left.iter().position(|other| same(item, other))?;
        left.swap_remove(at);
    }
    Some(Rule::Elements)
}

/// Elements parted by commas that stand in no inner bracket.
struct List<'a> {
    open: &'a str,
    close: &'a str,
    items: Vec<&'a str>,
}

impl<'a> List<'a> {
    /// `None` where there are no two elements and no brackets to speak of.
    fn read(text: &'a str) -> Option<List<'a>> {
        let open = ["(", "[", "\\{"]
            .into_iter()
            .find(|open| text.starts_with(open))
            .unwrap_or("");
        let close = [")", "]", "\\}"]
            .into_iter()
            .find(|close| text.ends_with(close))
            .unwrap_or("");
        let enclosed =
            !open.is_empty() && !close.is_empty() && text.len() >= open.len() + close.len();
        let (open, close, inner) = if enclosed {
            (open, close, &text[open.len()..text.len() - close.len()])
        } else {
            ("", "", text)
        };
        let mut items = Vec::new();
        let mut depth = 0_i32;
        let mut start = 0;
        for (at, byte) in inner.bytes().enumerate() {
            match byte {
                b'(' | b'[' | b'{' => depth += 1,
                b')' | b']' | b'}' => depth -= 1,
                b',' if depth == 0 => {
                    items.push(&inner[start..at]);
                    start = at + 1;
                }
                _ => {}
            }
            if depth < 0 {
                return None; // `(0,9)\cup(9,36)`: the first bracket does not close at the end.
            }
        }
        items.push(&inner[start..]);
        (depth == 0 && (items.len() > 1 || open == "\\{")).then_some(List { open, close, items })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_same_answer_in_other_words_is_equal() {
        for (right, given) in [
            (r"\frac{1}{2}", "0.5"),
            (r"\frac{14}{3}", r"\dfrac{14}{3}"),
            (r"\frac{14}{3}", "14/3"),
            (r"\frac{14}{3}", "28/6"),
            ("10080", r"10,\!080"),
            (r"11,\! 111,\! 111,\! 100", "11111111100"),
            (r"\$32,\!348", "32348"),
            (r"\$36", "36 dollars"),
            ("58,500", "58500"),
            (r"90^\circ", "90"),
            (r"90^\circ", r"90 \text{ degrees}"),
            (r"15\mbox{ cm}^2", "15"),
            (r"50\%", "50"),
            (r"50\%", r"\frac12"),
            (r"1\frac{4}{5}", "1.8"),
            (".35625", "0.35625"),
            (r"x=5", "5"),
            ("y = 2x + 3", "y=2x+3"),
            (r"\left( \frac{3}{2}, -13 \right)", "(1.5, -13)"),
            ("1,-2", "-2, 1"),
            (r"\{1,2\}", r"\{2, 1\}"),
            (r"\text{Evelyn}", "Evelyn"),
            (r"\text{east}", "East"),
            (r"\text{(C)}", "(C)"),
            (r"3\sqrt{13}", r"3 \sqrt {13}"),
            (
                r"(-\infty, 2) \cup (3, \infty)",
                r"(-\infty,2)\cup(3,\infty)",
            ),
            (
                r"\begin{pmatrix} -1/3 \\ 2/3 \end{pmatrix}",
                r"\begin{pmatrix}-1/3\\2/3\end{pmatrix}",
            ),
            ("5.", "$5$"),
            (".0000672", r"6.72 \times 10^{-5}"),
            (r"6+9i", "6 + 9i"),
        ] {
            assert!(equal(right, given).is_some(), "{right} and {given}");
        }
    }

    #[test]
    fn a_different_answer_is_not_equal() {
        for (right, given) in [
            ("1", "2"),
            ("1", "-1"),
            ("12", "1,2"),
            ("12", "1 2"),
            ("1\\frac{4}{5}", "14/5"),
            ("1 4/5", "14/5"),
            (r"\frac{1}{2}", r"\frac{2}{1}"),
            (r"\frac{1}{2}", "0.50001"),
            (r"\frac{1}{3}", "0.333333333333"),
            ("0.5", r"5\%"),
            ("50", "0.5"),
            (r"5.4 \text{ cents}", r"5.4 \text{ dollars}"),
            ("15 cm", "15 mm"),
            (r"15\mbox{ cm}^2", r"15\mbox{ cm}^3"),
            ("52_8", "52"),
            ("52_8", "528"),
            ("52_8", "52_9"),
            ("x^2", "x2"),
            ("2^{10}", "210"),
            ("2^{10}", "2^10"),
            ("(1,2)", "(2,1)"),
            ("(1,2)", "[1,2]"),
            ("(1,2)", "(1,2]"),
            ("(1,2)", "1,2"),
            ("(1,2)", "(1,2,3)"),
            ("(3,4]", "[3,4)"),
            ("1,2", "1,2,2"),
            ("1,1,2", "1,2,2"),
            (r"\{1,2\}", r"\{1,3\}"),
            ("(0,9) \\cup (9,36)", "(0,36)"),
            ("x", "X"),
            ("x", "y"),
            ("2x", "2y"),
            ("x+1", "x-1"),
            ("y=2x+3", "y=2x-3"),
            ("x=5", "x=-5"),
            (r"\sqrt{2}", "2"),
            (r"\sqrt{23}", r"\sqrt{2}3"),
            (r"\sqrt{2}3", r"\sqrt 23 + 1"),
            (r"3\pi", "3"),
            (r"\pi", "3.14"),
            (r"\pi", "p"),
            ("6+9i", "6-9i"),
            (r"\text{even}", r"\text{odd}"),
            ("A", "B"),
            (
                r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}",
                r"\begin{pmatrix} 1 & 2 \end{pmatrix}",
            ),
            (
                r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}",
                r"\begin{pmatrix} 2 \\ 1 \end{pmatrix}",
            ),
            ("10,080", "10,80"),
            ("1e5", "100000x"),
            ("3", ""),
            ("3", "3 or 4"),
            ("3", "3x"),
            ("2k", "2"),
            ("2m", "2n"),
        ] {
            assert_eq!(equal(right, given), None, "{right} and {given}");
            assert_eq!(equal(given, right), None, "{given} and {right}");
        }
    }

    #[test]
    fn hostile_answers_cost_little() {
        let started = std::time::Instant::now();
        for hostile in [
            "9".repeat(1 << 20),
            r"10^{10^{10^{10}}}".to_owned(),
            format!("1*10^{{{}}}", "9".repeat(100)),
            "{".repeat(1 << 16),
            r"\frac".repeat(800),
            r"\sqrt[".repeat(600),
            "1,".repeat(2_000),
            format!("{}1{}", "(".repeat(2_000), ")".repeat(2_000)),
            r"\text{".repeat(600),
        ] {
            assert_eq!(equal("1", &hostile), None);
            let _ = equal(&hostile, &hostile);
        }
        assert!(started.elapsed().as_secs() < 5, "{:?}", started.elapsed());
    }

    proptest! {
        #[test]
        fn every_answer_that_says_something_equals_itself(answer in r"(\\frac\{[1-9]\}\{[1-9]\}|\\sqrt\{[0-9]\}|[0-9]{1,4}|[a-z]|[-+]){1,6}") {
            prop_assert!(equal(&answer, &answer).is_some());
        }

        #[test]
        fn equality_is_symmetric(a in r"(\\frac|\\text|[{}()\[\]%$,. 0-9a-z^_=-]){0,12}", b in r"(\\frac|\\text|[{}()\[\]%$,. 0-9a-z^_=-]){0,12}") {
            prop_assert_eq!(equal(&a, &b).is_some(), equal(&b, &a).is_some());
        }

        #[test]
        fn different_integers_are_never_equal(a in -10_000_i64..10_000, b in -10_000_i64..10_000) {
            prop_assert_eq!(equal(&a.to_string(), &b.to_string()).is_some(), a == b);
        }

        #[test]
        fn fractions_are_equal_where_their_values_are(a in 1_i64..40, b in 1_i64..40, c in 1_i64..40, d in 1_i64..40) {
            let (left, right) = (format!(r"\frac{{{a}}}{{{b}}}"), format!("{c}/{d}"));
            prop_assert_eq!(equal(&left, &right).is_some(), a * d == b * c);
        }
    }
}
