//! A softmax policy that is small enough to enumerate: every completion has a probability, a reward and a gradient.

use crate::seed;

/// Letters of the policy's alphabet; the first one ends a completion.
const LETTERS: usize = 3;
/// Maximum tokens of a completion.
pub(super) const MAX_TOKENS: usize = 3;

/// One prompt's policy: a table of logits for each prefix that a completion can have.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Policy {
    /// Prefixes × letters. Gradients are with respect to these parameters.
    pub(super) logits: Vec<f64>,
}

/// A completion: for each of its tokens, the prefix before it and the letter.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Completion {
    pub(super) tokens: Vec<(usize, usize)>,
}

/// All completions, each once.
pub(super) fn completions() -> Vec<Completion> {
    let mut all = Vec::new();
    let mut next = 1;
    let mut open = vec![(0, Vec::new())];
    while let Some((prefix, tokens)) = open.pop() {
        for letter in 0..LETTERS {
            let mut tokens: Vec<(usize, usize)> = tokens.clone();
            tokens.push((prefix, letter));
            if letter == 0 || tokens.len() == MAX_TOKENS {
                all.push(Completion { tokens });
            } else {
                open.push((next, tokens));
                next += 1;
            }
        }
    }
    all
}

/// Number of parameters: prefixes that do not end a completion, times letters.
pub(super) fn parameters() -> usize {
    let inner = LETTERS - 1;
    LETTERS
        * (0..MAX_TOKENS as u32)
            .map(|depth| inner.pow(depth))
            .sum::<usize>()
}

impl Policy {
    /// A policy with normally distributed logits.
    pub(super) fn random(seed: u64, purpose: &str) -> Self {
        Self {
            logits: seed::normals(seed, purpose, parameters()),
        }
    }

    /// log π of each letter after each prefix, in the layout of the logits.
    pub(super) fn log_probabilities(&self) -> Vec<f64> {
        let mut all = Vec::with_capacity(self.logits.len());
        for row in self.logits.chunks(LETTERS) {
            let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let total = row.iter().map(|x| (x - largest).exp()).sum::<f64>().ln() + largest;
            all.extend(row.iter().map(|x| x - total));
        }
        all
    }

    /// The policy moved by `distance` along a direction.
    pub(super) fn moved(&self, direction: &[f64], distance: f64) -> Self {
        let pairs = self.logits.iter().zip(direction);
        Self {
            logits: pairs.map(|(x, d)| x + distance * d).collect(),
        }
    }

    /// Σᵢ Σₜ cᵢₜ ∇ log π(yᵢₜ) with respect to the logits. For a letter y after a prefix, ∂ log π(y) / ∂ logit(k) = δ(y, k) − π(k).
    pub(super) fn gradient<'a>(
        logp: &[f64],
        terms: impl Iterator<Item = (&'a Completion, &'a [f64])>,
    ) -> Vec<f64> {
        let mut gradient = vec![0.0; logp.len()];
        let mut totals = vec![0.0; logp.len() / LETTERS];
        for (completion, terms) in terms {
            for ((prefix, letter), term) in completion.tokens.iter().zip(terms) {
                gradient[prefix * LETTERS + letter] += term;
                totals[*prefix] += term;
            }
        }
        for (index, slot) in gradient.iter_mut().enumerate() {
            *slot -= totals[index / LETTERS] * logp[index].exp();
        }
        gradient
    }
}

impl Completion {
    /// log π of each of its tokens.
    pub(super) fn log_probabilities(&self, logp: &[f64]) -> Vec<f64> {
        let tokens = self.tokens.iter();
        tokens
            .map(|(prefix, letter)| logp[prefix * LETTERS + letter])
            .collect()
    }
}

/// ∇J = Σ_y π(y) R(y) ∇ log π(y) over all completions, and J itself.
pub(super) fn exact_gradient(
    policy: &Policy,
    completions: &[Completion],
    rewards: &[f64],
) -> (Vec<f64>, f64) {
    let logp = policy.log_probabilities();
    let mut value = 0.0;
    let terms: Vec<Vec<f64>> = completions
        .iter()
        .zip(rewards)
        .map(|(completion, reward)| {
            let probability = completion
                .log_probabilities(&logp)
                .iter()
                .sum::<f64>()
                .exp();
            value += probability * reward;
            vec![probability * reward; completion.tokens.len()]
        })
        .collect();
    let pairs = completions.iter().zip(terms.iter().map(Vec::as_slice));
    (Policy::gradient(&logp, pairs), value)
}

/// A direction scaled so that its elements are 1 in root mean square.
pub(super) fn unit(direction: &[f64]) -> Vec<f64> {
    let squares: f64 = direction.iter().map(|x| x * x).sum();
    let size = (squares / direction.len() as f64).sqrt();
    let scale = if size > 0.0 { 1.0 / size } else { 0.0 };
    direction.iter().map(|x| x * scale).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_completion_is_listed_once_and_the_probabilities_sum_to_one() {
        let all = completions();
        // Ended at the first token; after one of two letters; after two of them, ended or truncated.
        assert_eq!(all.len(), 1 + 2 + 4 * 3);
        let largest = all.iter().flat_map(|c| &c.tokens).map(|(p, _)| *p).max();
        assert_eq!(largest, Some(parameters() / LETTERS - 1));
        let logp = Policy::random(7, "test").log_probabilities();
        let total: f64 = all
            .iter()
            .map(|c| c.log_probabilities(&logp).iter().sum::<f64>().exp())
            .sum();
        assert!((total - 1.0).abs() < 1e-12, "{total}");
    }

    #[test]
    fn the_exact_gradient_is_the_slope_of_the_value() {
        let (policy, all) = (Policy::random(3, "test"), completions());
        let rewards: Vec<f64> = (0..all.len())
            .map(|i| f64::from(u8::from(i % 3 == 0)))
            .collect();
        let (gradient, _) = exact_gradient(&policy, &all, &rewards);
        for index in 0..parameters() {
            let mut step = vec![0.0; parameters()];
            step[index] = 1.0;
            let value_at =
                |distance| exact_gradient(&policy.moved(&step, distance), &all, &rewards).1;
            let slope = (value_at(1e-5) - value_at(-1e-5)) / 2e-5;
            assert!((slope - gradient[index]).abs() < 1e-9, "{index}: {slope}");
        }
    }

    #[test]
    fn a_unit_direction_has_a_root_mean_square_of_one() {
        let direction = unit(&[3.0, -4.0]);
        let squares: f64 = direction.iter().map(|x| x * x).sum();
        assert!((squares / 2.0 - 1.0).abs() < 1e-12);
        assert_eq!(unit(&[0.0, 0.0]), [0.0, 0.0]);
    }
}
