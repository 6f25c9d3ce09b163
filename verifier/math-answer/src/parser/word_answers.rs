//! Answers in words: choices, names, days, times, and numbers in words.

use crate::expression::{Constant, Expr, FullDebug};
use crate::parser::contains_word;
use crate::parser::unit::{Measure, measure};

const MONTHS: &str = "january february march april may june july august september october \
    november december";
const TENS: &str = "twenty thirty forty fifty sixty seventy eighty ninety";
const NUMBERS: &str = "zero one two three four five six seven eight nine ten eleven twelve \
    thirteen fourteen fifteen sixteen seventeen eighteen nineteen";
/// Ordinals and parts of numbers.
const ORDINALS: &str = "first second third fourth fifth sixth seventh eighth ninth tenth eleventh \
    twelfth thirteenth fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth twentieth \
    thirtieth fortieth fiftieth sixtieth seventieth eightieth ninetieth hundredth thousandth \
    millionth";
const SCALES: &str = "ten hundred thousand million billion trillion";

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum WordAnswer {
    /// A choice, or any other single letter. Its case matters.
    Letter(char),
    /// Hours, minutes, seconds, and whether it is p.m., if stated.
    Time(Vec<u32>, Option<bool>),
    /// Month, day and, if stated, year.
    Date(usize, u32, Option<u32>),
    /// A number in words.
    Number(u32),
    /// Anything else, in lower case.
    Words(String),
}

/// The answer in words that an expression stands for: plain words, or letters of one word.
pub(crate) fn word_answer(expr: &Expr) -> Option<WordAnswer> {
    match expr {
        Expr::Words(words) => Some(parse_words(words)),
        Expr::Quantity(inner, words) => match (measure(words), &**inner) {
            (Measure::Noon(after), Expr::Ratio(parts)) => {
                let parts: Option<Vec<u32>> = parts.iter().map(small_integer).collect();
                Some(WordAnswer::Time(parts?, Some(after)))
            }
            (Measure::Noon(after), hour) => {
                Some(WordAnswer::Time(vec![small_integer(hour)?, 0], Some(after)))
            }
            _ => None,
        },
        Expr::Number(_) => None,
        _ => word(expr).map(|letters| parse_words(&letters)),
    }
}

/// The letters of a name or of a product of names, if there is at least one letter: 2·2 is not a word.
pub(crate) fn word(expr: &Expr) -> Option<String> {
    letters(expr).filter(|letters| letters.contains(char::is_alphabetic))
}

/// The value of a whole number that fits.
fn small_integer(expr: &Expr) -> Option<u32> {
    let Expr::Number(FullDebug(number)) = expr else {
        return None;
    };
    number.clone().try_into().ok()
}

/// The letters of a name or of a product of names. A word without `\text` is parsed as such a product.
pub(crate) fn letters(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Symbol(name) if name.chars().all(char::is_alphabetic) => Some(name.clone()),
        Expr::Constant(Constant::E) => Some("e".into()),
        Expr::Constant(Constant::I) => Some("i".into()),
        Expr::Number(FullDebug(number)) if number.is_int() => Some(number.to_string()),
        Expr::Product(factors) => factors.iter().map(letters).collect(),
        _ => None,
    }
}

fn parse_words(words: &str) -> WordAnswer {
    let bare = words
        .trim()
        .trim_matches(|c: char| matches!(c, '.' | ',' | '"' | '\'' | ':'));
    let bare = bare
        .strip_prefix('(')
        .and_then(|rest| rest.strip_suffix(')'))
        .unwrap_or(bare.trim_end_matches(')'))
        .trim();
    let mut chars = bare.chars();
    if let (Some(letter), None) = (chars.next(), chars.next()) {
        return WordAnswer::Letter(letter);
    }
    let lower = bare.to_lowercase();
    let spaced = space_out_digits(&lower);
    let parts: Vec<&str> = spaced
        .split(|c: char| c.is_whitespace() || c == ',')
        .map(|part| part.trim_matches('.'))
        .filter(|part| !part.is_empty())
        .collect();
    if let Some(answer) = time(&lower).or_else(|| date(&parts)) {
        return answer;
    }
    if let Some(number) = cardinal(&parts) {
        return WordAnswer::Number(number);
    }
    let content: Vec<&str> = parts
        .into_iter()
        .filter(|part| !matches!(*part, "the" | "a" | "an"))
        .collect();
    WordAnswer::Words(content.concat())
}

/// The place of a word in a list.
fn position(words: &str, word: &str) -> Option<usize> {
    words.split(' ').position(|one| one == word)
}

