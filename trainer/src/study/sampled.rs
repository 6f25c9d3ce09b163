//! The study on a model: the mean and the spread of estimates from groups that frozen behaviour models sampled, compared with the frozen policy's own gradient.
//!
//! In each round, a model samples a group for every prompt. The mean estimates x of different rounds are independent, so their products do not contain the square of
//! the noise. Let y be the mean estimates of the policy's own groups. Over R rounds, these are unbiased (Hoeffding 1948), and an estimated square may be negative:
//!
//! ```text
//! |E ĝ|² ≈ (|Σ x|² − Σ |x|²) / (R (R − 1)),    ⟨E ĝ, ∇J⟩ ≈ ⟨Σ x, Σ y⟩ / R²
//! ```

use std::slice;
use std::sync::Arc;

use engine::{CountSketch, EngineError, Sampling};
use serde::Serialize;

use super::estimators::{on_a_model, plain};
use super::{Products, Row, dot, plus, ratio, sample};
use crate::algo::{self, AlgoError, MAX_LOG_WEIGHT, gradient, log_weight};
use crate::config::{Algorithm, Baseline, Factor};
use crate::data::Prompt;
use crate::policy::Policy;
use crate::rollout::{SampledGroup, SamplingParams};
use crate::seed;

/// Groups per prompt and model, if there are as many.
const ROUNDS: usize = 16;
/// Size of a gradient's sketch, in numbers; inner products of sketches are off by about √(2/65,536) = 0.6%.
const SKETCH: usize = 65_536;

/// The number of sampled completions, and how they are sampled.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StudyPlan {
    /// Maximum groups of each model; every prompt gets the same number.
    pub groups: usize,
    /// Completions of a group.
    pub group_size: usize,
    /// Sampling temperature.
    pub temperature: f32,
    /// Maximum tokens of a completion.
    pub max_tokens: usize,
    /// Seed of the prompts, samples and sketches.
    pub seed: u64,
}

impl StudyPlan {
    /// The prompts of the study, in an order that depends on the seed. Their number is such that each has [`ROUNDS`] groups.
    pub fn prompts(&self, all: &[Arc<Prompt>]) -> Vec<Arc<Prompt>> {
        let order = seed::permutation(self.seed, 0, all.len());
        let selected = order.into_iter().take((self.groups / ROUNDS).max(1));
        selected.map(|index| all[index].clone()).collect()
    }

    /// How a model samples all groups of each prompt, with this number of prompts.
    pub fn sampling(&self, prompts: usize) -> SamplingParams {
        SamplingParams {
            samples: (self.groups / prompts.max(1)).max(1) * self.group_size,
            seed: self.seed,
            sampling: Sampling {
                temperature: self.temperature,
                ..Sampling::default()
            },
            min_tokens: 0,
            max_tokens: self.max_tokens,
        }
    }
}

/// Why the study has no result.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A number is not finite.
    #[error(transparent)]
    Algo(#[from] AlgoError),
    /// There is no gradient to compare with.
    #[error(
        "no prompt has both correct and incorrect completions of the model, so there is no gradient to compare with. Give easier tasks, raise --groups, or study a model that \
         has learnt some of the task"
    )]
    NoSignal,
}

/// A model's groups.
#[derive(Debug, Clone, PartialEq)]
pub struct Behaviour {
    /// Its name in tables.
    pub name: String,
    /// Number of updates behind; if that is unknown, its position in the list.
    pub staleness: usize,
    /// Its completions of [`StudyPlan::prompts`].
    pub groups: Vec<SampledGroup>,
}

/// The results on a model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sampled {
    /// π, by the name that the user gave.
    pub model: String,
    /// What was sampled.
    pub plan: StudyPlan,
    /// Number of prompts.
    pub prompts: usize,
    /// Completions of all models without a verdict, which are left out.
    pub masked: usize,
    /// |∇J|, corrected for noise.
    pub norm: f64,
    /// One row for each behaviour model and estimator.
    pub rows: Vec<Row>,
}

/// Called with the current work, the finished units and their total.
type Watch<'a> = &'a dyn Fn(&str, usize, usize);

/// Measures the estimators on the groups of each behaviour model. ∇J is estimated from the first model's groups, sampled by the policy itself, with the
/// leave-one-out baseline, which is unbiased.
///
/// # Panics
/// Without a model.
pub fn sampled(
    policy: &dyn Policy,
    plan: &StudyPlan,
    models: &[Behaviour],
    watch: Watch<'_>,
) -> Result<Sampled, StudyError> {
    let (own, behaviours) = models
        .split_first()
        .expect("the policy itself is one of them");
    let is_mixed = |group: &SampledGroup| {
        let mut rewards = group.samples.iter().filter_map(|it| it.judged.reward);
        let first = rewards.next();
        rewards.any(|reward| Some(reward) != first)
    };
    if !own.groups.iter().any(is_mixed) {
        return Err(StudyError::NoSignal);
    }
    let loo = plain(Factor::One, Baseline::Loo, 1.0);
    let (gradients, _) = measure(policy, plan, own, &[loo], watch)?;
    let gradient = &gradients[0];
    let compared = on_a_model();
    let estimators: Vec<Algorithm> = compared.iter().map(|(estimator, _)| *estimator).collect();
    let mut rows = Vec::new();
    for behaviour in behaviours {
        let (estimates, ess) = measure(policy, plan, behaviour, &estimators, watch)?;
        let course = (&behaviour.name[..], behaviour.staleness);
        rows.extend(compared.iter().zip(&estimates).map(|(setting, estimates)| {
            let products = estimates.products(gradient);
            Row::new(course, *setting, plan.group_size, &products, ess)
        }));
    }
    let groups = models.iter().flat_map(|it| &it.groups);
    let masked = groups.map(|group| group.samples.len() - group.counts().judged);
    Ok(Sampled {
        model: own.name.clone(),
        plan: plan.clone(),
        prompts: own.groups.len(),
        masked: masked.sum(),
        norm: gradient.square().max(0.0).sqrt(),
        rows,
    })
}

