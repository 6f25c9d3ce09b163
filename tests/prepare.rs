//! `rapid-verifier prepare --dataset`: the values that canonical solutions return are computed ahead of time and shared between processes.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tests::artifacts;
use tests::programs::{assert_has, rapid_verifier, run, start};
use tests::repository::files_with;

const TASKS: usize = 6;

/// A cache folder with the compiled sandbox, and a data set with a last solution that takes seconds.
fn cache_folder() -> Option<tempfile::TempDir> {
    artifacts::sandbox()?;
    let folder = tempfile::tempdir().unwrap();
    let _ = artifacts::compiled(&folder.path().join("wasm/compiled"));
    let rounds = |n: usize| if n + 1 == TASKS { 40_000_000 } else { 10 };
    let tasks: String = (0..TASKS)
        .map(|n| {
            let solution = format!(
                "def f(n):\\n    for _ in range({}): pass\\n    return n + {n}\\n",
                rounds(n)
            );
            format!(
                "{{\"id\": {n}, \"question\": \"?\", \"entry_point\": \"f\", \"tests\": [{{\"args\": [1]}}], \"canonical\": \"{solution}\"}}\n"
            )
        })
        .collect();
    std::fs::write(folder.path().join("tasks.jsonl"), tasks).unwrap();
    Some(folder)
}

fn prepare(folder: &Path) -> Command {
    let tasks = folder.join("tasks.jsonl");
    let mut command = rapid_verifier(["prepare", "--workers", "2", "--dataset"]);
    command.arg(tasks).arg("--cache-dir").arg(folder);
    command
}

/// The numbers of files with values, and of locks that are held or were left.
fn files(folder: &Path) -> (usize, usize) {
    let count = |extension: &str| files_with(&folder.join("expected"), extension).len();
    (count("values"), count("lock"))
}

#[test]
fn solutions_run_once_ahead_of_time_and_a_killed_run_is_continued() {
    let Some(folder) = cache_folder() else { return };
    let folder = folder.path();
    let mut killed = start(&mut prepare(folder));
    // The quick solutions have run, and one more: the grader checks itself with its own task.
    while files(folder).0 < TASKS {
        assert_eq!(killed.ended(), None, "it ended before it was killed");
        std::thread::sleep(Duration::from_millis(1));
    }
    let _ = killed.kill();
    let known = files(folder).0 - 1;
    let outcome = run(&mut prepare(folder)).success();
    let run_now = format!("tasks: {} of {TASKS} solutions run in ", TASKS - known);
    let were_known = format!(" s, {known} were known");
    assert_has(&outcome.stdout, &[&run_now, &were_known]);
    let all = format!("tasks: {TASKS} of {TASKS} solutions");
    assert_has(&outcome.stderr, &[&all]);
    let (values, locks) = files(folder);
    // A process that is killed after the write and before the unlock leaves the lock.
    assert!(values == TASKS + 1 && locks <= 1, "{values} {locks}");
    let outcome = run(&mut prepare(folder)).success();
    let run_now = format!("tasks: 0 of {TASKS} solutions run");
    assert_has(&outcome.stdout, &[&run_now, &format!("{TASKS} were known")]);
}

#[test]
fn two_processes_at_once_run_every_solution_and_leave_no_lock() {
    let Some(folder) = cache_folder() else { return };
    let folder = folder.path();
    let both = [0, 1].map(|_| start(&mut prepare(folder)));
    for process in both {
        let _ = process.finish().success();
    }
    assert_eq!(files(folder), (TASKS + 1, 0));
}

#[test]
fn data_sets_that_cannot_be_prepared_are_reported() {
    for (args, code, expected) in [
        (
            &["--dataset", "starter-math", "--set", "code.sandbox=none"][..],
            0,
            "starter-math: no task has expected values to compute",
        ),
        (
            &["--dataset", "starter-code", "--no-disk-cache"],
            2,
            "leave out --no-disk-cache",
        ),
        (
            &["--dataset", "starter-code", "--set", "code.sandbox=none"],
            1,
            "no solution can be run: code is not judged here",
        ),
        (&["--dataset", "nope"], 2, "nope"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut command = rapid_verifier(["prepare", "--cache-dir"]);
        let outcome = run(command.arg(folder.path()).args(args));
        assert_eq!(outcome.code, Some(code), "{args:?}: {outcome:?}");
        assert_has(&outcome.stderr, &[expected]);
    }
}
