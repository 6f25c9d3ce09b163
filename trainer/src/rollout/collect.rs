//! Collects the samples of a phase or an evaluation. Sampling and judging overlap.

use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::GenerateRequest;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;

use super::{
    PartialRollout, Rollout, RolloutError, RolloutProgress, Sample, SampledGroup, SamplingParams,
};
use crate::data::Prompt;
use crate::interrupt::StopSignal;
use crate::policy::Policy;
use crate::reward::{RewardClient, RewardError};

/// How long a finished completion may wait for others that share its request to the verifier.
const LINGER: Duration = Duration::from_millis(100);

/// Samples completions of each prompt, except those that `partial` already has, saves each in `partial`, and has all judged. Beside each prompt is its epoch.
/// `watch` is called after every change. Samples that get no verdict are masked, which is not an error.
pub async fn collect(
    policy: &dyn Policy,
    rewards: &RewardClient,
    prompts: &[(Arc<Prompt>, usize)],
    params: &SamplingParams,
    partial: &mut PartialRollout,
    stop: &StopSignal,
    watch: &mut (dyn FnMut(&RolloutProgress) + Send),
) -> Result<Rollout, RolloutError> {
    let wanted = prompts.len() * params.samples;
    let mut progress = RolloutProgress {
        wanted,
        ..RolloutProgress::default()
    };
    // A sample has a place among all, by prompt and seed. Those that an earlier process sampled are judged again.
    let mut unsent: Vec<(usize, Sample)> = Vec::new();
    let (mut requests, mut missing) = (Vec::new(), Vec::new());
    let (stop_tokens, mut places) = (policy.stop_tokens(), 0..);
    for (prompt, epoch) in prompts {
        let mut of_prompt = Vec::new();
        for (seed, place) in params.seeds(prompt, *epoch).zip(&mut places) {
            match partial.take(&prompt.task.id, seed) {
                Some((after, sample)) => {
                    progress.elapsed = progress.elapsed.max(after);
                    progress.add_sampled(&sample);
                    unsent.push((place, sample));
                }
                None => of_prompt.push((place, seed)),
            }
        }
        if !of_prompt.is_empty() {
            requests.push(GenerateRequest {
                prompt: prompt.tokens.clone(),
                seeds: of_prompt.iter().map(|(_, seed)| *seed).collect(),
                sampling: params.sampling,
                min_tokens: params.min_tokens,
                max_tokens: params.max_tokens,
                stop_tokens: stop_tokens.clone(),
                stop_strings: prompt.stop.to_vec(),
            });
            missing.push(of_prompt);
        }
    }
    let prompt_of = |place: usize| &*prompts[place / params.samples].0;
    let judge = async |mut batch: Vec<(usize, Sample)>| {
        let texts = batch
            .iter()
            .map(|(place, sample)| (prompt_of(*place), &*sample.text));
        let judged = rewards.judge(&texts.collect::<Vec<_>>()).await?;
        for ((_, sample), judged) in batch.iter_mut().zip(judged) {
            sample.judged = judged;
        }
        Ok::<_, RewardError>(batch)
    };
    let mut samples: Vec<Option<Sample>> = vec![None; wanted];
    let mut judging = FuturesUnordered::new();
    let (before, started) = (progress.elapsed, Instant::now());
    let elapsed = || before + started.elapsed();
    // When an unsent completion has waited long enough.
    let mut linger = Instant::now() + LINGER;
    let mut inference = before;
    // Dropping the receiver cancels the rest.
    let mut completions = (!requests.is_empty()).then(|| policy.generate(requests));
    loop {
        watch(&progress);
        let is_due = completions.is_none() || linger <= Instant::now();
        while unsent.len() >= rewards.batch() || (is_due && !unsent.is_empty()) {
            let size = unsent.len().min(rewards.batch());
            judging.push(judge(unsent.drain(..size).collect()));
        }
        if completions.is_none() && judging.is_empty() {
            break;
        }
        tokio::select! {
            () = stop.wait() => return Err(RolloutError::Stopped),
            completion = async { completions.as_mut()?.recv().await }, if completions.is_some() => match completion {
                Some(completion) => {
                    let completion = completion?;
                    let (place, seed) = missing[completion.request][completion.sample];
                    let sample = Sample::unjudged(completion);
                    partial.add(&prompt_of(place).task.id, seed, elapsed(), &sample)?;
                    progress.add_sampled(&sample);
                    if unsent.is_empty() {
                        linger = Instant::now() + LINGER;
                    }
                    unsent.push((place, sample));
                }
                None => {
                    completions = None;
                    inference = elapsed();
                }
            },
            () = tokio::time::sleep_until(linger.into()), if !unsent.is_empty() => {}
            Some(judged) = judging.next(), if !judging.is_empty() => {
                for (place, sample) in judged? {
                    progress.judged += 1;
                    match sample.judged.reward {
                        Some(reward) => progress.reward += reward,
                        None => progress.masked += 1,
                    }
                    samples[place] = Some(sample);
                }
            }
        }
        progress.elapsed = elapsed();
    }
    let verify = elapsed().saturating_sub(inference);
    let mut samples = samples.into_iter();
    let groups = prompts.iter().map(|(prompt, _)| {
        let own = samples.by_ref().take(params.samples);
        Some(SampledGroup {
            prompt: Arc::clone(prompt),
            samples: own.collect::<Option<_>>()?,
        })
    });
    let groups: Option<Vec<SampledGroup>> = groups.collect();
    Ok(Rollout {
        groups: groups.ok_or(RolloutError::Incomplete {
            sampled: progress.sampled,
            wanted,
        })?,
        inference,
        verify,
        ..Rollout::default()
    })
}
