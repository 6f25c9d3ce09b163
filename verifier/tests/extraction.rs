//! Tests the extraction of programs. `extraction/completions.jsonl` has completions of models and people, each with the program that a reader finds in it. They were
//! labelled before the rule was written.
//!
//! A false refusal is a completion with a correct program that is not judged correct. A false acceptance is a completion with a wrong program, or none, that is judged
//! correct. The programs themselves are compared too, except for blank lines and trailing blanks.

use std::collections::HashMap;
use std::path::PathBuf;

use datasets::{CodeTask, TaskSpec};
use sandboxes::Limits;
use serde::Deserialize;
use verifier::config::Config;
use verifier::grade::code::{CodeGrader, Extraction, TestMode, Wanted};
use verifier_api::Verdict;

use crate::running::interpreter;

#[derive(Deserialize)]
struct Completion {
    id: String,
    source: String,
    entry_point: String,
    prefix: Option<String>,
    completion: String,
    /// `None` if the completion has no program that should be accepted.
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
    let by_entry_point = |task: datasets::Task| match task.spec {
        TaskSpec::Code(task) => (task.entry_point.clone(), task),
        other => panic!("{other:?}"),
    };
    set.train
        .into_iter()
        .chain(set.eval)
        .map(by_entry_point)
        .collect()
}

fn grader() -> Option<CodeGrader> {
    if !interpreter() {
        return None;
    }
    let sandbox = verifier::setup::wasm_folders(&Config::default())
        .build(&|_| ())
        .unwrap();
    Some(CodeGrader::new(sandbox, Limits::default(), 1 << 20, None))
}

/// The lines of a program that are compared.
fn code(program: &str) -> Vec<&str> {
    program
        .lines()
        .map(str::trim_end)
        .filter(|line| !line.is_empty())
        .collect()
}

#[test]
fn each_completion_is_judged_by_the_labelled_program() {
    let Some(grader) = grader() else { return };
    let (completions, tasks) = (completions(), tasks());
    assert!(completions.len() >= 200);
    let models = completions.iter().filter(|it| it.source != "hand");
    assert!(models.count() >= 120);
    let old = grader.for_inline().extracting(Extraction::LastBlock);
    let new = grader.for_inline().extracting(Extraction::Program);
    // What the rule misjudges, and how often the old one does.
    let (mut misjudged, mut by_old) = (Vec::new(), 0);
    for completion in &completions {
        let plain = tasks[&completion.entry_point].clone();
        let task = CodeTask {
            prefix: completion.prefix.clone(),
            ..plain.clone()
        };
        // The old rule passes a program inside a long fence on unchanged.
        let fence = "`".repeat(20);
        let is_right = completion.program.as_ref().is_some_and(|program| {
            let labelled = format!("{fence}python\n{program}\n{fence}\n");
            old.judge(&plain, &labelled, TestMode::UntilFailure).verdict == Verdict::Correct
        });
        let accepts = |rule: &CodeGrader| {
            let grading = rule.judge(&task, &completion.completion, TestMode::UntilFailure);
            assert_ne!(grading.verdict, Verdict::Unavailable, "{}", completion.id);
            grading.verdict == Verdict::Correct
        };
        by_old += usize::from(is_right && !accepts(&old));
        let wanted = Wanted::from(&task);
        let program = new.program(wanted, &completion.completion).unwrap();
        let program = program.map(|program| program.source);
        let is_other = completion
            .program
            .as_ref()
            .is_some_and(|labelled| program.as_deref().map(code) != Some(code(labelled)));
        let mut found = |what: &str| {
            let Completion { id, note, .. } = completion;
            misjudged.push(format!(
                "{what}: {id} ({note})\n{}",
                program.as_deref().unwrap_or("")
            ));
        };
        match (is_right, accepts(&new)) {
            (true, false) => found("a false refusal"),
            (false, true) => found("a false acceptance"),
            _ if is_other => found("another program"),
            _ => {}
        }
    }
    assert_eq!(misjudged, [""; 0]);
    assert_eq!(by_old, 89, "false refusals by the old rule");
}

#[test]
fn unusual_forms_of_answers_are_judged_correctly() {
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
        let grading = grader.judge(&tasks["add"], completion, TestMode::UntilFailure);
        let verdict = grading.verdict;
        assert_eq!(verdict, Verdict::Correct, "{completion}\n{grading:?}");
    }
}

#[test]
fn hostile_texts_do_not_keep_other_blocks_from_being_parsed() {
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
            let start: String = completion.chars().take(30).collect();
            let grading = grader.judge(task, &completion, TestMode::UntilFailure);
            assert_eq!(grading.verdict, Verdict::Correct, "{start} {grading:?}");
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
        let grading = grader.judge(task, &hostile, TestMode::UntilFailure);
        let judged = matches!(
            grading.verdict,
            Verdict::Incorrect | Verdict::Malformed | Verdict::Timeout
        );
        assert!(judged, "{} {}", &hostile[..10], grading.detail);
    }
}
