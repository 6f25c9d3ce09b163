//! Which program a completion means: `extraction/completions.jsonl` has completions of models and by hand, each with the program that a reader finds in it, written down before the rule was.
//!
//! A false refusal is a completion whose program is right and that is judged otherwise; a false acceptance one that is judged right though its program is wrong, or there is none. The programs
//! themselves are compared too, but for blank lines and blanks at the ends of lines.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use datasets::fetch::{ArtifactKind, locate};
use datasets::{CodeTask, TaskSpec};
use sandboxes::Limits;
use serde::Deserialize;
use verifier::config::Config;
use verifier::grade::code::{CodeGrader, Extraction, TestMode};
use verifier_api::Verdict;

#[derive(Deserialize)]
struct Completion {
    id: String,
    source: String,
    entry_point: String,
    prefix: Option<String>,
    completion: String,
    /// `None` where it holds none that should be accepted.
    program: Option<String>,
    note: String,
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/extraction")
}

fn completions() -> Vec<Completion> {
    let text = std::fs::read_to_string(folder().join("completions.jsonl")).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn tasks() -> HashMap<String, CodeTask> {
    let set = datasets::open(folder().join("tasks.jsonl").to_str().unwrap(), None).unwrap();
    let of = |task: datasets::Task| match task.spec {
        TaskSpec::Code(task) => (task.entry_point.clone(), task),
        other => panic!("{other:?}"),
    };
    set.train.into_iter().chain(set.eval).map(of).collect()
}

fn grader() -> Option<CodeGrader> {
    if locate(ArtifactKind::Sandbox, verifier::setup::SANDBOX).is_none() {
        eprintln!(
            "SKIPPED: the sandbox's interpreter is not on this machine; `rapid-verifier fetch` fetches it"
        );
        return None;
    }
    let sandbox = verifier::setup::wasm_place(&Config::default())
        .make(&|_| ())
        .unwrap();
    Some(CodeGrader::new(
        Arc::clone(&sandbox),
        Limits::default(),
        1 << 20,
        None,
    ))
}

/// What is compared of a program.
fn code(program: &str) -> Vec<&str> {
    program
        .lines()
        .map(str::trim_end)
        .filter(|line| !line.is_empty())
        .collect()
}

/// What one rule makes of the completions, by the names of those that it misjudges.
#[derive(Default)]
struct Misjudged {
    refused: Vec<String>,
    accepted: Vec<String>,
    other_program: Vec<String>,
}

#[test]
fn each_completion_is_judged_by_the_program_that_it_means() {
    let Some(grader) = grader() else { return };
    let (completions, tasks) = (completions(), tasks());
    assert!(completions.len() >= 200);
    assert!(
        completions
            .iter()
            .filter(|completion| completion.source != "hand")
            .count()
            >= 120
    );
    let old = grader.for_inline().extracting(Extraction::LastBlock);
    let new = grader.for_inline().extracting(Extraction::Program);
    let mut misjudged = [Misjudged::default(), Misjudged::default()];
    let mut right = 0;
    for completion in &completions {
        let plain = tasks[&completion.entry_point].clone();
        let task = CodeTask {
            prefix: completion.prefix.clone(),
            ..plain.clone()
        };
        // By the old rule, a long fence hands a program on as it is.
        let fence = "`".repeat(20);
        let is_right = completion.program.as_ref().is_some_and(|program| {
            let labelled = format!("{fence}python\n{program}\n{fence}\n");
            old.grade(&plain, &labelled, TestMode::UntilFailure).verdict == Verdict::Correct
        });
        right += usize::from(is_right);
        for (rule, found) in [&old, &new].into_iter().zip(&mut misjudged) {
            let verdict = rule
                .grade(&task, &completion.completion, TestMode::UntilFailure)
                .verdict;
            assert_ne!(verdict, Verdict::Unavailable, "{}", completion.id);
            let name = || format!("{} ({})", completion.id, completion.note);
            match (is_right, verdict == Verdict::Correct) {
                (true, false) => found.refused.push(name()),
                (false, true) => found.accepted.push(name()),
                _ => {}
            }
            let program = rule.program(&task, &completion.completion).unwrap();
            if let Some(meant) = &completion.program
                && program.as_deref().map(code) != Some(code(meant))
            {
                found
                    .other_program
                    .push(format!("{}\n{}", name(), program.unwrap_or_default()));
            }
        }
    }
    let [before, after] = &misjudged;
    for (rule, found) in [("last-block", before), ("program", after)] {
        println!(
            "{rule}: of {} completions, {right} of them right: {} false refusals, {} false acceptances, {} times another program",
            completions.len(),
            found.refused.len(),
            found.accepted.len(),
            found.other_program.len(),
        );
        for source in ["SmolLM2-135M-Instruct", "Gemma 3 270M", "hand"] {
            let of = |names: &[String]| {
                let ids = completions
                    .iter()
                    .filter(|completion| completion.source == source);
                ids.filter(|completion| {
                    names
                        .iter()
                        .any(|name| name.starts_with(&format!("{} ", completion.id)))
                })
                .count()
            };
            println!(
                "  {source}: {}, {}, {}",
                of(&found.refused),
                of(&found.accepted),
                of(&found.other_program)
            );
        }
    }
    println!(
        "false refusals, program: {:#?}\nfalse acceptances, program: {:#?}",
        after.refused, after.accepted
    );
    for program in &after.other_program {
        println!("another program: {program}");
    }
    assert!(
        before.refused.len() > 20,
        "the old rule is the one of before"
    );
    assert!(
        after.refused.is_empty() && after.accepted.is_empty() && after.other_program.is_empty()
    );
}

#[test]
fn forms_of_answers_that_no_corpus_has() {
    let Some(grader) = grader() else { return };
    let tasks = tasks();
    for completion in [
        "\u{feff}def add(a, b):\n    return a + b\n",
        "1. Write it:\n2. ```python\n   def add(a, b):\n       return a + b\n   ```\n",
        "Two numbers, so I add them.</think>\ndef add(a, b):\n    return a + b",
        "def add(a, b):\n    return a + b<|im_end|>\n<|im_start|>user\ndef add(a, b):\n    return 0\n",
        "EOS = 0\ndef last():\n    return [EOS]\ndef add(a, b):\n    return a + b + last()[EOS]",
        "```python\ndef add(a, b):\n    return a + b\n```\nNow with a cache:\n```python\nfrom functools import lru_cache\nadd = lru_cache(None)(add)\n```\n",
        "```python\ndef plus(a, b):\n    return a + b\n```\nand\n```python\nfrom __future__ import annotations\n\ndef add(a: int, b: int) -> int:\n    return plus(a, b)\n```\n",
    ] {
        let grading = grader.grade(&tasks["add"], completion, TestMode::UntilFailure);
        assert_eq!(
            grading.verdict,
            Verdict::Correct,
            "{completion}\n{}",
            grading.detail
        );
    }
}

#[test]
fn hostile_texts_keep_nothing_from_being_read() {
    let Some(grader) = grader() else { return };
    let task = &tasks()["add"];
    let answer = "```python\ndef add(a, b):\n    return a + b\n```\n";
    for hostile in [
        "(".repeat(100_000),
        format!("x = {}1", "-".repeat(200_000)),
        format!("x = a{}", ".b".repeat(100_000)),
        format!("x = {}{}", "[".repeat(5_000), "]".repeat(5_000)),
        format!("x = {}0", "lambda: ".repeat(20_000)),
        format!("x = {}", "f(".repeat(5_000)),
        (1..99)
            .map(|depth| format!("{}if x:\n", " ".repeat(depth)))
            .collect(),
        "\"\"\"\n".repeat(20_001),
        "x = (\n".repeat(5_000),
        "Yes\n".repeat(50_000),
        "x = 'a\0b'".to_owned(),
        format!("x = {}", "9".repeat(5_000)),
        "# coding: nothing\nx = 1".to_owned(),
    ] {
        for completion in [
            format!("```python\n{hostile}\n```\n{answer}"),
            format!("{hostile}\n{answer}"),
        ] {
            let started = std::time::Instant::now();
            let grading = grader.grade(task, &completion, TestMode::UntilFailure);
            let start: String = completion.chars().take(30).collect();
            println!("{start:?} {:?} {:?}", grading.verdict, started.elapsed());
            assert_eq!(
                grading.verdict,
                Verdict::Correct,
                "{start} {}",
                grading.detail
            );
        }
    }
    for hostile in [
        "```\n".repeat(100_000),
        "```python\nx\n".repeat(50_000),
        (3..1_000)
            .rev()
            .map(|count| format!("{}\nx\n", "`".repeat(count)))
            .collect(),
        "<think>\n".repeat(100_000),
        "</s>".repeat(200_000),
        "[EOS]".repeat(200_000),
        format!("```\n{}```", "<|im_end|>\n".repeat(90_000)),
        "> ".repeat(200_000) + "```python\nx",
        "x = 1\n".repeat(300_000) + "(",
    ] {
        let grading = grader.grade(task, &hostile, TestMode::UntilFailure);
        let judged = matches!(
            grading.verdict,
            Verdict::Incorrect | Verdict::Malformed | Verdict::Timeout
        );
        assert!(judged, "{} {}", &hostile[..10], grading.detail);
    }
}
