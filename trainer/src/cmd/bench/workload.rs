//! The work that is measured, or counted: sampling, an update, or both.

use std::sync::Arc;
use std::time::Instant;

use anyhow::bail;
use engine::{AdamW, Engine, GenerateRequest, Group, TokenStats};

use super::{Options, What};

/// A multiplication and an addition for each weight and sampled token.
const SAMPLING_FLOP: f64 = 2.0;
/// Sequences that the engine generates at once by default.
const DEFAULT_SEQUENCES: usize = 256;
/// How often an update, or an iteration, is timed.
const UPDATES: usize = 2;

#[derive(Debug, Clone, Copy)]
pub(super) struct Measurement {
    pub(super) seconds: f64,
    /// Prompt and completion tokens.
    pub(super) tokens: usize,
    pub(super) flop_per_weight: f64,
    /// Bytes moved per weight; 0 for an iteration, since its number of sampling steps varies.
    pub(super) bytes_per_weight: f64,
}

impl Measurement {
    /// Measures the work, after a first time that plans and touches memory.
    pub(super) fn of(what: What, engine: &Engine, options: &Options) -> anyhow::Result<Self> {
        // A GPU also chooses and records its kernels for each batch size. Elsewhere, sampling for one prompt suffices.
        match (what, options.device.options().device.memory()) {
            (What::Rollout, None) => sample(engine, options, 1)?,
            _ => run_once(what, engine, options)?,
        }
        let rounds = match what {
            What::Rollout => 1,
            What::Train | What::Step => UPDATES,
        };
        let started = Instant::now();
        for _ in 0..rounds {
            run_once(what, engine, options)?;
        }
        let seconds = started.elapsed().as_secs_f64() / rounds as f64;
        let (sampled, trained) = (options.sampled_tokens(engine), options.trained_tokens());
        let sampling_flop = SAMPLING_FLOP * sampled as f64;
        let training_flop = training_flop(options) * trained as f64;
        let (tokens, flop_per_weight, bytes_per_weight) = match what {
            What::Rollout => (sampled, sampling_flop, sampling_bytes(options)),
            What::Train => (trained, training_flop, training_bytes(options)),
            What::Step => (trained, sampling_flop + training_flop, 0.0),
        };
        Ok(Self {
            seconds,
            tokens,
            flop_per_weight,
            bytes_per_weight,
        })
    }
}

/// Bytes per weight that sampling reads: each step reads each weight once for all its sequences.
fn sampling_bytes(options: &Options) -> f64 {
    let sequences = options.max_sequences.unwrap_or(DEFAULT_SEQUENCES);
    let steps = (options.prompts * options.samples).div_ceil(sequences) * options.tokens;
    (steps * options.device.options().dtype.bytes()) as f64
}

/// Operations per weight and trained token: a multiplication and an addition in the forward pass, and again for the gradient of the input. A trained weight takes
/// two more, for its own gradient. Recomputation is not counted, and neither are adapters: they are hundreds of times smaller.
fn training_flop(options: &Options) -> f64 {
    if options.lora.is_some() { 4.0 } else { 6.0 }
}

/// Bytes per weight and update. The forward and the backward pass read the weight. Where it is trained, AdamW reads weight, gradient and two moments and writes all of
/// them but the gradient, and the gradient is zeroed, written and summed before.
fn training_bytes(options: &Options) -> f64 {
    let trained = match options.lora {
        Some(_) => 0.0,
        None => 7.0 + 3.0,
    };
    4.0 * (2.0 + trained)
}

/// Does the work once. An iteration trains on as many tokens as it samples, but on others: a device that only counts samples the same token every time.
pub(super) fn run_once(what: What, engine: &Engine, options: &Options) -> anyhow::Result<()> {
    if what != What::Train {
        sample(engine, options, options.prompts)?;
    }
    if what != What::Rollout {
        update(engine, options)?;
    }
    Ok(())
}

/// Samples completions, of the lengths that the options give, for the first prompts. Every completion runs to its full length.
fn sample(engine: &Engine, options: &Options, prompts: usize) -> anyhow::Result<()> {
    let lengths = options.lengths();
    let lengths = lengths.chunks_exact(options.samples).take(prompts);
    let wanted: usize = lengths.clone().flatten().sum();
    let requests = lengths
        .enumerate()
        .map(|(number, lengths)| GenerateRequest {
            prompt: prompt(engine.info().vocabulary, options, number),
            seeds: (0..lengths.len() as u64).collect(),
            max_tokens: lengths[0],
            ..GenerateRequest::default()
        });
    let mut sampled = 0;
    for completion in engine.generate(requests.collect()) {
        sampled += completion?.tokens.len();
    }
    if sampled != wanted {
        bail!(
            "{sampled} of {wanted} tokens were sampled: prompt and completion together are longer than the model's context; give fewer --tokens"
        );
    }
    Ok(())
}

/// An update on completions of arbitrary tokens, with ordinary arithmetic that hardly changes the weights.
fn update(engine: &Engine, options: &Options) -> anyhow::Result<()> {
    let lengths = options.lengths();
    let vocabulary = engine.info().vocabulary;
    let groups = (0..options.prompts).map(|number| Group {
        prompt: prompt(vocabulary, options, number),
        completions: (0..options.samples)
            .map(|sample| {
                let completion = number * options.samples + sample;
                let number = options.prompts + completion;
                tokens(vocabulary, lengths[completion], number).collect()
            })
            .collect(),
    });
    // Every token has a gradient of ordinary size.
    let objective = Box::new(|stats: &[TokenStats]| {
        let count = stats.len() as f32;
        let dlogp_of = |logp: &f32| -0.01 * logp.signum() / count;
        let dlogp = stats.iter().map(|s| s.logp.iter().map(dlogp_of).collect());
        Ok(dlogp.collect())
    });
    engine.step(groups.collect(), 1.0, objective, AdamW::new(1e-9))?;
    Ok(())
}

/// The tokens of a prompt: those that all prompts share, and then its own.
pub(super) fn prompt(vocabulary: usize, options: &Options, number: usize) -> Arc<[u32]> {
    let shared = tokens(vocabulary, options.shared_tokens, 0);
    let own = tokens(vocabulary, options.prompt_tokens, number);
    shared.chain(own.skip(options.shared_tokens)).collect()
}

/// Arbitrary token ids, different for each number. They avoid the special tokens at both ends of the vocabulary.
fn tokens(vocabulary: usize, length: usize, number: usize) -> impl Iterator<Item = u32> {
    (0..length)
        .map(move |i| (vocabulary / 4 + (number * 7919 + i * 104_729) % (vocabulary / 2)) as u32)
}
