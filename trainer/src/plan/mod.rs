//! The plan of a run: its sizes, and its estimated memory and disk space.

mod memory;
mod warnings;

use crate::config::Config;
use crate::data::PromptSchedule;
use memory::gb;

pub use memory::{MemoryBudget, MemoryEstimate, Misfit, free_space};
pub use warnings::warnings;

/// The sizes of a run.
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
    /// Number of optimiser updates.
    pub updates: usize,
    /// Training completions in all.
    pub completions: usize,
    /// Number of evaluations.
    pub evaluations: usize,
    /// Completions of one evaluation.
    pub eval_completions: usize,
    /// Maximum number of checkpoints on disk at once: the `run.keep` newest, the best, and one that is being written.
    pub checkpoints: usize,
    /// Memory and disk space for the model; `None` if the model is not on this machine.
    pub model: Option<MemoryEstimate>,
}

impl RunPlan {
    /// The plan of a recipe for a data set of this size, with the estimate for its model.
    pub fn new(
        config: &Config,
        tasks: usize,
        eval_tasks: usize,
        model: Option<MemoryEstimate>,
    ) -> Self {
        let schedule = PromptSchedule::new(config, tasks);
        let evaluates = config.eval.samples > 0 && eval_tasks > 0;
        Self {
            tasks,
            eval_tasks,
            trained_on: 0,
            phases: schedule.phases(),
            updates: schedule.updates(),
            completions: schedule.prompts() * config.algorithm.group_size,
            evaluations: if evaluates { schedule.evaluations() } else { 0 },
            eval_completions: eval_tasks * config.eval.samples,
            checkpoints: checkpoints(config),
            model,
        }
    }

    /// The plan of this recipe as text, one line per subject, beside the available `memory` and bytes of disk space.
    pub fn text(&self, config: &Config, memory: Option<MemoryBudget>, disk: Option<u64>) -> String {
        let count = |n: usize, word: &str| format!("{n} {word}{}", if n == 1 { "" } else { "s" });
        let evaluated = match self.trained_on {
            0 => "held out".to_owned(),
            all if all == self.eval_tasks => {
                "to evaluate on, all of them trained on too".to_owned()
            }
            some => format!("to evaluate on, {some} of them trained on too"),
        };
        // The last phase, and in it the last update, may be shorter.
        let up_to = |number: usize, each: usize| {
            let all = number * each > self.completions;
            let up_to = if all { "up to " } else { "" };
            format!("{up_to}{}", count(each, "completion"))
        };
        let algorithm = &config.algorithm;
        let phase = algorithm.h * algorithm.n_step;
        let phases = match self.phases {
            Some(phases) => count(phases, "inference phase") + " of " + &up_to(phases, phase),
            None => format!(
                "inference phases of up to {}; their number is chosen during the run",
                count(phase.min(self.completions), "completion")
            ),
        };
        let template = match config.data.sets.is_empty() {
            true => format!("template {:?}", config.data.template),
            false => "each set's template".to_owned(),
        };
        let mut lines = vec![
            format!(
                "tasks: {}, {}, {} {evaluated}; {template}{}",
                config.data.name(),
                count(self.tasks, "training task"),
                self.eval_tasks,
                if config.data.chat { ", as a chat" } else { "" }
            ),
            format!(
                "algorithm: {}, G = {}, H = {}, {} on {} each",
                algorithm.preset.name(),
                algorithm.group_size,
                algorithm.h,
                count(self.updates, "update"),
                up_to(self.updates, algorithm.n_step)
            ),
            format!("sampling: {phases}"),
            format!(
                "completions: {} in all, at most {} tokens",
                self.completions,
                self.completions * config.sampling.max_tokens
            ),
        ];
        if algorithm.dynamic_sampling > 0 {
            lines.push(format!(
                "  at most {} more, in place of groups that are all correct or all incorrect",
                self.completions * algorithm.dynamic_sampling
            ));
        }
        let evaluations = count(self.evaluations, "evaluation");
        let each = count(self.eval_completions, "completion");
        lines.push(format!("evaluation: {evaluations} of {each}"));
        let checkpoints = count(self.checkpoints, "checkpoint");
        let Some(model) = self.model else {
            lines.push(format!(
                "disk: at most {checkpoints} at once; the model is not on this machine yet, so its memory and disk space are not known"
            ));
            return lines.join("\n");
        };
        let of = |all: u64, room: Option<u64>| {
            room.map_or(gb(all), |room| format!("{} of {}", gb(all), gb(room)))
        };
        let available = memory.map(|memory| memory.bytes);
        lines.push(format!("memory: about {}", of(model.peak(), available)));
        let memory = model.memory;
        lines.push(format!(
            "  {} for {:.0} M weights, {} for gradient and moments, {} for keys and values or activations",
            gb(memory.weights + model.reference),
            model.parameters as f64 / 1e6,
            gb(memory.optimiser),
            gb(memory.cache.max(memory.activations))
        ));
        if model.ranks > 1 {
            lines.push(format!(
                "  {} ranks, each with that memory: in an update, each sends and receives about {}",
                model.ranks,
                gb(model.exchanged)
            ));
        }
        let all = model.checkpoint * self.checkpoints as u64 + model.samples;
        lines.push(format!(
            "disk: at most {checkpoints} of {} at once and {} of samples, together {}",
            gb(model.checkpoint),
            gb(model.samples),
            of(all, disk)
        ));
        lines.join("\n")
    }
}

fn checkpoints(config: &Config) -> usize {
    config.run.keep + usize::from(config.eval.samples > 0) + 1
}
