//! Nouns that may be counted: those of a committed list, and those in the task.
//!
//! No list can contain all words that change a value, so no list of such words decides. A number with a word that is not known to be a noun equals no other number.

use std::collections::HashSet;
use std::sync::LazyLock;

use crate::parser::unit::{Measure, measure};
use crate::parser::word_answers::is_choice;

/// Short words that do not affect a value.
pub(crate) const FILLER_WORDS: [&str; 14] = [
    "a", "an", "the", "of", "in", "on", "at", "by", "for", "per", "th", "st", "nd", "rd",
];

/// Ordinary nouns, in the singular if they have one, and words that describe them.
static NOUNS: LazyLock<HashSet<&'static str>> =
    LazyLock::new(|| include_str!("nouns.txt").lines().collect());

/// Nouns of the list for a number or an amount of other things. A question that counts people is not answered by pairs.
const NOUNS_WITH_VALUE: [&str; 7] = [
    "pair", "couple", "triplet", "barrel", "bushel", "carat", "stone",
];

/// Verbs that end the words for what is counted.
const VERBS: [&str; 18] = [
    "is", "are", "was", "were", "be", "do", "does", "did", "can", "could", "will", "would", "has",
    "have", "had", "must", "should", "that",
];

/// Endings of numerals. A task may use such words too.
const NUMERAL_ENDINGS: [&str; 4] = ["illion", "illions", "illionth", "ths"];

/// Endings of words that are not nouns and that change a value at the end of a phrase: "5 tweaked", but not "5 tweaked parts".
const NON_NOUN_ENDINGS: [&str; 5] = ["fold", "ly", "ed", "ing", "wise"];

/// A word in lower case, without punctuation around it and without a plural in brackets: "student(s)".
pub(crate) fn normalise_word(word: &str) -> String {
    let word = word.to_lowercase();
    let word = word.strip_suffix("(s)").unwrap_or(&word);
    word.trim_matches(['(', ')', '.', '"', '\'', '’', ':'])
        .replace(['\'', '’'], "")
}

/// The word, and its possible singular forms.
fn forms(word: &str) -> impl Iterator<Item = String> {
    let changed = word.strip_suffix("ies").map(|stem| format!("{stem}y"));
    let plain = ["es", "s"].map(|end| word.strip_suffix(end).map(str::to_owned));
    let [longer, shorter] = plain;
    [Some(word.to_owned()), changed, longer, shorter]
        .into_iter()
        .flatten()
}

/// The words of a phrase that are not in the list, in lower case.
pub(crate) fn unlisted_words(phrase: &str) -> Vec<String> {
    let words = phrase
        .split_whitespace()
        .filter(|word| !is_choice(word))
        .map(normalise_word);
    let parts = words.flat_map(|word| word.split('-').map(str::to_owned).collect::<Vec<_>>());
    parts
        .filter(|part| {
            let listed = is_listed(part) && !has_value(part);
            !FILLER_WORDS.contains(&part.as_str()) && !listed
        })
        .collect()
}

/// Whether a phrase may end with this word.
pub(crate) fn may_end_phrase(word: &str) -> bool {
    is_listed(word) || !NON_NOUN_ENDINGS.iter().any(|end| word.ends_with(end))
}

fn is_listed(word: &str) -> bool {
    forms(word).any(|form| NOUNS.contains(form.as_str()))
        || matches!(measure(word), Measure::Unit(..) | Measure::Generic(_))
}

/// The words of what a question counts: those after "how many" and "number of", up to a verb or the end of the sentence.
pub(crate) fn counted_words(lower: &str) -> impl Iterator<Item = &str> {
    ["how many", "number of"]
        .into_iter()
        .flat_map(|start| lower.split(start).skip(1))
        .flat_map(|rest| {
            let sentence = rest.split(['.', '?', '!']).next().unwrap_or_default();
            let words = sentence.split(|c: char| !c.is_alphabetic());
            words.take_while(|word| !VERBS.contains(word))
        })
}

fn has_value(word: &str) -> bool {
    forms(word).any(|form| NOUNS_WITH_VALUE.contains(&form.as_str()))
        || matches!(measure(word), Measure::Unit(..))
}

