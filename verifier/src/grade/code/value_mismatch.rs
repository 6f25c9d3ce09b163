//! Compares encoded values: of a call's result with the expected one.

use datasets::excerpt::excerpt;
use datasets::{Compare, Value};
use sandboxes::is_same_encoding;
use serde_json::{Value as Json, json};

use super::compare::Rule;

/// Describes how `got`, the result of `call`, differs from the expected value; `None` if it passes.
pub(super) fn value_mismatch(call: &str, expected: &str, got: &str, rule: Rule) -> Option<Json> {
    // Most correct results have the same encoding as the expected one. An opaque object must not equal itself.
    let is_plain = |text: &str| !text.contains("\"$opaque\"");
    let same = rule.compare != Compare::Root
        && is_same_encoding(expected, got)
        && is_plain(expected)
        && is_plain(got);
    if same || (is_comparable_size(expected, got) && is_passed(call, expected, got, rule)) {
        return None;
    }
    let mut detail =
        json!({ "args": excerpt(call), "expected": excerpt(expected), "got": excerpt(got) });
    if let Some(kind) = without_encoding(got) {
        detail["no_encoding"] = json!(excerpt(kind));
    }
    Some(detail)
}

fn is_passed(call: &str, expected: &str, got: &str, rule: Rule) -> bool {
    let (Ok(expected), Ok(got)) = (Value::parse_json(expected), Value::parse_json(got)) else {
        return false;
    };
    let args = match rule.compare {
        Compare::Equal | Compare::Set | Compare::NotNone => Vec::new(),
        Compare::PyramidSurface | Compare::DigitDistance | Compare::Root => {
            match Value::parse_json(call) {
                Ok(Value::List(args)) => args,
                _ => return false,
            }
        }
    };
    rule.passes(&args, &expected, &got)
}

/// Whether `got` is short enough, in bytes and in elements, to equal `expected`. A longer value is not parsed: a program may return 16 MiB for each test, and parsing
/// costs time and memory that its fuel does not cover. The longest value that equals a short one is an integer of 309 digits, for `1e308`.
pub(super) fn is_comparable_size(expected: &str, got: &str) -> bool {
    let commas = |text: &str| text.bytes().filter(|&byte| byte == b',').count();
    got.len() <= (64 << 10) + 64 * expected.len()
        && (got.len() <= 64 << 10 || commas(got) <= 10_000 + 4 * commas(expected))
}

/// The type of the first object in an encoded value that has no encoding.
pub(super) fn without_encoding(value: &str) -> Option<&str> {
    // Inside a string, the quotes would be escaped by backslashes.
    let (_, kind) = value.split_once("{\"$opaque\":\"")?;
    kind.split('"').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program that stops in a test is run again for the tests after it, with the whole room for values.
    #[test]
    fn a_value_in_full_passes_if_the_digest_of_the_same_value_is_expected() {
        let hash = blake3::hash(b"[1,2]");
        let digest = format!("{{\"$digest\":\"5 bytes, BLAKE3 {hash}\"}}");
        let passes = |expected: &str, got: &str, compare| {
            let rule = Rule {
                compare,
                atol: 0.0,
                from_json: false,
            };
            value_mismatch("[]", expected, got, rule).is_none()
        };
        assert!(passes(&digest, "[1,2]", Compare::Equal));
        assert!(passes("[1,2]", &digest, Compare::Equal));
        assert!(!passes(&digest, "[1,3]", Compare::Equal));
        assert!(!passes(&digest, "[1,2]", Compare::Root));
    }

    #[test]
    fn a_value_far_longer_than_the_expected_one_is_not_parsed() {
        let million = format!("[{}]", vec!["2"; 1 << 20].join(","));
        for (expected, got) in [
            ("[1]", million.as_str()),
            (&"7".repeat(10_000), &million),
            ("1", &"7".repeat(70_000)),
        ] {
            assert!(!is_comparable_size(expected, got));
        }
        let ten_thousand = format!("[{}]", vec!["4"; 10_000].join(","));
        for (expected, got) in [
            (&million[..], &million.replace('2', "2.0")),
            ("1e+308", &"9".repeat(309)),
            ("[4,5]", &ten_thousand),
        ] {
            assert!(is_comparable_size(expected, got));
        }
    }
}
