//! Compares the 12,500 answers of MATH with themselves and with each other.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use crate::data;
use crate::running::long;
use math_answer::{Answer, Comparison, Policy, Rule, compare_answers};
use serde_json::Value;

/// The records of these parts of MATH, and whether these are all of them.
fn records(parts: &[&str]) -> (Vec<Value>, bool) {
    let data::Records { folder, whole } = data::holding("math").expect("there is an excerpt");
    let mut records = Vec::new();
    for part in parts {
        let path = folder.join(format!("math/{part}.jsonl"));
        let text = std::fs::read_to_string(path).expect("its records");
        let parsed = text.lines().map(serde_json::from_str);
        records.extend(parsed.map(|record| record.expect("a record is JSON")));
    }
    (records, whole)
}

/// A text of a record.
fn field<'a>(record: &'a Value, name: &str) -> &'a str {
    record[name].as_str().expect("a text")
}

#[test]
fn every_labelled_answer_can_be_that_of_a_data_set() {
    let pairs = math_answer::pairs::parse(include_str!("../math-answer/tests/math_pairs.tsv"));
    let completions = include_str!("../math-answer/tests/math_completions.jsonl").lines();
    let of_completions = completions.map(|line| {
        let record = serde_json::from_str(line).expect("a record is JSON");
        field(&record, "expected").to_owned()
    });
    let of_pairs = pairs
        .expect("pairs")
        .into_iter()
        .map(|pair| pair.expected.to_owned());
    let refused: Vec<String> = of_pairs
        .chain(of_completions)
        .filter(|answer| datasets::right_answer(answer).is_err())
        .collect();
    assert_eq!(refused, Vec::<String>::new());
}

#[test]
fn every_answer_except_two_empty_ones_is_parsed_and_equals_itself() {
    let (records, whole) = records(&["train", "eval"]);
    assert_eq!(records.len(), if whole { 12_500 } else { 24 });
    let mut wrong: Vec<&str> = Vec::new();
    for record in &records {
        let answer = field(record, "answer");
        let parsed = Answer::parse(answer);
        // Other spacing makes the texts differ, so that the trees are compared.
        let spaced = format!(" {{{}}} ", answer.trim_end_matches(['.', ',', ' ']));
        let other = Answer::parse(&spaced);
        let is_same = |policy| {
            let comparison = compare_answers(&parsed, &other, policy);
            matches!(comparison, Comparison::Same(_))
        };
        let itself = [Policy::Standard, Policy::Lenient].map(is_same);
        if !parsed.is_parsed() || itself != [true, true] {
            wrong.push(answer);
        }
    }
    let without: &[&str] = if whole { &["", ""] } else { &[""] };
    assert_eq!(wrong, without);
}

/// The formulas between dollars or in `\[ \]`, and the sides of their equations.
fn formulas(text: &str) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    let mut rest = text;
    while let Some((at, open, close)) = [("$$", "$$"), ("$", "$"), ("\\[", "\\]")]
        .into_iter()
        .filter_map(|(open, close)| Some((rest.find(open)?, open, close)))
        .min_by_key(|(at, open, _)| (*at, std::cmp::Reverse(open.len())))
    {
        let after = &rest[at + open.len()..];
        let Some(end) = after.find(close) else { break };
        let formula = after[..end].trim();
        found.insert(formula);
        found.extend(formula.split('=').map(str::trim));
        rest = &after[end + close.len()..];
    }
    found.retain(|formula| !formula.is_empty());
    found
}

/// If copying the problem's formulas were rewarded, reinforcement learning would find that first. Problems that contain the answer literally are left out.
#[test]
fn a_formula_of_the_problem_is_almost_never_accepted_as_its_answer() {
    let (records, whole) = records(&["train"]);
    let (mut formulas_seen, mut accepted) = (0, Vec::new());
    for record in &records {
        let (problem, answer) = (field(record, "problem"), field(record, "answer"));
        let bare = |text: &str| text.replace([' ', '$'], "").replace("dfrac", "frac");
        if answer.is_empty() || bare(problem).contains(&bare(answer)) {
            continue;
        }
        let expected = Answer::parse(answer);
        for formula in formulas(problem) {
            formulas_seen += 1;
            let copied = Answer::parse(formula);
            if let Comparison::Same(rule) = compare_answers(&expected, &copied, Policy::Standard)
                && rule != Rule::Text
            {
                accepted.push(format!("{}\t{answer}\t{formula}", rule.name()));
            }
        }
    }
    let least = if whole { 20_000 } else { 10 };
    assert!(formulas_seen > least, "{formulas_seen}");
    assert!(
        accepted.len() * 1000 <= formulas_seen,
        "of {formulas_seen}: {accepted:#?}"
    );
}

/// Unless `RAPID_TEST_LONG=1`, an answer is compared with this many before it in the alphabet, the most similar ones, and not with all of its subject.
const NEIGHBOURS: usize = 40;

/// Writes every pair of different answers of one subject that compares equal to `math-accepted.tsv` in the folder of the tests' files. The expected counts are those of
/// a list that a person has checked.
#[test]
fn different_answers_compare_equal_only_if_they_mean_the_same() {
    let (records, whole) = records(&["train", "eval"]);
    let neighbours = if long() {
        usize::MAX
    } else {
        eprintln!(
            "SKIPPED: all pairs but those of {NEIGHBOURS} neighbours; RAPID_TEST_LONG=1 compares them"
        );
        NEIGHBOURS
    };
    let mut subjects: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for record in &records {
        let answer = field(record, "answer");
        if !answer.trim().is_empty() {
            let subject = field(record, "subject");
            subjects.entry(subject).or_default().insert(answer);
        }
    }
    let (mut pairs, mut list) = (0_u64, String::new());
    let mut rules: BTreeMap<&str, usize> = BTreeMap::new();
    for (subject, answers) in subjects {
        let read: Vec<(&str, Answer<'_>)> = answers
            .into_iter()
            .map(|text| (text, Answer::parse(text)))
            .collect();
        for (index, (text, answer)) in read.iter().enumerate() {
            for (other_text, other) in &read[index.saturating_sub(neighbours)..index] {
                pairs += 1;
                if let Comparison::Same(rule) = compare_answers(answer, other, Policy::Lenient) {
                    *rules.entry(Rule::name(rule)).or_default() += 1;
                    writeln!(list, "{subject}\t{}\t{text}\t{other_text}", rule.name()).unwrap();
                }
            }
        }
    }
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("math-accepted.tsv");
    std::fs::write(&path, list).unwrap();
    let counted: Vec<(&str, usize)> = rules.into_iter().collect();
    let expected: (u64, &[(&str, usize)]) = match (whole, long()) {
        (false, _) => (32, &[]),
        (true, false) => (
            231_500,
            &[
                ("elements", 2),
                ("form", 10),
                ("identity", 1),
                ("number", 245),
                ("ratio", 2),
                ("text", 23),
                ("words", 6),
            ],
        ),
        (true, true) => (
            2_675_662,
            &[
                ("digits", 1),
                ("elements", 4),
                ("form", 13),
                ("identity", 6),
                ("number", 437),
                ("ratio", 16),
                ("text", 72),
                ("unit", 39),
                ("words", 17),
            ],
        ),
    };
    let found = (pairs, counted.as_slice());
    assert_eq!(found, expected, "see {}", path.display());
}
