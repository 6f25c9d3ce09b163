//! The memory that a run takes, estimated before it starts.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use engine::config::ModelConfig;
use engine::{Demand, Device, Footprint, shared_prompt_tokens, trained_elements};

use crate::config::{Config, ConfigError};
use crate::data::{Prompt, Prompts};

/// Memory and disk space that training takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryEstimate {
    /// Number of weights.
    pub parameters: u64,
    /// Number of ranks that divide the work; memory is that of each.
    pub ranks: usize,
    /// Bytes of memory, with completions of the maximum length.
    pub memory: Footprint,
    /// Bytes of the reference model's weights, if it is a separate copy.
    pub reference: u64,
    /// Bytes of one checkpoint on disk: the weights, and the trained weights again with their moments.
    pub checkpoint: u64,
    /// Bytes that each rank sends in an update, and as many that it receives: its gradient's shards to their owners, and its shard of the weights to all.
    pub exchanged: u64,
}

/// The memory that a run must fit into, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryBudget {
    /// The memory of the GPU.
    Gpu(u64),
    /// The memory of the machine, or of the process's control group.
    Machine(u64),
}

impl MemoryBudget {
    /// The memory of a device; `None` if the system does not report it.
    #[must_use]
    pub fn of(device: Device) -> Option<Self> {
        match device.memory() {
            Some(bytes) => Some(Self::Gpu(bytes)),
            None => engine::machine_memory::total().map(Self::Machine),
        }
    }

    fn bytes(self) -> u64 {
        match self {
            Self::Gpu(bytes) | Self::Machine(bytes) => bytes,
        }
    }
}

impl fmt::Display for MemoryBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let owner = match self {
            Self::Gpu(_) => "the GPU's",
            Self::Machine(_) => "this machine's",
        };
        write!(f, "{owner} {}", gb(self.bytes()))
    }
}

/// A run that does not fit, or may not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the run takes up to {} of {budget}: {} for weights, {} for gradient and moments, {} for one pass, {} for the program itself, and the larger of {} for keys and values and {} for kept activations; \
     lower sampling.max_tokens or algorithm.group_size, set engine.kv_tokens, engine.activations_mib or engine.pack_tokens, or train adapters ([lora])",
    gb(.estimate.peak()), gb(.estimate.memory.weights + .estimate.reference), gb(.estimate.memory.optimiser), gb(.estimate.memory.work), gb(PROGRAM + .estimate.memory.reserved), gb(.estimate.memory.cache), gb(.estimate.memory.activations)
)]
pub struct TooLarge {
    estimate: MemoryEstimate,
    budget: MemoryBudget,
}

/// A disk without room for all checkpoints of a run: the bytes of one, their number, and the bytes that are free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a checkpoint takes {one} of disk space, up to {all} are there at once, and {free} is free: make room, lower run.keep, or give --out on another disk",
    one = gb(*.0), all = .1, free = gb(*.2)
)]
pub struct TooLittleDisk(u64, usize, u64);

/// Bytes that may still be written into a folder, which need not exist yet; `None` if the system does not report it.
#[must_use]
pub fn free_space(folder: &Path) -> Option<u64> {
    let folder = std::path::absolute(folder).ok()?;
    let parent = folder.ancestors().find(|parent| parent.exists())?;
    let stat = rustix::fs::statvfs(parent).ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}

pub(super) fn gb(bytes: u64) -> String {
    format!("{:.1} GB", bytes as f64 / 1e9)
}

/// Bytes of the program itself: its code, a tokenizer, prompts, connections.
const PROGRAM: u64 = 100 << 20;

impl MemoryEstimate {
    /// The estimate for a model and the prompts of its tasks, for each of `ranks` ranks.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn new(
        config: &Config,
        model: &ModelConfig,
        prompts: &Prompts,
        ranks: usize,
    ) -> Result<Self, ConfigError> {
        let longest = |prompts: &[Arc<Prompt>]| {
            let lengths = prompts.iter().map(|prompt| prompt.tokens.len());
            lengths.max().unwrap_or(0)
        };
        // A phase's prompts are some of these, so they have at least as much in common.
        let shared = |prompts: &[Arc<Prompt>]| {
            shared_prompt_tokens(prompts.iter().map(|prompt| &prompt.tokens[..]))
        };
        let options = config.engine_options()?;
        let training = Demand {
            prompt_tokens: longest(&prompts.train),
            shared_prompt_tokens: shared(&prompts.train),
            max_tokens: config.sampling.max_tokens,
            samples: config.algorithm.group_size,
            sampled_prompts: config.prompts_per_phase(),
            update_prompts: config.prompts_per_update(),
            ranks,
        };
        let evaluation = Demand {
            prompt_tokens: longest(&prompts.eval),
            shared_prompt_tokens: shared(&prompts.eval),
            max_tokens: config.eval.max_tokens.unwrap_or(training.max_tokens),
            samples: config.eval.samples,
            sampled_prompts: prompts.eval.len(),
            update_prompts: 0,
            ranks,
        };
        let [training, evaluation] =
            [training, evaluation].map(|demand| Footprint::new(model, &options, &demand));
        let parameters = model.parameters();
        let trained = trained_elements(model, options.lora) as u64;
        let reference_model = config.algorithm.kl > 0.0 && options.lora.is_none();
        Ok(Self {
            parameters,
            ranks,
            memory: Footprint {
                cache: training.cache.max(evaluation.cache),
                // A reference model has its own working memory.
                work: training.work.max(evaluation.work)
                    + if reference_model { training.work } else { 0 },
                ..training
            },
            reference: if reference_model { training.weights } else { 0 },
            checkpoint: 4 * (parameters + 3 * trained),
            exchanged: 2 * 4 * trained * (ranks as u64 - 1) / ranks as u64,
        })
    }

    /// Estimated peak memory of the run in bytes.
    #[must_use]
    pub fn peak(&self) -> u64 {
        PROGRAM + self.memory.peak() + self.reference
    }

    /// Checks whether the run fits into the budget. It returns a warning if the run may not fit: a machine's memory is allocated when it is touched, and completions may
    /// be shorter than the maximum.
    ///
    /// # Errors
    /// [`TooLarge`] if the run cannot fit, with the estimate and the settings to lower.
    pub fn fits(&self, budget: Option<MemoryBudget>) -> Result<Option<TooLarge>, TooLarge> {
        let Some(budget) = budget.filter(|budget| self.peak() > budget.bytes()) else {
            return Ok(None);
        };
        let large = TooLarge {
            estimate: *self,
            budget,
        };
        let memory = self.memory;
        let minimum =
            PROGRAM + memory.reserved + memory.weights + memory.optimiser + self.reference;
        match budget {
            MemoryBudget::Machine(bytes) if minimum <= bytes => Ok(Some(large)),
            _ => Err(large),
        }
    }

    /// Checks whether `checkpoints` checkpoints fit into the `free` bytes of a disk. It returns a warning if only some do.
    ///
    /// # Errors
    /// [`TooLittleDisk`] if not even one fits.
    pub fn fits_on_disk(
        &self,
        checkpoints: usize,
        free: Option<u64>,
    ) -> Result<Option<TooLittleDisk>, TooLittleDisk> {
        let all = self.checkpoint * checkpoints as u64;
        match free.map(|free| TooLittleDisk(self.checkpoint, checkpoints, free)) {
            Some(little) if little.2 < self.checkpoint => Err(little),
            little => Ok(little.filter(|little| little.2 < all)),
        }
    }
}
