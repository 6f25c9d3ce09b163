//! `rapid bench step`: a whole iteration, which is sampling and then an update on the samples.

use std::time::Instant;

use engine::{Engine, Group};

use super::rollout::{FLOP_PER_WEIGHT, check, requests, sample};
use super::train::{flop_per_weight, update};
use super::{Measured, Options};

/// Timed iterations, after a first one that plans and touches the memory.
const ITERATIONS: usize = 2;

pub(super) fn measure(engine: &Engine, options: &Options) -> anyhow::Result<Measured> {
    iterate(engine, options)?;
    let started = Instant::now();
    for _ in 0..ITERATIONS {
        iterate(engine, options)?;
    }
    let seconds = started.elapsed().as_secs_f64() / ITERATIONS as f64;
    // The memory traffic of an iteration depends on its number of sampling steps; `rollout` and `train` report it for each part.
    let (sampled, trained) = (options.sampled_tokens(engine), options.trained_tokens());
    Ok(Measured {
        seconds,
        tokens: trained,
        flop_per_weight: FLOP_PER_WEIGHT * sampled as f64
            + flop_per_weight(options) * trained as f64,
        bytes_per_weight: 0.0,
    })
}

fn iterate(engine: &Engine, options: &Options) -> anyhow::Result<()> {
    let requests = requests(engine, options);
    let prompts: Vec<_> = requests
        .iter()
        .map(|request| request.prompt.clone())
        .collect();
    let completions = sample(engine, requests)?;
    check(&completions, options)?;
    let mut groups: Vec<Group> = prompts
        .into_iter()
        .map(|prompt| Group {
            prompt,
            completions: Vec::new(),
        })
        .collect();
    for completion in completions {
        groups[completion.request]
            .completions
            .push(completion.tokens);
    }
    update(engine, groups)
}
