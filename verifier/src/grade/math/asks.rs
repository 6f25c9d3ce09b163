//! What a question says of the form of its answer.

use super::words::is_numeral;

/// Whether a question asks for something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Asked {
    /// It may, or there is no question.
    #[default]
    Perhaps,
    Yes,
    No,
}

/// What a question asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Asks {
    /// A percentage.
    pub(super) percent: Asked,
    /// An angle in degrees.
    pub(super) degrees: Asked,
    /// Several answers with commas between them.
    pub(super) commas: bool,
    /// A time of day, and no ratio.
    pub(super) time: bool,
}

impl Asks {
    pub(super) fn of(question: &str) -> Self {
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
        }
    }
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
            assert_eq!(Asks::of(question).percent, percent, "{question}");
        }
    }
}
