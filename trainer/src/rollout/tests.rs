use std::path::Path;

use super::*;
use crate::fakes::{FakePolicy, FakeVerifier, dataset, prompt, verifier_settings};
use crate::interrupt::StopSignal;
use crate::reward::RewardClient;

fn params() -> SamplingParams {
    SamplingParams {
        samples: 8,
        seed: 1,
        sampling: Sampling {
            temperature: 1.0,
            ..Sampling::default()
        },
        min_tokens: 0,
        max_tokens: 4,
    }
}

/// The prompts of so many tasks, in the first epoch.
fn prompts(tasks: usize) -> Vec<(Arc<Prompt>, usize)> {
    let tasks = dataset(tasks, 0).train;
    let prompts = tasks
        .iter()
        .map(|task| prompt(&FakePolicy::default(), task));
    prompts.map(|prompt| (prompt, 0)).collect()
}

/// A verifier that accepts `b`, and its client.
async fn verifier() -> (FakeVerifier, RewardClient) {
    let server = FakeVerifier::accepting_b().await;
    let rewards = RewardClient::new(&verifier_settings(&server.url, 5)).unwrap();
    (server, rewards)
}

/// Samples the completions that are not in the file yet, if there is one, until the watcher stops it.
async fn collected(
    policy: &FakePolicy,
    rewards: &RewardClient,
    prompts: &[(Arc<Prompt>, usize)],
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
        prompts,
        &params,
        &mut partial,
        &stop,
        &mut watch,
    )
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn samples_are_judged_during_sampling_and_returned_in_place() {
    let (policy, (_server, rewards)) = (FakePolicy::default(), verifier().await);
    let prompts = prompts(40);
    let (mut early, mut last) = (false, RolloutProgress::default());
    let watch = |progress: &RolloutProgress, _: &StopSignal| {
        early |= progress.judged > 0 && progress.sampled < progress.wanted;
        last = *progress;
    };
    let rollout = collected(&policy, &rewards, &prompts, None, watch).await;
    let rollout = rollout.unwrap();
    assert!(early);
    let again = collected(&policy, &rewards, &prompts, None, |_, _| {}).await;
    // Samples are a function of their seeds.
    assert_eq!(rollout.groups, again.unwrap().groups);
    for ((prompt, _), group) in prompts.iter().zip(&rollout.groups) {
        assert_eq!(group.prompt.task.id, prompt.task.id);
        assert_eq!(group.samples.len(), 8);
    }
    let right = assert_judged(&rollout);
    let counts = (last.wanted, last.sampled, last.judged, last.masked);
    assert_eq!(counts, (320, 320, 320, 0));
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
async fn an_interrupted_phase_does_not_sample_its_completions_again() {
    let (home, (_server, rewards)) = (tempfile::tempdir().unwrap(), verifier().await);
    let path = home.path().join("partial.jsonl");
    let policy = FakePolicy::default();
    let prompts = prompts(10);
    let whole = collected(&policy, &rewards, &prompts, None, |_, _| {}).await;
    let whole = whole.unwrap();

    let stop_at_21 = |progress: &RolloutProgress, stop: &StopSignal| {
        if progress.sampled == 21 {
            stop.request();
        }
    };
    let interrupted = collected(&policy, &rewards, &prompts, Some(&path), stop_at_21).await;
    assert!(matches!(interrupted, Err(RolloutError::Stopped)));
    let text = std::fs::read_to_string(&path).unwrap();
    let saved = text.lines().count();
    assert!((21..80).contains(&saved), "{saved}");

    for missing in [80 - saved, 0] {
        let policy = FakePolicy::default();
        let mut first = None;
        let watch = |progress: &RolloutProgress, _: &StopSignal| {
            first.get_or_insert((progress.sampled, progress.elapsed));
        };
        let rollout = collected(&policy, &rewards, &prompts, Some(&path), watch).await;
        let rollout = rollout.unwrap();
        assert_eq!(rollout.groups, whole.groups);
        assert_eq!(policy.sampled(), missing);
        let (sampled, before) = first.unwrap();
        assert_eq!(sampled, 80 - missing);
        assert!(Duration::ZERO < before && before <= rollout.inference);
    }
}