/// Whether each of `words` is a noun that the `expected` answer or the `question` uses. If the question counts something, a noun with a value must be part of it.
pub(crate) fn all_used(words: &[String], expected: &str, question: &str) -> bool {
    if words.is_empty() {
        return true;
    }
    let set =
        |texts: [&str; 2]| -> HashSet<String> { texts.into_iter().flat_map(words_used).collect() };
    let lower = question.to_lowercase();
    let counted = counted_words(&lower).collect::<Vec<_>>().join(" ");
    let (named, counted_too) = (set([expected, question]), set([expected, &counted]));
    words.iter().all(|word| {
        let within = |used: &HashSet<String>| forms(word).any(|form| used.contains(&form));
        let used = match has_value(word) {
            true => counted.is_empty() || within(&counted_too),
            false => within(&named),
        };
        used && !NUMERAL_ENDINGS.iter().any(|end| word.ends_with(end))
    })
}

/// The words of a text in all their forms, without LaTeX commands.
fn words_used(text: &str) -> impl Iterator<Item = String> {
    let breaks = |c: char| !(c.is_alphabetic() || c == '\\');
    text.split(breaks)
        // The part before a backslash is a word. The part after it is the name of a command.
        .filter_map(|run| run.split('\\').next())
        .filter(|word| !word.is_empty())
        .flat_map(|word| forms(&word.to_lowercase()).collect::<Vec<_>>())
}

/// Whether two phrases may count the same things: one contains the main noun of the other.
pub(crate) fn count_alike(first: &str, second: &str) -> bool {
    let words =
        |phrase: &str| -> Vec<String> { phrase.split_whitespace().map(normalise_word).collect() };
    let (first, second) = (words(first), words(second));
    let contains = |head: &String, all: &[String]| {
        all.iter()
            .any(|word| forms(word).any(|form| forms(head).any(|own| own == form)))
    };
    match (head_noun(&first), head_noun(&second)) {
        (Some(a), Some(b)) => contains(a, &second) || contains(b, &first),
        _ => true,
    }
}

/// The main noun of a phrase: "pairs" in "distinct pairs of socks".
fn head_noun(words: &[String]) -> Option<&String> {
    let is_small = |word: &&String| FILLER_WORDS.contains(&word.as_str());
    let rest = words.iter().skip_while(is_small);
    rest.take_while(|word| !is_small(word)).last()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sorted_and_has_singulars() {
        let lines: Vec<&str> = include_str!("nouns.txt").lines().collect();
        assert!(lines.is_sorted_by(|a, b| a < b));
        for (word, listed) in [
            ("ways", true),
            ("boxes", true),
            ("parties", true),
            ("people", true),
            ("hours", true),
            ("units", true),
            ("quadrillion", false),
            ("billionths", false),
            ("sine", false),
            ("milli", false),
            ("subtracted", false),
        ] {
            assert_eq!(is_listed(word), listed, "{word}");
        }
    }

    #[test]
    fn nouns_of_the_task_may_be_counted() {
        let used = |word: &str| all_used(&[word.to_owned()], r"16\text{ daps}", "How many blorgs?");
        assert!(used("daps") && used("dap") && used("blorg") && used("blorgs"));
        assert!(!used("text") && !used("dip") && !used("frac"));
        let in_question = |word: &str| all_used(&[word.to_owned()], "5", "Nearly 5 trillionths");
        assert!(in_question("nearly") && !in_question("trillionths"));
        assert!(!may_end_phrase("tweaked") && may_end_phrase("colored") && may_end_phrase("daps"));
    }

    #[test]
    fn phrases_count_alike_if_one_contains_the_main_noun_of_the_other() {
        for (first, second, alike) in [
            ("right triangles", "triangles", true),
            ("ways.", "different way", true),
            ("children tickets", "tickets for children", true),
            ("daps", "baps", false),
            ("right triangles", "right angles", false),
        ] {
            assert_eq!(count_alike(first, second), alike, "{first} and {second}");
        }
    }
}
