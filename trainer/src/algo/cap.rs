//! A cap on importance weights that adapts to the effective sample size.

use super::weight;

/// How often the interval of the bisection is halved; the last interval is far narrower than f64 can resolve.
const HALVINGS: usize = 60;

/// If `share` is above 0, the largest cap from 1 to η for which the effective sample size of completions with these log-weights is at least that share of their
/// number, or 1 if no cap is large enough. Else η.
pub(super) fn adaptive(ells: &[f64], eta: f64, share: f64) -> f64 {
    // The effective sample size never rises with the cap: a larger cap only moves the largest weights further from the others.
    let enough = |cap: f64| {
        let (mut once, mut twice) = (0.0, 0.0);
        for ell in ells {
            let weight = weight::capped(*ell, cap);
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
    let (mut low, mut high) = (0.0, largest.min(weight::MAX_LOG_WEIGHT).min(eta.ln()));
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
        let cap = adaptive(&ells, 4.0, 0.9);
        assert!((ess(&ells, cap) - 3.6).abs() < 1e-9, "{cap}");
        assert!(cap > 1.0 && cap < 4.0);
    }

    #[test]
    fn the_cap_is_eta_if_the_weights_are_even_or_the_share_is_zero() {
        assert_eq!(adaptive(&[0.1, -0.1, 0.0], 2.0, 0.5), 2.0);
        assert_eq!(adaptive(&[9.0, -9.0, 0.0], 2.0, 0.0), 2.0);
        assert_eq!(adaptive(&[0.0, 0.0], f64::INFINITY, 0.9), f64::INFINITY);
        assert_eq!(adaptive(&[], 2.0, 0.9), 2.0);
    }

    #[test]
    fn the_cap_is_never_below_one() {
        // One weight of 1 and many that have vanished: no cap can make them even.
        let ells = [0.0, -50.0, -50.0, -50.0];
        assert_eq!(adaptive(&ells, 2.0, 0.9), 1.0);
        assert!(adaptive(&[1e4, -1e4, -1e4], f64::INFINITY, 0.5) >= 1.0);
    }
}
