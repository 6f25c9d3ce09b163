//! An arm beside the reference: the difference, two tests, and what follows from them.

use datasets::passk::{Interval, MIN_TASKS};

use super::{ALPHA, Outcomes, Resamples, holm, student};

/// What is known of the difference between an arm and the reference.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// The arm's mean − the reference's.
    pub difference: f64,
    /// Its 95% interval by the hierarchical bootstrap.
    pub resampled: Interval,
    /// Its 95% t interval over seeds; `None` for one seed.
    pub over_seeds: Option<Interval>,
    /// The 90% t interval over seeds, which the equivalence test has to agree with.
    over_seeds_90: Option<Interval>,
    /// The difference of each seed.
    pub by_seed: Vec<f64>,
    /// The p-value of no difference, two-sided.
    pub p_difference: f64,
    /// The p-value of a difference of at least the margin, by two one-sided tests (Schuirmann 1987): at most 5% if the 90% interval is within the margin.
    pub p_equivalence: f64,
    /// Clusters of tasks.
    pub clusters: usize,
}

impl Comparison {
    /// The comparison of two arms, of which the resamples are given. A difference within ± `margin` counts as none.
    #[must_use]
    pub fn of(
        outcomes: &Outcomes,
        resamples: &Resamples,
        arm: usize,
        reference: usize,
        margin: f64,
    ) -> Self {
        let difference = resamples.distribution(|means| means[arm] - means[reference]);
        let by_seed: Vec<f64> = outcomes
            .by_seed(arm)
            .iter()
            .zip(outcomes.by_seed(reference))
            .map(|(arm, reference)| arm - reference)
            .collect();
        Self {
            difference: outcomes.mean(arm) - outcomes.mean(reference),
            resampled: difference.interval(0.95),
            over_seeds: student::interval(&by_seed, 0.95),
            over_seeds_90: student::interval(&by_seed, 1.0 - 2.0 * ALPHA),
            by_seed,
            p_difference: difference.p_two_sided(),
            p_equivalence: difference.p_equivalence(margin),
            clusters: outcomes.clusters(),
        }
    }
}

/// What a comparison shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The difference is within the margin.
    Equivalent,
    /// The arm is better than the reference.
    Better,
    /// The arm is worse than the reference.
    Worse,
    /// None of these: the data are too few to tell.
    Undetermined,
}

impl Verdict {
    /// The verdict in a word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Equivalent => "equivalent",
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Undetermined => "undetermined",
        }
    }
}

/// A comparison's p-values after Holm's correction, and its verdict.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Corrected {
    /// That of no difference.
    pub p_difference: f64,
    /// That of a difference of at least the margin.
    pub p_equivalence: f64,
    /// What both show.
    pub verdict: Verdict,
}

/// The verdicts of a family of comparisons. The tests of a difference and those of equivalence are each corrected by Holm's method. A verdict needs a corrected p-value of
/// at most 5% and a t interval over seeds that agrees: it does not contain 0, or at 90% is within the margin. A difference that is both within the margin and not 0 is
/// equivalent. With fewer than [`MIN_TASKS`] clusters of tasks, or one seed, nothing is concluded.
#[must_use]
pub fn verdicts(comparisons: &[Comparison], margin: f64) -> Vec<Corrected> {
    let corrected =
        |p: fn(&Comparison) -> f64| holm(&comparisons.iter().map(p).collect::<Vec<_>>());
    let differences = corrected(|comparison| comparison.p_difference);
    let equivalences = corrected(|comparison| comparison.p_equivalence);
    comparisons
        .iter()
        .zip(differences.into_iter().zip(equivalences))
        .map(|(comparison, (p_difference, p_equivalence))| Corrected {
            p_difference,
            p_equivalence,
            verdict: verdict(comparison, p_difference, p_equivalence, margin),
        })
        .collect()
}

