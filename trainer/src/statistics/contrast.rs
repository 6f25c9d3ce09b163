//! Contrasts: weighted sums of the arms' means, such as the difference of two or a slope.

use datasets::passk::{self, Interval, MIN_TASKS};

use super::{Distribution, MIN_SEEDS, Outcomes, student};

/// A weighted sum of the arms' means, with weights that sum to 0.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Contrast {
    /// The sum over the means of all seeds and tasks.
    pub(crate) estimate: f64,
    /// Its 95% interval by the hierarchical bootstrap; `None` for fewer than [`MIN_TASKS`] clusters of tasks, and for two seeds. With one seed it is
    /// over tasks alone.
    pub(crate) resampled: Option<Interval>,
    /// Its 95% t interval over seeds; `None` for fewer than [`MIN_SEEDS`] seeds, or equal ones.
    pub(crate) over_seeds: Option<Interval>,
    /// The sum of each seed.
    pub(crate) by_seed: Vec<f64>,
    /// The two-sided p-value of the hypothesis that the sum is 0, by the bootstrap.
    pub(crate) p: f64,
}

impl Contrast {
    /// The contrast with these weights, one for each arm. If all means are equal, it is exactly 0.
    pub(crate) fn of(outcomes: &Outcomes, weights: &[f64]) -> Self {
        let arms = (0..weights.len()).map(|arm| outcomes.by_seed(arm));
        let arms: Vec<Vec<f64>> = arms.collect();
        let seeds = 0..arms.first().map_or(0, Vec::len);
        let by_seed = seeds.map(|seed| sum(weights, |arm| arms[arm][seed]));
        let by_seed: Vec<f64> = by_seed.collect();
        Self {
            estimate: sum(weights, |arm| outcomes.mean(arm)),
            resampled: Self::interval(outcomes, weights, 0.95),
            over_seeds: student::interval(&by_seed, 0.95),
            by_seed,
            p: Self::distribution(outcomes, weights).p_two_sided(),
        }
    }

    /// The interval of the sum by the bootstrap at a level such as 0.95; `None` as [`Contrast::resampled`].
    pub(super) fn interval(outcomes: &Outcomes, weights: &[f64], level: f64) -> Option<Interval> {
        let (seeds, tasks) = (outcomes.by_seed(0).len(), outcomes.clusters());
        if tasks < MIN_TASKS || (2..MIN_SEEDS).contains(&seeds) {
            return None;
        }
        let resampled = Self::distribution(outcomes, weights).interval(level);
        let most = weights.iter().map(|weight| weight.abs()).sum::<f64>() / 2.0;
        let estimate = sum(weights, |arm| outcomes.mean(arm));
        Some(passk::honest(resampled, estimate, tasks, (-most, most)))
    }

    /// The sum in each resample.
    pub(super) fn distribution(outcomes: &Outcomes, weights: &[f64]) -> Distribution {
        outcomes.distribution(|means| sum(weights, |arm| means[arm]))
    }

    /// The weights for the mean of these arms − the mean of all others. Neither group is empty.
    pub(crate) fn with_and_without(with: &[bool]) -> Vec<f64> {
        let ones = with.iter().filter(|with| **with).count();
        let others = with.len() - ones;
        let weight = |with: &bool| match with {
            true => 1.0 / ones as f64,
            false => -1.0 / others as f64,
        };
        with.iter().map(weight).collect()
    }
}

/// The weighted sum of these means, each relative to the first. That changes nothing, since the weights sum to 0.
fn sum(weights: &[f64], mean: impl Fn(usize) -> f64) -> f64 {
    let weights = weights.iter().enumerate();
    let terms = weights.map(|(arm, weight)| weight * (mean(arm) - mean(0)));
    terms.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_effect_is_the_difference_of_the_arms_with_and_without() {
        // Two factors in a full factorial: none, a, b, ab. Each adds to the mean. Seeds differ, and tasks do not.
        let mean = |a: f64, b: f64, seed: f64| 0.3 + 0.10 * a - 0.04 * b + 0.01 * seed;
        let arms = [(0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (1.0, 1.0)];
        let run = |a, b, seed| vec![mean(a, b, seed); 25];
        let arms = arms.map(|(a, b)| [0.0, 1.0, 2.0].map(|seed| run(a, b, seed)).to_vec());
        let outcomes = Outcomes::new(&arms, &(0..25).collect::<Vec<_>>());
        for (with, effect) in [
            ([false, true, false, true], 0.10),
            ([false, false, true, true], -0.04),
        ] {
            let weights = Contrast::with_and_without(&with);
            let found = Contrast::of(&outcomes, &weights);
            assert!((found.estimate - effect).abs() < 1e-12, "{found:?}");
            assert!(found.by_seed.iter().all(|one| (one - effect).abs() < 1e-12));
            // All tasks agree, and all seeds.
            let tasks = found.resampled.unwrap();
            assert!(tasks.low < effect && effect < tasks.high, "{found:?}");
            assert_eq!(found.over_seeds, None);
        }
    }

    #[test]
    fn too_few_tasks_and_two_seeds_have_no_interval() {
        for (tasks, seeds, has_one) in [
            (MIN_TASKS - 1, 3, false),
            (MIN_TASKS, 2, false),
            (MIN_TASKS, 1, true),
            (MIN_TASKS, 3, true),
        ] {
            // Every task is right in one arm and wrong in the other.
            let arms = [0.0, 1.0].map(|mean| vec![vec![mean; tasks]; seeds]);
            let outcomes = Outcomes::new(&arms, &(0..tasks).collect::<Vec<_>>());
            let found = Contrast::of(&outcomes, &[-1.0, 1.0]).resampled;
            assert_eq!(found.is_some(), has_one, "{tasks} {seeds}");
            let is_right = |it: Interval| (it.low - 0.677_75).abs() < 1e-4 && it.high == 1.0;
            assert!(found.is_none_or(is_right), "{found:?}");
        }
    }
}
