use proptest::prelude::*;

use super::super::estimators::plain;
use super::*;
use crate::algo::{Baseline, Factor};

#[test]
fn every_completion_is_listed_once_and_the_probabilities_sum_to_one() {
    let all = completions();
    // Ended at the first token; after one of two letters; after two of them, ended or truncated.
    assert_eq!(all.len(), 1 + 2 + 4 * 3);
    let largest = all.iter().flatten().map(|(prefix, _)| *prefix).max();
    assert_eq!(largest, Some(parameters() / LETTERS - 1));
    let logp = log_probabilities(&seed::normals(7, "test", parameters()));
    let each = all.iter().map(|c| tokens_logp(c, &logp));
    let total: f64 = each.map(|logp| logp.iter().sum::<f64>().exp()).sum();
    assert!((total - 1.0).abs() < 1e-12, "{total}");
}

#[test]
fn the_exact_gradient_is_the_slope_of_the_value() {
    let (policy, all) = (seed::normals(3, "test", parameters()), completions());
    let rewards: Vec<f64> = (0..all.len())
        .map(|i| f64::from(u8::from(i % 3 == 0)))
        .collect();
    let (gradient, _) = exact_gradient(&policy, &all, &rewards);
    for index in 0..parameters() {
        let mut step = vec![0.0; parameters()];
        step[index] = 1.0;
        let value_at =
            |distance| exact_gradient(&moved(&policy, &step, distance), &all, &rewards).1;
        let slope = (value_at(1e-5) - value_at(-1e-5)) / 2e-5;
        assert!((slope - gradient[index]).abs() < 1e-9, "{index}: {slope}");
    }
}

/// A random prompt, and a behaviour policy at `distance` from its policy.
struct Setup {
    completions: Vec<Completion>,
    prompt: Prompt,
    behaviour: Logits,
}

impl Setup {
    fn new(seed: u64, distance: f64) -> Self {
        let completions = completions();
        let policy = seed::normals(seed, "policy", parameters());
        let direction = unit(&seed::normals(seed, "off", parameters()));
        let order = seed::permutation(seed, 0, completions.len());
        let rewards: Vec<f64> = order
            .iter()
            .map(|position| f64::from(u8::from(*position < 5)))
            .collect();
        let (gradient, value) = exact_gradient(&policy, &completions, &rewards);
        Self {
            behaviour: moved(&policy, &direction, distance),
            completions,
            prompt: Prompt {
                rewards,
                past: vec![policy],
                drift: Vec::new(),
                gradient,
                value,
            },
        }
    }

    fn case(&self) -> Case<'_> {
        Case::new(&self.completions, &self.prompt, &self.behaviour)
    }

    fn mean(&self, factor: Factor, baseline: Baseline, eta: f64, size: usize) -> Vec<f64> {
        let estimator = plain(factor, baseline, eta);
        self.case().moments(&estimator, size).unwrap().0
    }

    /// |E ĝ − ∇J| / |∇J|.
    fn bias(&self, factor: Factor, baseline: Baseline, eta: f64) -> f64 {
        relative_distance(&self.mean(factor, baseline, eta, 2), &self.prompt.gradient)
    }

    /// E_π of `term` of each completion, from its index and ℓ, times Σ ∇ log π.
    fn under_policy(&self, term: impl Fn(usize, f64) -> f64) -> Vec<f64> {
        let case = self.case();
        let terms = self.completions.iter().enumerate().map(|(y, completion)| {
            let probability = (case.behaviour_logp[y] + case.ell[y]).exp();
            let term = probability * term(y, case.ell[y]);
            (completion, vec![term; completion.len()])
        });
        weighted_gradient(&case.policy, terms)
    }
}

fn relative_distance(a: &[f64], b: &[f64]) -> f64 {
    distance_over(a, b, b)
}

/// |a − b| / |scale|.
fn distance_over(a: &[f64], b: &[f64], scale: &[f64]) -> f64 {
    let squares = |x: &mut dyn Iterator<Item = f64>| x.map(|x| x * x).sum::<f64>();
    let difference = squares(&mut a.iter().zip(b).map(|(a, b)| a - b));
    (difference / squares(&mut scale.iter().copied())).sqrt()
}

fn times(scale: f64, values: &[f64]) -> Vec<f64> {
    values.iter().map(|x| scale * x).collect()
}

/// Rounding errors of log-probabilities and coefficients in single precision.
const ROUNDING: f64 = 1e-5;
const INDEPENDENT: [Baseline; 4] = [
    Baseline::None,
    Baseline::Loo,
    Baseline::WeightedLoo,
    Baseline::OptimalLoo,
];

