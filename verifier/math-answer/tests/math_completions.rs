//! Compares the verdicts on mathematics with a reader's labels. `math_completions.jsonl` has completions of small models. Each is labelled right or wrong by reading it
//! beside the expected answer, without any grader's verdict. `docs/math-accuracy.md` has the rule of the labels and the figures.
//!
//! The records of the data sets are not in the repository, so the answers are compared without their questions. `score` compares them with the questions.
//!
//! A false refusal is a completion that is right for the reader and not judged correct. A false acceptance is one that is wrong for the reader and judged correct.

use std::collections::BTreeMap;
use std::fmt;

use math_answer::{Comparison, Extraction, Policy, Settings, extract, grade};
use serde_json::Value;

/// A line of the file. `boxed` says whether the completion has a box. `math_verify` is the verdict of Math-Verify 0.9.0; `scripts/bench/math_verify_completions.py`
/// writes it.
struct Completion(Value);

impl Completion {
    fn text(&self, field: &str) -> &str {
        self.0[field].as_str().expect(field)
    }

    fn flag(&self, field: &str) -> bool {
        self.0[field].as_bool().expect(field)
    }

    fn label(&self) -> Label {
        match self.text("label") {
            "right" => Label::Right,
            "wrong" => Label::Wrong,
            "unclear" => Label::Unclear,
            other => panic!("the label {other} is not known"),
        }
    }

    fn accepted(&self, settings: Settings) -> bool {
        grade("", self.text("expected"), self.text("completion"), settings)
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
    let read = |line| Completion(serde_json::from_str(line).expect("a line is JSON"));
    lines.map(read).collect()
}

/// The numbers of completions with each [`Label`], and of those that a grader accepts.
#[derive(Default, Clone, Copy)]
struct Counts([(u32, u32); 3]);

impl Counts {
    fn count(&mut self, label: Label, is_accepted: bool) {
        let (all, accepted) = &mut self.0[label as usize];
        *all += 1;
        *accepted += u32::from(is_accepted);
    }

    fn refused(&self) -> u32 {
        let [(right, accepted), ..] = self.0;
        right - accepted
    }

    fn accepted(&self) -> u32 {
        let [_, (_, accepted), _] = self.0;
        accepted
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = |count, of| {
            let [low, high] = wilson(count, of).map(|share| 100.0 * share);
            format!("{count} of {of} ({low:.1}% to {high:.1}%)")
        };
        let [(right, _), (wrong, accepted), (unclear, unclear_accepted)] = self.0;
        let (refused, accepted) = (share(self.refused(), right), share(accepted, wrong));
        write!(
            f,
            "{refused} | {accepted} | {unclear_accepted} of {unclear}"
        )
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
    let mut found = Vec::new();
    for (name, settings) in graders {
        let (mut all, mut in_boxes) = (Counts::default(), Counts::default());
        let mut by_prompt: BTreeMap<&str, Counts> = BTreeMap::new();
        for completion in &completions {
            let label = completion.label();
            let is_accepted = match settings {
                Some(settings) => completion.accepted(settings),
                None => completion.flag("math_verify"),
            };
            all.count(label, is_accepted);
            if completion.flag("boxed") {
                in_boxes.count(label, is_accepted);
            }
            let prompt = by_prompt.entry(completion.text("prompt"));
            prompt.or_default().count(label, is_accepted);
            if is_accepted != (label == Label::Right) && label != Label::Unclear {
                println!("{name}: {}", description(completion, any));
            }
        }
        println!("| {name} | all | {all} |");
        println!("| {name} | with a box | {in_boxes} |");
        for (prompt, counts) in by_prompt {
            println!("| {name} | {prompt} | {counts} |");
        }
        found.push((name, all.refused(), all.accepted(), in_boxes.refused()));
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
    let is_refusal = completion.label() == Label::Right;
    let error = if is_refusal { "refusal" } else { "acceptance" };
    let [task, model, prompt, expected, text] =
        ["task", "model", "prompt", "expected", "completion"].map(|field| completion.text(field));
    let found = extract(text, settings.extraction).map_or("nothing", |found| found.text);
    format!("false {error}, {task} ({model}, {prompt}): expected {expected:?}, found {found:?}")
}
