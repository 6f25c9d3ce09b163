//! Evaluation: samples of held-out tasks, their verdicts, and what they say about the model.
//!
//! A second reading accepts a right answer in whatever form it comes, not only in `\boxed{}`, so that a rise can be told apart from a model
//! that merely learnt the form. The verdict comes from the verifier there too: see [`any_form`].

mod any_form;
mod partial;
mod verdicts;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use datasets::TaskSpec;
use datasets::passk::{self, Counts, Estimate};
use engine::Finish;
use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::data::Prompt;
use crate::policy::Policy;
use crate::record::SampleRecord;
use crate::reward::{JudgeRequest, RewardClient};
use crate::rollout::{
    self, PartialRollout, Rollout, RolloutError, RolloutProgress, RolloutRequest, SamplingParams,
};
use crate::seed;
use crate::stop::Stop;

pub use partial::{Origin, PartialEvaluation, PartialEvaluationError};
pub use verdicts::Verdicts;

/// What is drawn, and what is made of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Completions a task.
    pub samples: usize,
    /// The k of each Pass@k.
    pub k: Vec<usize>,
    /// Decides every sample, with the task's id and the sample's number: two models evaluated under one seed draw from the same stream.
    pub seed: u64,
    /// How completions are drawn.
    pub drawing: SamplingParams,
    /// Judge mathematical answers in any form too.
    pub any_form: bool,
}

impl Settings {
    /// As a recipe's `[eval]` says, and in any form too; `stop_strings` are the template's.
    pub fn of(config: &Config, stop_strings: &[String]) -> Self {
        let eval = &config.eval;
        Self {
            samples: eval.samples,
            k: eval.k.clone(),
            seed: eval.seed,
            drawing: SamplingParams {
                sampling: engine::Sampling {
                    temperature: eval.temperature as f32,
                    top_k: eval.top_k,
                    top_p: eval.top_p as f32,
                    min_p: eval.min_p as f32,
                },
                max_tokens: eval.max_tokens.unwrap_or(config.sampling.max_tokens),
                stop_strings: stop_strings.to_vec(),
            },
            any_form: true,
        }
    }
}

/// One sample and its verdict, as it is written to a samples file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// What was asked, answered and decided.
    #[serde(flatten)]
    pub sample: SampleRecord,
    /// The reward where any form of the answer counts; absent where that was not asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub any_form: Option<f64>,
}

/// All samples of an evaluation.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    /// In the order of the tasks, then of the samples.
    pub records: Vec<Record>,
    /// Until the last completion was drawn.
    pub inference: Duration,
    /// What judging cost beyond that.
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
    /// Pass@k, in the order asked for; where no task has k samples, it is left out.
    pub pass: Vec<PassAt>,
    /// Pass@k where any form of the answer counts.
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
    /// k.
    pub k: usize,
    /// The figure.
    #[serde(flatten)]
    pub estimate: Estimate,
}

/// Which reading of the verdicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// The verifier's, of the completion as it stands.
    Strict,
    /// Any form of the answer.
    AnyForm,
}

/// Draws `settings.samples` completions of each prompt but those that are kept, and has them judged.
///
/// # Errors
/// [`RolloutError`]; samples that stay without a verdict are masked and no error.
pub async fn evaluate(
    policy: &Arc<dyn Policy>,
    rewards: &RewardClient,
    prompts: &[Arc<Prompt>],
    settings: &Settings,
    kept: &mut PartialRollout,
    stop: &Stop,
    watch: &mut (dyn FnMut(&RolloutProgress) + Send),
) -> Result<Evaluation, RolloutError> {
    let queries: Vec<RolloutRequest> = prompts
        .iter()
        .map(|prompt| RolloutRequest {
            prompt: prompt.clone(),
            seeds: (0..settings.samples)
                .map(|sample| seed::of_sample(settings.seed, 0, &prompt.task.id, sample))
                .collect(),
        })
        .collect();
    let rollout = rollout::collect(
        policy,
        rewards,
        &queries,
        &settings.drawing,
        kept,
        stop,
        watch,
    )
    .await?;
    let mut evaluation = Evaluation::of(&rollout);
    if settings.any_form {
        tokio::select! {
            () = stop.wait() => return Err(RolloutError::Stopped),
            judged = evaluation.judge_any_form(rewards, prompts) => judged?,
        }
    }
    Ok(evaluation)
}

