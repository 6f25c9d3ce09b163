//! The memory of an idle service.

use serde_json::{Value, json};
use tests::artifacts;
use tests::attacks;
use tests::programs::{Verifier, assert_has};

/// Maximum bytes of memory of an idle worker alone.
const MAX_WORKER_BYTES: u64 = 40_000_000;
/// Maximum bytes of resident memory of an idle service that has just built its sandbox. The compiler takes more than ten times as many.
const MAX_SERVICE_BYTES: u64 = 200_000_000;
/// A program that runs long enough for every worker to get one. It returns values that the host stores for a while.
const PROGRAM: &str =
    "def solve(xs):\n    for _ in range(300000):\n        pass\n    return 'x' * 1000000\n";

fn judge(verifier: &Verifier, programs: &[&str], kind: &str) -> Vec<String> {
    let item = |(number, program): (usize, &&str)| {
        let prompt = format!("{kind} {number}");
        json!({"id": prompt, "task": "tasks/values", "prompt": prompt, "completion": program})
    };
    let items: Vec<Value> = programs.iter().enumerate().map(item).collect();
    let results = verifier.judge_all(&items);
    let verdict = |result: &Value| {
        assert_eq!(result["cached"], false, "{result}");
        result["verdict"].as_str().unwrap().to_owned()
    };
    results.iter().map(verdict).collect()
}

#[test]
fn an_idle_worker_has_less_than_40_megabytes() {
    if artifacts::sandbox().is_none() {
        return;
    }
    let after_work = |workers: usize| {
        let number = workers.to_string();
        let verifier = Verifier::start(&["--workers", &number, "--set", &attacks::tasks()]);
        // The first request computes the expected values, so that the next ones do not wait for them.
        judge(&verifier, &[PROGRAM], "first");
        let verdicts = judge(&verifier, &vec![PROGRAM; workers], "one each");
        assert_eq!(verdicts, vec!["incorrect"; workers]);
        let memory = verifier.memory();
        eprintln!("{workers} workers: {memory:?}");
        memory
    };
    let (one, sixteen) = (after_work(1), after_work(16));
    let [resident, own] = [(sixteen.resident, one.resident), (sixteen.own, one.own)]
        .map(|(all, one)| all.saturating_sub(one) / 15);
    eprintln!("a worker: {resident} bytes resident, {own} of its own");
    assert!(own < MAX_WORKER_BYTES, "{own} bytes");
}

#[test]
fn a_changed_module_is_compiled_again_and_the_compilers_memory_is_freed() {
    if artifacts::sandbox().is_none() {
        return;
    }
    if !artifacts::long("building the sandbox again, which takes minutes") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let module = artifacts::compiled(&folder.path().join("wasm/compiled"));
    let mut bytes = std::fs::read(&module).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&module, &bytes).unwrap();

    let cache = folder.path().to_str().unwrap();
    let set = attacks::tasks();
    let verifier = Verifier::start(&["--require", "code", "--cache-dir", cache, "--set", &set]);
    let parts = [module.to_str().unwrap(), "made again", "3 of 3"];
    assert_has(&verifier.stderr(), &parts);
    let memory = verifier.memory();
    eprintln!("after the sandbox was built: {memory:?}");
    let right = "def solve(xs):\n    return sorted(x * x for x in xs if x % 2 == 0)\n";
    let verdicts = judge(&verifier, &[PROGRAM, right], "two");
    assert_eq!(verdicts, ["incorrect", "correct"]);
    assert!(memory.resident < MAX_SERVICE_BYTES, "{memory:?}");
}
