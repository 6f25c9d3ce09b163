//! Whether two answers are the same, and by which rule.

use crate::hints::{AnswerHints, value_after_asked_formula};
use crate::meter::Meter;
use crate::read::choice_label::{same_choice, value_after_label};
use crate::read::counted_nouns::all_used;
use crate::read::lex::tokens;
use crate::read::parse::{Commas, Letters, ParsedAnswer, parse_answer};
use crate::rule::Rule;
use crate::same::matching_rule;
use crate::same::quantity::has_sized_unit;
use crate::same::value::ValueComparer;
use crate::seed::seed;
use crate::settings::Policy;
use crate::simplified::remaining_simplification;
use crate::strict;
use crate::syntax::Expr;

/// Longer answers are compared as text alone, in bytes.
const MAX_LENGTH: usize = 4096;
/// Longest number with a letter for its unit, in bytes.
const MAX_LETTER_UNIT_LENGTH: usize = 64;

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
    Unsimplified(Rule, &'static str),
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
    letter_unit: Option<Expr>,
    /// Words behind its numbers that no list holds.
    unlisted: Vec<String>,
}

impl<'a> Answer<'a> {
    /// Reads an answer.
    #[must_use]
    pub fn parse(text: &'a str) -> Self {
        let text = text.trim();
        let mut unlisted = Vec::new();
        let mut tree = |parsed: ParsedAnswer| {
            unlisted.extend(parsed.unlisted);
            parsed.tree
        };
        let short = text.len() <= MAX_LENGTH;
        let reading = |commas| {
            let parsed = short.then(|| parse_answer(text, commas, Letters::Names));
            parsed.flatten()
        };
        let number = reading(Commas::Thousands).map(&mut tree);
        let list = text
            .contains(',')
            .then(|| reading(Commas::Lists))
            .flatten()
            .map(&mut tree)
            .filter(|list| Some(list) != number.as_ref());
        let letter_unit = letter_unit(text, number.as_ref()).map(&mut tree);
        Self {
            text,
            question: "",
            number,
            list,
            letter_unit,
            unlisted,
        }
    }

    /// As the right answer to a question, which says what is counted.
    #[must_use]
    pub fn with_question(self, question: &'a str) -> Self {
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
    fn readings_as_expected(&self, separates_by_commas: bool) -> impl Iterator<Item = &Expr> {
        let brackets = self.text.contains(['(', '[', '{']);
        let tight = is_tight(self.text);
        let (number, list) = (self.number.as_ref(), self.list.as_ref());
        let readings = match (number, list) {
            (Some(_), Some(_)) if tight && (separates_by_commas || brackets) => [None, list],
            (Some(_), Some(_)) if is_grouped(self.text) => [number, None],
            both => [both.0, both.1],
        };
        readings.into_iter().flatten()
    }

    /// What it may say where the right answer is `right`: beside a list, commas separate elements, unless spaces tell some from others.
    fn readings_beside(&self, expected: &Expr) -> Vec<&Expr> {
        let brackets = self.text.contains(['(', '[', '{']);
        match (&self.number, &self.list) {
            (Some(number), Some(_)) if !brackets && is_grouped(self.text) => vec![number],
            (_, Some(list)) if is_list(expected) && is_tight(self.text) => vec![list],
            _ => self.trees().collect(),
        }
    }
}

/// Compares the answer `given` with the `right` one.
#[must_use]
pub fn compare(expected: &str, answer: &str, policy: Policy) -> Comparison {
    compare_answers(&Answer::parse(expected), &Answer::parse(answer), policy)
}

/// As [`compare`], of answers that have been read.
#[must_use]
pub fn compare_answers(expected: &Answer<'_>, answer: &Answer<'_>, policy: Policy) -> Comparison {
    let (expected_text, answer_text) = (expected.text, answer.text);
    let question = expected.question;
    if policy == Policy::Strict {
        let same = strict::is_same(expected_text, answer_text);
        return if same {
            Comparison::Same(Rule::Text)
        } else {
            Comparison::Different
        };
    }
    if same_text(expected_text, answer_text) {
        return Comparison::Same(Rule::Text);
    }
    if same_choice(expected_text, answer_text) {
        return Comparison::Same(Rule::Words);
    }
    // The letter of a choice, or what is asked for, before a value says no more than the value.
    let value_after = |text| {
        value_after_label(text, question).or_else(|| value_after_asked_formula(text, question))
    };
    if let Some(value) = value_after(answer_text) {
        return compare_answers(expected, &Answer::parse(value), policy);
    }
    if let Some(value) = value_after(expected_text) {
        return compare_answers(
            &Answer::parse(value).with_question(question),
            answer,
            policy,
        );
    }
    // A number with a word that is not known to be a noun may be any number.
    if [expected, answer]
        .into_iter()
        .any(|side| !all_used(&side.unlisted, [expected_text, question]))
    {
        return Comparison::Different;
    }
    let comparer = ValueComparer::new(seed(expected_text, answer_text))
        .with_hints(AnswerHints::from_question(question));
    let pairs = tree_pairs(expected, answer, &comparer);
    let mut comparison = compare_pairs(&comparer, &pairs, policy);
    if comparison == Comparison::Different
        && (offers_alternatives(answer_text) || offers_alternatives(expected_text))
    {
        comparison = compare_alternatives(&comparer, &pairs, policy);
    }
    if !comparer.meter.is_spent() {
        return comparison;
    }
    // What is too much to compute equals what has the same form.
    if pairs.iter().any(|(expected, answer)| expected == answer) {
        Comparison::Same(Rule::Form)
    } else {
        Comparison::Different
    }
}

fn compare_pairs(comparer: &ValueComparer, pairs: &[(&Expr, &Expr)], policy: Policy) -> Comparison {
    for (expected, answer) in pairs {
        let Some(rule) = matching_rule(comparer, expected, answer) else {
            continue;
        };
        if policy == Policy::Standard
            && let Some(missing) = remaining_simplification(rule, expected, answer, comparer)
        {
            return Comparison::Unsimplified(rule, missing);
        }
        return Comparison::Same(rule);
    }
    Comparison::Different
}

/// Whether words offer one value instead of another, and nothing adds one: ½ or 0.5.
fn offers_alternatives(text: &str) -> bool {
    let has = |word: &str| {
        text.split(|c: char| !c.is_alphabetic())
            .any(|part| part == word)
    };
    (has("or") || has("lor")) && !has("and") && !has("land") && !text.contains([',', ';'])
}

/// What of one value in several forms: each must be the right one.
fn compare_alternatives(
    comparer: &ValueComparer,
    pairs: &[(&Expr, &Expr)],
    policy: Policy,
) -> Comparison {
    for (expected, answer) in pairs {
        let compare =
            |expected: &Expr, answer: &Expr| compare_pairs(comparer, &[(expected, answer)], policy);
        let comparisons: Vec<Comparison> = match (expected, answer) {
            (expected, Expr::List(forms)) if !is_list(expected) && forms.len() <= MAX_FORMS => {
                forms.iter().map(|form| compare(expected, form)).collect()
            }
            (Expr::List(forms), answer) if !is_list(answer) && forms.len() <= MAX_FORMS => {
                forms.iter().map(|form| compare(form, answer)).collect()
            }
            _ => continue,
        };
        let worst = comparisons
            .into_iter()
            .min_by_key(|comparison| match comparison {
                Comparison::Different => 0,
                Comparison::Unsimplified(..) => 1,
                Comparison::Same(_) => 2,
            });
        if let Some(worst) = worst.filter(|worst| *worst != Comparison::Different) {
            return worst;
        }
    }
    Comparison::Different
}

/// The trees to compare. A letter counts as a unit only beside an answer that names its unit in `\text` or in more letters: by itself, 10 m may be ten times m.
fn tree_pairs<'a>(
    expected: &'a Answer<'_>,
    answer: &'a Answer<'_>,
    comparer: &ValueComparer,
) -> Vec<(&'a Expr, &'a Expr)> {
    let mut pairs = Vec::new();
    for reading in expected.readings_as_expected(comparer.hints.commas) {
        let readings = answer.readings_beside(reading);
        pairs.extend(readings.into_iter().map(|other| (reading, other)));
    }
    if let Some(letter_unit) = &expected.letter_unit {
        let named = answer
            .trees()
            .filter(|other| has_sized_unit(other, &comparer.meter));
        pairs.extend(named.map(|other| (letter_unit, other)));
    }
    if let Some(letter_unit) = &answer.letter_unit {
        let named = expected
            .trees()
            .filter(|reading| has_sized_unit(reading, &comparer.meter));
        pairs.extend(named.map(|reading| (reading, letter_unit)));
    }
    pairs
}

