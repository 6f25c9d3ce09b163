//! Computes the largest difference between the log-probability with which a token was sampled and the one that training gives it, over a chosen number of
//! tokens.
//!
//! `cargo run --release -p engine --example exact -- MODEL [TOKENS] [f32|bf16]`
//!
//! Batches have 1 to 256 sequences. They are sampled on one thread and scored on two, or the other way round, in packs of several sizes. The program ends with
//! an error unless the difference is 0.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use engine::{
    Completion, Device, Dtype, Engine, EngineError, EngineOptions, GenerateRequest, Group, Sampling,
};

const BATCHES: [usize; 10] = [64, 256, 8, 128, 33, 2, 192, 16, 1, 100];
const TEXTS: [&str; 6] = [
    "Once upon a time, in a village by the sea,",
    "def quicksort(numbers):\n    \"\"\"Sorts a list of numbers.\"\"\"\n",
    "Question: A train leaves at 9:40 and arrives at 13:25. How long does it take?\nAnswer:",
    "The",
    "In number theory, a prime number is a natural number greater than 1 that is not a product of two smaller natural numbers. A natural number greater than 1 that is \
     not prime is called a composite number. For example, 5 is prime because the only ways of writing it as a product, 1 × 5 or 5 × 1, involve 5 itself. However,",
    "List three primary colours:\n1.",
];

fn open(
    threads: usize,
    pack_tokens: usize,
    dtype: Dtype,
    model: &str,
) -> Result<Engine, EngineError> {
    let options = EngineOptions {
        threads: Some(threads),
        pack_tokens: Some(pack_tokens),
        dtype,
        device: Device::Cpu,
        ..EngineOptions::default()
    };
    Engine::open(&PathBuf::from(model), options)
}

/// `batch` sequences of up to 96 tokens, up to eight per prompt.
fn requests(
    engine: &Engine,
    batch: usize,
    round: usize,
) -> Result<Vec<GenerateRequest>, EngineError> {
    let mut requests = Vec::new();
    let mut remaining = batch;
    while remaining > 0 {
        let number = requests.len();
        let samples = (1 + (number + round) % 8).min(remaining);
        remaining -= samples;
        let seeds = (0..samples).map(|s| (round * 100_000 + number * 100 + s) as u64);
        let text = TEXTS[(number + round) % TEXTS.len()];
        requests.push(GenerateRequest {
            prompt: engine.encode(text, true)?.into(),
            seeds: seeds.collect(),
            sampling: Sampling::default(),
            min_tokens: 0,
            max_tokens: 24 + (number * 29 + round * 7) % 73,
            stop_tokens: engine.stop_tokens(),
            stop_strings: Vec::new(),
        });
    }
    Ok(requests)
}

fn main() -> Result<(), EngineError> {
    let usage = |what: &str| EngineError::Request(what.to_owned());
    let arguments: Vec<String> = std::env::args().collect();
    let model = arguments
        .get(1)
        .ok_or_else(|| usage("give a model's file or folder"))?;
    let min_tokens: usize = match arguments.get(2) {
        Some(tokens) => tokens
            .parse()
            .map_err(|_| usage("give a number of tokens"))?,
        None => 10_000,
    };
    let dtype = match arguments.get(3).map(String::as_str) {
        None | Some("f32") => Dtype::F32,
        Some("bf16") => Dtype::Bf16,
        Some(_) => return Err(usage("give f32 or bf16")),
    };
    let engines = [open(1, 700, dtype, model)?, open(2, 2048, dtype, model)?];
    println!("{}", engines[1].info().device);
    let (mut tokens, mut different, mut largest) = (0usize, 0usize, 0f32);
    let began = Instant::now();
    for round in 0.. {
        if tokens >= min_tokens {
            break;
        }
        let batch = BATCHES[round % BATCHES.len()];
        let threads = round / BATCHES.len() + round;
        let (sampler, trainer) = (&engines[threads % 2], &engines[(threads + 1) % 2]);
        let requests = requests(sampler, batch, round)?;
        let mut completions: BTreeMap<(usize, usize), Completion> = BTreeMap::new();
        for completion in sampler.generate(requests.clone()) {
            let completion = completion?;
            completions.insert((completion.request, completion.sample), completion);
        }
        let group = |(number, request): (usize, &GenerateRequest)| Group {
            prompt: Arc::clone(&request.prompt),
            completions: (0..request.seeds.len())
                .map(|sample| completions[&(number, sample)].tokens.clone())
                .collect(),
        };
        let stats = trainer.score(requests.iter().enumerate().map(group).collect(), 1.0)?;
        for (completion, stats) in completions.values().zip(&stats) {
            for (sampled, scored) in completion.logp.iter().zip(&stats.logp) {
                tokens += 1;
                different += usize::from(sampled.to_bits() != scored.to_bits());
                largest = largest.max((sampled - scored).abs());
            }
        }
        println!(
            "batch {batch:3}: {tokens} tokens, largest |Δ log p| {largest:e}, {different} differ, {:.0} s",
            began.elapsed().as_secs_f64()
        );
    }
    if different > 0 {
        return Err(EngineError::Numeric(format!(
            "{different} of {tokens} tokens differ"
        )));
    }
    Ok(())
}
