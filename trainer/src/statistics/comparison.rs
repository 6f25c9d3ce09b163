//! An arm beside the reference: the difference, two tests, and what follows from them.

use datasets::passk::Interval;

use super::{ALPHA, Contrast, Outcomes, holm, student};

/// What a test shows if the data are too few to tell.
const UNDETERMINED: &str = "undetermined";

/// What is known of the difference between an arm and the reference.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Comparison {
    /// The arm's mean − the reference's.
    pub(crate) difference: Contrast,
    /// The difference's 90% interval by the bootstrap, for the equivalence test; `None` for too few clusters of tasks, or seeds.
    pub(crate) resampled_90: Option<Interval>,
    /// Its 90% t interval over seeds, which has to agree with it.
    pub(crate) over_seeds_90: Option<Interval>,
    /// The p-value of the hypothesis that the difference is at least the margin, by two one-sided tests (Schuirmann 1987): at most 5% if the 90% interval is within
    /// the margin.
    pub(crate) p_equivalence: f64,
}

impl Comparison {
    /// The comparison of two arms. A difference within ± `margin` counts as none.
    pub(crate) fn of(outcomes: &Outcomes, arm: usize, reference: usize, margin: f64) -> Self {
        let mut weights = vec![0.0; outcomes.arms()];
        (weights[arm], weights[reference]) = (1.0, -1.0);
        let difference = Contrast::of(outcomes, &weights);
        let level = 1.0 - 2.0 * ALPHA;
        Self {
            resampled_90: Contrast::interval(outcomes, &weights, level),
            over_seeds_90: student::interval(&difference.by_seed, level),
            difference,
            p_equivalence: Contrast::distribution(outcomes, &weights).p_equivalence(margin),
        }
    }
}

/// A comparison's p-values after Holm's correction, and what they show. A small difference may be certain: then the arm is better or worse, and equivalent too.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Corrected {
    /// For the hypothesis of no difference.
    pub(crate) p_difference: f64,
    /// For the hypothesis of a difference of at least the margin.
    pub(crate) p_equivalence: f64,
    /// What the test of a difference shows: the arm is `better` or `worse`, or it is `undetermined`.
    pub(crate) difference: &'static str,
    /// Whether the arm is as good as the reference, to within the margin: it `holds`, is `refuted`, or is `undetermined`.
    pub(crate) equivalence: &'static str,
}

/// The verdicts of a family of comparisons. The tests of a difference and those of equivalence are each corrected by Holm's method.
///
/// - A difference needs a corrected p-value of at most 5%, and a 95% t interval over seeds without 0.
/// - Equivalence needs a corrected p-value of at most 5%, and a 90% t interval over seeds within the margin. It is refuted if both 90% intervals are beyond the margin.
/// - Without an interval, as with one seed, two, or too few clusters of tasks, nothing is concluded.
pub(crate) fn verdicts(comparisons: &[Comparison], margin: f64) -> Vec<Corrected> {
    let corrected =
        |p: fn(&Comparison) -> f64| holm(&comparisons.iter().map(p).collect::<Vec<_>>());
    let differences = corrected(|comparison| comparison.difference.p);
    let equivalences = corrected(|comparison| comparison.p_equivalence);
    comparisons
        .iter()
        .zip(differences.into_iter().zip(equivalences))
        .map(|(comparison, (p_difference, p_equivalence))| Corrected {
            p_difference,
            p_equivalence,
            difference: difference(comparison, p_difference),
            equivalence: equivalence(comparison, p_equivalence, margin),
        })
        .collect()
}

fn difference(comparison: &Comparison, p: f64) -> &'static str {
    let found = &comparison.difference;
    match (found.resampled, found.over_seeds) {
        (Some(_), Some(seeds)) if p <= ALPHA && found.estimate > 0.0 && seeds.is_above_zero() => {
            "better"
        }
        (Some(_), Some(seeds)) if p <= ALPHA && found.estimate < 0.0 && seeds.is_below_zero() => {
            "worse"
        }
        _ => UNDETERMINED,
    }
}

fn equivalence(comparison: &Comparison, p: f64, margin: f64) -> &'static str {
    let (Some(resampled), Some(over_seeds)) = (comparison.resampled_90, comparison.over_seeds_90)
    else {
        return UNDETERMINED;
    };
    let both = [resampled, over_seeds];
    if p <= ALPHA && over_seeds.low > -margin && over_seeds.high < margin {
        "holds"
    } else if both.iter().all(|interval| interval.low >= margin)
        || both.iter().all(|interval| interval.high <= -margin)
    {
        "refuted"
    } else {
        UNDETERMINED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A comparison with two equal intervals, and with p-values that fit them.
    fn comparison(low: f64, high: f64, p_difference: f64, p_equivalence: f64) -> Comparison {
        let interval = Interval { low, high };
        Comparison {
            difference: Contrast {
                estimate: f64::midpoint(low, high),
                resampled: Some(interval),
                over_seeds: Some(interval),
                by_seed: vec![low, high],
                p: p_difference,
            },
            resampled_90: Some(interval),
            over_seeds_90: Some(interval),
            p_equivalence,
        }
    }

    #[test]
    fn each_verdict_needs_its_test_and_both_of_its_intervals() {
        let interval = |low: f64, high: f64| Some(Interval { low, high });
        let better = comparison(0.03, 0.09, 0.001, 0.9);
        let mut disagreeing = better.clone();
        disagreeing.difference.over_seeds = interval(-0.02, 0.14);
        disagreeing.over_seeds_90 = interval(-0.01, 0.13);
        let mut wide_over_seeds = comparison(-0.01, 0.015, 0.7, 0.001);
        wide_over_seeds.over_seeds_90 = interval(-0.03, 0.03);
        let mut one_seed = better.clone();
        (one_seed.difference.over_seeds, one_seed.over_seeds_90) = (None, None);
        let mut few_tasks = better.clone();
        (few_tasks.difference.resampled, few_tasks.resampled_90) = (None, None);
        let no = UNDETERMINED;
        for (comparison, expected) in [
            (better, ("better", "refuted")),
            (comparison(-0.09, -0.01, 0.001, 0.9), ("worse", no)),
            (comparison(-0.01, 0.015, 0.7, 0.001), (no, "holds")),
            (comparison(-0.05, 0.04, 0.8, 0.4), (no, no)),
            // A small difference may be certain, and equivalent.
            (comparison(0.002, 0.008, 0.001, 0.001), ("better", "holds")),
            (disagreeing, (no, no)),
            (wide_over_seeds, (no, no)),
            (one_seed, (no, no)),
            (few_tasks, (no, no)),
        ] {
            let found = verdicts(std::slice::from_ref(&comparison), 0.02)[0];
            let found = (found.difference, found.equivalence);
            assert_eq!(found, expected, "{comparison:?}");
        }
        // Several comparisons need smaller p-values.
        let one = comparison(0.01, 0.09, 0.03, 0.9);
        for (comparisons, expected) in [(vec![one.clone()], "better"), (vec![one; 2], no)] {
            assert_eq!(verdicts(&comparisons, 0.02)[0].difference, expected);
        }
    }
}
