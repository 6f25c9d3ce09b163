//! The exact study, on prompts whose softmax policies are small enough that every group that can be sampled is enumerated.
//!
//! An estimator does not depend on the order of a group's completions, so groups are enumerated as multisets. A group of G with counts kᵧ of each completion y stands
//! for G! / Π kᵧ! ordered groups, each with the probability Π μ(y)^kᵧ.

use serde::Serialize;

use super::estimators::{Setting, estimators};
use super::quality::{InnerProducts, Quality, ratio};
use super::{Level, Row, UPDATE_COMPLETIONS, mean_factor, sample};
use crate::algo::{AlgoError, Estimator, gradient};
use crate::seed;

/// Letters of the policy's alphabet; the first one ends a completion.
const LETTERS: usize = 3;
/// Maximum tokens of a completion.
const MAX_TOKENS: usize = 3;
/// Length of an update's part along the gradient, relative to its random part: much of a mini-batch's update is noise.
const GRADIENT_SHARE: f64 = 0.5;

/// How the behaviour policies are made: they are the policy some updates ago, or at the same distance from it in a random direction.
const COURSES: [&str; 2] = ["updates", "drift"];

/// The settings of the toy.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Toy {
    /// Seed of the logits, rewards and updates.
    pub seed: u64,
    /// For each prompt, the maximum probability of a correct completion under the policy.
    pub values: Vec<f64>,
    /// Completions per group. The page shows the first size, the files show all.
    pub group_sizes: Vec<usize>,
    /// Numbers of updates by which the behaviour policy is behind.
    pub staleness: Vec<usize>,
    /// Root mean square of an update's change of the logits.
    pub update: f64,
}

impl Default for Toy {
    fn default() -> Self {
        Self {
            seed: 0,
            values: vec![0.5, 0.25, 0.1],
            group_sizes: vec![4],
            staleness: vec![0, 1, 2, 4, 8, 16],
            update: 0.15,
        }
    }
}

/// The exact results on the toy.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ToyResults {
    /// The settings.
    pub toy: Toy,
    /// Number of completions of a prompt.
    pub completions: usize,
    /// Number of parameters of a prompt's policy.
    pub parameters: usize,
    /// For each prompt, the probability of a correct completion under the policy.
    pub values: Vec<f64>,
    /// The distance of each behaviour policy from the policy.
    pub levels: Vec<Level>,
    /// One row for each level, group size and setting.
    pub rows: Vec<Row>,
}

