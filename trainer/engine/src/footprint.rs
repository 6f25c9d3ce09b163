//! The memory that training a model takes, computed before any of it is allocated.
//!
//! The sizes are those of the buffers that the engine plans, for completions of full length. Shorter completions touch less of them.

use crate::api::EngineOptions;
use crate::backend::device_spec::{DeviceSpec, ScratchSizes};
use crate::backend::ranks::{gradients, sampling_share};
use crate::config::ModelConfig;
use crate::infer::blocks::{BLOCK, blocks_for};
use crate::infer::runner::{MAX_SEQUENCES, TOKEN_BUDGET, max_cached_rows, max_prompts};
use crate::model::layout::Layout;
use crate::model::workspace::{BackwardWorkspace, PassSize, PerPurpose, Widths, Workspace};
use crate::model::{Lora, adapter_elements, kv_row_elements};
use crate::train::activations::{ActivationPlan, default_pack_tokens};
use crate::train::pack::{Branch, cut};
use crate::train::slices::{borders, cuts};

/// The sizes of a run's batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Demand {
    /// Tokens of the longest prompt.
    pub prompt_tokens: usize,
    /// Tokens at the beginning of all prompts; fewer than `prompt_tokens`. Sampling computes and stores them once for all prompts ([`shared_prompt_tokens`]),
    /// and training computes them once for each pack. With 0, or where only some prompts begin alike, the footprint is an upper bound.
    ///
    /// [`shared_prompt_tokens`]: crate::shared_prompt_tokens
    pub shared_prompt_tokens: usize,
    /// Maximum number of tokens of a completion.
    pub max_tokens: usize,
    /// Completions per prompt.
    pub samples: usize,
    /// Prompts that are sampled at the same time.
    pub sampled_prompts: usize,
    /// Prompts of one optimiser update; 0 without training.
    pub update_prompts: usize,
    /// Ranks that divide the prompts between them; 1 for a process alone.
    pub ranks: usize,
}

/// Bytes of memory. Keys and values, and the activations saved for a backward pass, exist at different times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Footprint {
    /// Weights, and in bf16 also their copy for matrix products.
    pub weights: u64,
    /// Gradients and two moments of the trained weights. Ranks divide the moments.
    pub optimiser: u64,
    /// The workspace of one pass, and on a GPU that of single operations.
    pub work: u64,
    /// What a GPU's own software takes: its context and the libraries' workspaces. 0 on a CPU.
    pub reserved: u64,
    /// Keys and values of the sequences being generated.
    pub cache: u64,
    /// Activations that training saves from the forward to the backward pass, and the workspace of the backward pass.
    pub activations: u64,
}

impl Footprint {
    /// The peak memory of a run.
    pub fn peak(&self) -> u64 {
        let phase = self.cache.max(self.activations);
        self.weights + self.optimiser + self.work + self.reserved + phase
    }

    /// The footprint of training a model, or of sampling alone if nothing is trained. With several ranks, it is that of each. A GPU that is missing counts as
    /// the CPU.
    pub fn new(config: &ModelConfig, options: &EngineOptions, demand: &Demand) -> Self {
        let memory = options.device.memory();
        let spec = memory.map_or(DeviceSpec::Cpu, DeviceSpec::Gpu);
        Self::on(spec, config, options, demand)
    }

    /// The same for a GPU with `memory` bytes of memory, which need not exist.
    pub fn on_gpu(
        memory: u64,
        config: &ModelConfig,
        options: &EngineOptions,
        demand: &Demand,
    ) -> Self {
        Self::on(DeviceSpec::Gpu(memory), config, options, demand)
    }

