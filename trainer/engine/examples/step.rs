//! Measures how fast the engine trains and generates on this machine, with a random model of SmolLM2-135M's shape, in absolute terms and as a share of the rate
//! of a matrix product.
//!
//! `cargo run --release -p engine --example step -- [THREADS] [decode|train]`
//!
//! The training step has 16 prompts × 100 tokens × 8 completions × 10 tokens. Decoding has 128 sequences of about 150 tokens.

use std::time::{Duration, Instant};

use engine::AdamW;
use engine::EngineError;
use engine::backend::{Backend, Linear, Purpose, cpu};
use engine::batch::{Batch, Group, Span};
use engine::config::{Family, ModelConfig};
use engine::load::{Tensor, Weights};
use engine::model::Model;
use engine::sample::Draw;
use engine::sample::Sampling;
use engine::train::step;

fn config() -> ModelConfig {
    ModelConfig {
        family: Family::Llama,
        flags: Family::Llama.flags(),
        vocab_size: 49152,
        hidden_size: 576,
        intermediate_size: 1536,
        num_hidden_layers: 30,
        num_attention_heads: 9,
        num_key_value_heads: 3,
        head_dim: 64,
        max_position_embeddings: 8192,
        rms_norm_eps: 1e-5,
        rope_theta: 100_000.0,
        rope_scaling: None,
        sliding: None,
        query_pre_attn_scalar: 64.0,
        attn_logit_softcapping: None,
        final_logit_softcapping: None,
        tie_word_embeddings: true,
        bos_token_id: None,
        eos_token_ids: Vec::new(),
        pad_token_id: None,
    }
}

/// A small generator of numbers between -0.5 and 0.5.
fn noise(state: &mut u64) -> f32 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    (*state >> 40) as f32 / (1u64 << 24) as f32 - 0.5
}

fn model(threads: Option<usize>) -> Result<Model, EngineError> {
    let config = config();
    let mut weights = Weights::default();
    let mut state = 1;
    for (name, shape) in config.tensor_shapes() {
        let size = shape.iter().product();
        let data = (0..size).map(|_| {
            if name.contains("norm") {
                1.0
            } else {
                0.1 * noise(&mut state)
            }
        });
        let data = data.collect();
        weights.tensors.insert(name, Tensor { shape, data });
    }
    Model::new(config, weights, cpu::open(threads)?)
}

/// Rate of a large matrix product in GFLOP/s.
fn matrix_rate(threads: Option<usize>) -> Result<f64, EngineError> {
    let mut backend: Box<dyn Backend> = cpu::open(threads)?;
    let size = Linear {
        rows: 2048,
        outputs: 1536,
        inputs: 576,
    };
    let x = backend.allocate(Purpose::Activations, size.rows * size.inputs)?;
    let w = backend.allocate(Purpose::Weights, size.outputs * size.inputs)?;
    let y = backend.allocate(Purpose::Activations, size.rows * size.outputs)?;
    let mut best = 0.0f64;
    for _ in 0..60 {
        let began = Instant::now();
        backend.linear(y, x, w, size, false);
        let flops = 2.0 * (size.rows * size.outputs * size.inputs) as f64;
        best = best.max(flops / began.elapsed().as_secs_f64() / 1e9);
    }
    Ok(best)
}

fn training(model: &mut Model, rate: f64) -> Result<(), EngineError> {
    let (prompts, prompt, samples, length) = (16, 100, 8, 10);
    let mut state = 7;
    let mut tokens = |n: usize| -> Vec<u32> {
        (0..n)
            .map(|_| ((noise(&mut state) + 0.5) * 49151.0) as u32)
            .collect()
    };
    let groups: Vec<Group> = (0..prompts)
        .map(|_| Group {
            prompt: tokens(prompt).into(),
            completions: (0..samples).map(|_| tokens(length)).collect(),
        })
        .collect();
    let packed = prompts * (prompt + samples * (length - 1));
    let predicting = prompts * (1 + samples * (length - 1));
    let c = model.config();
    let kv = c.num_key_value_heads * c.head_dim;
    let block = c.hidden_size * (2 * c.hidden_size + 2 * kv + 3 * c.intermediate_size);
    let body = packed * c.num_hidden_layers * block;
    let head = predicting * c.vocab_size * c.hidden_size;
    // Forward, and twice that backward. Recomputation does not count as useful work.
    let flops = 6.0 * (body + head) as f64;
    let adamw = AdamW {
        lr: 1e-5,
        beta1: 0.9,
        beta2: 0.999,
        eps: 1e-8,
        weight_decay: 0.0,
        clip_norm: 1.0,
    };
    for budget in [None, Some(0)] {
        model.set_saved_bytes(budget);
        let mut best: Option<(Duration, String)> = None;
        for _ in 0..2 {
            let began = Instant::now();
            let objective = Box::new(|stats: &[engine::TokenStats]| {
                Ok(stats.iter().map(|s| vec![0.01; s.logp.len()]).collect())
            });
            let report = step(model, &groups, 1.0, objective, &adamw)?;
            let time = began.elapsed();
            let line = format!(
                "forward {:.2} s, backward {:.2} s, optimiser {:.2} s",
                report.forward.as_secs_f64(),
                report.backward.as_secs_f64(),
                report.optimiser.as_secs_f64()
            );
            if best.as_ref().is_none_or(|(b, _)| time < *b) {
                best = Some((time, line));
            }
        }
        if let Some((time, line)) = best {
            let seconds = time.as_secs_f64();
            println!(
                "step, {}: {seconds:.2} s ({line}), {packed} tokens, {:.0} tokens/s, {:.0} GFLOP/s = {:.0}% of the matrix rate",
                if budget.is_some() {
                    "all recomputed"
                } else {
                    "saved within memory"
                },
                packed as f64 / seconds,
                flops / seconds / 1e9,
                100.0 * flops / seconds / 1e9 / rate
            );
        }
    }
    Ok(())
}

