//! Sends every hostile completion of `tests/attacks/` to a running verifier, and checks its verdict, the verdict of the next honest sample, the service's health, and
//! that nothing left the sandbox.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::TcpListener;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tests::artifacts;
use tests::attacks::{Case, all, folder};
use tests::programs::Verifier;

#[test]
fn nothing_gets_out_of_wasm_and_nothing_is_forged() {
    if artifacts::sandbox().is_some() {
        attack("wasm", "code.fuel=1000000000", 1);
    }
}

#[test]
fn nothing_gets_out_of_docker_and_nothing_is_forged() {
    // Each program takes a container.
    attack("docker", "docker.seconds=3", 6);
}

/// The results of these programs in a task with the test code `text`.
fn judged(verifier: &Verifier, text: &str, programs: &[String]) -> Vec<Value> {
    let task = json!({"kind": "code", "entry_point": "f", "asserts": [text]});
    let item =
        |program: &String| json!({"id": "", "task": task, "prompt": "", "completion": program});
    let items: Vec<Value> = programs.iter().map(item).collect();
    verifier.judge_all(&items)
}

/// Test code that cannot be run, each with a part of the reason. `\n` is a line break.
const NEVER_RUN: &str = r"
if True:\n    def test_a():\n        assert f(2) == 4 | would never be run
def test_a(tmp_path):\n    assert f(2) == 4 | would never be run
def test_a():\n    yield f(2) == 4 | would never be run
import pytest\n@pytest.mark.parametrize('n', [1], indirect=True)\ndef test_a(n):\n    assert f(n) == 2 | fixtures (`indirect`), which are not run here
import pytest\n@pytest.mark.parametrize('n', [1])\ndef test_a(n, tmp_path):\n    assert f(n) == 2 | takes `tmp_path`, which no `parametrize` gives it
import pytest\n@pytest.mark.parametrize('n', [])\ndef test_a(n):\n    assert f(n) == 2 | has no set of arguments
class TestOuter:\n    class TestInner:\n        def test_a(self): assert f(2) == 4 | would never be run
import unittest\nclass A(unittest.TestCase):\n    async def test_a(self): self.assertEqual(f(2), 4) | would never be run
import unittest\nclass A(unittest.TestCase): pass\nA.test_a = lambda self: self.assertEqual(f(2), 4)\nunittest.main() | no test is found
def holds():\n    assert f(2) == 4 | never calls `f`
x = 1 | never calls `f`
import unittest\nclass A(unittest.TestCase):\n    @unittest.skip('')\n    def test_a(self): self.assertEqual(f(2), 4) | never calls `f`
";

#[test]
fn test_code_is_run_or_refused_but_never_ignored() {
    if artifacts::sandbox().is_none() {
        return;
    }
    let verifier = Verifier::start(&["--set", "code.sandbox=wasm", "--require", "code"]);
    let programs = ["def f(n): return 2 * n", "def f(n): return 0"].map(str::to_owned);
    let judged_twice = |text: &str| judged(&verifier, text, &programs);
    for text in [
        "import unittest\nclass TestF(unittest.IsolatedAsyncioTestCase):\n    async def test_a(self):\n        self.assertEqual(f(2), 4)",
        "from unittest import TestCase as TC\nclass A(TC):\n    def test_a(self):\n        self.assertEqual(f(2), 4)",
        "import unittest as u\nBase = u.TestCase\nclass A(Base):\n    def test_a(self):\n        self.assertEqual(f(2), 4)\nu.main()",
        "class TestF:\n    def test_a(self):\n        assert f(2) == 4",
        "async def test_a():\n    assert f(2) == 4",
        "if __name__ == '__main__':\n    assert f(2) == 4",
        "def test_a():\n    assert f(1) == 2\nif __name__ == '__main__':\n    test_a()\n    assert f(2) == 4",
        "def test_pair(n, twice):\n    assert f(n) == twice\ntest_pair(2, 4)",
        "from solution import f as g\nassert g(2) == 4",
        "import pytest\n@pytest.mark.parametrize('n, twice', [(1, 2), pytest.param(2, 4, id='two')])\ndef test_a(n, twice):\n    assert f(n) == twice",
        "import pytest\n@pytest.mark.parametrize('n', [0, 1])\n@pytest.mark.parametrize('m', [2, 3], ids=['two', 'three'])\ndef test_a(n, m):\n    assert f(n + m) == 2 * (n + m)",
        "from pytest import mark\nclass TestF:\n    @mark.parametrize('n', range(1, 3))\n    def test_a(self, n):\n        assert f(n) == 2 * n",
        "import pytest as p\n@p.mark.parametrize('n', [1, 2])\nclass TestF:\n    async def test_a(self, n):\n        assert f(n) == 2 * n",
        "import pytest\ndef cases():\n    return [(1, 2), (2, 4)]\n@pytest.mark.parametrize(('n', 'twice'), cases())\ndef test_a(n, twice):\n    assert f(n) == pytest.approx(twice)",
        "import asyncio\nasync def main():\n    await asyncio.sleep(1)\n    assert f(2) == 4\nasyncio.run(main())",
    ] {
        let results = judged_twice(text);
        let verdicts = results.iter().map(|result| &result["verdict"]);
        assert!(verdicts.eq(["correct", "incorrect"]), "{text}: {results:?}");
    }
    for line in NEVER_RUN.trim().lines() {
        let (text, expected) = line.split_once(" | ").unwrap();
        let text = &text.replace("\\n", "\n");
        for result in judged_twice(text) {
            assert_eq!(result["verdict"], "unavailable", "{text}: {result}");
            assert_eq!(result["retryable"], false, "{text}: {result}");
            let reason = result["detail"]["reason"].as_str().unwrap();
            assert!(reason.contains(expected), "{text}: {reason}");
            assert!(reason.contains("correct the task"), "{text}: {reason}");
        }
    }
    assert_named_as_in_pytest(&verifier);
}

