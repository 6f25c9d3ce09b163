//! What a question implies about the form of its answer.

use dashu_ratio::RBig;

use crate::expression::Expr;
use crate::parser::contains_word;
use crate::parser::counted_nouns::counted_words;
use crate::parser::grammar::{Commas, Letters, parse_answer};
use crate::parser::unit::{Dimension, Measure, measure, money};
use crate::parser::word_answers::is_numeral;

/// Maximum length in bytes of a formula of the question that is parsed.
const MAX_FORMULA: usize = 256;
/// Maximum number of words of a unit: feet per second per second.
const MAX_UNIT_WORDS: usize = 5;
/// Words with which a question begins. Units before the last of them belong to another question, or to what is given.
const QUESTION_WORDS: [&str; 6] = ["how", "what", "find", "compute", "calculate", "determine"];
/// Words that may be between "how many" and the unit.
const SKIPPED_WORDS: &str = "more fewer less whole full total additional";

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
pub(crate) struct QuestionHints {
    /// Whether it asks for a percentage.
    pub(crate) percent: Likelihood,
    /// Whether it asks for an angle in degrees.
    pub(crate) degrees: Likelihood,
    /// Whether it asks for several answers with commas between them.
    pub(crate) commas: bool,
    /// Whether it asks for an equation in some form.
    pub(crate) form: bool,
    question: String,
    /// Whether it counts dozens.
    pub(crate) dozens: bool,
    /// Whether it asks for a time of day, and not for a ratio.
    pub(crate) time: Likelihood,
    /// Degrees or radians, if it asks for an angle in them.
    pub(crate) angle: Option<Measure>,
    /// The units that it names, in their order.
    units: Vec<NamedUnit>,
}

/// A unit that a question names: "how many minutes", "in hours".
#[derive(Debug, Clone, PartialEq, Eq)]
struct NamedUnit {
    /// In base units.
    size: RBig,
    dimension: Dimension,
    /// Whether "how many" or "number of" precedes it. Otherwise "in" does.
    is_counted: bool,
    /// Whether no other question follows.
    is_last: bool,
}

/// How the unit of an answer compares with the units that the question names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AskedUnit<'a> {
    /// The question names this unit, or does not decide.
    Same,
    /// The question asks for a unit of the same dimension and of this size.
    OtherSize(&'a RBig),
    /// The question counts units of another dimension.
    OtherDimension,
}

impl QuestionHints {
    pub(crate) fn from_question(question: &str) -> Self {
        if question.is_empty() {
            return Self::default();
        }
        let lower = question.to_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
        let is_time = has(&["what time", "a.m.", "p.m.", "o'clock", "clock time"]);
        let asked = QUESTION_WORDS.iter().filter_map(|word| lower.rfind(word));
        let asked = asked.max().unwrap_or_default();
        let (units, angle) = named_units(&lower);
        Self {
            percent: likelihood(
                requests_percent(&lower) && !has(&["decimal", "fraction"]),
                has(&["percent", "per cent", "%"]),
            ),
            // A question may ask for an angle or a temperature without the word.
            degrees: likelihood(has(&["degree"]), true),
            commas: has(&["comma"]),
            form: has(&[" form ", " form.", " form,", " form:"]),
            question: question.to_owned(),
            dozens: counted_words(&lower).any(|word| word.starts_with("dozen")),
            time: match (names_ratio(&lower[asked..]), is_time) {
                (true, _) => Likelihood::No,
                (_, time) => likelihood(time, !names_ratio(&lower)),
            },
            angle,
            units,
        }
    }

    /// Whether a word, a formula or a side of a formula of the question is this expression.
    pub(crate) fn has_expression(&self, expr: &Expr) -> bool {
        let formulas = self.question.split('$').flat_map(|text| text.split('='));
        let mut parts = self.question.split_whitespace().chain(formulas);
        parts.any(|part| {
            let part = part.trim_matches(['.', ',', '?', ';', ':', '$', ' ']);
            part.len() <= MAX_FORMULA
                && parse_answer(part, Commas::Thousands, Letters::Names)
                    .is_some_and(|parsed| parsed.tree == *expr)
        })
    }

    /// Compares the unit of an answer with the units that the question names. A unit after "in" counts only if no other question follows it. It excludes no other
    /// dimension: "in inches" may be said of the sides of an area.
    pub(crate) fn asked_unit(&self, size: &RBig, dimension: Dimension) -> AskedUnit<'_> {
        let alike = || self.units.iter().filter(|unit| unit.dimension == dimension);
        if alike().any(|unit| unit.size == *size) {
            return AskedUnit::Same;
        }
        if let Some(unit) = alike().rfind(|unit| unit.is_counted || unit.is_last) {
            return AskedUnit::OtherSize(&unit.size);
        }
        let counts = |unit: &&NamedUnit| {
            unit.is_last && (unit.is_counted || dimension.is_money() && unit.dimension.is_money())
        };
        let mut counted = self.units.iter().filter(counts).peekable();
        if counted.peek().is_some() && counted.all(|unit| !dimension.may_be_per(unit.dimension)) {
            return AskedUnit::OtherDimension;
        }
        AskedUnit::Same
    }
}

