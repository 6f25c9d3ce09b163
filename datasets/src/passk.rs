//! Unbiased Pass@k, and bootstrap intervals over tasks.
//!
//! The samples of one task are correlated, so the bootstrap resamples tasks: an interval shows how the figure would vary with other tasks
//! of the same kind. A comparison of two evaluations on the same tasks is paired: it resamples the differences. Where resampling shows too little, as
//! with tasks that are all wrong, the interval is wider: see [`honest`].
//!
//! Every interval of both programs is computed here, so that one evaluation has one interval wherever it is shown. The seed and the number of
//! resamples are fixed, the order of the tasks does not matter, and below [`MIN_TASKS`] there is no interval.

use serde::{Deserialize, Serialize};

use crate::random::SplitMix;

/// Resamples of every interval.
pub const RESAMPLES: usize = 10_000;

/// With fewer tasks there is no interval, and nothing is concluded: resampling a handful of values says little about other tasks, and
/// resampling one task always gives the same value.
pub const MIN_TASKS: usize = 20;

/// Seed of the bootstrap. It is fixed, so that the same samples always give the same interval.
const SEED: u64 = 0;

/// Numbers of judged and of right samples of one task. Masked samples are in neither.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Samples with a verdict about the completion.
    pub judged: usize,
    /// Judged samples that are right.
    pub correct: usize,
}

impl Counts {
    /// Unbiased Pass@k of this task: the probability that k of its samples, chosen without replacement, include a right one,
    /// 1 − C(n−c, k) / C(n, k) (Chen et al. 2021, Eq. 1), computed as a product so that nothing overflows.
    /// `None` if fewer than k samples were judged: no unbiased estimate exists.
    pub fn pass_at(self, k: usize) -> Option<f64> {
        let (n, c) = (self.judged, self.correct.min(self.judged));
        if k == 0 || n < k {
            return None;
        }
        if n - c < k {
            return Some(1.0);
        }
        let factors = (n - c + 1..=n).map(|i| 1.0 - k as f64 / i as f64);
        Some(1.0 - factors.product::<f64>())
    }
}

/// A mean over tasks, with its 95% percentile bootstrap interval if there are enough tasks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(from = "EstimateRecord", into = "EstimateRecord")]
pub struct Estimate {
    /// The mean over tasks.
    pub mean: f64,
    /// `None` below [`MIN_TASKS`].
    pub interval: Option<Interval>,
    /// Tasks in the mean.
    pub tasks: usize,
}

/// An interval, of 95% unless its maker says otherwise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

impl Interval {
    /// Whether all of it is above zero.
    #[must_use]
    pub fn is_above_zero(self) -> bool {
        self.low > 0.0
    }

    /// Whether all of it is below zero.
    #[must_use]
    pub fn is_below_zero(self) -> bool {
        self.high < 0.0
    }
}

/// An estimate in a file: `low` and `high` are null if there is no interval. Intervals that early builds of 0.1.0 wrote for fewer tasks are dropped.
#[derive(Serialize, Deserialize)]
struct EstimateRecord {
    mean: f64,
    low: Option<f64>,
    high: Option<f64>,
    tasks: usize,
}

impl From<Estimate> for EstimateRecord {
    fn from(estimate: Estimate) -> Self {
        Self {
            mean: estimate.mean,
            low: estimate.interval.map(|interval| interval.low),
            high: estimate.interval.map(|interval| interval.high),
            tasks: estimate.tasks,
        }
    }
}

impl From<EstimateRecord> for Estimate {
    fn from(record: EstimateRecord) -> Self {
        let ends = record.low.zip(record.high);
        Self {
            mean: record.mean,
            interval: ends
                .filter(|_| record.tasks >= MIN_TASKS)
                .map(|(low, high)| {
                    honest(Interval { low, high }, record.mean, record.tasks, SHARE)
                }),
            tasks: record.tasks,
        }
    }
}

