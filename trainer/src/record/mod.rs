//! The lines of a run folder's files. Those of `metrics.jsonl` hold no times, so that two runs of one seed have equal files.

mod alarms;
mod repeats;

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use datasets::passk::{Counts, Estimate};
use engine::Finish;
use serde::{Deserialize, Serialize};
use verifier_api::Verdict;

use crate::algo::Metrics;
use crate::rollout::SampledGroup;

pub use alarms::{Alarm, AlarmRecord, AlarmState};
pub use repeats::Repeats;

/// A line of `metrics.jsonl`: one optimiser update.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepRecord {
    /// Updates done, this one included.
    pub step: usize,
    /// Inference phase, from 0.
    pub phase: usize,
    /// Number of this update in its phase, from 0: the staleness of its samples, in updates.
    pub update: usize,
    /// Updates of this phase; only the last phase may have fewer than H.
    pub phase_updates: usize,
    /// Epoch of the mini-batch's last prompt, from 0.
    pub epoch: usize,
    /// Prompts of the mini-batch; only the last one may have fewer.
    pub prompts: usize,
    /// Groups by their verdicts.
    #[serde(flatten)]
    pub groups: GroupCounts,
    /// Groups that were drawn besides in this phase and given up, since they were all right or all wrong, or had no verdict; with the phase's first update.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub dropped: usize,
    /// Mean reward of all completions that were drawn in this phase, those of groups that were given up included, which `reward` and `pass_at` leave out; with the phase's
    /// first update, with dynamic sampling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drawn_reward: Option<f64>,
    /// Rewards, loss, staleness, effective sample size.
    #[serde(flatten)]
    pub algo: Metrics,
    /// The mean of each term of the rewards, where they are more than the verifier's.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub terms: BTreeMap<String, f64>,
    /// Pass@k of the training samples, for k = 1, 2, 4, … up to G.
    pub pass_at: BTreeMap<usize, f64>,
    /// Global gradient norm before clipping.
    pub grad_norm: f64,
    /// Mean entropy of the next token, in nats, over the tokens of judged completions.
    pub entropy: f64,
    /// Mean number of tokens of a completion, the end token included.
    pub length_mean: f64,
    /// The longest completion.
    pub length_max: usize,
    /// Share of completions that ended by their length.
    pub truncated: f64,
    /// Completions that say the same.
    #[serde(flatten)]
    pub repeats: Repeats,
    /// Learning rate of this update.
    pub lr: f64,
}

/// The groups of a mini-batch with at least one verdict, by what the verifier says of their completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct GroupCounts {
    /// All right.
    #[serde(rename = "groups_right")]
    pub right: usize,
    /// All wrong.
    #[serde(rename = "groups_wrong")]
    pub wrong: usize,
    /// Some right and some wrong: those that a group baseline learns from.
    #[serde(rename = "groups_mixed")]
    pub mixed: usize,
}

impl GroupCounts {
    /// Those of a mini-batch.
    #[must_use]
    pub fn of(groups: &[SampledGroup]) -> Self {
        let mut all = Self::default();
        for group in groups {
            let counts = group.counts();
            match counts.correct {
                _ if counts.judged == 0 => {}
                0 => all.wrong += 1,
                right if right == counts.judged => all.right += 1,
                _ => all.mixed += 1,
            }
        }
        all
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde asks for a reference"
)]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// A line of `timings.jsonl`: seconds of one update. Those of inference and judging stand with the first update of a phase.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct StepTimings {
    /// As in [`StepRecord::step`].
    pub step: usize,
    /// Until the phase's last completion was drawn.
    pub inference: f64,
    /// From then until its last verdict.
    pub verify: f64,
    /// Tokens drawn in the phase.
    pub sampled_tokens: usize,
    /// Forward passes.
    pub forward: f64,
    /// Backward passes, recomputation included.
    pub backward: f64,
    /// Clipping and AdamW.
    pub optimiser: f64,
    /// Tokens of the update's completions and prompts, each prompt once.
    pub trained_tokens: usize,
    /// From the run's start or last resumption to the end of this update.
    pub elapsed: f64,
    /// When it ended, in seconds since 1970; 0 in the files of versions that did not note it.
    #[serde(default)]
    pub ended_at: f64,
}