    fn on(
        spec: DeviceSpec,
        config: &ModelConfig,
        options: &EngineOptions,
        demand: &Demand,
    ) -> Self {
        let mut widths = Widths::new(config, spec.logits_rows(config.vocab_size));
        widths.rank = options.lora.map_or(0, |lora| lora.rank);
        let trained = match demand.update_prompts {
            0 => 0,
            _ => trained_elements(config, options.lora),
        };
        let adapters = adapter_elements(config, widths.rank);
        let stored = Layout::new(config).tensors.len + adapters;
        let element = spec.element_bytes(options.dtype);
        let width = PerPurpose::from(element);
        let weights = (element.weight * stored) as u64;
        let slices = options.slices.unwrap_or(1).max(demand.ranks);
        let optimiser = optimiser_bytes(slices, demand.ranks, trained as u64);
        let layers = config.num_hidden_layers;
        let defaults = spec.training_defaults(weights + optimiser);
        let budget = options
            .activation_bytes
            .unwrap_or(defaults.activation_bytes);
        let pack_tokens = options.pack_tokens.unwrap_or_else(|| {
            default_pack_tokens(defaults.pack_tokens, widths, layers, budget, width)
        });
        let packs = packs(demand, slices, pack_tokens);
        // A token predicts the next one of each completion that begins alike.
        let targets = demand.update_prompts * demand.samples * demand.max_tokens;
        let (sampled_prompts, samples) =
            sampling_share(demand.sampled_prompts, demand.samples, demand.ranks);
        let demand = &Demand {
            sampled_prompts,
            samples,
            ..*demand
        };
        let pack = packs.first().copied().unwrap_or(0);
        let running = options.max_sequences.unwrap_or(MAX_SEQUENCES);
        let shared = demand.sampled_prompts.saturating_sub(1) * demand.shared_prompt_tokens;
        let prompt_tokens =
            TOKEN_BUDGET.min(demand.sampled_prompts * demand.prompt_tokens - shared);
        let samples = demand.sampled_prompts * demand.samples;
        let step = prompt_tokens + running.min(samples);
        let size = PassSize {
            tokens: step.max(pack),
            // A step samples for each running sequence, and the first token of each sample of the prompts that it completes.
            logit_rows: pack
                .max(running.min(samples) + samples.min(prompt_tokens * demand.samples)),
            targets,
        };
        let activations = match demand.update_prompts {
            0 => 0,
            _ => {
                let plan = ActivationPlan::new(widths, layers, &packs, budget, width);
                (plan.len + BackwardWorkspace::len(widths, pack)).bytes(width)
            }
        };
        let row_bytes = element.cache as u64 * kv_row_elements(config);
        let cached_rows = cached_rows(spec.memory(), row_bytes, options, demand, running);
        let scratch = ScratchSizes {
            dtype: options.dtype,
            tokens: size.tokens,
            logit_rows: size.logit_rows.min(widths.head_rows),
            trains: demand.update_prompts > 0,
            hidden: widths.hidden,
            qkv: widths.qkv(),
            vocabulary: widths.vocabulary,
            heads: widths.heads,
            head_dim: widths.head_dim,
            cached_rows: cached_rows as usize,
        };
        Self {
            weights,
            optimiser,
            work: Workspace::len(widths, size).bytes(width) + spec.scratch_bytes(scratch),
            reserved: spec.reserved_bytes(),
            cache: cached_rows * row_bytes,
            activations,
        }
    }
}

/// Number of weights that training changes: those of the adapters, if there are any, else all.
pub fn trained_elements(config: &ModelConfig, lora: Option<Lora>) -> usize {
    lora.map_or_else(
        || Layout::new(config).tensors.len,
        |lora| adapter_elements(config, lora.rank),
    )
}

/// Bytes of gradients and moments. Each level of a rank's tree of slices has one more gradient, and ranks divide the two moments.
fn optimiser_bytes(slices: usize, ranks: usize, trained: u64) -> u64 {
    4 * trained * gradients(slices, ranks) as u64 + 8 * trained.div_ceil(ranks as u64)
}

/// Token counts of a rank's packs in an update, the largest first. All completions have the maximum length. Sequences share the beginning of all prompts, and
/// their own prompt; if they share more, their tree is smaller. Slices are packed one by one, and each counts as much as the largest.
fn packs(demand: &Demand, slices: usize, pack_tokens: usize) -> Vec<usize> {
    let inputs = demand.prompt_tokens + demand.max_tokens.saturating_sub(1);
    let branch = |number: usize| Branch {
        number,
        inputs,
        shared: match number % demand.samples {
            0 => demand.shared_prompt_tokens,
            _ => demand.prompt_tokens,
        },
    };
    let branches = (0..demand.update_prompts * demand.samples).map(branch);
    let branches: Vec<Branch> = branches.collect();
    let borders = borders(&vec![demand.samples; demand.update_prompts], slices);
    let cuts = cuts(&branches, &borders, slices);
    let tokens = cuts.windows(2).map(|slice| {
        let branches = &branches[slice[0]..slice[1]];
        let packs = cut(branches, pack_tokens).into_iter();
        packs.map(|pack| Branch::tokens(&branches[pack])).sum()
    });
    // Other sequences may fill packs otherwise, but hardly have more tokens in all: with several slices, a common beginning may be repeated once more.
    let capacity = pack_tokens.max(inputs);
    let mut remaining = tokens.max().unwrap_or(0);
    let mut of_slice = Vec::new();
    while remaining > 0 {
        let pack = remaining.min(capacity);
        of_slice.push(pack);
        remaining -= pack;
    }
    let mut packs = of_slice.repeat(slices / demand.ranks);
    packs.sort_unstable_by(|a, b| b.cmp(a));
    packs
}

