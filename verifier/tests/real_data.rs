//! The data sets' own answers, and other people's verdicts, through the running service: the released binary, a socket, and the client that trainers use.
//!
//! The records are read from `../shared/data` beside the repository, or from `$RAPID_TEST_DATA`; the interpreter from where
//! `rapid-verifier fetch` puts it. Where either is absent, a test says so on stderr and ends.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use datasets::fetch::{Kind, locate};
use datasets::{Dataset, Task, TaskSpec};
use futures::StreamExt as _;
use serde_json::Value as Json;
use verifier_api::{Client, Item, Judgement, TaskRef, Verdict};

/// The slowest task of MBPP+ in a 32-bit interpreter: minutes of big integers. It goes first, so that others run beside it.
const SLOWEST: &str = "mbppplus/599";

fn data() -> Option<PathBuf> {
    let folder = std::env::var_os("RAPID_TEST_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data"),
        PathBuf::from,
    );
    if folder.is_dir() {
        return Some(folder);
    }
    eprintln!(
        "SKIPPED: the data sets are not in {}; set RAPID_TEST_DATA to the folder that holds mbppplus/, math/, …",
        folder.display()
    );
    None
}

fn interpreter() -> bool {
    let there = locate(Kind::Sandbox, verifier::setup::SANDBOX).is_some();
    if !there {
        eprintln!(
            "SKIPPED: the sandbox's interpreter is not on this machine; `rapid-verifier fetch` fetches it"
        );
    }
    there
}

/// A verifier of its own on a free port, ended with the test.
struct Running {
    child: Child,
    client: Client,
}

