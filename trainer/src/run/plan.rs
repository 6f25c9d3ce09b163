//! What a recipe would do, before it does it.

use std::fmt;
use std::sync::Arc;

use engine::config::ModelConfig;
use engine::{Demand, Device, Footprint};

use crate::config::{Config, ConfigError};
use crate::data::{Prompt, Prompts, Schedule};

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
    /// Checkpoints that stand on disk at once, at most: the newest, the best, and one that is being written.
    pub checkpoints: usize,
    /// What the model takes; `None` where it is not on this machine.
    pub model: Option<Taken>,
}

/// What a model takes in training.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// Number of weights.
    pub parameters: u64,
    /// Bytes of memory, completions being as long as they may be.
    pub memory: Footprint,
    /// Bytes of the reference model's weights, where it is another copy.
    pub reference: u64,
    /// Bytes of one checkpoint on disk: the weights, and what is trained once more with its moments.
    pub checkpoint: u64,
}

/// The memory that a run has to fit into, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    /// A GPU's.
    Gpu(u64),
    /// The machine's, or that of the control group that the process is in.
    Machine(u64),
}

impl Room {
    /// Where a device computes; `None` where the system does not say.
    #[must_use]
    pub fn of(device: Device) -> Option<Self> {
        match device.memory() {
            Some(bytes) => Some(Self::Gpu(bytes)),
            None => engine::memory::total().map(Self::Machine),
        }
    }

    fn bytes(self) -> u64 {
        match self {
            Self::Gpu(bytes) | Self::Machine(bytes) => bytes,
        }
    }
}

impl fmt::Display for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whose = match self {
            Self::Gpu(_) => "the GPU's",
            Self::Machine(_) => "this machine's",
        };
        write!(f, "{whose} {}", gb(self.bytes()))
    }
}

/// A run that does not fit, or may not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the run takes up to {} of {room}: {} for weights, {} for gradient and moments, {} for keys and values, {} for kept activations and {} for one pass; \
     lower sampling.max_tokens or algorithm.group_size, set engine.kv_tokens, engine.activations_mib or engine.pack_tokens, or train adapters ([lora])",
    gb(.taken.peak()), gb(.taken.memory.weights + .taken.reference), gb(.taken.memory.optimiser), gb(.taken.memory.cache), gb(.taken.memory.kept), gb(.taken.memory.work)
)]
pub struct TooLarge {
    taken: Taken,
    room: Room,
}

fn gb(bytes: u64) -> String {
    format!("{:.1} GB", bytes as f64 / 1e9)
}

/// Bytes of the program itself: its code, a tokenizer, prompts, connections.
const PROGRAM: u64 = 100 << 20;

impl Taken {
    /// By a model on the prompts of its tasks.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn new(
        config: &Config,
        model: &ModelConfig,
        prompts: &Prompts,
    ) -> Result<Self, ConfigError> {
        let longest = |prompts: &[Arc<Prompt>]| {
            let lengths = prompts.iter().map(|prompt| prompt.tokens.len());
            lengths.max().unwrap_or(0)
        };
        let options = config.engine_options()?;
        let training = Demand {
            prompt_tokens: longest(&prompts.train),
            max_tokens: config.sampling.max_tokens,
            samples: config.algorithm.group_size,
            drawn_prompts: config.prompts_per_phase(),
            update_prompts: config.prompts_per_update(),
        };
        let evaluation = Demand {
            prompt_tokens: longest(&prompts.eval),
            max_tokens: config.eval.max_tokens.unwrap_or(training.max_tokens),
            samples: config.eval.samples,
            drawn_prompts: prompts.eval.len(),
            update_prompts: 0,
        };
        let [training, evaluation] =
            [training, evaluation].map(|demand| Footprint::new(model, &options, &demand));
        let parameters = model.parameters();
        let trained = training.optimiser / 12;
        let second = config.algorithm.kl > 0.0 && options.lora.is_none();
        Ok(Self {
            parameters,
            memory: Footprint {
                cache: training.cache.max(evaluation.cache),
                // A second model works in memory of its own.
                work: training.work.max(evaluation.work) + if second { training.work } else { 0 },
                ..training
            },
            reference: if second { training.weights } else { 0 },
            checkpoint: 4 * (parameters + 3 * trained),
        })
    }

    /// About the most memory that the run takes at once.
    #[must_use]
    pub fn peak(&self) -> u64 {
        PROGRAM + self.memory.peak() + self.reference
    }

    /// Whether the run fits. A warning where it may not: a machine's memory is taken as it is touched, and completions may be shorter than the longest.
    ///
    /// # Errors
    /// What it takes and what to lower.
    pub fn fits(&self, room: Option<Room>) -> Result<Option<TooLarge>, TooLarge> {
        let Some(room) = room.filter(|room| self.peak() > room.bytes()) else {
            return Ok(None);
        };
        let large = TooLarge { taken: *self, room };
        let whatever_is_drawn =
            PROGRAM + self.memory.weights + self.memory.optimiser + self.reference;
        match room {
            Room::Machine(bytes) if whatever_is_drawn <= bytes => Ok(Some(large)),
            _ => Err(large),
        }
    }
}

impl Plan {
    /// The plan of a recipe over a data set of this size, with what its model takes.
    #[must_use]
    pub fn new(config: &Config, tasks: usize, eval_tasks: usize, model: Option<Taken>) -> Self {
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
            checkpoints: config.run.keep + usize::from(config.eval.samples > 0) + 1,
            model,
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
        // The last phase, and in it the last update, may be shorter.
        let up_to = |whole: usize| {
            if whole > self.completions {
                "up to "
            } else {
                ""
            }
        };
        writeln!(
            f,
            "{} of {}{}",
            count(self.phases, "inference phase"),
            up_to(self.phases * self.phase_completions),
            count(self.phase_completions, "completion")
        )?;
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
        let memory = model.memory;
        writeln!(
            f,
            "memory: about {}, {} of it for the {:.0} M weights, {} for gradient and moments, and {} for keys and values or, in their place, kept activations",
            gb(model.peak()),
            gb(memory.weights + model.reference),
            model.parameters as f64 / 1e6,
            gb(memory.optimiser),
            gb(memory.cache.max(memory.kept))
        )?;
        write!(
            f,
            "disk: at most {checkpoints} at once, {} each",
            gb(model.checkpoint)
        )
    }
}
