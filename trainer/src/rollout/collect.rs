//! Collects the samples of a phase. Sampling and judging overlap.

use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::GenerateRequest;
use tokio::task::{JoinError, JoinSet};

use super::{
    PartialRollout, Rollout, RolloutError, RolloutProgress, RolloutRequest, Sample, SampledGroup,
    SamplingParams,
};
use crate::data::Prompt;
use crate::interrupt::StopSignal;
use crate::policy::Policy;
use crate::reward::{RewardClient, RewardError};

/// How long a finished completion may wait for others that share its request to the verifier.
const LINGER: Duration = Duration::from_millis(100);

/// Samples the completions of all requests except those that `partial` already has, saves each in `partial`, and has all judged. `watch` is called after every
/// change.
///
/// # Errors
/// [`RolloutError`]. Samples that get no verdict are masked, which is not an error.
pub async fn collect(
    policy: &Arc<dyn Policy>,
    rewards: &RewardClient,
    requests: &[RolloutRequest],
    params: &SamplingParams,
    partial: &mut PartialRollout,
    stop: &StopSignal,
    watch: &mut (dyn FnMut(&RolloutProgress) + Send),
) -> Result<Rollout, RolloutError> {
    let mut collector = Collector::new(requests, rewards);
    let missing = collector.resume(requests, partial);
    let before = collector.progress.elapsed;
    let started = Instant::now();
    let elapsed = || before + started.elapsed();
    let stop_tokens = policy.stop_tokens();
    let generate = missing.iter().map(|missing| GenerateRequest {
        prompt: missing[0].prompt.tokens.clone(),
        seeds: missing.iter().map(|it| it.seed).collect(),
        sampling: params.sampling,
        min_tokens: params.min_tokens,
        max_tokens: params.max_tokens,
        stop_tokens: stop_tokens.clone(),
        stop_strings: params.stop_strings.clone(),
    });
    // Dropping the receiver cancels the rest.
    let mut completions = (!missing.is_empty()).then(|| policy.generate(generate.collect()));
    let mut inference = before;
    watch(&collector.progress);
    while completions.is_some() || collector.is_judging() {
        let linger = collector.flush_at();
        tokio::select! {
            () = stop.wait() => return Err(RolloutError::Stopped),
            completion = async { completions.as_mut()?.recv().await }, if completions.is_some() => match completion {
                Some(completion) => {
                    let completion = completion?;
                    let Missing { prompt, seed, place } = missing[completion.request][completion.sample];
                    let sample = Sample::unjudged(completion);
                    partial.add(&prompt.task.id, seed, elapsed(), &sample)?;
                    collector.add(place, prompt, sample);
                }
                None => {
                    completions = None;
                    inference = elapsed();
                    collector.send();
                }
            },
            () = tokio::time::sleep_until(linger.into()), if collector.has_unsent() => collector.send(),
            Some(judged) = collector.judging.join_next(), if !collector.judging.is_empty() => collector.add_judged(judged)?,
        }
        collector.progress.elapsed = elapsed();
        watch(&collector.progress);
    }
    let verify = elapsed().saturating_sub(inference);
    Ok(Rollout {
        groups: collector.finish(requests)?,
        inference,
        verify,
    })
}

/// A completion that is still to be sampled.
#[derive(Clone, Copy)]
struct Missing<'a> {
    prompt: &'a Arc<Prompt>,
    seed: u64,
    /// Its place among all samples of the phase.
    place: usize,
}

/// The samples of one request to the verifier, with their places among all samples of the phase.
type Batch = Vec<(usize, Arc<Prompt>, Sample)>;

/// The state of a phase that is being collected.
struct Collector<'a> {
    rewards: &'a RewardClient,
    /// Those that are judged, by request and seed.
    samples: Vec<Option<Sample>>,
    /// Sampled, and not yet sent to the verifier.
    unsent: Batch,
    /// When the oldest unsent completion finished.
    oldest: Option<Instant>,
    judging: JoinSet<Result<Batch, RewardError>>,
    progress: RolloutProgress,
}

