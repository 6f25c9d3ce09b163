//! The study on a model: estimates from groups that frozen behaviour models sampled, compared with the frozen policy's own gradient.

use std::sync::{Arc, mpsc};

use engine::{CountSketch, EngineError, Group, Objectives, TokenStats};
use serde::Serialize;

use super::blocks::{Blocks, Reference};
use super::estimators::{Setting, estimators, plain};
use super::plan::StudyPlan;
use super::quality::ratio;
use super::shared_directions::SharedDirections;
use super::{Level, Row, UPDATE_COMPLETIONS, mean_factor, sample};
use crate::algo::{self, AlgoError, Baseline, Factor, MAX_LOG_WEIGHT, gradient, log_weight};
use crate::policy::Policy;
use crate::rollout::SampledGroup;

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

/// Called with the current work, the finished units and their total; false stops the study.
pub type Watch<'a> = &'a dyn Fn(&str, usize, usize) -> bool;

/// Measures every estimator on the groups of each behaviour model. All groups are of the plan's prompts. `reference` are the policy's own groups.
///
/// # Errors
/// [`StudyError`].
pub fn sampled(
    policy: &dyn Policy,
    (model, dataset): (&str, &str),
    plan: &StudyPlan,
    reference: &[SampledGroup],
    behaviours: &[Behaviour],
    watch: Watch<'_>,
) -> Result<Sampled, StudyError> {
    let prompts = reference.len();
    let measurement = Measurement {
        policy,
        plan,
        blocks: plan.blocks(prompts),
        prompts,
        watch,
    };
    let (gradient, facts) = measurement.reference(reference)?;
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
        let (level, rows) = measurement.behaviour(behaviour, &gradient, facts.reward)?;
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
    watch: Watch<'a>,
}

impl Measurement<'_> {
    fn progress(&self, what: &str, done: usize, total: usize) -> Result<(), StudyError> {
        match (self.watch)(what, done, total) {
            true => Ok(()),
            false => Err(StudyError::Stopped),
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
        let sketch = CountSketch {
            size: self.plan.sketch,
            seed: self.plan.seed,
        };
        let temperature = self.plan.sampling.sampling.temperature;
        self.policy
            .sketch(tokens.collect(), temperature, objectives, sketch)
    }

    /// ∇J in each block, from its part of each prompt's completions. Parts with equal rewards have a gradient of 0 and only count in the mean.
    fn reference(
        &self,
        groups: &[SampledGroup],
    ) -> Result<(Reference, ReferenceGradient), StudyError> {
        let all: Vec<f64> = groups.iter().flat_map(rewards).collect();
        let completions: usize = groups.iter().map(|group| group.samples.len()).sum();
        let mixed = |group: &SampledGroup| rewards(group).windows(2).any(|pair| pair[0] != pair[1]);
        let block = |block: usize| -> Vec<SampledGroup> {
            let part = |group| part_of(group, block, group.samples.len() / self.blocks);
            groups.iter().map(part).collect()
        };
        let parts: Vec<Vec<SampledGroup>> = (0..self.blocks).map(block).collect();
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
            let counted = |part: &&SampledGroup| rewards(part).len() > 1;
            let members: Vec<&SampledGroup> = block.iter().filter(counted).collect();
            let judged = |groups: &[&SampledGroup]| -> usize {
                groups.iter().map(|group| rewards(group).len()).sum()
            };
            let of_block = judged(&members);
            let members: Vec<&SampledGroup> = members.into_iter().filter(|it| mixed(it)).collect();
            let mut mean = vec![0.0; self.plan.sketch];
            for chunk in members.chunks(CHUNK) {
                self.progress("reference gradient", done, total)?;
                done += chunk.len();
                // The objective divides by the completions of the chunk; the weight scales this to the completions of the block.
                let weight = judged(chunk) as f32 / of_block as f32;
                let sketches =
                    self.sketch(chunk, on_policy(chunk, self.plan.sampling.max_tokens))?;
                for (x, d) in mean.iter_mut().zip(&sketches[0]) {
                    *x -= weight * d;
                }
            }
            means.push(mean);
        }
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
    ) -> Result<(Level, Vec<Row>), StudyError> {
        let settings: Arc<[Setting]> = estimators().into();
        let mut estimates = vec![Blocks::new(self.blocks, self.plan.sketch); settings.len()];
        let mut ells = Vec::new();
        let group_size = self.plan.group_size;
        let total = self.prompts * self.plan.rounds(self.prompts);
        for number in 0..total {
            self.progress(&behaviour.name, number, total)?;
            let (round, prompt) = (number / self.prompts, number % self.prompts);
            let group = part_of(&behaviour.groups[prompt], round, group_size);
            let (sender, results) = mpsc::channel();
            let objectives = {
                let (settings, group) = (settings.clone(), group.clone());
                let max_tokens = self.plan.sampling.max_tokens;
                Box::new(move |stats: &[TokenStats]| {
                    let results = GroupEstimates::of(&settings, &group, stats, value, max_tokens);
                    let results = results.map_err(|error| error.to_string())?;
                    let lengths: Vec<usize> = stats.iter().map(|s| s.logp.len()).collect();
                    let objectives = results.directions.objectives(&lengths);
                    // The receiver outlives the engine's work.
                    let _ = sender.send(results);
                    Ok(objectives)
                })
            };
            let sketches = self.sketch(&[&group], objectives)?;
            let results = results.recv().map_err(|_| EngineError::Objective("the engine made sketches without computing their objective; this is a fault of the program".into()))?;
            let each = results.directions.sums.iter().zip(&results.factors);
            for (blocks, (sum, factors)) in estimates.iter_mut().zip(each) {
                // The sketches are gradients of L = −J, so the coefficients change sign.
                let sum = sum.iter().map(|(index, size)| (*index, -size));
                blocks.add(round % self.blocks, &sketches, sum, factors);
            }
            ells.extend(results.ells);
        }
        let level = level(behaviour, &ells);
        let update = UPDATE_COMPLETIONS as f64 / group_size as f64;
        let rows = settings.iter().zip(&estimates).map(|(setting, blocks)| {
            let (quality, errors) = blocks.quality(reference, update);
            Row {
                policy: "model",
                course: level.course.clone(),
                staleness: level.staleness,
                group_size,
                setting: *setting,
                quality,
                errors: Some(errors),
            }
        });
        let rows = rows.collect();
        Ok((level, rows))
    }
}

