//! If code cannot be judged, `/readyz`, `rapid-verifier doctor` and the verdicts name the missing thing and the remedy, and no completion is judged incorrect for
//! it.

use std::io::Write as _;
use std::process::Command;

use serde_json::{Value, json};
use tests::artifacts;
use tests::programs::{Verifier, rapid, rapid_verifier, run};

const CORRECT: &str = "def double(n):\n    return 2 * n\n";

/// With these arguments and variables, a fault of a machine, the doctor fails with the reason, which has the `expected` parts: the thing and the remedy. The service runs,
/// reports the same reason, and gives no verdicts.
fn assert_named(arguments: &[&str], environment: &[(&str, &str)], expected: &[&str]) {
    let assert_expected = |reason: &str| {
        for text in expected {
            assert!(reason.contains(text), "{text:?} is not in: {reason}");
        }
    };
    let mut doctor = rapid_verifier(["doctor"]);
    doctor.args(arguments);
    doctor.envs(environment.iter().copied());
    let outcome = run(&mut doctor);
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    let mut lines = outcome.stdout.lines();
    assert_expected(
        lines
            .find(|line| line.contains("grader code"))
            .unwrap_or_default(),
    );

    let verifier = Verifier::start_with(arguments, environment);
    let ready = verifier.request("GET", "/readyz", b"").json();
    let mut graders = ready["graders"].as_array().unwrap().iter();
    let code = graders.find(|grader| grader["name"] == "code").unwrap();
    assert_eq!(code["state"], "unavailable");
    assert_expected(code["reason"].as_str().unwrap());
    for program in [CORRECT, "def double(n):\n    return n\n", "no code at all"] {
        let task = json!({"kind": "code", "entry_point": "double", "tests": [{"args": [3], "expected": 6}]});
        let item = json!({"id": "a", "task": task, "prompt": "", "completion": program});
        let result = verifier.judge(&item);
        assert_eq!(
            (&result["verdict"], &result["reward"]),
            (&json!("unavailable"), &Value::Null),
            "{result}"
        );
        assert_eq!(result["detail"]["reason"], code["reason"]);
    }
    assert_eq!(verifier.request("GET", "/healthz", b"").status, 200);
}

#[test]
fn the_error_names_a_docker_engine_that_does_not_answer() {
    let engine = "docker.host=unix:///nowhere/docker.sock";
    assert_named(
        &["--set", "code.sandbox=docker", "--set", engine],
        &[],
        &[
            "/nowhere/docker.sock",
            "apt-get install docker.io",
            "code.sandbox = \"wasm\"",
        ],
    );
}

#[test]
fn without_lean_no_proof_is_incorrect_and_no_training_begins() {
    let Some(_) = artifacts::model() else { return };
    let verifier = Verifier::start(&["--set", "code.sandbox=none"]);
    let remedy = "sandboxes/lean/README.md";
    let item = json!({"id": "a", "task": "starter-lean/sum_comm", "prompt": "", "completion": "exact Nat.add_comm a b"});
    let result = verifier.judge(&item);
    assert_eq!(
        (&result["verdict"], &result["reward"], &result["retryable"]),
        (&json!("unavailable"), &Value::Null, &json!(false))
    );
    assert!(
        result["detail"]["reason"]
            .as_str()
            .unwrap()
            .contains(remedy),
        "{result}"
    );

    let folder = tempfile::tempdir().unwrap();
    let run_folder = folder.path().join("run");
    let mut train = rapid([
        "train",
        "--recipe",
        "quickstart",
        "--device",
        "cpu",
        "--set",
        "data.dataset=starter-lean",
        "--set",
        "data.template=lean4",
        "--verifier",
    ]);
    train.arg(verifier.url()).arg("--out").arg(&run_folder);
    let error = run(&mut train).failure(1);
    assert!(error.contains(remedy) && error.contains("lean"), "{error}");
    let metrics = std::fs::read_to_string(run_folder.join("metrics.jsonl")).unwrap_or_default();
    assert_eq!(metrics, "", "nothing was trained");
}

#[test]
fn the_error_names_an_interpreter_that_was_not_fetched() {
    let home = tempfile::tempdir().unwrap();
    assert_named(
        &[],
        &[("RAPID_HOME", home.path().to_str().unwrap())],
        &[
            "Python interpreter",
            "`rapid-verifier fetch`",
            "--sandbox-dir",
        ],
    );
}

#[test]
fn the_error_names_a_damaged_interpreter() {
    let Some(artifact) = artifacts::sandbox() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    for file in ["python-snapshot.wasm", "python-stdlib.zip"] {
        std::fs::copy(artifact.join(file), folder.path().join(file)).unwrap();
    }
    let file = std::fs::File::options()
        .write(true)
        .open(folder.path().join("python-snapshot.wasm"))
        .unwrap();
    file.set_len(1_000_000).unwrap();
    assert_named(
        &["--sandbox-dir", path, "--cache-dir", path],
        &[],
        &[path, "fetch sandbox:python-wasi"],
    );
}

