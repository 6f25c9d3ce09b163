//! Whether two answers are the same, and by which rule.

use crate::finished::left_undone;
use crate::meter::Meter;
use crate::question::{Question, behind_asked};
use crate::read::label::{behind_label, same_choice};
use crate::read::lex::tokens;
use crate::read::nouns::are_used;
use crate::read::parse::{Commas, Letters, Read, read};
use crate::rule::Rule;
use crate::same::quantity::names_unit;
use crate::same::same;
use crate::same::value::Judge;
use crate::seed::seed;
use crate::settings::Policy;
use crate::strict;
use crate::syntax::Expr;

/// Longer answers are compared as text alone, in bytes.
const MAX_LENGTH: usize = 4096;
/// Longest number with a letter for its unit, in bytes.
const MAX_LETTERED: usize = 64;

/// Most of a question that is looked at, in bytes.
const MAX_QUESTION: usize = 1 << 16;
/// Most forms of one value in an answer.
const MAX_FORMS: usize = 4;

/// What a comparison finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// The answers are the same.
    Same(Rule),
    /// Their values are, but the given one leaves something to be done that the right one has done, and this is what.
    Unfinished(Rule, &'static str),
    /// They are not, as far as can be told.
    Different,
}

/// An answer that is compared with several.
#[derive(Debug, Clone)]
pub struct Answer<'a> {
    text: &'a str,
    /// The question that it is the right answer to; empty where none is known.
    question: &'a str,
    /// Its tree, where commas between digits may separate thousands.
    number: Option<Expr>,
    /// The same, where they separate elements: if it is another.
    list: Option<Expr>,
    /// Its tree where it is a number, a space and a letter that may be a unit: 0.1 m.
    lettered: Option<Expr>,
    /// Words behind its numbers that no list holds.
    unlisted: Vec<String>,
}

impl<'a> Answer<'a> {
    /// Reads an answer.
    #[must_use]
    pub fn read(text: &'a str) -> Self {
        let text = text.trim();
        let mut unlisted = Vec::new();
        let mut tree = |read: Read| {
            unlisted.extend(read.unlisted);
            read.tree
        };
        let short = text.len() <= MAX_LENGTH;
        let reading = |commas| {
            let read = short.then(|| read(text, commas, Letters::Names));
            read.flatten()
        };
        let number = reading(Commas::Thousands).map(&mut tree);
        let list = text
            .contains(',')
            .then(|| reading(Commas::Lists))
            .flatten()
            .map(&mut tree)
            .filter(|list| Some(list) != number.as_ref());
        let lettered = lettered(text, number.as_ref()).map(&mut tree);
        Self {
            text,
            question: "",
            number,
            list,
            lettered,
            unlisted,
        }
    }

    /// As the right answer to a question, which says what is counted.
    #[must_use]
    pub fn asked_by(self, question: &'a str) -> Self {
        // What is asked stands at the end of a long prompt.
        let from = question.len().saturating_sub(MAX_QUESTION);
        let from = (from..question.len()).find(|at| question.is_char_boundary(*at));
        Self {
            question: &question[from.unwrap_or_default()..],
            ..self
        }
    }

    /// Whether it was understood; what was not is compared as text alone.
    #[must_use]
    pub fn is_parsed(&self) -> bool {
        self.trees().next().is_some()
    }

    fn trees(&self) -> impl Iterator<Item = &Expr> {
        self.number.iter().chain(&self.list)
    }

    /// What it may say as the right answer. In brackets, and where several answers are asked for with commas between them, (1,234) has two elements; by itself, 1,234 may be
    /// a number as well, and 1,\!234 and 1,034 are numbers.
    fn as_right(&self, asks_commas: bool) -> impl Iterator<Item = &Expr> {
        let brackets = self.text.contains(['(', '[', '{']);
        let tight = is_tight(self.text);
        let (number, list) = (self.number.as_ref(), self.list.as_ref());
        let readings = match (number, list) {
            (Some(_), Some(_)) if tight && (asks_commas || brackets) => [None, list],
            (Some(_), Some(_)) if is_grouped(self.text) => [number, None],
            both => [both.0, both.1],
        };
        readings.into_iter().flatten()
    }