/// Whether a text is about ratios, so that 2:15 is not a time in it.
fn names_ratio(lower: &str) -> bool {
    let mut words = lower.split(|c: char| !c.is_alphabetic());
    // AB:BC, but not h:mm.
    let mut colons = lower.match_indices(':').map(|(at, _)| lower.split_at(at));
    words.any(|word| matches!(word, "ratio" | "ratios" | "proportion" | "odds" | "scale"))
        || colons.any(|(before, after)| {
            before.ends_with(char::is_alphabetic)
                && after[1..].starts_with(char::is_alphabetic)
                && !after.starts_with(":m")
        })
}

/// Whether an answer has the form of a time, with two digits for the minutes: 9:05.
pub(crate) fn is_time(text: &str) -> bool {
    let compact = text.replace("\\!", "").replace(' ', "");
    let mut numbers = compact.split(|c: char| !c.is_ascii_digit() && c != ':');
    let is_below = |digits: &str, end: u8| digits.parse::<u8>().is_ok_and(|number| number < end);
    let is_time = |(hour, rest): (&str, &str)| {
        let mut rest = rest.split(':');
        is_below(hour, 25) && rest.all(|part| part.len() == 2 && is_below(part, 60))
    };
    numbers.any(|number| number.split_once(':').is_some_and(is_time))
        && !names_ratio(&text.to_lowercase())
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
    // Formulas are between dollar signs. One after a word such as "find" is requested. If there is no such formula, any may be.
    let pieces: Vec<&str> = question.split('$').collect();
    let asks = |text: &str| {
        let lower = text.to_lowercase();
        let mut words = lower.split(|c: char| !c.is_alphabetic());
        words.any(|word| QUESTION_WORDS.contains(&word))
    };
    let any = !pieces.iter().step_by(2).any(|text| asks(text));
    let mut matching = pieces
        .chunks_exact(2)
        .filter(|two| (any || asks(two[0])) && compact(two[1]) == asked);
    matching.next().map(|_| value)
}

/// The units after "how many", "number of", "in", "to" and the like, and the last unit of angles. Miles per hour name miles too, since the rest is often left out.
fn named_units(lower: &str) -> (Vec<NamedUnit>, Option<Measure>) {
    // cm$^{2}$ is cm^2.
    let text = lower
        .replace(['{', '}'], "")
        .replace("$^2$", "^2")
        .replace("$^3$", "^3")
        .replace('/', " per ");
    // Numbers and parts of formulas are words too, so that neither "in 3 hours" nor `\in S` nor `in $s$` names a unit.
    let is_in_word = |c: char| c.is_alphanumeric() || matches!(c, '^' | '$' | '\\');
    let in_words = |text| -> Vec<&str> {
        let words = str::split(text, |c: char| !is_in_word(c));
        words.filter(|word| !word.is_empty()).collect()
    };
    let words = in_words(&text);
    // "Explain how" after a question does not ask for a unit.
    let asked = in_words(text.rfind('?').map_or(text.as_str(), |end| &text[..end]));
    let last_question = asked.iter().rposition(|word| QUESTION_WORDS.contains(word));
    let is_last = |at: usize| last_question.is_none_or(|last| at >= last);
    // 30 degrees and x degrees are given.
    let is_asked = |at: &usize| {
        let before = at.checked_sub(1).map_or("", |before| words[before]);
        before.len() > 1 && !before.contains(|c: char| c.is_ascii_digit() || c == '$')
    };
    let angle = (last_question.unwrap_or_default()..words.len())
        .filter(is_asked)
        .map(|at| measure(words[at]))
        .rfind(|measure| matches!(measure, Measure::Degrees | Measure::Radians));
    let mut units = Vec::new();
    // Where the last unit ends, and whether it is counted.
    let mut last_unit = (0, false);
    for at in 0..words.len() {
        let (is_counted, rest) = match &words[at..] {
            ["how", "many", rest @ ..] | ["number", "of", rest @ ..] => (true, rest),
            ["in", rest @ ..] => (false, rest),
            ["to" | "into" | "as" | "using", rest @ ..] if is_last(at) => (false, rest),
            // In feet and inches.
            ["and", rest @ ..] if last_unit.0 == at && at > 0 => (last_unit.1, rest),
            _ => continue,
        };
        let skipped = rest
            .iter()
            .take_while(|word| contains_word(SKIPPED_WORDS, word));
        let rest = &rest[skipped.count()..];
        if !is_counted && !begins_unit(rest) {
            continue;
        }
        let words_of_unit: Vec<&str> = rest
            .iter()
            .copied()
            .take_while(|word| *word != "in")
            .take(MAX_UNIT_WORDS)
            .collect();
        for length in 1..=words_of_unit.len() {
            let unit = &words_of_unit[..length];
            // Pounds may be money.
            let amount = (*unit == ["pounds"]).then(|| money('£'));
            for measured in [Some(measure(&unit.join(" "))), amount]
                .into_iter()
                .flatten()
            {
                if let Measure::Unit(size, dimension) = measured {
                    units.push(NamedUnit {
                        size,
                        dimension,
                        is_counted,
                        is_last: is_last(at),
                    });
                    last_unit = (words.len() - rest.len() + length, is_counted);
                }
            }
        }
    }
    (units, angle)
}

