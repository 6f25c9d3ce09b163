//! Converts JSON numbers, which a client gives as answers, to decimal text.

/// Maximum absolute value of an exponent.
const MAX_EXPONENT: usize = 1_000;

/// A JSON number as it was written, with an exponent written out, because the math parser reads `e` as Euler's number.
///
/// # Errors
/// If the exponent is too large.
pub fn from_json_number(number: &str) -> Result<String, &'static str> {
    let Some((significand, exponent)) = number.split_once(['e', 'E']) else {
        return Ok(number.to_owned());
    };
    const TOO_LARGE: &str = "its exponent is too large; give the answer as a string";
    let exponent: i64 = exponent.parse().map_err(|_| TOO_LARGE)?;
    let shift = usize::try_from(exponent.unsigned_abs()).unwrap_or(usize::MAX);
    if shift > MAX_EXPONENT {
        return Err(TOO_LARGE);
    }
    let (sign, digits) = match significand.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", significand),
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let zeros = "0".repeat(shift);
    let all = format!("{zeros}{whole}{part}{zeros}");
    let (whole, part) = if exponent < 0 {
        let (whole, part) = all.split_at(whole.len());
        (whole, &part[..part.len() - shift])
    } else {
        let (whole, part) = all.split_at(2 * shift + whole.len());
        (whole, part.trim_end_matches('0'))
    };
    let whole = match whole.trim_start_matches('0') {
        "" => "0",
        whole => whole,
    };
    Ok(if part.is_empty() {
        format!("{sign}{whole}")
    } else {
        format!("{sign}{whole}.{part}")
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_number_stays_as_written_except_that_an_exponent_is_expanded() {
        for (number, written) in [
            ("2", "2"),
            ("-0.50", "-0.50"),
            ("12345678901234567890123", "12345678901234567890123"),
            ("1e5", "100000"),
            ("1E+2", "100"),
            ("-2.50e1", "-25"),
            ("1.25e1", "12.5"),
            ("1e-7", "0.0000001"),
            ("12.5E-1", "1.25"),
            ("0e0", "0"),
            ("0.001e2", "0.1"),
        ] {
            let found = from_json_number(number);
            assert_eq!(found.as_deref(), Ok(written), "{number}");
        }
        for far in ["1e1001", "1e-1001", "1e99999999999999999999"] {
            assert!(from_json_number(far).is_err(), "{far}");
        }
    }

    proptest! {
        #[test]
        fn an_expanded_number_has_the_same_value(number in r"-?(0|[1-9][0-9]{0,5})(\.[0-9]{1,5})?[eE][+-]?[0-9]{1,2}") {
            let value: f64 = number.parse().unwrap();
            prop_assert_eq!(from_json_number(&number).unwrap().parse::<f64>().unwrap(), value);
        }
    }
}
