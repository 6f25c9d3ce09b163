//! What becomes of samples without a verdict: few are left out, many end the run where it can go on.

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use serde_json::Value;
use verifier_api::Item;

use super::*;

/// A judgement of an item; none where the verifier is out of order for it.
fn judged(item: &Item, out: bool) -> Value {
    let mut judged = judgement(&item.id, item.completion.starts_with('b'));
    if out {
        judged["reward"] = Value::Null;
        judged["verdict"] = "unavailable".into();
        judged["detail"] = serde_json::json!({"reason": "out of order"});
    }
    judged
}

#[tokio::test(flavor = "multi_thread")]
async fn an_evaluation_without_verdicts_ends_the_run_and_is_made_when_it_goes_on() {
    let home = tempfile::tempdir().unwrap();
    let (never, cut) = (home.path().join("never"), home.path().join("cut"));
    let quiet = Scripted::accepting_b().await;
    go(&never, &config(&quiet.url, &[])).await.unwrap();

    // In order for the evaluation before training, and for none after it.
    let began = AtomicBool::new(false);
    let server = Scripted::serve(move |_, items| {
        let results = items.iter().map(|item| {
            let held_out = item.prompt.contains("toy/eval/");
            began.fetch_or(!held_out, Ordering::SeqCst);
            judged(item, held_out && began.load(Ordering::SeqCst))
        });
        Answer::Results(results.collect())
    })
    .await;
    let error = go(&cut, &config(&server.url, &[])).await.unwrap_err();
    let said = error.to_string();
    assert!(
        said.contains("20 of the 20 samples of the evaluation after 4 updates have no verdict, more than the 10 %")
            && said.contains("out of order"),
        "{said}"
    );
    let evals: Vec<EvalRecord> = read_log(&cut, Log::Eval).unwrap();
    assert_eq!(evals.len(), 1);
    assert!(!cut.join("samples/eval-4.jsonl").exists());
    assert!(cut.join("rollouts/eval-4.drawn.jsonl").exists());
    go(&cut, &config(&quiet.url, &[])).await.unwrap();
    assert_same(&course(&cut), &course(&never), "evaluated again");

    let lax = config(&server.url, &["verifier.max_masked=1.0"]);
    let summary = go(&home.path().join("lax"), &lax).await.unwrap();
    assert_eq!(summary.evals.len(), 4);
    assert!(
        summary
            .evals
            .iter()
            .all(|eval| eval.masked == 20 && eval.pass_at.is_empty())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_phase_without_verdicts_is_judged_when_the_run_goes_on_and_not_drawn_again() {
    let home = tempfile::tempdir().unwrap();
    let (never, cut) = (home.path().join("never"), home.path().join("cut"));
    let quiet = Scripted::accepting_b().await;
    // A run's completions in all, by a policy that is counted.
    let counted = async |root: &Path, url: &str| {
        let toy = Arc::new(Toy::default());
        let job = job(root, &config(url, &[]), toy.clone(), &Stop::default()).unwrap();
        (train(job).await, toy.sampled())
    };
    let (ended, all) = counted(&never, &quiet.url).await;
    ended.unwrap();

    let server = Scripted::serve(move |_, items| {
        let results = items
            .iter()
            .map(|item| judged(item, !item.prompt.contains("toy/eval/")));
        Answer::Results(results.collect())
    })
    .await;
    let (ended, drawn) = counted(&cut, &server.url).await;
    assert!(matches!(ended, Err(TrainError::Masked { all: 48, .. })));
    assert_eq!(drawn, 20 + 48);
    let (ended, left) = counted(&cut, &quiet.url).await;
    ended.unwrap();
    assert_eq!(drawn + left, all);
    assert_same(&course(&cut), &course(&never), "judged again");
    let left: Vec<_> = std::fs::read_dir(cut.join("rollouts"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".drawn.jsonl"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn samples_drawn_anew_are_counted_with_those_that_were_drawn_first() {
    let home = tempfile::tempdir().unwrap();
    let dynamic = [
        "algorithm.preset=dapo",
        "algorithm.dynamic_sampling=9",
        "run.updates=3",
        "eval.samples=0",
    ];
    // A phase begins with 48 samples. Of those that are drawn anew, the four of one prompt have no verdict.
    let (asked, out) = (
        AtomicUsize::new(0),
        Arc::new(Mutex::new(Vec::<String>::new())),
    );
    let prompts = Arc::clone(&out);
    let server = Scripted::serve(move |_, items| {
        let results = items.iter().map(|item| {
            let mut prompts = prompts.lock().unwrap();
            let out = asked.fetch_add(1, Ordering::SeqCst) >= 48
                && prompts.len() < 4
                && prompts.first().is_none_or(|prompt| *prompt == item.prompt);
            if out {
                prompts.push(item.prompt.clone());
            }
            judged(item, out)
        });
        Answer::Results(results.collect())
    })
    .await;
    let root = home.path().join("one");
    go(&root, &config(&server.url, &dynamic)).await.unwrap();
    assert_eq!(out.lock().unwrap().len(), 4);
    let steps: Vec<StepRecord> = read_log(&root, Log::Metrics).unwrap();
    assert!(
        steps
            .iter()
            .all(|step| (step.algo.judged, step.algo.masked) == (16, 0)),
        "a group without a verdict takes no other's place"
    );

    let asked = AtomicUsize::new(0);
    let server = Scripted::serve(move |_, items| {
        let results = items
            .iter()
            .map(|item| judged(item, asked.fetch_add(1, Ordering::SeqCst) >= 48));
        Answer::Results(results.collect())
    })
    .await;
    let error = go(&home.path().join("all"), &config(&server.url, &dynamic))
        .await
        .unwrap_err();
    assert!(
        matches!(&error, TrainError::Masked { whose, all, .. } if whose == "phase 1" && *all > 48),
        "{error}"
    );
}
