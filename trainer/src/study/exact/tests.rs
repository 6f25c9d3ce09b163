use proptest::prelude::*;

use super::super::grid::plain;
use super::super::toy::{completions, exact_gradient, unit};
use super::*;
use crate::algo::{Baseline, Factor};
use crate::seed;

/// A random prompt: what its completions are worth, its policy, and one that lies `distance` off.
struct Given {
    completions: Vec<Completion>,
    rewards: Vec<f64>,
    policy: Policy,
    behaviour: Policy,
    gradient: Vec<f64>,
}

impl Given {
    fn new(seed: u64, distance: f64) -> Self {
        let completions = completions();
        let policy = Policy::random(seed, "policy");
        let direction = unit(&seed::normals(seed, "off", policy.logits.len()));
        let order = seed::permutation(seed, 0, completions.len());
        let rewards: Vec<f64> = order
            .iter()
            .map(|place| f64::from(u8::from(*place < 5)))
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
        far(&self.mean(factor, baseline, eta, 2), &self.gradient)
    }

    /// E_π of a number of each completion times Σ ∇ log π.
    fn under_policy(&self, of: impl Fn(usize, f64) -> f64) -> Vec<f64> {
        let case = self.case();
        let terms: Vec<Vec<f64>> = (0..self.completions.len())
            .map(|y| {
                let chance = (case.chances[y] + case.ell[y]).exp();
                vec![chance * of(y, case.ell[y]); self.completions[y].tokens.len()]
            })
            .collect();
        let pairs = self.completions.iter().zip(terms.iter().map(Vec::as_slice));
        Policy::gradient(&self.policy.log_probabilities(), pairs)
    }
}

fn far(a: &[f64], b: &[f64]) -> f64 {
    apart(a, b, b)
}

/// |a − b|, as a share of |scale|.
fn apart(a: &[f64], b: &[f64], scale: &[f64]) -> f64 {
    let squares = |x: &mut dyn Iterator<Item = f64>| x.map(|x| x * x).sum::<f64>();
    let off = squares(&mut a.iter().zip(b).map(|(a, b)| a - b));
    (off / squares(&mut scale.iter().copied())).sqrt()
}

fn times(scale: f64, values: &[f64]) -> Vec<f64> {
    values.iter().map(|x| scale * x).collect()
}

/// What single precision of log-probabilities and coefficients leaves.
const ROUNDING: f64 = 1e-5;
const INDEPENDENT: [Baseline; 3] = [Baseline::None, Baseline::Loo, Baseline::WeightedLoo];

#[test]
fn counting_multisets_is_counting_ordered_groups() {
    let given = Given::new(1, 0.7);
    let case = given.case();
    let estimator = plain(Factor::WCapped, Baseline::WeightedGroup, 1.5);
    let counted = case.moments(&estimator, 3).unwrap();
    let n = given.completions.len();
    let (mut mean, mut square) = (vec![0.0; given.gradient.len()], 0.0);
    for code in 0..n.pow(3) {
        let group = [code % n, code / n % n, code / n / n];
        let chance = group.iter().map(|y| case.chances[*y]).sum::<f64>().exp();
        let estimate = case.estimate(&estimator, &group).unwrap();
        square += chance * estimate.iter().map(|g| g * g).sum::<f64>();
        for (mean, g) in mean.iter_mut().zip(estimate) {
            *mean += chance * g;
        }
    }
    assert!(far(&counted.mean, &mean) < 1e-6);
    let variance = square - mean.iter().map(|m| m * m).sum::<f64>();
    assert!((counted.variance / variance - 1.0).abs() < 1e-6);
}

#[test]
fn the_chances_of_all_groups_add_up() {
    let chances = [0.5_f64, 0.3, 0.15, 0.05];
    for size in 1..=5 {
        let (mut total, mut count) = (0.0, 0);
        multisets(4, size, &mut |group| {
            total += orders(group) * group.iter().map(|y| chances[*y]).product::<f64>();
            count += 1;
        });
        assert!((total - 1.0).abs() < 1e-12, "{size}: {total}");
        // (n + G − 1)! / (G! (n − 1)!)
        assert_eq!(count, [4, 10, 20, 35, 56][size - 1]);
    }
}