/// Whether no space, and nothing else, says which of its commas are separators of thousands.
fn is_tight(text: &str) -> bool {
    let loose = |(at, _): (usize, &str)| {
        let rest = &text[at + 1..];
        rest.starts_with(|c: char| c.is_whitespace() || matches!(c, '\\' | '}'))
    };
    !text.match_indices(',').any(loose)
}

/// Whether a comma certainly separates thousands: the space behind it is taken back, it stands in braces, or a zero follows that no element would begin with.
fn is_grouped(text: &str) -> bool {
    let zero = |(at, _): (usize, &str)| {
        let mut rest = text[at + 1..].chars();
        rest.next() == Some('0') && rest.next().is_some_and(|next| next.is_ascii_digit())
    };
    text.contains(",\\!") || text.contains("{,}") || text.match_indices(',').any(zero)
}

/// Whether it has elements, or may have.
fn is_list(expr: &Expr) -> bool {
    matches!(expr, Expr::List(_) | Expr::Set(_) | Expr::Tuple(..))
}

/// The tree of a number with a letter for its unit, where it is another than the one without.
fn letter_unit(text: &str, plain: Option<&Expr>) -> Option<ParsedAnswer> {
    let begins = |c: char| c.is_ascii_digit() || c == '.';
    if text.len() > MAX_LETTER_UNIT_LENGTH || !text.starts_with(begins) {
        return None;
    }
    let letter_unit = parse_answer(text, Commas::Thousands, Letters::Units)?;
    (has_sized_unit(&letter_unit.tree, &Meter::new()) && plain != Some(&letter_unit.tree))
        .then_some(letter_unit)
}

/// Whether both have the same tokens, and some.
fn same_text(expected: &str, answer: &str) -> bool {
    match (tokens(expected), tokens(answer)) {
        (Some(expected), Some(answer)) => {
            let kinds = expected.iter().map(|token| token.kind);
            !expected.is_empty() && kinds.eq(answer.iter().map(|token| token.kind))
        }
        _ => expected == answer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same_both_ways(first: &str, second: &str) -> bool {
        let same = |a: &str, b: &str| matches!(compare(a, b, Policy::Lenient), Comparison::Same(_));
        assert_eq!(
            same(first, second),
            same(second, first),
            "{first} and {second}"
        );
        same(first, second)
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
        let comparison = compare(r"0\cdot 0^n", r"(0\cdot 0^n)", Policy::Standard);
        assert_eq!(comparison, Comparison::Same(Rule::Form));
    }
}