/// A line of `eval.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EvalRecord {
    /// Updates done before it.
    pub step: usize,
    /// Completions a task.
    pub samples: usize,
    /// Pass@k with its interval, by k.
    pub pass_at: BTreeMap<usize, Estimate>,
    /// By task id: judged and correct.
    pub tasks: BTreeMap<String, Counts>,
    /// Samples without a verdict.
    pub masked: usize,
    /// Mean number of tokens of a completion.
    pub length_mean: f64,
    /// Share of completions that ended by their length.
    pub truncated: f64,
}

impl EvalRecord {
    /// Pass@1, by which checkpoints are ranked.
    #[must_use]
    pub fn pass_at_1(&self) -> Option<f64> {
        self.pass_at.get(&1).map(|estimate| estimate.mean)
    }
}

/// The step and Pass@1 of the evaluation with the highest Pass@1 after at least one update, the earliest among equals.
#[must_use]
pub fn best(evals: &[EvalRecord]) -> Option<(usize, f64)> {
    evals
        .iter()
        .filter(|record| record.step > 0)
        .filter_map(|record| Some((record.step, record.pass_at_1()?)))
        .reduce(|best, next| if next.1 > best.1 { next } else { best })
}

/// A line of `extended.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExtensionRecord {
    /// Updates of the newest checkpoint when the run was made longer.
    pub step: usize,
    /// Updates in all, before.
    pub updates_before: usize,
    /// Updates in all, from then on.
    pub updates: usize,
    /// Updates of the checkpoint that it went on from: fewer than `step` where a phase that the old end cut short is made again.
    pub from: usize,
    /// Whether the rest of such a phase is drawn by the weights after `from` updates instead, since no checkpoint from before it is kept.
    pub redrawn: bool,
    /// Whether the run goes on as one that had this length from the start; not where it did not when it was made longer before.
    pub equal: bool,
    /// Learning rate of the update `step`, as it was made; absent before the first update.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lr_before: Option<f64>,
    /// Learning rate of the update that it goes on with.
    pub lr: f64,
    /// When, in seconds since 1970.
    pub at: f64,
    /// The version of `rapid` that did it.
    pub version: String,
}

/// A line of `samples/phase-N.jsonl` and `samples/eval-N.jsonl`: a completion for a person to read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SampleRecord {
    /// The task's id.
    pub task: String,
    /// Number of the completion in its group.
    pub sample: usize,
    /// What the model was given.
    pub prompt: String,
    /// What it answered.
    pub completion: String,
    /// 1, 0, or null where masked.
    pub reward: Option<f64>,
    /// The verdict.
    pub verdict: Verdict,
    /// What the verifier says about it.
    pub detail: serde_json::Value,
    /// Tokens, the end token included.
    pub tokens: usize,
    /// Sum of the tokens' log-probabilities when drawn.
    pub logp: f64,
    /// Why it ended.
    pub finish: Finish,
}

impl SampleRecord {
    /// The lines of a group.
    pub fn of_group(group: &SampledGroup) -> impl Iterator<Item = Self> + '_ {
        group
            .samples
            .iter()
            .enumerate()
            .map(|(number, sample)| Self {
                task: group.prompt.task.id.clone(),
                sample: number,
                prompt: group.prompt.text.to_string(),
                completion: sample.text.clone(),
                reward: sample.judged.reward,
                verdict: sample.judged.verdict,
                detail: sample.judged.detail.clone(),
                tokens: sample.tokens.len(),
                logp: sample.logp.iter().map(|logp| f64::from(*logp)).sum(),
                finish: sample.finish,
            })
    }
}

/// The time of a record, in seconds since 1970.
#[must_use]
pub fn timestamp() -> f64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0.0, |since| since.as_secs_f64())
}