/// Each set of arguments is a test with the name that pytest gives it.
fn assert_named_as_in_pytest(verifier: &Verifier) {
    let text = "import pytest\nclass Even: pass\n@pytest.mark.parametrize('n', [0, 1, 1, -2, 'a b', [3], Even, pytest.param(4, id='four'), float('inf')])\n@pytest.mark.parametrize('kind', [int, None])\ndef test_a(n, kind):\n    assert f(str(n), str(kind))";
    // The names that pytest gives these tests, in its order.
    let names: Vec<String> = ["int", "None"]
        .iter()
        .flat_map(|kind| {
            ["0", "1_0", "1_1", "-2", "a b", "n5", "Even", "four", "inf"]
                .map(|n| format!("test_a[{kind}-{n}]"))
        })
        .collect();
    // Each program fails the test of one number.
    let failing = |n| {
        format!(
            "calls = 0\ndef f(n, kind):\n    global calls\n    calls += 1\n    return calls != {n}"
        )
    };
    let programs: Vec<String> = (1..=names.len() + 1).map(failing).collect();
    let results = judged(verifier, text, &programs);
    for (result, name) in results.iter().zip(&names) {
        assert_eq!(result["verdict"], "incorrect", "{result}");
        assert_eq!(result["detail"]["assert"], *name, "{result}");
    }
    let last = &results[names.len()];
    assert_eq!(last["verdict"], "correct", "{last}");
    assert_eq!(last["passed"], 18, "{last}");
    assert_eq!(last["total"], 18, "{last}");
}

/// Targets that programs reach only outside of the sandbox: a secret in the environment and in a file, a folder to write to, and a port to connect to.
struct Bait {
    folder: tempfile::TempDir,
    secret: String,
    visitors: TcpListener,
}

impl Bait {
    fn new() -> Bait {
        let folder = tempfile::tempdir().unwrap();
        let number = std::process::id().wrapping_mul(2_654_435_761);
        let secret = format!("secret-{number:x}");
        std::fs::write(folder.path().join("secret"), &secret).unwrap();
        let visitors = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        visitors.set_nonblocking(true).unwrap();
        Bait {
            folder,
            secret,
            visitors,
        }
    }

    /// Descriptions of the targets that were touched.
    fn touched(&self) -> Vec<String> {
        let mut touched = Vec::new();
        if let Ok((_, from)) = self.visitors.accept() {
            touched.push(format!("a program connected from {from}"));
        }
        for entry in std::fs::read_dir(self.folder.path()).unwrap().flatten() {
            if entry.file_name() != "secret" {
                touched.push(format!("a program wrote {}", entry.path().display()));
            }
        }
        for folder in ["/tmp", "/var/tmp", "/dev/shm", "/", "."] {
            for name in ["rapid-mark", "rapid_mark", "link"] {
                let path = std::path::Path::new(folder).join(name);
                if path.symlink_metadata().is_ok() {
                    touched.push(format!("a program wrote {}", path.display()));
                }
            }
        }
        touched
    }
}

struct Siege {
    verifier: Verifier,
    bait: Bait,
    /// The honest program, which looks for traces of earlier programs.
    watch: String,
    /// Number of honest samples so far.
    honest: AtomicUsize,
    /// The outcomes by case and task.
    outcomes: Mutex<BTreeMap<String, Value>>,
    faults: Mutex<Vec<String>>,
}

