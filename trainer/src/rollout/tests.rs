use std::path::Path;
use std::sync::Mutex;

use super::*;
use crate::fakes::{Answer, FakePolicy, FakeVerifier, dataset, prompt, verifier_settings};
use crate::interrupt::StopSignal;
use crate::policy::Policy;
use crate::reward::RewardClient;
use crate::seed;

fn params() -> SamplingParams {
    SamplingParams {
        sampling: Sampling {
            temperature: 1.0,
            ..Sampling::default()
        },
        min_tokens: 0,
        max_tokens: 4,
        stop_strings: Vec::new(),
    }
}

fn requests(policy: &dyn Policy, prompts: usize, samples: usize) -> Vec<RolloutRequest> {
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
    Arc::new(FakePolicy::default())
}

/// A verifier that accepts `b`, and its client.
async fn verifier() -> (FakeVerifier, RewardClient) {
    let server = FakeVerifier::accepting_b().await;
    let rewards = RewardClient::new(&verifier_settings(&server.url, 5)).unwrap();
    (server, rewards)
}

/// Samples the requests that are not in the file yet, if there is one, until the watcher stops it.
async fn collected(
    policy: &Arc<dyn Policy>,
    rewards: &RewardClient,
    requests: &[RolloutRequest],
    file: Option<&Path>,
    mut watch: impl FnMut(&RolloutProgress, &StopSignal) + Send,
) -> Result<Rollout, RolloutError> {
    let (params, stop) = (params(), StopSignal::default());
    let mut partial = file.map_or_else(PartialRollout::default, |path| {
        PartialRollout::open(path).unwrap()
    });
    let mut watch = |progress: &RolloutProgress| watch(progress, &stop);
    collect(
        policy,
        rewards,
        requests,
        &params,
        &mut partial,
        &stop,
        &mut watch,
    )
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn every_sample_is_judged_while_others_are_sampled_and_returned_in_its_place() {
    let (policy, (_server, rewards)) = (policy(), verifier().await);
    let requests = requests(policy.as_ref(), 40, 8);
    let (mut early, mut last) = (false, RolloutProgress::default());
    let watch = |progress: &RolloutProgress, _: &StopSignal| {
        early |= progress.judged > 0 && progress.sampled < progress.wanted;
        last = *progress;
    };
    let rollout = collected(&policy, &rewards, &requests, None, watch).await;
    let rollout = rollout.unwrap();
    assert!(early);
    let again = collected(&policy, &rewards, &requests, None, |_, _| {}).await;
    let again = again.unwrap();
    assert_eq!(
        rollout.groups, again.groups,
        "samples are a function of their seeds"
    );
    for (request, group) in requests.iter().zip(&rollout.groups) {
        assert_eq!(group.prompt.task.id, request.prompt.task.id);
        assert_eq!(group.samples.len(), 8);
    }
    let right = assert_judged(&rollout);
    assert_eq!(
        (last.wanted, last.sampled, last.judged, last.masked),
        (320, 320, 320, 0)
    );
    assert!(last.reward == right as f64 && right > 0 && right < 320);
}

/// Asserts that each sample has its own verdict, and returns how many are correct.
fn assert_judged(rollout: &Rollout) -> usize {
    let samples = rollout.groups.iter().flat_map(|group| &group.samples);
    let is_right = |sample: &&Sample| {
        let right = sample.text.starts_with('b');
        assert_eq!(sample.judged.reward, Some(f64::from(u8::from(right))));
        assert_eq!(sample.tokens.len(), sample.logp.len());
        right
    };
    samples.filter(is_right).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_verifier_that_is_killed_and_restarted_in_mid_phase_costs_no_sample_its_reward() {
    let policy = policy();
    let server = Arc::new(Mutex::new(Some(FakeVerifier::accepting_b().await)));
    let url = server.lock().unwrap().as_ref().unwrap().url.clone();
    let rewards = RewardClient::new(&verifier_settings(&url, 60)).unwrap();
    let address = url.trim_start_matches("http://").to_owned();
    let watch = |progress: &RolloutProgress, _: &StopSignal| {
        if progress.judged >= 20
            && let Some(killed) = server.lock().unwrap().take()
        {
            drop(killed);
            let address = address.clone();
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(700)).await;
                let again = FakeVerifier::serve_at(&address, "ready", |_, items| {
                    Answer::accepting_b(&items)
                })
                .await;
                tokio::time::sleep(Duration::from_secs(60)).await;
                drop(again);
            });
        }
    };
    let requests = requests(policy.as_ref(), 30, 8);
    let rollout = collected(&policy, &rewards, &requests, None, watch).await;
    assert!(
        server.lock().unwrap().is_none(),
        "the verifier was not killed"
    );
    assert_judged(&rollout.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_phase_does_not_sample_its_completions_again() {
    let (home, (_server, rewards)) = (tempfile::tempdir().unwrap(), verifier().await);
    let path = home.path().join("partial.jsonl");
    let toy = Arc::new(FakePolicy::default());
    let policy: Arc<dyn Policy> = toy.clone();
    let requests = requests(toy.as_ref(), 10, 8);
    let whole = collected(&policy, &rewards, &requests, None, |_, _| {}).await;
    let whole = whole.unwrap();

    let stop_at_21 = |progress: &RolloutProgress, stop: &StopSignal| {
        if progress.sampled == 21 {
            stop.request();
        }
    };
    let interrupted = collected(&policy, &rewards, &requests, Some(&path), stop_at_21).await;
    assert!(matches!(interrupted, Err(RolloutError::Stopped)));
    let text = std::fs::read_to_string(&path).unwrap();
    let saved = text.lines().count();
    assert!((21..80).contains(&saved), "{saved}");

    for missing in [80 - saved, 0] {
        let toy = Arc::new(FakePolicy::default());
        let policy: Arc<dyn Policy> = toy.clone();
        let mut first = None;
        let watch = |progress: &RolloutProgress, _: &StopSignal| {
            first.get_or_insert((progress.sampled, progress.elapsed));
        };
        let rollout = collected(&policy, &rewards, &requests, Some(&path), watch).await;
        let rollout = rollout.unwrap();
        assert_eq!(rollout.groups, whole.groups);
        assert_eq!(toy.sampled(), missing);
        let (sampled, before) = first.unwrap();
        assert_eq!(sampled, 80 - missing);
        assert!(Duration::ZERO < before && before <= rollout.inference);
    }
}
