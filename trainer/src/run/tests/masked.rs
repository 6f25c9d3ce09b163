//! Samples without a verdict: a few are left out, many end the run, which can be resumed.

use verifier_api::Item;

use super::*;

/// A verifier that accepts `b`, and has no verdict on the items that are `unavailable`. The function also gets the number of earlier items.
pub(super) async fn failing(
    unavailable: impl Fn(usize, &Item) -> bool + Send + Sync + 'static,
) -> FakeVerifier {
    let judged_items = AtomicUsize::new(0);
    FakeVerifier::serve(move |_, items| {
        let results = items.iter().map(|item| {
            let mut judged = judgement(&item.id, item.completion.starts_with('b'));
            if unavailable(judged_items.fetch_add(1, Ordering::SeqCst), item) {
                judged["reward"] = serde_json::Value::Null;
                judged["verdict"] = "unavailable".into();
                judged["detail"] = serde_json::json!({"reason": "out of order"});
            }
            judged
        });
        Answer::Results(results.collect())
    })
    .await
}

fn is_held_out(item: &Item) -> bool {
    item.prompt.contains("toy/eval/")
}

#[tokio::test(flavor = "multi_thread")]
async fn unjudged_samples_end_the_run_and_are_judged_when_resumed() {
    let (home, working) = home_and_verifier().await;
    let place = |name: &str| home.path().join(name);
    // The result of a run, and the number of completions that it sampled.
    let counted = async |root: &Path, url: &str| {
        let toy = Arc::new(FakePolicy::default());
        let job = job(root, &config(url, &[]), toy.clone()).unwrap();
        (train(job).await, toy.sampled())
    };
    let (ended, all) = counted(&place("uninterrupted"), &working.url).await;
    ended.unwrap();
    let expected = outputs(&place("uninterrupted"));

    // One verifier works for the evaluation before training, and for none after it; another for evaluations alone.
    let evaluations = failing(|before, item| is_held_out(item) && before >= 20).await;
    let phases = failing(|_, item| !is_held_out(item)).await;
    let of_evaluation = "20 of the 20 samples of the evaluation after 4 updates";
    for (name, server, part) in [
        ("eval-4", &evaluations, of_evaluation),
        ("phase-0", &phases, "48 of the 48 samples of phase 1"),
    ] {
        let root = place(name);
        let left = root.join(format!("rollouts/{name}.drawn.jsonl"));
        let (ended, sampled) = counted(&root, &server.url).await;
        let words = "have no verdict, more than the 10 %";
        assert_contains(&ended.unwrap_err(), &[part, words, "out of order"]);
        let evals: Vec<EvalRecord> = read_log(&root, Log::Eval).unwrap();
        assert_eq!(evals.len(), 1);
        assert!(!root.join("samples/eval-4.jsonl").exists());
        assert!(left.exists());
        let (ended, more) = counted(&root, &working.url).await;
        ended.unwrap();
        assert_eq!(sampled + more, all);
        assert_same(&outputs(&root), &expected, name);
        assert!(!left.exists());
    }

    let lax = config(&evaluations.url, &["verifier.max_masked=1.0"]);
    let summary = run_in(&place("lax"), &lax).await.unwrap();
    assert_eq!(summary.evals.len(), 4);
    let is_empty = |eval: &EvalRecord| eval.masked == 20 && eval.pass_at.is_empty();
    assert!(summary.evals.iter().all(is_empty));
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
    let prompts = Arc::new(std::sync::Mutex::new(Vec::<String>::new()));
    let unjudged = Arc::clone(&prompts);
    let server = failing(move |before, item| {
        let mut prompts = prompts.lock().unwrap();
        let unavailable = before >= 48
            && prompts.len() < 4
            && prompts.first().is_none_or(|prompt| *prompt == item.prompt);
        if unavailable {
            prompts.push(item.prompt.clone());
        }
        unavailable
    })
    .await;
    let root = home.path().join("one");
    run_in(&root, &config(&server.url, &dynamic)).await.unwrap();
    assert_eq!(unjudged.lock().unwrap().len(), 4);
    for step in steps(&root) {
        // A group without a verdict replaces no other.
        assert_eq!((step.algo.judged, step.algo.masked), (16, 0));
    }

    let server = failing(|before, _| before >= 48).await;
    let config = config(&server.url, &dynamic);
    let error = run_in(&home.path().join("all"), &config).await.unwrap_err();
    assert_contains(&error, &[" samples of phase 1 have no verdict"]);
    let message = error.to_string();
    let all = message.split(' ').nth(3).map(str::parse::<usize>);
    assert!(all.unwrap().unwrap() > 48, "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn few_masked_samples_do_not_stop_the_run() {
    let home = fakes::folder();
    let server = failing(|before, _| before % 5 == 0).await;
    let sets = ["verifier.max_masked=0.3", "run.updates=4", "eval.samples=0"];
    let root = home.path().join("some");
    run_in(&root, &config(&server.url, &sets)).await.unwrap();
    let steps = steps(&root);
    assert!(steps.iter().any(|s| s.algo.masked > 0));
    assert!(steps.iter().all(|s| s.algo.masked + s.algo.judged == 16));
}
