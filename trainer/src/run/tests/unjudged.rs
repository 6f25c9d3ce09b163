//! Samples without a verdict: a few are left out, many end the run, which can be resumed.

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use serde_json::Value;
use verifier_api::Item;

use super::*;

/// The judgement of an item, without a verdict if it is `unavailable`.
fn judged(item: &Item, unavailable: bool) -> Value {
    let mut judged = judgement(&item.id, item.completion.starts_with('b'));
    if unavailable {
        judged["reward"] = Value::Null;
        judged["verdict"] = "unavailable".into();
        judged["detail"] = serde_json::json!({"reason": "out of order"});
    }
    judged
}

#[tokio::test(flavor = "multi_thread")]
async fn an_evaluation_without_verdicts_ends_the_run_and_is_judged_when_resumed() {
    let home = fakes::folder();
    let (uninterrupted, cut) = (home.path().join("uninterrupted"), home.path().join("cut"));
    let working = FakeVerifier::accepting_b().await;
    run_in(&uninterrupted, &config(&working.url, &[]))
        .await
        .unwrap();

    // The verifier works for the evaluation before training, and for none after it.
    let began = AtomicBool::new(false);
    let server = FakeVerifier::serve(move |_, items| {
        let results = items.iter().map(|item| {
            let held_out = item.prompt.contains("toy/eval/");
            began.fetch_or(!held_out, Ordering::SeqCst);
            judged(item, held_out && began.load(Ordering::SeqCst))
        });
        Answer::Results(results.collect())
    })
    .await;
    let error = run_in(&cut, &config(&server.url, &[])).await.unwrap_err();
    let message = error.to_string();
    assert!(
        message.contains("20 of the 20 samples of the evaluation after 4 updates have no verdict, more than the 10 %")
            && message.contains("out of order"),
        "{message}"
    );
    let evals: Vec<EvalRecord> = read_log(&cut, Log::Eval).unwrap();
    assert_eq!(evals.len(), 1);
    assert!(!cut.join("samples/eval-4.jsonl").exists());
    assert!(cut.join("rollouts/eval-4.drawn.jsonl").exists());
    run_in(&cut, &config(&working.url, &[])).await.unwrap();
    assert_same(&outputs(&cut), &outputs(&uninterrupted), "evaluated again");

    let lax = config(&server.url, &["verifier.max_masked=1.0"]);
    let summary = run_in(&home.path().join("lax"), &lax).await.unwrap();
    assert_eq!(summary.evals.len(), 4);
    assert!(
        summary
            .evals
            .iter()
            .all(|eval| eval.masked == 20 && eval.pass_at.is_empty())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_phase_without_verdicts_is_judged_when_resumed_and_not_sampled_again() {
    let home = fakes::folder();
    let (uninterrupted, cut) = (home.path().join("uninterrupted"), home.path().join("cut"));
    let working = FakeVerifier::accepting_b().await;
    // The result of a run, and the number of completions that it sampled.
    let counted = async |root: &Path, url: &str| {
        let toy = Arc::new(FakePolicy::default());
        let job = job(root, &config(url, &[]), toy.clone()).unwrap();
        (train(job).await, toy.sampled())
    };
    let (ended, all) = counted(&uninterrupted, &working.url).await;
    ended.unwrap();

    let server = FakeVerifier::serve(move |_, items| {
        let results = items
            .iter()
            .map(|item| judged(item, !item.prompt.contains("toy/eval/")));
        Answer::Results(results.collect())
    })
    .await;
    let (ended, sampled) = counted(&cut, &server.url).await;
    assert!(matches!(ended, Err(TrainError::Masked { all: 48, .. })));
    assert_eq!(sampled, 20 + 48);
    let (ended, left) = counted(&cut, &working.url).await;
    ended.unwrap();
    assert_eq!(sampled + left, all);
    assert_same(&outputs(&cut), &outputs(&uninterrupted), "judged again");
    let left: Vec<_> = std::fs::read_dir(cut.join("rollouts"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".drawn.jsonl"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn masked_samples_of_dynamic_sampling_are_counted_over_the_whole_phase() {
    let home = fakes::folder();
    let dynamic = [
        "algorithm.preset=dapo",
        "algorithm.dynamic_sampling=9",
        "run.updates=3",
        "eval.samples=0",
    ];
    // A phase begins with 48 samples. Of the samples that replace others, the four of one prompt have no verdict.
    let (judged_items, unjudged) = (
        AtomicUsize::new(0),
        Arc::new(Mutex::new(Vec::<String>::new())),
    );
    let prompts = Arc::clone(&unjudged);
    let server = FakeVerifier::serve(move |_, items| {
        let results = items.iter().map(|item| {
            let mut prompts = prompts.lock().unwrap();
            let unavailable = judged_items.fetch_add(1, Ordering::SeqCst) >= 48
                && prompts.len() < 4
                && prompts.first().is_none_or(|prompt| *prompt == item.prompt);
            if unavailable {
                prompts.push(item.prompt.clone());
            }
            judged(item, unavailable)
        });
        Answer::Results(results.collect())
    })
    .await;
    let root = home.path().join("one");
    run_in(&root, &config(&server.url, &dynamic)).await.unwrap();
    assert_eq!(unjudged.lock().unwrap().len(), 4);
    let steps = steps(&root);
    assert!(
        steps
            .iter()
            .all(|step| (step.algo.judged, step.algo.masked) == (16, 0)),
        "a group without a verdict replaces no other"
    );

    let judged_items = AtomicUsize::new(0);
    let server = FakeVerifier::serve(move |_, items| {
        let results = items
            .iter()
            .map(|item| judged(item, judged_items.fetch_add(1, Ordering::SeqCst) >= 48));
        Answer::Results(results.collect())
    })
    .await;
    let error = run_in(&home.path().join("all"), &config(&server.url, &dynamic))
        .await
        .unwrap_err();
    assert!(
        matches!(&error, TrainError::Masked { part, all, .. } if part == "phase 1" && *all > 48),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_masked_samples_stop_the_run_and_few_do_not() {
    let home = fakes::folder();
    let mask = |every: usize| {
        move |_: usize, items: Vec<Item>| {
            let results = items.iter().map(|item| {
                let hash = item.completion.len()
                    + item.prompt.len() * 7
                    + item.completion.bytes().map(usize::from).sum::<usize>();
                judged(item, hash % every == 0)
            });
            Answer::Results(results.collect())
        }
    };
    let (some, many) = (
        FakeVerifier::serve(mask(29)).await,
        FakeVerifier::serve(mask(3)).await,
    );
    let lenient = &["verifier.max_masked=0.3", "run.updates=4", "eval.samples=0"];
    run_in(&home.path().join("some"), &config(&some.url, lenient))
        .await
        .unwrap();
    let steps = steps(&home.path().join("some"));
    assert!(
        steps.iter().any(|s| s.algo.masked > 0)
            && steps.iter().all(|s| s.algo.masked + s.algo.judged == 16)
    );

    let error = run_in(
        &home.path().join("many"),
        &config(&many.url, &["run.updates=4", "eval.samples=0"]),
    )
    .await
    .unwrap_err()
    .to_string();
    assert!(
        error.contains("of the 48 samples of phase 1 have no verdict, more than the 10 %")
            && error.contains("out of order"),
        "{error}"
    );
    run_in(&home.path().join("many"), &config(&some.url, lenient))
        .await
        .unwrap();
}
