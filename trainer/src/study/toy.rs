//! The exact study, on prompts with softmax policies so small that every possible group is enumerated.
//!
//! An estimator does not depend on the order of a group's completions, so groups are enumerated as multisets. A group of G with counts kᵧ of each completion y stands
//! for G! / Π kᵧ! ordered groups, each with the probability Π μ(y)^kᵧ.

use super::estimators::estimators;
use super::{Products, Row, dot, plus, ratio, sample};
use crate::algo::{AlgoError, gradient};
use crate::config::Algorithm;
use crate::seed;

/// Letters of the policy's alphabet; the first one ends a completion.
const LETTERS: usize = 3;
const MAX_TOKENS: usize = 3;
/// For each prompt, the maximum probability of a correct completion under the policy.
const VALUES: [f64; 3] = [0.5, 0.25, 0.1];
/// Number of logits: a row of letters for the start, and for each prefix of one letter or two that does not end a completion.
const PARAMETERS: usize = LETTERS * (1 + 2 + 4);
/// Root mean square of an update's change of the logits.
const UPDATE: f64 = 0.15;
/// Length of an update's part along the gradient, relative to its random part: much of a mini-batch's update is noise.
const GRADIENT_SHARE: f64 = 0.5;

/// Measures every estimator exactly, with these numbers of updates by which the behaviour policy is behind. `updates` is the policy that many updates ago, and `drift` a policy
/// at the same distance in a random direction.
///
/// # Errors
/// Those of the algorithms, which the toy's numbers do not cause.
pub fn toy(seed: u64, group_size: usize, staleness: &[usize]) -> Result<Vec<Row>, AlgoError> {
    let updates = staleness.iter().map(|staleness| ("updates", *staleness));
    // At a staleness of 0 the two courses are the same.
    let drift = staleness.iter().filter(|staleness| **staleness > 0);
    let drift = drift.map(|staleness| ("drift", *staleness));
    let rows = updates
        .chain(drift)
        .map(|policy| measure(seed, group_size, policy));
    Ok(rows.collect::<Result<Vec<_>, _>>()?.concat())
}

/// All estimators with one behaviour policy. Each prompt is sampled equally often, so the gradient is the mean over prompts, and an update's variance is the variance
/// within prompts.
fn measure(seed: u64, size: usize, policy: (&str, usize)) -> Result<Vec<Row>, AlgoError> {
    let prompts = 0..VALUES.len();
    let prompts: Vec<Prompt> = prompts.map(|it| Prompt::new(seed, it, policy)).collect();
    let count = prompts.len() as f64;
    let ess = prompts.iter().map(Prompt::ess).sum::<f64>() / count;
    let row = |setting: (Algorithm, _)| {
        let mut products = Products::default();
        for prompt in &prompts {
            let (m, variance) = prompt.moments(&setting.0, size)?;
            let g = &prompt.gradient;
            // Each prompt has its own parameters, and its weight in the mean gradient is 1 / `count`.
            products.gradient += dot(g, g) / (count * count);
            products.mean += dot(&m, &m) / (count * count);
            products.cross += dot(&m, g) / (count * count);
            products.variance += variance / count;
        }
        Ok(Row::new(policy, setting, size, &products, ess))
    };
    estimators().into_iter().map(row).collect()
}

/// A completion: for each of its tokens, the position of its logit, in a row of letters for each prefix.
type Completion = Vec<usize>;

/// All completions, each once.
fn completions() -> Vec<Completion> {
    let mut all = Vec::new();
    let mut next = 1;
    let mut open = vec![(0, Completion::new())];
    while let Some((prefix, tokens)) = open.pop() {
        for letter in 0..LETTERS {
            let mut tokens = tokens.clone();
            tokens.push(prefix * LETTERS + letter);
            if letter == 0 || tokens.len() == MAX_TOKENS {
                all.push(tokens);
            } else {
                open.push((next, tokens));
                next += 1;
            }
        }
    }
    all
}

