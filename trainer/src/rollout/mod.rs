//! An inference phase: the policy samples completions, and each is judged as it finishes, while others are still being sampled.
//!
//! Training and evaluation both sample through [`collect()`].

mod collect;
mod mini_batch;
mod partial;
mod sum_padding;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use datasets::passk::Counts;
use engine::{Completion, EngineError, Finish, Group, Sampling};
use serde::{Deserialize, Serialize, Serializer};

use crate::data::Prompt;
use crate::policy::Policy;
use crate::reward::{Judged, RewardError};
use crate::seed;

pub use collect::collect;
pub use mini_batch::MiniBatch;
pub use partial::PartialRollout;
pub use sum_padding::{Padding, end_token, pad};

/// How completions are sampled.
#[derive(Debug, Clone, PartialEq)]
pub struct SamplingParams {
    /// Completions of each prompt.
    pub samples: usize,
    /// Determines the seed of each, together with the epoch, the task's id and the number of the sample.
    pub seed: u64,
    /// Temperature and cut-offs.
    pub sampling: Sampling,
    /// Number of first tokens at which the model's end-of-text tokens cannot be sampled; 0 in training.
    pub min_tokens: usize,
    /// Maximum number of tokens, the end token included.
    pub max_tokens: usize,
}

impl SamplingParams {
    /// The seeds of a prompt's completions in an epoch.
    pub fn seeds(&self, prompt: &Prompt, epoch: usize) -> impl Iterator<Item = u64> {
        (0..self.samples)
            .map(move |sample| seed::of_sample(self.seed, epoch, &prompt.task.id, sample))
    }
}

/// A completion, and its verdict once it is judged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Token ids, the end token included.
    pub tokens: Vec<u32>,
    /// Log-probability of each token under the behaviour policy, at the sampling temperature.
    pub logp: Vec<f32>,
    /// The text that was judged: decoded, and cut before a stop string.
    pub text: String,
    /// log π_ref of each token under the frozen reference policy; empty if the loss has no KL term.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reference: Vec<f32>,
    /// Padding that the weights of the value term include, with `algorithm.sum_padding`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub padding: Option<Padding>,
    /// Why it ended.
    pub finish: Finish,
    /// The verdict. Files leave it out for a completion that is not judged yet, in a phase that is still being sampled.
    #[serde(default, skip_serializing_if = "Judged::is_pending")]
    pub judged: Judged,
}

impl Sample {
    /// A completion that is not judged yet.
    pub fn unjudged(completion: Completion) -> Self {
        Self {
            tokens: completion.tokens,
            logp: completion.logp,
            text: completion.text,
            reference: Vec::new(),
            padding: None,
            finish: completion.finish,
            judged: Judged::default(),
        }
    }

    /// Numbers of judged and of correct samples.
    pub fn counts<'a>(samples: impl Iterator<Item = &'a Sample>) -> Counts {
        let mut counts = Counts::default();
        for reward in samples.filter_map(|sample| sample.judged.reward) {
            counts.judged += 1;
            counts.correct += usize::from(reward >= 1.0);
        }
        counts
    }

    /// The tokens that an update computes log-probabilities of: the completion's, and its padding if it has any.
    pub fn trained_tokens(&self) -> Vec<u32> {
        let mut tokens = self.tokens.clone();
        if let Some(padding) = &self.padding {
            tokens.resize(tokens.len() + padding.logp.len(), padding.token);
        }
        tokens
    }
}

/// The completions of one prompt, in the order of their seeds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SampledGroup {
    /// The prompt; in files, its task's id.
    #[serde(rename = "task", serialize_with = "task_id")]
    pub prompt: Arc<Prompt>,
    /// One per seed.
    pub samples: Vec<Sample>,
}

fn task_id<S: Serializer>(prompt: &Prompt, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&prompt.task.id)
}

impl SampledGroup {
    /// The group's tokens, as the engine takes them to score or to train on.
    pub fn trained_group(&self) -> Group {
        Group {
            prompt: self.prompt.tokens.clone(),
            completions: self.samples.iter().map(Sample::trained_tokens).collect(),
        }
    }

    /// Numbers of judged and of correct samples.
    pub fn counts(&self) -> Counts {
        Sample::counts(self.samples.iter())
    }

    /// Whether all samples are correct, all are wrong, or none has a verdict: a group baseline learns nothing from it.
    pub fn has_no_signal(&self) -> bool {
        let counts = self.counts();
        counts.correct == 0 || counts.correct == counts.judged
    }
}

/// The samples of a phase or of an evaluation.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rollout {
    /// One per prompt; of a phase, in the order of its updates.
    pub groups: Vec<SampledGroup>,
    /// Groups that were sampled and discarded by dynamic sampling, since they had no signal.
    pub discarded: usize,
    /// As in [`StepRecord::sampled_reward`](crate::record::StepRecord::sampled_reward).
    pub sampled_reward: Option<f64>,
    /// Time until the last completion was sampled, including the time that resumed ones took.
    pub inference: Duration,
    /// Time from then until the last verdict: the cost of judging beyond sampling.
    pub verify: Duration,
}

/// Computes log-probabilities of the groups' trained tokens under `policy`, and passes those of each sample to `set`. Blocks.
pub fn score(
    policy: &dyn Policy,
    groups: &mut [SampledGroup],
    temperature: f32,
    set: impl Fn(&mut Sample, Vec<f32>),
) -> Result<(), EngineError> {
    let tokens = groups.iter().map(SampledGroup::trained_group).collect();
    let scores = tokio::task::block_in_place(|| policy.score(tokens, temperature))?;
    let samples = groups.iter_mut().flat_map(|group| &mut group.samples);
    for (sample, score) in samples.zip(scores) {
        set(sample, score.logp);
    }
    Ok(())
}

/// How far a phase has come.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct RolloutProgress {
    /// Completions requested.
    pub wanted: usize,
    /// Completions sampled.
    pub sampled: usize,
    /// Tokens sampled.
    pub tokens: usize,
    /// Completions with a verdict, masked ones included.
    pub judged: usize,
    /// Sum of the rewards so far.
    pub reward: f64,
    /// Completions masked so far.
    pub masked: usize,
    /// Time since the phase began, including the time that resumed completions took.
    pub elapsed: Duration,
}

impl RolloutProgress {
    /// Whether completions are still to be sampled.
    pub fn is_sampling(&self) -> bool {
        self.sampled < self.wanted
    }

    fn add_sampled(&mut self, sample: &Sample) {
        self.sampled += 1;
        self.tokens += sample.tokens.len();
    }
}

/// Why a phase has no samples.
#[derive(Debug, thiserror::Error)]
pub enum RolloutError {
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// There can be no rewards.
    #[error(transparent)]
    Reward(#[from] RewardError),
    /// A completion could not be saved.
    #[error("{path}: {source}", path = .path.display())]
    Save {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A stop was requested.
    #[error("stopped before the phase was complete")]
    Stopped,
    /// The engine ended early without an error.
    #[error(
        "the engine ended after {sampled} of {wanted} completions without an error; this is a fault of the program"
    )]
    Incomplete {
        /// Completions sampled.
        sampled: usize,
        /// Completions requested.
        wanted: usize,
    },
}

#[cfg(test)]
mod tests;