/// Measures every estimator exactly.
///
/// # Errors
/// Those of the algorithms, which the toy's numbers do not cause.
///
/// # Panics
/// If a thread panicked.
pub fn toy(toy: &Toy) -> Result<ToyResults, AlgoError> {
    let completions = &completions()[..];
    let prompts: Vec<Prompt> = (0..toy.values.len())
        .map(|number| Prompt::new(toy, number, completions))
        .collect();
    let prompts = &prompts[..];
    let levels = COURSES.into_iter().flat_map(|course| {
        // At a staleness of 0 the two courses are the same.
        let first = course == COURSES[0];
        let staleness = toy.staleness.iter().filter(move |it| first || **it > 0);
        staleness.map(move |staleness| (course, *staleness))
    });
    let results: Result<Vec<_>, AlgoError> = std::thread::scope(|scope| {
        let threads: Vec<_> = levels
            .map(|(course, staleness)| {
                scope.spawn(move || measure(toy, prompts, completions, course, staleness))
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("the measurement does not panic"))
            .collect()
    });
    let (levels, rows): (Vec<Level>, Vec<Vec<Row>>) = results?.into_iter().unzip();
    Ok(ToyResults {
        toy: toy.clone(),
        completions: completions.len(),
        parameters: parameters(),
        values: prompts.iter().map(|prompt| prompt.value).collect(),
        levels,
        rows: rows.concat(),
    })
}

/// All settings at one level. Each prompt is sampled equally often, so the gradient is the mean over prompts, and an update's variance is the variance within prompts.
fn measure(
    toy: &Toy,
    prompts: &[Prompt],
    completions: &[Completion],
    course: &str,
    staleness: usize,
) -> Result<(Level, Vec<Row>), AlgoError> {
    let cases: Vec<Case<'_>> = prompts
        .iter()
        .map(|prompt| {
            let behaviour = match course == COURSES[0] {
                true => prompt.past[staleness].clone(),
                false => moved(
                    &prompt.past[0],
                    &prompt.drift,
                    -(staleness as f64) * toy.update,
                ),
            };
            Case::new(completions, prompt, &behaviour)
        })
        .collect();
    let count = prompts.len() as f64;
    let mut level = Level {
        course: course.to_owned(),
        staleness,
        kl: 0.0,
        abs_ell: 0.0,
        ess: 0.0,
    };
    for case in &cases {
        let mean = |of: &dyn Fn(f64) -> f64| -> f64 {
            let pairs = case.behaviour_logp.iter().zip(&case.ell);
            pairs.map(|(logp, ell)| logp.exp() * of(*ell)).sum()
        };
        level.kl -= mean(&|ell| ell) / count;
        level.abs_ell += mean(&f64::abs) / count;
        level.ess += 1.0 / mean(&|ell| (2.0 * ell).exp()) / count;
    }
    let mut rows = Vec::new();
    for group_size in &toy.group_sizes {
        for setting in estimators() {
            rows.push(Row {
                policy: "toy",
                course: course.to_owned(),
                staleness,
                group_size: *group_size,
                quality: quality(&cases, &setting, *group_size)?,
                setting,
                errors: None,
            });
        }
    }
    Ok((level, rows))
}

fn quality(cases: &[Case<'_>], setting: &Setting, size: usize) -> Result<Quality, AlgoError> {
    let count = cases.len() as f64;
    let mut products = InnerProducts::default();
    let (mut factor, mut factor_squared) = (0.0, 0.0);
    for case in cases {
        let (m, variance) = case.moments(&setting.estimator, size)?;
        let g = &case.prompt.gradient;
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let bias: Vec<f64> = m.iter().zip(g).map(|(m, g)| m - g).collect();
        // Each prompt has its own parameters, and its weight in the mean gradient is 1 / `count`.
        products.gradient += dot(g, g) / (count * count);
        products.mean += dot(&m, &m) / (count * count);
        products.cross += dot(&m, g) / (count * count);
        products.bias += dot(&bias, &bias) / (count * count);
        products.variance += variance / count;
        let (f, ff) = case.factor(&setting.estimator)?;
        (factor, factor_squared) = (factor + f / count, factor_squared + ff / count);
    }
    let groups = UPDATE_COMPLETIONS as f64 / size as f64;
    let ess = ratio(factor * factor, factor_squared);
    Ok(Quality::of(&products, ess, groups))
}

/// A completion: for each of its tokens, the prefix before it and the letter.
type Completion = Vec<(usize, usize)>;

/// All completions, each once.
fn completions() -> Vec<Completion> {
    let mut all = Vec::new();
    let mut next = 1;
    let mut open = vec![(0, Completion::new())];
    while let Some((prefix, tokens)) = open.pop() {
        for letter in 0..LETTERS {
            let mut tokens = tokens.clone();
            tokens.push((prefix, letter));
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

/// Number of parameters: prefixes that do not end a completion, times letters.
fn parameters() -> usize {
    let depths = 0..MAX_TOKENS as u32;
    LETTERS * depths.map(|depth| (LETTERS - 1).pow(depth)).sum::<usize>()
}

/// A policy: its logits, a row of letters for each prefix. Gradients are with respect to these.
type Logits = Vec<f64>;

/// log π of each letter after each prefix, in the layout of the logits.
fn log_probabilities(logits: &Logits) -> Vec<f64> {
    let rows = logits.chunks(LETTERS).flat_map(|row| {
        let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let total = row.iter().map(|x| (x - largest).exp()).sum::<f64>().ln() + largest;
        row.iter().map(move |x| x - total)
    });
    rows.collect()
}

/// log π of each token of a completion.
fn tokens_logp(completion: &Completion, logp: &[f64]) -> Vec<f64> {
    let tokens = completion.iter();
    tokens
        .map(|(prefix, letter)| logp[prefix * LETTERS + letter])
        .collect()
}

/// The policy moved by `distance` along a direction.
fn moved(logits: &Logits, direction: &[f64], distance: f64) -> Logits {
    let pairs = logits.iter().zip(direction);
    pairs.map(|(x, d)| x + distance * d).collect()
}

/// A direction scaled so that its elements are 1 in root mean square.
fn unit(direction: &[f64]) -> Vec<f64> {
    let squares: f64 = direction.iter().map(|x| x * x).sum();
    let scale = ratio(1.0, (squares / direction.len() as f64).sqrt());
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
        for ((prefix, letter), term) in completion.iter().zip(terms) {
            gradient[prefix * LETTERS + letter] += term;
            totals[*prefix] += term;
        }
    }
    for (index, slot) in gradient.iter_mut().enumerate() {
        *slot -= totals[index / LETTERS] * logp[index].exp();
    }
    gradient
}

/// ∇J = Σ_y π(y) R(y) ∇ log π(y) over all completions, and J itself.
fn exact_gradient(policy: &Logits, completions: &[Completion], rewards: &[f64]) -> (Vec<f64>, f64) {
    let logp = log_probabilities(policy);
    let mut value = 0.0;
    let terms: Vec<Vec<f64>> = completions
        .iter()
        .zip(rewards)
        .map(|(completion, reward)| {
            let probability = tokens_logp(completion, &logp).iter().sum::<f64>().exp();
            value += probability * reward;
            vec![probability * reward; completion.len()]
        })
        .collect();
    let gradient = weighted_gradient(&logp, completions.iter().zip(terms));
    (gradient, value)
}

/// A prompt: its completions' rewards, its policy, and the earlier states of its policy.
struct Prompt {
    rewards: Vec<f64>,
    /// The studied policy, followed by its states before each update, the latest first.
    past: Vec<Logits>,
    /// The random direction of the course `drift`.
    drift: Vec<f64>,
    /// ∇J.
    gradient: Vec<f64>,
    /// J, the expected reward.
    value: f64,
}

impl Prompt {
    fn new(toy: &Toy, number: usize, completions: &[Completion]) -> Self {
        let normals =
            |what: &str| seed::normals(toy.seed, &format!("toy {number} {what}"), parameters());
        let mut policy = normals("logits");
        let rewards = rewards(toy, number, &policy, completions);
        let mut past = vec![policy.clone()];
        for update in 0..toy.staleness.iter().copied().max().unwrap_or(0) {
            let (gradient, _) = exact_gradient(&policy, completions, &rewards);
            let noise = unit(&normals(&format!("update {update}")));
            let direction = moved(&noise, &unit(&gradient), GRADIENT_SHARE);
            policy = moved(&policy, &unit(&direction), -toy.update);
            past.push(policy.clone());
        }
        let (gradient, value) = exact_gradient(&past[0], completions, &rewards);
        Self {
            rewards,
            past,
            drift: unit(&normals("drift")),
            gradient,
            value,
        }
    }
}

/// Rewards of 1 for completions in a random order, as long as their total probability under the policy does not exceed the prompt's maximum.
fn rewards(toy: &Toy, number: usize, policy: &Logits, completions: &[Completion]) -> Vec<f64> {
    let logp = log_probabilities(policy);
    let mut rewards = vec![0.0; completions.len()];
    let mut remaining = toy.values[number];
    for y in seed::permutation(toy.seed, number, completions.len()) {
        let probability = tokens_logp(&completions[y], &logp)
            .iter()
            .sum::<f64>()
            .exp();
        if probability <= remaining {
            rewards[y] = 1.0;
            remaining -= probability;
        }
    }
    rewards
}

/// A prompt's completions under its policy and a behaviour policy.
struct Case<'a> {
    completions: &'a [Completion],
    prompt: &'a Prompt,
    /// log π, in the layout of the logits.
    policy: Vec<f64>,
    /// log π of each completion's tokens, in the trainer's precision.
    new: Vec<Vec<f32>>,
    /// log μ of each completion's tokens, in the trainer's precision.
    behaviour: Vec<Vec<f32>>,
    /// log μ(y) of each completion.
    behaviour_logp: Vec<f64>,
    /// ℓ of each completion.
    ell: Vec<f64>,
}

impl<'a> Case<'a> {
    fn new(completions: &'a [Completion], prompt: &'a Prompt, behaviour: &Logits) -> Self {
        let policy = log_probabilities(&prompt.past[0]);
        let behaviour = log_probabilities(behaviour);
        let single = |logp: &[f64]| -> Vec<Vec<f32>> {
            let each = completions.iter().map(|c| tokens_logp(c, logp));
            each.map(|tokens| tokens.into_iter().map(|x| x as f32).collect())
                .collect()
        };
        let total = |logp: &[f64]| -> Vec<f64> {
            let each = completions.iter();
            each.map(|c| tokens_logp(c, logp).iter().sum()).collect()
        };
        let behaviour_logp = total(&behaviour);
        let pairs = total(&policy).into_iter().zip(&behaviour_logp);
        Self {
            completions,
            prompt,
            new: single(&policy),
            behaviour: single(&behaviour),
            ell: pairs.map(|(new, old)| new - old).collect(),
            behaviour_logp,
            policy,
        }
    }

    /// E ĝ, the mean of the estimate of ∇J from one group of `size` completions, and the trace of its variance.
    fn moments(&self, estimator: &Estimator, size: usize) -> Result<(Vec<f64>, f64), AlgoError> {
        let mut mean = vec![0.0; self.policy.len()];
        let mut square = 0.0;
        for group in multisets(self.completions.len(), size) {
            let estimate = self.estimate(estimator, &group)?;
            let logp: f64 = group.iter().map(|y| self.behaviour_logp[*y]).sum();
            let probability = orders(&group) * logp.exp();
            for (mean, g) in mean.iter_mut().zip(&estimate) {
                *mean += probability * g;
            }
            square += probability * estimate.iter().map(|g| g * g).sum::<f64>();
        }
        let variance = (square - mean.iter().map(|g| g * g).sum::<f64>()).max(0.0);
        Ok((mean, variance))
    }

    /// The estimate of ∇J from one group, from training's own `dL/dlogp` with the opposite sign, since L = −J.
    fn estimate(&self, estimator: &Estimator, group: &[usize]) -> Result<Vec<f64>, AlgoError> {
        let rewards = &self.prompt.rewards;
        let samples = group
            .iter()
            .map(|y| sample(&self.new[*y], &self.behaviour[*y], Some(rewards[*y])));
        let result = gradient(estimator, &[samples.collect()], MAX_TOKENS)?;
        let terms = result.dlogp.iter();
        let terms = terms.map(|tokens| tokens.iter().map(|d| -f64::from(*d)).collect());
        let completions = group.iter().map(|y| &self.completions[*y]);
        Ok(weighted_gradient(&self.policy, completions.zip(terms)))
    }

    /// E f and E f² of the factor that training gives each completion, or of the mean over its tokens if each has its own. Where the factor depends on the sign of the
    /// advantage, the sign is that of the reward minus the prompt's value.
    fn factor(&self, estimator: &Estimator) -> Result<(f64, f64), AlgoError> {
        let (mut mean, mut square) = (0.0, 0.0);
        for (y, reward) in self.prompt.rewards.iter().enumerate() {
            let sign = if *reward > self.prompt.value {
                1.0
            } else {
                -1.0
            };
            let (new, behaviour) = (&self.new[y], &self.behaviour[y]);
            let factor = mean_factor(estimator, new, behaviour, sign, MAX_TOKENS)?;
            mean += self.behaviour_logp[y].exp() * factor;
            square += self.behaviour_logp[y].exp() * factor * factor;
        }
        Ok((mean, square))
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