/// A number below a hundred: twelve, twenty-one.
fn cardinal(parts: &[&str]) -> Option<u32> {
    let below = |word: &str| u32::try_from(position(NUMBERS, word)?).ok();
    let tens = |word: &str| Some(20 + 10 * u32::try_from(position(TENS, word)?).ok()?);
    let two_words = |first: &str, second: &str| {
        Some(tens(first)? + below(second).filter(|ones| (1..10).contains(ones))?)
    };
    match parts {
        [word] => below(word).or_else(|| tens(word)).or_else(|| {
            let (first, second) = word.split_once('-')?;
            two_words(first, second)
        }),
        [first, second] => two_words(first, second),
        _ => None,
    }
}

/// Whether a word is a number, a scale, part of a number, or a month: two, thousands, tenth.
pub(crate) fn is_numeral(word: &str) -> bool {
    let singular = word.strip_suffix('s').unwrap_or(word);
    [NUMBERS, TENS, SCALES, ORDINALS]
        .iter()
        .any(|names| contains_word(names, singular) || contains_word(names, word))
        || contains_word(MONTHS, word)
}

/// Whether it is the label of a choice: (A).
pub(crate) fn is_choice(text: &str) -> bool {
    matches!(text.trim().as_bytes(), [b'(', b'A'..=b'E', b')'])
}

/// Whether plain words are a number or a date. These are not products of letters.
pub(crate) fn is_number_or_date(words: &str) -> bool {
    matches!(
        parse_words(words),
        WordAnswer::Number(_) | WordAnswer::Date(..)
    )
}

/// The text with spaces between letters and digits: june20.
fn space_out_digits(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    let mut last = ' ';
    for next in text.chars() {
        if (last.is_alphabetic() && next.is_ascii_digit())
            || (last.is_ascii_digit() && next.is_alphabetic())
        {
            out.push(' ');
        }
        out.push(next);
        last = next;
    }
    out
}

/// `4:30 p.m.`
fn time(text: &str) -> Option<WordAnswer> {
    let compact: String = text
        .chars()
        .filter(|c| !c.is_whitespace() && *c != '.')
        .collect();
    let (clock, after) = if let Some(clock) = compact.strip_suffix("am") {
        (clock, Some(false))
    } else if let Some(clock) = compact.strip_suffix("pm") {
        (clock, Some(true))
    } else {
        (compact.as_str(), None)
    };
    let parts: Option<Vec<u32>> = clock.split(':').map(|part| part.parse().ok()).collect();
    let mut parts = parts?;
    if parts.len() == 1 {
        after?;
        parts.push(0);
    }
    Some(WordAnswer::Time(parts, after))
}

/// `June 20`, `20 June 2004`.
fn date(parts: &[&str]) -> Option<WordAnswer> {
    let month = parts.iter().find_map(|part| position(MONTHS, part))?;
    let numbers: Vec<u32> = parts
        .iter()
        .filter(|part| {
            !contains_word(MONTHS, part)
                && !matches!(**part, "th" | "st" | "nd" | "rd" | "of" | "the")
        })
        .map(|part| part.parse().ok())
        .collect::<Option<_>>()?;
    match numbers.as_slice() {
        [day] => Some(WordAnswer::Date(month, *day, None)),
        [day, year] => Some(WordAnswer::Date(month, *day, Some(*year))),
        _ => None,
    }
}

/// Whether two answers in words are the same.
pub(crate) fn same_words(expected: &WordAnswer, answer: &WordAnswer) -> bool {
    match (expected, answer) {
        (WordAnswer::Time(a, noon), WordAnswer::Time(b, other)) => {
            let noon_agrees = noon.is_none() || other.is_none() || noon == other;
            let length = a.len().max(b.len());
            let at = |parts: &[u32], index: usize| parts.get(index).copied().unwrap_or(0);
            noon_agrees && (0..length).all(|index| at(a, index) == at(b, index))
        }
        (
            WordAnswer::Date(month, day, year),
            WordAnswer::Date(other_month, other_day, other_year),
        ) => {
            month == other_month
                && day == other_day
                && (year.is_none() || other_year.is_none() || year == other_year)
        }
        (expected, answer) => expected == answer,
    }
}

/// The number in words, as an expression.
pub(crate) fn number_expr(answer: &WordAnswer) -> Option<Expr> {
    match answer {
        WordAnswer::Number(number) => Some(Expr::number(*number)),
        _ => None,
    }
}
