//! Text that a model or a user wrote, made safe for HTML, SVG and CSV.

use std::borrow::Cow;
use std::fmt::Write as _;

/// For element content and quoted attributes alike. Control characters, which HTML cannot hold, become their pictures (␀, ␛, …),
/// so that a reader sees that they were there.
pub(crate) fn html(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            '\u{0}'..='\u{1f}' => {
                out.push(char::from_u32(0x2400 + c as u32).unwrap_or('\u{fffd}'));
            }
            '\u{7f}'..='\u{9f}' => out.push('\u{2421}'),
            // Overrides that would reorder the page around the text; others than these need no care.
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                let _ = write!(out, "\u{27e8}U+{:04X}\u{27e9}", c as u32);
            }
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            _ => out.push(c),
        }
    }
    out
}

/// A field of a CSV file (RFC 4180). A field that a spreadsheet would run as a formula gets an apostrophe before it.
pub(crate) fn csv(field: &str) -> Cow<'_, str> {
    let formula =
        field.starts_with(['=', '+', '-', '@', '\t', '\r']) && field.parse::<f64>().is_err();
    if !formula && !field.contains([',', '"', '\n', '\r']) {
        return Cow::Borrowed(field);
    }
    let guard = if formula { "'" } else { "" };
    Cow::Owned(format!("\"{guard}{}\"", field.replace('"', "\"\"")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn markup_in_a_completion_stays_text() {
        assert_eq!(
            html("</pre><script>alert('x')&\"y\""),
            "&lt;/pre&gt;&lt;script&gt;alert(&#39;x&#39;)&amp;&quot;y&quot;"
        );
    }

    #[test]
    fn control_and_direction_characters_are_shown_not_obeyed() {
        assert_eq!(html("a\u{0}\u{1b}[31m\r\n\t"), "a␀␛[31m␍\n\t");
        assert_eq!(html("\u{202e}abc"), "⟨U+202E⟩abc");
    }

    #[test]
    fn csv_quotes_what_needs_it_and_disarms_formulas() {
        assert_eq!(csv("plain"), "plain");
        assert_eq!(csv("-1.5"), "-1.5");
        assert_eq!(csv("a,\"b\"\nc"), "\"a,\"\"b\"\"\nc\"");
        assert_eq!(csv("=HYPERLINK(1)"), "\"'=HYPERLINK(1)\"");
    }

    proptest! {
        #[test]
        fn no_text_escapes_from_an_element_or_an_attribute(text in ".*") {
            let safe = html(&text);
            prop_assert!(!safe.contains(['<', '>', '"', '\'']));
            prop_assert!(safe.chars().all(|c| c == '\n' || c == '\t' || !c.is_control()));
        }

        #[test]
        fn a_csv_field_reads_back(text in "[^\r=+@\t-].*") {
            let field = csv(&text);
            let back = match field.strip_prefix('"').and_then(|f| f.strip_suffix('"')) {
                Some(inside) => inside.replace("\"\"", "\""),
                None => field.to_string(),
            };
            prop_assert_eq!(back, text);
        }
    }
}
