//! Answers that consist of text only.

use super::TEXT;

/// The content of a command such as `\text`, if it is the whole answer: `\text{12 ways}`.
pub(crate) fn whole_text(text: &str) -> Option<&str> {
    let (inside, rest) = leading_text(text)?;
    rest.is_empty().then_some(inside)
}

/// The content of a command such as `\text` at the beginning of an answer, and the text after it.
pub(crate) fn leading_text(text: &str) -> Option<(&str, &str)> {
    let command = text.trim().strip_prefix('\\')?;
    let name = TEXT
        .split(' ')
        .chain(["mathbf"])
        .filter(|name| command.starts_with(name))
        .find(|name| command[name.len()..].trim_start().starts_with('{'))?;
    let inside = command[name.len()..].trim_start().strip_prefix('{')?;
    let (inside, rest) = inside.split_once('}')?;
    (!inside.contains('{')).then_some((inside.trim(), rest))
}

/// For an answer in text that begins with a number, the number followed by the rest as text.
pub(crate) fn counted_text(text: &str) -> Option<String> {
    let (number, words) = whole_text(text)?.split_once(char::is_whitespace)?;
    let digits = |c: char| c.is_ascii_digit() || matches!(c, '.' | ',' | '/' | '-');
    let letters = |c: char| c.is_alphabetic() || matches!(c, ' ' | '.' | '-');
    let splits = number.contains(|c: char| c.is_ascii_digit())
        && number.chars().all(digits)
        && words.chars().all(letters);
    splits.then(|| format!(r"{number}\text{{ {words}}}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_single_text_command_is_a_whole_text() {
        assert_eq!(whole_text(r"\textbf{12 ways}"), Some("12 ways"));
        assert_eq!(whole_text(r"\text{A} or \text{B}"), None);
        assert_eq!(whole_text(r"\textcolor{12}"), None);
        assert_eq!(
            counted_text(r"\text{12 ways.}").as_deref(),
            Some(r"12\text{ ways.}")
        );
        for text in [
            r"\text{12}",
            r"\text{12 or 13}",
            r"\text{4:30 pm}",
            "12 ways",
        ] {
            assert_eq!(counted_text(text), None, "{text}");
        }
    }
}
