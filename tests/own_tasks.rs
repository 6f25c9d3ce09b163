//! Rewards are for the trainer's tasks. A user's own tasks are sent inline, with everything that decides their verdicts, and so are tasks that differ from the verifier's.

use std::path::Path;
use std::sync::Arc;

use datasets::{Dataset, Task};
use serde_json::json;
use tests::artifacts;
use tests::programs::{Verifier, rapid_verifier, run};
use trainer::config;
use trainer::reward::{JudgeRequest, RewardClient};

async fn connect(verifier: &Verifier, name: &str, dataset: &Dataset) -> RewardClient {
    let settings = config::Verifier {
        url: Some(verifier.url()),
        patience_s: 60,
        ..config::Verifier::default()
    };
    let client = RewardClient::new(&settings).unwrap();
    client.start(name, dataset).await.unwrap();
    client
}

fn judge_request(task: &Task, completion: &str) -> JudgeRequest {
    JudgeRequest {
        task: Arc::new(task.clone()),
        prompt: task.question.as_str().into(),
        completion: completion.to_owned(),
    }
}

/// The reward of each completion, or the reason why it has none.
async fn rewards(client: &RewardClient, requests: Vec<JudgeRequest>) -> Vec<Result<f64, String>> {
    client
        .judge(requests)
        .await
        .unwrap()
        .into_iter()
        .map(|judged| judged.reward.ok_or_else(|| judged.detail.to_string()))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn functions_in_a_users_file_are_judged_by_every_field_of_their_records() {
    if artifacts::sandbox().is_none() {
        return;
    }
    // Record, a correct completion, an incorrect completion.
    let functions = [
        (
            json!({"task_id": "HumanEval/0", "prompt": "def double(n):\n    \"\"\" Twice n. \"\"\"\n", "entry_point": "double", "canonical_solution": "    return 2 * n\n",
                "test": "def check(candidate):\n    assert candidate(3) == 6\n"}),
            "    return n + n\n",
            "    return n * n\n",
        ),
        (
            json!({"task_id": "HumanEval/32", "prompt": "def find_zero(xs):\n", "entry_point": "find_zero", "canonical_solution": "    return -xs[0] / xs[1]\n",
                "base_input": [[[2, 1]], [[-6, 3]]], "atol": 1e-4}),
            "    return -xs[0] / xs[1] + 1e-6\n",
            "    return 0\n",
        ),
        (
            json!({"id": "near", "question": "Write near().", "entry_point": "near", "tests": [{"args": [], "expected": 1.0}], "atol": 0.01}),
            "def near():\n    return 1.005\n",
            "def near():\n    return 1.05\n",
        ),
        (
            json!({"id": "some", "question": "Write some().", "entry_point": "some", "tests": [{"args": [], "expected": [1, 2]}], "compare": "set"}),
            "def some():\n    return [2, 1, 1]\n",
            "def some():\n    return [2]\n",
        ),
        (
            json!({"id": "area", "question": "Write area(r).", "entry_point": "area", "prefix": "def area(r):\n", "canonical": "import math\ndef area(r):\n    return math.pi * r * r\n",
                "imports": ["import math"], "tests": [{"args": [2]}], "asserts": ["assert math.isclose(area(1), math.pi)"]}),
            "    return 3.141592653589793 * r * r\n",
            "    return 3 * r * r\n",
        ),
    ];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.jsonl");
    let lines: Vec<String> = functions
        .iter()
        .map(|(record, _, _)| record.to_string())
        .collect();
    std::fs::write(&path, lines.join("\n")).unwrap();
    let name = path.to_str().unwrap();
    let dataset = datasets::open(name, None).unwrap();
    let verifier = Verifier::start(&["--require", "code"]);
    let client = connect(&verifier, name, &dataset).await;
    let mut requests = Vec::new();
    for (task, (_, correct, incorrect)) in dataset.train.iter().zip(&functions) {
        requests.extend([judge_request(task, correct), judge_request(task, incorrect)]);
    }
    let expected: Vec<Result<f64, String>> =
        functions.iter().flat_map(|_| [Ok(1.0), Ok(0.0)]).collect();
    assert_eq!(rewards(&client, requests).await, expected);
}

/// Writes a GSM8K with three training questions and one held-out question with these answers, and opens it.
fn gsm8k(folder: &Path, answers: [u32; 4]) -> Dataset {
    let lines = answers.map(|answer| {
        json!({"question": "How many?", "answer": format!("So many.\n#### {answer}")}).to_string()
    });
    let files = folder.join("gsm8k");
    std::fs::create_dir_all(&files).unwrap();
    std::fs::write(files.join("train.jsonl"), lines[..3].join("\n")).unwrap();
    std::fs::write(files.join("eval.jsonl"), &lines[3]).unwrap();
    datasets::open("gsm8k", Some(folder)).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_trainers_answers_count_if_the_verifier_has_other_ones() {
    let (trainer_folder, verifier_folder) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let own = gsm8k(trainer_folder.path(), [1, 2, 3, 4]);
    let verifiers = gsm8k(verifier_folder.path(), [1, 2, 7, 4]);
    let verifier = Verifier::start(&[
        "--set",
        "code.sandbox=none",
        "--require",
        "math",
        "--data-dir",
        verifier_folder.path().to_str().unwrap(),
    ]);
    // The whole data set, and one without held-out tasks, as with `data.train_limit` and `eval.limit`, where only the tasks themselves show the difference.
    let cut = Dataset {
        eval: Vec::new(),
        ..own.clone()
    };
    for (dataset, answer) in [(&own, "3"), (&cut, "3"), (&verifiers, "7")] {
        let client = connect(&verifier, "gsm8k", dataset).await;
        let third = &dataset.train[2];
        let requests = ["3", "7"].map(|given| judge_request(third, &format!("\\boxed{{{given}}}")));
        let expected: [Result<f64, String>; 2] =
            ["3", "7"].map(|given| Ok(if given == answer { 1.0 } else { 0.0 }));
        assert_eq!(rewards(&client, requests.to_vec()).await, expected);
    }
}

#[test]
fn tasks_whose_tests_can_be_passed_without_solving_anything_are_reported() {
    if artifacts::sandbox().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let task = |id: &str, assert: &str| {
        let asserts = [assert];
        json!({"id": id, "question": "Sort.", "entry_point": "solve", "asserts": asserts})
            .to_string()
    };
    let tasks = [
        task("own", "xs = [3, 1]\nassert solve(xs) == sorted(xs)"),
        task("copy", "xs = [3, 1]\nassert solve(list(xs)) == sorted(xs)"),
        task("unequal", "assert solve([3, 1]) != [3, 1]"),
        task("strong", "assert solve([3, 1]) == [1, 3]"),
        task("broken", "assert solve([3, 1]) == ["),
        task("unsolved", "assert solve([3, 1]) == [3]")
            .replace('}', ",\"canonical\":\"solve = sorted\"}"),
    ];
    let file = folder.path().join("own.jsonl");
    std::fs::write(&file, tasks.join("\n")).unwrap();
    let audit = |options: &[&str]| {
        let arguments = [
            &["score", "--audit", "--dataset", file.to_str().unwrap()],
            options,
        ]
        .concat();
        run(&mut rapid_verifier(arguments)).success().stdout
    };
    let report: serde_json::Value = serde_json::from_str(&audit(&["--json"])).unwrap();
    let weak: Vec<(&str, &str)> = report["weak"]
        .as_array()
        .unwrap()
        .iter()
        .map(|weak| {
            (
                weak["task"].as_str().unwrap(),
                weak["program"].as_str().unwrap(),
            )
        })
        .collect();
    let constants = [
        "[]", "0", "''", "{}", "()", "set()", "None", "True", "False",
    ];
    let mut expected = vec![(
        "own/own".to_owned(),
        "empties its arguments and returns []".to_owned(),
    )];
    for value in constants {
        let program = format!("returns {value} whatever it is given");
        expected.push(("own/unequal".to_owned(), program));
    }
    let object = "returns an object of its own, which is unequal to everything";
    expected.push(("own/unequal".to_owned(), object.to_owned()));
    let expected: Vec<(&str, &str)> = expected.iter().map(|(a, b)| (&**a, &**b)).collect();
    assert_eq!(weak, expected);
    assert!(report["unavailable"]["own/broken"].is_string());
    let unsolved = report["unavailable"]["own/unsolved"].as_str().unwrap();
    assert!(unsolved.contains("canonical solution"), "{unsolved}");
    let table = audit(&[]);
    assert!(
        table.starts_with("own: 2 of 6 functions have weak tests\n"),
        "{table}"
    );
}
