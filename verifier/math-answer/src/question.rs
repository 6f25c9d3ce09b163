//! What a question says of the form of its answer.

use dashu_ratio::RBig;

use crate::read::parse::{Commas, Letters, read};
use crate::read::unit::{Dimension, Measure, measure};
use crate::read::words::is_numeral;

/// Words of a unit: square feet per second.
const MAX_UNIT: usize = 4;
/// Words between "how many" and what is counted.
const BEFORE: [&str; 7] = [
    "more",
    "fewer",
    "less",
    "whole",
    "full",
    "total",
    "additional",
];

/// Whether a question asks for something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Asked {
    /// It may, or there is no question.
    #[default]
    Perhaps,
    Yes,
    No,
}

/// What a question asks for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Question {
    /// A percentage.
    pub(crate) percent: Asked,
    /// An angle in degrees.
    pub(crate) degrees: Asked,
    /// Several answers with commas between them.
    pub(crate) commas: bool,
    /// A time of day, and no ratio.
    pub(crate) time: bool,
    /// So many of these units: "how many minutes".
    counted: Vec<(RBig, Dimension)>,
    /// Units that it may ask for in other words: "in hours".
    named: Vec<(RBig, Dimension)>,
}

impl Question {
    pub(crate) fn of(question: &str) -> Self {
        if question.is_empty() {
            return Self::default();
        }
        let lower = question.to_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
        Self {
            percent: asked(names_percent(&lower), has(&["percent", "per cent", "%"])),
            // An angle or a temperature may be asked for without the word.
            degrees: asked(has(&["degree"]), true),
            commas: has(&["comma"]),
            time: has(&["what time", "a.m.", "p.m.", "o'clock", "clock time"]) && !has(&["ratio"]),
            counted: units(&lower, &["how", "many"]),
            named: units(&lower, &["in"]),
        }
    }

    /// The size of the unit that is asked for, where it measures the same as one of this size, and is another.
    pub(crate) fn other_unit(&self, size: &RBig, of: Dimension) -> Option<&RBig> {
        let all = || self.counted.iter().chain(&self.named);
        if all().any(|(asked, dimension)| asked == size && *dimension == of) {
            return None;
        }
        let counted = self.counted.iter().rfind(|(_, asked)| *asked == of);
        counted.map(|(size, _)| size)
    }
}

/// The value behind an equals sign, where what stands before it is all of a formula in the question: 33 of m + n = 33, where m + n is asked for.
pub(crate) fn behind_asked<'a>(given: &'a str, question: &str) -> Option<&'a str> {
    let (asked, value) = given.split_once('=')?;
    let compact = |text: &str| -> String {
        text.chars()
            .filter(|c| !c.is_whitespace() && *c != '$')
            .collect()
    };
    let asked = compact(asked);
    if asked.is_empty() || asked.ends_with(['\\', '<', '>', '!', ':']) || value.contains('=') {
        return None;
    }
    // 5 = 33 is none, whatever the question has.
    let left = read(&asked, Commas::Lists, Letters::Names);
    if left.is_some_and(|left| !left.tree.has_variable()) {
        return None;
    }
    // Formulas stand between dollar signs.
    let formulas = question.split('$').skip(1).step_by(2);
    let mut asks = formulas.filter(|formula| compact(formula) == asked);
    asks.next().map(|_| value)
}

/// The units behind each place where these words stand.
fn units(lower: &str, words: &[&str]) -> Vec<(RBig, Dimension)> {
    let all: Vec<&str> = lower
        .split(|c: char| !c.is_alphabetic())
        .filter(|word| !word.is_empty())
        .collect();
    let unit = |(at, _): (usize, &[&str])| {
        let behind = &all[at + words.len()..];
        let skipped = behind
            .iter()
            .take_while(|word| BEFORE.contains(word))
            .count();
        let behind = &behind[skipped..];
        let lengths = (1..=behind.len().min(MAX_UNIT)).rev();
        let mut measures = lengths.map(|length| measure(&behind[..length].join(" ")));
        measures.find_map(|measure| match measure {
            Measure::Unit(size, dimension) => Some((size, dimension)),
            _ => None,
        })
    };
    let places = all.windows(words.len()).enumerate();
    places
        .filter(|(_, window)| window == &words)
        .filter_map(unit)
        .collect()
}

fn asked(asks: bool, hints: bool) -> Asked {
    match (asks, hints) {
        (true, _) => Asked::Yes,
        (_, true) => Asked::Perhaps,
        _ => Asked::No,
    }
}

/// Whether it has the word without a number before it: "what percent", but not "20 percent of".
fn names_percent(lower: &str) -> bool {
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
    fn the_unit_that_is_counted_is_the_one_behind_how_many() {
        let asked = |question: &str, unit: &str| {
            let Measure::Unit(size, dimension) = measure(unit) else {
                panic!("{unit} is a unit");
            };
            Question::of(question)
                .other_unit(&size, dimension)
                .is_some()
        };
        for (question, unit, other) in [
            ("How many minutes does it take?", "hours", true),
            ("How many minutes does it take?", "minutes", false),
            ("How many more whole minutes does it take?", "hours", true),
            ("How many minutes, in hours, does it take?", "hours", false),
            ("How many hours and how many minutes?", "hours", false),
            ("How many square feet has it?", "square inches", true),
            ("How many feet of fence enclose it?", "square feet", false),
            ("How long does it take?", "hours", false),
        ] {
            assert_eq!(asked(question, unit), other, "{question} {unit}");
        }
    }

    #[test]
    fn a_question_asks_for_percent_where_it_names_them_without_a_number() {
        for (question, percent) in [
            ("What percent of the class is absent?", Asked::Yes),
            ("Express your answer as a percentage.", Asked::Yes),
            ("If 20 percent of $x$ is 3, what is $x$?", Asked::Perhaps),
            ("If $20$ percent of $x$ is 3, what is $x$?", Asked::Perhaps),
            (
                "If twenty percent of $x$ is 3, what is $x$?",
                Asked::Perhaps,
            ),
            ("It is raised by $20\\%$.", Asked::Perhaps),
            ("How many are there?", Asked::No),
            ("", Asked::Perhaps),
        ] {
            assert_eq!(Question::of(question).percent, percent, "{question}");
        }
    }
}
