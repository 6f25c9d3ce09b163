//! Gemma 3's real weights: the engine's likeliest tokens are those of candle, whose weights this test reads from the same file independently.

use crate::fetched;

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use candle_core::quantized::gguf_file;
use candle_core::{DType, Device as CandleDevice, Tensor};
use candle_nn::{Activation, VarBuilder};
use candle_transformers::models::gemma3;
use engine::{Device, Engine, EngineOptions, GenerateRequest, Sampling};

/// If the two best logits differ by less than this, two correct implementations may order them differently.
const TIE: f32 = 1e-3;
const TOKENS: usize = 64;
/// Tokens of a prompt. All prompts have one length, so that candle runs them as one batch.
const PROMPT: usize = 8;

const PROMPTS: [&str; 16] = [
    "The capital of France is a city that many people",
    "Once upon a time there was a little girl who",
    "def fibonacci(n):\n    if n < 2:\n        return",
    "Question: 12 + 30 = ?\nAnswer: \\boxed{",
    "The three primary colours are red, yellow and",
    "In 1969, the first man to walk on",
    "Il était une fois, dans un pays lointain, un",
    "Die Hauptstadt von Deutschland ist Berlin, und die",
    "To make bread you need flour, water, salt and",
    "A list of numbers: 1, 2, 3, 4, 5,",
    "#include <stdio.h>\n\nint main(void) {\n",
    "Dear Sir or Madam,\n\nI am writing to",
    "Water boils at a temperature of one hundred degrees",
    "The quick brown fox jumps over the lazy dog and",
    "SELECT name, age FROM people WHERE age > 30",
    "水は摂氏百度で沸騰し、零度で凍る。",
];

/// candle's Gemma 3 with the file's weights, which this test reads, dequantises and renames. (candle's own GGUF reader uses SiLU instead of Gemma's
/// activation.)
fn candles_gemma(folder: &Path) -> gemma3::Model {
    let mut files = std::fs::read_dir(folder).unwrap();
    let gguf = files.find_map(|entry| {
        let path = entry.unwrap().path();
        (path.extension()? == "gguf").then_some(path)
    });
    let mut reader = BufReader::new(File::open(gguf.unwrap()).unwrap());
    let content = gguf_file::Content::read(&mut reader).unwrap();
    let number = |key: &str| content.metadata[&format!("gemma3.{key}")].to_u32().unwrap() as usize;
    let config = gemma3::Config {
        attention_bias: false,
        head_dim: number("attention.key_length"),
        hidden_activation: Activation::GeluPytorchTanh,
        hidden_size: number("embedding_length"),
        intermediate_size: number("feed_forward_length"),
        num_attention_heads: number("attention.head_count"),
        num_hidden_layers: number("block_count"),
        num_key_value_heads: number("attention.head_count_kv"),
        rms_norm_eps: 1e-6,
        rope_theta: 1e6,
        rope_local_base_freq: 1e4,
        vocab_size: 262_144,
        final_logit_softcapping: None,
        attn_logit_softcapping: None,
        query_pre_attn_scalar: 256,
        sliding_window: number("attention.sliding_window"),
        sliding_window_pattern: 6,
        max_position_embeddings: 512,
    };
    let names = [
        ("token_embd", "model.embed_tokens"),
        ("output_norm", "model.norm"),
        ("blk", "model.layers"),
        ("attn_norm", "input_layernorm"),
        ("post_attention_norm", "post_attention_layernorm"),
        ("ffn_norm", "pre_feedforward_layernorm"),
        ("post_ffw_norm", "post_feedforward_layernorm"),
        ("attn_q_norm", "self_attn.q_norm"),
        ("attn_k_norm", "self_attn.k_norm"),
        ("attn_q", "self_attn.q_proj"),
        ("attn_k", "self_attn.k_proj"),
        ("attn_v", "self_attn.v_proj"),
        ("attn_output", "self_attn.o_proj"),
        ("ffn_gate", "mlp.gate_proj"),
        ("ffn_up", "mlp.up_proj"),
        ("ffn_down", "mlp.down_proj"),
    ];
    let mut weights = HashMap::new();
    for name in content.tensor_infos.keys() {
        let tensor = content.tensor(&mut reader, name, &CandleDevice::Cpu);
        let mut values = tensor.unwrap().dequantize(&CandleDevice::Cpu).unwrap();
        if name.ends_with("norm.weight") {
            values = (values - 1.0).unwrap();
        }
        let parts = name.split('.').map(|part| {
            let renamed = names.iter().find(|(theirs, _)| *theirs == part);
            renamed.map_or(part, |(_, hugging_face)| hugging_face)
        });
        weights.insert(parts.collect::<Vec<_>>().join("."), values);
    }
    let weights = VarBuilder::from_tensors(weights, DType::F32, &CandleDevice::Cpu);
    gemma3::Model::new(false, &config, weights).unwrap()
}

#[test]
fn gemma_3s_likeliest_tokens_match_candles() {
    let Some(folder) = fetched::gemma() else {
        return;
    };
    let options = EngineOptions {
        device: Device::Cpu,
        ..EngineOptions::default()
    };
    let engine = Engine::open(&folder, options).unwrap();
    let prompts = PROMPTS.map(|text| {
        let mut tokens = engine.encode(text, true).unwrap();
        assert!(tokens.len() >= PROMPT, "{text}: {} tokens", tokens.len());
        tokens.truncate(PROMPT);
        tokens
    });
    let requests = prompts.clone().map(|prompt| GenerateRequest {
        prompt: prompt.into(),
        seeds: vec![0],
        sampling: Sampling::greedy(),
        max_tokens: TOKENS,
        ..GenerateRequest::default()
    });
    let completions = engine.generate(requests.to_vec()).into_iter();
    let ours: BTreeMap<usize, Vec<u32>> = completions
        .map(|completion| completion.map(|c| (c.request, c.tokens)).unwrap())
        .collect();
    assert!(ours.len() == PROMPTS.len() && ours.values().all(|t| t.len() == TOKENS));

    let batch = |columns: Vec<Vec<u32>>| Tensor::new(columns, &CandleDevice::Cpu).unwrap();
    let mut candle = candles_gemma(&folder);
    let mut ties = 0;
    let mut done = 0;
    for t in 0..TOKENS {
        let input = match t {
            0 => batch(prompts.to_vec()),
            _ => batch(ours.values().map(|tokens| vec![tokens[t - 1]]).collect()),
        };
        let new = input.dim(1).unwrap();
        let logits = candle.forward(&input, done).unwrap().squeeze(1).unwrap();
        done += new;
        let rows: Vec<Vec<f32>> = logits.to_vec2().unwrap();
        for (row, (request, tokens)) in rows.iter().zip(&ours) {
            let best = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let gap = best - row[tokens[t] as usize];
            assert!(
                gap <= TIE,
                "{:?}: token {t} is {}, {gap} below the likeliest",
                PROMPTS[*request],
                tokens[t]
            );
            ties += usize::from(gap > 0.0);
        }
    }
    println!("{} tokens, {ties} of them ties", TOKENS * PROMPTS.len());
}
