//! The study on a model: groups that frozen behaviour models drew, measured against the frozen policy's own gradient.

use std::sync::{Arc, Mutex, PoisonError};

use engine::{EngineError, Group, Objectives, Sketch, TokenStats};
use serde::Serialize;

use super::blocks::{Blocks, Reference};
use super::grid::{Setting, grid, plain};
use super::parts::{Dlogp, Parts};
use super::plan::StudyPlan;
use super::rows::{Level, Row};
use super::{UPDATE_COMPLETIONS, mean_factor, sample};
use crate::algo::{self, AlgoError, Baseline, Factor, MAX_LOG_WEIGHT, gradient, log_weight};
use crate::policy::Policy;
use crate::rollout::{RolloutError, SampledGroup};
use crate::stop::Stop;

/// Groups whose gradient is taken at once for the reference.
const CHUNK: usize = 8;

/// Why there is nothing to tell.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The numbers are of no use.
    #[error(transparent)]
    Algo(#[from] AlgoError),
    /// Completions could not be drawn or judged.
    #[error(transparent)]
    Rollout(#[from] RolloutError),
    /// The end was asked for.
    #[error("stopped before the study was complete")]
    Stopped,
    /// There is no gradient to compare with.
    #[error(
        "of {completions} completions that the model drew, {judged} got a verdict and none of its prompts got both right and wrong ones, so there is no gradient to compare with. \
         JudgeRequest easier tasks, give --reference more completions a prompt, or study a model that has learnt some of the task"
    )]
    NoSignal {
        /// Completions drawn for the reference.
        completions: usize,
        /// Of these, judged.
        judged: usize,
    },
}

/// Groups that a behaviour model drew.
#[derive(Debug, Clone, PartialEq)]
pub struct Behaviour {
    /// How it is called in tables.
    pub name: String,
    /// Updates that it is behind, where that is known; else its place in the list.
    pub staleness: usize,
    /// What it answered to [`StudyPlan::off_policy`]: all samples of each prompt.
    pub answers: Vec<SampledGroup>,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sampled {
    /// π, as the user named it.
    pub model: String,
    /// The tasks.
    pub dataset: String,
    /// How much was drawn, and how.
    #[serde(flatten)]
    pub plan: StudyPlan,
    /// Prompts that were asked.
    pub prompts: usize,
    /// Groups of each behaviour model.
    pub groups: usize,
    /// Blocks that products are taken between.
    pub blocks: usize,
    /// ∇J.
    pub reference: Gradient,
    /// Completions of each behaviour model without a verdict, which are left out.
    pub masked: Vec<usize>,
    /// How far each behaviour model is.
    pub levels: Vec<Level>,
    /// A row a behaviour model and a setting.
    pub rows: Vec<Row>,
}

/// The gradient that estimates are compared with: each prompt's from on-policy completions with the mean of the others as baseline, which is unbiased.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Gradient {
    /// Completions that it is made of.
    pub completions: usize,
    /// Completions without a verdict, which are left out.
    pub masked: usize,
    /// Mean reward.
    pub reward: f64,
    /// |∇J|, without the noise's share.
    pub norm: f64,
    /// Its standard error.
    pub norm_error: f64,
    /// Length of the noise that is left in it, over |∇J|.
    pub noise: f64,
}

/// Measures every estimator on groups of each behaviour model, all of the plan's prompts. `reference` are the policy's own groups. `watch` hears what is done, how many of
/// how many.
///
/// # Errors
/// [`StudyError`].
pub fn sampled(
    policy: &dyn Policy,
    (model, dataset): (&str, &str),
    plan: &StudyPlan,
    reference: &[SampledGroup],
    behaviours: &[Behaviour],
    stop: &Stop,
    watch: &mut dyn FnMut(&str, usize, usize),
) -> Result<Sampled, StudyError> {
    let prompts = reference.len();
    let course = Course {
        policy,
        plan,
        blocks: plan.blocks(prompts),
        prompts,
        stop,
    };
    let (gradient, facts) = course.reference(reference, watch)?;
    let mut found = Sampled {
        model: model.to_owned(),
        dataset: dataset.to_owned(),
        plan: plan.clone(),
        prompts,
        groups: prompts * plan.rounds(prompts),
        blocks: course.blocks,
        reference: facts,
        masked: Vec::new(),
        levels: Vec::new(),
        rows: Vec::new(),
    };
    for behaviour in behaviours {
        let (level, rows) = course.behaviour(behaviour, &gradient, facts.reward, watch)?;
        let samples = behaviour.answers.iter().flat_map(|group| &group.samples);
        let masked = samples.filter(|s| s.judged.reward.is_none()).count();
        found.masked.push(masked);
        found.levels.push(level);
        found.rows.extend(rows);
    }
    Ok(found)
}

