mod hostile;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use datasets::{CodeTask, Dataset, TaskSpec};
use serde_json::json;

use super::*;
use crate::fakes::{Answer, FakeVerifier, MAX_ITEMS, dataset, judgement, verifier_settings};

fn prompt(task: Task) -> Prompt {
    Prompt {
        text: task.question.as_str().into(),
        task: Arc::new(task),
        tokens: Arc::default(),
        stop: Arc::default(),
    }
}

/// The verdicts on completions of one prompt.
async fn judged(client: &RewardClient, completions: &[&str]) -> Result<Vec<Judged>, RewardError> {
    let prompt = prompt(dataset(1, 0).train[0].clone());
    let pairs: Vec<_> = completions.iter().map(|text| (&prompt, *text)).collect();
    client.judge(&pairs).await
}

fn client(server: &FakeVerifier, patience_s: u64) -> RewardClient {
    RewardClient::new(&verifier_settings(&server.url, patience_s)).unwrap()
}

fn rewards(judged: &[Judged]) -> Vec<Option<f64>> {
    judged.iter().map(|judged| judged.reward).collect()
}

async fn judge(client: &RewardClient, completions: &[&str]) -> Vec<Option<f64>> {
    rewards(&judged(client, completions).await.unwrap())
}

async fn error(client: &RewardClient, completions: &[&str]) -> String {
    let error = judged(client, completions).await.unwrap_err();
    error.to_string()
}

#[tokio::test]
async fn verdicts_are_in_order_and_batches_in_flight_are_bounded() {
    let server = FakeVerifier::accepting_b().await;
    let completions = ["b", "c", "c"].repeat(14);
    let expected = [Some(1.0), Some(0.0), Some(0.0)].repeat(14);
    let client = client(&server, 5);
    assert_eq!(judge(&client, &completions[..40]).await, expected[..40]);
    assert_eq!(server.requests(), 10, "40 completions in batches of 4");
    assert!(server.max_at_once() <= 2);
}

#[tokio::test]
async fn an_outage_costs_no_reward_and_only_what_is_unavailable_is_sent_again() {
    let server = FakeVerifier::serve(|number, items| match number {
        0 => Answer::Status(429, "retry-after: 1\r\n"),
        1 => Answer::Status(503, ""),
        2 => Answer::Broken,
        3 => {
            let mut judged = [0, 1, 2].map(|i| judgement(&items[i].id, i != 1));
            judged[2] = unavailable(&items[2].id, true);
            Answer::Results(judged.to_vec())
        }
        _ => {
            assert_eq!(items.len(), 1);
            Answer::accepting_b(&items)
        }
    })
    .await;
    let started = Instant::now();
    let rewards = judge(&client(&server, 30), &["b", "c", "b"]).await;
    assert_eq!(rewards, [Some(1.0), Some(0.0), Some(1.0)]);
    assert_eq!(server.requests(), 5);
    // As long as `retry-after` says.
    assert!(started.elapsed() >= Duration::from_secs(1));
}

#[tokio::test]
async fn after_the_patience_a_sample_is_masked_and_its_reward_is_not_zero() {
    let server = FakeVerifier::serve(|_, _| Answer::Status(503, "")).await;
    let judged = judged(&client(&server, 1), &["b", "c"]).await.unwrap();
    assert_eq!(rewards(&judged), [None, None]);
    assert_eq!(judged[0].verdict, Verdict::Unavailable);
    assert!(judged[0].detail["reason"].as_str().unwrap().contains("503"));

    let disconnected = client(&server, 1);
    drop(server);
    assert_eq!(judge(&disconnected, &["b"]).await, [None]);
}

#[tokio::test]
async fn a_too_large_request_is_halved_and_a_too_large_task_named() {
    let server = FakeVerifier::serve(|_, items| match items.len() {
        1 if items[0].completion != "large" => Answer::accepting_b(&items),
        _ => Answer::Status(413, ""),
    })
    .await;
    let client = client(&server, 5);
    let rewards = judge(&client, &["b", "c", "b"]).await;
    assert_eq!(rewards, [Some(1.0), Some(0.0), Some(1.0)]);
    let error = error(&client, &["b", "large"]).await;
    for part in ["toy/train/0", "limits.body_bytes"] {
        assert!(error.contains(part), "{error}");
    }
}

