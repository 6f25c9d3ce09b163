//! The special acceptance rules that EvalPlus has for a few tasks, in addition to the expected value.

use datasets::Value;

/// Whether `got` is, within `atol`, the surface of a square pyramid with the base `args[0]` and the height `args[1]`. The surface is the base plus four triangles,
/// rounded to a whole number.
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

    fn value(text: &str) -> Value {
        Value::parse_python(text).unwrap()
    }

    #[test]
    fn each_rule_accepts_what_it_says_and_nothing_else() {
        // The second argument may be the height of the pyramid: 3² + 2·3·√(1.5² + 4²) = 34.63…
        let pyramid = |args: &[Value], got: &Value| pyramid_surface(args, got, 0.0);
        let root = |args: &[Value], got: &Value| root(args, got, 1e-4);
        type Rule<'a> = &'a dyn Fn(&[Value], &Value) -> bool;
        let cubic = "[[-6, 11, -6, 1]]";
        for (rule, args, passing, failing) in [
            (
                &pyramid as Rule<'_>,
                "[3, 4]",
                "35 35.0",
                "33 34.63 '35' None nan",
            ),
            // Digits are padded to one length.
            (&digit_distance, "[123, 9]", "9", "8"),
            (&digit_distance, "[-1, 9]", "", "8"),
            (&digit_distance, "[1.0, 9]", "", "8"),
            (
                &root,
                cubic,
                "1 2.0 3.000001",
                "1.1 nan inf complex(1,0) [1] None 1e308",
            ),
        ] {
            let Value::List(args) = value(args) else {
                panic!("{args}");
            };
            for (texts, passes) in [(passing, true), (failing, false)] {
                for got in texts.split_whitespace() {
                    assert_eq!(rule(&args, &value(got)), passes, "{args:?} {got}");
                }
            }
        }
    }
}
