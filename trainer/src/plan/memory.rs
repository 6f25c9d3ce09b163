//! The memory that a run takes, estimated before it starts.

use std::path::Path;
use std::sync::Arc;

use engine::config::ModelConfig;
use engine::{Demand, Device, Footprint, shared_prompt_tokens, trained_elements};

use super::RunPlan;
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
    /// Number of checkpoints that are certainly on disk at once at some time.
    pub checkpoints: usize,
    /// Bytes of all samples, with completions of the maximum length.
    pub samples: u64,
    /// Bytes that each rank sends in an update, and as many that it receives: its gradient's shards to their owners, and its shard of the weights to all.
    pub exchanged: u64,
}

/// The memory that a run must fit into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryBudget {
    /// Bytes.
    pub bytes: u64,
    /// Whether it is the memory of a GPU. Else it is that of the machine, or of the process's control group.
    pub is_gpu: bool,
}

impl MemoryBudget {
    /// The memory of a device; `None` if the system does not report it.
    pub fn of(device: Device) -> Option<Self> {
        let gpu = device.memory();
        let bytes = gpu.or_else(engine::machine_memory::total)?;
        let is_gpu = gpu.is_some();
        Some(Self { bytes, is_gpu })
    }
}

/// A run that does not fit into the memory or onto the disk, or may not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Misfit {
    /// The memory is too small.
    #[error(
        "the run takes up to {} of {} {}: {} for weights, {} for gradient and moments, {} for one pass, {} for the program itself, and the larger of {} for keys and values and {} for kept activations; \
         lower sampling.max_tokens or algorithm.group_size, set engine.kv_tokens, engine.activations_mib or engine.pack_tokens, or train adapters ([lora])",
        gb(.estimate.peak()), if .budget.is_gpu { "the GPU's" } else { "this machine's" }, gb(.budget.bytes), gb(.estimate.memory.weights + .estimate.reference), gb(.estimate.memory.optimiser), gb(.estimate.memory.work), gb(PROGRAM + .estimate.memory.reserved), gb(.estimate.memory.cache), gb(.estimate.memory.activations)
    )]
    Memory {
        /// What the run takes.
        estimate: Box<MemoryEstimate>,
        /// What there is.
        budget: MemoryBudget,
    },
    /// The disk has no room for all that the run writes.
    #[error("the run writes up to {all} checkpoints of {} at once ({} for certain) and up to {} of samples, and {} is free: make room, give --out on another disk, lower run.keep or \
        eval.samples, raise run.checkpoint_every, or train adapters ([lora])",
        gb(.estimate.checkpoint), .estimate.checkpoints, gb(.estimate.samples), gb(*.free)
    )]
    Disk {
        /// What the run writes.
        estimate: Box<MemoryEstimate>,
        /// Maximum number of checkpoints at once.
        all: usize,
        /// Bytes that are free.
        free: u64,
    },
}

/// Bytes of free disk space for a folder, which need not exist yet; `None` if the system does not report it.
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
/// Bytes of a sample in its two files: per token, and for its fields.
const SAMPLE: (usize, usize) = (10, 500);

impl MemoryEstimate {
    /// The estimate for a model and the prompts of its tasks, for each of `ranks` ranks.
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
        let options = config.engine_options();
        let training = Demand {
            prompt_tokens: longest(&prompts.train),
            shared_prompt_tokens: shared(&prompts.train),
            max_tokens: config.sampling.max_tokens,
            samples: config.algorithm.group_size,
            sampled_prompts: config.prompts_per_phase(),
            update_prompts: config.prompts_per_update(),
            ranks,
        };
        let eval_tokens = config.eval.max_tokens.unwrap_or(training.max_tokens);
        let evaluation = Demand {
            prompt_tokens: longest(&prompts.eval),
            shared_prompt_tokens: shared(&prompts.eval),
            max_tokens: eval_tokens,
            samples: config.eval.samples,
            sampled_prompts: prompts.eval.len(),
            update_prompts: 0,
            ranks,
        };
        let [training, evaluation] =
            [training, evaluation].map(|demand| Footprint::new(model, &options, &demand));
        let plan = RunPlan::new(config, prompts.train.len(), prompts.eval.len(), None);
        let samples = |prompts: &[Arc<Prompt>], max_tokens: usize, completions: usize| {
            let prompt: usize = prompts.iter().map(|prompt| prompt.text.len()).sum();
            completions * (prompt / prompts.len().max(1) + SAMPLE.0 * max_tokens + SAMPLE.1)
        };
        let evaluated = plan.evaluations * plan.eval_completions;
        let samples = samples(&prompts.train, config.sampling.max_tokens, plan.completions)
            + samples(&prompts.eval, eval_tokens, evaluated);
        // How many updates a teacher's completions make is not known yet.
        let saved = plan.updates.checked_div(config.run.checkpoint_every);
        let saved = saved.filter(|_| config.data.teacher.is_none());
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
            checkpoints: saved.unwrap_or(1).clamp(1, config.run.keep + 1),
            samples: samples as u64,
            exchanged: 2 * 4 * trained * (ranks as u64 - 1) / ranks as u64,
        })
    }

    /// Estimated peak memory of the run in bytes.
    pub fn peak(&self) -> u64 {
        PROGRAM + self.memory.peak() + self.reference
    }

    /// Checks whether the run fits into the memory of its device, and what a new run writes into the free bytes of its disk. Returns warnings: a machine's memory is
    /// allocated when it is touched, and completions may be shorter than the maximum.
    ///
    /// # Errors
    /// [`Misfit`] if the run cannot fit.
    pub fn check(
        &self,
        config: &Config,
        memory: Option<MemoryBudget>,
        disk: Option<u64>,
    ) -> Result<Vec<Misfit>, Misfit> {
        let memory = self.fits(memory)?;
        let disk = self.fits_on_disk(super::checkpoints(config), disk)?;
        Ok(memory.into_iter().chain(disk).collect())
    }

    /// Whether the run fits into the budget; a warning if it may not.
    pub(crate) fn fits(&self, budget: Option<MemoryBudget>) -> Result<Option<Misfit>, Misfit> {
        let Some(budget) = budget.filter(|budget| self.peak() > budget.bytes) else {
            return Ok(None);
        };
        let misfit = Misfit::Memory {
            estimate: Box::new(*self),
            budget,
        };
        let memory = self.memory;
        let minimum =
            PROGRAM + memory.reserved + memory.weights + memory.optimiser + self.reference;
        if budget.is_gpu || minimum > budget.bytes {
            return Err(misfit);
        }
        Ok(Some(misfit))
    }

    /// Whether `all` checkpoints and the samples fit into the `free` bytes of a disk; a warning if they may not.
    pub(crate) fn fits_on_disk(
        &self,
        all: usize,
        free: Option<u64>,
    ) -> Result<Option<Misfit>, Misfit> {
        let (estimate, one) = (Box::new(*self), self.checkpoint);
        let Some(free) = free.filter(|free| *free < one * all as u64 + self.samples) else {
            return Ok(None);
        };
        let misfit = Misfit::Disk {
            estimate,
            all,
            free,
        };
        match free < one * self.checkpoints as u64 {
            true => Err(misfit),
            false => Ok(Some(misfit)),
        }
    }
}
