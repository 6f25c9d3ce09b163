//! The study on toy prompts, where nothing is left to chance: every group that can be drawn is counted.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use serde::Serialize;

use super::UPDATE_COMPLETIONS;
use super::exact::Case;
use super::grid::{Setting, grid};
use super::quality::{Products, Quality};
use super::rows::{Level, Row};
use super::toy::{self, Completion, Policy, completions, exact_gradient, unit};
use crate::algo::AlgoError;
use crate::seed;

/// What is counted.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Toy {
    /// Decides logits, rewards and updates.
    pub seed: u64,
    /// Probability of a right completion of each prompt under the policy, at most.
    pub values: Vec<f64>,
    /// Completions a group.
    pub group_sizes: Vec<usize>,
    /// Updates that the behaviour policy is behind.
    pub staleness: Vec<usize>,
    /// Root mean square of what an update adds to the logits.
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

/// What was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Counted {
    /// What was counted.
    pub toy: Toy,
    /// Completions that a prompt has.
    pub completions: usize,
    /// Parameters of a prompt's policy.
    pub parameters: usize,
    /// Probability of a right completion of each prompt under the policy.
    pub values: Vec<f64>,
    /// How far each behaviour policy is.
    pub levels: Vec<Level>,
    /// A row a level, a group size and a setting.
    pub rows: Vec<Row>,
}

/// Length of an update's part along the gradient, over that of its random part: much of what a mini-batch's update does is noise.
const ALONG: f64 = 0.5;

/// How the behaviour policies come about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Course {
    /// They are the policy some updates ago: each update went along the gradient, and twice as far at random.
    Updates,
    /// They lie as far off as that, in a random direction.
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

/// A prompt: its completions' rewards, its policy, and how it came there.
struct Prompt {
    rewards: Vec<f64>,
    /// The policy that is studied, and what it was before each update, the last one first.
    past: Vec<Policy>,
    drift: Vec<f64>,
    gradient: Vec<f64>,
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
            let (along, beside) = (unit(&gradient), unit(&noise));
            let pairs = along.iter().zip(&beside);
            let direction: Vec<f64> = pairs.map(|(a, b)| ALONG * a + b).collect();
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

/// Right completions, taken in a random order as long as the policy does not draw them more often than is wanted.
fn rewards(toy: &Toy, number: usize, policy: &Policy, completions: &[Completion]) -> Vec<f64> {
    let logp = policy.log_probabilities();
    let mut rewards = vec![0.0; completions.len()];
    let mut left = toy.values[number];
    for y in seed::permutation(toy.seed, number, completions.len()) {
        let chance: f64 = completions[y].log_probabilities(&logp).iter().sum();
        if chance.exp() <= left {
            rewards[y] = 1.0;
            left -= chance.exp();
        }
    }
    rewards
}

/// A piece of the work: one level, one size of groups.
type Job = (Course, usize, usize);

/// Counts everything. `watch` hears how many of how many pieces are done.
///
/// # Errors
/// What the algorithms refuse, which the toy's numbers give no reason for.
pub fn counted(toy: &Toy, watch: &(dyn Fn(usize, usize) + Sync)) -> Result<Counted, AlgoError> {
    let completions = completions();
    let prompts: Vec<Prompt> = (0..toy.values.len())
        .map(|number| Prompt::new(toy, number, &completions))
        .collect();
    let mut jobs: Vec<Job> = Vec::new();
    for course in [Course::Updates, Course::Drift] {
        for staleness in &toy.staleness {
            // At no distance the two courses are one.
            if course == Course::Updates || *staleness > 0 {
                jobs.extend(
                    toy.group_sizes
                        .iter()
                        .map(|size| (course, *staleness, *size)),
                );
            }
        }
    }
    let done = shared_out(&jobs, watch, |job| {
        measure(toy, &prompts, &completions, *job)
    })?;
    let mut levels: Vec<Level> = Vec::new();
    let mut rows = Vec::new();
    for (level, of_level) in done {
        if levels.last() != Some(&level) {
            levels.push(level);
        }
        rows.extend(of_level);
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

/// All settings at one level. Each prompt is drawn as often, so the gradient is the mean of theirs, and an update's variance what is within prompts.
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
    let mut all = Products::default();
    let (mut once, mut twice) = (0.0, 0.0);
    for (prompt, case) in prompts.iter().zip(cases) {
        let moments = case.moments(&setting.estimator, size)?;
        let (m, g) = (&moments.mean, &prompt.gradient);
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let off: Vec<f64> = m.iter().zip(g).map(|(m, g)| m - g).collect();
        // A prompt's parameters are its own, and its share of the mean gradient is one in `count`.
        all.add(&Products {
            gradient: dot(g, g) / (count * count),
            mean: dot(m, m) / (count * count),
            both: dot(m, g) / (count * count),
            bias: dot(&off, &off) / (count * count),
            variance: moments.variance / count,
        });
        let (f, ff) = case.factor(&setting.estimator, prompt.value)?;
        (once, twice) = (once + f / count, twice + ff / count);
    }
    let ess = if twice > 0.0 {
        once * once / twice
    } else {
        0.0
    };
    let groups = UPDATE_COMPLETIONS as f64 / size as f64;
    Ok(Quality::of(&all, ess, groups))
}

/// Does jobs on all processors; the results stand in the jobs' order.
fn shared_out<T: Send>(
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