/// log π of each letter after each prefix, in the layout of the logits. Gradients are with respect to these.
fn log_probabilities(logits: &[f64]) -> Vec<f64> {
    let rows = logits.chunks(LETTERS).flat_map(|row| {
        let total = row.iter().map(|x| x.exp()).sum::<f64>().ln();
        row.iter().map(move |x| x - total)
    });
    rows.collect()
}

fn total_logp(completion: &Completion, logp: &[f64]) -> f64 {
    completion.iter().map(|token| logp[*token]).sum()
}

/// A direction scaled so that its elements are 1 in root mean square.
fn unit(direction: &[f64]) -> Vec<f64> {
    let square = dot(direction, direction) / direction.len() as f64;
    let scale = ratio(1.0, square.sqrt());
    direction.iter().map(|x| x * scale).collect()
}

/// Σᵢ Σₜ cᵢₜ ∇ log π(yᵢₜ) with respect to the logits. For a letter y after a prefix, ∂ log π(y) / ∂ logit(k) = δ(y, k) − π(k).
fn weighted_gradient<'a>(
    logp: &[f64],
    terms: impl Iterator<Item = (&'a Completion, Vec<f64>)>,
) -> Vec<f64> {
    let mut gradient = vec![0.0; logp.len()];
    let mut totals = vec![0.0; logp.len() / LETTERS];
    for (completion, terms) in terms {
        for (token, term) in completion.iter().zip(terms) {
            gradient[*token] += term;
            totals[token / LETTERS] += term;
        }
    }
    for (index, slot) in gradient.iter_mut().enumerate() {
        *slot -= totals[index / LETTERS] * logp[index].exp();
    }
    gradient
}

/// ∇J = Σ_y π(y) R(y) ∇ log π(y) over all completions.
fn exact_gradient(logp: &[f64], completions: &[Completion], rewards: &[f64]) -> Vec<f64> {
    let each = completions.iter().zip(rewards);
    let terms = each.map(|(completion, reward)| {
        let term = total_logp(completion, logp).exp() * reward;
        (completion, vec![term; completion.len()])
    });
    weighted_gradient(logp, terms)
}

/// Rewards of 1 for completions in a random order, as long as their total probability under the policy does not exceed the prompt's maximum.
fn rewards(seed: u64, number: usize, logp: &[f64], completions: &[Completion]) -> Vec<f64> {
    let mut rewards = vec![0.0; completions.len()];
    let mut remaining = VALUES[number];
    for y in seed::permutation(seed, number, completions.len()) {
        let probability = total_logp(&completions[y], logp).exp();
        if probability <= remaining {
            rewards[y] = 1.0;
            remaining -= probability;
        }
    }
    rewards
}

/// A prompt's completions under its policy and a behaviour policy.
struct Prompt {
    completions: Vec<Completion>,
    rewards: Vec<f64>,
    /// log π, in the layout of the logits.
    policy: Vec<f64>,
    /// ∇J.
    gradient: Vec<f64>,
    /// log π of each completion's tokens, in the trainer's precision.
    new: Vec<Vec<f32>>,
    /// log μ of each completion's tokens, in the trainer's precision.
    behaviour: Vec<Vec<f32>>,
    /// log μ(y) of each completion.
    behaviour_logp: Vec<f64>,
}