/// Whether a unit after "in" may begin these words, with a plural or an abbreviation. "In week 3", "in weeks 3 and 4" and "in second place" name no unit.
fn begins_unit(words: &[&str]) -> bool {
    let Some(word) = words.first() else {
        return false;
    };
    let is_number = |word: &&str| {
        word.trim_start_matches('$')
            .starts_with(|c: char| c.is_ascii_digit())
    };
    if words.get(1).is_some_and(is_number) {
        return false;
    }
    let name = word.trim_end_matches(|c: char| !c.is_alphabetic());
    if matches!(name, "square" | "sq" | "cubic" | "cu") {
        return true;
    }
    let is_plural = name.ends_with('s') || matches!(name, "feet" | "mph");
    (is_plural || name.len() <= 2) && matches!(measure(word), Measure::Unit(..))
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

    /// A question, the unit of an answer, and how the unit compares with those that the question names.
    const NAMED_UNITS: &str = r"
How many minutes does it take? = hours = size
How many minutes does it take? = minutes = same
How many minutes does it take? = cm = dimension
How many more whole minutes does it take? = hours = size
How many minutes, in hours, does it take? = hours = same
How many hours and how many minutes? = hours = same
How many square feet has it? = square inches = size
How many cm$^{2}$ has it? = cm^2 = same
How many feet of fence enclose it? = square feet = dimension
How many miles per hour does it go? = km/h = size
How many miles per hour does it go? = miles = same
How many miles/hour does it go? = hours = dimension
How many miles an hour does it go? = mph = same
How many miles does it go per hour? = mph = same
How many meters does he run a week? = meters per week = same
How many hours a day does she work? = hours = same
How many hours a day does she work? = hours per day = same
How many dollars an hour is that? = dollars per hour = same
How many hours and minutes does it take? = minutes = same
How many sec does it take? = hours = size
What is the number of feet in its length if its width, in inches, is 30? = feet = same
How many hours did she work? What did she earn? = dollars = same
How many pounds does it cost? = pence = size
How many pounds does it weigh? = lb = same
How many pounds does it weigh? = kg = size
How many grams does it weigh? = pence = dimension
How long does it take? = hours = same
What is its length, in inches? = feet = size
What is its length, in inches? = inches = same
What is its length, in inches? = minutes = same
What is its length, in inches? Explain how you found it. = feet = size
How long is it, in feet and inches? = inches = same
Its sides are in inches. What is its width? = feet = same
What is its area, if a side, in inches, is 3? = inches^2 = same
What is built in 3 hours? = minutes = same
How long is it open in week 3? = hours = same
How long is it open in weeks 3 and 4? = hours = same
What is the prize in second place? = dollars = same
What is the length for $x \in S$? = cm = same
What is the length in $s$? = cm = same
";

    #[test]
    fn the_unit_of_an_answer_is_compared_with_those_that_the_question_names() {
        let asked = |question: &str, unit: &str| {
            let Measure::Unit(size, dimension) = measure(unit) else {
                panic!("{unit} is a unit");
            };
            match QuestionHints::from_question(question).asked_unit(&size, dimension) {
                AskedUnit::Same => "same",
                AskedUnit::OtherSize(_) => "size",
                AskedUnit::OtherDimension => "dimension",
            }
        };
        for line in NAMED_UNITS.trim().lines() {
            let [question, unit, expected] = line.split(" = ").collect::<Vec<_>>()[..] else {
                panic!("{line}");
            };
            assert_eq!(asked(question, unit), expected, "{line}");
        }
    }

    #[test]
    fn a_question_asks_for_percent_if_it_names_them_without_a_number() {
        use Likelihood::{Maybe, No, Yes};
        for (question, percent) in [
            ("What percent of the class is absent?", Yes),
            ("Express your answer as a percentage.", Yes),
            ("If 20 percent of $x$ is 3, what is $x$?", Maybe),
            ("If $20$ percent of $x$ is 3, what is $x$?", Maybe),
            ("If twenty percent of $x$ is 3, what is $x$?", Maybe),
            ("It is raised by $20\\%$.", Maybe),
            ("How many are there?", No),
            ("", Maybe),
        ] {
            assert_eq!(
                QuestionHints::from_question(question).percent,
                percent,
                "{question}"
            );
        }
    }
}
