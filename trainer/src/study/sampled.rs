//! The study on a model: estimates from groups that frozen behaviour models sampled, compared with the frozen policy's own gradient.

use std::sync::{Arc, Mutex, PoisonError};

use engine::{CountSketch, EngineError, Group, Objectives, TokenStats};
use serde::Serialize;

use super::blocks::{Blocks, Reference};
use super::grid::{Setting, grid, plain};
use super::plan::StudyPlan;
use super::rows::{Level, Row};
use super::shared_directions::SharedDirections;
use super::{UPDATE_COMPLETIONS, mean_factor, sample};
use crate::algo::{self, AlgoError, Baseline, Factor, MAX_LOG_WEIGHT, gradient, log_weight};
use crate::interrupt::StopSignal;
use crate::policy::Policy;
use crate::rollout::{RolloutError, SampledGroup};

/// Groups in one backward pass for the reference.
const CHUNK: usize = 8;

/// Why the study has no result.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The algorithms refuse the numbers.
    #[error(transparent)]
    Algo(#[from] AlgoError),
    /// Completions could not be sampled or judged.
    #[error(transparent)]
    Rollout(#[from] RolloutError),
    /// A stop was requested.
    #[error("stopped before the study was complete")]
    Stopped,
    /// There is no gradient to compare with.
    #[error(
        "the model sampled {completions} completions, of which {judged} have a verdict, and no prompt has both correct and incorrect ones, so there is no gradient to compare with. \
         Give easier tasks, raise --reference for more completions per prompt, or study a model that has learnt some of the task"
    )]
    NoSignal {
        /// Completions sampled for the reference.
        completions: usize,
        /// Those with a verdict.
        judged: usize,
    },
}

/// A behaviour model's groups.
#[derive(Debug, Clone, PartialEq)]
pub struct Behaviour {
    /// Its name in tables.
    pub name: String,
    /// Number of updates behind; if that is unknown, its position in the list.
    pub staleness: usize,
    /// Its completions of [`StudyPlan::off_policy`]: all samples of each prompt as one group.
    pub groups: Vec<SampledGroup>,
}

/// The results on a model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sampled {
    /// π, by the name that the user gave.
    pub model: String,
    /// The data set of the tasks.
    pub dataset: String,
    /// The number of sampled completions, and how they were sampled.
    #[serde(flatten)]
    pub plan: StudyPlan,
    /// Number of prompts.
    pub prompts: usize,
    /// Number of groups of each behaviour model.
    pub groups: usize,
    /// Number of blocks between which products are computed.
    pub blocks: usize,
    /// The estimate of ∇J.
    pub reference: ReferenceGradient,
    /// For each behaviour model, the number of completions without a verdict, which are left out.
    pub masked: Vec<usize>,
    /// The distance of each behaviour model from the policy.
    pub levels: Vec<Level>,
    /// One row for each behaviour model and setting.
    pub rows: Vec<Row>,
}

/// The gradient that estimates are compared with. It is computed from each prompt's on-policy completions with the leave-one-out baseline, which is unbiased.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ReferenceGradient {
    /// Completions from which it is computed.
    pub completions: usize,
    /// Completions without a verdict, which are left out.
    pub masked: usize,
    /// Mean reward.
    pub reward: f64,
    /// |∇J|, corrected for noise.
    pub norm: f64,
    /// Its standard error.
    pub norm_error: f64,
    /// Length of the remaining noise relative to |∇J|.
    pub noise: f64,
}