impl Running {
    async fn start(data: &Path, sandbox: bool) -> Running {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rapid-verifier"));
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(data);
        if !sandbox {
            command.args(["--set", "code.sandbox=none"]);
        }
        // Verdicts are made anew; the warmed interpreter may be the one that is there already.
        command.args(["--no-disk-cache"]);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let url = line
            .trim()
            .strip_prefix("listening on ")
            .unwrap_or_else(|| panic!("{line:?}"));
        let client = Client::new(url, None).unwrap();
        let started = Instant::now();
        loop {
            let readiness = client.ready().await.unwrap();
            if readiness.ready {
                break;
            }
            assert!(
                started.elapsed() < Duration::from_secs(600),
                "{readiness:?}"
            );
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        Running { child, client }
    }

    /// Judges in requests of eight, four of them at once, in the items' order.
    async fn judge(&self, items: Vec<Item>) -> Vec<Judgement> {
        let batches: Vec<(usize, Vec<Item>)> =
            items.chunks(8).map(<[Item]>::to_vec).enumerate().collect();
        let mut answers: Vec<(usize, Vec<Judgement>)> =
            futures::stream::iter(batches)
                .map(|(number, batch)| async move {
                    (number, self.client.verify(&batch).await.unwrap())
                })
                .buffer_unordered(4)
                .collect()
                .await;
        answers.sort_by_key(|(number, _)| *number);
        answers
            .into_iter()
            .flat_map(|(_, judgements)| judgements)
            .collect()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn tasks(name: &str, data: &Path) -> Vec<Task> {
    let Dataset { train, eval, .. } = datasets::open(name, Some(data)).unwrap();
    train.into_iter().chain(eval).collect()
}

fn item(task: &str, completion: String) -> Item {
    Item {
        id: task.to_owned(),
        task: TaskRef::Named(task.to_owned()),
        prompt: String::new(),
        completion,
    }
}

fn slowest_first(items: &mut [Item]) {
    items.sort_by_key(|item| item.id != SLOWEST);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_solution_of_mbppplus_is_correct() {
    let (Some(data), true) = (data(), interpreter()) else {
        return;
    };
    let mut items: Vec<Item> = tasks("mbppplus", &data)
        .into_iter()
        .map(|task| match task.spec {
            TaskSpec::Code(code) => item(&task.id, code.canonical.unwrap()),
            other => panic!("{}: {other:?}", task.id),
        })
        .collect();
    assert_eq!(items.len(), 378);
    slowest_first(&mut items);
    let running = Running::start(&data, true).await;
    let wrong: Vec<Judgement> = running
        .judge(items)
        .await
        .into_iter()
        .filter(|judgement| judgement.verdict != Verdict::Correct)
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn other_peoples_verdicts_on_real_samples_are_ours() {
    let (Some(data), true) = (data(), interpreter()) else {
        return;
    };
    let text =
        std::fs::read_to_string(data.join("samples/mbppplus-qwen2.5-coder-1.5b.jsonl")).unwrap();
    let mut labelled: Vec<(Item, bool)> = text
        .lines()
        .map(|line| {
            let record: Json = serde_json::from_str(line).unwrap();
            let item = item(
                &format!("mbppplus/{}", record["task_id"]),
                record["completion"].as_str().unwrap().to_owned(),
            );
            (item, record["plus_passed"].as_bool().unwrap())
        })
        .collect();
    assert_eq!(labelled.len(), 372);
    labelled.sort_by_key(|(item, _)| item.id != SLOWEST);
    let running = Running::start(&data, true).await;
    let judgements = running
        .judge(labelled.iter().map(|(item, _)| item.clone()).collect())
        .await;
    let differ: Vec<String> = labelled
        .iter()
        .zip(&judgements)
        .filter(|((_, passed), judgement)| {
            judgement.reward != Some(if *passed { 1.0 } else { 0.0 })
        })
        .map(|((item, passed), judgement)| {
            format!(
                "{}: labelled {passed}, judged {:?} {}",
                item.id, judgement.verdict, judgement.detail
            )
        })
        .collect();
    eprintln!(
        "{} of 372 agree; the others:\n{}",
        372 - differ.len(),
        differ.join("\n")
    );
    // 99% of 372.
    assert!(differ.len() <= 3, "{differ:#?}");
}

/// Ids and answers.
fn math_500(data: &Path) -> Vec<(String, String)> {
    let eval = datasets::open("math", Some(data)).unwrap().eval;
    assert_eq!(eval.len(), 500);
    let answer = |task: Task| match task.spec {
        TaskSpec::Math(math) => (task.id, math.answer),
        other => panic!("{}: {other:?}", task.id),
    };
    eval.into_iter().map(answer).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_answers_of_math_500_equal_themselves_and_no_neighbour() {
    let Some(data) = data() else { return };
    let answers = math_500(&data);
    let running = Running::start(&data, false).await;
    let boxed = |answer: &str| format!("So the answer is $\\boxed{{{answer}}}$.");
    let itself = running
        .judge(
            answers
                .iter()
                .map(|(id, answer)| item(id, boxed(answer)))
                .collect(),
        )
        .await;
    let unequal: Vec<&Judgement> = itself
        .iter()
        .filter(|judgement| judgement.verdict != Verdict::Correct)
        .collect();
    assert!(unequal.len() <= 4, "{unequal:#?}");
    eprintln!("{} of 500 equal themselves", 500 - unequal.len());
    // Each task against the next task's answer.
    let shifted = answers.iter().zip(answers.iter().cycle().skip(1));
    let neighbours = running
        .judge(
            shifted
                .clone()
                .map(|((id, _), (_, other))| item(id, boxed(other)))
                .collect(),
        )
        .await;
    let accepted: Vec<(&str, &str)> = shifted
        .zip(&neighbours)
        .filter(|(((_, a), (_, b)), judgement)| judgement.verdict == Verdict::Correct && a != b)
        .map(|(((_, a), (_, b)), _)| (a.as_str(), b.as_str()))
        .collect();
    assert_eq!(accepted, [("5", "x=5")]);
}

/// All 36,000 or so pairs of differently written answers of MATH-500: those held equal are these, and say the same.
#[test]
fn answers_of_math_500_are_held_equal_only_where_they_say_the_same() {
    let Some(data) = data() else { return };
    let mut answers: Vec<String> = math_500(&data)
        .into_iter()
        .map(|(_, answer)| answer)
        .collect();
    answers.sort();
    answers.dedup();
    let mut accepted = Vec::new();
    for (index, right) in answers.iter().enumerate() {
        for given in &answers[index + 1..] {
            if verifier::grade::math::equal(right, given).is_some() {
                accepted.push((right.as_str(), given.as_str()));
            }
        }
    }
    assert_eq!(accepted, []);
}