#[tokio::test]
async fn a_task_that_the_server_has_otherwise_is_sent_inline() {
    let own = dataset(1, 0).train[0].spec.digest().to_string();
    let server = FakeVerifier::serve(move |_, items| {
        if items[0].completion == "b" {
            assert_eq!(items[0].task_digest.as_deref(), Some(own.as_str()));
            return Answer::accepting_b(&items);
        }
        // For the second completion, the server's task is another.
        match &items[0].task {
            TaskRef::Named(_) => Answer::Status(422, ""),
            TaskRef::Inline(_) => {
                assert_eq!(items[0].task_digest, None);
                Answer::accepting_b(&items)
            }
        }
    })
    .await;
    let client = client(&server, 5);
    for (completion, reward) in [("b", 1.0), ("c", 0.0)] {
        assert_eq!(judge(&client, &[completion]).await, [Some(reward)]);
    }
    assert_eq!(server.requests(), 3);
}

#[tokio::test]
async fn a_missing_token_is_an_error_at_once() {
    let server = FakeVerifier::serve(|_, _| Answer::Status(401, "")).await;
    let settings = config::Verifier {
        token_env: "RAPID_TEST_TOKEN_THAT_NOBODY_SETS".into(),
        ..verifier_settings(&server.url, 600)
    };
    let client = RewardClient::new(&settings).unwrap();
    let error = error(&client, &["b"]).await;
    for part in [
        client.url(),
        "the environment variable RAPID_TEST_TOKEN_THAT_NOBODY_SETS holds no token",
        "`verifier.token_env`",
    ] {
        assert!(error.contains(part), "{error}");
    }
    assert_eq!(server.requests(), 1);
}

#[tokio::test]
async fn training_does_not_start_on_a_grader_that_will_never_judge() {
    let preparing = FakeVerifier::with_graders("unavailable", json!([])).await;
    let refusing = FakeVerifier::serve(|_, items| {
        let judged = items.iter().map(|item| unavailable(&item.id, false));
        Answer::Results(judged.collect())
    })
    .await;
    for (server, dataset, reason) in [
        (&preparing, dataset(1, 1), "a reason"),
        (&refusing, dataset(1, 0), "toy/train/0 got no verdict"),
        (&refusing, dataset(1, 1), "toy/train/0 and 1 more got"),
        (&refusing, dataset(90, 10), "toy/train/0 and 7 more got"),
    ] {
        let started = client(server, 5).start(&[("toy", &dataset)]).await;
        let error = started.unwrap_err().to_string();
        let expected = format!("cannot judge math tasks: {reason}");
        assert!(error.contains(&expected), "{error}");
    }
}

/// The judgement of an item without a verdict.
fn unavailable(id: &str, retryable: bool) -> serde_json::Value {
    json!({"id": id, "reward": null, "verdict": "unavailable", "detail": {"reason": "busy."}, "retryable": retryable, "key": "", "cached": false, "deterministic": false, "elapsed_ms": 0.0})
}

#[tokio::test]
async fn a_broken_first_task_does_not_stop_a_run() {
    let server = FakeVerifier::serve(|_, items| {
        let judged = items.iter().map(|item| match &item.task {
            TaskRef::Named(id) if id == "toy/train/0" => unavailable(&item.id, false),
            _ => judgement(&item.id, false),
        });
        Answer::Results(judged.collect())
    })
    .await;
    let client = client(&server, 5);
    client.start(&[("toy", &dataset(90, 10))]).await.unwrap();
    // One request for the first task, and two for seven others in batches of four.
    assert_eq!(server.requests(), 3);
}

