use std::sync::Mutex;

use super::*;
use crate::policy::Policy;
use crate::reward::RewardClient;
use crate::scripted::{Answer, Scripted, Toy, dataset, prompt, verifier_settings};
use crate::seed;
use crate::stop::Stop;

fn drawing() -> SamplingParams {
    SamplingParams {
        sampling: Sampling {
            temperature: 1.0,
            ..Sampling::default()
        },
        max_tokens: 4,
        stop_strings: Vec::new(),
    }
}

fn queries(policy: &dyn Policy, prompts: usize, samples: usize) -> Vec<RolloutRequest> {
    dataset(prompts, 0)
        .train
        .iter()
        .map(|task| RolloutRequest {
            prompt: prompt(policy, task),
            seeds: (0..samples)
                .map(|sample| seed::of_sample(1, 0, &task.id, sample))
                .collect(),
        })
        .collect()
}

fn policy() -> Arc<dyn Policy> {
    Arc::new(Toy::default())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_sample_comes_back_in_its_place_with_its_own_verdict() {
    let (policy, server) = (policy(), Scripted::of_letter_b().await);
    let rewards = RewardClient::new(&verifier_settings(&server.url, 5)).unwrap();
    let queries = queries(policy.as_ref(), 6, 8);
    let mut last = RolloutProgress::default();
    let rollout = collect(
        &policy,
        &rewards,
        &queries,
        &drawing(),
        &mut PartialRollout::default(),
        &Stop::default(),
        &mut |tally| last = *tally,
    )
    .await
    .unwrap();
    let again = collect(
        &policy,
        &rewards,
        &queries,
        &drawing(),
        &mut PartialRollout::default(),
        &Stop::default(),
        &mut |_| {},
    )
    .await
    .unwrap();
    assert_eq!(
        rollout.groups, again.groups,
        "samples are a function of their seeds"
    );
    for (query, group) in queries.iter().zip(&rollout.groups) {
        assert_eq!(group.prompt.task.id, query.prompt.task.id);
        assert_eq!(group.samples.len(), 8);
        for sample in &group.samples {
            assert_eq!(
                sample.judged.reward,
                Some(f64::from(u8::from(sample.text.starts_with('b'))))
            );
            assert_eq!(sample.tokens.len(), sample.logp.len());
        }
    }
    let right = rollout
        .groups
        .iter()
        .flat_map(|g| &g.samples)
        .filter(|s| s.judged.reward == Some(1.0))
        .count();
    assert!(right > 0 && right < 48);
    assert_eq!(
        (
            last.wanted,
            last.drawn,
            last.judged,
            last.masked,
            last.reward
        ),
        (48, 48, 48, 0, right as f64)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn completions_are_judged_while_others_are_still_being_drawn() {
    let (policy, server) = (policy(), Scripted::of_letter_b().await);
    let rewards = RewardClient::new(&verifier_settings(&server.url, 5)).unwrap();
    let mut early = false;
    let mut watch =
        |tally: &RolloutProgress| early |= tally.judged > 0 && tally.drawn < tally.wanted;
    collect(
        &policy,
        &rewards,
        &queries(policy.as_ref(), 40, 8),
        &drawing(),
        &mut PartialRollout::default(),
        &Stop::default(),
        &mut watch,
    )
    .await
    .unwrap();
    assert!(early);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_verifier_killed_and_restarted_in_mid_phase_costs_no_sample_its_reward() {
    let policy = policy();
    let server = Arc::new(Mutex::new(Some(Scripted::of_letter_b().await)));
    let url = server.lock().unwrap().as_ref().unwrap().url.clone();
    let rewards = RewardClient::new(&verifier_settings(&url, 60)).unwrap();
    let address = url.trim_start_matches("http://").to_owned();
    let mut watch = |tally: &RolloutProgress| {
        if tally.judged >= 20
            && let Some(killed) = server.lock().unwrap().take()
        {
            drop(killed);
            let address = address.clone();
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(700)).await;
                let again =
                    Scripted::serve_at(&address, "ready", |_, items| Answer::of_letter_b(&items))
                        .await;
                tokio::time::sleep(Duration::from_secs(60)).await;
                drop(again);
            });
        }
    };
    let rollout = collect(
        &policy,
        &rewards,
        &queries(policy.as_ref(), 30, 8),
        &drawing(),
        &mut PartialRollout::default(),
        &Stop::default(),
        &mut watch,
    )
    .await
    .unwrap();
    assert!(
        server.lock().unwrap().is_none(),
        "the verifier was not killed"
    );
    assert!(
        rollout
            .groups
            .iter()
            .flat_map(|g| &g.samples)
            .all(|s| s.judged.reward == Some(f64::from(u8::from(s.text.starts_with('b')))))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_to_stop_ends_the_phase_at_once() {
    let (policy, server, stop) = (policy(), Scripted::of_letter_b().await, Stop::default());
    let rewards = RewardClient::new(&verifier_settings(&server.url, 5)).unwrap();
    let asked = stop.clone();
    let mut watch = |tally: &RolloutProgress| {
        if tally.drawn == 5 {
            asked.request();
        }
    };
    let result = collect(
        &policy,
        &rewards,
        &queries(policy.as_ref(), 100, 8),
        &drawing(),
        &mut PartialRollout::default(),
        &stop,
        &mut watch,
    )
    .await;
    assert!(matches!(result, Err(RolloutError::Stopped)));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_phase_that_was_broken_off_had_drawn_is_not_drawn_again() {
    let (home, server) = (tempfile::tempdir().unwrap(), Scripted::of_letter_b().await);
    let rewards = RewardClient::new(&verifier_settings(&server.url, 5)).unwrap();
    let path = home.path().join("drawn.jsonl");
    let toy = Arc::new(Toy::default());
    let policy: Arc<dyn Policy> = toy.clone();
    let queries = queries(toy.as_ref(), 10, 8);
    let whole = collect(
        &policy,
        &rewards,
        &queries,
        &drawing(),
        &mut PartialRollout::default(),
        &Stop::default(),
        &mut |_| {},
    )
    .await
    .unwrap();

    let stop = Stop::default();
    let asked = stop.clone();
    let broken_off = collect(
        &policy,
        &rewards,
        &queries,
        &drawing(),
        &mut PartialRollout::open(&path).unwrap(),
        &stop,
        &mut |tally| {
            if tally.drawn == 21 {
                asked.request();
            }
        },
    )
    .await;
    assert!(matches!(broken_off, Err(RolloutError::Stopped)));
    let text = std::fs::read_to_string(&path).unwrap();
    let kept = text.lines().count();
    assert!((21..80).contains(&kept), "{kept}");

    for missing in [80 - kept, 0] {
        let toy = Arc::new(Toy::default());
        let policy: Arc<dyn Policy> = toy.clone();
        let mut first = None;
        let rollout = collect(
            &policy,
            &rewards,
            &queries,
            &drawing(),
            &mut PartialRollout::open(&path).unwrap(),
            &Stop::default(),
            &mut |tally| {
                first.get_or_insert((tally.drawn, tally.elapsed));
            },
        )
        .await
        .unwrap();
        assert_eq!(rollout.groups, whole.groups);
        assert_eq!(toy.drawn(), missing);
        let (drawn, before) = first.unwrap();
        assert_eq!(drawn, 80 - missing);
        assert!(Duration::ZERO < before && before <= rollout.inference);
    }
}
