//! The divergence between policies, a token at a time.

use super::{Sample, weight};

/// k3 = r − 1 − log r, which is never negative; its mean over tokens that p drew estimates KL(p‖q) where r = q/p (Schulman 2020, "Approximating KL divergence").
pub(super) fn k3(log_ratio: f64) -> f64 {
    weight::weight(log_ratio) - 1.0 - log_ratio
}

/// The term −β k3 with r = π_ref/π of each token, as GRPO has it (Shao et al. 2024, Eq. 4): what it adds to J, and to what multiplies ∇ log π(yₜ), β (r − 1).
/// `None` where the sample has no reference or β is 0.
pub(super) fn penalty<'a>(
    beta: f64,
    sample: &Sample<'a>,
) -> Option<impl Iterator<Item = (f64, f64)> + 'a> {
    let reference = sample.reference.filter(|_| beta > 0.0)?;
    Some(
        reference
            .iter()
            .zip(sample.new)
            .map(move |(reference, new)| {
                let log_ratio = f64::from(*reference) - f64::from(*new);
                (
                    -beta * k3(log_ratio),
                    beta * (weight::weight(log_ratio) - 1.0),
                )
            }),
    )
}
