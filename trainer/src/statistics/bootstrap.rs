//! The hierarchical bootstrap over seeds and tasks.

use datasets::passk::{Interval, RESAMPLES, percentile};
use datasets::random::SplitMix;

/// Seed of the generator. It is fixed, so that the same outcomes always give the same intervals.
const SEED: u64 = 0;

/// The outcomes, such as Pass@1, of several arms on the same seeds and tasks.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Outcomes {
    /// By arm, seed and cluster: the sum of the tasks' outcomes.
    sums: Vec<Vec<Vec<f64>>>,
    /// Tasks of each cluster.
    sizes: Vec<f64>,
    /// The means of all arms in each of [`RESAMPLES`] resamples.
    resamples: Vec<Vec<f64>>,
}

impl Outcomes {
    /// Outcomes by arm, seed and task. Every arm has the same seeds in the same order, at least one, and every run the same tasks, at least one. `cluster` has a number
    /// for each task; tasks with the same one are drawn together, since they are right or wrong together.
    ///
    /// # Panics
    /// If a run has another number of tasks than `cluster`, or no task.
    pub(crate) fn new(values: &[Vec<Vec<f64>>], cluster: &[usize]) -> Self {
        let mut numbers: Vec<usize> = cluster.to_vec();
        numbers.sort_unstable();
        numbers.dedup();
        assert!(!numbers.is_empty(), "there are tasks");
        // By cluster, the sum of a number of each task.
        let sums_of = |values: &[f64]| {
            assert_eq!(values.len(), cluster.len(), "every run has every task");
            let mut sums = vec![0.0; numbers.len()];
            for (value, number) in values.iter().zip(cluster) {
                sums[numbers.partition_point(|other| other < number)] += value;
            }
            sums
        };
        let sums = |arm: &Vec<Vec<f64>>| arm.iter().map(|run| sums_of(run)).collect();
        let outcomes = Self {
            sums: values.iter().map(sums).collect(),
            sizes: sums_of(&vec![1.0; cluster.len()]),
            resamples: Vec::new(),
        };
        Self {
            resamples: outcomes.resample(),
            ..outcomes
        }
    }

    pub(crate) fn arms(&self) -> usize {
        self.sums.len()
    }

    /// The mean outcome of an arm, by seed.
    pub(crate) fn by_seed(&self, arm: usize) -> Vec<f64> {
        let once = vec![1.0; self.sizes.len()];
        self.weighted_means(arm, &once)
    }

    /// The mean outcome of an arm over seeds and tasks.
    pub(crate) fn mean(&self, arm: usize) -> f64 {
        let by_seed = self.by_seed(arm);
        by_seed.iter().sum::<f64>() / by_seed.len() as f64
    }

    /// Number of clusters of tasks: the units that are drawn.
    pub(crate) fn clusters(&self) -> usize {
        self.sizes.len()
    }

    /// The mean outcome of an arm by seed, with each cluster counted as often as its weight says.
    fn weighted_means(&self, arm: usize, weights: &[f64]) -> Vec<f64> {
        let dot = |a: &[f64]| -> f64 { a.iter().zip(weights).map(|(a, w)| a * w).sum() };
        let tasks = dot(&self.sizes);
        let runs = self.sums[arm].iter();
        runs.map(|sums| dot(sums) / tasks).collect()
    }

    /// The arms' means in each resample. In each, seeds are drawn with replacement, then clusters of tasks; all arms have the same seeds and tasks, so
    /// differences are paired. The tasks are drawn once for all seeds: every seed is evaluated on the same tasks, so an arm's effect on a task does not average out
    /// over seeds.
    fn resample(&self) -> Vec<Vec<f64>> {
        let seeds = self.sums.first().map_or(0, Vec::len);
        let clusters = self.sizes.len();
        let mut random = SplitMix(SEED);
        let mut resample = || {
            let drawn: Vec<usize> = (0..seeds).map(|_| random.below(seeds)).collect();
            let mut weights = vec![0.0; clusters];
            for _ in 0..clusters {
                weights[random.below(clusters)] += 1.0;
            }
            let mean = |arm| {
                let by_seed = self.weighted_means(arm, &weights);
                drawn.iter().map(|seed| by_seed[*seed]).sum::<f64>() / seeds as f64
            };
            (0..self.sums.len()).map(mean).collect()
        };
        (0..RESAMPLES).map(|_| resample()).collect()
    }

    /// The distribution of a statistic of the arms' means over the resamples.
    pub(crate) fn distribution(&self, statistic: impl Fn(&[f64]) -> f64) -> Distribution {
        let values = self.resamples.iter().map(|means| statistic(means));
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        Distribution(values)
    }
}

/// The values of a statistic over the resamples, in ascending order.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Distribution(Vec<f64>);

impl Distribution {
    /// The percentile interval at this level, such as 0.95.
    pub(crate) fn interval(&self, level: f64) -> Interval {
        Interval {
            low: percentile(&self.0, f64::midpoint(0.0, 1.0 - level)),
            high: percentile(&self.0, f64::midpoint(1.0, level)),
        }
    }

    /// The p-value of the hypothesis that a statistic is 0, against either side: twice the smaller share of resamples beyond 0.
    pub(crate) fn p_two_sided(&self) -> f64 {
        (2.0 * self.p_at_most(0.0).min(self.p_at_least(0.0))).min(1.0)
    }