#[test]
fn enumerating_multisets_equals_enumerating_ordered_groups() {
    let setup = Setup::new(1, 0.7);
    let case = setup.case();
    let estimator = plain(Factor::WCapped, Baseline::WeightedGroup, 1.5);
    let (expected, variance_of_moments) = case.moments(&estimator, 3).unwrap();
    let n = setup.completions.len();
    let (mut mean, mut square) = (vec![0.0; setup.prompt.gradient.len()], 0.0);
    for code in 0..n.pow(3) {
        let group = [code % n, code / n % n, code / n / n];
        let probability = group
            .iter()
            .map(|y| case.behaviour_logp[*y])
            .sum::<f64>()
            .exp();
        let estimate = case.estimate(&estimator, &group).unwrap();
        square += probability * estimate.iter().map(|g| g * g).sum::<f64>();
        for (mean, g) in mean.iter_mut().zip(estimate) {
            *mean += probability * g;
        }
    }
    assert!(relative_distance(&expected, &mean) < 1e-6);
    let variance = square - mean.iter().map(|m| m * m).sum::<f64>();
    assert!((variance_of_moments / variance - 1.0).abs() < 1e-6);
}

#[test]
fn an_infinite_cap_equals_no_cap() {
    let setup = Setup::new(2, 1.0);
    let whole = setup.mean(Factor::W, Baseline::Loo, 2.0, 2);
    let capped = setup.mean(Factor::WCapped, Baseline::Loo, f64::INFINITY, 2);
    assert_eq!(whole, capped);
    let case = setup.case();
    let group = [0, 3].map(|y| sample(&case.new[y], &case.behaviour[y], Some(1.0)));
    let estimator = plain(Factor::TokenCapped, Baseline::WeightedLoo, f64::INFINITY);
    let metrics = gradient(&estimator, &[group.to_vec()], 3).unwrap().metrics;
    let text = serde_json::to_string(&metrics).unwrap();
    assert!(
        !text.contains("null"),
        "every logged number is finite: {text}"
    );
    assert_eq!(metrics.clip_share, 0.0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn the_whole_weight_is_unbiased_with_every_baseline_that_is_independent_of_the_completion(seed in 0u64..1000, distance in 0.0f64..1.5) {
        let setup = Setup::new(seed, distance);
        for baseline in INDEPENDENT {
            let bias = setup.bias(Factor::W, baseline, 2.0);
            prop_assert!(bias < ROUNDING, "{baseline:?}: {bias}");
        }
    }

    #[test]
    fn on_policy_a_baseline_with_the_completion_scales_the_gradient_by_one_minus_one_over_g(seed in 0u64..1000) {
        let setup = Setup::new(seed, 0.0);
        for size in [2, 3] {
            let scaled = times(1.0 - 1.0 / size as f64, &setup.prompt.gradient);
            for factor in Factor::ALL {
                for baseline in [Baseline::Group, Baseline::WeightedGroup] {
                    let distance = relative_distance(&setup.mean(factor, baseline, 2.0, size), &scaled);
                    prop_assert!(distance < ROUNDING, "{factor:?} {baseline:?} {size}: {distance}");
                }
            }
        }
    }

    #[test]
    fn off_policy_the_plain_group_mean_scales_the_gradient_and_the_weighted_one_turns_it(seed in 0u64..1000, distance in 0.3f64..1.5) {
        let setup = Setup::new(seed, distance);
        for size in [2, 3] {
            let scaled = times(1.0 - 1.0 / size as f64, &setup.prompt.gradient);
            let plain = setup.mean(Factor::W, Baseline::Group, 2.0, size);
            prop_assert!(relative_distance(&plain, &scaled) < ROUNDING, "the mean reward of the group");
            // E ĝ = ∇J − (1/G) E_π[min(w, η) R Σ ∇ log π]: the baseline contains the completion's own weight.
            for eta in [1.0, 2.0, f64::INFINITY] {
                let own = setup.under_policy(|y, ell| ell.exp().min(eta) * setup.prompt.rewards[y]);
                let expected: Vec<f64> = setup.prompt.gradient.iter().zip(&own).map(|(g, own)| g - own / size as f64).collect();
                let weighted = setup.mean(Factor::W, Baseline::WeightedGroup, eta, size);
                // The two terms may almost cancel, so the larger one is the scale.
                let distance = distance_over(&weighted, &expected, &setup.prompt.gradient).min(distance_over(&weighted, &expected, &own));
                prop_assert!(distance < ROUNDING, "η = {eta}: {distance}");
            }
        }
    }

    #[test]
    fn a_cap_loses_the_weight_above_it_and_a_cap_above_all_weights_is_unbiased(seed in 0u64..1000, distance in 0.3f64..1.5) {
        let setup = Setup::new(seed, distance);
        let largest = setup.case().ell.iter().copied().fold(0.0, f64::max).exp();
        for baseline in INDEPENDENT {
            prop_assert!(setup.bias(Factor::WCapped, baseline, largest * 1.001) < ROUNDING);
        }
        // A cap of 1 cuts the weights of all completions that became likelier.
        prop_assert!(setup.bias(Factor::WCapped, Baseline::Loo, 1.0) > 1e-4);
        // Without a baseline, the loss of each cap contains that of a higher cap.
        let capped = |eta: f64| setup.under_policy(|y, ell| eta.min(ell.exp()) / ell.exp() * setup.prompt.rewards[y]);
        for eta in [1.0, 1.5, 2.0] {
            let mean = setup.mean(Factor::WCapped, Baseline::None, eta, 2);
            prop_assert!(relative_distance(&mean, &capped(eta)) < ROUNDING);
        }
    }
}

fn row<'a>(
    results: &'a ToyResults,
    course: &str,
    factor: &str,
    baseline: &str,
    eta: Option<f64>,
) -> &'a Row {
    let matches = |row: &&Row| {
        let setting = &row.setting;
        (row.course.as_str(), row.staleness) == (course, 4)
            && (setting.factor, setting.baseline, setting.eta) == (factor, baseline, eta)
    };
    results.rows.iter().find(matches).unwrap()
}

