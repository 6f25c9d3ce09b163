//! `rapid bench rollout`: the speed of sampling.

use std::sync::Arc;
use std::time::Instant;

use anyhow::bail;
use engine::{Completion, Dtype, Engine, GenerateRequest, Sampling};

use super::{Measured, Options};

/// A multiplication and an addition for each weight and token.
pub(super) const FLOP_PER_WEIGHT: f64 = 2.0;
/// Sequences that the engine generates at once by default.
pub(super) const DEFAULT_SEQUENCES: usize = 256;

pub(super) fn measure(engine: &Engine, options: &Options) -> anyhow::Result<Measured> {
    // The first pass plans and touches memory. A GPU also chooses and records its kernels for each batch size.
    let first = match options.device.options()?.device.memory() {
        None => 1,
        Some(_) => options.prompts,
    };
    sample(engine, requests(engine, options).drain(..first).collect())?;
    let started = Instant::now();
    let completions = sample(engine, requests(engine, options))?;
    let seconds = started.elapsed().as_secs_f64();
    check(&completions, options)?;
    // Each step reads each weight once for all its sequences.
    let sequences = options.max_sequences.unwrap_or(DEFAULT_SEQUENCES);
    let steps = (options.prompts * options.samples).div_ceil(sequences) * options.tokens;
    let bytes = match options.device.options()?.dtype {
        Dtype::F32 => 4,
        Dtype::Bf16 => 2,
    };
    let tokens = options.sampled_tokens(engine);
    Ok(Measured {
        seconds,
        tokens,
        flop_per_weight: FLOP_PER_WEIGHT * tokens as f64,
        bytes_per_weight: (steps * bytes) as f64,
    })
}

/// Requests for completions of the lengths that the options give.
pub(super) fn requests(engine: &Engine, options: &Options) -> Vec<GenerateRequest> {
    let lengths = options.lengths();
    let samples = lengths.chunks_exact(options.samples).enumerate();
    samples
        .map(|(number, lengths)| GenerateRequest {
            prompt: prompt(engine.info().vocabulary, options, number),
            seeds: (0..lengths.len() as u64).collect(),
            sampling: Sampling::default(),
            min_tokens: 0,
            max_tokens: lengths[0],
            // Every completion runs to its full length.
            stop_tokens: Vec::new(),
            stop_strings: Vec::new(),
        })
        .collect()
}

/// All completions of the requests.
pub(super) fn sample(
    engine: &Engine,
    requests: Vec<GenerateRequest>,
) -> anyhow::Result<Vec<Completion>> {
    Ok(engine
        .generate(requests)
        .into_iter()
        .collect::<Result<_, _>>()?)
}

/// Refuses completions that are shorter than requested.
pub(super) fn check(completions: &[Completion], options: &Options) -> anyhow::Result<()> {
    let lengths = completions.iter().map(|completion| completion.tokens.len());
    let (sampled, wanted) = (lengths.sum::<usize>(), options.completion_tokens());
    if sampled != wanted {
        bail!(
            "{sampled} of {wanted} tokens were sampled: prompt and completion together are longer than the model's context; give fewer --tokens"
        );
    }
    Ok(())
}

/// The tokens of a prompt: those that all prompts share, and then its own.
pub(super) fn prompt(vocabulary: usize, options: &Options, number: usize) -> Arc<[u32]> {
    let shared = tokens(vocabulary, options.shared_tokens, 0);
    let own = tokens(vocabulary, options.prompt_tokens, number);
    shared.chain(own.skip(options.shared_tokens)).collect()
}

/// Arbitrary token ids, different for each number. They avoid the special tokens at both ends of the vocabulary.
pub(super) fn tokens(vocabulary: usize, length: usize, number: usize) -> impl Iterator<Item = u32> {
    (0..length)
        .map(move |i| (vocabulary / 4 + (number * 7919 + i * 104_729) % (vocabulary / 2)) as u32)
}
