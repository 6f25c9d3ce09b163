//! The lines of a run folder's files. `metrics.jsonl` holds no times, so that two runs of one seed have equal files.

mod alarms;
mod clock;
mod repeats;
mod run_times;
mod token_weights;

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use datasets::passk::{Counts, Estimate};
use engine::Finish;
use serde::{Deserialize, Serialize};
use verifier_api::Verdict;

use crate::algo::Metrics;
use crate::data::PhaseSize;
use crate::rollout::SampledGroup;

pub use alarms::{Alarm, AlarmRecord, AlarmState};
pub use clock::{Activity, ClockRecord};
pub use repeats::Repeats;
pub use run_times::{ByActivity, Peak, RunTimes, training_until};
pub use token_weights::TokenWeights;

/// A line of `metrics.jsonl`: one optimiser update.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepRecord {
    /// Updates done, this one included.
    pub step: usize,
    /// Inference phase, counted from 0.
    pub phase: usize,
    /// Number of this update in its phase, counted from 0: the staleness of its samples in updates.
    pub update: usize,
    /// Updates of this phase. Fewer than H only at an end of the run, the present one or one before an extension.
    pub phase_updates: usize,
    /// With `algorithm.auto_h`: the choice of H; logged with the first update of a phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_h: Option<PhaseSize>,
    /// Epoch of the mini-batch's last prompt, counted from 0.
    pub epoch: usize,
    /// Prompts of the mini-batch; only the run's last mini-batch may have fewer.
    pub prompts: usize,
    /// Groups by their verdicts.
    #[serde(flatten)]
    pub groups: GroupCounts,
    /// Groups that dynamic sampling discarded when the update's samples were sampled, since they were all correct, all wrong, or had no verdict; logged with the first
    /// update on new samples.
    #[serde(default, rename = "dropped", skip_serializing_if = "is_default")]
    pub discarded: usize,
    /// With dynamic sampling: mean reward of all sampled completions. It includes those of discarded groups, which `reward` and `pass_at` leave out. Logged with the
    /// first update on new samples.
    #[serde(
        default,
        rename = "drawn_reward",
        skip_serializing_if = "Option::is_none"
    )]
    pub sampled_reward: Option<f64>,
    /// Rewards, loss, staleness, effective sample size.
    #[serde(flatten)]
    pub algo: Metrics,
    /// The mean of each term of the reward, if it has others than the verifier's.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub terms: BTreeMap<String, f64>,
    /// Pass@k of the training samples, for k = 1, 2, 4, … up to G.
    pub pass_at: BTreeMap<usize, f64>,
    /// Global gradient norm before clipping.
    pub grad_norm: f64,
    /// What clipping (`optimiser.clip_norm`) multiplied the gradient by: the share of its norm that was kept, 1 if it was not clipped. Absent in the files of versions that
    /// did not record it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grad_scale: Option<f64>,
    /// Mean entropy of the next token, in nats, over the tokens of judged completions. Where log-probabilities under π were not computed, −log μ of the tokens estimates it.
    pub entropy: f64,
    /// Mean number of tokens of a completion, the end token included.
    pub length_mean: f64,
    /// The longest completion.
    pub length_max: usize,
    /// Share of truncated completions.
    pub truncated: f64,
    /// Completions with the same text.
    #[serde(flatten)]
    pub repeats: Repeats,
    /// Learning rate of this update.
    pub lr: f64,
}

/// The groups of a mini-batch with at least one verdict, by the verdicts on their completions. A group is what a baseline compares: the completions of a prompt, or, with
/// `algorithm.mix_groups`, of several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct GroupCounts {
    /// All correct.
    #[serde(rename = "groups_right")]
    pub right: usize,
    /// All wrong.
    #[serde(rename = "groups_wrong")]
    pub wrong: usize,
    /// Some correct and some wrong: only from these does a group baseline learn.
    #[serde(rename = "groups_mixed")]
    pub mixed: usize,
}

