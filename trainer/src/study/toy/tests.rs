use super::super::estimators::plain;
use super::*;
use crate::algo::{Baseline, Factor};

/// A random prompt whose behaviour policy is at `distance` updates in a random direction.
struct Setup(Prompt);

impl Setup {
    fn new(seed: u64, distance: usize) -> Self {
        Self(Prompt::new(seed, 0, ("drift", distance)))
    }

    fn mean(&self, factor: Factor, baseline: Baseline, eta: f64, size: usize) -> Vec<f64> {
        let estimator = plain(factor, baseline, eta);
        self.0.moments(&estimator, size).unwrap().0
    }

    /// |E ĝ − ∇J| / |∇J|.
    fn bias(&self, factor: Factor, baseline: Baseline, eta: f64) -> f64 {
        distance(&self.mean(factor, baseline, eta, 2), &self.0.gradient)
    }

    /// E_π of `term` of each completion, from its weight w and reward, times Σ ∇ log π.
    fn under_policy(&self, term: impl Fn(f64, f64) -> f64) -> Vec<f64> {
        let policy = &self.0.policy;
        let completions = self.0.completions.iter().zip(&self.0.rewards);
        let terms = completions.zip(self.log_weights());
        let terms = terms.map(|((completion, reward), ell)| {
            let probability = total_logp(completion, policy).exp();
            let term = probability * term(ell.exp(), *reward);
            (completion, vec![term; completion.len()])
        });
        weighted_gradient(policy, terms)
    }

    /// ℓ of each completion.
    fn log_weights(&self) -> Vec<f64> {
        let completions = self.0.completions.iter().zip(&self.0.behaviour_logp);
        completions
            .map(|(completion, behaviour)| total_logp(completion, &self.0.policy) - behaviour)
            .collect()
    }
}

