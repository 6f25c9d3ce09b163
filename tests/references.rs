//! `rapid-verifier prepare --dataset`: the values that canonical solutions return are computed ahead of time and shared between processes.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use tests::artifacts;
use tests::programs::rapid_verifier;

const TASKS: usize = 6;

/// A cache folder with the compiled sandbox, and a data set whose last solution takes seconds.
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
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The numbers of files with values, and of locks that are held or were left.
fn files(folder: &Path) -> (usize, usize) {
    let count = |extension: &str| {
        let entries = std::fs::read_dir(folder.join("expected"));
        let paths = entries
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path());
        let of_kind = paths.filter(|path| path.extension().is_some_and(|e| e == extension));
        of_kind.count()
    };
    (count("values"), count("lock"))
}

fn outcome(command: &mut Command) -> (bool, String, String) {
    let output = command.output().unwrap();
    (
        output.status.success(),
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

#[test]
fn solutions_run_once_ahead_of_time_and_a_killed_run_is_continued() {
    let Some(folder) = cache_folder() else { return };
    let folder = folder.path();
    let mut killed = prepare(folder).spawn().unwrap();
    // The quick solutions have run, and one more: the grader checks itself with its own task.
    while files(folder).0 < TASKS {
        if let Some(status) = killed.try_wait().unwrap() {
            panic!("it ended before it was killed: {status}");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    let known = files(folder).0 - 1;
    let (done, stdout, stderr) = outcome(&mut prepare(folder));
    assert!(done, "{stderr}");
    let run = format!("tasks: {} of {TASKS} solutions run in ", TASKS - known);
    let were_known = format!(" s, {known} were known");
    assert!(
        stdout.starts_with(&run) && stdout.contains(&were_known),
        "{stdout}"
    );
    let all = format!("tasks: {TASKS} of {TASKS} solutions");
    assert!(stderr.contains(&all), "{stderr}");
    let (values, locks) = files(folder);
    // A process that is killed after the write and before the unlock leaves the lock.
    assert!(values == TASKS + 1 && locks <= 1, "{values} {locks}");
    let (_, stdout, _) = outcome(&mut prepare(folder));
    let run = format!("tasks: 0 of {TASKS} solutions run");
    let were_known = format!("{TASKS} were known");
    assert!(
        stdout.starts_with(&run) && stdout.contains(&were_known),
        "{stdout}"
    );
}

#[test]
fn two_processes_at_once_run_every_solution_and_leave_no_lock() {
    let Some(folder) = cache_folder() else { return };
    let folder = folder.path();
    let both: Vec<_> = (0..2).map(|_| prepare(folder).spawn().unwrap()).collect();
    for process in both {
        assert!(process.wait_with_output().unwrap().status.success());
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
        let output = command.arg(folder.path()).args(args).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {stderr}");
        assert!(stderr.contains(expected), "{args:?}: {stderr}");
    }
}
