use proptest::prelude::*;

use super::super::grid::plain;
use super::super::toy::{completions, exact_gradient, unit};
use super::*;
use crate::algo::{Baseline, Factor};
use crate::seed;

/// A random prompt: its completions' rewards, its policy, and a behaviour policy at `distance` from it.
struct Setup {
    completions: Vec<Completion>,
    rewards: Vec<f64>,
    policy: Policy,
    behaviour: Policy,
    gradient: Vec<f64>,
}

impl Setup {
    fn new(seed: u64, distance: f64) -> Self {
        let completions = completions();
        let policy = Policy::random(seed, "policy");
        let direction = unit(&seed::normals(seed, "off", policy.logits.len()));
        let order = seed::permutation(seed, 0, completions.len());
        let rewards: Vec<f64> = order
            .iter()
            .map(|position| f64::from(u8::from(*position < 5)))
            .collect();
        let (gradient, _) = exact_gradient(&policy, &completions, &rewards);
        Self {
            behaviour: policy.moved(&direction, distance),
            completions,
            rewards,
            policy,
            gradient,
        }
    }

    fn case(&self) -> Case<'_> {
        Case::new(
            &self.completions,
            &self.rewards,
            &self.policy,
            &self.behaviour,
        )
    }

    fn mean(&self, factor: Factor, baseline: Baseline, eta: f64, size: usize) -> Vec<f64> {
        let estimator = plain(factor, baseline, eta);
        self.case().moments(&estimator, size).unwrap().mean
    }

    /// |E ĝ − ∇J| / |∇J|.
    fn bias(&self, factor: Factor, baseline: Baseline, eta: f64) -> f64 {
        relative_distance(&self.mean(factor, baseline, eta, 2), &self.gradient)
    }

    /// E_π of `term` of each completion, from its index and ℓ, times Σ ∇ log π.
    fn under_policy(&self, term: impl Fn(usize, f64) -> f64) -> Vec<f64> {
        let case = self.case();
        let terms: Vec<Vec<f64>> = (0..self.completions.len())
            .map(|y| {
                let probability = (case.behaviour_logp[y] + case.ell[y]).exp();
                vec![probability * term(y, case.ell[y]); self.completions[y].tokens.len()]
            })
            .collect();
        let pairs = self.completions.iter().zip(terms.iter().map(Vec::as_slice));
        Policy::gradient(&self.policy.log_probabilities(), pairs)
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
    let moments = case.moments(&estimator, 3).unwrap();
    let n = setup.completions.len();
    let (mut mean, mut square) = (vec![0.0; setup.gradient.len()], 0.0);
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
    assert!(relative_distance(&moments.mean, &mean) < 1e-6);
    let variance = square - mean.iter().map(|m| m * m).sum::<f64>();
    assert!((moments.variance / variance - 1.0).abs() < 1e-6);
}

#[test]
fn the_probabilities_of_all_groups_sum_to_one() {
    let probabilities = [0.5_f64, 0.3, 0.15, 0.05];
    for size in 1..=5 {
        let (mut total, mut count) = (0.0, 0);
        multisets(4, size, &mut |group| {
            total += orders(group) * group.iter().map(|y| probabilities[*y]).product::<f64>();
            count += 1;
        });
        assert!((total - 1.0).abs() < 1e-12, "{size}: {total}");
        // (n + G − 1)! / (G! (n − 1)!)
        assert_eq!(count, [4, 10, 20, 35, 56][size - 1]);
    }
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

#[test]
fn on_policy_every_factor_is_one_and_the_distance_is_zero() {
    let setup = Setup::new(3, 0.0);
    let case = setup.case();
    for factor in Factor::ALL {
        let (mean, square) = case
            .factor(&plain(factor, Baseline::None, 1.0), 0.5)
            .unwrap();
        assert!(
            (mean - 1.0).abs() < 1e-6 && (square - 1.0).abs() < 1e-6,
            "{factor:?}"
        );
    }
    let distance = case.distance();
    assert!(distance.kl.abs() < 1e-12 && (distance.square_weight - 1.0).abs() < 1e-12);
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
            let scaled = times(1.0 - 1.0 / size as f64, &setup.gradient);
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
            let scaled = times(1.0 - 1.0 / size as f64, &setup.gradient);
            let plain = setup.mean(Factor::W, Baseline::Group, 2.0, size);
            prop_assert!(relative_distance(&plain, &scaled) < ROUNDING, "the mean reward of the group");
            // E ĝ = ∇J − (1/G) E_π[min(w, η) R Σ ∇ log π]: the baseline contains the completion's own weight.
            for eta in [1.0, 2.0, f64::INFINITY] {
                let own = setup.under_policy(|y, ell| ell.exp().min(eta) * setup.rewards[y]);
                let expected: Vec<f64> = setup.gradient.iter().zip(&own).map(|(g, own)| g - own / size as f64).collect();
                let weighted = setup.mean(Factor::W, Baseline::WeightedGroup, eta, size);
                // The two terms may almost cancel, so the larger one is the scale.
                let distance = distance_over(&weighted, &expected, &setup.gradient).min(distance_over(&weighted, &expected, &own));
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
        let capped = |eta: f64| setup.under_policy(|y, ell| eta.min(ell.exp()) / ell.exp() * setup.rewards[y]);
        for eta in [1.0, 1.5, 2.0] {
            let mean = setup.mean(Factor::WCapped, Baseline::None, eta, 2);
            prop_assert!(relative_distance(&mean, &capped(eta)) < ROUNDING);
        }
    }
}
