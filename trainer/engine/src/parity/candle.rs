//! The same model in candle-transformers. Features that its implementations lack are expressed in another way, or rejected.

use candle_core::{DType, Device, Error, Result, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::{gemma3, llama, qwen2, qwen3};
use serde_json::Value;

use crate::config::{Family, ModelConfig, RopeScaling, Sliding};
use crate::load::Weights;

/// Logits after the last token, computed by candle-transformers in f32.
///
/// # Errors
/// If candle cannot compute a feature of the configuration.
pub fn logits(config: &ModelConfig, weights: &Weights, tokens: &[u32]) -> Result<Vec<f32>> {
    let ids = Tensor::new(tokens, &Device::Cpu)?.unsqueeze(0)?;
    let mut json = config.to_json();
    // candle's rotary tables are as long as the context, and some of its models have one for each layer.
    json["max_position_embeddings"] = tokens.len().into();
    let logits = match config.family {
        Family::Llama => {
            if let Some(RopeScaling::Linear { .. }) = config.rope_scaling {
                return Err(unknown("a linearly scaled rotary embedding"));
            }
            let parsed: llama::LlamaConfig = read(json)?;
            let config = parsed.into_config(false);
            let mut cache = llama::Cache::new(false, DType::F32, &config, &Device::Cpu)?;
            llama::Llama::load(variables(weights, |_| None)?, &config)?
                .forward(&ids, 0, &mut cache)?
        }
        Family::Qwen2 => {
            refuse_variants(config)?;
            // candle requires a number, even if it is not used.
            json["sliding_window"] = tokens.len().into();
            let weights = variables(weights, |_| None)?;
            qwen2::ModelForCausalLM::new(&read(json)?, weights)?.forward(&ids, 0)?
        }
        Family::Qwen3 => {
            refuse_variants(config)?;
            let weights = variables(weights, |_| None)?;
            qwen3::ModelForCausalLM::new(&read(json)?, weights)?.forward(&ids, 0)?
        }
        Family::Gemma3 => gemma(config, weights, json, &ids)?,
    };
    logits.flatten_all()?.to_vec1()
}

fn gemma(config: &ModelConfig, weights: &Weights, mut json: Value, ids: &Tensor) -> Result<Tensor> {
    refuse_scaled_rope(config)?;
    let (window, pattern, theta) = match &config.sliding {
        Some(Sliding {
            window,
            layers,
            rope_theta: Some(theta),
        }) => (*window, pattern(layers)?, *theta),
        _ => {
            return Err(unknown(
                "a Gemma 3 without a separate rotary base for sliding windows",
            ));
        }
    };
    if !config.tie_word_embeddings {
        return Err(unknown("a head that is not tied to the embedding"));
    }
    json["sliding_window_pattern"] = pattern.into();
    json["rope_local_base_freq"] = theta.into();
    // In candle, a token attends to one token more than in `transformers` and llama.cpp.
    json["sliding_window"] = (window - 1).into();
    // candle divides scores by the root of the heads' width, whatever the configuration; the norm of queries compensates for it.
    json["query_pre_attn_scalar"] = config.head_dim.into();
    let factor = (config.head_dim as f32 / config.query_pre_attn_scalar).sqrt();
    let weights = variables(weights, |name| {
        name.ends_with("q_norm.weight").then_some(factor)
    })?;
    gemma3::Model::new(false, &read(json)?, weights)?.forward(ids, 0)
}

/// The distance between layers with full attention, the only layer pattern that candle has.
fn pattern(slides: &[bool]) -> Result<usize> {
    let first = slides.iter().position(|slides| !slides);
    let pattern = first.unwrap_or(slides.len()) + 1;
    if (1..)
        .zip(slides)
        .all(|(n, slides)| *slides == (n % pattern > 0))
    {
        Ok(pattern)
    } else {
        Err(unknown("an irregular pattern of sliding windows"))
    }
}

/// Weights for candle; `1 + w` is multiplied by the factor that `factor` returns, if any.
fn variables(
    weights: &Weights,
    factor: impl Fn(&str) -> Option<f32>,
) -> Result<VarBuilder<'static>> {
    let tensors = weights.tensors.iter().map(|(name, tensor)| {
        let value = Tensor::from_slice(&tensor.data, tensor.shape.as_slice(), &Device::Cpu)?;
        let value = match factor(name).map(f64::from) {
            Some(factor) => value.affine(factor, factor - 1.0)?,
            None => value,
        };
        Ok((name.clone(), value))
    });
    let tensors = tensors.collect::<Result<_>>()?;
    Ok(VarBuilder::from_tensors(tensors, DType::F32, &Device::Cpu))
}

fn read<T: serde::de::DeserializeOwned>(json: Value) -> Result<T> {
    serde_json::from_value(json).map_err(Error::wrap)
}

fn refuse_scaled_rope(config: &ModelConfig) -> Result<()> {
    match config.rope_scaling {
        Some(_) => Err(unknown("a scaled rotary embedding in this family")),
        None => Ok(()),
    }
}

/// Rejects what candle does not know in Qwen's models.
fn refuse_variants(config: &ModelConfig) -> Result<()> {
    refuse_scaled_rope(config)?;
    match config.sliding {
        Some(_) => Err(unknown("a sliding window in this family")),
        None => Ok(()),
    }
}

fn unknown(what: &str) -> Error {
    Error::Msg(format!("it does not know {what}"))
}