impl GroupCounts {
    /// The counts of a mini-batch, from the counts of each group.
    pub fn of(groups: impl Iterator<Item = Counts>) -> Self {
        let mut all = Self::default();
        for counts in groups {
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

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A line of `timings.jsonl`: the seconds of one update. The first update on new samples has those of inference and judging; the others have 0.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct StepTimings {
    /// As in [`StepRecord::step`].
    pub step: usize,
    /// Until the phase's last completion was sampled.
    pub inference: f64,
    /// From then until its last verdict.
    pub verify: f64,
    /// Tokens of the sampled completions.
    pub sampled_tokens: usize,
    /// Forward passes.
    pub forward: f64,
    /// Backward passes, recomputation included.
    pub backward: f64,
    /// Clipping and AdamW.
    pub optimiser: f64,
    /// With several ranks: exchanging gradients and weights, and waiting for slower ranks before it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub exchange: f64,
    /// Tokens of the update's completions and prompts, each prompt once.
    pub trained_tokens: usize,
    /// From the run's start or last resumption to the end of this update.
    pub elapsed: f64,
    /// When the update ended, in seconds since 1970; 0 in the files of versions that did not record it.
    #[serde(default)]
    pub ended_at: f64,
    /// Seconds of the whole run until then, by activity, as [`RunTimes::seconds`]; absent in the files of versions without a clock.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub total: ByActivity<f64>,
    /// The highest resident memory until then in bytes, by activity, as [`RunTimes::memory`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub memory: ByActivity<u64>,
    /// The same of a GPU's memory, as [`RunTimes::device_memory`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub device_memory: ByActivity<u64>,
}

/// A line of `eval.jsonl`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct EvalRecord {
    /// Updates done before the evaluation.
    pub step: usize,
    /// Completions per task.
    pub samples: usize,
    /// Pass@k with its interval, by k.
    pub pass_at: BTreeMap<usize, Estimate>,
    /// By task id: judged and correct.
    pub tasks: BTreeMap<String, Counts>,
    /// Samples without a verdict.
    pub masked: usize,
    /// Mean number of tokens of a completion.
    pub length_mean: f64,
    /// Share of truncated completions.
    pub truncated: f64,
    /// If several data sets are evaluated on: each, by its name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sets: BTreeMap<String, EvalSetRecord>,
}

/// A data set in an evaluation on several.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EvalSetRecord {
    /// The ids of its tasks.
    pub tasks: Vec<String>,
    /// Pass@k with its interval, by k.
    pub pass_at: BTreeMap<usize, Estimate>,
}

impl EvalRecord {
    /// Pass@1, by which checkpoints are ranked.
    pub fn pass_at_1(&self) -> Option<f64> {
        self.pass_at.get(&1).map(|estimate| estimate.mean)
    }
}

/// The step and Pass@1 of the evaluation with the highest Pass@1 after at least one update, the earliest among equals.
pub fn best<'a>(evals: impl IntoIterator<Item = &'a EvalRecord>) -> Option<(usize, f64)> {
    evals
        .into_iter()
        .filter(|record| record.step > 0)
        .filter_map(|record| Some((record.step, record.pass_at_1()?)))
        .reduce(|best, next| if next.1 > best.1 { next } else { best })
}

/// A line of `extended.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExtensionRecord {
    /// Number of updates in the shorter run.
    pub updates_before: usize,
    /// Number of updates in the longer run.
    pub updates: usize,
    /// Whether the run equals one that had this length from the start. If an earlier extension was not equal, this one is not either.
    pub equal: bool,
}

/// A line of `samples/phase-N.jsonl` and `samples/eval-N.jsonl`: a completion for a person to read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SampleRecord {
    /// The task's id.
    pub task: String,
    /// Number of the completion in its group.
    pub sample: usize,
    /// The prompt.
    pub prompt: String,
    /// The completion.
    pub completion: String,
    /// 1, 0, or null if masked.
    pub reward: Option<f64>,
    /// The verdict.
    pub verdict: Verdict,
    /// The verifier's details of the verdict.
    pub detail: serde_json::Value,
    /// The terms that graders of the operator's own gave.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub terms: BTreeMap<String, f64>,
    /// Tokens, the end token included.
    pub tokens: usize,
    /// Sum of the tokens' log-probabilities under the behaviour policy.
    pub logp: f64,
    /// Why it ended.
    pub finish: Finish,
    /// In an evaluation of mathematics, the reward if any form of the answer counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub any_form: Option<f64>,
}

impl SampleRecord {
    /// The end of its prompt and the start of its completion, in one line with control characters escaped.
    pub fn example(&self) -> String {
        let mut ends = self.prompt.char_indices().rev();
        let end = &self.prompt[ends.nth(199).map_or(0, |(at, _)| at)..];
        let start: String = self.completion.chars().take(200).collect();
        format!("For example, a prompt ends {end:?} and its completion begins {start:?}")
    }

    /// The lines of a group.
    pub fn of_group(group: &SampledGroup) -> impl Iterator<Item = Self> + '_ {
        let samples = group.samples.iter().enumerate();
        samples.map(|(number, sample)| Self {
            task: group.prompt.task.id.clone(),
            sample: number,
            prompt: group.prompt.text.to_string(),
            completion: sample.text.clone(),
            reward: sample.judged.reward,
            verdict: sample.judged.verdict,
            detail: sample.judged.detail.clone(),
            terms: sample.judged.terms.clone(),
            tokens: sample.tokens.len(),
            logp: sample.logp.iter().map(|logp| f64::from(*logp)).sum(),
            finish: sample.finish,
            any_form: None,
        })
    }
}

/// The time of a record, in seconds since 1970.
pub fn timestamp() -> f64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0.0, |since| since.as_secs_f64())
}