/// The rewards of the judged samples.
fn rewards(group: &SampledGroup) -> Vec<f64> {
    let samples = group.samples.iter();
    samples.filter_map(|s| s.judged.reward).collect()
}

/// Part `number` of a prompt's samples, which are split into parts of `size`.
fn part_of(group: &SampledGroup, number: usize, size: usize) -> SampledGroup {
    SampledGroup {
        prompt: group.prompt.clone(),
        samples: group.samples[number * size..][..size].to_vec(),
    }
}

/// The group's completions in the form that the algorithms take, with the policy's log-probabilities.
fn samples<'a>(group: &'a SampledGroup, stats: &'a [TokenStats]) -> Vec<algo::Sample<'a>> {
    let each = stats.iter().zip(&group.samples);
    each.map(|(stats, it)| sample(&stats.logp, &it.logp, it.judged.reward))
        .collect()
}

/// The policy gradient of groups that the policy itself sampled, all of the same size.
fn on_policy(groups: &[&SampledGroup], max_tokens: usize) -> Objectives {
    let groups: Vec<SampledGroup> = groups.iter().copied().cloned().collect();
    Box::new(move |stats: &[TokenStats]| {
        let stats = stats.chunks(stats.len() / groups.len());
        let groups: Vec<_> = groups
            .iter()
            .zip(stats)
            .map(|(g, s)| samples(g, s))
            .collect();
        let estimator = plain(Factor::One, Baseline::Loo, 1.0);
        let result = gradient(&estimator, &groups, max_tokens).map_err(|e| e.to_string())?;
        Ok(vec![result.dlogp])
    })
}

/// The results of all settings for one group.
struct GroupEstimates {
    directions: SharedDirections,
    /// For each setting, the factors of the judged completions.
    factors: Vec<Vec<f64>>,
    /// ℓ of the judged completions.
    ells: Vec<f64>,
}

impl GroupEstimates {
    /// `stats` are the policy's log-probabilities. `value` is the mean reward, which decides the signs of advantages.
    fn of(
        settings: &[Setting],
        group: &SampledGroup,
        stats: &[TokenStats],
        value: f64,
        max_tokens: usize,
    ) -> Result<Self, AlgoError> {
        let group = samples(group, stats);
        let judged = || group.iter().filter_map(|it| Some((it, it.reward?)));
        let mut estimates = Vec::with_capacity(settings.len());
        let mut factors = Vec::with_capacity(settings.len());
        for Setting { estimator, .. } in settings {
            let groups = std::slice::from_ref(&group);
            estimates.push(gradient(estimator, groups, max_tokens)?.dlogp);
            let factors_of_setting = judged().map(|(it, reward)| {
                let sign = if reward > value { 1.0 } else { -1.0 };
                mean_factor(estimator, it.new, it.behaviour, sign, max_tokens)
            });
            factors.push(factors_of_setting.collect::<Result<_, _>>()?);
        }
        Ok(Self {
            directions: SharedDirections::of(&estimates),
            factors,
            ells: judged().map(|(it, _)| log_weight(it)).collect(),
        })
    }
}

/// The distance of a behaviour model from the policy, from ℓ of all its completions.
fn level(behaviour: &Behaviour, ells: &[f64]) -> Level {
    let count = ells.len().max(1) as f64;
    let weights = ells.iter().map(|ell| ell.min(MAX_LOG_WEIGHT).exp());
    let weight: f64 = weights.clone().sum();
    let squares: f64 = weights.map(|weight| weight * weight).sum();
    Level {
        course: behaviour.name.clone(),
        staleness: behaviour.staleness,
        kl: -ells.iter().sum::<f64>() / count,
        abs_ell: ells.iter().map(|ell| ell.abs()).sum::<f64>() / count,
        ess: ratio(weight * weight, squares) / count,
    }
}

#[cfg(test)]
mod tests;