    /// What it may say where the right answer is `right`: beside a list, commas separate elements, unless spaces tell some from others.
    fn beside(&self, right: &Expr) -> Vec<&Expr> {
        let brackets = self.text.contains(['(', '[', '{']);
        match (&self.number, &self.list) {
            (Some(number), Some(_)) if !brackets && is_grouped(self.text) => vec![number],
            (_, Some(list)) if is_list(right) && is_tight(self.text) => vec![list],
            _ => self.trees().collect(),
        }
    }
}

/// Compares the answer `given` with the `right` one.
#[must_use]
pub fn compare(right: &str, given: &str, policy: Policy) -> Comparison {
    compare_read(&Answer::read(right), &Answer::read(given), policy)
}

/// As [`compare`], of answers that have been read.
#[must_use]
pub fn compare_read(right: &Answer<'_>, given: &Answer<'_>, policy: Policy) -> Comparison {
    let (answer, other) = (right, given);
    let (right, given) = (right.text, given.text);
    let question = answer.question;
    if policy == Policy::Strict {
        let same = strict::same(right, given);
        return if same {
            Comparison::Same(Rule::Text)
        } else {
            Comparison::Different
        };
    }
    if same_text(right, given) {
        return Comparison::Same(Rule::Text);
    }
    if same_choice(right, given) {
        return Comparison::Same(Rule::Words);
    }
    // The letter of a choice, or what is asked for, before a value says no more than the value.
    let behind = |text| behind_label(text, question).or_else(|| behind_asked(text, question));
    if let Some(value) = behind(given) {
        return compare_read(answer, &Answer::read(value), policy);
    }
    if let Some(value) = behind(right) {
        return compare_read(&Answer::read(value).asked_by(question), other, policy);
    }
    // A number with a word that is not known to be a noun may be any number.
    if [answer, other]
        .into_iter()
        .any(|one| !are_used(&one.unlisted, [right, question]))
    {
        return Comparison::Different;
    }
    let judge = Judge::new(seed(right, given)).asked(Question::of(question));
    let pairs = pairs(answer, other, &judge);
    let mut found = judged(&judge, &pairs, policy);
    if found == Comparison::Different && (offers_others(given) || offers_others(right)) {
        found = alternatives(&judge, &pairs, policy);
    }
    if !judge.meter.is_spent() {
        return found;
    }
    // What is too much to compute equals what has the same form.
    if pairs.iter().any(|(right, given)| right == given) {
        Comparison::Same(Rule::Form)
    } else {
        Comparison::Different
    }
}

fn judged(judge: &Judge, pairs: &[(&Expr, &Expr)], policy: Policy) -> Comparison {
    for (right, given) in pairs {
        let Some(rule) = same(judge, right, given) else {
            continue;
        };
        if policy == Policy::Standard
            && let Some(left) = left_undone(rule, right, given, judge)
        {
            return Comparison::Unfinished(rule, left);
        }
        return Comparison::Same(rule);
    }
    Comparison::Different
}

/// Whether words offer one value instead of another, and nothing adds one: ½ or 0.5.
fn offers_others(text: &str) -> bool {
    let has = |word: &str| {
        text.split(|c: char| !c.is_alphabetic())
            .any(|one| one == word)
    };
    (has("or") || has("lor")) && !has("and") && !has("land") && !text.contains([',', ';'])
}

/// What of one value in several forms: each must be the right one.
fn alternatives(judge: &Judge, pairs: &[(&Expr, &Expr)], policy: Policy) -> Comparison {
    for (right, given) in pairs {
        let one = |right: &Expr, given: &Expr| judged(judge, &[(right, given)], policy);
        let found: Vec<Comparison> = match (right, given) {
            (right, Expr::List(forms)) if !is_list(right) && forms.len() <= MAX_FORMS => {
                forms.iter().map(|form| one(right, form)).collect()
            }
            (Expr::List(forms), given) if !is_list(given) && forms.len() <= MAX_FORMS => {
                forms.iter().map(|form| one(form, given)).collect()
            }
            _ => continue,
        };
        let worst = found.into_iter().min_by_key(|found| match found {
            Comparison::Different => 0,
            Comparison::Unfinished(..) => 1,
            Comparison::Same(_) => 2,
        });
        if let Some(worst) = worst.filter(|worst| *worst != Comparison::Different) {
            return worst;
        }
    }
    Comparison::Different
}

