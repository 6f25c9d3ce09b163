//! Every algorithm with a real model and real rewards, with a kill during the run.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::json;
use tests::artifacts;
use tests::programs::Verifier;
use tests::training::{Job, repeating, set};

const PRESETS: [&str; 11] = [
    "grpo",
    "sft",
    "dapo",
    "rapid-paper",
    "rapid-author",
    "rapid-loo",
    "rapid-auto",
    "pg",
    "pg-author",
    "dapo-paper",
    "grpo-clip",
];
/// Updates of each run.
const UPDATES: usize = 20;

/// Writes a teacher's completions of the tasks of [`repeating`], every third of them incorrect, and returns the setting.
fn teacher(folder: &Path) -> String {
    let mut lines = String::new();
    for (number, question) in (10..90).step_by(5).enumerate() {
        let answer = question + i32::from(number % 3 == 2);
        writeln!(
            lines,
            "{}",
            json!({"task": format!("repeat/{question}"), "completion": format!(" \\boxed{{{answer}}}")})
        )
        .unwrap();
    }
    let file = folder.join("teacher.jsonl");
    std::fs::write(&file, lines).unwrap();
    format!("data.teacher={}", file.display())
}

#[test]
fn every_preset_trains_and_a_kill_does_not_change_the_result() {
    let (Some(_), true) = (artifacts::model(), artifacts::long_only()) else {
        return;
    };
    let verifier = Verifier::start(&["--set", "code.sandbox=none", "--require", "math"]);
    for preset in PRESETS {
        let folder = tempfile::tempdir().unwrap();
        let mut sets = repeating(folder.path());
        let mut own = vec![
            format!("algorithm.preset={preset}"),
            "algorithm.n_step=8".into(),
            format!("run.updates={UPDATES}"),
            "run.checkpoint_every=2".into(),
        ];
        if preset == "sft" {
            own.push("algorithm.group_size=1".into());
            own.push("algorithm.h=1".into());
            own.push(teacher(folder.path()));
        } else {
            own.push("algorithm.group_size=4".into());
        }
        sets.extend(set(&own.iter().map(String::as_str).collect::<Vec<_>>()));
        let undisturbed = Job::new(
            &folder.path().join("undisturbed"),
            "quickstart",
            &verifier,
            &sets,
        );
        let _ = undisturbed.start().finish().success();
        let lines = undisturbed.lines();
        assert_eq!(lines.len(), UPDATES, "{preset}");
        assert!(
            lines.iter().all(|line| line["masked"] == 0)
                && lines
                    .iter()
                    .any(|line| line["grad_norm"].as_f64().unwrap() > 0.0),
            "{preset}: {lines:#?}"
        );
        let killed = Job::new(
            &folder.path().join("killed"),
            "quickstart",
            &verifier,
            &sets,
        );
        let mut running = killed.start();
        killed.reach(&mut running, UPDATES / 2 + 1);
        let _ = running.kill();
        let _ = killed.resume().finish().success();
        assert_eq!(killed.metrics(), undisturbed.metrics(), "{preset}");
        let weights = |job: &Job| {
            let last = job.folder.join("checkpoints/last/model.safetensors");
            std::fs::read(last).unwrap()
        };
        assert!(
            weights(&killed) == weights(&undisturbed),
            "{preset}: the last weights differ"
        );
    }
}

#[test]
fn a_teacher_without_correct_completions_leaves_no_run_folder() {
    let Some(_) = artifacts::model() else { return };
    let verifier = Verifier::start(&["--set", "code.sandbox=none", "--require", "math"]);
    let folder = tempfile::tempdir().unwrap();
    let mut sets = repeating(folder.path());
    sets.extend(set(&[
        "algorithm.preset=sft",
        "algorithm.group_size=1",
        "algorithm.h=1",
        "algorithm.n_step=8",
        "run.updates=1",
        &teacher(folder.path()),
    ]));
    let incorrect = json!({"task": "repeat/10", "completion": " \\boxed{11}"});
    std::fs::write(folder.path().join("teacher.jsonl"), incorrect.to_string()).unwrap();
    let job = Job::new(&folder.path().join("run"), "quickstart", &verifier, &sets);
    let error = job.start().finish().failure(1);
    assert!(
        error.contains("0 right, 1 wrong") && !error.contains("--resume"),
        "{error}"
    );
    assert!(!job.folder.exists());
    teacher(folder.path());
    let _ = job.start().finish().success();
    assert_eq!(job.lines().len(), 1);
}