fn verdict(comparison: &Comparison, p_difference: f64, p_equivalence: f64, margin: f64) -> Verdict {
    let (Some(at_95), Some(at_90)) = (comparison.over_seeds, comparison.over_seeds_90) else {
        return Verdict::Undetermined;
    };
    if comparison.clusters < MIN_TASKS {
        return Verdict::Undetermined;
    }
    let is_within = at_90.low > -margin && at_90.high < margin;
    if p_equivalence <= ALPHA && is_within {
        return Verdict::Equivalent;
    }
    if p_difference <= ALPHA && comparison.difference > 0.0 && at_95.is_above_zero() {
        return Verdict::Better;
    }
    if p_difference <= ALPHA && comparison.difference < 0.0 && at_95.is_below_zero() {
        return Verdict::Worse;
    }
    Verdict::Undetermined
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A comparison whose two intervals are the same, and whose p-values fit them.
    fn comparison(low: f64, high: f64, p_difference: f64, p_equivalence: f64) -> Comparison {
        let interval = Interval { low, high };
        Comparison {
            difference: f64::midpoint(low, high),
            resampled: interval,
            over_seeds: Some(interval),
            over_seeds_90: Some(interval),
            by_seed: vec![low, high],
            p_difference,
            p_equivalence,
            clusters: 100,
        }
    }

    fn verdicts_of(comparisons: &[Comparison]) -> Vec<Verdict> {
        let corrected = verdicts(comparisons, 0.02);
        corrected.into_iter().map(|one| one.verdict).collect()
    }

    #[test]
    fn each_verdict_needs_its_test_and_its_interval() {
        let better = comparison(0.03, 0.09, 0.001, 0.9);
        let worse = comparison(-0.09, -0.03, 0.001, 0.9);
        let equivalent = comparison(-0.01, 0.015, 0.7, 0.001);
        let wide = comparison(-0.05, 0.04, 0.8, 0.4);
        let all = [better, worse, equivalent, wide];
        let expected = [
            Verdict::Better,
            Verdict::Worse,
            Verdict::Equivalent,
            Verdict::Undetermined,
        ];
        assert_eq!(verdicts_of(&all), expected);
    }

    #[test]
    fn a_difference_within_the_margin_is_equivalent_even_if_it_is_not_zero() {
        let small = comparison(0.002, 0.008, 0.001, 0.001);
        assert_eq!(verdicts_of(&[small]), [Verdict::Equivalent]);
    }

    #[test]
    fn intervals_that_disagree_leave_it_undetermined() {
        let mut better = comparison(0.03, 0.09, 0.001, 0.9);
        better.over_seeds = Some(Interval {
            low: -0.02,
            high: 0.14,
        });
        let mut equivalent = comparison(-0.01, 0.015, 0.7, 0.001);
        equivalent.over_seeds_90 = Some(Interval {
            low: -0.03,
            high: 0.03,
        });
        let undetermined = [Verdict::Undetermined; 2];
        assert_eq!(verdicts_of(&[better, equivalent]), undetermined);
    }

    #[test]
    fn one_seed_or_few_tasks_conclude_nothing() {
        let mut one_seed = comparison(0.03, 0.09, 0.001, 0.9);
        (one_seed.over_seeds, one_seed.over_seeds_90) = (None, None);
        let mut few_tasks = comparison(0.03, 0.09, 0.001, 0.9);
        few_tasks.clusters = MIN_TASKS - 1;
        let undetermined = [Verdict::Undetermined; 2];
        assert_eq!(verdicts_of(&[one_seed, few_tasks]), undetermined);
    }

    #[test]
    fn several_comparisons_need_smaller_p_values() {
        let one = comparison(0.01, 0.09, 0.03, 0.9);
        assert_eq!(verdicts_of(std::slice::from_ref(&one)), [Verdict::Better]);
        assert_eq!(verdicts_of(&[one.clone(), one]), [Verdict::Undetermined; 2]);
    }
}
