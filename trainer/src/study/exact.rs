//! Expectation and variance of an estimator over all groups that a behaviour policy can draw, by counting them.
//!
//! An estimator does not care for the order of a group's completions, so groups are counted as multisets: a group of G with counts kᵧ of each completion y stands
//! for G! / Π kᵧ! ordered ones, each with the chance Π μ(y)^kᵧ.

use super::toy::{Completion, MAX_TOKENS, Policy};
use super::{mean_factor, sample};
use crate::algo::{AlgoError, Estimator, gradient};

/// A prompt with its completions and their rewards, under a policy and the behaviour policy that samples for it.
pub(super) struct Case<'a> {
    completions: &'a [Completion],
    rewards: &'a [f64],
    /// log π, as laid out in the logits.
    policy: Vec<f64>,
    /// log π and log μ of each completion's tokens, as the trainer sees them.
    new: Vec<Vec<f32>>,
    behaviour: Vec<Vec<f32>>,
    /// log μ(y) of each completion.
    chances: Vec<f64>,
    /// ℓ of each completion.
    ell: Vec<f64>,
}

/// What an estimator does to groups of one prompt, exactly.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Moments {
    /// E ĝ, the estimate of ∇J.
    pub(super) mean: Vec<f64>,
    /// Trace of ĝ's variance.
    pub(super) variance: f64,
}

/// How far a behaviour policy is from the policy.
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
        let of = |logp: &[f64]| -> Vec<Vec<f64>> {
            let each = completions.iter();
            each.map(|c| c.log_probabilities(logp)).collect()
        };
        let single = |all: &[Vec<f64>]| -> Vec<Vec<f32>> {
            let each = all.iter();
            each.map(|one| one.iter().map(|x| *x as f32).collect())
                .collect()
        };
        let (new, old) = (of(&policy), of(&behaviour));
        let total = |one: &Vec<f64>| one.iter().sum::<f64>();
        Self {
            completions,
            rewards,
            chances: old.iter().map(total).collect(),
            ell: new
                .iter()
                .zip(&old)
                .map(|(a, b)| total(a) - total(b))
                .collect(),
            new: single(&new),
            behaviour: single(&old),
            policy,
        }
    }

    /// E and variance of the estimate that one group of `size` gives.
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
                    let log_chance: f64 = group.iter().map(|y| self.chances[*y]).sum();
                    let chance = orders(group) * log_chance.exp();
                    for (mean, g) in mean.iter_mut().zip(&estimate) {
                        *mean += chance * g;
                    }
                    square += chance * estimate.iter().map(|g| g * g).sum::<f64>();
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

    /// The estimate of ∇J from one group: production's own `dL/dlogp`, turned round since L = −J.
    fn estimate(&self, estimator: &Estimator, group: &[usize]) -> Result<Vec<f64>, AlgoError> {
        let samples = group
            .iter()
            .map(|y| sample(&self.new[*y], &self.behaviour[*y], Some(self.rewards[*y])));
        let made = gradient(estimator, &[samples.collect()], MAX_TOKENS)?;
        let terms: Vec<Vec<f64>> = made
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

    /// E f and E f² of the factor that production gives each completion, the mean over its tokens where it has one a token. Where the factor asks whether the
    /// advantage is positive, it is that of the reward over `value`.
    pub(super) fn factor(
        &self,
        estimator: &Estimator,
        value: f64,
    ) -> Result<(f64, f64), AlgoError> {
        let (mut once, mut twice) = (0.0, 0.0);
        for y in 0..self.completions.len() {
            let sign = if self.rewards[y] > value { 1.0 } else { -1.0 };
            let (new, behaviour) = (&self.new[y], &self.behaviour[y]);
            let factor = mean_factor(estimator, new, behaviour, sign, MAX_TOKENS)?;
            once += self.chances[y].exp() * factor;
            twice += self.chances[y].exp() * factor * factor;
        }
        Ok((once, twice))
    }

    pub(super) fn distance(&self) -> Distance {
        let mut distance = Distance::default();
        for (log_chance, ell) in self.chances.iter().zip(&self.ell) {
            let chance = log_chance.exp();
            distance.kl -= chance * ell;
            distance.abs_ell += chance * ell.abs();
            distance.square_weight += chance * (2.0 * ell).exp();
        }
        distance
    }
}

/// Calls `each` with every multiset of `size` of the numbers below `n`, in order.
fn multisets(n: usize, size: usize, each: &mut impl FnMut(&[usize])) {
    let mut group = vec![0; size];
    loop {
        each(&group);
        // The last place that can still grow, and all behind it after it.
        let Some(place) = group.iter().rposition(|y| *y + 1 < n) else {
            return;
        };
        let next = group[place] + 1;
        group[place..].fill(next);
    }
}

/// G! / Π kᵧ!: in how many orders a multiset can be drawn.
fn orders(group: &[usize]) -> f64 {
    let (mut orders, mut run) = (1.0, 0.0);
    for (place, y) in group.iter().enumerate() {
        run = if place > 0 && group[place - 1] == *y {
            run + 1.0
        } else {
            1.0
        };
        orders *= (place + 1) as f64 / run;
    }
    orders
}

#[cfg(test)]
pub(super) mod tests;
