//! The baseline that is subtracted from a completion's reward: an estimate of its prompt's value.

use super::{MAX_LOG_WEIGHT, weight};

names! {
    /// The value estimate.
    pub enum Baseline {
        /// b = 0: REINFORCE (Williams 1992).
        None = "none",
        /// The mean reward of the whole mini-batch.
        Batch = "batch",
        /// b = (1/G) Σⱼ Rⱼ over the prompt's group, self included: the paper's Eq. 2.
        Group = "group",
        /// bᵢ = (1/(G−1)) Σ_{j≠i} Rⱼ: only the others, so that b does not depend on the completion itself (RLOO, Kool et al. 2019).
        Loo = "loo",
        /// b = (1/G) Σⱼ w̄ⱼ Rⱼ with w̄ = min(w, η), self included: the paper's Eq. 5.
        WeightedGroup = "weighted-group",
        /// bᵢ = (1/(G−1)) Σ_{j≠i} w̄ⱼ Rⱼ: Eq. 5 over only the others.
        WeightedLoo = "weighted-loo",
        /// bᵢ = Σ_{j≠i} wⱼ² Rⱼ / Σ_{j≠i} wⱼ²: the constant b that minimises E[w² (R − b)²], estimated from only the others. It minimises the variance of w (R − b) ∇log π
        /// where the norm of ∇log π does not depend on w and R (Greensmith et al. 2004 have the norm in both sums). With equal weights it is `Loo`.
        OptimalLoo = "optimal-loo",
    }
}

impl Baseline {
    /// Whether it needs at least two completions with a reward in each group.
    #[must_use]
    pub fn is_of_the_group(self) -> bool {
        !matches!(self, Baseline::None | Baseline::Batch)
    }

    /// Whether it multiplies rewards by min(w, η).
    #[must_use]
    pub fn has_cap(self) -> bool {
        matches!(self, Baseline::WeightedGroup | Baseline::WeightedLoo)
    }

    /// Whether it depends on importance weights.
    #[must_use]
    pub fn has_weights(self) -> bool {
        self.has_cap() || self == Baseline::OptimalLoo
    }

    /// R − b of each completion of a group that has a reward. `group` has `(reward, ℓ)` of each, at least two if the baseline is of the group; `batch` is the mean reward
    /// of the mini-batch.
    pub(super) fn advantages(self, group: &[(f64, f64)], batch: f64, eta: f64) -> Vec<f64> {
        let term = |(reward, ell): &(f64, f64)| match self.has_cap() {
            true => weight::capped(*ell, eta) * reward,
            false => *reward,
        };
        let total: f64 = group.iter().map(term).sum();
        let count = group.len() as f64;
        let advantage = |(own, sample): (usize, &(f64, f64))| match self {
            Baseline::None => sample.0,
            Baseline::Batch => sample.0 - batch,
            Baseline::Group | Baseline::WeightedGroup => sample.0 - total / count,
            Baseline::Loo | Baseline::WeightedLoo => {
                sample.0 - (total - term(sample)) / (count - 1.0)
            }
            Baseline::OptimalLoo => optimal_loo(group, own),
        };
        group.iter().enumerate().map(advantage).collect()
    }
}

/// Rᵢ − bᵢ = Σ_{j≠i} wⱼ² (Rᵢ − Rⱼ) / Σ_{j≠i} wⱼ² of a completion: exactly 0 if all rewards are equal. The squares are divided by the largest of them, so that neither
/// sum overflows or vanishes.
fn optimal_loo(group: &[(f64, f64)], own: usize) -> f64 {
    let others = || {
        let others = group.iter().enumerate().filter(|(j, _)| *j != own);
        others.map(|(_, (reward, ell))| (reward, ell.min(MAX_LOG_WEIGHT)))
    };
    let ells = others().map(|(_, ell)| ell);
    let largest = ells.fold(f64::NEG_INFINITY, f64::max);
    let (mut sum, mut total) = (0.0, 0.0);
    for (reward, ell) in others() {
        let square = (2.0 * (ell - largest)).exp();
        sum += square * (group[own].0 - reward);
        total += square;
    }
    sum / total
}
