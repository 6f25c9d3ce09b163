//! The special acceptance rules that EvalPlus has for a few tasks, in addition to the expected value.

use datasets::Value;

/// Whether `got` is, within `atol`, the surface of a square pyramid with the base `args[0]` and the height `args[1]`: the base plus four triangles, rounded to a whole
/// number.
pub(super) fn pyramid_surface(args: &[Value], got: &Value, atol: f64) -> bool {
    let [base, height] = args else { return false };
    let (Some(base), Some(height), Some(got)) = (real(base), real(height), real(got)) else {
        return false;
    };
    let slant = ((base / 2.0).powi(2) + height.powi(2)).sqrt();
    let surface = (base * base + 4.0 * (base * slant) / 2.0).round_ties_even();
    (got - surface).abs() <= atol
}

/// Whether `got` is the sum of the absolute differences between the digits of the two arguments, the shorter one padded with zeros on the left.
pub(super) fn digit_distance(args: &[Value], got: &Value) -> bool {
    let [Value::Int(a), Value::Int(b)] = args else {
        return false;
    };
    let (a, b) = (a.to_string(), b.to_string());
    // A sign is not a digit.
    if a.starts_with('-') || b.starts_with('-') {
        return false;
    }
    let length = a.len().max(b.len());
    let padded = |digits: &str| format!("{digits:0>length$}").into_bytes();
    let distance: u64 = padded(&a)
        .iter()
        .zip(&padded(&b))
        .map(|(a, b)| u64::from(a.abs_diff(*b)))
        .sum();
    real(got).is_some_and(|got| got == distance as f64)
}

/// Whether the polynomial with the coefficients `args[0]`, constant term first, is at most `atol` from 0 at `got`.
pub(super) fn root(args: &[Value], got: &Value, atol: f64) -> bool {
    let [Value::List(coefficients)] = args else {
        return false;
    };
    let Some(x) = real(got) else { return false };
    let terms: Option<Vec<f64>> = coefficients
        .iter()
        .enumerate()
        .map(|(power, coefficient)| Some(real(coefficient)? * x.powf(power as f64)))
        .collect();
    terms.is_some_and(|terms| terms.iter().sum::<f64>().abs() <= atol)
}

/// A finite real number.
fn real(value: &Value) -> Option<f64> {
    match value {
        Value::Bool(b) => Some(f64::from(u8::from(*b))),
        Value::Int(n) => Some(n.to_f64().value()),
        Value::Float(x) => Some(*x),
        _ => None,
    }
    .filter(|x| x.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn python(text: &str) -> Vec<Value> {
        match Value::parse_python(text).unwrap() {
            Value::List(items) => items,
            other => vec![other],
        }
    }

    fn value(text: &str) -> Value {
        Value::parse_python(text).unwrap()
    }

    #[test]
    fn the_second_argument_may_be_the_height_of_the_pyramid() {
        // 3² + 2·3·√(1.5² + 4²) = 34.63…
        assert!(pyramid_surface(&python("[3, 4]"), &value("35"), 0.0));
        assert!(pyramid_surface(&python("[3, 4]"), &value("35.0"), 0.0));
        for got in ["33", "34.63", "'35'", "None", "nan"] {
            assert!(
                !pyramid_surface(&python("[3, 4]"), &value(got), 0.0),
                "{got}"
            );
        }
    }

    #[test]
    fn digits_are_padded_to_one_length() {
        assert!(digit_distance(&python("[123, 9]"), &value("9")));
        assert!(!digit_distance(&python("[123, 9]"), &value("8")));
        assert!(!digit_distance(&python("[-1, 9]"), &value("8")));
        assert!(!digit_distance(&python("[1.0, 9]"), &value("8")));
    }

    #[test]
    fn any_number_at_which_the_polynomial_is_almost_zero_is_a_root() {
        let cubic = vec![Value::List(python("[-6, 11, -6, 1]"))];
        for got in ["1", "2.0", "3.000001"] {
            assert!(root(&cubic, &value(got), 1e-4), "{got}");
        }
        for got in ["1.1", "nan", "inf", "complex(1, 0)", "[1]", "None", "1e308"] {
            assert!(!root(&cubic, &value(got), 1e-4), "{got}");
        }
    }
}