#[test]
fn an_infinite_cap_is_none() {
    let given = Given::new(2, 1.0);
    let whole = given.mean(Factor::W, Baseline::Loo, 2.0, 2);
    let capped = given.mean(Factor::WCapped, Baseline::Loo, f64::INFINITY, 2);
    assert_eq!(whole, capped);
    let case = given.case();
    let group = [0, 3].map(|y| sample(&case.new[y], &case.behaviour[y], Some(1.0)));
    let estimator = plain(Factor::TokenCapped, Baseline::WeightedLoo, f64::INFINITY);
    let metrics = gradient(&estimator, &[group.to_vec()], 3).unwrap().metrics;
    let text = serde_json::to_string(&metrics).unwrap();
    assert!(
        !text.contains("null"),
        "every number that is logged is finite: {text}"
    );
    assert_eq!(metrics.clip_share, 0.0);
}

#[test]
fn on_policy_every_factor_counts_a_completion_once_and_the_distance_is_nil() {
    let given = Given::new(3, 0.0);
    let case = given.case();
    for factor in Factor::ALL {
        let (once, twice) = case
            .factor(&plain(factor, Baseline::None, 1.0), 0.5)
            .unwrap();
        assert!(
            (once - 1.0).abs() < 1e-6 && (twice - 1.0).abs() < 1e-6,
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
        let given = Given::new(seed, distance);
        for baseline in INDEPENDENT {
            let bias = given.bias(Factor::W, baseline, 2.0);
            prop_assert!(bias < ROUNDING, "{baseline:?}: {bias}");
        }
    }

    #[test]
    fn at_weight_one_a_baseline_that_includes_the_completion_leaves_one_minus_one_over_g_of_the_gradient(seed in 0u64..1000) {
        let given = Given::new(seed, 0.0);
        for size in [2, 3] {
            let share = times(1.0 - 1.0 / size as f64, &given.gradient);
            for factor in Factor::ALL {
                for baseline in [Baseline::Group, Baseline::WeightedGroup] {
                    let off = far(&given.mean(factor, baseline, 2.0, size), &share);
                    prop_assert!(off < ROUNDING, "{factor:?} {baseline:?} {size}: {off}");
                }
            }
        }
    }

    #[test]
    fn off_policy_the_plain_group_mean_only_shortens_and_the_weighted_one_turns(seed in 0u64..1000, distance in 0.3f64..1.5) {
        let given = Given::new(seed, distance);
        for size in [2, 3] {
            let share = times(1.0 - 1.0 / size as f64, &given.gradient);
            let plain = given.mean(Factor::W, Baseline::Group, 2.0, size);
            prop_assert!(far(&plain, &share) < ROUNDING, "the mean reward of the group");
            // E ĝ = ∇J − (1/G) E_π[min(w, η) R Σ ∇ log π]: the weight of the completion itself stands in its own baseline.
            for eta in [1.0, 2.0, f64::INFINITY] {
                let own = given.under_policy(|y, ell| ell.exp().min(eta) * given.rewards[y]);
                let expected: Vec<f64> = given.gradient.iter().zip(&own).map(|(g, own)| g - own / size as f64).collect();
                let weighted = given.mean(Factor::W, Baseline::WeightedGroup, eta, size);
                // The two terms may all but cancel, so the larger one is the scale.
                let off = apart(&weighted, &expected, &given.gradient).min(apart(&weighted, &expected, &own));
                prop_assert!(off < ROUNDING, "η = {eta}: {off}");
            }
        }
    }

    #[test]
    fn a_cap_loses_what_lies_above_it_and_one_above_all_weights_loses_nothing(seed in 0u64..1000, distance in 0.3f64..1.5) {
        let given = Given::new(seed, distance);
        let largest = given.case().ell.iter().copied().fold(0.0, f64::max).exp();
        for baseline in INDEPENDENT {
            prop_assert!(given.bias(Factor::WCapped, baseline, largest * 1.001) < ROUNDING);
        }
        // A cap of 1 cuts off whatever the policy has come to like.
        prop_assert!(given.bias(Factor::WCapped, Baseline::Loo, 1.0) > 1e-4);
        // Without a baseline, each cap's loss contains that of a higher one.
        let kept = |eta: f64| given.under_policy(|y, ell| eta.min(ell.exp()) / ell.exp() * given.rewards[y]);
        for eta in [1.0, 1.5, 2.0] {
            let mean = given.mean(Factor::WCapped, Baseline::None, eta, 2);
            prop_assert!(far(&mean, &kept(eta)) < ROUNDING);
        }
    }
}
