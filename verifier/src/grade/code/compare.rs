//! Compares a result with the expected value as EvalPlus does.
//!
//! Equal values pass. Otherwise, if a tolerance applies, values of one type are compared by `np.allclose(out, exp, rtol=1e-07, atol=atol)`. The tolerance is the
//! record's, or 1e-6 if that is 0 and the expected value is a float, or a list or tuple that has only floats. The task says whether values are compared as sets, as
//! "not None", or by one of the special rules of a few tasks (`evalplus_special_rules`).
//!
//! Four things differ from EvalPlus:
//!
//! - `allclose` broadcasts, so EvalPlus finds `[[1.0], [2.0]]` close to `[[1.0, 1.0], [2.0, 2.0]]`. Here the shapes must be equal.
//! - In EvalPlus, the tolerance of a float stays for all later tests of the task. Here each test has its own.
//! - In EvalPlus, a numpy scalar and a Python number have different types. Here a numpy scalar is the number that it contains.
//! - In EvalPlus, no program passes if the expected value is or contains a NaN, which neither equals itself nor is close to itself. Here a NaN passes for a NaN
//!   (`allclose`'s `equal_nan`), and for nothing else: a test that no program can pass teaches nothing.

use datasets::{Compare, Value};

use super::equality::{distinct, equal};
use super::evalplus_special_rules;

const RELATIVE: f64 = 1e-7;
const FLOAT_TOLERANCE: f64 = 1e-6;

/// Whether `got`, returned for `args`, passes for `expected`.
#[must_use]
pub fn passes(args: &[Value], expected: &Value, got: &Value, atol: f64, compare: Compare) -> bool {
    match compare {
        Compare::Equal => equal_or_close(expected, got, atol),
        Compare::PyramidSurface => {
            equal_or_close(expected, got, atol)
                || evalplus_special_rules::pyramid_surface(args, got, atol)
        }
        Compare::DigitDistance => {
            equal_or_close(expected, got, atol) || evalplus_special_rules::digit_distance(args, got)
        }
        Compare::Root => evalplus_special_rules::root(args, got, atol),
        Compare::Set => match (elements(expected), elements(got)) {
            (Some(expected), Some(got)) => distinct(&expected)
                .is_some_and(|expected| distinct(&got).is_some_and(|got| expected == got)),
            _ => false,
        },
        Compare::NotNone => {
            let truth = |value: &Value| match value {
                Value::Bool(b) => *b,
                other => *other != Value::None,
            };
            truth(expected) == truth(got)
        }
    }
}

fn equal_or_close(expected: &Value, got: &Value, atol: f64) -> bool {
    let atol = if atol == 0.0 && is_floats(expected) {
        FLOAT_TOLERANCE
    } else {
        atol
    };
    let one_type = std::mem::discriminant(expected) == std::mem::discriminant(got);
    equal(expected, got) || (atol != 0.0 && one_type && close(got, expected, atol))
}

fn is_floats(value: &Value) -> bool {
    match value {
        Value::Float(_) => true,
        Value::List(items) | Value::Tuple(items) => {
            items.iter().all(|item| matches!(item, Value::Float(_)))
        }
        _ => false,
    }
}

/// The elements that iterating over a value yields; `None` if Python raises `TypeError`.
fn elements(value: &Value) -> Option<Vec<Value>> {
    Some(match value {
        Value::List(items) | Value::Tuple(items) | Value::Set(items) | Value::FrozenSet(items) => {
            items.clone()
        }
        Value::Dict(pairs) => pairs.iter().map(|(key, _)| key.clone()).collect(),
        Value::Str(text) => text.chars().map(|c| Value::Str(c.to_string())).collect(),
        Value::Bytes(bytes) => bytes
            .iter()
            .map(|byte| Value::from(i64::from(*byte)))
            .collect(),
        _ => return None,
    })
}

/// `np.allclose` for values of the same shape; false if numpy would raise.
fn close(got: &Value, expected: &Value, atol: f64) -> bool {
    match (got, expected) {
        (Value::List(got) | Value::Tuple(got), Value::List(expected) | Value::Tuple(expected)) => {
            got.len() == expected.len()
                && got
                    .iter()
                    .zip(expected)
                    .all(|(got, expected)| close(got, expected, atol))
        }
        (got, expected) => match (number(got), number(expected)) {
            (Some(got), Some(expected)) => close_numbers(got, expected, atol),
            _ => false,
        },
    }
}

fn number(value: &Value) -> Option<(f64, f64)> {
    match value {
        Value::Bool(b) => Some((f64::from(u8::from(*b)), 0.0)),
        Value::Int(n) => Some(n.to_f64().value())
            .filter(|x| x.is_finite())
            .map(|x| (x, 0.0)),
        Value::Float(x) => Some((*x, 0.0)),
        Value::Complex(re, im) => Some((*re, *im)),
        _ => None,
    }
}