/// What all measurements share.
struct Course<'a> {
    policy: &'a dyn Policy,
    plan: &'a StudyPlan,
    prompts: usize,
    blocks: usize,
    stop: &'a Stop,
}

impl Course<'_> {
    fn go_on(&self) -> Result<(), StudyError> {
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
        let sketch = Sketch {
            size: self.plan.sketch,
            seed: self.plan.seed,
        };
        self.policy
            .sketch(tokens.collect(), temperature, objectives, sketch)
    }

    /// ∇J in each block, from its part of each prompt's completions. Parts whose rewards are all alike add nothing to it but their number.
    fn reference(
        &self,
        groups: &[SampledGroup],
        watch: &mut dyn FnMut(&str, usize, usize),
    ) -> Result<(Reference, Gradient), StudyError> {
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
                    |group: &SampledGroup| cut(group, block, group.samples.len() / self.blocks);
                groups.iter().map(part).collect()
            })
            .collect();
        let wanted = parts.iter().flatten().filter(|part| mixed(part)).count();
        if wanted == 0 {
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
            let live: Vec<&SampledGroup> = members.filter(|part| mixed(part)).collect();
            let mut mean = vec![0.0; self.plan.sketch];
            for chunk in live.chunks(CHUNK) {
                self.go_on()?;
                watch("reference gradient", done, wanted);
                done += chunk.len();
                // Production divides by the completions of what it is given; they are so many of the block's.
                let own: usize = chunk.iter().map(|group| rewards(group).len()).sum();
                let share = own as f32 / judged as f32;
                let sketches = self.sketch(chunk, on_policy(chunk, self.plan.max_tokens()))?;
                for (x, d) in mean.iter_mut().zip(&sketches[0]) {
                    *x -= share * d;
                }
            }
            means.push(mean);
        }
        watch("reference gradient", done, wanted);
        let reference = Reference::new(means);
        let (norm, norm_error, noise) = reference.norm();
        let facts = Gradient {
            completions,
            masked: completions - all.len(),
            reward: all.iter().sum::<f64>() / all.len().max(1) as f64,
            norm,
            norm_error,
            noise,
        };
        Ok((reference, facts))
    }

    /// All settings on one behaviour model's groups.
    fn behaviour(
        &self,
        behaviour: &Behaviour,
        reference: &Reference,
        value: f64,
        watch: &mut dyn FnMut(&str, usize, usize),
    ) -> Result<(Level, Vec<Row>), StudyError> {
        let settings = Arc::new(grid());
        let mut found = vec![Blocks::new(self.blocks, self.plan.sketch); settings.len()];
        let mut weights = Weights::default();
        let size = self.plan.group_size;
        let rounds = self.plan.rounds(self.prompts);
        let all = self.prompts * rounds;
        for number in 0..all {
            self.go_on()?;
            watch(&behaviour.name, number, all);
            let (round, prompt) = (number / self.prompts, number % self.prompts);
            let group = cut(&behaviour.answers[prompt], round, size);
            let block = round % self.blocks;
            let asked = Asked {
                settings: settings.clone(),
                behaviour: group.samples.iter().map(|s| s.logp.clone()).collect(),
                rewards: group.samples.iter().map(|s| s.judged.reward).collect(),
                value,
                max_tokens: self.plan.max_tokens(),
            };
            let made = Arc::new(Mutex::new(None));
            let sketches = self.sketch(&[&group], asked.objectives(made.clone()))?;
            let made: Option<Made> = made.lock().unwrap_or_else(PoisonError::into_inner).take();
            let made = made.ok_or_else(|| EngineError::Numeric("the engine made sketches without asking for their objective; this is a fault of the program".into()))?;
            for (setting, blocks) in found.iter_mut().enumerate() {
                // L = −J: what is added up is the gradient of L.
                let sum = made.parts.sums[setting].iter();
                let sum: Vec<(usize, f32)> = sum.map(|(place, size)| (*place, -size)).collect();
                blocks.add(block, &sketches, &sum);
                for factor in &made.factors[setting] {
                    blocks.add_factor(block, *factor);
                }
            }
            weights.add(&made.ells);
        }
        watch(&behaviour.name, all, all);
        let level = weights.level(&behaviour.name, behaviour.staleness);
        let update = UPDATE_COMPLETIONS as f64 / size as f64;
        let rows = settings
            .iter()
            .zip(&found)
            .map(|(setting, blocks)| {
                let (quality, errors) = blocks.quality(reference, update);
                Row::new("model", &level, size, setting, quality, Some(errors))
            })
            .collect();
        Ok((level, rows))
    }
}