#[tokio::test]
async fn a_run_starts_only_on_graders_that_judge_as_its_recipe_expects() {
    const LENIENT: &str = "judges math tasks with `lenient`, and the recipe expects `standard` (verifier.math_policy); start it with `rapid-verifier serve --math-policy standard`, or set `verifier.math_policy = \"lenient\"`";
    const SILENT: &str = "does not say how it finds the program, and the recipe expects `program`; update it and start it with `rapid-verifier serve --code-extraction program`, or remove verifier.code_extraction";
    let standard = &[("math", Some("boxed, standard"))][..];
    let lenient = &[("math", Some("any, lenient"))][..];
    let silent = &[("math", None), ("code", None)][..];
    let program = [("code", Some("program")), standard[0]];
    let math = dataset(1, 1);
    let mut programs = math.clone();
    for task in programs.train.iter_mut().chain(&mut programs.eval) {
        task.spec = TaskSpec::Code(CodeTask {
            entry_point: "f".to_owned(),
            asserts: vec!["assert f() == 1".to_owned()],
            ..CodeTask::default()
        });
    }
    let accepted = "";
    let (policy, extraction) = (Some("standard"), Some("boxed"));
    let code = [None, None, Some("program")];
    for (tasks, graders, expected, refusal) in [
        (&math, standard, [policy, extraction, None], accepted),
        (&math, lenient, [None; 3], accepted),
        (&math, silent, [None; 3], accepted),
        // The data set has no code tasks.
        (&math, lenient, code, accepted),
        (&programs, &program, code, accepted),
        (&math, lenient, [policy, None, None], LENIENT),
        (&math, lenient, [None, extraction, None], "boxed`"),
        (&math, &[], [None, extraction, None], "remove verifier"),
        (&programs, silent, code, SILENT),
    ] {
        let grader = |(name, policy): &(&str, Option<&str>)| json!({"name": name, "version": "1", "state": "ready", "policy": policy});
        let graders = graders.iter().map(grader).collect();
        let server = FakeVerifier::with_graders("ready", graders).await;
        let [math_policy, math_extraction, code_extraction] =
            expected.map(|value| value.map(str::to_owned));
        let settings = config::Verifier {
            math_policy,
            math_extraction,
            code_extraction,
            ..verifier_settings(&server.url, 5)
        };
        let client = RewardClient::new(&settings).unwrap();
        let started = client.start(&[("toy", tasks)]).await;
        if refusal == accepted {
            let kind = ["math", "code"][usize::from(tasks == &programs)];
            assert!(started.unwrap().iter().all(|grader| grader.name == kind));
            continue;
        }
        let error = started.unwrap_err().to_string();
        assert!(
            error.contains(refusal) && error.contains(&server.url),
            "{error}"
        );
        // The refusal comes before the first request to judge.
        assert_eq!(server.requests(), 0);
    }
}

#[tokio::test]
async fn a_batch_is_no_larger_than_the_verifier_accepts() {
    let server = FakeVerifier::accepting_b().await;
    for (configured, batch) in [(10, 10), (MAX_ITEMS, MAX_ITEMS), (1_000, MAX_ITEMS)] {
        let settings = config::Verifier {
            batch: configured,
            ..verifier_settings(&server.url, 5)
        };
        let client = RewardClient::new(&settings).unwrap();
        assert_eq!(client.batch(), configured);
        client.start(&[("toy", &dataset(1, 1))]).await.unwrap();
        assert_eq!(client.batch(), batch);
    }
}

#[tokio::test]
async fn tasks_are_sent_by_id_only_to_a_server_that_has_their_data_set() {
    // The server has the digest of the toy data set with one training task and one held-out task.
    let changed = {
        let mut changed = dataset(1, 1);
        changed.eval[0].spec = TaskSpec::math("c");
        changed
    };
    let other = Dataset {
        name: "other".into(),
        ..dataset(1, 1)
    };
    for (name, dataset, by_id) in [
        ("toy", dataset(1, 1), true),
        ("toy.jsonl", dataset(1, 1), false),
        ("TOY.JSONL", dataset(1, 1), false),
        ("toy", changed, false),
        // A part of the server's data set: the server compares the digest of each task.
        ("toy", dataset(1, 0), true),
        ("other", other, false),
    ] {
        let server = FakeVerifier::serve(move |_, items| {
            assert!(
                items
                    .iter()
                    .all(|item| matches!(item.task, TaskRef::Named(_)) == by_id)
            );
            Answer::accepting_b(&items)
        })
        .await;
        let client = client(&server, 5);
        client.start(&[(name, &dataset)]).await.unwrap();
        assert_eq!(judge(&client, &["b"]).await, [Some(1.0)]);
    }
}

#[tokio::test]
async fn a_task_that_the_verifier_rejects_is_named() {
    let server = FakeVerifier::serve(|_, items| match &items[0].task {
        TaskRef::Named(_) => Answer::Status(422, ""),
        TaskRef::Inline(_) => Answer::Problem(
            422,
            json!({"title": "scripted", "status": 422, "detail": "scripted", "item": 1, "field": "task"}),
        ),
    })
    .await;
    let prompts: Vec<Prompt> = dataset(2, 0).train.into_iter().map(prompt).collect();
    let pairs = [(&prompts[0], "b"), (&prompts[1], "c")];
    let error = client(&server, 5).judge(&pairs).await.unwrap_err();
    let error = error.to_string();
    assert!(error.contains("rejects the task toy/train/1"), "{error}");
}

