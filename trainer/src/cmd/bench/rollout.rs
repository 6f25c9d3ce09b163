//! Sampling.

use std::sync::Arc;
use std::time::Instant;

use anyhow::bail;
use engine::{Dtype, Engine, GenerateRequest, Sampling};

use super::{Figures, Options};

/// Multiply and add, once a weight and token.
const FLOP_PER_WEIGHT: f64 = 2.0;
/// Sequences that the engine generates at once unless told otherwise.
const AT_ONCE: usize = 256;

pub(super) fn measure(engine: &Engine, options: &Options) -> anyhow::Result<Figures> {
    let requests: Vec<GenerateRequest> = (0..options.prompts)
        .map(|number| GenerateRequest {
            prompt: prompt(engine, options.prompt_tokens, number),
            seeds: (0..options.samples as u64).collect(),
            sampling: Sampling::default(),
            max_tokens: options.tokens,
            // Every completion runs to its full length.
            stop_tokens: Vec::new(),
            stop_strings: Vec::new(),
        })
        .collect();
    // Memory is planned and touched by the first pass.
    finish(engine, requests[..1].to_vec())?;
    let started = Instant::now();
    let drawn = finish(engine, requests)?;
    let seconds = started.elapsed().as_secs_f64();
    let wanted = options.prompts * options.samples * options.tokens;
    if drawn != wanted {
        bail!(
            "{drawn} of {wanted} tokens were drawn: prompt and completion together are longer than the model's context; give fewer --tokens"
        );
    }
    // Each step reads each weight once for all sequences.
    let steps = (options.prompts * options.samples).div_ceil(AT_ONCE) * options.tokens;
    let bytes = match options.device.options()?.dtype {
        Dtype::F32 => 4,
        Dtype::Bf16 => 2,
    };
    Ok(Figures::of(
        "sampling",
        engine,
        options,
        seconds,
        FLOP_PER_WEIGHT,
        (steps * bytes) as f64,
    ))
}

fn finish(engine: &Engine, requests: Vec<GenerateRequest>) -> anyhow::Result<usize> {
    let mut tokens = 0;
    for completion in engine.generate(requests) {
        tokens += completion?.tokens.len();
    }
    Ok(tokens)
}

/// Token ids without meaning, different for each prompt, away from the special ones at the vocabulary's ends.
pub(super) fn prompt(engine: &Engine, length: usize, number: usize) -> Arc<[u32]> {
    let vocabulary = engine.info().vocabulary;
    (0..length)
        .map(|i| (vocabulary / 4 + (number * 7919 + i * 104_729) % (vocabulary / 2)) as u32)
        .collect()
}
