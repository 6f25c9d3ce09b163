//! What training a model takes of the memory, found before any of it is taken.
//!
//! The sizes are those of the buffers that the engine will plan, for completions of full length; shorter ones touch less of them.

use crate::api::EngineOptions;
use crate::config::ModelConfig;
use crate::infer::blocks::{BLOCK, blocks_for};
use crate::infer::runner::{CHUNK, MAX_SEQUENCES, max_cached_rows};
use crate::model::adapter_elements;
use crate::model::layout::Layout;
use crate::model::workspace::{BackwardWorkspace, PerDtype, Widths, Workspace};
use crate::model::{PACK_TOKENS, kv_row_elements};
use crate::train::activations::{ActivationPlan, default_budget};

/// The sizes of a run's batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Demand {
    /// Tokens of the longest prompt.
    pub prompt_tokens: usize,
    /// Most tokens of a completion.
    pub max_tokens: usize,
    /// Completions a prompt.
    pub samples: usize,
    /// Prompts of which completions are drawn in one go.
    pub sampled_prompts: usize,
    /// Prompts of one optimiser update; 0 where nothing is trained.
    pub update_prompts: usize,
}

/// Bytes in memory. Keys and values, and the activations saved for a backward pass, take turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Footprint {
    /// Weights, and in bf16 their copy for products.
    pub weights: u64,
    /// Gradient and two moments of what is trained.
    pub optimiser: u64,
    /// What one pass works in.
    pub work: u64,
    /// Keys and values of what is being generated.
    pub cache: u64,
    /// Activations that training saves from the forward to the backward pass, and the workspace of the latter.
    pub activations: u64,
}

impl Footprint {
    /// The peak.
    pub fn peak(&self) -> u64 {
        self.weights + self.optimiser + self.work + self.cache.max(self.activations)
    }

    /// Training a model, or sampling from it alone, as the demand says.
    pub fn new(config: &ModelConfig, options: &EngineOptions, demand: &Demand) -> Self {
        let mut widths = Widths::new(config);
        let layout = Layout::new(config).len();
        let adapters = options.lora.map(|lora| {
            widths.rank = lora.rank;
            adapter_elements(config, lora.rank)
        });
        let trained = match demand.update_prompts {
            0 => 0,
            _ => adapters.unwrap_or(layout),
        };
        let held = layout + adapters.unwrap_or(0);
        let element = options.device.element_bytes(options.dtype);
        let (weights, optimiser) = ((element.weight * held) as u64, 12 * trained as u64);
        let packs = packs(demand, options.pack_tokens.unwrap_or(PACK_TOKENS));
        let pack = packs.first().copied().unwrap_or(0);
        let running = options.max_sequences.unwrap_or(MAX_SEQUENCES);
        let step = CHUNK.min(demand.sampled_prompts * demand.prompt_tokens)
            + running.min(demand.sampled_prompts * demand.samples);
        let memory = options.device.memory().or_else(crate::memory::total);
        let width = PerDtype::from(element);
        let work = Workspace::len(widths, step.max(pack), pack);
        let activations = match demand.update_prompts {
            0 => 0,
            _ => {
                let budget = options
                    .activation_bytes
                    .unwrap_or_else(|| default_budget(memory, weights + optimiser));
                let layers = config.num_hidden_layers;
                let plan = ActivationPlan::new(widths, layers, &packs, budget, width);
                (plan.len + BackwardWorkspace::len(widths, pack)).bytes(width)
            }
        };
        let row_bytes = element.cache as u64 * kv_row_elements(config);
        Self {
            weights,
            optimiser,
            work: work.bytes(width),
            cache: cached_rows(memory, row_bytes, options, demand, running) * row_bytes,
            activations,
        }
    }
}

/// Tokens of the packs of an update whose completions are all as long as they may be; the largest first.
fn packs(demand: &Demand, pack_tokens: usize) -> Vec<usize> {
    let completion = demand.max_tokens.saturating_sub(1);
    let group = demand.prompt_tokens + demand.samples * completion;
    let most = pack_tokens.max(demand.prompt_tokens + completion);
    let mut left = demand.update_prompts * group;
    let mut packs = Vec::new();
    while left > 0 {
        let pack = left.min(most);
        packs.push(pack);
        left -= pack;
    }
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
    let prompts = demand.sampled_prompts.min(running + 16) * blocks_for(demand.prompt_tokens);
    let samples = running.min(demand.sampled_prompts * demand.samples) * sample;
    let useful = ((prompts + samples) * BLOCK) as u64;
    useful.min(max_cached_rows(memory, row_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Dtype;
    use crate::config::known;
    use crate::model::Lora;

    const DEMAND: Demand = Demand {
        prompt_tokens: 100,
        max_tokens: 51,
        samples: 4,
        sampled_prompts: 8,
        update_prompts: 2,
    };

    fn of(options: &EngineOptions, demand: &Demand) -> Footprint {
        let config = known("qwen2.5-0.5b").unwrap();
        let bounded = EngineOptions {
            activation_bytes: Some(options.activation_bytes.unwrap_or(1 << 30)),
            ..options.clone()
        };
        Footprint::new(&config, &bounded, demand)
    }

    #[test]
    fn a_weight_takes_4_bytes_and_12_more_in_training() {
        let plain = of(&EngineOptions::default(), &DEMAND);
        let parameters = known("qwen2.5-0.5b").unwrap().parameters();
        let near = |bytes: u64, expected: u64| bytes.abs_diff(expected) < expected / 100;
        assert!(near(plain.weights, 4 * parameters));
        assert!(near(plain.optimiser, 12 * parameters));
        // 8 prompts of 7 blocks and 32 samples of 4, of 16 rows of 24 layers of 2 × 128 numbers.
        assert_eq!(plain.cache, (8 * 7 + 32 * 4) * 16 * 24 * 2 * 128 * 4);
        let peak =
            plain.weights + plain.optimiser + plain.work + plain.activations.max(plain.cache);
        assert_eq!(plain.peak(), peak);
    }

    #[test]
    fn options_and_demands_count() {
        let plain = of(&EngineOptions::default(), &DEMAND);
        let with = |change: fn(&mut EngineOptions)| {
            let mut options = EngineOptions::default();
            change(&mut options);
            of(&options, &DEMAND)
        };
        let half = with(|options| options.dtype = Dtype::Bf16);
        assert_eq!(2 * half.weights, 3 * plain.weights);
        let lean = with(|options| options.activation_bytes = Some(0));
        assert!(lean.activations < plain.activations / 2);
        assert_eq!(lean.weights, plain.weights);
        let small = with(|options| options.kv_tokens = Some(1000));
        assert_eq!(small.cache, 1000 * 24 * 2 * 128 * 4);
        let adapters = with(|options| {
            options.lora = Some(Lora {
                rank: 8,
                alpha: 16.0,
                seed: 0,
            });
        });
        assert!(adapters.optimiser < plain.optimiser / 50);
        assert!(adapters.weights > plain.weights);
        let sampling = Demand {
            update_prompts: 0,
            ..DEMAND
        };
        let sampling = of(&EngineOptions::default(), &sampling);
        assert_eq!((sampling.optimiser, sampling.activations), (0, 0));
        assert_eq!(sampling.cache, plain.cache);
    }
}