#[test]
fn pauses_grow_up_to_a_bound_and_are_random() {
    let mut outage = Outage::default();
    let pauses: Vec<Duration> = (0..12).map(|_| outage.pause(None)).collect();
    assert!(pauses[0] >= FIRST_PAUSE / 2 && pauses[0] <= FIRST_PAUSE);
    assert!(pauses[11] >= LONGEST_PAUSE / 2 && pauses[11] <= LONGEST_PAUSE);
    assert!(pauses.windows(2).any(|pair| pair[0] * 2 != pair[1]));
    assert!(outage.pause(Some(Duration::from_secs(99))) >= Duration::from_secs(99));
}

#[tokio::test]
async fn only_a_counting_client_requests_all_tests() {
    let server = FakeVerifier::serve(|_, items| {
        let mut judged = judgement(&items[0].id, false);
        judged["passed"] = json!(3);
        judged["total"] = json!(if items[0].all_tests { 5 } else { 4 });
        Answer::Results(vec![judged])
    })
    .await;
    let settings = verifier_settings(&server.url, 5);
    for (all_tests, total) in [(false, 4), (true, 5)] {
        let share = f64::from(u8::from(all_tests));
        let reward = config::Reward {
            share,
            ..config::Reward::default()
        };
        let client = RewardClient::with_reward(&settings, &reward).unwrap();
        let judged = judged(&client, &["c"]).await.unwrap();
        assert_eq!((judged[0].passed, judged[0].total), (Some(3), Some(total)));
    }
}

#[tokio::test]
async fn without_another_graders_term_a_completion_is_masked() {
    let server = FakeVerifier::serve(|_, items| {
        let judged = items.iter().map(|item| match &item.task {
            TaskRef::Inline(TaskSpec::Custom(task)) => {
                assert_eq!(
                    (&*task.grader, &task.fields["kind"]),
                    ("style", &json!("style"))
                );
                assert!(task.fields.contains_key("answer"), "the task's own fields");
                let mut judged = judgement(&item.id, false);
                judged["reward"] = json!(0.25);
                match item.completion.as_str() {
                    "b2" => unavailable(&item.id, false),
                    _ => judged,
                }
            }
            _ => judgement(&item.id, item.completion.starts_with('b')),
        });
        Answer::Results(judged.collect())
    })
    .await;
    let term = config::RewardTerm {
        grader: Some("style".to_owned()),
        ..config::RewardTerm::default()
    };
    let reward = config::Reward {
        terms: [("form".to_owned(), term)].into(),
        ..config::Reward::default()
    };
    let settings = verifier_settings(&server.url, 5);
    let client = RewardClient::with_reward(&settings, &reward).unwrap();
    let judged = judged(&client, &["b", "b2", "c"]).await.unwrap();
    assert_eq!(rewards(&judged), [Some(1.0), None, Some(0.0)]);
    let forms = [&judged[0], &judged[2]].map(|judged| judged.terms["form"]);
    assert_eq!(forms, [0.25, 0.25]);
}

#[tokio::test]
async fn an_outage_and_masked_samples_are_reported_once() {
    let client = RewardClient::new(&verifier_settings("http://127.0.0.1:9", 5)).unwrap();
    let warnings = |masks: bool| (0..16).filter(|_| client.may_warn(masks)).count();
    assert_eq!([false, true, false, true].map(warnings), [1, 1, 0, 0]);
    client.last_warned.lock().unwrap()[0] = Instant::now().checked_sub(QUIET);
    assert_eq!([false, true].map(warnings), [1, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_wait_for_other_requests_does_not_use_up_the_patience() {
    let refused = AtomicUsize::new(0);
    let server = FakeVerifier::serve(move |_, items| {
        if items[0].completion == "c" {
            // Longer than the patience. Meanwhile the client's own pauses go on.
            tokio::task::block_in_place(|| std::thread::sleep(Duration::from_millis(2500)));
        } else if refused.fetch_add(1, Ordering::SeqCst) < 2 {
            return Answer::Status(429, "retry-after: 0\r\n");
        }
        Answer::accepting_b(&items)
    })
    .await;
    // The second completion is judged after the first is refused, and before it is sent again.
    let settings = config::Verifier {
        batch: 1,
        in_flight: 1,
        ..verifier_settings(&server.url, 2)
    };
    let client = RewardClient::new(&settings).unwrap();
    assert_eq!(judge(&client, &["b", "c"]).await, [Some(1.0), Some(0.0)]);
    assert_eq!(server.requests(), 4);
}
