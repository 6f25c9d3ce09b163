//! Text behind a value that goes on to other values: `4\text{ or 5}`.

use super::count;

/// A part of such a text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Piece<'a> {
    /// "and" or "or".
    Separator(&'a str),
    Comma,
    /// What is mathematics without `\text`.
    Formula(&'a str),
    Words(&'a str),
}

/// The parts of a text with "and", "or" or a comma between, or before the rest; `None` where it has none of them, or nothing else.
pub(super) fn pieces(text: &str) -> Option<Vec<Piece<'_>>> {
    if text.contains(['\\', '{', '}', '$']) {
        return None;
    }
    let (mut pieces, mut from, mut at) = (Vec::new(), 0, 0);
    let (mut separated, mut held) = (false, false);
    while at < text.len() {
        let rest = &text[at..];
        let word = count(rest, char::is_alphanumeric);
        let separator = match &rest[..word] {
            "" if rest.starts_with([',', ';']) => Some((Piece::Comma, 1)),
            one if one.eq_ignore_ascii_case("and") || one.eq_ignore_ascii_case("or") => {
                Some((Piece::Separator(one), word))
            }
            _ => None,
        };
        match separator {
            Some((separator, length)) => {
                held |= part(&mut pieces, &text[from..at]);
                pieces.push(separator);
                separated = true;
                at += length;
                from = at;
            }
            None => at += word.max(rest.chars().next().map_or(1, char::len_utf8)),
        }
    }
    held |= part(&mut pieces, &text[from..]);
    (separated && held).then_some(pieces)
}

/// Adds what stands between two separators: mathematics, words, or a number with words. Whether there is anything.
fn part<'a>(pieces: &mut Vec<Piece<'a>>, text: &'a str) -> bool {
    let text = text.trim();
    if text.is_empty() {
        return false;
    }
    let of_letters = text
        .split(|c: char| !c.is_alphabetic())
        .all(|run| run.chars().count() < 2);
    let number = count(text, |c| c.is_ascii_digit() || matches!(c, '.' | '/' | '-'));
    let (before, behind) = text.split_at(number);
    if of_letters {
        pieces.push(Piece::Formula(text));
    } else if number > 0 && behind.starts_with(char::is_whitespace) {
        pieces.push(Piece::Formula(before));
        pieces.push(Piece::Words(behind.trim()));
    } else {
        pieces.push(Piece::Words(text));
    }
    true
}

#[cfg(test)]
mod tests {
    use super::Piece::{Comma, Formula, Separator, Words};
    use super::*;

    #[test]
    fn text_between_values_is_separated_at_whole_words() {
        assert_eq!(pieces("or 5"), Some(vec![Separator("or"), Formula("5")]));
        assert_eq!(
            pieces("or five"),
            Some(vec![Separator("or"), Words("five")])
        );
        assert_eq!(
            pieces(", 5, and 6"),
            Some(vec![
                Comma,
                Formula("5"),
                Comma,
                Separator("and"),
                Formula("6")
            ])
        );
        assert_eq!(
            pieces("cm or 5 mm"),
            Some(vec![
                Words("cm"),
                Separator("or"),
                Formula("5"),
                Words("mm")
            ])
        );
        for whole in ["and", ", or", "oranges", "sand", "to 6", ""] {
            assert_eq!(pieces(whole), None, "{whole}");
        }
    }
}
