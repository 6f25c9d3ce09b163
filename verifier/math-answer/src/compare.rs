//! Whether two answers are the same, and by which rule.

use std::borrow::Cow;

use crate::equivalence::matching_rule;
use crate::equivalence::quantities::has_sized_unit;
use crate::equivalence::value_equality::ValueComparer;
use crate::expression::Expr;
use crate::match_rule::Rule;
use crate::math_normalisation;
use crate::meter::Meter;
use crate::parser::counted_nouns::all_used;
use crate::parser::grammar::{Commas, Letters, ParsedAnswer, parse_answer};
use crate::parser::lexer::{tokens, with_ascii_forms};
use crate::parser::multiple_choice::{same_choice, value_after_label};
use crate::question_hints::{Likelihood, QuestionHints, is_time, value_after_asked_formula};
use crate::random_seed::seed;
use crate::settings::Policy;
use crate::simplification::remaining_simplification;

/// Maximum length in bytes of an answer that is parsed. Longer ones are compared as text alone.
const MAX_LENGTH: usize = 4096;
/// Maximum length in bytes of a number with a letter as its unit.
const MAX_LETTER_UNIT_LENGTH: usize = 64;

/// Maximum number of bytes of a question that are read.
const MAX_QUESTION: usize = 1 << 16;
/// Maximum number of forms of one value in an answer.
const MAX_FORMS: usize = 4;

/// The result of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// The answers are the same.
    Same(Rule),
    /// The values are the same, but the answer lacks a simplification that the expected answer has. The text names it.
    Unsimplified(Rule, &'static str),
    /// The answers differ, or could not be shown to be the same.
    Different,
}

/// A parsed answer, which can be compared with several others.
#[derive(Debug, Clone)]
pub struct Answer<'a> {
    /// As it was given.
    original: &'a str,
    text: Cow<'a, str>,
    /// The question, if this is the expected answer to one; otherwise empty.
    question: &'a str,
    /// The tree, if commas between digits may separate thousands.
    as_number: Option<Expr>,
    /// The tree, if commas separate elements. `None` if it equals `as_number`.
    as_list: Option<Expr>,
    /// The tree of a number, a space and a letter that may be a unit: 0.1 m.
    letter_unit: Option<Expr>,
    /// Words after its numbers that are in no list.
    unlisted: Vec<String>,
}

impl<'a> Answer<'a> {
    /// Parses an answer.
    #[must_use]
    pub fn parse(original: &'a str) -> Self {
        let original = original.trim();
        let text = with_ascii_forms(original);
        let mut unlisted = Vec::new();
        let mut tree = |parsed: ParsedAnswer| {
            unlisted.extend(parsed.unlisted);
            parsed.tree
        };
        let short = text.len() <= MAX_LENGTH;
        let reading = |commas| {
            let parsed = short.then(|| parse_answer(&text, commas, Letters::Names));
            parsed.flatten()
        };
        let number = reading(Commas::Thousands).map(&mut tree);
        let list = text
            .contains(',')
            .then(|| reading(Commas::Lists))
            .flatten()
            .map(&mut tree)
            .filter(|list| Some(list) != number.as_ref());
        let letter_unit = letter_unit(&text, number.as_ref()).map(&mut tree);
        Self {
            original,
            text,
            question: "",
            as_number: number,
            as_list: list,
            letter_unit,
            unlisted,
        }
    }

    /// Makes this the expected answer to a question. The question states what is counted.
    #[must_use]
    pub fn with_question(self, question: &'a str) -> Self {
        // A long prompt ends with the question.
        let from = question.len().saturating_sub(MAX_QUESTION);
        let from = (from..question.len()).find(|at| question.is_char_boundary(*at));
        Self {
            question: &question[from.unwrap_or_default()..],
            ..self
        }
    }

    /// Whether parsing succeeded. Other answers are compared as text alone.
    #[must_use]
    pub fn is_parsed(&self) -> bool {
        self.trees().next().is_some()
    }

    fn trees(&self) -> impl Iterator<Item = &Expr> {
        self.as_number.iter().chain(&self.as_list)
    }

    /// How the expected answer may be read. In brackets, or if the question asks for several answers with commas between them, 1,234 is two elements. Otherwise it
    /// may be one number too. 1,\!234 and 1,034 are always one number.
    fn readings_as_expected(&self, separates_by_commas: bool) -> impl Iterator<Item = &Expr> {
        let brackets = self.text.contains(['(', '[', '{']);
        let tight = is_tight(&self.text);
        let (number, list) = (self.as_number.as_ref(), self.as_list.as_ref());
        let readings = match (number, list) {
            (Some(_), Some(_)) if tight && (separates_by_commas || brackets) => [None, list],
            (Some(_), Some(_)) if is_grouped(&self.text) => [number, None],
            both => [both.0, both.1],
        };
        readings.into_iter().flatten()
    }

