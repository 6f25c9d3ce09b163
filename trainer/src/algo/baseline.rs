//! The advantage: the reward minus a baseline, which estimates the prompt's value, and perhaps over the group's standard deviation.

use super::importance_weight::{MAX_LOG_WEIGHT, capped, log_weight};
use super::{Batch, Sample};
use crate::config::algorithm::{Algorithm, Baseline};

/// Added to a standard deviation, so that equal rewards do not divide by 0.
pub const STD_FLOOR: f64 = 1e-4;

impl Baseline {
    /// Rᵢ − bᵢ of each completion with a reward, in a group. Each match arm is a baseline, below its equation and source. `group` has `(reward, ℓ)` of each of them:
    /// at least two if the baseline is of the group. `batch` is the mean reward of the mini-batch.
    pub(super) fn advantages(self, group: &[(f64, f64)], batch: f64, eta: f64) -> Vec<f64> {
        let term = |(reward, ell): &(f64, f64)| match self.has_cap() {
            true => capped(*ell, eta) * reward,
            false => *reward,
        };
        let total: f64 = group.iter().map(term).sum();
        let count = group.len() as f64;
        let advantage = |(own, sample): (usize, &(f64, f64))| match self {
            // b = 0 (REINFORCE, Williams 1992).
            Baseline::None => sample.0,
            // The mean reward of the whole mini-batch.
            Baseline::Batch => sample.0 - batch,
            // b = (1/G) Σⱼ Rⱼ over the prompt's group, self included (the paper's Eq. 2); and b = (1/G) Σⱼ w̄ⱼ Rⱼ with w̄ = min(w, η) (its Eq. 5).
            Baseline::Group | Baseline::WeightedGroup => sample.0 - total / count,
            // bᵢ = (1/(G−1)) Σ_{j≠i} Rⱼ: only the others, so that b does not depend on the completion itself (RLOO, Kool et al. 2019); and Eq. 5 over only the others.
            Baseline::Loo | Baseline::WeightedLoo => {
                sample.0 - (total - term(sample)) / (count - 1.0)
            }
            // bᵢ = Σ_{j≠i} wⱼ² Rⱼ / Σ_{j≠i} wⱼ²: the constant b that minimises E[w² (R − b)²], estimated from only the others. It minimises the variance of w (R − b) ∇log π
            // where the norm of ∇log π does not depend on w and R (Greensmith et al. 2004 have the norm in both sums). With equal weights it is `Loo`.
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

/// Whether each completion's advantage can differ from 0, from the rewards of each group alone. Rewards are compared and not subtracted, so rounding decides nothing.
pub fn has_gradient(algorithm: &Algorithm, groups: &[Vec<Option<f64>>]) -> Vec<Vec<bool>> {
    let batch_differs = differ(groups.iter().flatten());
    let of_group = |group: &Vec<Option<f64>>| {
        let judged = group.iter().flatten();
        let enough = judged.clone().count() >= algorithm.min_rewards();
        let group_differs = differ(group);
        let any = judged.clone().any(|reward| *reward != 0.0);
        let has = |reward: f64| match algorithm.baseline {
            Baseline::None => reward != 0.0,
            Baseline::Batch => batch_differs,
            Baseline::Group | Baseline::Loo | Baseline::OptimalLoo => group_differs,
            // Rewards are weighted here, so the mean equals each of them only if all are 0.
            Baseline::WeightedGroup | Baseline::WeightedLoo => any,
        };
        let has = |reward: &Option<f64>| enough && reward.is_some_and(has);
        group.iter().map(has).collect()
    };
    groups.iter().map(of_group).collect()
}

/// Whether the rewards differ, masked completions aside.
fn differ<'a>(rewards: impl IntoIterator<Item = &'a Option<f64>>) -> bool {
    let mut rewards = rewards.into_iter().flatten();
    let first = rewards.next();
    rewards.any(|reward| Some(reward) != first)
}

/// The advantage of each sample of a group; 0 if it has no gradient. `None` if the group has too few rewards.
pub(super) fn advantages(
    algorithm: &Algorithm,
    group: &[Sample<'_>],
    has_gradient: &[bool],
    batch: &Batch<'_>,
) -> Option<Vec<f64>> {
    let pair = |sample: &Sample<'_>| Some((sample.reward?, log_weight(sample) + sample.padding));
    let judged: Vec<(f64, f64)> = group.iter().filter_map(pair).collect();
    if judged.len() < algorithm.min_rewards() {
        return None;
    }
    let scale = match algorithm.divide_by_std {
        true => standard_deviation(&judged) + STD_FLOOR,
        false => 1.0,
    };
    let baseline = algorithm.baseline;
    let mut judged = baseline
        .advantages(&judged, batch.mean_reward, algorithm.eta)
        .into_iter();
    let advantage = |(sample, has_gradient): (&Sample<'_>, &bool)| {
        let advantage = sample.reward.and_then(|_| judged.next());
        // The difference of equal rewards is rounded, and may not be 0.
        advantage.filter(|_| *has_gradient).unwrap_or(0.0) / scale
    };
    Some(group.iter().zip(has_gradient).map(advantage).collect())
}

/// The standard deviation of a group's rewards, with n − 1 degrees of freedom.
fn standard_deviation(group: &[(f64, f64)]) -> f64 {
    let count = group.len() as f64;
    let mean = group.iter().map(|(reward, _)| reward).sum::<f64>() / count;
    let squares: f64 = group.iter().map(|it| (it.0 - mean).powi(2)).sum();
    (squares / (count - 1.0)).sqrt()
}