#[test]
fn the_error_names_a_cache_folder_that_cannot_be_created_or_is_read_only_or_full() {
    if artifacts::sandbox().is_none() {
        return;
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().join("cache");
    let path = path.to_str().unwrap();
    assert_named(&["--cache-dir", path], &[], &[path, "--cache-dir"]);
    for (options, expected) in [
        ("ro,size=1m", "Read-only file system"),
        ("size=1m", "make room for 320 MiB"),
    ] {
        let Some(disk) = Disk::mount(options) else {
            return;
        };
        let path = disk.folder.path().to_str().unwrap();
        assert_named(
            &["--cache-dir", path],
            &[],
            &[path, expected, "--cache-dir"],
        );
    }
}

#[test]
fn a_full_disk_disables_the_cache_and_loses_no_verdict() {
    if artifacts::sandbox().is_none() {
        return;
    }
    let Some(disk) = Disk::mount("size=400m") else {
        return;
    };
    let _ = artifacts::compiled(&disk.folder.path().join("wasm/compiled"));
    let mut filler = std::fs::File::create(disk.folder.path().join("filler")).unwrap();
    while filler.write_all(&[1; 4096]).is_ok() {}

    let folder = tempfile::tempdir().unwrap();
    let (tasks, samples) = (
        folder.path().join("tasks.jsonl"),
        folder.path().join("samples.jsonl"),
    );
    let task = json!({"id": "double", "question": "Double n.", "entry_point": "double", "canonical": CORRECT, "tests": [{"args": [3]}]});
    std::fs::write(&tasks, task.to_string()).unwrap();
    let sample = |completion: &str| json!({"task": "double", "completion": completion}).to_string();
    std::fs::write(
        &samples,
        [sample(CORRECT), sample("def double(n):\n    return n\n")].join("\n"),
    )
    .unwrap();
    let mut score = rapid_verifier(["score", "--json", "--cache-dir"]);
    score.arg(disk.folder.path());
    for (flag, path) in [("--dataset", &tasks), ("--samples", &samples)] {
        score.arg(flag).arg(path);
    }
    let outcome = run(&mut score);
    let stderr = outcome.stderr.clone();
    let score: Value = serde_json::from_str(&outcome.success().stdout).unwrap();
    assert_eq!(score["verdicts"], json!({"correct": 1, "incorrect": 1}));
    let cache = disk.folder.path().join("verdicts.redb");
    assert!(
        [cache.to_str().unwrap(), "Free some space", "--cache-dir"]
            .iter()
            .all(|text| stderr.contains(text)),
        "{stderr}"
    );
}

#[test]
fn a_disk_that_fills_up_disables_the_cache_and_loses_no_verdict() {
    let Some(disk) = Disk::mount("size=3m") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let samples = folder.path().join("samples.jsonl");
    let sample = |number: usize| {
        let completion = format!("\\boxed{{{number}}}");
        json!({"task": "starter-math/train-1", "completion": completion}).to_string()
    };
    let lines: Vec<String> = (0..20_000).map(sample).collect();
    std::fs::write(&samples, lines.join("\n")).unwrap();
    let mut score = rapid_verifier(["score", "--json", "--dataset", "starter-math"]);
    score.args(["--set", "code.sandbox=none", "--cache-dir"]);
    score.arg(disk.folder.path()).arg("--samples").arg(&samples);
    let outcome = run(&mut score);
    let cache = disk.folder.path().join("verdicts.redb");
    let cache = cache.to_str().unwrap();
    let warnings: Vec<&str> = outcome
        .stderr
        .lines()
        .filter(|line| line.contains("cache"))
        .collect();
    assert!(
        warnings.len() == 1
            && warnings[0].contains(cache)
            && warnings[0].contains("free some space"),
        "{warnings:?}"
    );
    let score: Value = serde_json::from_str(&outcome.success().stdout).unwrap();
    assert_eq!(
        score["verdicts"],
        json!({"correct": 1, "incorrect": 19_999})
    );
}

/// A small file system, which only root may mount.
struct Disk {
    folder: tempfile::TempDir,
}

impl Disk {
    /// `None` if it cannot be mounted; prints that the test is skipped.
    fn mount(options: &str) -> Option<Disk> {
        let folder = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", options, "tmpfs"])
            .arg(folder.path())
            .output();
        if mounted.is_ok_and(|out| out.status.success()) {
            return Some(Disk { folder });
        }
        artifacts::skipped("it needs a small file system, which only root may mount");
        None
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.folder.path()).status();
    }
}
