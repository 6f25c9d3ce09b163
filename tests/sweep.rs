//! `rapid sweep`: killed, continued, made by two processes at once, and with a run that diverges.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tests::artifacts;
use tests::programs::{Running, rapid, start};

const RUNS: [&str; 2] = ["pg-seed-0", "rapid-seed-0"];

const FILE: &str = r#"
recipe = "quickstart"
seeds = [0]
[set]
"run.updates" = 2
"run.checkpoint_every" = 1
"algorithm.group_size" = 4
"algorithm.n_step" = 8
"sampling.max_tokens" = 12
"eval.limit" = 8
"eval.samples" = 1
"eval.k" = [1]
"engine.threads" = 1
[[arms]]
name = "pg"
set = { "algorithm.preset" = "pg" }
[[arms]]
name = "rapid"
set = { "algorithm.h" = 2 }
"#;

fn sweep(file: &Path, folder: &Path) -> Running {
    let [file, folder] = [file, folder].map(|path| path.to_str().unwrap());
    start(rapid(["sweep", file, "--out", folder]).env_remove("RAPID_VERIFIER"))
}

/// How many lines of the manifest are about an event of a run.
fn events(folder: &Path, run: &str, event: &str) -> usize {
    let text = std::fs::read_to_string(folder.join("manifest.jsonl")).unwrap();
    text.lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|line| line["run"] == run && line["event"] == event)
        .count()
}

#[test]
fn a_sweep_that_was_killed_three_times_equals_one_that_two_processes_made_undisturbed() {
    let Some(_) = artifacts::model() else { return };
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("sweep.toml");
    std::fs::write(&file, FILE).unwrap();

    let whole = place.path().join("whole");
    let both = [sweep(&file, &whole), sweep(&file, &whole)];
    for process in both {
        let _ = process.finish().success();
    }
    for run in RUNS {
        assert_eq!(events(&whole, run, "start"), 1, "{run}");
        assert_eq!(events(&whole, run, "resume"), 0, "{run}");
        assert_eq!(events(&whole, run, "finish"), 1, "{run}");
    }

    let killed = place.path().join("killed");
    for milliseconds in [2500, 6000, 4000] {
        let process = sweep(&file, &killed);
        std::thread::sleep(Duration::from_millis(milliseconds));
        let _ = process.kill();
    }
    let _ = sweep(&file, &killed).finish().success();
    for run in RUNS {
        assert_eq!(events(&killed, run, "finish"), 1, "{run}");
        for log in ["metrics.jsonl", "eval.jsonl"] {
            let read = |folder: &Path| std::fs::read(folder.join("runs").join(run).join(log));
            assert!(
                read(&whole).unwrap() == read(&killed).unwrap(),
                "{run}: {log} differs"
            );
        }
    }
}

#[test]
fn a_run_that_diverges_is_an_end_and_is_not_made_again() {
    let Some(_) = artifacts::model() else { return };
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("sweep.toml");
    let diverging = "set = { \"algorithm.preset\" = \"pg\", \"optimiser.lr\" = 1.0, \"optimiser.weight_decay\" = 1e6, \"optimiser.clip_norm\" = 0.0 }";
    let text = FILE.replace("set = { \"algorithm.preset\" = \"pg\" }", diverging);
    assert_ne!(text, FILE);
    std::fs::write(&file, text).unwrap();
    let folder = place.path().join("sweep");
    for _ in 0..2 {
        let outcome = sweep(&file, &folder).finish().success();
        let said = "1 run diverged, and would again; the report counts it as it ended: pg-seed-0";
        assert!(outcome.stderr.contains(said), "{outcome:?}");
        assert!(outcome.stderr.contains("finished: 1 run"), "{outcome:?}");
    }
    for run in RUNS {
        assert_eq!(events(&folder, run, "start"), 1, "{run}");
        assert_eq!(events(&folder, run, "resume"), 0, "{run}");
    }
}