/// The estimates of ∇J by one estimator, as sums of sketches.
#[derive(Debug, Clone, Default)]
struct Estimates {
    rounds: f64,
    /// Σ x over the rounds' mean estimates.
    sum: Vec<f64>,
    /// Σ |x|².
    squares: f64,
    groups: f64,
    /// Σ |ĝ|² over the groups.
    group_squares: f64,
}

/// The estimates by each estimator from the groups that one model sampled, and the effective sample size of the importance weights. A group with fewer than two judged
/// completions is left out.
fn measure(
    policy: &dyn Policy,
    plan: &StudyPlan,
    behaviour: &Behaviour,
    estimators: &[Algorithm],
    watch: Watch<'_>,
) -> Result<(Vec<Estimates>, f64), StudyError> {
    let sketch = CountSketch {
        size: SKETCH,
        seed: plan.seed,
    };
    let none = Estimates {
        sum: vec![0.0; SKETCH],
        ..Estimates::default()
    };
    let mut all = vec![none; estimators.len()];
    let mut weights: Vec<f64> = Vec::new();
    let prompts = &behaviour.groups;
    let rounds = prompts[0].samples.len() / plan.group_size;
    for round in 0..rounds {
        let mut sums = vec![vec![0.0; SKETCH]; estimators.len()];
        let mut counted = 0.0;
        for (number, prompt) in prompts.iter().enumerate() {
            let done = round * prompts.len() + number;
            watch(&behaviour.name, done, rounds * prompts.len());
            let group = SampledGroup {
                prompt: prompt.prompt.clone(),
                samples: prompt.samples[round * plan.group_size..][..plan.group_size].to_vec(),
            };
            if group.counts().judged < 2 {
                continue;
            }
            counted += 1.0;
            let stats = policy.score(vec![group.trained_group()], plan.temperature)?;
            let samples = stats.iter().zip(&group.samples);
            let samples = samples.map(|(it, old)| sample(&it.logp, &old.logp, old.judged.reward));
            let samples: Vec<algo::Sample<'_>> = samples.collect();
            let ells = samples.iter().map(log_weight);
            weights.extend(ells.map(|ell| ell.min(MAX_LOG_WEIGHT).exp()));
            let dlogp = |it| Ok(gradient(it, slice::from_ref(&samples), plan.max_tokens)?.dlogp);
            let dlogp: Result<Vec<_>, AlgoError> = estimators.iter().map(dlogp).collect();
            let dlogp = dlogp?;
            let sketches = policy.sketch(
                vec![group.trained_group()],
                plan.temperature,
                Box::new(move |_| Ok(dlogp)),
                sketch,
            )?;
            for ((estimates, sum), sketch) in all.iter_mut().zip(&mut sums).zip(sketches) {
                // The sketches are gradients of L = −J.
                let estimate: Vec<f64> = sketch.into_iter().map(|x| -f64::from(x)).collect();
                estimates.groups += 1.0;
                estimate
                    .iter()
                    .for_each(|x| estimates.group_squares += x * x);
                *sum = plus(sum, 1.0, &estimate);
            }
        }
        for (estimates, sum) in all.iter_mut().zip(sums).filter(|_| counted > 0.0) {
            let mean: Vec<f64> = sum.into_iter().map(|x| x / counted).collect();
            estimates.rounds += 1.0;
            estimates.squares += dot(&mean, &mean);
            estimates.sum = plus(&estimates.sum, 1.0, &mean);
        }
    }
    let sum: f64 = weights.iter().sum();
    let ess = ratio(sum * sum, weights.len() as f64 * dot(&weights, &weights));
    Ok((all, ess))
}

impl Estimates {
    /// |E ĝ|².
    fn square(&self) -> f64 {
        let pairs = self.rounds * (self.rounds - 1.0);
        ratio(dot(&self.sum, &self.sum) - self.squares, pairs)
    }

    /// The expected square of the noise in the mean estimate.
    fn noise(&self) -> f64 {
        let with_noise = ratio(dot(&self.sum, &self.sum), self.rounds * self.rounds);
        (with_noise - self.square()).max(0.0)
    }

    fn products(&self, gradient: &Self) -> Products {
        let pairs = self.rounds * gradient.rounds;
        Products {
            gradient: gradient.square(),
            mean: self.square(),
            cross: ratio(dot(&self.sum, &gradient.sum), pairs),
            variance: ratio(self.group_squares, self.groups) - self.square(),
            noise: self.noise() + gradient.noise(),
        }
    }
}

#[cfg(test)]
mod tests;