/// Part number so and so of a prompt's samples, in parts of `size`.
fn cut(group: &SampledGroup, number: usize, size: usize) -> SampledGroup {
    SampledGroup {
        prompt: group.prompt.clone(),
        samples: group.samples[number * size..][..size].to_vec(),
    }
}

/// The policy gradient of groups that the policy drew itself.
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
        let made = gradient(&estimator, &groups, max_tokens).map_err(|e| e.to_string())?;
        Ok(vec![made.dlogp])
    })
}

/// What is asked of one group.
struct Asked {
    settings: Arc<Vec<Setting>>,
    behaviour: Dlogp,
    rewards: Vec<Option<f64>>,
    value: f64,
    max_tokens: usize,
}

/// What the settings make of one group.
struct Made {
    parts: Parts,
    /// For each setting, the factors of the judged completions.
    factors: Vec<Vec<f64>>,
    /// ℓ of the judged completions.
    ells: Vec<f64>,
}

impl Asked {
    fn objectives(self, made: Arc<Mutex<Option<Made>>>) -> Objectives {
        Box::new(move |stats: &[TokenStats]| {
            let all = self.made(stats).map_err(|error| error.to_string())?;
            let lengths: Vec<usize> = stats.iter().map(|s| s.logp.len()).collect();
            let sets = all.parts.sets(&lengths);
            *made.lock().unwrap_or_else(PoisonError::into_inner) = Some(all);
            Ok(sets)
        })
    }

    fn made(&self, stats: &[TokenStats]) -> Result<Made, AlgoError> {
        let each = stats.iter().zip(&self.behaviour).zip(&self.rewards);
        let group: Vec<algo::Sample<'_>> = each
            .map(|((stats, behaviour), reward)| sample(&stats.logp, behaviour, *reward))
            .collect();
        let judged = || group.iter().filter_map(|one| Some((one, one.reward?)));
        let mut estimates = Vec::with_capacity(self.settings.len());
        let mut factors = Vec::with_capacity(self.settings.len());
        for setting in self.settings.iter() {
            let groups = std::slice::from_ref(&group);
            estimates.push(gradient(&setting.estimator, groups, self.max_tokens)?.dlogp);
            let of_each = judged().map(|(one, reward)| {
                let sign = if reward > self.value { 1.0 } else { -1.0 };
                mean_factor(
                    &setting.estimator,
                    one.new,
                    one.behaviour,
                    sign,
                    self.max_tokens,
                )
            });
            factors.push(of_each.collect::<Result<_, _>>()?);
        }
        Ok(Made {
            parts: Parts::of(&estimates),
            factors,
            ells: judged().map(|(one, _)| log_weight(one)).collect(),
        })
    }
}

/// Sums over the log-weights of all completions.
#[derive(Default)]
struct Weights {
    count: usize,
    ell: f64,
    abs_ell: f64,
    once: f64,
    twice: f64,
}

impl Weights {
    fn add(&mut self, ells: &[f64]) {
        for ell in ells {
            let weight = ell.min(MAX_LOG_WEIGHT).exp();
            self.count += 1;
            self.ell += ell;
            self.abs_ell += ell.abs();
            self.once += weight;
            self.twice += weight * weight;
        }
    }

    fn level(&self, name: &str, staleness: usize) -> Level {
        let count = self.count.max(1) as f64;
        let mut level = Level::new(name, staleness);
        level.kl = -self.ell / count;
        level.abs_ell = self.abs_ell / count;
        if self.twice > 0.0 {
            level.ess = self.once * self.once / self.twice / count;
        }
        level
    }
}

#[cfg(test)]
mod tests;