/// Pass@k over tasks. Tasks with fewer than k judged samples are left out. `None` if no task remains.
#[must_use]
pub fn pass_at(counts: &[Counts], k: usize) -> Option<Estimate> {
    let values: Vec<f64> = counts.iter().filter_map(|task| task.pass_at(k)).collect();
    bootstrap(values, SHARE)
}

/// Pass@k after − before over pairs of the same task's counts, with its paired interval.
/// Tasks with fewer than k judged samples on either side are left out. `None` if no task remains.
#[must_use]
pub fn paired_difference(before_after: &[(Counts, Counts)], k: usize) -> Option<Estimate> {
    let differences: Vec<f64> = before_after
        .iter()
        .filter_map(|(before, after)| Some(after.pass_at(k)? - before.pass_at(k)?))
        .collect();
    bootstrap(differences, DIFFERENCE)
}

/// The range of a share, and that of a difference of shares.
const SHARE: (f64, f64) = (0.0, 1.0);
const DIFFERENCE: (f64, f64) = (-1.0, 1.0);

/// The interval that resampling `tasks` values between the ends of `range` gave, or a wider one, of 95%, where it shows too little.
///
/// - It has no width, as if all n tasks are wrong: the values agree, and a share w of other tasks may have any other value. w = z² / (n + z²) is the upper end of
///   Wilson's interval (1927) of 0 of n.
/// - It reaches an end of the range, and the mean does not, as if one task of 20 is right: Wilson's interval of the mean. No values with this mean vary more than those
///   that it is for.
#[must_use]
pub fn honest(
    resampled: Interval,
    mean: f64,
    tasks: usize,
    (lowest, highest): (f64, f64),
) -> Interval {
    let (n, range, z) = (tasks as f64, highest - lowest, 1.959_963_984_540_054);
    let (share, other) = ((mean - lowest) / range, z * z / (n + z * z));
    let Interval { low, high } = resampled;
    let (low, high) = if high - low < 1e-9 {
        (share * (1.0 - other), share + other * (1.0 - share))
    } else if (low <= lowest && mean > lowest) || (high >= highest && mean < highest) {
        let middle = (share + z * z / (2.0 * n)) * (1.0 - other);
        let width = z * (share * (1.0 - share) / n + z * z / (4.0 * n * n)).sqrt() * (1.0 - other);
        (middle - width, middle + width)
    } else {
        return resampled;
    };
    Interval {
        low: lowest + low * range,
        high: lowest + high * range,
    }
}

/// The mean with its percentile bootstrap interval. The same values give the same result, on every machine and in any order.
fn bootstrap(mut values: Vec<f64>, range: (f64, f64)) -> Option<Estimate> {
    if values.is_empty() {
        return None;
    }
    // The order of the tasks differs between the two programs.
    values.sort_by(f64::total_cmp);
    let n = values.len();
    let mean = values.iter().sum::<f64>() / n as f64;
    let interval = (n >= MIN_TASKS).then(|| {
        let mut random = SplitMix(SEED);
        let mut means: Vec<f64> = (0..RESAMPLES)
            .map(|_| (0..n).map(|_| values[random.below(n)]).sum::<f64>() / n as f64)
            .collect();
        means.sort_by(f64::total_cmp);
        let resampled = Interval {
            low: percentile(&means, 0.025),
            high: percentile(&means, 0.975),
        };
        honest(resampled, mean, n, range)
    });
    Some(Estimate {
        mean,
        interval,
        tasks: n,
    })
}

/// The text that is printed in place of a missing interval.
#[must_use]
pub fn no_interval(tasks: usize) -> String {
    let s = if tasks == 1 { "" } else { "s" };
    format!("no interval: {tasks} task{s}, and it takes {MIN_TASKS}")
}

/// A share as both programs print it: `18.8%`.
#[must_use]
pub fn percent(share: f64) -> String {
    format!("{:.1}%", 100.0 * share)
}

