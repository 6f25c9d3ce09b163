//! Judges whole programs, right and wrong, through a running service, as the machine's own CPython judges them. `stdio/programs.py` makes the programs of the data
//! sets' functions, adds those of `stdio/written.py`, and runs them all natively. Programs that it does not finish within seconds are left out.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use datasets::{CodeTask, ProgramTask, ProgramTest, Task, TaskSpec, Value};
use serde::Deserialize;
use serde_json::json;
use verifier_api::{Item, Judgement, TaskRef};

use crate::data;
use crate::running::{Running, docker, interpreter, item, long};

/// Functions of MBPP+ that become programs.
const MAX_MBPPPLUS: usize = 20;
/// Unless `RAPID_TEST_LONG=1`, one program in this many is judged.
const SHARE: usize = 8;
/// One in this many of those is judged in Docker too. Each test takes a container there.
const SHARE_IN_DOCKER: usize = 6;

/// A program with its tests, and whether native CPython passes them.
#[derive(Deserialize)]
struct Labelled {
    name: String,
    source: String,
    tests: Vec<ProgramTest>,
    passes: bool,
}

fn program_item(id: &str, tests: &[ProgramTest], completion: String) -> Item {
    let (tests, time_limit) = (tests.to_vec(), None);
    let task = TaskSpec::Program(ProgramTask { tests, time_limit });
    Item {
        all_tests: true,
        ..item(id, TaskRef::Inline(task), completion)
    }
}

impl Labelled {
    fn item(&self) -> Item {
        let completion = format!("```python\n{}\n```\n", self.source);
        program_item(&self.name, &self.tests, completion)
    }
}

/// A function with a solution, as `programs.py` reads it; `None` if its arguments are not plain JSON.
fn function(task: &Task) -> Option<serde_json::Value> {
    let TaskSpec::Code(CodeTask {
        entry_point,
        canonical: Some(source),
        tests,
        ..
    }) = &task.spec
    else {
        return None;
    };
    let calls: Vec<&Vec<Value>> = tests.iter().take(2).map(|test| &test.args).collect();
    let function =
        json!({ "name": task.id, "entry_point": entry_point, "source": source, "calls": calls });
    let plain = !function["calls"].to_string().contains("\"$");
    plain.then_some(function)
}

/// The programs; `None` after a message if there is no Python.
fn programs() -> Option<Vec<Labelled>> {
    let mut tasks = datasets::open("starter-code", None).unwrap().train;
    tasks.extend(datasets::open("starter-code", None).unwrap().eval);
    if let Some(records) = data::holding("mbppplus") {
        let dataset = datasets::open("mbppplus", Some(&records.folder)).unwrap();
        tasks.extend(dataset.train.into_iter().take(MAX_MBPPPLUS));
    }
    let functions = tasks.iter().filter_map(function);
    let functions: Vec<String> = functions.map(|function| function.to_string()).collect();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stdio");
    let spawned = Command::new("python3")
        .args(["-B", "programs.py"])
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut python = match spawned {
        Ok(python) => python,
        Err(error) => {
            eprintln!("SKIPPED: python3 cannot be started ({error})");
            return None;
        }
    };
    let mut stdin = python.stdin.take().unwrap();
    stdin.write_all(functions.join("\n").as_bytes()).unwrap();
    drop(stdin);
    let output = python.wait_with_output().unwrap();
    assert!(output.status.success());
    let lines = str::from_utf8(&output.stdout).unwrap().lines();
    let programs: Vec<Labelled> = lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let right = programs.iter().filter(|program| program.passes).count();
    eprintln!("{} programs, {right} of them right", programs.len());
    assert!(programs.len() >= 500 && right >= 150 && programs.len() - right >= 150);
    Some(programs)
}

