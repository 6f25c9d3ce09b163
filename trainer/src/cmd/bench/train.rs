//! `rapid bench train`: the speed of training.

use std::time::Instant;

use engine::{AdamW, Engine, Group, TokenStats};

use super::rollout::{prompt, tokens};
use super::{Measured, Options};

/// Operations per weight and token: a multiplication and an addition each in the forward pass, for the gradient of the input and, where the weight is trained, for
/// the gradient of the weight. Recomputation is not counted, and neither are adapters, which are hundreds of times smaller.
pub(super) fn flop_per_weight(options: &Options) -> f64 {
    if options.lora.is_some() { 4.0 } else { 6.0 }
}

/// Bytes per weight and step. The forward and the backward pass read the weight. Where it is trained, AdamW reads weight, gradient and two moments and writes all of
/// them but the gradient, and the gradient is zeroed, written and summed before.
fn bytes_per_weight(options: &Options) -> f64 {
    let trained = if options.lora.is_some() {
        0.0
    } else {
        7.0 + 3.0
    };
    4.0 * (2.0 + trained)
}

const STEPS: usize = 2;

pub(super) fn measure(engine: &Engine, options: &Options) -> anyhow::Result<Measured> {
    // The first step plans and touches memory.
    step(engine, options)?;
    let started = Instant::now();
    for _ in 0..STEPS {
        step(engine, options)?;
    }
    let tokens = options.trained_tokens();
    Ok(Measured {
        seconds: started.elapsed().as_secs_f64() / STEPS as f64,
        tokens,
        flop_per_weight: flop_per_weight(options) * tokens as f64,
        bytes_per_weight: bytes_per_weight(options),
    })
}

/// An update on completions of arbitrary tokens.
pub(super) fn step(engine: &Engine, options: &Options) -> anyhow::Result<()> {
    let lengths = options.lengths();
    let vocabulary = engine.info().vocabulary;
    let groups = (0..options.prompts)
        .map(|number| Group {
            prompt: prompt(vocabulary, options, number),
            completions: (0..options.samples)
                .map(|sample| {
                    let completion = number * options.samples + sample;
                    let number = options.prompts + completion;
                    tokens(vocabulary, lengths[completion], number).collect()
                })
                .collect(),
        })
        .collect();
    update(engine, groups)
}

/// An update with ordinary arithmetic that hardly changes the weights.
pub(super) fn update(engine: &Engine, groups: Vec<Group>) -> anyhow::Result<()> {
    // Every token has a gradient of ordinary size.
    let objective = Box::new(|stats: &[TokenStats]| {
        let count = stats.len() as f32;
        let dlogp_of = |logp: &f32| -0.01 * logp.signum() / count;
        let dlogp = stats.iter().map(|s| s.logp.iter().map(dlogp_of).collect());
        Ok(dlogp.collect())
    });
    engine.step(groups, 1.0, objective, AdamW::new(1e-9))?;
    Ok(())
}
