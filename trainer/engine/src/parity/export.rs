//! Writes a model of random weights with what a device computes of it, so that another program can compare: `scripts/gpu/torch_parity.py` does so with PyTorch.

use std::collections::HashMap;
use std::path::Path;

use safetensors::tensor::{Dtype as TensorType, TensorView};
use serde_json::json;

use crate::api::{AdamW, EngineOptions};
use crate::batch::{Batch, Group};
use crate::config::ModelConfig;
use crate::error::EngineError;
use crate::load::random;
use crate::model::{Model, TensorKind};
use crate::text::random_model_tokenizer;
use crate::train::{self, checkpoint};

/// Tokens of the text.
const TOKENS: usize = 256;
/// Its first tokens, which are a prompt. The loss is the mean of the negative log-probabilities of the others.
const PROMPT: usize = 56;

/// Writes two things into a new folder. `model` is a Hugging Face checkpoint. `results.safetensors` has the ids of a text (`tokens`, f32) and the logits after
/// each of them (`logits`). For each weight it has the gradient of the mean of −log p over the tokens after the first 56 (`gradient.NAME`).
///
/// # Errors
/// If the device fails, or the folder cannot be written.
pub fn export(
    config: ModelConfig,
    options: &EngineOptions,
    folder: &Path,
) -> Result<(), EngineError> {
    let unwritten = |error: &dyn std::error::Error| {
        EngineError::Request(format!("{} cannot be written: {error}", folder.display()))
    };
    std::fs::create_dir_all(folder).map_err(|e| unwritten(&e))?;
    let backend = options
        .device
        .open(options.threads, options.dtype, options.kernel)?;
    let loaded = random::random(config.clone(), 0)?;
    let mut model = Model::new(config, loaded.weights, backend)?;
    checkpoint::save_model(&mut model, &loaded.text, &folder.join("model"))?;
    // Its tokens are bytes. PyTorch does not need them, and other trainers do.
    let tokenizer = random_model_tokenizer::json().to_string();
    let settings = json!({"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|end|>", "pad_token": "<|end|>"});
    for (name, text) in [
        ("tokenizer.json", tokenizer),
        ("tokenizer_config.json", settings.to_string()),
    ] {
        std::fs::write(folder.join("model").join(name), text).map_err(|e| unwritten(&e))?;
    }
    let vocabulary = model.config().vocab_size;
    let tokens: Vec<u32> = (0..TOKENS)
        .map(|i| ((i * 7919 + 11) % vocabulary) as u32)
        .collect();
    let rows: Vec<usize> = (0..TOKENS).collect();
    model.reserve_kv(TOKENS)?;
    let ids = tokens.iter().map(|id| *id as f32).collect();
    let mut results = vec![
        ("tokens".to_owned(), vec![TOKENS], ids),
        (
            "logits".to_owned(),
            vec![TOKENS, vocabulary],
            model.logits(&Batch::text(&tokens), &rows)?,
        ),
    ];
    model.release_kv();
    let (prompt, completion) = tokens.split_at(PROMPT);
    let group = Group {
        prompt: prompt.into(),
        completions: vec![completion.to_vec()],
    };
    let dlogp = vec![vec![-1.0 / completion.len() as f32; completion.len()]];
    let objective = Box::new(move |_: &[_]| Ok(dlogp));
    let adamw = AdamW {
        clip_norm: f32::INFINITY,
        ..AdamW::new(0.0)
    };
    train::step(&mut model, &[group], 1.0, objective, &adamw)?;
    for (name, shape) in model.trained_shapes() {
        let gradient = model.tensor(&name, TensorKind::Gradient)?;
        results.push((format!("gradient.{name}"), shape, gradient));
    }
    let views = results.iter().map(|(name, shape, values)| {
        let bytes: &[u8] = bytemuck::cast_slice(values);
        let view = TensorView::new(TensorType::F32, shape.clone(), bytes);
        view.map(|view| (name.clone(), view))
    });
    let file = folder.join("results.safetensors");
    views
        .collect::<Result<HashMap<_, _>, _>>()
        .and_then(|views| safetensors::serialize_to_file(&views, None, &file))
        .map_err(|e| unwritten(&e))
}