/// Measures every estimator on the groups of each behaviour model. All groups are of the plan's prompts. `reference` are the policy's own groups. `watch` is called with
/// the current work, the finished units and their total.
///
/// # Errors
/// [`StudyError`].
pub fn sampled(
    policy: &dyn Policy,
    (model, dataset): (&str, &str),
    plan: &StudyPlan,
    reference: &[SampledGroup],
    behaviours: &[Behaviour],
    stop: &StopSignal,
    watch: &mut dyn FnMut(&str, usize, usize),
) -> Result<Sampled, StudyError> {
    let prompts = reference.len();
    let measurement = Measurement {
        policy,
        plan,
        blocks: plan.blocks(prompts),
        prompts,
        stop,
    };
    let (gradient, facts) = measurement.reference(reference, watch)?;
    let mut sampled = Sampled {
        model: model.to_owned(),
        dataset: dataset.to_owned(),
        plan: plan.clone(),
        prompts,
        groups: prompts * plan.rounds(prompts),
        blocks: measurement.blocks,
        reference: facts,
        masked: Vec::new(),
        levels: Vec::new(),
        rows: Vec::new(),
    };
    for behaviour in behaviours {
        let (level, rows) = measurement.behaviour(behaviour, &gradient, facts.reward, watch)?;
        let samples = behaviour.groups.iter().flat_map(|group| &group.samples);
        let masked = samples.filter(|s| s.judged.reward.is_none()).count();
        sampled.masked.push(masked);
        sampled.levels.push(level);
        sampled.rows.extend(rows);
    }
    Ok(sampled)
}

/// The inputs that all measurements share.
struct Measurement<'a> {
    policy: &'a dyn Policy,
    plan: &'a StudyPlan,
    prompts: usize,
    blocks: usize,
    stop: &'a StopSignal,
}

