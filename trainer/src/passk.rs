//! Pass@k without bias, and bootstrap intervals over tasks.
//!
//! The samples of one task are alike, so what is resampled is the task: an interval says how the figure would move with other tasks
//! of the same kind. A comparison of two evaluations on the same tasks is paired: it resamples the differences.

use serde::{Deserialize, Serialize};

/// Resamples behind every interval.
pub const RESAMPLES: usize = 10_000;

/// How many samples of one task were judged, and how many were right. Masked samples are in neither.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Samples with a verdict about the completion.
    pub judged: usize,
    /// Those that were right.
    pub correct: usize,
}

impl Counts {
    /// Unbiased Pass@k of this task: the chance that k of its samples, drawn without replacement, hold a right one,
    /// 1 − C(n−c, k) / C(n, k) (Chen et al. 2021, Eq. 1), as a product so that nothing overflows.
    /// `None` where fewer than k samples were judged: no unbiased estimate exists.
    pub fn pass_at(self, k: usize) -> Option<f64> {
        let (n, c) = (self.judged, self.correct.min(self.judged));
        if k == 0 || n < k {
            return None;
        }
        if n - c < k {
            return Some(1.0);
        }
        Some(
            1.0 - (n - c + 1..=n)
                .map(|i| 1.0 - k as f64 / i as f64)
                .product::<f64>(),
        )
    }
}

/// A figure with its 95% interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The mean over tasks.
    pub mean: f64,
    /// 2.5th percentile of the resampled means.
    pub low: f64,
    /// 97.5th percentile of the resampled means.
    pub high: f64,
    /// Tasks that count towards it.
    pub tasks: usize,
}

/// Pass@k over tasks with its interval; tasks with fewer than k judged samples are left out. `None` where none is left.
pub fn pass_at(counts: &[Counts], k: usize, seed: u64) -> Option<Estimate> {
    let values: Vec<f64> = counts.iter().filter_map(|task| task.pass_at(k)).collect();
    bootstrap(&values, seed)
}

/// Pass@k after − before over the same tasks, in the same order, with its paired interval.
/// Tasks with fewer than k judged samples on either side are left out. `None` where none is left.
///
/// # Panics
/// Where the two slices differ in length: they are not the same tasks.
pub fn paired_difference(
    before: &[Counts],
    after: &[Counts],
    k: usize,
    seed: u64,
) -> Option<Estimate> {
    assert_eq!(
        before.len(),
        after.len(),
        "a paired comparison needs the same tasks on both sides"
    );
    let differences: Vec<f64> = before
        .iter()
        .zip(after)
        .filter_map(|(b, a)| Some(a.pass_at(k)? - b.pass_at(k)?))
        .collect();
    bootstrap(&differences, seed)
}

/// Percentile bootstrap of the mean: the same values and seed give the same interval on every machine.
pub fn bootstrap(values: &[f64], seed: u64) -> Option<Estimate> {
    if values.is_empty() {
        return None;
    }
    let n = values.len();
    let mut random = SplitMix(seed);
    let mut means: Vec<f64> = (0..RESAMPLES)
        .map(|_| (0..n).map(|_| values[random.below(n)]).sum::<f64>() / n as f64)
        .collect();
    means.sort_by(f64::total_cmp);
    Some(Estimate {
        mean: values.iter().sum::<f64>() / n as f64,
        low: percentile(&means, 0.025),
        high: percentile(&means, 0.975),
        tasks: n,
    })
}

/// Of sorted values, with linear interpolation between neighbours.
fn percentile(sorted: &[f64], p: f64) -> f64 {
    let at = p * (sorted.len() - 1) as f64;
    let (low, high) = (at.floor() as usize, at.ceil() as usize);
    sorted[low] + (sorted[high] - sorted[low]) * (at - low as f64)
}

