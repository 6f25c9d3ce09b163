//! Evaluation: samples of held-out tasks, their verdicts, and the figures that follow from them.
//!
//! A second reading accepts a correct answer in any form, not only in `\boxed{}`, to distinguish a better model from one that merely learnt the form. Its verdicts come
//! from the verifier too: see [`last_number`].

mod last_number;
mod partial;
mod verdicts;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use datasets::TaskSpec;
use datasets::passk::{self, Counts, Estimate};
use engine::Finish;
use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::data::Prompt;
use crate::interrupt::StopSignal;
use crate::policy::Policy;
use crate::record::{EvalRecord, EvalSetRecord, SampleRecord};
use crate::reward::RewardClient;
use crate::rollout::{self, PartialRollout, RolloutError, RolloutProgress, SamplingParams};

pub use partial::{Origin, PartialEvaluation, PartialEvaluationError};
pub use verdicts::Verdicts;

/// How the recipe's `[eval]` samples completions. Two models that are evaluated with one seed use the same random numbers. If it equals `run.seed`, a task in both
/// splits is sampled with training's random numbers of the first epoch.
pub fn sampling(config: &Config) -> SamplingParams {
    let eval = &config.eval;
    SamplingParams {
        samples: eval.samples,
        seed: eval.seed,
        sampling: engine::Sampling {
            temperature: eval.temperature as f32,
            top_k: eval.top_k,
            top_p: eval.top_p as f32,
            min_p: eval.min_p as f32,
        },
        min_tokens: eval.min_tokens,
        max_tokens: eval.max_tokens.unwrap_or(config.sampling.max_tokens),
    }
}

/// All samples of an evaluation.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    /// In the order of the tasks, then of the samples.
    pub records: Vec<SampleRecord>,
    /// Time until the last completion was sampled.
    pub inference: Duration,
    /// Time from then until the last verdict.
    pub verify: Duration,
}

/// The figures of an evaluation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Tasks evaluated.
    pub tasks: usize,
    /// Samples with a verdict.
    pub samples: usize,
    /// Samples without one.
    pub masked: usize,
    /// Pass@k, in the order of the requested k; left out if no task has k samples.
    pub pass: Vec<PassAt>,
    /// Pass@k if any form of the answer counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub any_form: Vec<PassAt>,
    /// Mean length of a completion, in tokens.
    pub mean_tokens: f64,
    /// Share of completions cut off at the limit.
    pub truncated: f64,
}

/// One Pass@k with its 95% interval over tasks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PassAt {
    /// Samples per task that the metric looks at: one correct among them is enough.
    pub k: usize,
    /// The mean over the tasks.
    #[serde(flatten)]
    pub estimate: Estimate,
}

/// Samples completions of each prompt, except those that `partial` already has, and has all judged. Samples that get no verdict are masked, which is not an error.
pub async fn evaluate(
    policy: &dyn Policy,
    rewards: &RewardClient,
    prompts: &[Arc<Prompt>],
    params: &SamplingParams,
    partial: &mut PartialRollout,
    stop: &StopSignal,
    watch: &mut (dyn FnMut(&RolloutProgress) + Send),
) -> Result<Evaluation, RolloutError> {
    let first_epoch: Vec<_> = prompts.iter().map(|it| (Arc::clone(it), 0)).collect();
    let rollout =
        rollout::collect(policy, rewards, &first_epoch, params, partial, stop, watch).await?;
    let samples = rollout.groups.iter().flat_map(SampleRecord::of_group);
    let mut evaluation = Evaluation {
        records: samples.collect(),
        inference: rollout.inference,
        verify: rollout.verify,
    };
    tokio::select! {
        () = stop.wait() => return Err(RolloutError::Stopped),
        judged = evaluation.judge_any_form(rewards, prompts) => judged?,
    }
    Ok(evaluation)
}

