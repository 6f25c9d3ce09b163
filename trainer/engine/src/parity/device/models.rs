//! Small random models of each family: logits, decoding and an update.

use std::collections::BTreeMap;

use serde_json::json;

use super::{ADAMW, Results, numbers};
use crate::backend::Backend;
use crate::batch::{Batch, Group};
use crate::config::{Family, ModelConfig};
use crate::error::EngineError;
use crate::load::{Tensor, Weights};
use crate::model::{Model, TensorKind};
use crate::sample::{Draw, Sampling};
use crate::train;

/// A small model with all features of its family.
pub(super) fn small(family: Family) -> ModelConfig {
    let config = json!({
        "model_type": family.name(), "vocab_size": 515, "hidden_size": 136, "intermediate_size": 200, "num_hidden_layers": 2,
        "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 64, "max_position_embeddings": 512, "rms_norm_eps": 1e-6,
        "rope_theta": 10_000.0, "tie_word_embeddings": family == Family::Gemma3,
        // Gemma's alone.
        "query_pre_attn_scalar": 64.0, "sliding_window": 17, "sliding_window_pattern": 2, "rope_local_base_freq": 1000.0,
        "attn_logit_softcapping": 5.0, "final_logit_softcapping": 20.0,
    });
    ModelConfig::from_json(&config.to_string()).expect("a configuration of the family")
}

pub(super) fn random_weights(config: &ModelConfig) -> Weights {
    let shapes = config.tensor_shapes().into_iter();
    let tensors = (100..).zip(shapes).map(|(seed, (name, shape))| {
        let mut data = numbers(shape.iter().product(), seed);
        let (base, factor) = match shape.get(1) {
            // This keeps activations near 1.
            Some(inputs) if !name.contains("embed") => (0.0, (3.0 / *inputs as f32).sqrt()),
            Some(_) => (0.0, 0.5),
            None if name.contains("norm") && !config.flags.unit_offset_norms => (1.0, 0.2),
            None => (0.0, 0.2),
        };
        for x in &mut data {
            *x = base + factor * *x;
        }
        (name, Tensor { shape, data })
    });
    Weights {
        tensors: tensors.collect::<BTreeMap<_, _>>(),
    }
}

/// Results of a model: logits of a text, then those of decoding steps and of two updates.
pub(super) fn model(family: Family, backend: Box<dyn Backend>) -> Result<Results, EngineError> {
    let config = small(family);
    let weights = random_weights(&config);
    let mut model = Model::new(config, weights, backend)?;
    let tokens: Vec<u32> = (0..90).map(|i| (i * 37 + 11) % 515).collect();
    model.reserve_kv(128)?;
    let prompt = Batch::text(&tokens);
    let all: Vec<usize> = (0..90).collect();
    let logits = model.logits(&prompt, &all)?;
    let mut results = vec![("logits", logits)];
    // Three steps of three sequences. The device may record the second and replay it for the third.
    for step in 0..3 {
        let mut decoding = Batch::default();
        for (i, token) in [7, 8, 9].into_iter().enumerate() {
            decoding.add(&[token], vec![(0, 90), (90 + 4 * i, step + 1)]);
        }
        let draws = vec![Draw::new(Sampling::greedy(), 0, 0); 3];
        let sampled = model.infer(&decoding, &[0, 1, 2], &draws)?;
        let probabilities = sampled.iter().map(|sampled| sampled.logp.exp());
        results.push(("probabilities of decoded tokens", probabilities.collect()));
    }
    model.release_kv();
    let groups = [Group {
        prompt: tokens[..40].into(),
        // Two are equal, and one parts from them.
        completions: vec![
            tokens[40..75].to_vec(),
            tokens[50..53].to_vec(),
            tokens[50..53].to_vec(),
            [&tokens[40..50], &tokens[10..20]].concat(),
        ],
    }];
    // The second update shows whether the first one has changed what products read.
    for (logp, gradient) in [
        ("log-probabilities", "gradient"),
        (
            "log-probabilities after an update",
            "gradient after an update",
        ),
    ] {
        let dlogp = vec![numbers(35, 1), numbers(3, 2), numbers(3, 3), numbers(20, 4)];
        let objective = Box::new(move |_: &[_]| Ok(dlogp));
        let report = train::step(&mut model, &groups, 0.9, objective, &ADAMW)?;
        let stats = report.stats.into_iter();
        results.push((logp, stats.flat_map(|stats| stats.logp).collect()));
        let mut values = Vec::new();
        for (name, _) in model.trained_shapes() {
            values.extend(model.tensor(&name, TensorKind::Gradient)?);
        }
        results.push((gradient, values));
    }
    Ok(results)
}