/// |got − expected| ≤ atol + rtol·|expected|, or equal infinities, or both NaN.
fn close_numbers(got: (f64, f64), expected: (f64, f64), atol: f64) -> bool {
    let size = |(re, im): (f64, f64)| re.hypot(im);
    let finite = expected.0.is_finite() && expected.1.is_finite();
    let same = |a: f64, b: f64| a == b || (a.is_nan() && b.is_nan());
    (same(got.0, expected.0) && same(got.1, expected.1))
        || (finite
            && size((got.0 - expected.0, got.1 - expected.1)) <= atol + RELATIVE * size(expected))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn python(text: &str) -> Value {
        Value::parse_python(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn check(expected: &str, got: &str, atol: f64, compare: Compare) -> bool {
        passes(&[], &python(expected), &python(got), atol, compare)
    }

    fn same(expected: &str, got: &str) -> bool {
        check(expected, got, 0.0, Compare::Equal)
    }

    #[test]
    fn floats_have_a_tolerance_by_default() {
        assert!(same("0.3", "0.30000000000000004"));
        assert!(same("[0.1, 0.2]", "[0.1000000001, 0.2]"));
        assert!(same("(0.1, 0.2)", "(0.1000000001, 0.2)"));
        assert!(same("1e20", "1.00000001e20"));
        assert!(!same("0.3", "0.3001"));
        assert!(!same("1e20", "1.000001e20"));
    }

    #[test]
    fn integers_and_nested_lists_have_a_tolerance_only_if_the_record_sets_one() {
        assert!(!same("1", "1.0000000001"));
        assert!(!same("[[0.1]]", "[[0.1000000001]]"));
        assert!(check("[[0.1]]", "[[0.1000000001]]", 1e-4, Compare::Equal));
        assert!(check("1.0", "1.00001", 1e-4, Compare::Equal));
        assert!(!check("1.0", "1.001", 1e-4, Compare::Equal));
    }

    #[test]
    fn values_of_different_types_may_be_equal_but_never_close() {
        assert!(same("1.0", "1"));
        assert!(!same("0.9999999", "1"));
        assert!(!check("1", "1.00001", 1e-4, Compare::Equal));
        assert!(!same("(0.1, 0.2)", "[0.1, 0.2]"));
        assert!(!same("(0.1, 0.2)", "[0.1000000001, 0.2]"));
        assert!(check("[(0.1, 0.2)]", "[[0.1, 0.2]]", 1e-4, Compare::Equal));
    }

    #[test]
    fn values_of_different_shapes_are_never_close() {
        for (expected, got) in [
            ("[]", "5"),
            ("[]", "[5.0]"),
            ("[0.5]", "0.5"),
            ("0.5", "[0.5]"),
            ("[0.5, 0.5]", "[0.5]"),
            ("[0.5]", "[[0.5]]"),
            ("0.5", "'0.5'"),
            ("0.5", "None"),
        ] {
            assert!(!same(expected, got), "{expected} and {got}");
        }
    }

    #[test]
    fn infinities_and_nan_are_close_only_to_themselves() {
        assert!(same("inf", "inf"));
        assert!(!same("inf", "-inf"));
        assert!(!same("inf", "1e308"));
        assert!(!same("1.0", "inf"));
        assert!(same("nan", "nan"));
        assert!(same("[nan, 0.1]", "[nan, 0.1000000001]"));
        for got in ["0.0", "inf", "None", "'nan'", "[nan]"] {
            assert!(!same("nan", got), "{got}");
            assert!(!same(got, "nan"), "{got}");
        }
        assert!(!check("1.0", "nan", 1e-4, Compare::Equal));
        assert!(check(
            "complex(1, 2)",
            "complex(1.000001, 2)",
            1e-4,
            Compare::Equal
        ));
    }

    #[test]
    fn set_comparison_ignores_order_and_repetition() {
        assert!(check("(4, 5)", "[5, 4, 4]", 0.0, Compare::Set));
        assert!(check("['a', 'b']", "'ab'", 0.0, Compare::Set));
        assert!(!check("(4, 5)", "[5]", 0.0, Compare::Set));
        assert!(!check("(4, 5)", "9", 0.0, Compare::Set));
        assert!(!check("[]", "None", 0.0, Compare::Set));
        assert!(!check("(4, 5)", "[[4], [5]]", 0.0, Compare::Set));
    }

    #[test]
    fn not_none_compares_truth_values() {
        for (expected, got, passes) in [
            ("True", "True", true),
            ("True", "'a match'", true),
            ("True", "False", false),
            ("True", "None", false),
            ("False", "None", true),
            ("False", "False", true),
            ("False", "0", false),
            ("'a match'", "True", true),
            ("None", "False", true),
        ] {
            assert_eq!(
                check(expected, got, 0.0, Compare::NotNone),
                passes,
                "{expected} and {got}"
            );
        }
        assert!(super::passes(
            &[],
            &Value::Bool(true),
            &Value::Opaque("Match".to_owned()),
            0.0,
            Compare::NotNone
        ));
    }
}