/// The trees to compare. A letter counts as a unit only beside an answer that names its unit in `\text` or in more letters: by itself, 10 m may be ten times m.
fn pairs<'a>(
    right: &'a Answer<'_>,
    given: &'a Answer<'_>,
    judge: &Judge,
) -> Vec<(&'a Expr, &'a Expr)> {
    let mut pairs = Vec::new();
    for reading in right.as_right(judge.question.commas) {
        let others = given.beside(reading);
        pairs.extend(others.into_iter().map(|other| (reading, other)));
    }
    if let Some(lettered) = &right.lettered {
        let named = given
            .trees()
            .filter(|other| names_unit(other, &judge.meter));
        pairs.extend(named.map(|other| (lettered, other)));
    }
    if let Some(lettered) = &given.lettered {
        let named = right
            .trees()
            .filter(|reading| names_unit(reading, &judge.meter));
        pairs.extend(named.map(|reading| (reading, lettered)));
    }
    pairs
}

/// Whether no space, and nothing else, says which of its commas are separators of thousands.
fn is_tight(text: &str) -> bool {
    let loose = |(at, _): (usize, &str)| {
        let behind = &text[at + 1..];
        behind.starts_with(|c: char| c.is_whitespace() || matches!(c, '\\' | '}'))
    };
    !text.match_indices(',').any(loose)
}

/// Whether a comma certainly separates thousands: the space behind it is taken back, it stands in braces, or a zero follows that no element would begin with.
fn is_grouped(text: &str) -> bool {
    let zero = |(at, _): (usize, &str)| {
        let mut behind = text[at + 1..].chars();
        behind.next() == Some('0') && behind.next().is_some_and(|next| next.is_ascii_digit())
    };
    text.contains(",\\!") || text.contains("{,}") || text.match_indices(',').any(zero)
}

/// Whether it has elements, or may have.
fn is_list(expr: &Expr) -> bool {
    matches!(expr, Expr::List(_) | Expr::Set(_) | Expr::Tuple(..))
}

/// The tree of a number with a letter for its unit, where it is another than the one without.
fn lettered(text: &str, plain: Option<&Expr>) -> Option<Read> {
    let begins = |c: char| c.is_ascii_digit() || c == '.';
    if text.len() > MAX_LETTERED || !text.starts_with(begins) {
        return None;
    }
    let lettered = read(text, Commas::Thousands, Letters::Units)?;
    (names_unit(&lettered.tree, &Meter::new()) && plain != Some(&lettered.tree)).then_some(lettered)
}

/// Whether both have the same tokens, and some.
fn same_text(right: &str, given: &str) -> bool {
    match (tokens(right), tokens(given)) {
        (Some(right), Some(given)) => {
            let kinds = right.iter().map(|token| token.kind);
            !right.is_empty() && kinds.eq(given.iter().map(|token| token.kind))
        }
        _ => right == given,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same_both_ways(one: &str, other: &str) -> bool {
        let same = |a: &str, b: &str| matches!(compare(a, b, Policy::Lenient), Comparison::Same(_));
        assert_eq!(same(one, other), same(other, one), "{one} and {other}");
        same(one, other)
    }

    #[test]
    fn a_letter_is_a_unit_only_behind_a_space_and_beside_a_unit_that_is_named() {
        for (named, letter) in [
            (r"10\text{ cm}", "0.1 m"),
            ("10 cm", "0.1 m"),
            (r"5\text{ m}", "5 m"),
            (r"36\text{ km/h}", "10 m/s"),
            ("2 hours", "2 h"),
            ("3 liters", "3 L"),
        ] {
            assert!(same_both_ways(named, letter), "{named} and {letter}");
        }
        for (one, other) in [
            // Ten times m, for all that the two say.
            ("10", "10 m"),
            (r"10\text{ apples}", "10 m"),
            (r"5\text{ m}", "5m"),
            (r"5\text{ m}", "x m"),
            (r"5\text{ m}", "5 m n"),
            (r"5\text{ m}", "5 s"),
            (r"10\text{ cm}", "10 m"),
            ("5 m", "5 s"),
        ] {
            assert!(!same_both_ways(one, other), "{one} and {other}");
        }
    }

    /// What they share has no greatest divisor.
    #[test]
    fn zero_times_a_power_of_zero_is_compared() {
        let found = compare(r"0\cdot 0^n", r"(0\cdot 0^n)", Policy::Standard);
        assert_eq!(found, Comparison::Same(Rule::Form));
    }
}
