//! Computes what scripts/parity.sh compares with `transformers`: logits and greedy tokens of a checkpoint, and of a second checkpoint that the engine saved
//! after an update.
//!
//! `cargo run --release -p engine --example parity -- MODEL PROMPTS.json SAVED OUT.json`, where PROMPTS.json is a list of lists of token ids. OUT.json receives
//! each prompt's logits (one row per token) and its 32 likeliest next tokens, for the model and for the checkpoint saved in SAVED.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a tool for developers"
)]

use std::path::Path;

use engine::backend::cpu;
use engine::batch::Batch;
use engine::model::Model;
use engine::{AdamW, Device, Engine, EngineOptions, GenerateRequest, Group, Sampling, load};
use serde_json::{Value, json};

const TOKENS: usize = 32;

fn open(model: &Path) -> Engine {
    let options = EngineOptions {
        device: Device::Cpu,
        ..EngineOptions::default()
    };
    Engine::open(model, options).unwrap()
}

/// Logits of every token of a prompt, one row each.
fn logits(model: &mut Model, tokens: &[u32]) -> Vec<Vec<f32>> {
    let n = tokens.len();
    model.reserve_kv(n).unwrap();
    let rows: Vec<usize> = (0..n).collect();
    let batch = Batch::text(tokens);
    let logits = model.logits(&batch, &rows).unwrap();
    logits
        .chunks(logits.len() / n)
        .map(<[f32]>::to_vec)
        .collect()
}

fn results_of(path: &Path, prompts: &[Vec<u32>]) -> Value {
    let loaded = load::open(path).unwrap();
    let backend = cpu::open(None).unwrap();
    let mut model = Model::new(loaded.config, loaded.weights, backend).unwrap();
    let requests = prompts.iter().map(|prompt| GenerateRequest {
        prompt: prompt.as_slice().into(),
        seeds: vec![0],
        sampling: Sampling::greedy(),
        max_tokens: TOKENS,
        ..GenerateRequest::default()
    });
    let mut greedy = vec![Vec::new(); prompts.len()];
    for completion in open(path).generate(requests.collect()) {
        let completion = completion.unwrap();
        greedy[completion.request] = completion.tokens;
    }
    let results = prompts.iter().zip(greedy);
    results
        .map(|(prompt, greedy)| json!({"logits": logits(&mut model, prompt), "greedy": greedy}))
        .collect()
}

/// Performs one update that makes the second half of every prompt likelier, and saves a checkpoint.
fn update(model: &Path, prompts: &[Vec<u32>], saved: &Path) {
    let engine = open(model);
    let groups = prompts.iter().map(|prompt| {
        let (before, after) = prompt.split_at(prompt.len() / 2);
        Group {
            prompt: before.into(),
            completions: vec![after.to_vec()],
        }
    });
    let likelier = Box::new(|stats: &[engine::TokenStats]| {
        Ok(stats.iter().map(|s| vec![-1.0; s.logp.len()]).collect())
    });
    engine
        .step(groups.collect(), 1.0, likelier, AdamW::new(1e-2))
        .unwrap();
    engine.save_model(saved.to_owned()).unwrap();
}

fn main() {
    let paths: Vec<String> = std::env::args().skip(1).collect();
    let [model, prompts, saved, out] = paths.as_slice() else {
        panic!("parity MODEL PROMPTS.json SAVED OUT.json");
    };
    let text = std::fs::read_to_string(prompts).unwrap();
    let prompts: Vec<Vec<u32>> = serde_json::from_str(&text).unwrap();
    let (model, saved) = (Path::new(model), Path::new(saved));
    update(model, &prompts, saved);
    let results =
        json!({"model": results_of(model, &prompts), "saved": results_of(saved, &prompts)});
    std::fs::write(out, results.to_string()).unwrap();
}
