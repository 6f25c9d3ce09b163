//! Labels of choices, with or without their values: `(C) 7`, `C) 7`, `Option C`.

use crate::expression::Expr;
use crate::parser::contains_word;
use crate::parser::grammar::{Commas, Letters, parse_answer};
use crate::parser::lexer::{leading_text, whole_text};
use crate::parser::unit::{Measure, measure};
use crate::parser::word_answers::is_choice;
use crate::parser::words_after_number::parse_trailing_words;

/// Maximum length in bytes of an answer that may be a choice.
const MAX_LENGTH: usize = 256;

/// Words before the letter of a choice.
const CHOICE_WORDS: [&str; 3] = ["option", "choice", "answer"];

/// Phrases that announce an answer.
const ANNOUNCEMENTS: [&str; 6] = [
    "the final answer is",
    "the answer is",
    "final answer",
    "answer is",
    "the answer",
    "answer",
];

/// Words and commands that leave the choice open, or deny one.
const HEDGES: &str = "or and nor not but either neither both is isn are wrong incorrect false \
    maybe perhaps possibly probably unless except if lor land vee";

/// Whether one is the letter of a choice, and the other is the same choice with its value or with a word such as "option".
pub(crate) fn same_choice(first: &str, second: &str) -> bool {
    let same = |letter: &str, choice: &str| {
        let letter = lone_letter(letter);
        letter.is_some() && letter == labelled_choice(choice)
    };
    same(first, second) || same(second, first)
}

/// The value after the letter of a choice in brackets, or after a phrase that announces it: 5 in `\textbf{(C)}\ 5`.
///
/// Without a command such as `\text`, `(C)` may be a factor, unless the question has it as a choice.
pub(crate) fn value_after_label<'a>(text: &'a str, question: &str) -> Option<&'a str> {
    if text.len() > MAX_LENGTH {
        return None;
    }
    let inside = whole_text(text);
    let text = inside.unwrap_or(text.trim());
    let (label, value) = leading_text(text)
        .or_else(|| split_announcement(text))
        .or_else(|| text.split_at_checked(BRACKETED_LETTER_LENGTH))?;
    let is_choice = is_choice(label)
        && (inside.is_some() || text.starts_with('\\') || question.contains(label));
    let is_announcement =
        split_announcement(label).is_some_and(|(_, rest)| rest.is_empty()) || names_value(label);
    let is_value =
        || value.contains(char::is_alphanumeric) && value_after_label(value, question).is_none();
    ((is_choice || is_announcement) && is_value()).then_some(value)
}

/// Whether the label names the value: `Center:`.
fn names_value(label: &str) -> bool {
    label.strip_suffix(':').is_some_and(|name| {
        measure(name) == Measure::Words
            && parse_trailing_words(name).is_some_and(|trailing| trailing.unlisted.is_empty())
    })
}

/// Length in bytes of a letter in brackets.
const BRACKETED_LETTER_LENGTH: usize = 3;

fn begins_with(text: &str, words: &str) -> bool {
    text.get(..words.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(words))
}

/// The phrase that announces the answer, and the text after it.
fn split_announcement(text: &str) -> Option<(&str, &str)> {
    let words = ANNOUNCEMENTS
        .iter()
        .find(|words| begins_with(text, words))?;
    let (label, rest) = text.split_at(words.len());
    let value = rest.strip_prefix(':').unwrap_or(rest);
    let ends_word = value.is_empty() || value.len() < rest.len() || value.starts_with(' ');
    ends_word.then_some((label, value))
}

/// The letter, if it is the whole answer.
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

/// The letter of a choice that has a value or a word such as "option" too.
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
    let kind = CHOICE_WORDS.iter().find(|kind| begins_with(text, kind));
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

/// Whether the text after a label names no other choice, and is one value or plain words.
fn is_value(text: &str) -> bool {
    let mut words = text.split(|c: char| !c.is_alphabetic());
    let hedged = words.any(|word| {
        let lower = word.to_lowercase();
        contains_word(HEDGES, &lower) || matches!(word, "A" | "B" | "C" | "D" | "E")
    });
    let plain = |c: char| c.is_alphabetic() || c == ' ';
    let first = || {
        parse_answer(text, Commas::Lists, Letters::Names)
            .is_some_and(|parsed| !matches!(parsed.tree, Expr::List(_)))
    };
    !hedged && (text.chars().all(plain) || first())
}
