//! If code cannot be judged, `/readyz`, `rapid-verifier doctor` and the verdicts name the missing thing and the remedy, and no completion is judged incorrect for
//! it.

use std::io::Write as _;

use serde_json::{Value, json};
use tests::artifacts;
use tests::disk::Disk;
use tests::programs::{Verifier, assert_has, rapid_verifier, run};

const CORRECT: &str = "def double(n):\n    return 2 * n\n";

/// With these arguments and variables, a fault of a machine, the doctor fails with the reason, which has the `expected` parts: the thing and the remedy. The service runs,
/// reports the same reason, and gives no verdicts.
fn assert_named(arguments: &[&str], environment: &[(&str, &str)], expected: &[&str]) {
    let mut doctor = rapid_verifier(["doctor"]);
    doctor.args(arguments);
    doctor.envs(environment.iter().copied());
    let outcome = run(&mut doctor);
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    let mut lines = outcome.stdout.lines();
    let line = lines.find(|line| line.contains("grader code"));
    assert_has(line.unwrap_or_default(), expected);

    let verifier = Verifier::start_with(arguments, environment);
    let ready = verifier.request("GET", "/readyz", b"").json();
    let mut graders = ready["graders"].as_array().unwrap().iter();
    let code = graders.find(|grader| grader["name"] == "code").unwrap();
    assert_eq!(code["state"], "unavailable");
    assert_has(code["reason"].as_str().unwrap(), expected);
    for program in [CORRECT, "def double(n):\n    return n\n", "no code at all"] {
        let task = json!({"kind": "code", "entry_point": "double", "tests": [{"args": [3], "expected": 6}]});
        let item = json!({"id": "a", "task": task, "prompt": "", "completion": program});
        let result = verifier.judge(item);
        assert_eq!(result["verdict"], "unavailable", "{result}");
        assert_eq!(result["reward"], Value::Null, "{result}");
        assert_eq!(result["detail"]["reason"], code["reason"]);
    }
    assert_eq!(verifier.request("GET", "/healthz", b"").status, 200);
}

#[test]
fn the_error_names_a_missing_engine_or_interpreter() {
    let engine = "docker.host=unix:///nowhere/docker.sock";
    let socket = "/nowhere/docker.sock";
    let docker = ["--set", "code.sandbox=docker", "--set", engine];
    let install = "apt-get install docker.io";
    let expected = [socket, install, "code.sandbox = \"wasm\""];
    assert_named(&docker, &[], &expected);
    let home = tempfile::tempdir().unwrap();
    let fetch = "`rapid-verifier fetch`";
    let expected = ["Python interpreter", fetch, "--sandbox-dir"];
    let home = home.path().to_str().unwrap();
    assert_named(&[], &[("RAPID_HOME", home)], &expected);
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
    let damaged = folder.path().join("python-snapshot.wasm");
    let file = std::fs::File::options().write(true).open(damaged);
    file.unwrap().set_len(1_000_000).unwrap();
    let folders = ["--sandbox-dir", path, "--cache-dir", path];
    assert_named(&folders, &[], &[path, "fetch sandbox:python-wasi"]);
}

#[test]
fn the_error_names_a_cache_folder_that_cannot_be_written() {
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
        let path = disk.path().to_str().unwrap();
        let expected = [path, expected, "--cache-dir"];
        assert_named(&["--cache-dir", path], &[], &expected);
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
    let _ = artifacts::compiled(&disk.path().join("wasm/compiled"));
    let mut filler = std::fs::File::create(disk.path().join("filler")).unwrap();
    while filler.write_all(&[1; 4096]).is_ok() {}

    let tasks = tempfile::Builder::new().suffix(".jsonl").tempfile();
    let tasks = tasks.unwrap();
    let task = json!({"id": "double", "question": "Double n.", "entry_point": "double", "canonical": CORRECT, "tests": [{"args": [3]}]});
    std::fs::write(tasks.path(), task.to_string()).unwrap();
    let completions = [CORRECT, "def double(n):\n    return n\n"].map(str::to_owned);
    let dataset = ["--dataset", tasks.path().to_str().unwrap()];
    let (verdicts, stderr) = score(&disk, &dataset, "double", &completions);
    assert_eq!(verdicts, json!({"correct": 1, "incorrect": 1}));
    let cache = disk.path().join("verdicts.redb");
    let parts = [cache.to_str().unwrap(), "Free some space", "--cache-dir"];
    assert_has(&stderr, &parts);
}

#[test]
fn a_disk_that_fills_up_disables_the_cache_and_loses_no_verdict() {
    let Some(disk) = Disk::mount("size=3m") else {
        return;
    };
    let completion = |number: usize| format!("\\boxed{{{number}}}");
    let completions: Vec<String> = (0..20_000).map(completion).collect();
    let dataset = ["--dataset", "starter-math", "--set", "code.sandbox=none"];
    let (verdicts, stderr) = score(&disk, &dataset, "starter-math/train-1", &completions);
    let lines = stderr.lines().filter(|line| line.contains("cache"));
    let warnings: Vec<&str> = lines.collect();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let cache = disk.path().join("verdicts.redb");
    assert_has(warnings[0], &[cache.to_str().unwrap(), "free some space"]);
    assert_eq!(verdicts, json!({"correct": 1, "incorrect": 19_999}));
}

/// The numbers of verdicts on a task's completions, with the cache on this disk; and what is printed on stderr.
fn score(disk: &Disk, dataset: &[&str], task: &str, completions: &[String]) -> (Value, String) {
    let samples = tempfile::NamedTempFile::new().unwrap();
    let line = |text: &String| json!({"task": task, "completion": text}).to_string();
    let lines: Vec<String> = completions.iter().map(line).collect();
    std::fs::write(samples.path(), lines.join("\n")).unwrap();
    let mut score = rapid_verifier(["score", "--json", "--cache-dir"]);
    score.arg(disk.path()).args(dataset);
    let outcome = run(score.arg("--samples").arg(samples.path())).success();
    let score: Value = serde_json::from_str(&outcome.stdout).unwrap();
    (score["verdicts"].clone(), outcome.stderr)
}
