//! The forward pass against candle-transformers, and batches that it rejects.

use crate::{fetched, support};

use std::collections::HashMap;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use candle_core::quantized::gguf_file;
use candle_core::{DType, Device, Tensor};
use candle_nn::{Activation, VarBuilder};
use candle_transformers::models::gemma3;
use engine::backend::cpu;
use engine::batch::Batch;
use engine::config::Family;
use engine::load;
use engine::model::Model;
use engine::parity;
use support::{Random, config, largest_difference, model, weights};

#[test]
fn logits_match_candles() {
    for seed in 0..20 {
        let mut random = Random(seed);
        let mut config = config(&mut random, Family::ALL[seed as usize % 4]);
        if config.family == Family::Gemma3 {
            // candle supports neither. They are tested against `transformers` in scripts/parity.sh, and against candle's basic operations in
            // tests/gradients.rs.
            config.rope_scaling = None;
            config.tie_word_embeddings = true;
            // candle's cache rejects more.
            config.num_key_value_heads = 1;
        }
        let weights = weights(&mut random, &config);
        let tokens = random.tokens(150, config.vocab_size);
        let mut model = model(&config, &weights, 2);
        model.reserve_kv(150).unwrap();
        let rows: Vec<usize> = (0..150).collect();
        let ours = model.logits(&Batch::text(&tokens), &rows).unwrap();
        for n in [1, 2, 17, 64, 65, 150] {
            let theirs = parity::candle_logits(&config, &weights, &tokens[..n]).unwrap();
            let ours = &ours[(n - 1) * config.vocab_size..n * config.vocab_size];
            let difference = largest_difference(ours, &theirs);
            assert!(
                difference < 1e-4,
                "{config:?}: {difference} after {n} tokens"
            );
        }
    }
}

/// The sliding window of Gemma 3 270M.
const GEMMAS_WINDOW: usize = 512;

/// candle's Gemma 3 with the real weights, which candle reads from the file and this test renames. (candle's own GGUF reader uses SiLU instead of Gemma's
/// activation.)
fn candles_gemma(folder: &Path, context: usize) -> gemma3::Model {
    let mut files = std::fs::read_dir(folder).unwrap();
    let path = files.find_map(|entry| {
        let path = entry.unwrap().path();
        (path.extension()? == "gguf").then_some(path)
    });
    let mut reader = BufReader::new(File::open(path.unwrap()).unwrap());
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
        // In candle, a token attends to one token more than in `transformers` and llama.cpp.
        sliding_window: GEMMAS_WINDOW - 1,
        sliding_window_pattern: 6,
        max_position_embeddings: context,
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
        let tensor = content.tensor(&mut reader, name, &Device::Cpu);
        let mut values = tensor.unwrap().dequantize(&Device::Cpu).unwrap();
        if name.ends_with("norm.weight") {
            values = (values - 1.0).unwrap();
        }
        let parts = name.split('.').map(|part| {
            let renamed = names.iter().find(|(theirs, _)| *theirs == part);
            renamed.map_or(part, |(_, hugging_face)| hugging_face)
        });
        weights.insert(parts.collect::<Vec<_>>().join("."), values);
    }
    let weights = VarBuilder::from_tensors(weights, DType::F32, &Device::Cpu);
    gemma3::Model::new(false, &config, weights).unwrap()
}

/// Real weights, which candle reads independently. Texts are repeated until they are longer than the window.
#[test]
fn gemma_3s_logits_match_candles() {
    let Some(folder) = fetched::gemma() else {
        return;
    };
    let opened = load::open(&folder).unwrap();
    let backend = cpu::open(None).unwrap();
    let mut model = Model::new(opened.config, opened.weights, backend).unwrap();
    let length = GEMMAS_WINDOW + 20;
    model.reserve_kv(length).unwrap();
    let mut candle = candles_gemma(&folder, length);
    for text in [
        "The capital of France is a city that many people",
        "def fibonacci(n):\n    if n < 2:\n        return",
        "水は摂氏百度で沸騰し、零度で凍る。",
    ] {
        let once = opened.text.tokenizer.encode(text, true).unwrap();
        let tokens: Vec<u32> = once.iter().copied().cycle().take(length).collect();
        let ids = Tensor::new(vec![tokens.clone()], &Device::Cpu).unwrap();
        candle.clear_kv_cache();
        let theirs = candle.forward(&ids, 0).unwrap().flatten_all().unwrap();
        let theirs: Vec<f32> = theirs.to_vec1().unwrap();
        let ours = model.logits(&Batch::text(&tokens), &[length - 1]).unwrap();
        assert!(ours.iter().chain(&theirs).all(|logit| logit.is_finite()));
        let difference = largest_difference(&ours, &theirs);
        let largest = theirs
            .iter()
            .fold(0.0, |most: f32, logit| most.max(logit.abs()));
        // Rounding changes them by some 10⁻⁶ of the largest, and a window that is one token longer or shorter by 4·10⁻⁴.
        assert!(
            difference < 1e-4 * largest,
            "{text}: {difference} of {largest}"
        );
    }
}

#[test]
fn inconsistent_batches_are_rejected() {
    let mut random = Random(50);
    let config = config(&mut random, Family::Llama);
    let weights = weights(&mut random, &config);
    let mut model = model(&config, &weights, 1);
    model.reserve_kv(8).unwrap();
    let good = Batch::text(&[1, 2, 3]);
    assert!(model.logits(&good, &[2]).is_ok());
    assert!(model.logits(&good, &[3]).is_err());
    let vocabulary = config.vocab_size as u32;
    let faults: [&dyn Fn(&mut Batch); 4] = [
        &|batch| batch.tokens[1] = vocabulary,
        &|batch| batch.rows[1] = 8,
        &|batch| batch.spans[0].kv = vec![(6, 3)].into(),
        &|batch| batch.spans[0].q_len = 2,
    ];
    for fault in faults {
        let mut bad = good.clone();
        fault(&mut bad);
        assert!(model.logits(&bad, &[2]).is_err());
    }
}