    /// The p-value of the hypothesis that a statistic is outside of ± `margin`: the larger of two one-sided ones.
    pub(crate) fn p_equivalence(&self, margin: f64) -> f64 {
        self.p_at_most(-margin).max(self.p_at_least(margin))
    }

    /// The share of resamples with at most this value. One is added above and below, so that none is 0 (Davison & Hinkley 1997, Eq. 4.11).
    fn p_at_most(&self, value: f64) -> f64 {
        self.p(self.0.partition_point(|resampled| *resampled <= value))
    }

    fn p_at_least(&self, value: f64) -> f64 {
        self.p(self.0.len() - self.0.partition_point(|resampled| *resampled < value))
    }

    fn p(&self, resamples: usize) -> f64 {
        (resamples + 1) as f64 / (self.0.len() + 1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tasks that are right with this probability in every seed, by a fixed generator.
    fn tasks(share: f64, seeds: usize, tasks: usize, generator: u64) -> Vec<Vec<f64>> {
        let mut random = SplitMix(generator);
        let mut task = || f64::from(u8::from((random.below(1000) as f64) < share * 1000.0));
        let mut run = || -> Vec<f64> { (0..tasks).map(|_| task()).collect() };
        (0..seeds).map(|_| run()).collect()
    }

    /// The 95% interval of a statistic of the arms' means.
    fn interval(arms: &[Vec<Vec<f64>>], cluster: &[usize], of: fn(&[f64]) -> f64) -> Interval {
        Outcomes::new(arms, cluster).distribution(of).interval(0.95)
    }

    #[test]
    fn means_are_over_tasks_then_seeds() {
        let arm = vec![vec![1.0, 0.0, 1.0, 0.0], vec![1.0; 4]];
        let outcomes = Outcomes::new(&[arm], &[0, 0, 7, 7]);
        assert_eq!(outcomes.by_seed(0), [0.5, 1.0]);
        assert_eq!((outcomes.mean(0), outcomes.clusters()), (0.75, 2));
    }

    #[test]
    fn the_spread_adds_seeds_and_clusters_and_arms_are_paired() {
        let alone: Vec<usize> = (0..100).collect();
        let width = |seeds: &[Vec<f64>], cluster: &[usize]| {
            let interval = interval(&[seeds.to_vec()], cluster, |means| means[0]);
            interval.high - interval.low
        };
        // Seeds differ by ± 0.1 on every task, and tasks by ± 0.5. The variance is 0.1²/6 + 0.5²/100 + 0.
        let run =
            |shift: f64| -> Vec<f64> { (0..100).map(|task| f64::from(task % 2) + shift).collect() };
        let seeds = [0.1, -0.1, 0.1, -0.1, 0.1, -0.1].map(run);
        let expected = 2.0 * 1.96 * (0.01_f64 / 6.0 + 0.25 / 100.0).sqrt();
        assert!((width(&seeds, &alone) / expected - 1.0).abs() < 0.05);
        // 25 clusters of 4 equal tasks: the standard error is twice that of 100 tasks.
        let run: Vec<f64> = (0..100).map(|task| f64::from(task / 4 % 2)).collect();
        let together: Vec<usize> = (0..100).map(|task| task / 4).collect();
        let one = std::slice::from_ref(&run);
        let ratio = width(one, &together) / width(one, &alone);
        assert!((ratio - 2.0).abs() < 0.12, "{ratio}");
        // Every task and seed is 0.1 better in the second arm, however much they differ among themselves.
        let first = tasks(0.5, 3, 100, 5);
        let shifted = |run: &Vec<f64>| run.iter().map(|value| value + 0.1).collect();
        let second: Vec<Vec<f64>> = first.iter().map(shifted).collect();
        let interval = interval(&[first, second], &alone, |means| means[1] - means[0]);
        assert!((interval.low - 0.1).abs() < 1e-9 && (interval.high - 0.1).abs() < 1e-9);
    }

    #[test]
    fn a_null_effect_is_refused_as_often_as_the_level_says() {
        let distribution = Distribution((1..=99).map(|i| f64::from(i) / 100.0 - 0.1).collect());
        // 10 of 99 are at most 0.
        assert!((distribution.p_two_sided() - 2.0 * 11.0 / 100.0).abs() < 1e-12);
        // None is at most −0.5, and 40 are at least 0.5.
        assert!((distribution.p_equivalence(0.5) - 41.0 / 100.0).abs() < 1e-12);
        assert!((distribution.p_equivalence(2.0) - 0.01).abs() < 1e-12);
        let interval = distribution.interval(0.90);
        assert!((interval.low + 0.041).abs() < 1e-9 && (interval.high - 0.841).abs() < 1e-9);
        let is_refused = |repeat: &u64| {
            let of = |arm: u64| tasks(0.3, 5, 80, 1000 + 2 * repeat + arm);
            let alone: Vec<usize> = (0..80).collect();
            let outcomes = Outcomes::new(&[of(0), of(1)], &alone);
            let difference = outcomes.distribution(|means| means[1] - means[0]);
            difference.p_two_sided() <= 0.1
        };
        assert!((0..20).filter(is_refused).count() <= 6);
    }
}
