//! The plan of a run: its sizes, and its estimated memory and disk space.

mod memory;
mod warnings;

use std::fmt;

use crate::config::Config;
use crate::data::PromptSchedule;
use memory::gb;

pub use memory::{MemoryBudget, MemoryEstimate, TooLarge, TooLittleDisk, free_space};
pub use warnings::{TaskCounts, warnings};

/// The sizes of a run; `Display` writes them as text.
#[derive(Debug, Clone, PartialEq)]
pub struct RunPlan {
    /// Number of training tasks, before prompts that are too long are left out.
    pub tasks: usize,
    /// Number of evaluation tasks.
    pub eval_tasks: usize,
    /// Number of evaluation tasks that are trained on too; 0 if [`RunPlan::new`] makes the plan.
    pub trained_on: usize,
    /// Number of inference phases; `None` if their sizes are chosen during the run.
    pub phases: Option<usize>,
    /// Maximum number of completions of a phase: N_inference.
    pub phase_completions: usize,
    /// Number of optimiser updates.
    pub updates: usize,
    /// Completions of a whole update: N_step.
    pub update_completions: usize,
    /// Training completions in all.
    pub completions: usize,
    /// Maximum number of tokens that training samples.
    pub max_tokens: usize,
    /// Number of evaluations.
    pub evaluations: usize,
    /// Completions of one evaluation.
    pub eval_completions: usize,
    /// Maximum number of completions that dynamic sampling adds.
    pub resampled: usize,
    /// Maximum number of checkpoints on disk at once: the `run.keep` newest, the best, and one that is being written.
    pub checkpoints: usize,
    /// Memory and disk space for the model; `None` if the model is not on this machine.
    pub model: Option<MemoryEstimate>,
}

impl RunPlan {
    /// The plan of a recipe for a data set of this size, with the estimate for its model.
    #[must_use]
    pub fn new(
        config: &Config,
        tasks: usize,
        eval_tasks: usize,
        model: Option<MemoryEstimate>,
    ) -> Self {
        let schedule = PromptSchedule::new(config, tasks);
        let completions = schedule.prompts() * config.algorithm.group_size;
        let updates = schedule.updates();
        let evaluates = config.eval.samples > 0 && eval_tasks > 0;
        Self {
            tasks,
            eval_tasks,
            trained_on: 0,
            phases: schedule.phases(),
            phase_completions: config.algorithm.h * config.algorithm.n_step,
            updates,
            update_completions: config.algorithm.n_step,
            completions,
            max_tokens: completions * config.sampling.max_tokens,
            evaluations: if evaluates { schedule.evaluations() } else { 0 },
            eval_completions: eval_tasks * config.eval.samples,
            resampled: completions * config.algorithm.dynamic_sampling,
            checkpoints: checkpoints(config),
            model,
        }
    }
}

/// As [`RunPlan::checkpoints`].
#[must_use]
pub fn checkpoints(config: &Config) -> usize {
    config.run.keep + usize::from(config.eval.samples > 0) + 1
}

impl fmt::Display for RunPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |n: usize, word: &str| {
            if n == 1 {
                format!("1 {word}")
            } else {
                format!("{n} {word}s")
            }
        };
        let evaluated = match self.trained_on {
            0 => "held out".to_owned(),
            all if all == self.eval_tasks => {
                "to evaluate on, all of them trained on too".to_owned()
            }
            some => format!("to evaluate on, {some} of them trained on too"),
        };
        writeln!(
            f,
            "{}, {} {evaluated}",
            count(self.tasks, "training task"),
            self.eval_tasks
        )?;
        // The last phase, and in it the last update, may be shorter.
        let up_to = |whole: usize| {
            if whole > self.completions {
                "up to "
            } else {
                ""
            }
        };
        match self.phases {
            Some(phases) => writeln!(
                f,
                "{} of {}{}",
                count(phases, "inference phase"),
                up_to(phases * self.phase_completions),
                count(self.phase_completions, "completion")
            )?,
            None => writeln!(
                f,
                "inference phases of up to {}, whose number is chosen during the run",
                count(self.phase_completions.min(self.completions), "completion")
            )?,
        }
        writeln!(
            f,
            "{} on {}{} each",
            count(self.updates, "update"),
            up_to(self.updates * self.update_completions),
            count(self.update_completions, "completion")
        )?;
        writeln!(
            f,
            "{} in all, at most {} tokens",
            count(self.completions, "completion"),
            self.max_tokens
        )?;
        if self.resampled > 0 {
            writeln!(
                f,
                "at most {} more, in place of groups that are all correct or all incorrect",
                count(self.resampled, "completion")
            )?;
        }
        writeln!(
            f,
            "{} of {}",
            count(self.evaluations, "evaluation"),
            count(self.eval_completions, "completion")
        )?;
        let checkpoints = count(self.checkpoints, "checkpoint");
        let Some(model) = self.model else {
            return write!(
                f,
                "at most {checkpoints} at once; the model is not on this machine yet, so its memory and disk space are not known"
            );
        };
        let memory = model.memory;
        writeln!(
            f,
            "memory: about {}, {} of it for the {:.0} M weights, {} for gradient and moments, and {} for keys and values or, in their place, kept activations",
            gb(model.peak()),
            gb(memory.weights + model.reference),
            model.parameters as f64 / 1e6,
            gb(memory.optimiser),
            gb(memory.cache.max(memory.activations))
        )?;
        if model.ranks > 1 {
            writeln!(
                f,
                "{} ranks, each with that memory: in an update, each sends and receives about {}",
                model.ranks,
                gb(model.exchanged)
            )?;
        }
        write!(
            f,
            "disk: at most {checkpoints} at once, {} each",
            gb(model.checkpoint)
        )
    }
}
