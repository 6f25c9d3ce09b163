//! The slope of Pass@1 on log₂ H.

use datasets::passk::{Interval, MIN_TASKS};

use super::{Outcomes, Resamples, student};

/// How much the outcome changes with each doubling of H.
#[derive(Debug, Clone, PartialEq)]
pub struct Slope {
    /// By least squares on log₂ H, over the means of the arms.
    pub slope: f64,
    /// Its 95% interval by the hierarchical bootstrap.
    pub resampled: Interval,
    /// Its 95% t interval over the slopes of the seeds; `None` for one seed.
    pub over_seeds: Option<Interval>,
    /// The slope of each seed.
    pub by_seed: Vec<f64>,
    /// The p-value of no slope, two-sided.
    pub p: f64,
    /// A slope within ± this changes the outcome by no more than the margin over the whole range of H.
    pub bound: f64,
    /// Clusters of tasks.
    pub clusters: usize,
}

impl Slope {
    /// The slope over `rungs`: arms of the outcomes, each with its H. Two of them at least have different H. A change of the outcome by at most `margin` counts as none.
    #[must_use]
    pub fn of(
        outcomes: &Outcomes,
        resamples: &Resamples,
        rungs: &[(usize, usize)],
        margin: f64,
    ) -> Self {
        let doublings: Vec<f64> = rungs.iter().map(|(_, h)| (*h as f64).log2()).collect();
        let slope_of = |value: &dyn Fn(usize) -> f64| {
            let points = rungs.iter().zip(&doublings);
            let points: Vec<(f64, f64)> = points.map(|((arm, _), x)| (*x, value(*arm))).collect();
            least_squares(&points)
        };
        let arms: Vec<Vec<f64>> = rungs
            .iter()
            .map(|(arm, _)| outcomes.by_seed(*arm))
            .collect();
        let seeds = arms.first().map_or(0, Vec::len);
        let by_seed: Vec<f64> = (0..seeds)
            .map(|seed| {
                let points = doublings.iter().zip(&arms);
                least_squares(&points.map(|(x, arm)| (*x, arm[seed])).collect::<Vec<_>>())
            })
            .collect();
        let distribution = resamples.distribution(|means| slope_of(&|arm| means[arm]));
        let ends = doublings.iter().copied();
        let range = ends.clone().fold(f64::MIN, f64::max) - ends.fold(f64::MAX, f64::min);
        Self {
            slope: slope_of(&|arm| outcomes.mean(arm)),
            resampled: distribution.interval(0.95),
            over_seeds: student::interval(&by_seed, 0.95),
            by_seed,
            p: distribution.p_two_sided(),
            bound: margin / range,
            clusters: outcomes.clusters(),
        }
    }

    /// What it shows. Both intervals have to agree, and the wider end of the two counts.
    #[must_use]
    pub fn verdict(&self) -> SlopeVerdict {
        let Some(over_seeds) = self.over_seeds.filter(|_| self.clusters >= MIN_TASKS) else {
            return SlopeVerdict::Undetermined;
        };
        let both = [self.resampled, over_seeds];
        let all = |holds: fn(&Interval) -> bool| both.iter().all(holds);
        let ends = both
            .iter()
            .flat_map(|interval| [interval.high, -interval.low]);
        let largest = ends.fold(0.0, f64::max);
        if all(|interval| interval.is_above_zero()) {
            SlopeVerdict::Rises
        } else if all(|interval| interval.is_below_zero()) {
            SlopeVerdict::Falls
        } else if all(|interval| interval.low <= 0.0 && interval.high >= 0.0)
            && largest <= self.bound
        {
            SlopeVerdict::NoLargerThan(largest)
        } else {
            SlopeVerdict::Undetermined
        }
    }
}

/// What a slope shows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SlopeVerdict {
    /// The outcome rises with H.
    Rises,
    /// The outcome falls with H.
    Falls,
    /// It may be 0, and is no larger than this either way, which is within the bound.
    NoLargerThan(f64),
    /// The intervals contain 0 and reach beyond the bound, or disagree, or there are too few seeds or tasks for them.
    Undetermined,
}

/// The slope of the line through points `(x, y)` by least squares; 0 if all x are the same.
#[must_use]
pub fn least_squares(points: &[(f64, f64)]) -> f64 {
    let n = points.len() as f64;
    let x = points.iter().map(|point| point.0).sum::<f64>() / n;
    let xx: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    // Relative to the first, so that equal values have a slope of 0 exactly.
    let first = points.first().map_or(0.0, |point| point.1);
    let xy: f64 = points
        .iter()
        .map(|point| (point.0 - x) * (point.1 - first))
        .sum();
    if xx > 0.0 { xy / xx } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slope_is_that_of_scipy() {
        // scipy.stats.linregress(log2([1, 2, 4, 8, 16]), y).slope
        let y = [0.301, 0.287, 0.292, 0.266, 0.259];
        let points: Vec<(f64, f64)> = (0..5).map(f64::from).zip(y).collect();
        assert!((least_squares(&points) + 0.0105).abs() < 1e-12);
    }

    /// Three arms with H = 1, 4, 16 and this mean by arm and seed, on tasks whose outcomes are all equal to it.
    fn slope(means: [[f64; 3]; 3]) -> Slope {
        let arms = means.map(|arm| arm.map(|mean| vec![mean; 30]).to_vec());
        let outcomes = Outcomes::new(&arms, &(0..30).collect::<Vec<_>>());
        let resamples = outcomes.resample();
        Slope::of(&outcomes, &resamples, &[(0, 1), (1, 4), (2, 16)], 0.02)
    }

    #[test]
    fn a_slope_in_every_seed_is_seen() {
        let falls = slope([[0.30, 0.31, 0.32], [0.26, 0.27, 0.28], [0.22, 0.23, 0.24]]);
        assert!((falls.slope + 0.02).abs() < 1e-12, "{falls:?}");
        assert_eq!(falls.verdict(), SlopeVerdict::Falls);
        assert!((falls.bound - 0.005).abs() < 1e-12);
        let rises = slope([[0.22; 3], [0.26, 0.27, 0.26], [0.30; 3]]);
        assert_eq!(rises.verdict(), SlopeVerdict::Rises);
    }

    #[test]
    fn seeds_that_disagree_leave_it_undetermined() {
        let slope = slope([[0.3; 3], [0.3; 3], [0.2, 0.4, 0.29]]);
        assert_eq!(slope.verdict(), SlopeVerdict::Undetermined);
    }

    #[test]
    fn intervals_that_disagree_leave_it_undetermined() {
        let mut slope = slope([[0.3; 3], [0.3, 0.301, 0.299], [0.3, 0.301, 0.299]]);
        slope.resampled = Interval {
            low: 0.0005,
            high: 0.0035,
        };
        slope.over_seeds = Some(Interval {
            low: -0.0002,
            high: 0.0042,
        });
        assert_eq!(slope.verdict(), SlopeVerdict::Undetermined);
    }

    #[test]
    fn equal_values_have_no_slope() {
        let points: Vec<(f64, f64)> = (0..5).map(|x| (f64::from(x), 7.0 / 37.0)).collect();
        assert_eq!(least_squares(&points), 0.0);
    }

    #[test]
    fn no_slope_is_claimed_only_within_the_bound() {
        let none = slope([[0.3; 3], [0.3, 0.301, 0.299], [0.3, 0.301, 0.299]]);
        assert!(
            matches!(none.verdict(), SlopeVerdict::NoLargerThan(largest) if largest < 0.005),
            "{none:?}"
        );
    }
}
