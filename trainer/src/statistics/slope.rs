//! The slope of Pass@1 on log₂ H.

use datasets::passk::Interval;

use super::{Contrast, Outcomes};

/// How much the outcome changes with each doubling of H.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Slope {
    /// By least squares on log₂ H, over the means of the arms.
    pub(crate) slope: Contrast,
    /// A slope within ± this changes the outcome by no more than the margin over the whole range of H.
    pub(crate) bound: f64,
}

impl Slope {
    /// The slope over `rungs`: arms of the outcomes, each with its H. Two of them at least have different H. A change of the outcome by at most `margin` counts as none.
    pub(crate) fn of(outcomes: &Outcomes, rungs: &[(usize, usize)], margin: f64) -> Self {
        let doublings: Vec<f64> = rungs.iter().map(|(_, h)| (*h as f64).log2()).collect();
        let mut weights = vec![0.0; outcomes.arms()];
        for ((arm, _), weight) in rungs.iter().zip(slope_weights(&doublings)) {
            weights[*arm] = weight;
        }
        let ends = doublings.iter().copied();
        let range = ends.clone().fold(f64::MIN, f64::max) - ends.fold(f64::MAX, f64::min);
        Self {
            slope: Contrast::of(outcomes, &weights),
            bound: margin / range,
        }
    }

    /// What it shows. Both intervals have to agree, and the wider end of the two counts. If both contain 0 and that end is within the bound, the slope is said to be
    /// no larger than it, in points. It is `undetermined` if they reach beyond the bound or disagree, or if there are too few seeds or tasks for them.
    pub(crate) fn conclusion(&self) -> String {
        let both = [self.slope.resampled, self.slope.over_seeds];
        let all = |holds: fn(&Interval) -> bool| {
            let mut both = both.iter();
            both.all(|interval| interval.as_ref().is_some_and(holds))
        };
        let ends = both.iter().flatten();
        let ends = ends.flat_map(|interval| [interval.high, -interval.low]);
        let largest = ends.fold(0.0, f64::max);
        if all(|it| it.is_above_zero()) {
            "rises".to_owned()
        } else if all(|it| it.is_below_zero()) {
            "falls".to_owned()
        } else if all(|it| it.low <= 0.0 && it.high >= 0.0) && largest <= self.bound {
            // Rounded up: not even a hundredth beyond the interval is claimed.
            let largest = (100.0 * 100.0 * largest).ceil() / 100.0;
            format!("no slope larger than {largest:.2} either way")
        } else {
            "undetermined".to_owned()
        }
    }
}

/// The slope of the line through points `(x, y)` by least squares; 0 if all x are the same.
pub(crate) fn least_squares(points: &[(f64, f64)]) -> f64 {
    let xs: Vec<f64> = points.iter().map(|point| point.0).collect();
    let terms = points.iter().zip(slope_weights(&xs));
    terms.map(|((_, y), weight)| weight * y).sum()
}

/// Weights by least squares: the slope is the sum of weight × y, with the weight (x − x̄) / Σ(x − x̄)².
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

    /// Three arms with H = 1, 4, 16 and this mean by arm and seed. All tasks have this outcome.
    fn slope(means: [[f64; 3]; 3]) -> Slope {
        let arms = means.map(|arm| arm.map(|mean| vec![mean; 30]).to_vec());
        let outcomes = Outcomes::new(&arms, &(0..30).collect::<Vec<_>>());
        Slope::of(&outcomes, &[(0, 1), (1, 4), (2, 16)], 0.02)
    }

    #[test]
    fn what_a_slope_shows_depends_on_the_seeds_and_on_the_bound() {
        let falling = [[0.30, 0.31, 0.32], [0.26, 0.27, 0.28], [0.22, 0.231, 0.24]];
        let rising = [[0.22; 3], [0.26; 3], [0.30, 0.301, 0.30]];
        let disagreeing = [[0.3; 3], [0.3; 3], [0.2, 0.4, 0.29]];
        let none = [[0.3; 3], [0.3, 0.301, 0.299], [0.3, 0.301, 0.299]];
        // Equal values have no interval over seeds.
        let equal = [[7.0 / 37.0; 3]; 3];
        for (means, conclusion) in [
            (falling, "falls"),
            (rising, "rises"),
            (disagreeing, "undetermined"),
            (equal, "undetermined"),
            (none, "no slope larger than 0."),
        ] {
            let found = slope(means).conclusion();
            assert!(found.starts_with(conclusion), "{means:?}: {found}");
        }
        let falls = slope(falling);
        assert!((falls.slope.estimate + 0.02).abs() < 1e-3, "{falls:?}");
        assert!((falls.bound - 0.005).abs() < 1e-12);
        assert_eq!(slope(equal).slope.estimate, 0.0);
        // The intervals disagree.
        let mut none = slope(none);
        let (low, high) = (0.0005, 0.0035);
        none.slope.resampled = Some(Interval { low, high });
        assert_eq!(none.conclusion(), "undetermined");
    }
}
