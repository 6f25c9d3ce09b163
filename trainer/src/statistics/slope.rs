//! The slope of Pass@1 on log₂ H.

use datasets::passk::Interval;

use super::{Contrast, Outcomes, Resamples};

/// How much the outcome changes with each doubling of H.
#[derive(Debug, Clone, PartialEq)]
pub struct Slope {
    /// By least squares on log₂ H, over the means of the arms.
    pub slope: Contrast,
    /// The p-value of no slope, two-sided.
    pub p: f64,
    /// A slope within ± this changes the outcome by no more than the margin over the whole range of H.
    pub bound: f64,
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
        let mut weights = vec![0.0; outcomes.arms()];
        for ((arm, _), weight) in rungs.iter().zip(slope_weights(&doublings)) {
            weights[*arm] = weight;
        }
        let ends = doublings.iter().copied();
        let range = ends.clone().fold(f64::MIN, f64::max) - ends.fold(f64::MAX, f64::min);
        Self {
            slope: Contrast::of(outcomes, resamples, &weights),
            p: Contrast::distribution(resamples, &weights).p_two_sided(),
            bound: margin / range,
        }
    }

    /// What it shows. Both intervals have to agree, and the wider end of the two counts.
    #[must_use]
    pub fn verdict(&self) -> SlopeVerdict {
        let (Some(resampled), Some(over_seeds)) = (self.slope.resampled, self.slope.over_seeds)
        else {
            return SlopeVerdict::Undetermined;
        };
        let both = [resampled, over_seeds];
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
    let xs: Vec<f64> = points.iter().map(|point| point.0).collect();
    let terms = points.iter().zip(slope_weights(&xs));
    terms.map(|((_, y), weight)| weight * y).sum()
}

/// The weights of which the sum of weight × y is the slope by least squares: (x − x̄) / Σ(x − x̄)².
fn slope_weights(xs: &[f64]) -> Vec<f64> {
    let mean = xs.iter().sum::<f64>() / xs.len() as f64;
    let squares: f64 = xs.iter().map(|x| (x - mean).powi(2)).sum();
    let weight = |x: &f64| {
        if squares > 0.0 {
            (x - mean) / squares
        } else {
            0.0
        }
    };
    xs.iter().map(weight).collect()
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
    fn what_a_slope_shows_depends_on_the_seeds_and_on_the_bound() {
        let falling = [[0.30, 0.31, 0.32], [0.26, 0.27, 0.28], [0.22, 0.231, 0.24]];
        for (means, verdict) in [
            (falling, SlopeVerdict::Falls),
            (
                [[0.22; 3], [0.26; 3], [0.30, 0.301, 0.30]],
                SlopeVerdict::Rises,
            ),
            // The seeds disagree.
            (
                [[0.3; 3], [0.3; 3], [0.2, 0.4, 0.29]],
                SlopeVerdict::Undetermined,
            ),
            // Equal values have no interval over seeds.
            ([[7.0 / 37.0; 3]; 3], SlopeVerdict::Undetermined),
        ] {
            assert_eq!(slope(means).verdict(), verdict, "{means:?}");
        }
        let falls = slope(falling);
        assert!((falls.slope.estimate + 0.02).abs() < 1e-3, "{falls:?}");
        assert!((falls.bound - 0.005).abs() < 1e-12);
        assert_eq!(slope([[7.0 / 37.0; 3]; 3]).slope.estimate, 0.0);
        let mut none = slope([[0.3; 3], [0.3, 0.301, 0.299], [0.3, 0.301, 0.299]]);
        assert!(
            matches!(none.verdict(), SlopeVerdict::NoLargerThan(largest) if largest < 0.005),
            "{none:?}"
        );
        // The intervals disagree.
        none.slope.resampled = Some(Interval {
            low: 0.0005,
            high: 0.0035,
        });
        assert_eq!(none.verdict(), SlopeVerdict::Undetermined);
    }
}