impl Measurement<'_> {
    fn check_stop(&self) -> Result<(), StudyError> {
        if self.stop.requested() {
            Err(StudyError::Stopped)
        } else {
            Ok(())
        }
    }

    fn sketch(
        &self,
        groups: &[&SampledGroup],
        objectives: Objectives,
    ) -> Result<Vec<Vec<f32>>, EngineError> {
        let tokens = groups.iter().map(|group| Group {
            prompt: group.prompt.tokens.clone(),
            completions: group.samples.iter().map(|s| s.tokens.clone()).collect(),
        });
        let temperature = self.plan.temperature();
        let sketch = CountSketch {
            size: self.plan.sketch,
            seed: self.plan.seed,
        };
        self.policy
            .sketch(tokens.collect(), temperature, objectives, sketch)
    }

    /// ∇J in each block, from its part of each prompt's completions. Parts with equal rewards have a gradient of 0 and only count in the mean.
    fn reference(
        &self,
        groups: &[SampledGroup],
        watch: &mut dyn FnMut(&str, usize, usize),
    ) -> Result<(Reference, ReferenceGradient), StudyError> {
        let rewards = |group: &SampledGroup| -> Vec<f64> {
            let samples = group.samples.iter();
            samples.filter_map(|s| s.judged.reward).collect()
        };
        let all: Vec<f64> = groups.iter().flat_map(rewards).collect();
        let completions: usize = groups.iter().map(|group| group.samples.len()).sum();
        let mixed = |group: &SampledGroup| rewards(group).windows(2).any(|pair| pair[0] != pair[1]);
        let parts: Vec<Vec<SampledGroup>> = (0..self.blocks)
            .map(|block| {
                let part =
                    |group: &SampledGroup| part_of(group, block, group.samples.len() / self.blocks);
                groups.iter().map(part).collect()
            })
            .collect();
        let total = parts.iter().flatten().filter(|part| mixed(part)).count();
        if total == 0 {
            return Err(StudyError::NoSignal {
                completions,
                judged: all.len(),
            });
        }
        let mut means = Vec::with_capacity(self.blocks);
        let mut done = 0;
        for block in &parts {
            let members = block.iter().filter(|part| rewards(part).len() > 1);
            let judged: usize = members.clone().map(|part| rewards(part).len()).sum();
            let mixed_groups: Vec<&SampledGroup> = members.filter(|part| mixed(part)).collect();
            let mut mean = vec![0.0; self.plan.sketch];
            for chunk in mixed_groups.chunks(CHUNK) {
                self.check_stop()?;
                watch("reference gradient", done, total);
                done += chunk.len();
                // The objective divides by the completions of the chunk; the weight scales this to the completions of the block.
                let in_chunk: usize = chunk.iter().map(|group| rewards(group).len()).sum();
                let weight = in_chunk as f32 / judged as f32;
                let sketches = self.sketch(chunk, on_policy(chunk, self.plan.max_tokens()))?;
                for (x, d) in mean.iter_mut().zip(&sketches[0]) {
                    *x -= weight * d;
                }
            }
            means.push(mean);
        }
        watch("reference gradient", done, total);
        let reference = Reference::new(means);
        let (norm, norm_error, noise) = reference.norm();
        let facts = ReferenceGradient {
            completions,
            masked: completions - all.len(),
            reward: all.iter().sum::<f64>() / all.len().max(1) as f64,
            norm,
            norm_error,
            noise,
        };
        Ok((reference, facts))
    }

    /// The qualities of all settings on one behaviour model's groups. `value` is the mean reward, which decides the signs of advantages.
    fn behaviour(
        &self,
        behaviour: &Behaviour,
        reference: &Reference,
        value: f64,
        watch: &mut dyn FnMut(&str, usize, usize),
    ) -> Result<(Level, Vec<Row>), StudyError> {
        let settings = Arc::new(grid());
        let mut estimates = vec![Blocks::new(self.blocks, self.plan.sketch); settings.len()];
        let mut weights = Weights::default();
        let size = self.plan.group_size;
        let rounds = self.plan.rounds(self.prompts);
        let total = self.prompts * rounds;
        for number in 0..total {
            self.check_stop()?;
            watch(&behaviour.name, number, total);
            let (round, prompt) = (number / self.prompts, number % self.prompts);
            let group = part_of(&behaviour.groups[prompt], round, size);
            let block = round % self.blocks;
            let inputs = EstimatorInputs {
                settings: settings.clone(),
                behaviour: group.samples.iter().map(|s| s.logp.clone()).collect(),
                rewards: group.samples.iter().map(|s| s.judged.reward).collect(),
                value,
                max_tokens: self.plan.max_tokens(),
            };
            let results = Arc::new(Mutex::new(None));
            let sketches = self.sketch(&[&group], inputs.objectives(results.clone()))?;
            let results: Option<GroupEstimates> = results
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take();
            let results = results.ok_or_else(|| EngineError::Objective("the engine made sketches without computing their objective; this is a fault of the program".into()))?;
            for (setting, blocks) in estimates.iter_mut().enumerate() {
                // The sketches are gradients of L = −J, so the coefficients change sign.
                let sum = results.directions.sums[setting].iter();
                let sum: Vec<(usize, f32)> = sum.map(|(index, size)| (*index, -size)).collect();
                blocks.add(block, &sketches, &sum);
                for factor in &results.factors[setting] {
                    blocks.add_factor(block, *factor);
                }
            }
            weights.add(&results.ells);
        }
        watch(&behaviour.name, total, total);
        let level = weights.level(&behaviour.name, behaviour.staleness);
        let update = UPDATE_COMPLETIONS as f64 / size as f64;
        let rows = settings
            .iter()
            .zip(&estimates)
            .map(|(setting, blocks)| {
                let (quality, errors) = blocks.quality(reference, update);
                Row::new("model", &level, size, setting, quality, Some(errors))
            })
            .collect();
        Ok((level, rows))
    }
}

/// Part `number` of a prompt's samples, which are split into parts of `size`.
fn part_of(group: &SampledGroup, number: usize, size: usize) -> SampledGroup {
    SampledGroup {
        prompt: group.prompt.clone(),
        samples: group.samples[number * size..][..size].to_vec(),
    }
}

/// The policy gradient of groups that the policy itself sampled.
fn on_policy(groups: &[&SampledGroup], max_tokens: usize) -> Objectives {
    let rewards: Vec<Vec<Option<f64>>> = groups
        .iter()
        .map(|group| group.samples.iter().map(|s| s.judged.reward).collect())
        .collect();
    Box::new(move |stats: &[TokenStats]| {
        let mut stats = stats.iter();
        let groups: Vec<Vec<algo::Sample<'_>>> = rewards
            .iter()
            .map(|group| {
                let pairs = group.iter().zip(stats.by_ref());
                pairs
                    .map(|(reward, stats)| sample(&stats.logp, &stats.logp, *reward))
                    .collect()
            })
            .collect();
        let estimator = plain(Factor::One, Baseline::Loo, 1.0);
        let result = gradient(&estimator, &groups, max_tokens).map_err(|e| e.to_string())?;
        Ok(vec![result.dlogp])
    })
}

