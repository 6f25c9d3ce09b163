//! The exact study on toy prompts: every group that can be sampled is enumerated.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use serde::Serialize;

use super::UPDATE_COMPLETIONS;
use super::enumerate::Case;
use super::grid::{Setting, grid};
use super::quality::{InnerProducts, Quality};
use super::rows::{Level, Row};
use super::toy::{self, Completion, Policy, completions, exact_gradient, unit};
use crate::algo::AlgoError;
use crate::seed;

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
pub struct Counted {
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

/// Length of an update's part along the gradient, relative to its random part: much of a mini-batch's update is noise.
const GRADIENT_SHARE: f64 = 0.5;

/// How the behaviour policies are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Course {
    /// They are the policy some updates ago. Each update moved along the gradient, and twice as far in a random direction.
    Updates,
    /// They are at the same distance from the policy in a random direction.
    Drift,
}

impl Course {
    fn name(self) -> &'static str {
        match self {
            Course::Updates => "updates",
            Course::Drift => "drift",
        }
    }
}

/// A prompt: its completions' rewards, its policy, and the earlier states of its policy.
struct Prompt {
    rewards: Vec<f64>,
    /// The studied policy, followed by its states before each update, the latest first.
    past: Vec<Policy>,
    /// The direction of [`Course::Drift`].
    drift: Vec<f64>,
    /// ∇J.
    gradient: Vec<f64>,
    /// J, the expected reward.
    value: f64,
}

impl Prompt {
    fn new(toy: &Toy, number: usize, completions: &[Completion]) -> Self {
        let purpose = |what: &str| format!("toy {number} {what}");
        let mut policy = Policy::random(toy.seed, &purpose("logits"));
        let rewards = rewards(toy, number, &policy, completions);
        let mut past = vec![policy.clone()];
        for update in 0..toy.staleness.iter().copied().max().unwrap_or(0) {
            let (gradient, _) = exact_gradient(&policy, completions, &rewards);
            let noise = seed::normals(
                toy.seed,
                &purpose(&format!("update {update}")),
                gradient.len(),
            );
            let (gradient, noise) = (unit(&gradient), unit(&noise));
            let pairs = gradient.iter().zip(&noise);
            let direction: Vec<f64> = pairs.map(|(g, n)| GRADIENT_SHARE * g + n).collect();
            policy = policy.moved(&unit(&direction), -toy.update);
            past.push(policy.clone());
        }
        let (gradient, value) = exact_gradient(&past[0], completions, &rewards);
        let drift = seed::normals(toy.seed, &purpose("drift"), toy::parameters());
        Self {
            rewards,
            past,
            drift: unit(&drift),
            gradient,
            value,
        }
    }

    fn behaviour(&self, course: Course, staleness: usize, update: f64) -> Policy {
        match course {
            Course::Updates => self.past[staleness].clone(),
            Course::Drift => self.past[0].moved(&self.drift, -(staleness as f64) * update),
        }
    }
}

/// Rewards of 1 for completions in a random order, as long as their total probability under the policy does not exceed the prompt's maximum.
fn rewards(toy: &Toy, number: usize, policy: &Policy, completions: &[Completion]) -> Vec<f64> {
    let token_logp = policy.log_probabilities();
    let mut rewards = vec![0.0; completions.len()];
    let mut remaining = toy.values[number];
    for y in seed::permutation(toy.seed, number, completions.len()) {
        let logp: f64 = completions[y].log_probabilities(&token_logp).iter().sum();
        if logp.exp() <= remaining {
            rewards[y] = 1.0;
            remaining -= logp.exp();
        }
    }
    rewards
}

/// A unit of the work: a course, a staleness and a group size.
type Job = (Course, usize, usize);

