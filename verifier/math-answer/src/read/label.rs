//! Choices with what they stand for: `(C) 7`, `C) 7`, `Option C`.

use crate::read::lex::{leading_text, whole_text};
use crate::read::parse::{Commas, Letters, read};
use crate::read::phrase::behind;
use crate::read::unit::{Measure, measure};
use crate::syntax::Expr;

/// Longer answers are no choices.
const MAX_LENGTH: usize = 256;

/// Words before a choice's letter.
const KINDS: [&str; 3] = ["option", "choice", "answer"];

/// What announces an answer.
const ANNOUNCED: [&str; 6] = [
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
pub(crate) fn same_choice(one: &str, other: &str) -> bool {
    let same = |letter: &str, choice: &str| {
        let letter = alone(letter);
        letter.is_some() && letter == chosen(choice)
    };
    same(one, other) || same(other, one)
}

/// The value behind the letter of a choice in brackets, or behind words that announce it: 5 of `\textbf{(C)}\ 5`.
///
/// Without a command of text, `(C)` may be a factor, unless it is a choice of the question.
pub(crate) fn behind_label<'a>(text: &'a str, question: &str) -> Option<&'a str> {
    if text.len() > MAX_LENGTH {
        return None;
    }
    let inside = whole_text(text);
    let text = inside.unwrap_or(text.trim());
    let (label, value) = leading_text(text)
        .or_else(|| announced(text))
        .or_else(|| text.split_at_checked(CHOICE))?;
    let chosen = matches!(label.as_bytes(), [b'(', b'A'..=b'E', b')'])
        && (inside.is_some() || text.starts_with('\\') || question.contains(label));
    let announces =
        announced(label).is_some_and(|(_, behind)| behind.is_empty()) || names_value(label);
    let is_value =
        || value.contains(char::is_alphanumeric) && behind_label(value, question).is_none();
    ((chosen || announces) && is_value()).then_some(value)
}

/// Whether it says of what a value is: `Center:`.
fn names_value(label: &str) -> bool {
    label.strip_suffix(':').is_some_and(|name| {
        measure(name) == Measure::Words
            && behind(name).is_some_and(|behind| behind.unlisted.is_empty())
    })
}

/// Bytes of a choice's letter in brackets.
const CHOICE: usize = 3;

/// Words that announce the answer, and what stands behind them.
fn announced(text: &str) -> Option<(&str, &str)> {
    let begins = |words: &&&str| {
        text.get(..words.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(words))
    };
    let words = ANNOUNCED.iter().find(begins)?;
    let (label, behind) = text.split_at(words.len());
    let value = behind.strip_prefix(':').unwrap_or(behind);
    let apart = value.is_empty() || value.len() < behind.len() || value.starts_with(' ');
    apart.then_some((label, value))
}

/// The letter that is all of an answer.
fn alone(text: &str) -> Option<char> {
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
fn chosen(text: &str) -> Option<char> {
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
    let kind = KINDS.iter().find(|kind| begins(kind));
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
    let named = kind.is_some() && closed >= opened && value.is_empty();
    let labels = closed && (!value.trim().is_empty()) && is_value(value);
    (named || labels).then_some(letter)
}

/// Whether what stands behind a label names no other choice, and is one value or words.
fn is_value(text: &str) -> bool {
    let mut words = text.split(|c: char| !c.is_alphabetic());
    let hedged = words.any(|word| {
        let lower = word.to_lowercase();
        HEDGES.contains(&lower.as_str()) || matches!(word, "A" | "B" | "C" | "D" | "E")
    });
    let plain = |c: char| c.is_alphabetic() || c == ' ';
    let one = || {
        read(text, Commas::Lists, Letters::Names)
            .is_some_and(|read| !matches!(read.tree, Expr::List(_)))
    };
    !hedged && (text.chars().all(plain) || one())
}