fn cached_rows(
    memory: Option<u64>,
    row_bytes: u64,
    options: &EngineOptions,
    demand: &Demand,
    running: usize,
) -> u64 {
    if let Some(tokens) = options.kv_tokens {
        return tokens as u64;
    }
    let sample = blocks_for(demand.max_tokens.saturating_sub(1));
    let prompts = demand.sampled_prompts.min(max_prompts(running));
    let shared = prompts.saturating_sub(1) * (demand.shared_prompt_tokens / BLOCK);
    let prompts = prompts * blocks_for(demand.prompt_tokens) - shared;
    let samples = running.min(demand.sampled_prompts * demand.samples) * sample;
    let usable = ((prompts + samples) * BLOCK) as u64;
    usable.min(max_cached_rows(memory, row_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Dtype;
    use crate::config::published;

    const DEMAND: Demand = Demand {
        prompt_tokens: 100,
        shared_prompt_tokens: 0,
        max_tokens: 51,
        samples: 4,
        sampled_prompts: 8,
        update_prompts: 2,
        ranks: 1,
    };

    fn footprint(options: &EngineOptions, demand: &Demand) -> Footprint {
        let config = published("qwen2.5-0.5b").unwrap();
        let bounded = EngineOptions {
            activation_bytes: Some(options.activation_bytes.unwrap_or(1 << 30)),
            ..options.clone()
        };
        Footprint::new(&config, &bounded, demand)
    }

    fn near(bytes: u64, expected: u64) -> bool {
        bytes.abs_diff(expected) < expected / 100
    }

    #[test]
    fn options_and_demand_change_the_footprint() {
        let with = |change: fn(&mut EngineOptions, &mut Demand)| {
            let (mut options, mut demand) = (EngineOptions::default(), DEMAND);
            change(&mut options, &mut demand);
            footprint(&options, &demand)
        };
        let plain = with(|_, _| ());
        let parameters = published("qwen2.5-0.5b").unwrap().parameters();
        assert!(near(plain.weights, 4 * parameters));
        assert!(near(plain.optimiser, 12 * parameters));
        // 8 prompts of 7 blocks and 32 samples of 4 blocks; a block has 16 rows of 24 layers of 2 × 128 numbers.
        let block = 16 * 24 * 2 * 128 * 4;
        assert_eq!(plain.cache, (8 * 7 + 32 * 4) * block);
        let bf16 = with(|options, _| options.dtype = Dtype::Bf16);
        assert_eq!(2 * bf16.weights, 3 * plain.weights);
        let recomputing = with(|options, _| options.activation_bytes = Some(0));
        assert!(recomputing.activations < plain.activations / 2);
        assert_eq!(recomputing.weights, plain.weights);
        let small = with(|options, _| options.kv_tokens = Some(1000));
        assert_eq!(small.cache, 1000 * 24 * 2 * 128 * 4);
        let adapters = with(|options, _| {
            let (rank, alpha, seed) = (8, 16.0, 0);
            options.lora = Some(Lora { rank, alpha, seed });
        });
        assert!(adapters.optimiser < plain.optimiser / 50);
        assert!(adapters.weights > plain.weights);
        let shared = with(|_, demand| demand.shared_prompt_tokens = 64);
        // 7 of the 8 prompts store 4 blocks less.
        assert_eq!(plain.cache - shared.cache, 7 * 4 * block);
        // A pack has the beginning of its 2 prompts once.
        let saved = plain.activations - shared.activations;
        assert!(near(saved * (2 * 100 + 8 * 50), plain.activations * 64));
        let sampling = with(|_, demand| demand.update_prompts = 0);
        assert_eq!((sampling.optimiser, sampling.activations), (0, 0));
        assert_eq!(sampling.cache, plain.cache);
    }

    #[test]
    fn ranks_divide_moments_prompts_and_slices() {
        let parameters = published("qwen2.5-0.5b").unwrap().parameters();
        let of = |ranks, slices| {
            let options = EngineOptions {
                slices: Some(slices),
                activation_bytes: Some(8 << 30),
                ..EngineOptions::default()
            };
            let demand = Demand {
                update_prompts: 8,
                ranks,
                ..DEMAND
            };
            footprint(&options, &demand)
        };
        let (one, four, eight) = (of(1, 4), of(4, 4), of(8, 8));
        // A tree of four slices has two more gradients.
        assert!(near(one.optimiser, (3 * 4 + 8) * parameters));
        assert!(near(four.optimiser, (4 + 2) * parameters));
        assert!(near(eight.optimiser, (4 + 1) * parameters));
        assert_eq!(one.weights, eight.weights);
        assert_eq!(one.cache, 8 * eight.cache);
        // The backward pass has one pack at a time, whatever the number of packs.
        let ratio = one.activations as f64 / four.activations as f64;
        assert!((3.5..4.0).contains(&ratio), "{one:?} {four:?}");
    }

    #[test]
    fn slices_are_packed_one_by_one() {
        let demand = Demand {
            prompt_tokens: 10,
            max_tokens: 6,
            samples: 2,
            update_prompts: 8,
            ..DEMAND
        };
        let shared = Demand {
            shared_prompt_tokens: 8,
            ..demand
        };
        let ranks = Demand { ranks: 4, ..demand };
        let cases = [
            (&demand, 1, 50, vec![50, 50, 50, 10]),
            (&demand, 4, 50, vec![40; 4]),
            (&ranks, 4, 50, vec![40]),
            // Completions of a prompt in different slices, and of two prompts in one.
            (&demand, 16, 50, vec![15; 16]),
            // Each pack repeats the prompt that it begins with.
            (&demand, 1, 15, vec![15; 16]),
            // Packs of 20, 12 and 12 tokens: those of all prompts, and their common beginning once more in the second one.
            (&shared, 1, 60, vec![60, 52]),
        ];
        for (demand, slices, pack_tokens, expected) in cases {
            assert_eq!(packs(demand, slices, pack_tokens), expected);
        }
    }
}
