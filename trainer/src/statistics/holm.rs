//! Holm's correction for several comparisons.

/// The p-values of a family, corrected by Holm's step-down method (Holm 1979), in the given order. The i-th smallest of m is multiplied by m − i + 1, and none is
/// below a smaller one's. Refusing those that are at most α keeps the probability of any false refusal at most α, however the tests depend on each other.
pub(crate) fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|a, b| p_values[*a].total_cmp(&p_values[*b]));
    let mut corrected = vec![0.0; p_values.len()];
    let mut highest: f64 = 0.0;
    for (rank, index) in order.into_iter().enumerate() {
        let factor = (p_values.len() - rank) as f64;
        highest = highest.max(factor * p_values[index]).min(1.0);
        corrected[index] = highest;
    }
    corrected
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corrected_values_are_those_of_statsmodels_and_none_exceeds_one() {
        // multipletests([0.01, 0.04, 0.03, 0.005, 0.5, 0.02], method="holm")
        let corrected = holm(&[0.01, 0.04, 0.03, 0.005, 0.5, 0.02]);
        let expected = [0.05, 0.09, 0.09, 0.03, 0.5, 0.08];
        for (corrected, expected) in corrected.iter().zip(expected) {
            assert!((corrected - expected).abs() < 1e-12, "{corrected}");
        }
        assert_eq!(holm(&[0.03]), [0.03]);
        assert_eq!(holm(&[0.9, 0.8]), [1.0, 1.0]);
        assert!(holm(&[]).is_empty());
    }
}
