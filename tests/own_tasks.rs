//! Rewards are for the trainer's tasks: those that differ from the verifier's are sent inline.

use std::path::Path;
use std::sync::Arc;

use datasets::{Dataset, Task};
use serde_json::json;
use tests::programs::Verifier;
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