/// Checks the judgements of `programs`.
fn assert_as_labelled(sandbox: &str, programs: &[&Labelled], judgements: &[Judgement]) {
    let wrong: Vec<String> = programs
        .iter()
        .zip(judgements)
        .filter(|(program, judgement)| {
            judgement.reward != Some(f64::from(u8::from(program.passes)))
        })
        .map(|(program, judgement)| {
            format!(
                "{sandbox}: natively {}, here {judgement:?}\n{}",
                program.passes, program.source
            )
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

async fn judge(sandbox: &str, programs: &[&Labelled]) -> Vec<Judgement> {
    let folder = tempfile::tempdir().unwrap();
    let running = Running::start(folder.path(), sandbox).await;
    running
        .judge(programs.iter().map(|program| program.item()).collect())
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_are_judged_as_native_cpython_judges_them_in_both_sandboxes() {
    if !interpreter() {
        return;
    }
    let Some(programs) = programs() else { return };
    let [share, share_in_docker] = if long() {
        [1, 1]
    } else {
        eprintln!(
            "SKIPPED: all but one in {SHARE} of the programs, and all but one in {SHARE_IN_DOCKER} of those in Docker; RAPID_TEST_LONG=1 judges them"
        );
        [SHARE, SHARE_IN_DOCKER]
    };
    let all: Vec<&Labelled> = programs.iter().step_by(share).collect();
    let in_wasm = judge("wasm", &all).await;
    assert_as_labelled("wasm", &all, &in_wasm);
    assert!(in_wasm.iter().all(|judgement| judgement.deterministic));
    if !docker() {
        return;
    }
    let some: Vec<&Labelled> = all.iter().copied().step_by(share_in_docker).collect();
    let in_docker = judge("docker", &some).await;
    assert_as_labelled("docker", &some, &in_docker);
    let same = in_wasm.iter().step_by(share_in_docker);
    for (native, wasm) in in_docker.iter().zip(same) {
        assert_eq!((native.verdict, native.passed), (wasm.verdict, wasm.passed));
    }
}

/// Completions of a task that asks for twice the number that is read. They have `RIGHT` and `WRONG` programs. Each has its verdict and its number of passed tests, of
/// three.
const COMPLETIONS: &str = r#"
RIGHT | correct 3
Here it is:\n```python\nRIGHT\n```\nFor 1 it prints\n```\n2\n```\n | correct 3
<think>\n```python\nWRONG\n```\n</think>\n```\nRIGHT\n``` | correct 3
```python\ndef double(n):\n    return 2 * n\n```\nand\n```python\nprint(double(int(input())))\n``` | correct 3
```python\nWRONG\n``` | incorrect 1
```python\ndef f(:\n``` | incorrect 0
I cannot. | incorrect 0
  \n | malformed
```python\nwhile True: pass\n``` | timeout 0
```python\nx = [0]\nwhile True: x += x\n``` | memory 0
"#;

#[tokio::test(flavor = "multi_thread")]
async fn completions_are_read_like_those_of_functions() {
    if !interpreter() {
        return;
    }
    let test = |(stdin, stdout): (&str, &str)| ProgramTest {
        stdin: stdin.to_owned(),
        stdout: stdout.to_owned(),
    };
    let tests = [("1\n", "2\n"), ("3\n", "6\n"), ("0\n", "0\n")].map(test);
    let text = COMPLETIONS
        .replace("\\n", "\u{1}")
        .replace("RIGHT", "print(2 * int(input()))")
        .replace("WRONG", "print(6)");
    let cases = text.trim().lines().map(|line| {
        let (completion, verdict) = line.rsplit_once(" | ").unwrap();
        (completion.replace('\u{1}', "\n"), verdict)
    });
    let cases: Vec<(String, &str)> = cases.collect();
    let item = |text: &String| program_item(text, &tests, text.clone());
    let folder = tempfile::tempdir().unwrap();
    let running = Running::start(folder.path(), "wasm").await;
    let items: Vec<Item> = cases.iter().map(|(text, _)| item(text)).collect();
    let judgements = running.judge(items).await;
    for ((completion, expected), judgement) in cases.iter().zip(&judgements) {
        let passed = judgement
            .passed
            .map_or_else(String::new, |passed| format!(" {passed}"));
        let found = format!("{:?}{passed}", judgement.verdict).to_lowercase();
        assert_eq!(found, *expected, "{completion}: {judgement:?}");
    }
}
