//! Exact numbers, read from the normal form of an answer.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{One as _, Zero as _};

/// Numbers with more digits than this are compared as text.
const MAX_DIGITS: usize = 400;
/// A power of ten beyond this is not computed.
const MAX_EXPONENT: u32 = 400;

/// The number that `text` writes: an integer, a decimal, a fraction, a mixed number, or a decimal times a power of ten.
pub(super) fn number(text: &str) -> Option<BigRational> {
    if text.len() > 4 * MAX_DIGITS {
        return None;
    }
    let text = text.trim();
    let (negative, text) = match text.as_bytes().first()? {
        b'-' => (true, text[1..].trim_start()),
        b'+' => (false, text[1..].trim_start()),
        _ => (false, text),
    };
    let value = unsigned(text)?;
    Some(if negative { -value } else { value })
}

fn unsigned(text: &str) -> Option<BigRational> {
    if let Some(at) = text.find("\\frac") {
        let fraction = fraction(&text[at..])?;
        return match &text[..at] {
            "" => Some(fraction),
            whole => mixed(whole.trim(), fraction),
        };
    }
    if let Some((above, below)) = text.split_once('/') {
        return match above.split_once(' ') {
            Some((whole, above)) => mixed(whole, ratio(decimal(above)?, decimal(below)?)?),
            None => ratio(decimal(above)?, signed(below)?),
        };
    }
    if let Some((mantissa, exponent)) = text
        .split_once("*10^{")
        .and_then(|(mantissa, rest)| Some((mantissa, rest.strip_suffix('}')?)))
    {
        return Some(decimal(mantissa)? * power_of_ten(exponent.parse().ok()?)?);
    }
    decimal(text)
}

/// `\frac{a}{b}` and nothing after it, with signed decimals above and below.
fn fraction(text: &str) -> Option<BigRational> {
    let (above, below) = text
        .strip_prefix("\\frac{")?
        .strip_suffix('}')?
        .split_once("}{")?;
    ratio(signed(above)?, signed(below)?)
}

fn ratio(above: BigRational, below: BigRational) -> Option<BigRational> {
    (!below.is_zero()).then(|| above / below)
}

/// A whole number followed by a proper fraction.
fn mixed(whole: &str, fraction: BigRational) -> Option<BigRational> {
    let whole = decimal(whole).filter(BigRational::is_integer)?;
    (fraction >= BigRational::zero() && fraction < BigRational::one()).then(|| whole + fraction)
}

fn signed(text: &str) -> Option<BigRational> {
    match text.strip_prefix('-') {
        Some(rest) => decimal(rest).map(|value| -value),
        None => decimal(text),
    }
}

/// Digits with an optional point, and commas where they part thousands.
fn decimal(text: &str) -> Option<BigRational> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    if whole.len() + decimals.len() == 0 || !decimals.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let mut groups = whole.split(',');
    let first = groups.next()?;
    let mut digits = first.to_owned();
    for group in groups {
        // 1,234 but neither 12,34 nor 0,123 nor 1234,567.
        if group.len() != 3 || first.is_empty() || first.len() > 3 || first.starts_with('0') {
            return None;
        }
        digits.push_str(group);
    }
    digits.push_str(decimals);
    if digits.len() > MAX_DIGITS || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let value: BigInt = digits.parse().ok()?;
    let scale = u32::try_from(decimals.len()).ok()?;
    Some(BigRational::new(value, BigInt::from(10).pow(scale)))
}

fn power_of_ten(exponent: i64) -> Option<BigRational> {
    let size = u32::try_from(exponent.unsigned_abs())
        .ok()
        .filter(|size| *size <= MAX_EXPONENT)?;
    let power = BigRational::from_integer(BigInt::from(10).pow(size));
    Some(if exponent < 0 { power.recip() } else { power })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rational(above: i64, below: i64) -> Option<BigRational> {
        Some(BigRational::new(above.into(), below.into()))
    }

    #[test]
    fn every_written_form_has_its_exact_value() {
        for (text, above, below) in [
            ("42", 42, 1),
            ("-3", -3, 1),
            (".5", 1, 2),
            ("3.", 3, 1),
            ("1,234,567", 1_234_567, 1),
            ("0.1", 1, 10),
            ("3/4", 3, 4),
            ("-\\frac{35}{9}", -35, 9),
            ("\\frac{-1}{2}", -1, 2),
            ("1\\frac{4}{5}", 9, 5),
            ("137\\frac{1}{2}", 275, 2),
            ("1 4/5", 9, 5),
            ("6.72*10^{-5}", 672, 10_000_000),
        ] {
            assert_eq!(number(text), rational(above, below), "{text}");
        }
    }

    #[test]
    fn what_is_no_number_has_no_value() {
        for text in [
            "",
            "-",
            ".",
            "1,2",
            "1,23",
            "0,123",
            "1,-2",
            "1/0",
            "\\frac{1}{0}",
            "x",
            "1.2.3",
            "2\\frac{3}{2}",
            "\\frac{1}{2}x",
            "1e5",
            "10 000",
            "52_{8}",
        ] {
            assert_eq!(number(text), None, "{text}");
        }
    }

    #[test]
    fn huge_numbers_are_not_computed() {
        assert_eq!(number("1*10^{999999999999}"), None);
        assert_eq!(number("1*10^{99999}"), None);
        assert_eq!(number(&"9".repeat(100_000)), None);
    }
}
