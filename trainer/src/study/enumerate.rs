//! Expectation and variance of an estimator over all groups that a behaviour policy can sample, by enumeration.
//!
//! An estimator does not depend on the order of a group's completions, so groups are enumerated as multisets. A group of G with counts kᵧ of each completion y stands
//! for G! / Π kᵧ! ordered groups, each with the probability Π μ(y)^kᵧ.

use super::toy::{Completion, MAX_TOKENS, Policy};
use super::{mean_factor, sample};
use crate::algo::{AlgoError, Estimator, gradient};

/// A prompt with its completions and their rewards, under a policy and a behaviour policy.
pub(super) struct Case<'a> {
    completions: &'a [Completion],
    rewards: &'a [f64],
    /// log π, in the layout of the logits.
    policy: Vec<f64>,
    /// log π of each completion's tokens, in the trainer's precision.
    new: Vec<Vec<f32>>,
    /// log μ of each completion's tokens, in the trainer's precision.
    behaviour: Vec<Vec<f32>>,
    /// log μ(y) of each completion.
    behaviour_logp: Vec<f64>,
    /// ℓ of each completion.
    ell: Vec<f64>,
}

/// Exact mean and variance of an estimator on groups of one prompt.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Moments {
    /// E ĝ, the estimate of ∇J.
    pub(super) mean: Vec<f64>,
    /// Trace of ĝ's variance.
    pub(super) variance: f64,
}

/// The distance of a behaviour policy from the policy.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Distance {
    /// KL(μ‖π) of a completion, in nats.
    pub(super) kl: f64,
    /// E |ℓ|.
    pub(super) abs_ell: f64,
    /// E w².
    pub(super) square_weight: f64,
}

impl<'a> Case<'a> {
    pub(super) fn new(
        completions: &'a [Completion],
        rewards: &'a [f64],
        policy: &Policy,
        behaviour: &Policy,
    ) -> Self {
        let (policy, behaviour) = (policy.log_probabilities(), behaviour.log_probabilities());
        let per_completion = |logp: &[f64]| -> Vec<Vec<f64>> {
            let each = completions.iter();
            each.map(|c| c.log_probabilities(logp)).collect()
        };
        let single_precision = |all: &[Vec<f64>]| -> Vec<Vec<f32>> {
            let each = all.iter();
            each.map(|tokens| tokens.iter().map(|x| *x as f32).collect())
                .collect()
        };
        let (new, old) = (per_completion(&policy), per_completion(&behaviour));
        let total = |tokens: &Vec<f64>| tokens.iter().sum::<f64>();
        Self {
            completions,
            rewards,
            behaviour_logp: old.iter().map(total).collect(),
            ell: new
                .iter()
                .zip(&old)
                .map(|(a, b)| total(a) - total(b))
                .collect(),
            new: single_precision(&new),
            behaviour: single_precision(&old),
            policy,
        }
    }

    /// Mean and variance of the estimate from one group of `size` completions.
    pub(super) fn moments(&self, estimator: &Estimator, size: usize) -> Result<Moments, AlgoError> {
        let mut mean = vec![0.0; self.policy.len()];
        let mut square = 0.0;
        let mut failed = None;
        multisets(self.completions.len(), size, &mut |group| {
            if failed.is_some() {
                return;
            }
            match self.estimate(estimator, group) {
                Ok(estimate) => {
                    let logp: f64 = group.iter().map(|y| self.behaviour_logp[*y]).sum();
                    let probability = orders(group) * logp.exp();
                    for (mean, g) in mean.iter_mut().zip(&estimate) {
                        *mean += probability * g;
                    }
                    square += probability * estimate.iter().map(|g| g * g).sum::<f64>();
                }
                Err(error) => failed = Some(error),
            }
        });
        match failed {
            Some(error) => Err(error),
            None => Ok(Moments {
                variance: (square - mean.iter().map(|g| g * g).sum::<f64>()).max(0.0),
                mean,
            }),
        }
    }

    /// The estimate of ∇J from one group, from training's own `dL/dlogp` with the opposite sign, since L = −J.
    fn estimate(&self, estimator: &Estimator, group: &[usize]) -> Result<Vec<f64>, AlgoError> {
        let samples = group
            .iter()
            .map(|y| sample(&self.new[*y], &self.behaviour[*y], Some(self.rewards[*y])));
        let result = gradient(estimator, &[samples.collect()], MAX_TOKENS)?;
        let terms: Vec<Vec<f64>> = result
            .dlogp
            .iter()
            .map(|tokens| tokens.iter().map(|d| -f64::from(*d)).collect())
            .collect();
        let pairs = group.iter().zip(&terms);
        Ok(Policy::gradient(
            &self.policy,
            pairs.map(|(y, terms)| (&self.completions[*y], terms.as_slice())),
        ))
    }

    /// E f and E f² of the factor that training gives each completion, or of the mean over its tokens if each has its own. Where the factor depends on the sign of the
    /// advantage, the sign is that of the reward minus `value`.
    pub(super) fn factor(
        &self,
        estimator: &Estimator,
        value: f64,
    ) -> Result<(f64, f64), AlgoError> {
        let (mut mean, mut square) = (0.0, 0.0);
        for y in 0..self.completions.len() {
            let sign = if self.rewards[y] > value { 1.0 } else { -1.0 };
            let (new, behaviour) = (&self.new[y], &self.behaviour[y]);
            let factor = mean_factor(estimator, new, behaviour, sign, MAX_TOKENS)?;
            mean += self.behaviour_logp[y].exp() * factor;
            square += self.behaviour_logp[y].exp() * factor * factor;
        }
        Ok((mean, square))
    }

    pub(super) fn distance(&self) -> Distance {
        let mut distance = Distance::default();
        for (logp, ell) in self.behaviour_logp.iter().zip(&self.ell) {
            let probability = logp.exp();
            distance.kl -= probability * ell;
            distance.abs_ell += probability * ell.abs();
            distance.square_weight += probability * (2.0 * ell).exp();
        }
        distance
    }
}

/// Calls `each` with every multiset of `size` numbers below `n`, in order.
fn multisets(n: usize, size: usize, each: &mut impl FnMut(&[usize])) {
    let mut group = vec![0; size];
    loop {
        each(&group);
        // Increases the last element that can still grow, and sets all elements after it to the same value.
        let Some(position) = group.iter().rposition(|y| *y + 1 < n) else {
            return;
        };
        let next = group[position] + 1;
        group[position..].fill(next);
    }
}

/// G! / Π kᵧ!: the number of orders of a multiset.
fn orders(group: &[usize]) -> f64 {
    let (mut orders, mut run) = (1.0, 0.0);
    for (position, y) in group.iter().enumerate() {
        run = if position > 0 && group[position - 1] == *y {
            run + 1.0
        } else {
            1.0
        };
        orders *= (position + 1) as f64 / run;
    }
    orders
}

#[cfg(test)]
pub(super) mod tests;