impl Evaluation {
    /// Has the verifier judge the bare answer of each mathematical completion that it did not accept.
    async fn judge_any_form(
        &mut self,
        rewards: &RewardClient,
        prompts: &[Arc<Prompt>],
    ) -> Result<(), RolloutError> {
        let by_id: HashMap<&str, &Prompt> = prompts
            .iter()
            .filter(|prompt| matches!(prompt.task.spec, TaskSpec::Math(_)))
            .map(|prompt| (prompt.task.id.as_str(), &**prompt))
            .collect();
        let mut rejected = Vec::new();
        for record in &mut self.records {
            let Some(prompt) = by_id.get(record.task.as_str()) else {
                continue;
            };
            record.any_form = record.reward;
            if record.reward == Some(0.0)
                && let Some(answer) = last_number::last_number(&record.completion)
            {
                rejected.push((record, prompt, format!("\\boxed{{{answer}}}")));
            }
        }
        let answers = rejected.iter().map(|(_, prompt, text)| (**prompt, &**text));
        let judged = rewards.judge(&answers.collect::<Vec<_>>()).await?;
        for ((record, ..), judged) in rejected.into_iter().zip(judged) {
            record.any_form = judged.reward;
        }
        Ok(())
    }
}

/// A reading of the completions: the reward of each, `None` if it has none. `|record| record.reward` is the verifier's reading of the unchanged completion.
pub type Reading = fn(&SampleRecord) -> Option<f64>;

/// The counts of each task, in the order in which the tasks first appear.
pub fn counts(records: &[SampleRecord], reading: Reading) -> Vec<(String, Counts)> {
    let mut order: Vec<(String, Counts)> = Vec::new();
    let mut places = HashMap::new();
    for record in records {
        let place = *places.entry(record.task.as_str()).or_insert_with(|| {
            order.push((record.task.clone(), Counts::default()));
            order.len() - 1
        });
        if let Some(reward) = reading(record) {
            order[place].1.judged += 1;
            order[place].1.correct += usize::from(reward >= 1.0);
        }
    }
    order
}

/// The figures of records, for each k that some task has samples for.
pub fn summary(records: &[SampleRecord], k: &[usize]) -> Summary {
    let pass = |reading: Reading| -> Vec<PassAt> {
        let counts = counts(records, reading).into_iter();
        let counts: Vec<Counts> = counts.map(|(_, counts)| counts).collect();
        let pass_at = |k: &usize| {
            let estimate = passk::pass_at(&counts, *k)?;
            Some(PassAt { k: *k, estimate })
        };
        k.iter().filter_map(pass_at).collect()
    };
    let share = |part: usize| part as f64 / records.len().max(1) as f64;
    let masked = records.iter().filter(|it| it.reward.is_none()).count();
    let cut_off = records.iter().filter(|it| it.finish == Finish::Length);
    Summary {
        tasks: counts(records, |record| record.reward).len(),
        samples: records.len() - masked,
        masked,
        pass: pass(|record| record.reward),
        any_form: pass(|record| record.any_form),
        mean_tokens: share(records.iter().map(|it| it.tokens).sum()),
        truncated: share(cut_off.count()),
    }
}

/// The figures of an evaluation after `step` updates with `samples` completions of each task, for 1 and the other k: checkpoints are ranked and alarms are raised by Pass@1.
/// `sets` has the name of each of several data sets, and the places of its tasks.
pub fn record(
    step: usize,
    samples: usize,
    records: &[SampleRecord],
    k: &[usize],
    sets: &[(String, Range<usize>)],
) -> EvalRecord {
    let others = k.iter().copied().filter(|k| *k != 1);
    let k: Vec<usize> = std::iter::once(1).chain(others).collect();
    let summary = summary(records, &k);
    let pass_at = summary.pass.iter();
    let tasks = counts(records, |record| record.reward).into_iter();
    let of_set = |(name, places): &(String, Range<usize>)| {
        let own = records.get(places.start * samples..places.end * samples);
        let own = record(step, samples, own.unwrap_or_default(), &k, &[]);
        let tasks = own.tasks.into_keys().collect();
        let pass_at = own.pass_at;
        (name.clone(), EvalSetRecord { tasks, pass_at })
    };
    EvalRecord {
        sets: sets.iter().map(of_set).collect(),
        step,
        samples,
        pass_at: pass_at.map(|pass| (pass.k, pass.estimate)).collect(),
        tasks: tasks.collect(),
        masked: summary.masked,
        length_mean: summary.mean_tokens,
        truncated: summary.truncated,
    }
}

#[cfg(test)]
mod tests;
