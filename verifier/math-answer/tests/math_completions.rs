//! Compares the verdicts on mathematics with a reader's labels. `math_completions.jsonl` has completions of small models, each labelled right or wrong by
//! reading it beside the expected answer, without any grader's verdict. `docs/math-accuracy.md` has the rule of the labels and the figures.
//!
//! The records of the data sets are not in the repository, so the answers are compared without their questions. `score` compares them with the questions.
//!
//! A false refusal is a completion that the reader found right and that is not judged correct. A false acceptance is one that the reader found wrong and that is
//! judged correct.

use std::collections::{BTreeSet, HashMap};
use std::fmt;

use math_answer::{Comparison, Extraction, Policy, Settings, extract, grade};
use serde_json::Value;

struct Completion {
    /// The task's id in its data set.
    task: String,
    model: String,
    /// The form of the prompt.
    prompt: String,
    expected: String,
    completion: String,
    label: Label,
    /// Whether the completion has a box.
    boxed: bool,
    /// The verdict of Math-Verify 0.9.0, which `scripts/bench/math_verify_completions.py` writes.
    math_verify: bool,
}

impl Completion {
    fn accepted(&self, settings: Settings) -> bool {
        grade("", &self.expected, &self.completion, settings)
            .is_some_and(|graded| matches!(graded.comparison, Comparison::Same(_)))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Label {
    Right,
    Wrong,
    /// The reader cannot say which answer is the final one, or whether a teacher would accept it.
    Unclear,
}

fn completions() -> Vec<Completion> {
    let lines = include_str!("math_completions.jsonl").lines();
    lines
        .map(|line| {
            let record: Value = serde_json::from_str(line).expect("a line is JSON");
            let text = |field: &str| record[field].as_str().expect(field).to_owned();
            let flag = |field: &str| record[field].as_bool().expect(field);
            Completion {
                task: text("task"),
                model: text("model"),
                prompt: text("prompt"),
                expected: text("expected"),
                completion: text("completion"),
                label: match text("label").as_str() {
                    "right" => Label::Right,
                    "wrong" => Label::Wrong,
                    "unclear" => Label::Unclear,
                    other => panic!("the label {other} is not known"),
                },
                boxed: flag("boxed"),
                math_verify: flag("math_verify"),
            }
        })
        .collect()
}

/// How often a grader differs from the reader.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Errors {
    right: u32,
    refused: u32,
    wrong: u32,
    accepted: u32,
    unclear: u32,
    unclear_accepted: u32,
}

impl Errors {
    fn count(&mut self, label: Label, is_accepted: bool) {
        match label {
            Label::Right => {
                self.right += 1;
                self.refused += u32::from(!is_accepted);
            }
            Label::Wrong => {
                self.wrong += 1;
                self.accepted += u32::from(is_accepted);
            }
            Label::Unclear => {
                self.unclear += 1;
                self.unclear_accepted += u32::from(is_accepted);
            }
        }
    }
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = |f: &mut fmt::Formatter<'_>, count, of| {
            let [low, high] = wilson(count, of).map(|share| 100.0 * share);
            write!(f, "{count} of {of} ({low:.1}% to {high:.1}%)")
        };
        share(f, self.refused, self.right)?;
        f.write_str(" | ")?;
        share(f, self.accepted, self.wrong)?;
        write!(f, " | {} of {}", self.unclear_accepted, self.unclear)
    }
}

/// The 95% interval of a share by Wilson's score. Without any observation it is from 0 to 1.
fn wilson(count: u32, of: u32) -> [f64; 2] {
    if of == 0 {
        return [0.0, 1.0];
    }
    let (n, z) = (f64::from(of), 1.959_964);
    let share = f64::from(count) / n;
    let centre = share + z * z / (2.0 * n);
    let half = z * (share * (1.0 - share) / n + z * z / (4.0 * n * n)).sqrt();
    let scale = 1.0 + z * z / n;
    [
        ((centre - half) / scale).max(0.0),
        ((centre + half) / scale).min(1.0),
    ]
}

#[test]
fn wilsons_interval_is_that_of_the_literature() {
    // Newcombe 1998, table I: 81 of 263, and 0 of 20.
    for (count, of, low, high) in [(81, 263, 0.2553, 0.3662), (0, 20, 0.0, 0.1611)] {
        let [from, to] = wilson(count, of);
        assert!(
            (from - low).abs() < 5e-5 && (to - high).abs() < 5e-5,
            "{from} {to}"
        );
    }
}

#[test]
fn few_completions_are_judged_otherwise_than_a_reader_judges_them() {
    let completions = completions();
    let boxed = Settings::default();
    let any = Settings {
        extraction: Extraction::Any,
        ..boxed
    };
    let lenient = Settings {
        policy: Policy::Lenient,
        ..any
    };
    // Math-Verify's verdicts are in the file.
    let graders = [
        ("boxed, standard", Some(boxed)),
        ("any, standard", Some(any)),
        ("any, lenient", Some(lenient)),
        ("Math-Verify", None),
    ];
    let prompts: BTreeSet<&str> = completions.iter().map(|c| c.prompt.as_str()).collect();
    let mut found = Vec::new();
    for (name, settings) in graders {
        let (mut all, mut in_boxes) = (Errors::default(), Errors::default());
        let mut by_prompt: HashMap<&str, Errors> = HashMap::new();
        for completion in &completions {
            let label = completion.label;
            let is_accepted = settings.map_or(completion.math_verify, |settings| {
                completion.accepted(settings)
            });
            all.count(label, is_accepted);
            if completion.boxed {
                in_boxes.count(label, is_accepted);
            }
            by_prompt
                .entry(&completion.prompt)
                .or_default()
                .count(label, is_accepted);
            if is_accepted != (label == Label::Right) && label != Label::Unclear {
                println!("{name}: {}", description(completion, any));
            }
        }
        println!("| {name} | all | {all} |");
        println!("| {name} | with a box | {in_boxes} |");
        for prompt in &prompts {
            println!("| {name} | {prompt} | {} |", by_prompt[prompt]);
        }
        found.push((name, all.refused, all.accepted, in_boxes.refused));
    }
    assert_eq!(found, HELD);
}

/// Grader, false refusals, false acceptances, false refusals among completions with a box.
const HELD: [(&str, u32, u32, u32); 4] = [
    ("boxed, standard", 106, 0, 1),
    ("any, standard", 12, 5, 1),
    ("any, lenient", 12, 9, 1),
    ("Math-Verify", 18, 12, 2),
];

fn description(completion: &Completion, settings: Settings) -> String {
    let is_refusal = completion.label == Label::Right;
    let found = extract(&completion.completion, settings.extraction);
    format!(
        "false {}, {} ({}, {}): expected {:?}, found {:?}",
        if is_refusal { "refusal" } else { "acceptance" },
        completion.task,
        completion.model,
        completion.prompt,
        completion.expected,
        found.map_or("nothing", |found| found.text),
    )
}
