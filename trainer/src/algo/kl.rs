//! The KL divergence between policies, estimated for each token.

use super::{Sample, weight};

/// k3 = r − 1 − log r, which is never negative. Its mean over tokens sampled from p estimates KL(p‖q), with r = q/p (Schulman 2020, "Approximating KL divergence").
pub(super) fn k3(log_ratio: f64) -> f64 {
    weight::weight(log_ratio) - 1.0 - log_ratio
}

/// GRPO's KL term, −β k3 with r = π_ref/π (Shao et al. 2024, Eq. 4), for each token: the value that it adds to J, and β (r − 1), which it adds to the coefficient of
/// ∇ log π(yₜ). `None` if the sample has no reference or β is 0.
pub(super) fn penalty<'a>(
    beta: f64,
    sample: &Sample<'a>,
) -> Option<impl Iterator<Item = (f64, f64)> + 'a> {
    let reference = sample.reference.filter(|_| beta > 0.0)?;
    let log_ratios = log_ratios(reference, sample.new);
    Some(log_ratios.map(move |it| (-beta * k3(it), beta * (weight::weight(it) - 1.0))))
}

/// log `π_ref/π` of each token.
pub(super) fn log_ratios<'a>(
    reference: &'a [f32],
    new: &'a [f32],
) -> impl Iterator<Item = f64> + use<'a> {
    let pairs = reference.iter().zip(new);
    pairs.map(|(reference, new)| f64::from(*reference) - f64::from(*new))
}
