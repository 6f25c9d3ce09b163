//! Choices with what they stand for: `(C) 7`, `C) 7`, `Option C`.

use crate::read::lex::{leading_text, whole_text};
use crate::read::parse::{Commas, Letters, parse_answer};
use crate::read::trailing_words::parse_trailing_words;
use crate::read::unit::{Measure, measure};
use crate::syntax::Expr;

/// Longer answers are no choices.
const MAX_LENGTH: usize = 256;

/// Words before a choice's letter.
const CHOICE_WORDS: [&str; 3] = ["option", "choice", "answer"];

/// What announces an answer.
const ANNOUNCEMENTS: [&str; 6] = [
    "the final answer is",
    "the answer is",
    "final answer",
    "answer is",
    "the answer",
    "answer",
];

/// Words that leave open which choice is meant, or deny one, and commands that do.
const HEDGES: [&str; 24] = [
    "or",
    "and",
    "nor",
    "not",
    "but",
    "either",
    "neither",
    "both",
    "is",
    "isn",
    "are",
    "wrong",
    "incorrect",
    "false",
    "maybe",
    "perhaps",
    "possibly",
    "probably",
    "unless",
    "except",
    "if",
    "lor",
    "land",
    "vee",
];

/// Whether one is a choice's letter, and the other that choice with its value, or named as one.
pub(crate) fn same_choice(first: &str, second: &str) -> bool {
    let same = |letter: &str, choice: &str| {
        let letter = lone_letter(letter);
        letter.is_some() && letter == labelled_choice(choice)
    };
    same(first, second) || same(second, first)
}

/// The value behind the letter of a choice in brackets, or behind words that announce it: 5 of `\textbf{(C)}\ 5`.
///
/// Without a command of text, `(C)` may be a factor, unless it is a choice of the question.
pub(crate) fn value_after_label<'a>(text: &'a str, question: &str) -> Option<&'a str> {
    if text.len() > MAX_LENGTH {
        return None;
    }
    let inside = whole_text(text);
    let text = inside.unwrap_or(text.trim());
    let (label, value) = leading_text(text)
        .or_else(|| split_announcement(text))
        .or_else(|| text.split_at_checked(BRACKETED_LETTER_LENGTH))?;
    let is_choice = matches!(label.as_bytes(), [b'(', b'A'..=b'E', b')'])
        && (inside.is_some() || text.starts_with('\\') || question.contains(label));
    let is_announcement =
        split_announcement(label).is_some_and(|(_, rest)| rest.is_empty()) || names_value(label);
    let is_value =
        || value.contains(char::is_alphanumeric) && value_after_label(value, question).is_none();
    ((is_choice || is_announcement) && is_value()).then_some(value)
}

/// Whether it says of what a value is: `Center:`.
fn names_value(label: &str) -> bool {
    label.strip_suffix(':').is_some_and(|name| {
        measure(name) == Measure::Words
            && parse_trailing_words(name).is_some_and(|trailing| trailing.unlisted.is_empty())
    })
}

/// Bytes of a choice's letter in brackets.
const BRACKETED_LETTER_LENGTH: usize = 3;

/// Words that announce the answer, and what stands behind them.
fn split_announcement(text: &str) -> Option<(&str, &str)> {
    let begins = |words: &&&str| {
        text.get(..words.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(words))
    };
    let words = ANNOUNCEMENTS.iter().find(begins)?;
    let (label, rest) = text.split_at(words.len());
    let value = rest.strip_prefix(':').unwrap_or(rest);
    let ends_word = value.is_empty() || value.len() < rest.len() || value.starts_with(' ');
    ends_word.then_some((label, value))
}

/// The letter that is all of an answer.
fn lone_letter(text: &str) -> Option<char> {
    let text = whole_text(text).unwrap_or(text.trim());
    let bare = text
        .strip_prefix('(')
        .and_then(|rest| rest.strip_suffix(')'))
        .unwrap_or(text);
    let mut chars = bare.chars();
    let letter = chars.next().filter(|letter| ('A'..='E').contains(letter));
    letter.filter(|_| chars.next().is_none())
}

/// The letter of a choice that has more than its letter.
fn labelled_choice(text: &str) -> Option<char> {
    if text.len() > MAX_LENGTH {
        return None;
    }
    let joined: String;
    let text = match leading_text(text) {
        Some((label, "")) => label,
        Some((label, value)) => {
            joined = format!("{label}{value}");
            &joined
        }
        None => text.trim(),
    };
    let begins = |kind: &&str| {
        text.get(..kind.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(kind))
    };
    let kind = CHOICE_WORDS.iter().find(|kind| begins(kind));
    let rest = text[kind.map_or(0, |kind| kind.len())..].trim_start_matches([' ', ':']);
    let (opened, rest) = match rest.strip_prefix('(') {
        Some(rest) => (true, rest),
        None => (false, rest),
    };
    let letter = rest
        .chars()
        .next()
        .filter(|letter| ('A'..='E').contains(letter))?;
    let rest = &rest[1..];
    let (closed, value) = match rest.strip_prefix([')', ':']) {
        Some(value) => (true, value),
        None => (false, rest),
    };
    let is_named = kind.is_some() && closed >= opened && value.is_empty();
    let is_label = closed && (!value.trim().is_empty()) && is_value(value);
    (is_named || is_label).then_some(letter)
}

/// Whether what stands behind a label names no other choice, and is one value or words.
fn is_value(text: &str) -> bool {
    let mut words = text.split(|c: char| !c.is_alphabetic());
    let hedged = words.any(|word| {
        let lower = word.to_lowercase();
        HEDGES.contains(&lower.as_str()) || matches!(word, "A" | "B" | "C" | "D" | "E")
    });
    let plain = |c: char| c.is_alphabetic() || c == ' ';
    let first = || {
        parse_answer(text, Commas::Lists, Letters::Names)
            .is_some_and(|parsed| !matches!(parsed.tree, Expr::List(_)))
    };
    !hedged && (text.chars().all(plain) || first())
}
