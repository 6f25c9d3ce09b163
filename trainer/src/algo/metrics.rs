//! What is logged of a step: rewards by group, and how far the policy has moved from the one that sampled.

use serde::{Deserialize, Serialize};

use super::Sample;
use super::weight::{self, MAX_LOG_WEIGHT, log_sum_exp, log_weight};

/// Of one mini-batch. Every number is finite; those of an empty mini-batch are 0.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Metrics {
    /// Completions with a reward: N.
    pub judged: usize,
    /// Completions without one.
    pub masked: usize,
    /// Groups whose judged completions all have reward 1 or more.
    pub groups_right: usize,
    /// Groups whose judged completions all have reward 0 or less.
    pub groups_wrong: usize,
    /// The other groups with at least two judged completions: those that a group baseline learns from.
    pub groups_mixed: usize,
    /// Groups left with fewer than two judged completions, which give no gradient.
    pub groups_left_out: usize,
    /// Mean reward.
    pub reward: f64,
    /// −(1/N) Σᵢ factorᵢ (Rᵢ − bᵢ) Σₜ log π(yₜ): the function whose gradient is taken. Its value says little.
    pub loss: f64,
    /// Mean of ℓ.
    pub ell_mean: f64,
    /// Standard deviation of ℓ.
    pub ell_std: f64,
    /// Staleness: mean of log w̄.
    pub stale_mean_log: f64,
    /// Staleness: mean of |log w̄|.
    pub stale_mean_abs_log: f64,
    /// Staleness: |log of the mean of w̄|, which the authors' script reports in the paper's Table 3.
    pub stale_abs_log_mean: f64,
    /// Share of weights above η.
    pub clip_share: f64,
    /// Completions with ℓ above the largest log-weight that is computed with.
    pub saturated: usize,
    /// Effective sample size (Σ w)² / Σ w², of N.
    pub ess: f64,
    /// k3 estimate of KL(μ‖π) a token: mean of r − 1 − log r, r = π/μ.
    pub kl_behaviour: f64,
}

impl Metrics {
    pub(super) fn of(groups: &[Vec<Sample<'_>>], eta: f64, loss: f64) -> Self {
        let judged: Vec<(&Sample<'_>, f64)> = groups
            .iter()
            .flatten()
            .filter_map(|sample| Some((sample, sample.reward?)))
            .collect();
        let all: usize = groups.iter().map(Vec::len).sum();
        let mut metrics = Self {
            judged: judged.len(),
            masked: all - judged.len(),
            loss,
            ..Self::default()
        };
        for group in groups {
            metrics.count_group(group);
        }
        if !judged.is_empty() {
            let ells: Vec<f64> = judged
                .iter()
                .map(|(sample, _)| log_weight(sample))
                .collect();
            metrics.reward = mean(judged.iter().map(|(_, reward)| *reward));
            metrics.weigh(&ells, eta);
            metrics.kl_behaviour = k3(judged.iter().map(|(sample, _)| *sample));
        }
        metrics
    }

    fn count_group(&mut self, group: &[Sample<'_>]) {
        let rewards: Vec<f64> = group.iter().filter_map(|sample| sample.reward).collect();
        if rewards.len() < 2 {
            self.groups_left_out += 1;
        } else if rewards.iter().all(|reward| *reward >= 1.0) {
            self.groups_right += 1;
        } else if rewards.iter().all(|reward| *reward <= 0.0) {
            self.groups_wrong += 1;
        } else {
            self.groups_mixed += 1;
        }
    }

    fn weigh(&mut self, ells: &[f64], eta: f64) {
        let n = ells.len() as f64;
        let cap = eta.ln();
        let capped = || ells.iter().map(|ell| ell.min(cap));
        self.ell_mean = mean(ells.iter().copied());
        self.ell_std = mean(ells.iter().map(|ell| (ell - self.ell_mean).powi(2))).sqrt();
        self.stale_mean_log = mean(capped());
        self.stale_mean_abs_log = mean(capped().map(f64::abs));
        self.stale_abs_log_mean = (log_sum_exp(capped()) - n.ln()).abs();
        self.clip_share = mean(ells.iter().map(|ell| f64::from(u8::from(*ell > cap))));
        self.saturated = ells.iter().filter(|ell| **ell > MAX_LOG_WEIGHT).count();
        let (once, twice) = (
            log_sum_exp(ells.iter().copied()),
            log_sum_exp(ells.iter().map(|ell| 2.0 * ell)),
        );
        self.ess = (2.0 * once - twice).exp();
    }
}

/// Over all tokens of the completions.
fn k3<'a>(samples: impl Iterator<Item = &'a Sample<'a>>) -> f64 {
    let (mut total, mut tokens) = (0.0, 0usize);
    for sample in samples {
        for (new, behaviour) in sample.new.iter().zip(sample.behaviour) {
            let log_ratio = f64::from(*new) - f64::from(*behaviour);
            total += weight::weight(log_ratio) - 1.0 - log_ratio;
            tokens += 1;
        }
    }
    total / tokens.max(1) as f64
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (mut total, mut count) = (0.0, 0usize);
    for value in values {
        total += value;
        count += 1;
    }
    total / count.max(1) as f64
}
