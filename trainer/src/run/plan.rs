//! What a recipe would do, before it does it.

use std::fmt;

use crate::config::Config;
use crate::data::Schedule;

/// The sizes of a run; `Display` writes them for a person.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Training tasks, before prompts that are too long are left out.
    pub tasks: usize,
    /// Held-out tasks.
    pub eval_tasks: usize,
    /// Inference phases.
    pub phases: usize,
    /// Completions of a whole phase: N_inference.
    pub phase_completions: usize,
    /// Optimiser updates.
    pub updates: usize,
    /// Completions of a whole update: N_step.
    pub update_completions: usize,
    /// Training completions in all.
    pub completions: usize,
    /// Most tokens that training can draw.
    pub max_tokens: usize,
    /// Evaluations.
    pub evaluations: usize,
    /// Completions of one evaluation.
    pub eval_completions: usize,
    /// Checkpoints that stand on disk at once, at most: the newest and the best.
    pub checkpoints: usize,
}

impl Plan {
    /// The plan of a recipe over a data set of this size.
    #[must_use]
    pub fn new(config: &Config, tasks: usize, eval_tasks: usize) -> Self {
        let schedule = Schedule::new(config, tasks);
        let completions = schedule.prompts() * config.algorithm.group_size;
        let updates = schedule.updates();
        let evaluations = match (config.eval.samples, config.eval.every) {
            (0, _) => 0,
            (_, 0) => 2,
            (_, every) => 2 + (updates - 1) / every,
        };
        Self {
            tasks,
            eval_tasks,
            phases: schedule.phases(),
            phase_completions: config.algorithm.h * config.algorithm.n_step,
            updates,
            update_completions: config.algorithm.n_step,
            completions,
            max_tokens: completions * config.sampling.max_tokens,
            evaluations: if eval_tasks == 0 { 0 } else { evaluations },
            eval_completions: eval_tasks * config.eval.samples,
            checkpoints: config.run.keep + usize::from(config.eval.samples > 0),
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |n: usize, word: &str| {
            if n == 1 {
                format!("1 {word}")
            } else {
                format!("{n} {word}s")
            }
        };
        writeln!(
            f,
            "{}, {} held out",
            count(self.tasks, "training task"),
            self.eval_tasks
        )?;
        writeln!(
            f,
            "{} of {}",
            count(self.phases, "inference phase"),
            count(self.phase_completions, "completion")
        )?;
        writeln!(
            f,
            "{} on {} each",
            count(self.updates, "update"),
            count(self.update_completions, "completion")
        )?;
        writeln!(
            f,
            "{} in all, at most {} tokens",
            count(self.completions, "completion"),
            self.max_tokens
        )?;
        writeln!(
            f,
            "{} of {}",
            count(self.evaluations, "evaluation"),
            count(self.eval_completions, "completion")
        )?;
        write!(
            f,
            "at most {} on disk (each: the model's weights, and weights and moments in f32)",
            count(self.checkpoints, "checkpoint")
        )
    }
}
