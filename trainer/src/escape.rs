//! Makes text from a model, a user or a service safe for terminals, logs, HTML, SVG, CSV and Markdown.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Escapes text for element content and quoted attributes. Control characters, which HTML cannot hold, become their pictures (␀, ␛, …), so that a reader sees them.
pub(crate) fn html(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            _ => show(&mut out, c),
        }
    }
    out
}

/// The text with characters replaced that a terminal or an editor would obey instead of showing.
pub fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    text.chars().for_each(|c| show(&mut out, c));
    out
}

/// As [`plain`], in one line, so that foreign text cannot look like a line of this program.
pub fn line(text: &str) -> String {
    plain(text).replace(['\n', '\t', '\u{2028}', '\u{2029}'], " ")
}

/// A block of code in Markdown that the text cannot end.
pub(crate) fn fenced(text: &str) -> String {
    let text = plain(text.trim_matches('\n'));
    let fence = "`".repeat(longest_run(&text).max(2) + 1);
    format!("{fence}text\n{text}\n{fence}")
}

/// Code within a line of Markdown. Line breaks become spaces.
pub(crate) fn code(text: &str) -> String {
    let text = line(text);
    let tick = "`".repeat(longest_run(&text) + 1);
    let touches_tick = text.starts_with('`') || text.ends_with('`');
    let pad = if touches_tick { " " } else { "" };
    format!("{tick}{pad}{text}{pad}{tick}")
}

/// The length of the longest run of backticks.
fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

fn show(out: &mut String, c: char) {
    match c {
        '\n' | '\t' => out.push(c),
        '\u{0}'..='\u{1f}' => out.push(char::from_u32(0x2400 + c as u32).unwrap_or('\u{fffd}')),
        '\u{7f}'..='\u{9f}' => out.push('\u{2421}'),
        // Characters that would change the direction of the page around the text. Other control characters need no care.
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
            let _ = write!(out, "\u{27e8}U+{:04X}\u{27e9}", c as u32);
        }
        '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
        _ => out.push(c),
    }
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
    fn control_and_direction_characters_are_shown_and_not_obeyed() {
        for (text, safe) in [
            (
                "</pre><script>alert('x')&\"y\"",
                "&lt;/pre&gt;&lt;script&gt;alert(&#39;x&#39;)&amp;&quot;y&quot;",
            ),
            ("a\u{0}\u{1b}[31m\r\n\t", "a␀␛[31m␍\n\t"),
            ("\u{202e}abc", "⟨U+202E⟩abc"),
        ] {
            assert_eq!(html(text), safe);
        }
        // No text ends its own fence.
        assert_eq!(fenced("\na```b\u{1b}\n"), "````text\na```b␛\n````");
        assert_eq!(fenced("a"), "```text\na\n```");
        assert_eq!([code("a`b\nc"), code("`")], ["``a`b c``", "`` ` ``"]);
        // Fields are quoted where needed, and formulas disarmed.
        for (field, written) in [
            ("plain", "plain"),
            ("-1.5", "-1.5"),
            ("a,\"b\"\nc", "\"a,\"\"b\"\"\nc\""),
            ("=HYPERLINK(1)", "\"'=HYPERLINK(1)\""),
        ] {
            assert_eq!(csv(field), written);
        }
    }

    proptest! {
        #[test]
        fn no_text_escapes_from_an_element_or_an_attribute(text in ".*") {
            let safe = html(&text);
            prop_assert!(!safe.contains(['<', '>', '"', '\'']));
            prop_assert!(safe.chars().all(|c| c == '\n' || c == '\t' || !c.is_control()));
        }

        #[test]
        fn a_csv_field_is_read_back(text in "[^\r=+@\t-].*") {
            let field = csv(&text);
            let back = match field.strip_prefix('"').and_then(|f| f.strip_suffix('"')) {
                Some(inside) => inside.replace("\"\"", "\""),
                None => field.to_string(),
            };
            prop_assert_eq!(back, text);
        }
    }
}
