//! The logged numbers of a step: rewards, and how far the policy has moved from the behaviour policy.

use serde::{Deserialize, Serialize};

use super::Batch;
use super::importance_weight::{MAX_LOG_WEIGHT, difference, log_ratios, log_sum_exp};
use super::loss_term::k3;
use crate::config::algorithm::Algorithm;

/// The metrics of one mini-batch. Every number is finite; those of an empty mini-batch are 0.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Metrics {
    /// Completions with a reward: N.
    pub judged: usize,
    /// Completions without one.
    pub masked: usize,
    /// Completions with a reward and with log-probabilities under π: numbers that depend on π are over these. Absent in files of older versions, which measured all
    /// with a reward.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<usize>,
    /// Groups with too few judged completions for a gradient.
    pub groups_left_out: usize,
    /// Mean reward.
    pub reward: f64,
    /// The loss: −Σᵢ Σₜ factorᵢₜ Aᵢ log π(yₜ) / norm, plus β times k3. The update follows its gradient; its value says little.
    pub loss: f64,
    /// Mean of ℓ.
    pub ell_mean: f64,
    /// Standard deviation of ℓ.
    pub ell_std: f64,
    /// Staleness: mean of log w̄.
    pub stale_mean_log: f64,
    /// Staleness: mean of |log w̄|.
    pub stale_mean_abs_log: f64,
    /// Staleness: |log of the mean of w̄|, as the paper's Table 3 has it.
    pub stale_abs_log_mean: f64,
    /// The same over the first quarter of the computed completions, rounded up: the authors' script reports it for the first of four devices. Absent in files of
    /// older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stale_abs_log_mean_quarter: Option<f64>,
    /// The cap on weights: η, or less if it adapts to the effective sample size. It is logged even if neither the factor nor the baseline caps weights, and absent only if η
    /// is infinite.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eta: Option<f64>,
    /// Share of weights above `eta`, whether or not they are capped.
    pub clip_share: f64,
    /// Share of tokens with a ratio outside 1 − ε₋ to 1 + ε₊; absent if the factor does not clip. (PPO's clip removes the gradient of those on the advantage's
    /// side.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clipped_tokens: Option<f64>,
    /// Share of the gradient that the factor's clip or cap removes: 1 − Σ|g| / Σ|g'|, summed over tokens. g is the factor times the advantage over the norm; g' is
    /// the same with neither clip nor cap. The gradient is with respect to log-probabilities, without the divergence from a reference. 0 on policy; absent if the
    /// factor has neither.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clipped_gradient: Option<f64>,
    /// Completions with ℓ above [`MAX_LOG_WEIGHT`].
    pub saturated: usize,
    /// Effective sample size (Σ w)² / Σ w², at most N.
    pub ess: f64,
    /// k3 estimate of KL(μ‖π) per token: the mean of r − 1 − log r, with r = π/μ.
    pub kl_behaviour: f64,
    /// k3 estimate of KL(π‖π_ref) per token: the mean of r − 1 − log r, with r = π_ref/π; absent if there is no reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kl_reference: Option<f64>,
}

impl Metrics {
    /// A number that depends on log-probabilities under π; `None` if none were computed.
    pub fn of_measured(&self, number: fn(&Self) -> f64) -> Option<f64> {
        (self.measured() > 0).then(|| number(self))
    }

    /// Number of completions with log-probabilities under π.
    pub fn measured(&self) -> usize {
        self.measured.unwrap_or(self.judged)
    }

    /// The effective sample size as a fraction of [`Metrics::measured()`].
    pub fn ess_share(&self) -> Option<f64> {
        self.of_measured(|it| it.ess / it.measured() as f64)
    }

    /// The numbers that follow from the completions with a reward; the others are those of an empty mini-batch.
    pub(super) fn of(batch: &Batch<'_>, algorithm: &Algorithm) -> Self {
        let mut metrics = Self {
            judged: batch.judged.len(),
            eta: Some(algorithm.eta).filter(|eta| eta.is_finite()),
            ..Self::default()
        };
        if batch.judged.is_empty() {
            return metrics;
        }
        metrics.reward = batch.mean_reward;
        let measured = batch.ells.len();
        metrics.measured = Some(measured);
        if measured == 0 {
            return metrics;
        }
        let (ells, cap) = (&batch.ells[..], algorithm.eta.ln());
        let capped = || ells.iter().map(|ell| ell.min(cap));
        metrics.ell_mean = mean(ells.iter().copied());
        metrics.ell_std = mean(ells.iter().map(|ell| (ell - metrics.ell_mean).powi(2))).sqrt();
        metrics.stale_mean_log = mean(capped());
        metrics.stale_mean_abs_log = mean(capped().map(f64::abs));
        metrics.stale_abs_log_mean = abs_log_mean(ells, cap);
        let quarter = &ells[..measured.div_ceil(4)];
        metrics.stale_abs_log_mean_quarter = Some(abs_log_mean(quarter, cap));
        metrics.clip_share = mean(ells.iter().map(|ell| f64::from(*ell > cap)));
        metrics.saturated = ells.iter().filter(|ell| **ell > MAX_LOG_WEIGHT).count();
        let log_sum = log_sum_exp(ells.iter().copied());
        let log_sum_of_squares = log_sum_exp(ells.iter().map(|ell| 2.0 * ell));
        metrics.ess = (2.0 * log_sum - log_sum_of_squares).exp();
        let log_ratios = || batch.computed.iter().flat_map(|sample| log_ratios(sample));
        metrics.kl_behaviour = mean(log_ratios().map(k3));
        if algorithm.factor.has_clip() {
            let is_outside = |log_ratio: f64| {
                let ratio = log_ratio.exp();
                f64::from(ratio < 1.0 - algorithm.clip_low || ratio > 1.0 + algorithm.clip_high)
            };
            metrics.clipped_tokens = Some(mean(log_ratios().map(is_outside)));
        }
        let samples = batch.computed.iter();
        let references: Option<Vec<_>> = samples
            .map(|sample| Some(difference(sample.reference?, sample.new)))
            .collect();
        metrics.kl_reference = references.map(|all| mean(all.into_iter().flatten().map(k3)));
        metrics
    }
}

/// |log of the mean of w̄|, from log-weights and the log of the cap.
fn abs_log_mean(ells: &[f64], cap: f64) -> f64 {
    let log_sum = log_sum_exp(ells.iter().map(|ell| ell.min(cap)));
    (log_sum - (ells.len() as f64).ln()).abs()
}

/// The mean; 0 of no values.
pub(super) fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (mut total, mut count) = (0.0, 0usize);
    for value in values {
        total += value;
        count += 1;
    }
    total / count.max(1) as f64
}
