//! Pass@k without bias, with a bootstrap interval over tasks.

use serde::Serialize;

/// Resamples behind an interval.
const RESAMPLES: usize = 2_000;

/// How many samples of one task were judged, and how many were right. Unavailable verdicts are in neither.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Samples with a verdict about the completion.
    pub judged: usize,
    /// Those that were right.
    pub correct: usize,
}

/// A mean over tasks with its 95% interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// 2.5th percentile of the resampled means.
    pub low: f64,
    /// 97.5th percentile.
    pub high: f64,
    /// Tasks with at least k judged samples: those that the mean is over.
    pub tasks: usize,
}

/// The chance that k of the task's samples, drawn without replacement, hold a right one: 1 − C(n−c, k) / C(n, k) (Chen et al. 2021,
/// Eq. 1). `None` where fewer than k were judged.
#[must_use]
pub fn of_task(counts: Counts, k: usize) -> Option<f64> {
    let Counts {
        judged: n,
        correct: c,
    } = counts;
    if k == 0 || n < k || c > n {
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

/// Pass@k over tasks. `None` where no task has k judged samples. The same counts give the same interval.
#[must_use]
pub fn estimate(counts: &[Counts], k: usize) -> Option<Estimate> {
    let values: Vec<f64> = counts.iter().filter_map(|task| of_task(*task, k)).collect();
    if values.is_empty() {
        return None;
    }
    let mean = |sum: f64| sum / values.len() as f64;
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut means: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            mean(
                (0..values.len())
                    .map(|_| values[random.below(values.len())])
                    .sum(),
            )
        })
        .collect();
    means.sort_by(f64::total_cmp);
    Some(Estimate {
        mean: mean(values.iter().sum()),
        low: means[RESAMPLES / 40],
        high: means[RESAMPLES - 1 - RESAMPLES / 40],
        tasks: values.len(),
    })
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        // The high half of the product: a number below the bound.
        ((u128::from(z) * bound as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn counts(judged: usize, correct: usize) -> Counts {
        Counts { judged, correct }
    }

    #[test]
    fn pass_at_one_is_the_share_of_right_samples() {
        assert!((of_task(counts(8, 2), 1).unwrap() - 0.25).abs() < 1e-12);
    }

    #[test]
    fn pass_at_k_counts_the_draws_without_a_right_one() {
        // 1 − C(6, 4) / C(8, 4) = 1 − 15/70.
        assert!((of_task(counts(8, 2), 4).unwrap() - (1.0 - 15.0 / 70.0)).abs() < 1e-12);
        assert_eq!(of_task(counts(8, 5), 4), Some(1.0));
        assert_eq!(of_task(counts(3, 3), 4), None);
        assert_eq!(of_task(counts(8, 0), 8), Some(0.0));
    }

    #[test]
    fn the_interval_holds_the_mean_and_narrows_with_more_tasks() {
        let tasks = |n: usize| (0..n).map(|i| counts(1, i % 2)).collect::<Vec<_>>();
        let few = estimate(&tasks(20), 1).unwrap();
        let many = estimate(&tasks(2_000), 1).unwrap();
        assert!(few.low < 0.5 && 0.5 < few.high && few.tasks == 20);
        assert!(many.high - many.low < (few.high - few.low) / 5.0);
        assert_eq!(estimate(&[], 1), None);
    }

    proptest! {
        #[test]
        fn pass_at_k_is_a_chance_that_grows_with_k(judged in 1_usize..60, correct in 0_usize..60) {
            let task = counts(judged, correct.min(judged));
            let values: Vec<f64> = (1..=judged).filter_map(|k| of_task(task, k)).collect();
            prop_assert!(values.iter().all(|value| (0.0..=1.0 + 1e-12).contains(value)));
            prop_assert!(values.windows(2).all(|pair| pair[1] >= pair[0] - 1e-12));
        }
    }
}