/// Measures every estimator exactly. `watch` is called with the number of finished units of work and their total.
///
/// # Errors
/// Those of the algorithms, which the toy's numbers do not cause.
pub fn counted(toy: &Toy, watch: &(dyn Fn(usize, usize) + Sync)) -> Result<Counted, AlgoError> {
    let completions = completions();
    let prompts: Vec<Prompt> = (0..toy.values.len())
        .map(|number| Prompt::new(toy, number, &completions))
        .collect();
    let mut jobs: Vec<Job> = Vec::new();
    for course in [Course::Updates, Course::Drift] {
        for staleness in &toy.staleness {
            // At a staleness of 0 the two courses are the same.
            if course == Course::Updates || *staleness > 0 {
                jobs.extend(
                    toy.group_sizes
                        .iter()
                        .map(|size| (course, *staleness, *size)),
                );
            }
        }
    }
    let results = in_parallel(&jobs, watch, |job| {
        measure(toy, &prompts, &completions, *job)
    })?;
    let mut levels: Vec<Level> = Vec::new();
    let mut rows = Vec::new();
    for (level, rows_of_level) in results {
        if levels.last() != Some(&level) {
            levels.push(level);
        }
        rows.extend(rows_of_level);
    }
    Ok(Counted {
        toy: toy.clone(),
        completions: completions.len(),
        parameters: toy::parameters(),
        values: prompts.iter().map(|prompt| prompt.value).collect(),
        levels,
        rows,
    })
}

/// All settings at one level. Each prompt is sampled equally often, so the gradient is the mean over prompts, and an update's variance is the variance within prompts.
fn measure(
    toy: &Toy,
    prompts: &[Prompt],
    completions: &[Completion],
    (course, staleness, size): Job,
) -> Result<(Level, Vec<Row>), AlgoError> {
    let behaviours: Vec<Policy> = prompts
        .iter()
        .map(|prompt| prompt.behaviour(course, staleness, toy.update))
        .collect();
    let cases: Vec<Case<'_>> = prompts
        .iter()
        .zip(&behaviours)
        .map(|(prompt, behaviour)| {
            Case::new(completions, &prompt.rewards, &prompt.past[0], behaviour)
        })
        .collect();
    let count = prompts.len() as f64;
    let mut level = Level::new(course.name(), staleness);
    for case in &cases {
        let distance = case.distance();
        level.kl += distance.kl / count;
        level.abs_ell += distance.abs_ell / count;
        level.ess += 1.0 / distance.square_weight / count;
    }
    let mut rows = Vec::new();
    for setting in grid() {
        let quality = quality(prompts, &cases, &setting, size)?;
        rows.push(Row::new("toy", &level, size, &setting, quality, None));
    }
    Ok((level, rows))
}

fn quality(
    prompts: &[Prompt],
    cases: &[Case<'_>],
    setting: &Setting,
    size: usize,
) -> Result<Quality, AlgoError> {
    let count = prompts.len() as f64;
    let mut products = InnerProducts::default();
    let (mut factor, mut factor_squared) = (0.0, 0.0);
    for (prompt, case) in prompts.iter().zip(cases) {
        let moments = case.moments(&setting.estimator, size)?;
        let (m, g) = (&moments.mean, &prompt.gradient);
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let bias: Vec<f64> = m.iter().zip(g).map(|(m, g)| m - g).collect();
        // Each prompt has its own parameters, and its weight in the mean gradient is 1 / `count`.
        products.add(&InnerProducts {
            gradient: dot(g, g) / (count * count),
            mean: dot(m, m) / (count * count),
            cross: dot(m, g) / (count * count),
            bias: dot(&bias, &bias) / (count * count),
            variance: moments.variance / count,
        });
        let (f, ff) = case.factor(&setting.estimator, prompt.value)?;
        (factor, factor_squared) = (factor + f / count, factor_squared + ff / count);
    }
    let ess = if factor_squared > 0.0 {
        factor * factor / factor_squared
    } else {
        0.0
    };
    let groups = UPDATE_COMPLETIONS as f64 / size as f64;
    Ok(Quality::of(&products, ess, groups))
}

/// Does the jobs on all processors, and returns the results in the order of the jobs.
fn in_parallel<T: Send>(
    jobs: &[Job],
    watch: &(dyn Fn(usize, usize) + Sync),
    work: impl Fn(&Job) -> Result<T, AlgoError> + Sync,
) -> Result<Vec<T>, AlgoError> {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let (next, finished) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let results: Mutex<Vec<(usize, Result<T, AlgoError>)>> = Mutex::new(Vec::new());
    watch(0, jobs.len());
    std::thread::scope(|scope| {
        for _ in 0..threads.min(jobs.len()) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = jobs.get(number) else { return };
                    let result = work(job);
                    let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
                    results.push((number, result));
                    watch(finished.fetch_add(1, Ordering::Relaxed) + 1, jobs.len());
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(number, _)| *number);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests;
