//! Judges the data sets' own answers, and samples with other people's verdicts, through a running service: the release binary, a socket, and the client that trainers use.
//!
//! The records are the whole data sets if they are on this machine, else the repository's excerpts. The interpreter is where `rapid-verifier fetch` puts it, and Docker where
//! `scripts/docker.sh` started it. If one is missing, a test prints that on stderr and ends.

use std::path::Path;

use datasets::{Dataset, Task, TaskSpec};
use serde_json::Value as Json;
use verifier_api::{Item, Judgement, TaskRef, Verdict};

use crate::data::{self, Records};
use crate::running::{self, Running, docker, interpreter, long};

/// The slowest task of MBPP+: 20 s of big integers in native CPython, minutes in a 32-bit one. It runs with `RAPID_TEST_LONG=1`. It comes first, so that the others run
/// meanwhile.
const SLOWEST: &str = "mbppplus/599";

fn tasks(name: &str, data: &Path) -> Vec<Task> {
    let Dataset { train, eval, .. } = datasets::open(name, Some(data)).unwrap();
    train.into_iter().chain(eval).collect()
}

fn item(task: &str, completion: String) -> Item {
    running::item(task, TaskRef::Named(task.to_owned()), completion)
}

#[tokio::test(flavor = "multi_thread")]
async fn mbppplus_solutions_are_correct_and_labelled_samples_get_their_labels() {
    if let (Some(data), true) = (data::holding("mbppplus"), interpreter()) {
        judge_mbppplus(&data.folder, "wasm", &cases("wasm", &data)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn in_docker_mbppplus_has_the_verdicts_of_wasm() {
    let (Some(data), true) = (data::holding("mbppplus"), docker()) else {
        return;
    };
    let cases = cases("docker", &data);
    let native = judge_mbppplus(&data.folder, "docker", &cases).await;
    if !interpreter() {
        return;
    }
    let wasm = judge_mbppplus(&data.folder, "wasm", &cases).await;
    let differ: Vec<String> = native
        .iter()
        .zip(&wasm)
        .filter(|(native, wasm)| {
            // If a clock ended a run, the number of passed tests may differ.
            let counts = native.deterministic && wasm.deterministic;
            native.verdict != wasm.verdict || counts && native.passed != wasm.passed
        })
        .map(|(native, wasm)| format!("docker: {native:?}\nwasm: {wasm:?}"))
        .collect();
    assert!(differ.is_empty(), "{}", differ.join("\n"));
}

/// Unless `RAPID_TEST_LONG=1`, one case in this many is judged.
const SHARE: usize = 4;
/// The same in Docker, where each program takes a container.
const SHARE_IN_DOCKER: usize = 24;

/// The canonical solutions and the labelled samples, the slowest first.
fn cases(sandbox: &str, data: &Records) -> Vec<LabelledItem> {
    let mut cases = solutions(&data.folder);
    let of_solutions = cases.len();
    cases.extend(labelled_samples(&data.samples()));
    let of_samples = cases.len() - of_solutions;
    // Each of the excerpt's tasks has two samples.
    if data.whole {
        assert_eq!(of_solutions, 378);
        assert!([372, 24].contains(&of_samples), "{of_samples}");
    } else {
        assert_eq!((of_solutions, of_samples), (12, 24));
    }
    let slowest = |case: &LabelledItem| case.item.task == TaskRef::Named(SLOWEST.to_owned());
    if data.whole && !long() {
        let share = match sandbox {
            "docker" => SHARE_IN_DOCKER,
            _ => SHARE,
        };
        eprintln!(
            "SKIPPED: all but one in {share} of the solutions and samples of MBPP+ in {sandbox}, and {SLOWEST}; RAPID_TEST_LONG=1 judges them"
        );
        cases = cases.into_iter().step_by(share).collect();
        cases.retain(|case| !slowest(case));
    }
    cases.sort_by_key(|case| !slowest(case));
    cases
}

/// Judges solutions and labelled samples with one service, because computing the expected values is half of the work.
async fn judge_mbppplus(data: &Path, sandbox: &str, cases: &[LabelledItem]) -> Vec<Judgement> {
    let running = Running::start(data, sandbox).await;
    let items = cases.iter().map(|case| case.item.clone());
    let judgements = running.judge(items.collect()).await;
    let differ = |of: Origin| -> Vec<String> {
        let of_it = cases.iter().zip(&judgements).filter(|it| it.0.origin == of);
        of_it
            .filter(|(case, judgement)| judgement.reward != Some(case.reward))
            .map(|(case, is)| {
                let (id, reward) = (&case.item.id, case.reward);
                format!(
                    "{id}: should be {reward}, is {:?} {}",
                    is.verdict, is.detail
                )
            })
            .collect()
    };
    assert_eq!(differ(Origin::Solution), [""; 0], "{sandbox}");
    // At least 99% of 372, and all of fewer than 100.
    let samples = cases.iter().filter(|case| case.origin == Origin::Sample);
    let (other, samples) = (differ(Origin::Sample), samples.count());
    assert!(other.len() <= samples / 100, "{sandbox}: {other:#?}");
    judgements
}

/// An item with the expected reward.
struct LabelledItem {
    item: Item,
    reward: f64,
    origin: Origin,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// A canonical solution of the data set.
    Solution,
    /// A model's completion, labelled by EvalPlus.
    Sample,
}

fn solutions(data: &Path) -> Vec<LabelledItem> {
    let solution = |task: Task| match task.spec {
        TaskSpec::Code(code) => LabelledItem {
            item: item(&task.id, code.canonical.unwrap()),
            reward: 1.0,
            origin: Origin::Solution,
        },
        other => panic!("{}: {other:?}", task.id),
    };
    tasks("mbppplus", data).into_iter().map(solution).collect()
}

fn labelled_samples(path: &Path) -> Vec<LabelledItem> {
    let sample = |line: &str| {
        let record: Json = serde_json::from_str(line).unwrap();
        let completion = record["completion"].as_str().unwrap().to_owned();
        let passed = record["plus_passed"].as_bool().unwrap();
        LabelledItem {
            item: item(&format!("mbppplus/{}", record["task_id"]), completion),
            reward: if passed { 1.0 } else { 0.0 },
            origin: Origin::Sample,
        }
    };
    std::fs::read_to_string(path)
        .unwrap()
        .lines()
        .map(sample)
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn humaneval_solutions_are_correct_as_bodies_and_as_functions() {
    if !interpreter() {
        return;
    }
    let Some(Records { folder, .. }) = data::holding("humaneval") else {
        return;
    };
    let dataset = datasets::open("humaneval", Some(&folder)).unwrap();
    assert_eq!(dataset.eval.len(), 164);
    let (mut right, mut wrong) = (Vec::new(), Vec::new());
    for task in dataset.eval {
        let TaskSpec::Code(code) = task.spec else {
            panic!("{}", task.id)
        };
        let (prefix, whole) = (code.prefix.unwrap(), code.canonical.unwrap());
        let body = whole.strip_prefix(&prefix).unwrap().to_owned();
        let answer = format!("The function:\n```python\n{whole}```\n");
        right.extend([body, answer].map(|text| item(&task.id, text)));
        wrong.push(item(&task.id, "    pass\n".to_owned()));
    }
    let running = Running::start(&folder, "wasm").await;
    for (items, verdict) in [(right, Verdict::Correct), (wrong, Verdict::Incorrect)] {
        let mut others = running.judge(items).await;
        others.retain(|judgement| judgement.verdict != verdict);
        assert!(others.is_empty(), "not {verdict:?}: {others:#?}");
    }
}

/// Ids and answers of MATH-500, or of the excerpt's dozen.
fn math_500(data: &Records) -> Vec<(String, String)> {
    let eval = datasets::open("math", Some(&data.folder)).unwrap().eval;
    assert_eq!(eval.len(), if data.whole { 500 } else { 12 });
    let answer = |task: Task| match task.spec {
        TaskSpec::Math(math) => (task.id, math.answer),
        other => panic!("{}: {other:?}", task.id),
    };
    eval.into_iter().map(answer).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_answer_of_math_500_equals_itself_and_not_the_next_one() {
    let Some(data) = data::holding("math") else {
        return;
    };
    let answers = math_500(&data);
    let running = Running::start(&data.folder, "none").await;
    let boxed = |answer: &str| format!("So the answer is $\\boxed{{{answer}}}$.");
    let own = answers.iter().map(|(id, answer)| item(id, boxed(answer)));
    let mut unequal = running.judge(own.collect()).await;
    unequal.retain(|judgement| judgement.verdict != Verdict::Correct);
    let max_unequal = if data.whole { 4 } else { 0 };
    assert!(unequal.len() <= max_unequal, "{unequal:#?}");
    // Each task with the next task's answer.
    let shifted = answers.iter().zip(answers.iter().cycle().skip(1));
    let others = shifted.clone();
    let others = others.map(|((id, _), (_, other))| item(id, boxed(other)));
    let neighbours = running.judge(others.collect()).await;
    let accepted: Vec<(&str, &str)> = shifted
        .zip(&neighbours)
        .filter(|(((_, a), (_, b)), judgement)| judgement.verdict == Verdict::Correct && a != b)
        .map(|(((_, a), (_, b)), _)| (a.as_str(), b.as_str()))
        .collect();
    let expected: &[(&str, &str)] = if data.whole { &[("5", "x=5")] } else { &[] };
    assert_eq!(accepted, expected);
}
