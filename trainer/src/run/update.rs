//! One optimiser update on whole groups.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use engine::{AdamW, Finish, Objective, StepReport, TokenStats};

use super::TrainError;
use super::draw::tokens_of;
use super::record::{GroupCounts, StepRecord, counts};
use super::repeats::Repeats;
use crate::algo::{self, Estimator, Gradient};
use crate::config::{Config, Optimiser, Preset, Reward};
use crate::policy::Policy;
use crate::reward::{self, Terms};
use crate::rollout::{Sample, SampledGroup};

/// What an update needs besides its samples.
#[derive(Debug, Clone, Copy)]
pub(super) struct Recipe {
    pub(super) estimator: Estimator,
    /// Least effective sample size, as a share of N.
    pub(super) least_ess: f64,
    pub(super) reward: Reward,
    pub(super) max_tokens: usize,
    pub(super) temperature: f32,
    pub(super) adamw: AdamW,
}

impl Recipe {
    /// The same with another learning rate.
    pub(super) fn at_rate(self, lr: f64) -> Self {
        Self {
            adamw: AdamW {
                lr: lr as f32,
                ..self.adamw
            },
            ..self
        }
    }

    /// The reward of each completion that has one.
    pub(super) fn rewards(&self, groups: &[SampledGroup]) -> Vec<f64> {
        let samples = groups.iter().flat_map(|group| &group.samples);
        let terms = samples.filter_map(|sample| self.terms(sample));
        terms.map(|terms| terms.sum(&self.reward)).collect()
    }

    fn terms(&self, sample: &Sample) -> Option<Terms> {
        Terms::of(
            &sample.judged,
            sample.tokens.len(),
            self.max_tokens,
            &self.reward,
        )
    }

    pub(super) fn of(config: &Config) -> Self {
        Self {
            estimator: config.algorithm.estimator(),
            least_ess: config.algorithm.adaptive_h,
            reward: config.reward,
            max_tokens: config.sampling.max_tokens,
            temperature: temperature(config),
            adamw: adamw(&config.optimiser),
        }
    }
}

/// That of the distribution whose log-probabilities are trained: the one that completions were drawn from. Lessons this model did not draw: what they raise is its own
/// likelihood. Trained at another temperature, it would follow its teacher only where it is sampled at that one.
fn temperature(config: &Config) -> f32 {
    match config.algorithm.preset {
        Preset::Sft => 1.0,
        _ => config.sampling.temperature as f32,
    }
}

fn adamw(optimiser: &Optimiser) -> AdamW {
    AdamW {
        lr: optimiser.lr as f32,
        beta1: optimiser.beta1 as f32,
        beta2: optimiser.beta2 as f32,
        eps: optimiser.eps as f32,
        weight_decay: optimiser.weight_decay as f32,
        clip_norm: if optimiser.clip_norm > 0.0 {
            optimiser.clip_norm as f32
        } else {
            f32::INFINITY
        },
    }
}

/// Where an update stands in the run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) step: usize,
    pub(super) phase: usize,
    pub(super) update: usize,
    pub(super) phase_updates: usize,
    pub(super) epoch: usize,
    /// Whether its samples were drawn by the policy as it is, or as good as.
    pub(super) fresh: bool,
    /// As in [`StepRecord::dropped`].
    pub(super) dropped: usize,
    /// As in [`StepRecord::drawn_reward`].
    pub(super) drawn_reward: Option<f64>,
}

/// What the objective made of the engine's numbers.
#[derive(Default)]
enum Seen {
    #[default]
    Nothing,
    /// The samples are too far from the policy.
    Stale,
    Made(Box<Gradient>),
}

/// Updates the policy on the groups of a mini-batch. Blocks. `None` where the samples are too far from the policy: then nothing was done.
pub(super) fn update(
    policy: &dyn Policy,
    recipe: Recipe,
    groups: &[SampledGroup],
    place: Place,
) -> Result<Option<(StepRecord, StepReport)>, TrainError> {
    let seen = Arc::new(Mutex::new(Seen::Nothing));
    let report = policy.step(
        groups.iter().map(tokens_of).collect(),
        recipe.temperature,
        objective(recipe, groups, place.fresh, Arc::clone(&seen)),
        recipe.adamw,
    );
    let seen = std::mem::take(&mut *seen.lock().unwrap_or_else(PoisonError::into_inner));
    let gradient = match seen {
        Seen::Stale => return Ok(None),
        Seen::Made(gradient) => Some(gradient),
        Seen::Nothing => None,
    };
    let report = report?;
    let gradient = gradient.ok_or_else(|| engine::EngineError::Numeric("the engine made an update without asking for its objective; this is a fault of the program".into()))?;
    let record = record(recipe, groups, place, &gradient, &report);
    Ok(Some((record, report)))
}