/// |a − b| / |b|.
fn distance(a: &[f64], b: &[f64]) -> f64 {
    let difference = moved(&a.to_vec(), b, -1.0);
    (dot(&difference, &difference) / dot(b, b)).sqrt()
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
fn probabilities_sum_to_one_and_the_exact_gradient_is_the_slope_of_the_value() {
    let (policy, all) = (seed::normals(3, "test", PARAMETERS), completions());
    // Ended at the first token; after one of two letters; after two of them, ended or truncated.
    assert_eq!(all.len(), 1 + 2 + 4 * 3);
    let logp = log_probabilities(&policy);
    let total: f64 = all.iter().map(|c| total_logp(c, &logp).exp()).sum();
    assert!((total - 1.0).abs() < 1e-12, "{total}");
    let rewards: Vec<f64> = (0..all.len())
        .map(|i| f64::from(u8::from(i % 3 == 0)))
        .collect();
    let gradient = exact_gradient(&logp, &all, &rewards);
    for index in 0..PARAMETERS {
        let mut step = vec![0.0; PARAMETERS];
        step[index] = 1.0;
        let value_at = |distance| -> f64 {
            let logp = log_probabilities(&moved(&policy, &step, distance));
            let values = all.iter().zip(&rewards);
            values
                .map(|(c, reward)| reward * total_logp(c, &logp).exp())
                .sum()
        };
        let slope = (value_at(1e-5) - value_at(-1e-5)) / 2e-5;
        assert!((slope - gradient[index]).abs() < 1e-9, "{index}: {slope}");
    }
}

#[test]
fn enumerating_multisets_equals_enumerating_ordered_groups() {
    let Setup(case) = Setup::new(1, 5);
    let estimator = plain(Factor::WCapped, Baseline::WeightedGroup, 1.5);
    let (expected, variance_of_moments) = case.moments(&estimator, 3).unwrap();
    let n = case.new.len();
    let (mut mean, mut square) = (vec![0.0; expected.len()], 0.0);
    for code in 0..n.pow(3) {
        let group = [code % n, code / n % n, code / n / n];
        let logp: f64 = group.iter().map(|y| case.behaviour_logp[*y]).sum();
        let estimate = case.estimate(&estimator, &group).unwrap();
        square += logp.exp() * dot(&estimate, &estimate);
        for (mean, g) in mean.iter_mut().zip(estimate) {
            *mean += logp.exp() * g;
        }
    }
    assert!(distance(&expected, &mean) < 1e-6);
    let variance = square - dot(&mean, &mean);
    assert!((variance_of_moments / variance - 1.0).abs() < 1e-6);
}

#[test]
fn the_mean_of_every_estimator_is_that_of_theory() {
    for (seed, off) in [(1, 2), (2, 5), (3, 10)] {
        let setup = Setup::new(seed, off);
        let on_policy = Setup::new(seed, 0);
        let gradient = &setup.0.gradient;
        let largest = setup.log_weights().into_iter().fold(0.0, f64::max).exp();
        // The whole weight is unbiased with every baseline that is independent of the completion, and a cap is if all weights are below it.
        for baseline in INDEPENDENT {
            let whole = setup.bias(Factor::W, baseline, 2.0);
            assert!(whole < ROUNDING, "{baseline:?}: {whole}");
            assert!(setup.bias(Factor::WCapped, baseline, largest * 1.001) < ROUNDING);
        }
        // A cap of 1 cuts the weights of all completions that became likelier.
        assert!(setup.bias(Factor::WCapped, Baseline::Loo, 1.0) > 1e-4);
        let whole = setup.mean(Factor::W, Baseline::Loo, 2.0, 2);
        let uncapped = setup.mean(Factor::WCapped, Baseline::Loo, f64::INFINITY, 2);
        assert_eq!(whole, uncapped);
        // Without a baseline, the loss of each cap contains that of a higher cap.
        for eta in [1.0_f64, 1.5, 2.0] {
            let capped = setup.under_policy(|w, reward| eta.min(w) / w * reward);
            let mean = setup.mean(Factor::WCapped, Baseline::None, eta, 2);
            assert!(distance(&mean, &capped) < ROUNDING);
        }
        for size in [2, 3] {
            // A baseline that includes the completion scales the gradient: with any factor on policy, and with the plain mean off policy.
            let scale = 1.0 - 1.0 / size as f64;
            let scaled: Vec<f64> = gradient.iter().map(|x| scale * x).collect();
            for factor in Factor::ALL {
                for baseline in [Baseline::Group, Baseline::WeightedGroup] {
                    let mean = on_policy.mean(factor, baseline, 2.0, size);
                    let off = distance(&mean, &scaled);
                    assert!(off < ROUNDING, "{factor:?} {baseline:?} {size}: {off}");
                }
            }
            let plain = setup.mean(Factor::W, Baseline::Group, 2.0, size);
            assert!(distance(&plain, &scaled) < ROUNDING);
            // E ĝ = ∇J − (1/G) E_π[min(w, η) R Σ ∇ log π]: the weighted baseline contains the completion's own weight.
            for eta in [1.0, 2.0, f64::INFINITY] {
                let own = setup.under_policy(|w, reward| w.min(eta) * reward);
                let expected = moved(gradient, &own, -1.0 / size as f64);
                let weighted = setup.mean(Factor::W, Baseline::WeightedGroup, eta, size);
                // The two terms may almost cancel, so the larger one is the scale.
                let difference = moved(&weighted, &expected, -1.0);
                let scale = dot(gradient, gradient).max(dot(&own, &own));
                let off = (dot(&difference, &difference) / scale).sqrt();
                assert!(off < ROUNDING, "η = {eta}: {off}");
            }
        }
    }
}

#[test]
fn exact_results_agree_with_theory_and_depend_on_the_seed_alone() {
    let results = toy(0, 2, &[0, 4, 8]).unwrap();
    assert_eq!(results.len(), 5 * estimators().len());
    let found = |course: &str, staleness: usize, choices: (&str, &str, Option<&str>)| {
        let matches = |row: &&Row| {
            (row.course.as_str(), row.staleness) == (course, staleness)
                && (row.factor, row.baseline, row.eta.as_deref()) == choices
        };
        results.iter().find(matches).unwrap()
    };
    for course in ["updates", "drift"] {
        for baseline in ["none", "loo"] {
            let bias = found(course, 4, ("w", baseline, None)).bias;
            assert!(bias < 1e-5, "{course} {baseline}: {bias}");
            let biases = ["1", "1.5", "2", "4"]
                .map(|eta| found(course, 4, ("w-capped", baseline, Some(eta))).bias);
            assert!(
                biases[0] > 1e-3 && biases.is_sorted_by(|a, b| a >= b),
                "{course} {baseline}: {biases:?}"
            );
        }
        // A group of two gives half of the gradient in its direction, also off policy.
        let own = found(course, 4, ("w", "group", None));
        assert!((own.scale - 0.5).abs() < 1e-5 && own.cosine > 1.0 - 1e-9);
        let weighted = found(course, 4, ("w", "weighted-group", Some("2")));
        assert!(weighted.cosine < 1.0 - 1e-5, "{weighted:?}");
        let ess = [4, 8].map(|staleness| found(course, staleness, ("w", "loo", None)).ess);
        assert!(1.0 > ess[0] && ess[0] > ess[1], "{course}: {ess:?}");
    }
    for row in results.iter().filter(|row| row.staleness == 0) {
        let own = row.baseline.ends_with("group");
        let expected = if own { 0.5 } else { 1.0 };
        let is_right = (row.scale - expected).abs() < 1e-5;
        assert!(row.preset.is_some() || is_right, "{row:?}");
        assert!((row.ess - 1.0).abs() < 1e-6 && row.variance.is_finite());
    }
    assert_eq!(results, toy(0, 2, &[0, 4, 8]).unwrap());
}
