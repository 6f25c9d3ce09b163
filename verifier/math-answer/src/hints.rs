//! What a question implies about the form of its answer.

use dashu_ratio::RBig;

use crate::read::parse::{Commas, Letters, parse_answer};
use crate::read::unit::{Dimension, Measure, measure};
use crate::read::word_answers::is_numeral;

/// Maximum number of words of a unit: square feet per second.
const MAX_UNIT_WORDS: usize = 4;
/// Words that may be between "how many" and the unit.
const SKIPPED_WORDS: [&str; 7] = [
    "more",
    "fewer",
    "less",
    "whole",
    "full",
    "total",
    "additional",
];

/// Whether a question asks for an answer of some kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Likelihood {
    /// It may, or there is no question.
    #[default]
    Maybe,
    Yes,
    No,
}

/// What a question implies about its answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct AnswerHints {
    /// Whether it asks for a percentage.
    pub(crate) percent: Likelihood,
    /// Whether it asks for an angle in degrees.
    pub(crate) degrees: Likelihood,
    /// Whether it asks for several answers with commas between them.
    pub(crate) commas: bool,
    /// Whether it asks for a time of day, and not for a ratio.
    pub(crate) time: bool,
    /// The units that it counts: "how many minutes".
    counted: Vec<(RBig, Dimension)>,
    /// The units that it names in another way: "in hours".
    named: Vec<(RBig, Dimension)>,
}

impl AnswerHints {
    pub(crate) fn from_question(question: &str) -> Self {
        if question.is_empty() {
            return Self::default();
        }
        let lower = question.to_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
        Self {
            percent: likelihood(requests_percent(&lower), has(&["percent", "per cent", "%"])),
            // A question may ask for an angle or a temperature without the word.
            degrees: likelihood(has(&["degree"]), true),
            commas: has(&["comma"]),
            time: has(&["what time", "a.m.", "p.m.", "o'clock", "clock time"]) && !has(&["ratio"]),
            counted: units_after(&lower, &["how", "many"]),
            named: units_after(&lower, &["in"]),
        }
    }

    /// The size of the unit that the question counts, if that unit has this dimension but another size. `None` if the question names the unit of this size
    /// itself.
    pub(crate) fn differing_counted_unit(
        &self,
        size: &RBig,
        dimension: Dimension,
    ) -> Option<&RBig> {
        let mut units = self.counted.iter().chain(&self.named);
        if units.any(|(unit, measured)| unit == size && *measured == dimension) {
            return None;
        }
        let counted = self
            .counted
            .iter()
            .rfind(|(_, measured)| *measured == dimension);
        counted.map(|(size, _)| size)
    }
}

/// The value after an equals sign, if the text before the sign is a whole formula of the question. For a question about m + n, the value of m + n = 33 is 33.
pub(crate) fn value_after_asked_formula<'a>(answer: &'a str, question: &str) -> Option<&'a str> {
    let (formula, value) = answer.split_once('=')?;
    let compact = |text: &str| -> String {
        text.chars()
            .filter(|c| !c.is_whitespace() && *c != '$')
            .collect()
    };
    let asked = compact(formula);
    if asked.is_empty() || asked.ends_with(['\\', '<', '>', '!', ':']) || value.contains('=') {
        return None;
    }
    // 5 = 33 has no such value, whatever the question is.
    let left = parse_answer(&asked, Commas::Lists, Letters::Names);
    if left.is_some_and(|left| !left.tree.has_variable()) {
        return None;
    }
    // Formulas are between dollar signs.
    let formulas = question.split('$').skip(1).step_by(2);
    let mut matching = formulas.filter(|formula| compact(formula) == asked);
    matching.next().map(|_| value)
}

/// The unit after each occurrence of `words`, if a unit follows.
fn units_after(lower: &str, words: &[&str]) -> Vec<(RBig, Dimension)> {
    let words_of_question: Vec<&str> = lower
        .split(|c: char| !c.is_alphabetic())
        .filter(|word| !word.is_empty())
        .collect();
    let unit = |(at, _): (usize, &[&str])| {
        let rest = &words_of_question[at + words.len()..];
        let skipped = rest
            .iter()
            .take_while(|word| SKIPPED_WORDS.contains(word))
            .count();
        let rest = &rest[skipped..];
        let lengths = (1..=rest.len().min(MAX_UNIT_WORDS)).rev();
        let mut measures = lengths.map(|length| measure(&rest[..length].join(" ")));
        measures.find_map(|measure| match measure {
            Measure::Unit(size, dimension) => Some((size, dimension)),
            _ => None,
        })
    };
    let places = words_of_question.windows(words.len()).enumerate();
    places
        .filter(|(_, window)| window == &words)
        .filter_map(unit)
        .collect()
}

fn likelihood(certain: bool, possible: bool) -> Likelihood {
    match (certain, possible) {
        (true, _) => Likelihood::Yes,
        (_, true) => Likelihood::Maybe,
        _ => Likelihood::No,
    }
}

/// Whether the question has the word "percent" without a number before it: "what percent", but not "20 percent of".
fn requests_percent(lower: &str) -> bool {
    ["percent", "per cent"].into_iter().any(|word| {
        lower.match_indices(word).any(|(at, _)| {
            let before = lower[..at].trim_end_matches(|c: char| c.is_whitespace() || c == '$');
            let last = before.rsplit(|c: char| !c.is_alphabetic()).next();
            !before.ends_with(|c: char| c.is_ascii_digit()) && !last.is_some_and(is_numeral)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counted_unit_is_the_one_after_how_many() {
        let differs = |question: &str, unit: &str| {
            let Measure::Unit(size, dimension) = measure(unit) else {
                panic!("{unit} is a unit");
            };
            AnswerHints::from_question(question)
                .differing_counted_unit(&size, dimension)
                .is_some()
        };
        for (question, unit, expected) in [
            ("How many minutes does it take?", "hours", true),
            ("How many minutes does it take?", "minutes", false),
            ("How many more whole minutes does it take?", "hours", true),
            ("How many minutes, in hours, does it take?", "hours", false),
            ("How many hours and how many minutes?", "hours", false),
            ("How many square feet has it?", "square inches", true),
            ("How many feet of fence enclose it?", "square feet", false),
            ("How long does it take?", "hours", false),
        ] {
            assert_eq!(differs(question, unit), expected, "{question} {unit}");
        }
    }

    #[test]
    fn a_question_asks_for_percent_if_it_names_them_without_a_number() {
        for (question, percent) in [
            ("What percent of the class is absent?", Likelihood::Yes),
            ("Express your answer as a percentage.", Likelihood::Yes),
            ("If 20 percent of $x$ is 3, what is $x$?", Likelihood::Maybe),
            (
                "If $20$ percent of $x$ is 3, what is $x$?",
                Likelihood::Maybe,
            ),
            (
                "If twenty percent of $x$ is 3, what is $x$?",
                Likelihood::Maybe,
            ),
            ("It is raised by $20\\%$.", Likelihood::Maybe),
            ("How many are there?", Likelihood::No),
            ("", Likelihood::Maybe),
        ] {
            assert_eq!(
                AnswerHints::from_question(question).percent,
                percent,
                "{question}"
            );
        }
    }
}
