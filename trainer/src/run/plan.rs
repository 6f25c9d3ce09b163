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
    /// Most completions that dynamic sampling draws besides.
    pub redrawn: usize,
    /// Checkpoints that stand on disk at once, at most: the newest and the best.
    pub checkpoints: usize,
    /// What the model takes; `None` where it is not on this machine.
    pub model: Option<Footprint>,
}

/// Bytes that a model takes in training.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Footprint {
    /// Number of weights.
    pub parameters: u64,
    /// Weights, gradient and two moments in memory, and the reference model's weights where there is one.
    pub memory: u64,
    /// One checkpoint on disk: the weights, and once more with their moments.
    pub checkpoint: u64,
}

impl Footprint {
    /// Of so many weights, all in f32.
    #[must_use]
    pub fn new(config: &Config, parameters: u64) -> Self {
        let copies = 4 + u64::from(config.algorithm.kl > 0.0);
        Self {
            parameters,
            memory: 4 * copies * parameters,
            checkpoint: 4 * (1 + 3) * parameters,
        }
    }
}

impl Plan {
    /// The plan of a recipe over a data set of this size, with a model of so many weights.
    #[must_use]
    pub fn new(config: &Config, tasks: usize, eval_tasks: usize, parameters: Option<u64>) -> Self {
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
            redrawn: completions * config.algorithm.dynamic_sampling,
            checkpoints: config.run.keep + usize::from(config.eval.samples > 0),
            model: parameters.map(|parameters| Footprint::new(config, parameters)),
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
        if self.redrawn > 0 {
            writeln!(
                f,
                "at most {} besides, for groups that are all right or all wrong",
                count(self.redrawn, "completion")
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
                "at most {checkpoints} at once; the model is not on this machine yet, so what it takes of memory and disk is not known"
            );
        };
        let gb = |bytes: u64| format!("{:.1} GB", bytes as f64 / 1e9);
        writeln!(
            f,
            "memory: {} for the {:.0} M weights, their gradient and moments; activations and key/value cache besides",
            gb(model.memory),
            model.parameters as f64 / 1e6
        )?;
        write!(
            f,
            "disk: at most {checkpoints} at once, {} each",
            gb(model.checkpoint)
        )
    }
}