/// Attacks a verifier with this sandbox. The limits on time and memory are small, so that exhausting programs end soon. Only one case in `every` runs unless
/// `RAPID_TEST_LONG=1`.
fn attack(backend: &str, time: &str, every: usize) {
    let bait = Bait::new();
    let tasks = tests::attacks::tasks();
    let sandbox = format!("code.sandbox={backend}");
    let memory = "code.memory_bytes=536870912";
    let settings: [&str; 5] = [&tasks, "workers=2", &sandbox, time, memory];
    let arguments = settings.map(|set| ["--set", set]).concat();
    let verifier = Verifier::start_with(&arguments, &[("RAPID_TEST_SECRET", &bait.secret)]);
    let info = verifier.request("GET", "/v1/info", b"").json();
    let mut graders = info["graders"].as_array().unwrap().iter();
    let grader = graders.find(|grader| grader["name"] == "code").unwrap();
    if grader["state"] != "ready" {
        let required = std::env::var("RAPID_TEST_DOCKER").is_ok_and(|value| value == "required");
        assert!(backend != "wasm" && !required, "{grader}");
        let reason = &grader["reason"];
        artifacts::skipped(&format!("{backend} cannot judge here: {reason}"));
        return;
    }
    assert_eq!(grader["backend"], backend);

    let port = bait.visitors.local_addr().unwrap().port().to_string();
    let mut cases = all(&[
        ("@FOLDER@", bait.folder.path().to_str().unwrap()),
        ("@PORT@", &port),
        ("@VERIFIER@", &verifier.url()),
    ]);
    let count = cases.len();
    let left_out = format!(
        "all but one in {every} of {count} attacks on {backend}, and each on one task only"
    );
    if every > 1 && !artifacts::long(&left_out) {
        cases = cases.into_iter().step_by(every).collect();
        cases.iter_mut().for_each(|case| case.tasks.truncate(1));
    }
    let siege = Siege {
        verifier,
        bait,
        watch: std::fs::read_to_string(folder().join("watch.py")).unwrap(),
        honest: AtomicUsize::new(0),
        outcomes: Mutex::default(),
        faults: Mutex::default(),
    };
    siege.honest_sample("before the first case");
    siege.verifier.under_load(4, cases.len(), |number| {
        for task in &cases[number].tasks {
            siege.judge(&cases[number], task);
        }
    });
    siege.report(backend);
}

impl Siege {
    fn judge(&self, case: &Case, task: &str) {
        let name = format!("{} on {task}", case.id());
        self.expect(&name, case, task);
        if case.family == "lasting" {
            // The second program would find anything that the first one left.
            self.expect(&format!("{name}, again"), &case.with_line("# again"), task);
        }
        self.honest_sample(&name);
    }

    fn expect(&self, name: &str, case: &Case, task: &str) {
        let answer = self.ask(&case.request("", task));
        let verdict = answer["verdict"].as_str().unwrap_or_default();
        if !case.verdicts.iter().any(|allowed| allowed == verdict) {
            self.fault(format!("{name}: {answer}, instead of {:?}", case.verdicts));
        }
        let text = answer.to_string();
        if text.contains(&self.bait.secret) {
            self.fault(format!("{name} has read the secret: {text}"));
        }
        if text.len() > 10_000 {
            self.fault(format!("{name} has an answer of {} bytes", text.len()));
        }
        let outcome = json!({"verdict": verdict, "passed": answer["passed"], "total": answer["total"], "detail": answer["detail"], "deterministic": answer["deterministic"]});
        let mut outcomes = self.outcomes.lock().unwrap();
        outcomes.insert(name.to_owned(), outcome);
    }

    /// Judges a correct program that answers only if it finds no traces of earlier programs. Each one differs, so that none is in the cache.
    fn honest_sample(&self, after: &str) {
        let number = self.honest.fetch_add(1, Ordering::SeqCst);
        let completion = format!("{}\n# {number}\n", self.watch);
        let body = json!({"items": [{"id": "honest", "task": "tasks/values", "prompt": "", "completion": completion}]});
        let answer = self.ask(&body.to_string());
        if answer["verdict"] != "correct" || answer["cached"] != false {
            self.fault(format!("the honest sample after {after}: {answer}"));
        }
    }

    /// The answer to a request. A retryable one is requested again, up to three times, as clients do.
    fn ask(&self, body: &str) -> Value {
        let mut answer = self.verifier.first_result(body);
        for _ in 0..2 {
            if answer["retryable"] == true {
                answer = self.verifier.first_result(body);
            }
        }
        answer
    }

    fn fault(&self, fault: String) {
        self.faults.lock().unwrap().push(fault);
    }

    /// Writes the outcomes beside the build, and fails if there are faults.
    fn report(self, backend: &str) {
        let mut text = String::new();
        for (name, outcome) in self.outcomes.into_inner().unwrap() {
            writeln!(text, "{}", json!({ "case": name, "outcome": outcome })).unwrap();
        }
        let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
        let file = folder.join(format!("attacks-{backend}.jsonl"));
        std::fs::write(&file, text).unwrap();
        eprintln!("outcomes: {}", file.display());

        let mut faults = self.faults.into_inner().unwrap();
        faults.extend(self.bait.touched());
        let count = faults.len();
        assert!(faults.is_empty(), "{count} faults:\n{}", faults.join("\n"));
    }
}