fn decoding(model: &mut Model, rate: f64, shared: bool) -> Result<(), EngineError> {
    let (sequences, samples, prompt, steps) = (128, 8, 100, 24);
    let per_prompt = if shared { samples } else { 1 };
    let prompts = sequences / per_prompt;
    let sample_rows = 64;
    model.reserve_kv(prompts * prompt + sequences * sample_rows)?;
    let base = prompts * prompt;
    let mut fill = Batch::default();
    for p in 0..prompts {
        let start = fill.tokens.len();
        fill.tokens
            .extend((0..prompt).map(|i| (p * 31 + i * 17) as u32));
        fill.positions.extend(0..prompt as u32);
        fill.rows.extend(p * prompt..(p + 1) * prompt);
        fill.spans.push(Span {
            q_start: start,
            q_len: prompt,
            kv: vec![(p * prompt, prompt)].into(),
        });
    }
    let began = Instant::now();
    for chunk in fill.spans.chunks(16) {
        let range = chunk[0].q_start..chunk[0].q_start + chunk.len() * prompt;
        let batch = Batch {
            tokens: fill.tokens[range.clone()].to_vec(),
            positions: fill.positions[range.clone()].to_vec(),
            rows: fill.rows[range.clone()].to_vec(),
            spans: chunk
                .iter()
                .map(|s| Span {
                    q_start: s.q_start - range.start,
                    ..s.clone()
                })
                .collect(),
        };
        model.infer(&batch, &[], &[])?;
    }
    let prefill = began.elapsed().as_secs_f64();
    let mut tokens = vec![5u32; sequences];
    let mut best = f64::INFINITY;
    let began = Instant::now();
    for t in 0..steps {
        let mut batch = Batch::default();
        for (s, token) in tokens.iter().enumerate() {
            batch.tokens.push(*token);
            batch.positions.push((prompt + t) as u32);
            let row = base + s * sample_rows;
            batch.rows.push(row + t);
            batch.spans.push(Span {
                q_start: s,
                q_len: 1,
                kv: vec![(s / per_prompt * prompt, prompt), (row, t + 1)].into(),
            });
        }
        let rows: Vec<usize> = (0..sequences).collect();
        let draws: Vec<Draw> = (0..sequences)
            .map(|s| Draw::new(Sampling::default(), s as u64, t as u64))
            .collect();
        let one = Instant::now();
        let sampled = model.infer(&batch, &rows, &draws)?;
        best = best.min(one.elapsed().as_secs_f64());
        tokens = sampled.iter().map(|d| d.token).collect();
    }
    let mean = began.elapsed().as_secs_f64() / f64::from(steps as u32);
    let flops = 2.0 * model.config().parameters() as f64 * sequences as f64;
    println!(
        "decode of {sequences} sequences, {}: {:.0} tokens/s (best step {:.0}), {:.0} GFLOP/s = {:.0}% of the matrix rate; prompts {:.0} tokens/s",
        if shared {
            "8 a prompt"
        } else {
            "each its own prompt"
        },
        sequences as f64 / mean,
        sequences as f64 / best,
        flops / mean / 1e9,
        100.0 * flops / mean / 1e9 / rate,
        (prompts * prompt) as f64 / prefill
    );
    model.release_kv();
    Ok(())
}

fn main() -> Result<(), EngineError> {
    let arguments: Vec<String> = std::env::args().collect();
    let threads = arguments.get(1).and_then(|n| n.parse().ok());
    let wants = |what: &str| arguments.get(2).is_none_or(|only| only == what);
    let mut model = model(threads)?;
    let rate = matrix_rate(threads)?;
    println!(
        "{}: {rate:.0} GFLOP/s in a product of 2048 × 576 × 1536",
        model.device()
    );
    if wants("decode") {
        decoding(&mut model, rate, true)?;
        decoding(&mut model, rate, false)?;
    }
    if wants("train") {
        training(&mut model, rate)?;
    }
    Ok(())
}
