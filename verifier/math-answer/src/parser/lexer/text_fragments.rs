//! Text after a value that contains further values: `4\text{ or 5}`.

use super::count;

/// A part of such a text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Fragment<'a> {
    /// "and" or "or".
    Separator(&'a str),
    Comma,
    /// Text that is mathematics outside of `\text` too.
    Formula(&'a str),
    Words(&'a str),
}

/// The parts of a text with "and", "or" or a comma between them or before the first. `None` if it has no separator, or nothing else.
pub(super) fn fragments(text: &str) -> Option<Vec<Fragment<'_>>> {
    if text.contains(['\\', '{', '}', '$']) {
        return None;
    }
    let (mut fragments, mut from, mut at) = (Vec::new(), 0, 0);
    let (mut separated, mut has_content) = (false, false);
    while at < text.len() {
        let rest = &text[at..];
        let word = count(rest, char::is_alphanumeric);
        let separator = match &rest[..word] {
            "" if rest.starts_with([',', ';']) => Some((Fragment::Comma, 1)),
            one if one.eq_ignore_ascii_case("and") || one.eq_ignore_ascii_case("or") => {
                Some((Fragment::Separator(one), word))
            }
            _ => None,
        };
        match separator {
            Some((separator, length)) => {
                has_content |= push_part(&mut fragments, &text[from..at]);
                fragments.push(separator);
                separated = true;
                at += length;
                from = at;
            }
            None => at += word.max(rest.chars().next().map_or(1, char::len_utf8)),
        }
    }
    has_content |= push_part(&mut fragments, &text[from..]);
    (separated && has_content).then_some(fragments)
}

/// Adds the text between two separators: mathematics, words, or a number with words. Returns whether there is any.
fn push_part<'a>(fragments: &mut Vec<Fragment<'a>>, text: &'a str) -> bool {
    let text = text.trim();
    if text.is_empty() {
        return false;
    }
    let of_letters = text
        .split(|c: char| !c.is_alphabetic())
        .all(|run| run.chars().count() < 2);
    let number = count(text, |c| c.is_ascii_digit() || matches!(c, '.' | '/' | '-'));
    let (before, rest) = text.split_at(number);
    if of_letters {
        fragments.push(Fragment::Formula(text));
    } else if number > 0 && rest.starts_with(char::is_whitespace) {
        fragments.push(Fragment::Formula(before));
        fragments.push(Fragment::Words(rest.trim()));
    } else {
        fragments.push(Fragment::Words(text));
    }
    true
}

#[cfg(test)]
mod tests {
    use super::Fragment::{Comma, Formula, Separator, Words};
    use super::*;

    #[test]
    fn text_is_split_at_separators_that_are_whole_words() {
        let [and, or] = ["and", "or"].map(Separator);
        for (text, parts) in [
            ("or 5", vec![or, Formula("5")]),
            ("or five", vec![or, Words("five")]),
            (
                ", 5, and 6",
                vec![Comma, Formula("5"), Comma, and, Formula("6")],
            ),
            (
                "cm or 5 mm",
                vec![Words("cm"), or, Formula("5"), Words("mm")],
            ),
        ] {
            assert_eq!(fragments(text), Some(parts), "{text}");
        }
        for whole in ["and", ", or", "oranges", "sand", "to 6", ""] {
            assert_eq!(fragments(whole), None, "{whole}");
        }
    }
}