impl Prompt {
    fn new(seed: u64, number: usize, (course, staleness): (&str, usize)) -> Self {
        let normals = |what: &str| seed::normals(seed, &format!("toy {number} {what}"), PARAMETERS);
        let completions = completions();
        let policy = normals("logits");
        let rewards = rewards(seed, number, &log_probabilities(&policy), &completions);
        let before = |later: Vec<f64>, update: usize| {
            let gradient = exact_gradient(&log_probabilities(&later), &completions, &rewards);
            let noise = unit(&normals(&format!("update {update}")));
            let direction = plus(&noise, GRADIENT_SHARE, &unit(&gradient));
            plus(&later, -UPDATE, &unit(&direction))
        };
        let behaviour = match course {
            "updates" => (0..staleness).fold(policy.clone(), before),
            _ => plus(
                &policy,
                -(staleness as f64) * UPDATE,
                &unit(&normals("drift")),
            ),
        };
        let [policy, behaviour] = [policy, behaviour].map(|logits| log_probabilities(&logits));
        let single = |logp: &[f64]| -> Vec<Vec<f32>> {
            let of =
                |completion: &Completion| completion.iter().map(|it| logp[*it] as f32).collect();
            completions.iter().map(of).collect()
        };
        let each = completions.iter();
        Self {
            gradient: exact_gradient(&policy, &completions, &rewards),
            new: single(&policy),
            behaviour: single(&behaviour),
            behaviour_logp: each.map(|c| total_logp(c, &behaviour)).collect(),
            policy,
            rewards,
            completions,
        }
    }

    /// E ĝ, the mean of the estimate of ∇J from one group of `size` completions, and the trace of its variance.
    fn moments(&self, estimator: &Algorithm, size: usize) -> Result<(Vec<f64>, f64), AlgoError> {
        let mut mean = vec![0.0; self.policy.len()];
        let mut square = 0.0;
        for group in multisets(self.new.len(), size) {
            let estimate = self.estimate(estimator, &group)?;
            let logp: f64 = group.iter().map(|y| self.behaviour_logp[*y]).sum();
            let probability = orders(&group) * logp.exp();
            for (mean, g) in mean.iter_mut().zip(&estimate) {
                *mean += probability * g;
            }
            square += probability * dot(&estimate, &estimate);
        }
        let variance = (square - dot(&mean, &mean)).max(0.0);
        Ok((mean, variance))
    }

    /// The estimate of ∇J from one group, from training's own `dL/dlogp` with the opposite sign, since L = −J.
    fn estimate(&self, estimator: &Algorithm, group: &[usize]) -> Result<Vec<f64>, AlgoError> {
        let of = |y: &usize| sample(&self.new[*y], &self.behaviour[*y], Some(self.rewards[*y]));
        let samples = group.iter().map(of);
        let result = gradient(estimator, &[samples.collect()], MAX_TOKENS)?;
        let terms = result.dlogp.iter();
        let terms = terms.map(|tokens| tokens.iter().map(|d| -f64::from(*d)).collect());
        let completions = group.iter().map(|y| &self.completions[*y]);
        Ok(weighted_gradient(&self.policy, completions.zip(terms)))
    }

    /// The effective sample size of the weights w = π/μ: (E w)² / E w², where E w = 1.
    fn ess(&self) -> f64 {
        let pairs = self.completions.iter().zip(&self.behaviour_logp);
        let squares =
            pairs.map(|(c, behaviour)| (2.0 * total_logp(c, &self.policy) - behaviour).exp());
        1.0 / squares.sum::<f64>()
    }
}

/// Every multiset of `size` numbers below `n`, each in ascending order.
fn multisets(n: usize, size: usize) -> impl Iterator<Item = Vec<usize>> {
    std::iter::successors(Some(vec![0; size]), move |group| {
        // Increases the last element that can still grow, and sets all elements after it to the same value.
        let position = group.iter().rposition(|y| *y + 1 < n)?;
        let mut next = group.clone();
        next[position..].fill(group[position] + 1);
        Some(next)
    })
}

/// G! / Π kᵧ!: the number of orders of a multiset.
fn orders(group: &[usize]) -> f64 {
    let (mut orders, mut run) = (1.0, 0.0);
    for (position, y) in group.iter().enumerate() {
        let repeats = position > 0 && group[position - 1] == *y;
        run = if repeats { run + 1.0 } else { 1.0 };
        orders *= (position + 1) as f64 / run;
    }
    orders
}

#[cfg(test)]
mod tests;
