//! Whether two answers are the same, and by which rule.

use super::Policy;
use super::finished::finished;
use super::lex::tokens;
use super::parse::{Commas, parse};
use super::same;
use super::seed::seed;
use super::strict;
use super::syntax::Expr;
use super::value::Judge;

/// Longer answers are compared as text alone, in bytes.
const MAX_LENGTH: usize = 4096;

/// Why two answers were held equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// Their normal forms are the same text.
    Text,
    /// Both are rational numbers of the same exact value.
    Number,
    /// Their trees are the same.
    Form,
    /// They agree exactly, modulo large primes, at random points.
    Identity,
    /// They agree to many digits, at random points.
    Digits,
    /// Tuples, matrices, lists or sets of equal elements.
    Elements,
    /// The same set of real numbers.
    Set,
    /// Equations or inequalities that say the same.
    Relation,
    /// The same quantity in other units.
    Unit,
    /// The same ratio.
    Ratio,
    /// The same digits in the same base.
    Base,
    /// The same words, or the same number, time or day in words.
    Words,
}

impl Rule {
    /// As `detail` writes it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Rule::Text => "text",
            Rule::Number => "number",
            Rule::Form => "form",
            Rule::Identity => "identity",
            Rule::Digits => "digits",
            Rule::Elements => "elements",
            Rule::Set => "set",
            Rule::Relation => "relation",
            Rule::Unit => "unit",
            Rule::Ratio => "ratio",
            Rule::Base => "base",
            Rule::Words => "words",
        }
    }
}

/// What a comparison finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// The answers are the same.
    Same(Rule),
    /// Their values are, but the given one leaves arithmetic undone that the right one has done.
    Unfinished(Rule),
    /// They are not, as far as can be told.
    Different,
}

/// An answer that is compared with several.
#[derive(Debug, Clone)]
pub struct Answer<'a> {
    text: &'a str,
    /// Its trees, one for each way to read a comma between digits.
    readings: Vec<Expr>,
}

impl<'a> Answer<'a> {
    /// Reads an answer.
    #[must_use]
    pub fn read(text: &'a str) -> Self {
        let text = text.trim();
        Self {
            text,
            readings: readings(text),
        }
    }

    /// Whether it was understood; what was not is compared as text alone.
    #[must_use]
    pub fn is_parsed(&self) -> bool {
        !self.readings.is_empty()
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
    let (readings, others) = (&right.readings, &given.readings);
    let (right, given) = (right.text, given.text);
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
    let judge = Judge::new(seed(right, given));
    for right in readings {
        for given in others {
            let Some(rule) = same::same(&judge, right, given) else {
                continue;
            };
            if policy == Policy::Standard && !finished(rule, right, given) {
                return Comparison::Unfinished(rule);
            }
            return Comparison::Same(rule);
        }
    }
    Comparison::Different
}

/// The trees of an answer: in brackets, (1,234) may be a point or a number.
fn readings(text: &str) -> Vec<Expr> {
    if text.len() > MAX_LENGTH {
        return Vec::new();
    }
    let number = parse(text, Commas::Thousands);
    let ambiguous = text.contains(',') && text.contains(['(', '[', '{']);
    let list = if ambiguous {
        parse(text, Commas::Lists)
    } else {
        None
    };
    let list = list.filter(|list| Some(list) != number.as_ref());
    number.into_iter().chain(list).collect()
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