impl<'a> Collector<'a> {
    fn new(requests: &[RolloutRequest], rewards: &'a RewardClient) -> Self {
        let wanted = requests.iter().map(|request| request.seeds.len()).sum();
        Self {
            rewards,
            samples: vec![None; wanted],
            unsent: Vec::new(),
            oldest: None,
            judging: JoinSet::new(),
            progress: RolloutProgress {
                wanted,
                ..RolloutProgress::default()
            },
        }
    }

    /// Adds the completions that an earlier process sampled, with the time that they took. Returns those that are missing, by request.
    fn resume<'r>(
        &mut self,
        requests: &'r [RolloutRequest],
        partial: &mut PartialRollout,
    ) -> Vec<Vec<Missing<'r>>> {
        let (mut missing, mut places) = (Vec::new(), 0..);
        for RolloutRequest { prompt, seeds } in requests {
            let mut of_request = Vec::new();
            for (seed, place) in seeds.iter().copied().zip(&mut places) {
                match partial.take(&prompt.task.id, seed) {
                    Some((after, sample)) => {
                        self.progress.elapsed = self.progress.elapsed.max(after);
                        self.add(place, prompt, sample);
                    }
                    None => of_request.push(Missing {
                        prompt,
                        seed,
                        place,
                    }),
                }
            }
            if !of_request.is_empty() {
                missing.push(of_request);
            }
        }
        missing
    }

    fn is_judging(&self) -> bool {
        self.has_unsent() || !self.judging.is_empty()
    }

    fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    fn flush_at(&self) -> Instant {
        self.oldest.unwrap_or_else(Instant::now) + LINGER
    }

    fn add(&mut self, place: usize, prompt: &Arc<Prompt>, sample: Sample) {
        self.progress.sampled += 1;
        self.progress.tokens += sample.tokens.len();
        self.unsent.push((place, Arc::clone(prompt), sample));
        self.oldest.get_or_insert_with(Instant::now);
        if self.unsent.len() >= self.rewards.batch() {
            self.send();
        }
    }

    fn send(&mut self) {
        self.oldest = None;
        if self.unsent.is_empty() {
            return;
        }
        let mut batch = std::mem::take(&mut self.unsent);
        let rewards = self.rewards.clone();
        self.judging.spawn(async move {
            let texts = batch
                .iter()
                .map(|(_, prompt, sample)| (&**prompt, &*sample.text));
            let judged = rewards.judge(&texts.collect::<Vec<_>>()).await?;
            for ((.., sample), judged) in batch.iter_mut().zip(judged) {
                sample.judged = judged;
            }
            Ok(batch)
        });
    }

    fn add_judged(
        &mut self,
        joined: Result<Result<Batch, RewardError>, JoinError>,
    ) -> Result<(), RolloutError> {
        let batch = match joined.map_err(JoinError::try_into_panic) {
            Ok(batch) => batch?,
            Err(Ok(panic)) => std::panic::resume_unwind(panic),
            // Tasks are cancelled only when the runtime ends.
            Err(Err(_)) => return Err(RolloutError::Stopped),
        };
        for (place, _, sample) in batch {
            self.progress.judged += 1;
            match sample.judged.reward {
                Some(reward) => self.progress.reward += reward,
                None => self.progress.masked += 1,
            }
            self.samples[place] = Some(sample);
        }
        Ok(())
    }

    fn finish(self, requests: &[RolloutRequest]) -> Result<Vec<SampledGroup>, RolloutError> {
        let mut samples = self.samples.into_iter();
        let groups = requests.iter().map(|request| {
            let own = samples.by_ref().take(request.seeds.len());
            Some(SampledGroup {
                prompt: Arc::clone(&request.prompt),
                samples: own.collect::<Option<_>>()?,
            })
        });
        groups
            .collect::<Option<_>>()
            .ok_or(RolloutError::Incomplete {
                sampled: self.progress.sampled,
                wanted: self.progress.wanted,
            })
    }
}