#[test]
fn exact_results_agree_with_theory_and_depend_on_the_seed_alone() {
    let settings = Toy {
        group_sizes: vec![2],
        staleness: vec![0, 4],
        ..Toy::default()
    };
    let results = toy(&settings).unwrap();
    assert_eq!(results.rows.len(), 3 * estimators().len());
    for course in COURSES {
        for baseline in ["none", "loo"] {
            let bias = row(&results, course, "w", baseline, None)
                .quality
                .get("bias");
            assert!(bias < 1e-5, "{course} {baseline}: {bias}");
            let biases = [1.0, 1.5, 2.0, 4.0].map(|eta| {
                let row = row(&results, course, "w-capped", baseline, Some(eta));
                row.quality.get("bias")
            });
            assert!(
                biases[0] > 1e-3 && biases.is_sorted_by(|a, b| a >= b),
                "{course} {baseline}: {biases:?}"
            );
        }
        // A group of two gives half of the gradient in its direction, also off policy.
        let own = row(&results, course, "w", "group", None).quality;
        assert!((own.get("scale") - 0.5).abs() < 1e-5 && own.get("cosine") > 1.0 - 1e-9);
        let weighted = row(&results, course, "w", "weighted-group", Some(2.0)).quality;
        assert!(weighted.get("cosine") < 1.0 - 1e-5, "{weighted:?}");
    }
    for row in results.rows.iter().filter(|row| row.staleness == 0) {
        let own = row.setting.baseline.ends_with("group");
        let expected = if own { 0.5 } else { 1.0 };
        let is_right = (row.quality.get("scale") - expected).abs() < 1e-5;
        assert!(row.setting.preset.is_some() || is_right, "{row:?}");
        assert!((row.quality.get("ess") - 1.0).abs() < 1e-6);
    }
    assert_eq!(results, toy(&settings).unwrap());
    let numbers = results.rows.iter().flat_map(|row| row.quality.0);
    assert!(numbers.into_iter().all(f64::is_finite));
}

#[test]
fn a_policy_further_away_has_a_smaller_effective_sample_size() {
    let settings = Toy {
        group_sizes: vec![1],
        ..Toy::default()
    };
    let results = toy(&settings).unwrap();
    for course in COURSES {
        let levels = results.levels.iter().filter(|l| l.course == course);
        let ess: Vec<f64> = levels.map(|l| l.ess).collect();
        assert!(
            ess.is_sorted_by(|a, b| a > b) && ess[0] < 1.0 + 1e-12,
            "{course}: {ess:?}"
        );
    }
    let mut values = results.values.iter().zip(&settings.values);
    assert!(
        values.all(|(value, max)| value <= max && *value > 0.8 * max),
        "the probabilities of correct completions are near their maximum: {:?}",
        results.values
    );
}