impl Evaluation {
    fn of(rollout: &Rollout) -> Self {
        let samples = rollout.groups.iter().flat_map(SampleRecord::of_group);
        let records = samples
            .map(|sample| Record {
                sample,
                any_form: None,
            })
            .collect();
        Self {
            records,
            inference: rollout.inference,
            verify: rollout.verify,
        }
    }

    /// Asks the verifier about the bare answer of each mathematical completion that it did not accept as it stands.
    async fn judge_any_form(
        &mut self,
        rewards: &RewardClient,
        prompts: &[Arc<Prompt>],
    ) -> Result<(), RolloutError> {
        let by_id: HashMap<&str, &Arc<Prompt>> = prompts
            .iter()
            .filter(|prompt| matches!(prompt.task.spec, TaskSpec::Math(_)))
            .map(|prompt| (prompt.task.id.as_str(), prompt))
            .collect();
        let mut places = Vec::new();
        let mut asks = Vec::new();
        for (place, record) in self.records.iter_mut().enumerate() {
            let Some(prompt) = by_id.get(record.sample.task.as_str()) else {
                continue;
            };
            record.any_form = record.sample.reward;
            if record.sample.reward == Some(0.0)
                && let Some(answer) = any_form::answer(&record.sample.completion)
            {
                places.push(place);
                asks.push(JudgeRequest {
                    task: prompt.task.clone(),
                    prompt: prompt.text.clone(),
                    completion: format!("\\boxed{{{answer}}}"),
                });
            }
        }
        for (place, judged) in places.into_iter().zip(rewards.judge(asks).await?) {
            self.records[place].any_form = judged.reward;
        }
        Ok(())
    }

    /// The figures for each k.
    pub fn summary(&self, k: &[usize]) -> Summary {
        summary(&self.records, k)
    }
}

/// Counts of each task, in the order in which the tasks first appear.
pub fn counts(records: &[Record], reading: Reading) -> Vec<(String, Counts)> {
    let mut order: Vec<(String, Counts)> = Vec::new();
    let mut places = HashMap::new();
    for record in records {
        let place = *places
            .entry(record.sample.task.as_str())
            .or_insert_with(|| {
                order.push((record.sample.task.clone(), Counts::default()));
                order.len() - 1
            });
        let reward = match reading {
            Reading::Strict => record.sample.reward,
            Reading::AnyForm => record.any_form,
        };
        if let Some(reward) = reward {
            order[place].1.judged += 1;
            order[place].1.correct += usize::from(reward >= 1.0);
        }
    }
    order
}

/// The figures of records, for each k that some task has samples for.
pub fn summary(records: &[Record], k: &[usize]) -> Summary {
    let pass = |reading| -> Vec<PassAt> {
        let counts: Vec<Counts> = counts(records, reading)
            .into_iter()
            .map(|(_, counts)| counts)
            .collect();
        k.iter()
            .filter_map(|&k| passk::pass_at(&counts, k).map(|estimate| PassAt { k, estimate }))
            .collect()
    };
    let share = |part: usize| part as f64 / records.len().max(1) as f64;
    let masked = records
        .iter()
        .filter(|record| record.sample.reward.is_none())
        .count();
    Summary {
        tasks: counts(records, Reading::Strict).len(),
        samples: records.len() - masked,
        masked,
        pass: pass(Reading::Strict),
        any_form: pass(Reading::AnyForm),
        mean_tokens: share(records.iter().map(|record| record.sample.tokens).sum()),
        truncated: share(
            records
                .iter()
                .filter(|record| record.sample.finish == Finish::Length)
                .count(),
        ),
    }
}

/// Pass@k after − before over the tasks that both have, with its paired interval.
pub fn gain(before: &[Record], after: &[Record], k: usize, reading: Reading) -> Option<Estimate> {
    let after: HashMap<String, Counts> = counts(after, reading).into_iter().collect();
    let pairs: Vec<(Counts, Counts)> = counts(before, reading)
        .into_iter()
        .filter_map(|(task, before)| Some((before, *after.get(&task)?)))
        .collect();
    passk::paired_difference(&pairs, k)
}

#[cfg(test)]
mod tests;
