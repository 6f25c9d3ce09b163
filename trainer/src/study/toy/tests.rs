use super::super::estimators::plain;
use super::*;
use crate::config::{Baseline, Baseline as B, Factor};

/// Rounding errors of log-probabilities and coefficients in single precision.
const ROUNDING: f64 = 1e-5;

/// |a − b| / |b|.
fn distance(a: &[f64], b: &[f64]) -> f64 {
    let difference = plus(a, -1.0, b);
    (dot(&difference, &difference) / dot(b, b)).sqrt()
}

impl Prompt {
    /// A random prompt, with a behaviour policy at `distance` updates in a random direction.
    fn random(seed: u64, distance: usize) -> Self {
        Self::new(seed, 0, ("drift", distance))
    }

    fn mean(&self, factor: Factor, baseline: Baseline, eta: f64, size: usize) -> Vec<f64> {
        self.moments(&plain(factor, baseline, eta), size).unwrap().0
    }

    /// |E ĝ − ∇J| / |∇J|.
    fn bias(&self, factor: Factor, baseline: Baseline, eta: f64) -> f64 {
        distance(&self.mean(factor, baseline, eta, 2), &self.gradient)
    }

    /// w of each completion.
    fn weights(&self) -> Vec<f64> {
        let pairs = self.completions.iter().zip(&self.behaviour_logp);
        let weights = pairs.map(|(c, behaviour)| (total_logp(c, &self.policy) - behaviour).exp());
        weights.collect()
    }

    /// E_π of `term` of each completion, from its weight w and reward, times Σ ∇ log π.
    fn under_policy(&self, term: impl Fn(f64, f64) -> f64) -> Vec<f64> {
        let each = self.weights().into_iter().zip(&self.rewards);
        let terms: Vec<f64> = each.map(|(w, reward)| term(w, *reward)).collect();
        exact_gradient(&self.policy, &self.completions, &terms)
    }
}

#[test]
fn the_exact_gradient_is_the_slope_of_the_value() {
    let (policy, all) = (seed::normals(3, "test", PARAMETERS), completions());
    // Ended at the first token; after one of two letters; after two of them, ended or truncated.
    assert_eq!(all.len(), 1 + 2 + 4 * 3);
    let rewards: Vec<f64> = (0..15).map(|i| [1.0, 0.0, 0.0][i % 3]).collect();
    let value = |logits: &[f64], rewards: &[f64]| -> f64 {
        let logp = log_probabilities(logits);
        let values = all.iter().zip(rewards);
        let values = values.map(|(c, reward)| reward * total_logp(c, &logp).exp());
        values.sum()
    };
    assert!((value(&policy, &[1.0; 15]) - 1.0).abs() < 1e-12);
    let gradient = exact_gradient(&log_probabilities(&policy), &all, &rewards);
    for index in 0..PARAMETERS {
        let value_at = |distance: f64| {
            let mut policy = policy.clone();
            policy[index] += distance;
            value(&policy, &rewards)
        };
        let slope = (value_at(1e-5) - value_at(-1e-5)) / 2e-5;
        assert!((slope - gradient[index]).abs() < 1e-9, "{index}: {slope}");
    }
}

#[test]
fn enumerating_multisets_equals_enumerating_ordered_groups() {
    let prompt = Prompt::random(1, 5);
    let estimator = plain(Factor::WCapped, Baseline::WeightedGroup, 1.5);
    let (expected, variance) = prompt.moments(&estimator, 3).unwrap();
    let n = prompt.new.len();
    let (mut mean, mut square) = (vec![0.0; PARAMETERS], 0.0);
    for code in 0..n.pow(3) {
        let group = [code % n, code / n % n, code / n / n];
        let logp: f64 = group.iter().map(|y| prompt.behaviour_logp[*y]).sum();
        let estimate = prompt.estimate(&estimator, &group).unwrap();
        square += logp.exp() * dot(&estimate, &estimate);
        mean = plus(&mean, logp.exp(), &estimate);
    }
    assert!(distance(&expected, &mean) < 1e-6);
    let ordered = square - dot(&mean, &mean);
    assert!((variance / ordered - 1.0).abs() < 1e-6);
}

#[test]
fn the_mean_of_every_estimator_is_that_of_theory() {
    for (seed, off) in [(1, 2), (2, 5), (3, 10)] {
        let (prompt, on_policy) = (Prompt::random(seed, off), Prompt::random(seed, 0));
        let gradient = &prompt.gradient;
        let largest = prompt.weights().into_iter().fold(1.0, f64::max);
        // The whole weight is unbiased with every baseline that is independent of the completion, and a cap is if all weights are below it.
        for baseline in [B::None, B::Loo, B::WeightedLoo, B::OptimalLoo] {
            for (factor, eta) in [(Factor::W, 2.0), (Factor::WCapped, largest * 1.001)] {
                let bias = prompt.bias(factor, baseline, eta);
                assert!(bias < ROUNDING, "{factor:?} {baseline:?}: {bias}");
            }
        }
        // Without a baseline, a cap loses what is above it; one of 1 cuts the weights of all completions that became likelier.
        for eta in [1.0_f64, 1.5, 2.0] {
            let capped = prompt.under_policy(|w, reward| eta.min(w) / w * reward);
            let mean = prompt.mean(Factor::WCapped, Baseline::None, eta, 2);
            assert!(distance(&mean, &capped) < ROUNDING);
        }
        assert!(prompt.bias(Factor::WCapped, Baseline::Loo, 1.0) > 1e-4);
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
            let plain = prompt.mean(Factor::W, Baseline::Group, 2.0, size);
            assert!(distance(&plain, &scaled) < ROUNDING);
            // E ĝ = ∇J − (1/G) E_π[min(w, η) R Σ ∇ log π]: the weighted baseline contains the completion's own weight.
            for eta in [1.0, 2.0, f64::INFINITY] {
                let own = prompt.under_policy(|w, reward| w.min(eta) * reward);
                let expected = plus(gradient, -1.0 / size as f64, &own);
                let weighted = prompt.mean(Factor::W, Baseline::WeightedGroup, eta, size);
                // The two terms may almost cancel, so the larger one is the scale.
                let difference = plus(&weighted, -1.0, &expected);
                let scale = dot(gradient, gradient).max(dot(&own, &own));
                let off = (dot(&difference, &difference) / scale).sqrt();
                assert!(off < ROUNDING, "η = {eta}: {off}");
            }
        }
    }
}

#[test]
fn bias_falls_with_the_cap_and_the_effective_sample_size_with_staleness() {
    let results = toy(0, 2, &[4, 8]).unwrap();
    assert_eq!(results.len(), 4 * estimators().len());
    for course in ["updates", "drift"] {
        let found = |staleness: usize, factor: &str, eta: Option<&str>| {
            let mut rows = results.iter();
            let row = rows.find(|row| {
                (&*row.course, row.staleness) == (course, staleness)
                    && (row.factor, row.baseline, row.eta.as_deref()) == (factor, "loo", eta)
            });
            row.unwrap()
        };
        assert!(found(4, "w", None).bias < ROUNDING);
        let biases = ["1", "1.5", "2", "4"].map(|eta| found(4, "w-capped", Some(eta)).bias);
        let falls = biases.is_sorted_by(|a, b| a >= b);
        assert!(biases[0] > 1e-3 && falls, "{course}: {biases:?}");
        let [near, far] = [4, 8].map(|staleness| found(staleness, "w", None));
        assert!(1.0 > near.ess && near.ess > far.ess && near.variance > 0.0);
    }
}