/// The inputs of the estimators for one group.
struct EstimatorInputs {
    settings: Arc<Vec<Setting>>,
    /// log μ of each completion's tokens.
    behaviour: Vec<Vec<f32>>,
    rewards: Vec<Option<f64>>,
    /// Mean reward, which decides the signs of advantages.
    value: f64,
    max_tokens: usize,
}

/// The results of all settings for one group.
struct GroupEstimates {
    directions: SharedDirections,
    /// For each setting, the factors of the judged completions.
    factors: Vec<Vec<f64>>,
    /// ℓ of the judged completions.
    ells: Vec<f64>,
}

impl EstimatorInputs {
    /// The objectives of one group. They store their estimates in `results`.
    fn objectives(self, results: Arc<Mutex<Option<GroupEstimates>>>) -> Objectives {
        Box::new(move |stats: &[TokenStats]| {
            let estimates = self.estimates(stats).map_err(|error| error.to_string())?;
            let lengths: Vec<usize> = stats.iter().map(|s| s.logp.len()).collect();
            let objectives = estimates.directions.objectives(&lengths);
            *results.lock().unwrap_or_else(PoisonError::into_inner) = Some(estimates);
            Ok(objectives)
        })
    }

    fn estimates(&self, stats: &[TokenStats]) -> Result<GroupEstimates, AlgoError> {
        let each = stats.iter().zip(&self.behaviour).zip(&self.rewards);
        let group: Vec<algo::Sample<'_>> = each
            .map(|((stats, behaviour), reward)| sample(&stats.logp, behaviour, *reward))
            .collect();
        let judged = || {
            group
                .iter()
                .filter_map(|sample| Some((sample, sample.reward?)))
        };
        let mut estimates = Vec::with_capacity(self.settings.len());
        let mut factors = Vec::with_capacity(self.settings.len());
        for setting in self.settings.iter() {
            let groups = std::slice::from_ref(&group);
            estimates.push(gradient(&setting.estimator, groups, self.max_tokens)?.dlogp);
            let factors_of_setting = judged().map(|(sample, reward)| {
                let sign = if reward > self.value { 1.0 } else { -1.0 };
                mean_factor(
                    &setting.estimator,
                    sample.new,
                    sample.behaviour,
                    sign,
                    self.max_tokens,
                )
            });
            factors.push(factors_of_setting.collect::<Result<_, _>>()?);
        }
        Ok(GroupEstimates {
            directions: SharedDirections::of(&estimates),
            factors,
            ells: judged().map(|(sample, _)| log_weight(sample)).collect(),
        })
    }
}

/// Sums over the importance weights of all completions.
#[derive(Default)]
struct Weights {
    count: usize,
    ell: f64,
    abs_ell: f64,
    weight: f64,
    weight_squared: f64,
}

impl Weights {
    fn add(&mut self, ells: &[f64]) {
        for ell in ells {
            let weight = ell.min(MAX_LOG_WEIGHT).exp();
            self.count += 1;
            self.ell += ell;
            self.abs_ell += ell.abs();
            self.weight += weight;
            self.weight_squared += weight * weight;
        }
    }

    fn level(&self, name: &str, staleness: usize) -> Level {
        let count = self.count.max(1) as f64;
        let mut level = Level::new(name, staleness);
        level.kl = -self.ell / count;
        level.abs_ell = self.abs_ell / count;
        if self.weight_squared > 0.0 {
            level.ess = self.weight * self.weight / self.weight_squared / count;
        }
        level
    }
}

#[cfg(test)]
mod tests;
