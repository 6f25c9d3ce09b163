//! What programs write as JSON that the parser refuses: a byte order mark, lone surrogates, and numbers that JSON does not have.

/// Python's numbers that JSON does not have, and their tagged form.
const NUMBERS: [(&str, &str); 3] = [
    ("NaN", r#"{"$float":"nan"}"#),
    ("Infinity", r#"{"$float":"inf"}"#),
    ("-Infinity", r#"{"$float":"-inf"}"#),
];

const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// The text without a byte order mark, and with each lone surrogate replaced by U+FFFD, as decoders of broken text do. `"\ud800"` is valid JSON, and some clients send it if
/// a completion was cut in the middle of a character. But it is not valid Unicode, so the parser would refuse the whole text. The text need not be UTF-8.
#[must_use]
pub fn repaired(mut text: Vec<u8>) -> Vec<u8> {
    if text.starts_with(BYTE_ORDER_MARK) {
        text.drain(..BYTE_ORDER_MARK.len());
    }
    replaced(&text).unwrap_or(text)
}

/// The text with each of Python's numbers that JSON does not have in the tagged form, such as `{"$float":"nan"}` for `NaN`. Apart from them, the text is JSON.
#[must_use]
pub fn with_tagged_numbers(text: &str) -> String {
    let mut tagged = String::with_capacity(text.len());
    let (mut rest, mut in_string) = (text, false);
    while let Some(first) = rest.chars().next() {
        let number = NUMBERS.iter().find(|(name, _)| rest.starts_with(name));
        let (part, written) = match (first, number) {
            (_, Some((name, written))) if !in_string => (name.len(), *written),
            ('\\', _) => {
                let escaped = rest[1..].chars().next().map_or(0, char::len_utf8);
                (1 + escaped, &rest[..=escaped])
            }
            _ => (first.len_utf8(), &rest[..first.len_utf8()]),
        };
        in_string ^= first == '"';
        tagged.push_str(written);
        rest = &rest[part..];
    }
    tagged
}

/// The parser's reason for refusing `text`. It names a number that JSON does not have, such as Python's `NaN`.
#[must_use]
pub fn reason(text: &[u8], error: &serde_json::Error) -> String {
    let message = error.to_string();
    match (unknown_number(text, error), message.split_once(" at line ")) {
        (Some(number), Some((_, place))) => {
            format!("JSON has no number `{number}`, at line {place}")
        }
        _ => message,
    }
}

/// The number at the error's place that only other languages have.
fn unknown_number<'a>(text: &'a [u8], error: &serde_json::Error) -> Option<&'a str> {
    let mut lines = text.split(|byte| *byte == b'\n');
    let line = lines.nth(error.line().checked_sub(1)?)?;
    let at = error.column().saturating_sub(1).min(line.len());
    let is_inner = |byte: &&u8| byte.is_ascii_alphabetic() || **byte == b'-';
    let start = at - line[..at].iter().rev().take_while(is_inner).count();
    let length = line[start..].iter().take_while(is_inner).count();
    let word = std::str::from_utf8(&line[start..start + length]).ok()?;
    let bare = word.trim_start_matches('-').to_ascii_lowercase();
    matches!(&*bare, "nan" | "inf" | "infinity").then_some(word)
}

/// `None` if there is no lone surrogate.
fn replaced(body: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let (mut copied, mut at) = (0, 0);
    while at < body.len() {
        if body[at] != b'\\' {
            at += 1;
            continue;
        }
        let unit = escape(&body[at..]);
        let next = body.get(at + 6..).and_then(escape);
        match (unit, next) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => at += 12,
            (Some(0xd800..=0xdfff), _) => {
                out.extend_from_slice(&body[copied..at]);
                out.extend_from_slice(b"\\ufffd");
                at += 6;
                copied = at;
            }
            _ => at += 2,
        }
    }
    if copied == 0 {
        return None;
    }
    out.extend_from_slice(&body[copied..]);
    Some(out)
}

/// The code unit of the `\uXXXX` that `text` begins with.
fn escape(text: &[u8]) -> Option<u16> {
    let digits = text.get(..6)?.strip_prefix(b"\\u")?;
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_json_does_not_have_is_named() {
        for (text, number) in [
            ("{\"a\": NaN}", Some("NaN")),
            ("{\"a\": [1,\n -Infinity]}", Some("-Infinity")),
            ("{\"é\": Infinity}", Some("Infinity")),
            ("[nan]", Some("nan")),
            ("NaN", Some("NaN")),
            ("{\"NaN\": }", None),
            ("[None]", None),
            ("", None),
        ] {
            let error = serde_json::from_str::<serde_json::Value>(text).unwrap_err();
            assert_eq!(unknown_number(text.as_bytes(), &error), number, "{text}");
        }
    }

    #[test]
    fn numbers_that_json_does_not_have_are_tagged_outside_of_strings() {
        assert_eq!(
            with_tagged_numbers(r#"{"NaN\\": [NaN, -Infinity, "é\"NaN"], "a": Infinity}"#),
            r#"{"NaN\\": [{"$float":"nan"}, {"$float":"-inf"}, "é\"NaN"], "a": {"$float":"inf"}}"#
        );
    }

    #[test]
    fn lone_surrogates_are_replaced_and_pairs_stay() {
        for (body, expected) in [
            (r#""\ud800""#, Some(r#""\ufffd""#)),
            (r#""a\uDFFFb""#, Some(r#""a\ufffdb""#)),
            (r#""\ud83d\ud83d\ude00""#, Some(r#""\ufffd\ud83d\ude00""#)),
            (r#""\ude00\ud83d""#, Some(r#""\ufffd\ufffd""#)),
            (r#""\\ud800""#, None),
            (r#""\\\ud800""#, Some(r#""\\\ufffd""#)),
            (r#""\ud83d\ude00 \u00e9""#, None),
            (r#""\ud8""#, None),
            (r"\", None),
            ("", None),
            ("\u{feff}{}", None),
        ] {
            let got = replaced(body.as_bytes()).map(|bytes| String::from_utf8(bytes).unwrap());
            assert_eq!(got.as_deref(), expected, "{body}");
            let whole = expected.unwrap_or(body.trim_start_matches('\u{feff}'));
            assert_eq!(repaired(body.into()), whole.as_bytes());
        }
    }
}