    /// The readings to compare with `expected`. If that is a list, commas separate elements, as long as no space follows one of them.
    fn readings_beside(&self, expected: &Expr) -> Vec<&Expr> {
        let brackets = self.text.contains(['(', '[', '{']);
        match (&self.as_number, &self.as_list) {
            (Some(number), Some(_)) if !brackets && is_grouped(&self.text) => vec![number],
            (_, Some(list)) if is_list(expected) && is_tight(&self.text) => vec![list],
            _ => self.trees().collect(),
        }
    }
}

/// Compares `answer` with the `expected` one.
#[must_use]
pub fn compare(expected: &str, answer: &str, policy: Policy) -> Comparison {
    compare_answers(&Answer::parse(expected), &Answer::parse(answer), policy)
}

/// Like [`compare`], for parsed answers.
#[must_use]
pub fn compare_answers(expected: &Answer<'_>, answer: &Answer<'_>, policy: Policy) -> Comparison {
    let (expected_text, answer_text) = (&*expected.text, &*answer.text);
    let question = expected.question;
    if policy == Policy::Strict {
        let same = math_normalisation::is_same(expected.original, answer.original);
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
    // The label of a choice adds nothing to the value after it. Nor does the formula that the question asks for.
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
    // A word that is not known to be a noun may give its number any value.
    if [expected, answer]
        .into_iter()
        .any(|side| !all_used(&side.unlisted, expected_text, question))
    {
        return Comparison::Different;
    }
    let mut hints = QuestionHints::from_question(question);
    if hints.time == Likelihood::Maybe && is_time(expected_text) {
        hints.time = Likelihood::Yes;
    }
    let comparer = ValueComparer::new(seed(expected_text, answer_text), hints);
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
    // Answers that are too expensive to compute are the same only if their trees are.
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

/// Whether the text has several forms of one value with "or" between them, and nothing that adds a value: ½ or 0.5.
fn offers_alternatives(text: &str) -> bool {
    let has = |word: &str| {
        text.split(|c: char| !c.is_alphabetic())
            .any(|part| part == word)
    };
    (has("or") || has("lor")) && !has("and") && !has("land") && !text.contains([',', ';'])
}

/// Compares several forms of one value. Each of them must agree.
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

/// The pairs of trees to compare. A letter counts as a unit only beside an answer that names its unit in `\text` or in more letters. By itself, 10 m may be ten
/// times m.
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

/// Whether no comma is followed by a space or by anything else that shows whether it separates thousands.
fn is_tight(text: &str) -> bool {
    let loose = |(at, _): (usize, &str)| {
        let rest = &text[at + 1..];
        rest.starts_with(|c: char| c.is_whitespace() || matches!(c, '\\' | '}'))
    };
    !text.match_indices(',').any(loose)
}

/// Whether a comma certainly separates thousands: `\!` follows it, it is in braces, or a zero and another digit follow it. No element begins like this.
fn is_grouped(text: &str) -> bool {
    let zero = |(at, _): (usize, &str)| {
        let mut rest = text[at + 1..].chars();
        rest.next() == Some('0') && rest.next().is_some_and(|next| next.is_ascii_digit())
    };
    text.contains(",\\!") || text.contains("{,}") || text.match_indices(',').any(zero)
}

/// Whether it is a list, a set or a tuple.
fn is_list(expr: &Expr) -> bool {
    matches!(expr, Expr::List(_) | Expr::Set(_) | Expr::Tuple(..))
}

/// The tree of a number with a letter as its unit, if it differs from the tree without units.
fn letter_unit(text: &str, plain: Option<&Expr>) -> Option<ParsedAnswer> {
    let begins = |c: char| c.is_ascii_digit() || c == '.';
    if text.len() > MAX_LETTER_UNIT_LENGTH || !text.starts_with(begins) {
        return None;
    }
    let letter_unit = parse_answer(text, Commas::Thousands, Letters::Units)?;
    (has_sized_unit(&letter_unit.tree, &Meter::new()) && plain != Some(&letter_unit.tree))
        .then_some(letter_unit)
}

/// Whether both have the same tokens, at least one.
fn same_text(expected: &str, answer: &str) -> bool {
    match (tokens(expected), tokens(answer)) {
        (Some(expected), Some(answer)) => {
            let kinds = expected.iter().map(|token| token.kind);
            !expected.is_empty() && kinds.eq(answer.iter().map(|token| token.kind))
        }
        _ => expected == answer,
    }
}
