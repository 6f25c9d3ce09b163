//! Importance weights w = π/μ of completions and of tokens, in log space, and the cap η on them.

use super::Sample;

/// The largest ℓ that weights are computed with: weights are at most e³⁰ ≈ 10¹³, so that a gradient in f32 stays finite. A completion with a larger ℓ is counted as
/// saturated, which no healthy run has.
pub const MAX_LOG_WEIGHT: f64 = 30.0;

/// How often the interval of the bisection is halved; the last interval is far narrower than f64 can resolve.
const HALVINGS: usize = 60;

/// ℓ = Σₜ (log π(yₜ) − log μ(yₜ)), summed in f64.
pub fn log_weight(sample: &Sample<'_>) -> f64 {
    log_ratios(sample).sum()
}

/// log π(yₜ) − log μ(yₜ) of each token.
pub(super) fn log_ratios<'a>(sample: &Sample<'a>) -> impl Iterator<Item = f64> + use<'a> {
    difference(sample.new, sample.behaviour)
}

/// log p(yₜ) − log q(yₜ) of each token, from log p and log q.
pub(super) fn difference<'a>(p: &'a [f32], q: &'a [f32]) -> impl Iterator<Item = f64> + use<'a> {
    p.iter().zip(q).map(|(p, q)| f64::from(*p) - f64::from(*q))
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

/// The cap on weights: η if `share` is 0. Else it is the largest cap from 1 to η at which the effective sample size is at least that share of the number of weights.
/// If no cap has it, it is 1.
pub(super) fn adaptive_cap(ells: &[f64], eta: f64, share: f64) -> f64 {
    // The effective sample size never rises with the cap: a larger cap only moves the largest weights further from the others.
    let enough = |cap: f64| {
        let (mut once, mut twice) = (0.0, 0.0);
        for ell in ells {
            let weight = capped(*ell, cap);
            once += weight;
            twice += weight * weight;
        }
        // If all weights vanish, no cap helps.
        once * once >= share * ells.len() as f64 * twice
    };
    if share <= 0.0 || enough(eta) {
        return eta;
    }
    let largest = ells.iter().copied().fold(0.0, f64::max);
    let (mut low, mut high) = (0.0, largest.min(MAX_LOG_WEIGHT).min(eta.ln()));
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        if enough(middle.exp()) {
            low = middle;
        } else {
            high = middle;
        }
    }
    low.exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ess(ells: &[f64], cap: f64) -> f64 {
        let weights: Vec<f64> = ells.iter().map(|ell| ell.exp().min(cap)).collect();
        weights.iter().sum::<f64>().powi(2) / weights.iter().map(|w| w * w).sum::<f64>()
    }

    #[test]
    fn the_cap_is_the_largest_that_reaches_the_effective_sample_size() {
        // Weights 1, 1, 1, 8. With the cap c their effective size is (3 + c)² / (3 + c²), which is 3.6 at c = 1.9282…
        let ells = [0.0, 0.0, 0.0, 8.0_f64.ln()];
        let cap = adaptive_cap(&ells, 4.0, 0.9);
        assert!((ess(&ells, cap) - 3.6).abs() < 1e-9, "{cap}");
        assert!(cap > 1.0 && cap < 4.0);
    }

    #[test]
    fn the_cap_is_eta_if_the_weights_are_even_and_never_below_one() {
        const NONE: f64 = f64::INFINITY;
        for (ells, eta, share, cap) in [
            (&[0.1, -0.1, 0.0][..], 2.0, 0.5, 2.0),
            (&[9.0, -9.0, 0.0], 2.0, 0.0, 2.0),
            (&[0.0, 0.0], NONE, 0.9, NONE),
            (&[], 2.0, 0.9, 2.0),
            // One weight and many that have vanished: no cap can make them even.
            (&[0.0, -50.0, -50.0, -50.0], 2.0, 0.9, 1.0),
            (&[1e4, -1e4, -1e4], NONE, 0.5, 1.0),
        ] {
            assert_eq!(adaptive_cap(ells, eta, share), cap, "{ells:?}");
        }
    }
}