/// What the objective needs of a sample.
struct Drawn {
    behaviour: Vec<f32>,
    reference: Option<Vec<f32>>,
    reward: Option<f64>,
}

/// The gradient as the engine asks for it; what was made of the numbers stays in `seen`.
fn objective(
    recipe: Recipe,
    groups: &[SampledGroup],
    fresh: bool,
    seen: Arc<Mutex<Seen>>,
) -> Objective {
    let drawn = |sample: &Sample| Drawn {
        behaviour: sample.trained_logp(),
        reference: Some(sample.reference.clone()).filter(|logp| !logp.is_empty()),
        reward: recipe.terms(sample).map(|terms| terms.sum(&recipe.reward)),
    };
    let drawn: Vec<Vec<Drawn>> = groups
        .iter()
        .map(|group| group.samples.iter().map(drawn).collect())
        .collect();
    Box::new(move |stats: &[TokenStats]| {
        let expected: usize = drawn.iter().map(Vec::len).sum();
        if stats.len() != expected {
            return Err(format!(
                "the engine answered for {} completions of {expected}",
                stats.len()
            ));
        }
        let mut stats = stats.iter();
        let groups: Vec<Vec<algo::Sample<'_>>> = drawn
            .iter()
            .map(|group| {
                group
                    .iter()
                    .zip(stats.by_ref())
                    .map(|(drawn, stats)| algo::Sample {
                        new: &stats.logp,
                        // What nobody drew has no behaviour policy but this one.
                        behaviour: if drawn.behaviour.is_empty() {
                            &stats.logp
                        } else {
                            &drawn.behaviour
                        },
                        reference: drawn.reference.as_deref(),
                        reward: drawn.reward,
                    })
                    .collect()
            })
            .collect();
        let gradient = algo::gradient(&recipe.estimator, &groups, recipe.max_tokens)
            .map_err(|error| error.to_string())?;
        let metrics = &gradient.metrics;
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        if !fresh && metrics.ess < recipe.least_ess * metrics.judged as f64 {
            *seen = Seen::Stale;
            return Err("the samples are too far from the policy".into());
        }
        let dlogp = gradient.dlogp.clone();
        *seen = Seen::Made(Box::new(gradient));
        Ok(dlogp)
    })
}

fn record(
    recipe: Recipe,
    groups: &[SampledGroup],
    place: Place,
    gradient: &Gradient,
    report: &StepReport,
) -> StepRecord {
    let samples = || groups.iter().flat_map(|group| &group.samples);
    let judged = |sample: &Sample| sample.judged.reward.is_some();
    let entropies = || {
        samples()
            .zip(&report.stats)
            .filter(|(sample, _)| judged(sample))
            .flat_map(|(sample, stats)| stats.entropy.iter().take(sample.tokens.len()))
    };
    let all = samples().count().max(1) as f64;
    StepRecord {
        step: place.step,
        phase: place.phase,
        update: place.update,
        phase_updates: place.phase_updates,
        epoch: place.epoch,
        prompts: groups.len(),
        groups: GroupCounts::of(groups),
        dropped: place.dropped,
        drawn_reward: place.drawn_reward,
        algo: gradient.metrics,
        terms: reward::means(
            &samples()
                .filter_map(|sample| recipe.terms(sample))
                .collect::<Vec<_>>(),
            &recipe.reward,
        ),
        pass_at: pass_at(groups),
        grad_norm: report.grad_norm,
        entropy: entropies().map(|entropy| f64::from(*entropy)).sum::<f64>()
            / entropies().count().max(1) as f64,
        length_mean: samples().map(|sample| sample.tokens.len()).sum::<usize>() as f64 / all,
        length_max: samples()
            .map(|sample| sample.tokens.len())
            .max()
            .unwrap_or(0),
        truncated: samples()
            .filter(|sample| sample.finish == Finish::Length)
            .count() as f64
            / all,
        repeats: Repeats::of(groups),
        lr: f64::from(recipe.adamw.lr),
    }
}

/// Mean over groups of the unbiased Pass@k, k = 1, 2, 4, … up to the largest group. Groups with fewer judged samples are left out.
fn pass_at(groups: &[SampledGroup]) -> BTreeMap<usize, f64> {
    let largest = groups
        .iter()
        .map(|group| group.samples.len())
        .max()
        .unwrap_or(0);
    std::iter::successors(Some(1), |k| Some(2 * k))
        .take_while(|k| *k <= largest)
        .filter_map(|k| {
            let values: Vec<f64> = groups
                .iter()
                .filter_map(|group| counts(group).pass_at(k))
                .collect();
            (!values.is_empty()).then(|| (k, values.iter().sum::<f64>() / values.len() as f64))
        })
        .collect()
}
