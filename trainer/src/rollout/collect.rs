//! Collects the samples of a phase. Sampling and judging overlap.

use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::{Completion, EngineError};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::sampling_stream::{Missing, sample};
use super::{
    PartialRollout, Rollout, RolloutError, RolloutProgress, RolloutRequest, Sample, SampledGroup,
    SamplingParams,
};
use crate::interrupt::StopSignal;
use crate::policy::Policy;
use crate::reward::{JudgeRequest, Judged, RewardClient, RewardError};

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
    let before = collector.resume(partial);
    let started = Instant::now();
    let elapsed = || before + started.elapsed();
    let missing = collector.missing();
    let mut completions = (!missing.is_empty()).then(|| sample(policy, requests, missing, params));
    let mut inference = before;
    watch(&collector.progress);
    while completions.is_some() || collector.is_judging() {
        let linger = collector.flush_at();
        tokio::select! {
            () = stop.wait() => return Err(RolloutError::Stopped),
            next = next(&mut completions), if completions.is_some() => match next {
                Some(completion) => {
                    let completion = completion?;
                    let request = &requests[completion.request];
                    let seed = request.seeds[completion.sample];
                    partial.add(&request.prompt.task.id, seed, elapsed(), &completion)?;
                    collector.add(completion);
                }
                None => {
                    completions = None;
                    inference = elapsed();
                    collector.send();
                }
            },
            () = tokio::time::sleep_until(linger.into()), if collector.has_unsent() => collector.send(),
            Some(verdicts) = collector.judging.join_next(), if !collector.judging.is_empty() => collector.add_verdicts(verdicts)?,
        }
        collector.progress.elapsed = elapsed();
        watch(&collector.progress);
    }
    let verify = elapsed().saturating_sub(inference);
    Ok(Rollout {
        groups: collector.finish()?,
        inference,
        verify,
    })
}

async fn next(
    completions: &mut Option<mpsc::Receiver<Result<Completion, EngineError>>>,
) -> Option<Result<Completion, EngineError>> {
    match completions {
        Some(receiver) => receiver.recv().await,
        None => None,
    }
}

/// The index of a request, and the index of one of its seeds.
type SampleId = (usize, usize);

/// The completions that were sent in one request to the verifier, and their verdicts.
type Answer = (Vec<SampleId>, Result<Vec<Judged>, RewardError>);

/// A completion, once it is sampled, and its verdict, once it is judged.
type Slot = (Option<Completion>, Option<Judged>);

/// The state of a phase that is being collected.
struct Collector<'a> {
    requests: &'a [RolloutRequest],
    rewards: &'a RewardClient,
    /// By request and seed.
    slots: Vec<Vec<Slot>>,
    /// Sampled, and not yet sent to the verifier.
    unsent: Vec<(SampleId, JudgeRequest)>,
    /// When the oldest unsent completion finished.
    oldest: Option<Instant>,
    judging: JoinSet<Answer>,
    progress: RolloutProgress,
}

impl<'a> Collector<'a> {
    fn new(requests: &'a [RolloutRequest], rewards: &'a RewardClient) -> Self {
        let sizes = || requests.iter().map(|request| request.seeds.len());
        Self {
            requests,
            rewards,
            slots: sizes().map(|size| vec![Slot::default(); size]).collect(),
            unsent: Vec::new(),
            oldest: None,
            judging: JoinSet::new(),
            progress: RolloutProgress {
                wanted: sizes().sum(),
                ..RolloutProgress::default()
            },
        }
    }

    /// Adds the completions that an earlier process sampled, and returns how long that took.
    fn resume(&mut self, partial: &mut PartialRollout) -> Duration {
        let mut before = Duration::ZERO;
        for (request, wanted) in self.requests.iter().enumerate() {
            for (sample, seed) in wanted.seeds.iter().enumerate() {
                if let Some(stored) = partial.take(&wanted.prompt.task.id, *seed) {
                    before = before.max(Duration::from_secs_f64(stored.after));
                    self.add(Completion {
                        request,
                        sample,
                        tokens: stored.tokens,
                        logp: stored.logp,
                        text: stored.text,
                        finish: stored.finish,
                    });
                }
            }
        }
        self.progress.elapsed = before;
        before
    }

    /// The completions that are still to be sampled.
    fn missing(&self) -> Vec<Missing> {
        let missing = |slots: &Vec<Slot>| -> Vec<usize> {
            let seeds = 0..slots.len();
            seeds.filter(|seed| slots[*seed].0.is_none()).collect()
        };
        let missing = self.slots.iter().map(missing).enumerate();
        missing.filter(|(_, seeds)| !seeds.is_empty()).collect()
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

    fn add(&mut self, completion: Completion) {
        let id = (completion.request, completion.sample);
        let prompt = &self.requests[id.0].prompt;
        self.progress.sampled += 1;
        self.progress.tokens += completion.tokens.len();
        self.unsent.push((
            id,
            JudgeRequest {
                task: prompt.task.clone(),
                prompt: prompt.text.clone(),
                completion: completion.text.clone(),
            },
        ));
        self.slots[id.0][id.1].0 = Some(completion);
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
        let (ids, requests): (Vec<_>, Vec<_>) = self.unsent.drain(..).unzip();
        let rewards = self.rewards.clone();
        self.judging
            .spawn(async move { (ids, rewards.judge(requests).await) });
    }

    fn add_verdicts(
        &mut self,
        joined: Result<Answer, tokio::task::JoinError>,
    ) -> Result<(), RolloutError> {
        let (ids, verdicts) = match joined.map_err(tokio::task::JoinError::try_into_panic) {
            Ok(answer) => answer,
            Err(Ok(panic)) => std::panic::resume_unwind(panic),
            // Tasks are cancelled only when the runtime ends.
            Err(Err(_)) => return Err(RolloutError::Stopped),
        };
        for (id, judged) in ids.into_iter().zip(verdicts?) {
            self.progress.judged += 1;
            match judged.reward {
                Some(reward) => self.progress.reward += reward,
                None => self.progress.masked += 1,
            }
            self.slots[id.0][id.1].1 = Some(judged);
        }
        Ok(())
    }

    fn finish(self) -> Result<Vec<SampledGroup>, RolloutError> {
        let RolloutProgress {
            sampled, wanted, ..
        } = self.progress;
        let sample = |slot: Slot| -> Result<Sample, RolloutError> {
            let incomplete = RolloutError::Incomplete { sampled, wanted };
            let (completion, judged) = slot.0.zip(slot.1).ok_or(incomplete)?;
            Ok(Sample {
                tokens: completion.tokens,
                logp: completion.logp,
                text: completion.text,
                reference: Vec::new(),
                padding: None,
                finish: completion.finish,
                judged,
            })
        };
        let group = |(request, slots): (&RolloutRequest, Vec<Slot>)| {
            let samples: Result<_, RolloutError> = slots.into_iter().map(sample).collect();
            Ok(SampledGroup {
                prompt: request.prompt.clone(),
                samples: samples?,
            })
        };
        self.requests.iter().zip(self.slots).map(group).collect()
    }
}