/// A difference of shares in percentage points, with its sign: `+16.2`, `−1.0`.
#[must_use]
pub fn points(difference: f64) -> String {
    let text = format!("{:+.1}", 100.0 * difference);
    if text == "-0.0" {
        "+0.0".into()
    } else {
        text.replace('-', "\u{2212}")
    }
}

/// The quantile `p`, between 0 and 1, of at least one value, in ascending order; neighbours are interpolated linearly.
#[must_use]
pub fn percentile(sorted: &[f64], p: f64) -> f64 {
    let at = p * (sorted.len() - 1) as f64;
    let (low, high) = (at.floor() as usize, at.ceil() as usize);
    sorted[low] + (sorted[high] - sorted[low]) * (at - low as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn counts(judged: usize, correct: usize) -> Counts {
        Counts { judged, correct }
    }

    #[test]
    fn many_samples_do_not_overflow_and_too_few_give_no_biased_estimate() {
        // C(100000, 50000) has 30,000 digits.
        let value = counts(100_000, 1).pass_at(50_000).unwrap();
        assert!((value - 0.5).abs() < 1e-9, "{value}");
        for (judged, correct, k) in [(7, 7, 8), (0, 0, 1), (4, 1, 0)] {
            assert_eq!(counts(judged, correct).pass_at(k), None);
        }
    }

    #[test]
    fn the_interval_is_about_two_standard_errors_wide() {
        // 100 tasks, half right: the standard error of the mean is 0.05.
        let values = (0..100).map(|i| f64::from(i % 2)).collect();
        let interval = bootstrap(values, SHARE).unwrap().interval.unwrap();
        assert!((interval.low - 0.402).abs() < 0.015, "{interval:?}");
        assert!((interval.high - 0.598).abs() < 0.015, "{interval:?}");
    }

    #[test]
    fn an_interval_has_a_width_even_where_all_tasks_agree() {
        let right = |right: usize, tasks: usize| -> Vec<f64> {
            (0..tasks)
                .map(|task| f64::from(u8::from(task < right)))
                .collect()
        };
        // For shares, statsmodels.stats.proportion.proportion_confint(right, tasks, method="wilson").
        for (values, range, ends) in [
            (right(0, 20), SHARE, ["0.0000", "0.1611"]),
            (right(20, 20), SHARE, ["0.8389", "1.0000"]),
            (right(0, 100), SHARE, ["0.0000", "0.0370"]),
            (right(1, 20), SHARE, ["0.0089", "0.2361"]),
            (right(19, 20), SHARE, ["0.7639", "0.9911"]),
            // A share of 3.84 / 23.84 of other tasks may be right, or wrong.
            (vec![0.5; 20], SHARE, ["0.4194", "0.5806"]),
            (vec![0.0; 20], DIFFERENCE, ["-0.1611", "0.1611"]),
            (vec![-1.0; 20], DIFFERENCE, ["-1.0000", "-0.6777"]),
        ] {
            let found = bootstrap(values, range).unwrap().interval.unwrap();
            assert_eq!([found.low, found.high].map(|end| format!("{end:.4}")), ends);
        }
    }

    #[test]
    fn below_twenty_tasks_there_is_a_mean_and_no_interval() {
        let of = |tasks: usize| pass_at(&vec![counts(4, 1); tasks], 1).unwrap();
        assert_eq!((of(1).mean, of(1).interval), (0.25, None));
        assert_eq!(of(19).interval, None);
        assert!(of(20).interval.is_some());
        let masked = [vec![counts(4, 1); 19], vec![counts(0, 0)]].concat();
        assert_eq!(pass_at(&masked, 1).unwrap(), of(19));
        assert_eq!(pass_at(&[counts(0, 0)], 1), None);
        let pairs = vec![(counts(4, 1), counts(4, 3)); 19];
        assert_eq!(paired_difference(&pairs, 1).unwrap().interval, None);
    }

    #[test]
    fn an_estimate_is_written_with_its_interval_or_with_null() {
        let of = |tasks: usize| pass_at(&vec![counts(4, 1); tasks], 1).unwrap();
        for estimate in [of(20), of(1), pass_at(&[counts(4, 0); 20], 1).unwrap()] {
            let text = serde_json::to_string(&estimate).unwrap();
            assert_eq!(serde_json::from_str::<Estimate>(&text).unwrap(), estimate);
        }
        let null = r#"{"mean":0.25,"low":null,"high":null,"tasks":1}"#;
        assert_eq!(serde_json::to_string(&of(1)).unwrap(), null);
        // As earlier builds of 0.1.0 wrote them.
        let empty = r#"{"mean":0.25,"low":0.25,"high":0.25,"tasks":20}"#;
        assert_eq!(serde_json::from_str::<Estimate>(empty).unwrap(), of(20));
        let old = r#"{"mean":0.25,"low":0.25,"high":0.25,"tasks":1}"#;
        assert_eq!(serde_json::from_str::<Estimate>(old).unwrap(), of(1));
    }

    #[test]
    fn pairing_detects_a_difference_that_the_spread_of_tasks_would_hide() {
        // Every task gains one right sample in eight, or two. The spread between tasks is wide.
        let before: Vec<Counts> = (0..28).map(|i| counts(8, i % 7)).collect();
        let pair = |task: &Counts| (*task, counts(8, task.correct + 1 + task.correct % 2));
        let pairs: Vec<(Counts, Counts)> = before.iter().map(pair).collect();
        let gain = paired_difference(&pairs, 1).unwrap();
        let interval = gain.interval.unwrap();
        assert!((gain.mean - 5.0 / 28.0).abs() < 1e-12);
        assert!(interval.low > 0.125 && interval.high < 0.25, "{interval:?}");
        let unpaired = pass_at(&before, 1).unwrap().interval.unwrap();
        assert!(unpaired.high - unpaired.low > 0.15);
    }

    #[test]
    fn figures_are_written_with_one_decimal_and_their_sign() {
        assert_eq!([0.1875, 1.0].map(percent), ["18.8%", "100.0%"]);
        let written = [0.2951, -0.01, 0.0, -0.0001].map(points);
        assert_eq!(written, ["+29.5", "\u{2212}1.0", "+0.0", "+0.0"]);
    }

    proptest! {
        #[test]
        fn pass_at_k_equals_its_definition_where_the_binomials_fit(n in 1usize..30, c in 0usize..30, k in 1usize..30) {
            prop_assume!(c <= n && k <= n);
            let choose = |n: usize, k: usize| -> f64 {
                if k > n { 0.0 } else { (0..k).map(|i| (n - i) as f64 / (k - i) as f64).product() }
            };
            let expected = 1.0 - choose(n - c, k) / choose(n, k);
            prop_assert!((counts(n, c).pass_at(k).unwrap() - expected).abs() < 1e-9);
        }

        #[test]
        fn pass_at_k_grows_with_right_samples_and_with_k(n in 2usize..200, c in 0usize..199, k in 1usize..199) {
            prop_assume!(c < n && k < n);
            let here = counts(n, c).pass_at(k).unwrap();
            prop_assert!((0.0..=1.0).contains(&here));
            prop_assert!(counts(n, c + 1).pass_at(k).unwrap() >= here - 1e-12);
            prop_assert!(counts(n, c).pass_at(k + 1).unwrap() >= here - 1e-12);
        }

        #[test]
        fn an_interval_contains_the_mean_and_does_not_depend_on_the_order(
            (values, shuffled) in prop::collection::vec(0.0f64..1.0, MIN_TASKS..40)
                .prop_flat_map(|values| (Just(values.clone()), Just(values).prop_shuffle()))
        ) {
            let estimate = bootstrap(values, SHARE).unwrap();
            let interval = estimate.interval.unwrap();
            prop_assert!(interval.low <= estimate.mean + 1e-9 && estimate.mean <= interval.high + 1e-9);
            prop_assert_eq!(estimate, bootstrap(shuffled, SHARE).unwrap());
        }
    }
}