/// SplitMix64 (Steele, Lea & Flood 2014): enough for resampling, and the same everywhere.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number in `0..n`; the bias of the multiplication is below 2⁻⁴⁰ for any number of tasks.
    fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next()) * n as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn counts(judged: usize, correct: usize) -> Counts {
        Counts { judged, correct }
    }

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-12
    }

    #[test]
    fn agrees_with_values_worked_by_hand() {
        // 1 − C(3,2)/C(5,2) = 1 − 3/10
        assert!(close(counts(5, 2).pass_at(2).unwrap(), 0.7));
        // 1 − C(6,4)/C(8,4) = 1 − 15/70
        assert!(close(counts(8, 2).pass_at(4).unwrap(), 55.0 / 70.0));
        // Pass@1 is the share of right samples.
        assert!(close(counts(8, 3).pass_at(1).unwrap(), 0.375));
        // Fewer wrong samples than k: every draw holds a right one.
        assert_eq!(counts(8, 5).pass_at(4), Some(1.0));
        assert_eq!(counts(8, 0).pass_at(8), Some(0.0));
        assert_eq!(counts(8, 1).pass_at(8), Some(1.0));
    }

    #[test]
    fn too_few_samples_give_no_estimate_instead_of_a_biased_one() {
        assert_eq!(counts(7, 7).pass_at(8), None);
        assert_eq!(counts(0, 0).pass_at(1), None);
        assert_eq!(counts(4, 1).pass_at(0), None);
    }

    #[test]
    fn stays_exact_where_the_binomials_overflow() {
        // C(100000, 50000) has 30,000 digits.
        let value = counts(100_000, 1).pass_at(50_000).unwrap();
        assert!((value - 0.5).abs() < 1e-9, "{value}");
    }

    #[test]
    fn the_mean_over_tasks_leaves_out_tasks_that_were_masked_below_k() {
        let tasks = [counts(8, 4), counts(8, 0), counts(0, 0)];
        let estimate = pass_at(&tasks, 1, 0).unwrap();
        assert!(close(estimate.mean, 0.25));
        assert_eq!(estimate.tasks, 2);
        assert_eq!(pass_at(&[counts(0, 0)], 1, 0), None);
    }

    #[test]
    fn the_interval_is_about_two_standard_errors_wide() {
        // 100 tasks, half right: the standard error of the mean is 0.05.
        let values: Vec<f64> = (0..100).map(|i| f64::from(i % 2)).collect();
        let estimate = bootstrap(&values, 7).unwrap();
        assert!((estimate.low - 0.402).abs() < 0.015, "{estimate:?}");
        assert!((estimate.high - 0.598).abs() < 0.015, "{estimate:?}");
    }

    #[test]
    fn pairing_sees_a_difference_that_the_tasks_spread_would_hide() {
        // Every task gains one sample in eight, on top of a wide spread between tasks.
        let before: Vec<Counts> = (0..28).map(|i| counts(8, i % 8)).collect();
        let after: Vec<Counts> = before.iter().map(|t| counts(8, t.correct + 1)).collect();
        let gain = paired_difference(&before, &after, 1, 0).unwrap();
        assert!(close(gain.mean, 0.125));
        assert!(close(gain.low, 0.125) && close(gain.high, 0.125));
        let unpaired = pass_at(&before, 1, 0).unwrap();
        assert!(unpaired.high - unpaired.low > 0.15);
    }

    proptest! {
        #[test]
        fn equals_the_definition_where_the_binomials_fit(n in 1usize..30, c in 0usize..30, k in 1usize..30) {
            prop_assume!(c <= n && k <= n);
            let choose = |n: usize, k: usize| -> f64 {
                if k > n { 0.0 } else { (0..k).map(|i| (n - i) as f64 / (k - i) as f64).product() }
            };
            let expected = 1.0 - choose(n - c, k) / choose(n, k);
            prop_assert!((counts(n, c).pass_at(k).unwrap() - expected).abs() < 1e-9);
        }

        #[test]
        fn grows_with_right_samples_and_with_k(n in 2usize..200, c in 0usize..199, k in 1usize..199) {
            prop_assume!(c < n && k < n);
            let here = counts(n, c).pass_at(k).unwrap();
            prop_assert!((0.0..=1.0).contains(&here));
            prop_assert!(counts(n, c + 1).pass_at(k).unwrap() >= here - 1e-12);
            prop_assert!(counts(n, c).pass_at(k + 1).unwrap() >= here - 1e-12);
        }

        #[test]
        fn an_interval_holds_the_mean_and_is_the_same_each_time(values in prop::collection::vec(0.0f64..1.0, 1..12), seed: u64) {
            let estimate = bootstrap(&values, seed).unwrap();
            prop_assert!(estimate.low <= estimate.mean + 1e-9 && estimate.mean <= estimate.high + 1e-9);
            prop_assert_eq!(estimate, bootstrap(&values, seed).unwrap());
        }
    }
}
