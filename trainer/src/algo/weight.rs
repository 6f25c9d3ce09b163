//! Importance weights of whole completions, in log space.

use super::Sample;

/// The largest ℓ that weights are computed with: weights are at most e³⁰ ≈ 10¹³, so that a gradient in f32 stays finite. A completion with a larger ℓ is counted as
/// saturated, which no healthy run has.
pub const MAX_LOG_WEIGHT: f64 = 30.0;

/// ℓ = Σₜ (log π(yₜ) − log μ(yₜ)), summed in f64.
#[must_use]
pub fn log_weight(sample: &Sample<'_>) -> f64 {
    sample
        .new
        .iter()
        .zip(sample.behaviour)
        .map(|(new, behaviour)| f64::from(*new) - f64::from(*behaviour))
        .sum()
}

/// w = exp ℓ, at most e^[`MAX_LOG_WEIGHT`].
pub(super) fn weight(ell: f64) -> f64 {
    ell.min(MAX_LOG_WEIGHT).exp()
}

/// w̄ = min(w, η). The paper's Eq. 5 prints "max"; a cap is meant ("importance weight clipping").
pub(super) fn capped(ell: f64, eta: f64) -> f64 {
    weight(ell).min(eta)
}

/// log Σ exp xᵢ without overflow; −∞ if there are no values.
pub(super) fn log_sum_exp(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let largest = values.clone().fold(f64::NEG_INFINITY, f64::max);
    if largest == f64::NEG_INFINITY {
        return largest;
    }
    largest + values.map(|x| (x - largest).exp()).sum::<f64>().ln()
}
