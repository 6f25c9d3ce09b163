//! Replaces lone surrogates in JSON. `"\ud800"` is valid JSON, and some clients send it if a completion was cut in the middle of a character. But it is not valid Unicode,
//! so the JSON parser would refuse the whole body.

/// The body with each lone surrogate replaced by U+FFFD, as decoders of broken text do; `None` if it has none.
pub(crate) fn replaced(body: &[u8]) -> Option<Vec<u8>> {
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
        ] {
            let got = replaced(body.as_bytes()).map(|bytes| String::from_utf8(bytes).unwrap());
            assert_eq!(got.as_deref(), expected, "{body}");
        }
    }
}
