//! llama.cpp's names and orders for the Llama family → Hugging Face's.

use std::path::Path;

use super::gguf::{Gguf, Value};
use super::{Tensor, Weights};
use crate::config::{Family, ModelConfig};

/// The configuration that a file's metadata describes.
pub(super) fn config(gguf: &Gguf) -> Result<ModelConfig, String> {
    let architecture = match gguf.value("general.architecture") {
        Some(Value::Text(name)) => name.as_str(),
        _ => return Err("does not say its `general.architecture`".into()),
    };
    let family = Family::parse(architecture)?;
    let metadata = Metadata {
        gguf,
        prefix: family.name(),
    };
    match metadata.get("rope.scaling.type") {
        None => {}
        Some(Value::Text(kind)) if kind == "none" => {}
        Some(_) => return Err(scaled_rope()),
    }
    if gguf.shape("rope_freqs.weight").is_some() {
        return Err(scaled_rope());
    }
    let vocab_size = match gguf.shape("token_embd.weight") {
        Some(&[rows, _]) => rows,
        _ => return Err("lacks the matrix `token_embd.weight`".into()),
    };
    let hidden_size = metadata.size("embedding_length")?;
    let num_attention_heads = metadata.size("attention.head_count")?;
    let head_dim = match metadata.optional_size("attention.key_length")? {
        Some(width) => width,
        None => hidden_size / num_attention_heads.max(1),
    };
    for key in ["attention.value_length", "rope.dimension_count"] {
        match metadata.optional_size(key)? {
            Some(width) if width != head_dim => {
                return Err(format!(
                    "has heads of {head_dim} and `{key}` {width}; models where they differ are not supported"
                ));
            }
            _ => {}
        }
    }
    let mut eos_token_ids = Vec::new();
    for key in ["eos_token_id", "eot_token_id"] {
        eos_token_ids.extend(token(gguf, key)?.filter(|id| !eos_token_ids.contains(id)));
    }
    let config = ModelConfig {
        family,
        vocab_size,
        hidden_size,
        intermediate_size: metadata.size("feed_forward_length")?,
        num_hidden_layers: metadata.size("block_count")?,
        num_attention_heads,
        num_key_value_heads: metadata
            .optional_size("attention.head_count_kv")?
            .unwrap_or(num_attention_heads),
        head_dim,
        max_position_embeddings: metadata.size("context_length")?,
        rms_norm_eps: metadata.number("attention.layer_norm_rms_epsilon", None)?,
        rope_theta: metadata.number("rope.freq_base", Some(10_000.0))?,
        rope_scaling: None,
        qkv_bias: family == Family::Qwen2,
        tie_word_embeddings: gguf.shape("output.weight").is_none(),
        bos_token_id: token(gguf, "bos_token_id")?,
        eos_token_ids,
        pad_token_id: token(gguf, "padding_token_id")?,
    };
    config.check()?;
    Ok(config)
}

fn scaled_rope() -> String {
    "scales its rotary embedding, which this version reads from safetensors checkpoints only; take the model in that form".into()
}

/// A special token's id by the end of its key.
pub(crate) fn token(gguf: &Gguf, key: &str) -> Result<Option<u32>, String> {
    let key = format!("tokenizer.ggml.{key}");
    match gguf.value(&key) {
        None => Ok(None),
        Some(&Value::Int(id)) => u32::try_from(id)
            .map(Some)
            .map_err(|_| format!("`{key}` is {id}, not a token id")),
        Some(_) => Err(format!("`{key}` is not a number")),
    }
}

/// Metadata under the architecture's prefix.
struct Metadata<'a> {
    gguf: &'a Gguf,
    prefix: &'a str,
}

impl Metadata<'_> {
    fn get(&self, key: &str) -> Option<&Value> {
        self.gguf.value(&format!("{}.{key}", self.prefix))
    }

    fn size(&self, key: &str) -> Result<usize, String> {
        self.optional_size(key)?
            .ok_or_else(|| format!("lacks the metadata `{}.{key}`", self.prefix))
    }

    fn optional_size(&self, key: &str) -> Result<Option<usize>, String> {
        match self.get(key) {
            None => Ok(None),
            Some(&Value::Int(n)) if n >= 0 => Ok(usize::try_from(n).ok()),
            Some(_) => Err(format!("`{}.{key}` is not a size", self.prefix)),
        }
    }

    fn number(&self, key: &str, default: Option<f32>) -> Result<f32, String> {
        match (self.get(key), default) {
            (Some(&Value::Float(x)), _) => Ok(x as f32),
            (None, Some(default)) => Ok(default),
            _ => Err(format!("lacks the number `{}.{key}`", self.prefix)),
        }
    }
}

/// All weights, under their Hugging Face names and in Hugging Face's order of rows.
pub(super) fn weights(gguf: &mut Gguf, config: &ModelConfig) -> Result<Weights, String> {
    let mut weights = Weights::default();
    for (name, shape) in config.tensor_shapes() {
        let theirs = their_name(&name);
        let mut data = gguf.tensor(&theirs, &shape)?;
        if config.family == Family::Llama
            && (name.contains(".q_proj.") || name.contains(".k_proj."))
        {
            data = pairs_to_halves(&data, config.head_dim, data.len() / shape[0]);
        }
        weights.tensors.insert(name, Tensor { shape, data });
    }
    Ok(weights)
}

/// llama.cpp's name of a weight.
pub(super) fn their_name(name: &str) -> String {
    match name {
        "model.embed_tokens.weight" => return "token_embd.weight".into(),
        "model.norm.weight" => return "output_norm.weight".into(),
        "lm_head.weight" => return "output.weight".into(),
        _ => {}
    }
    let renamed = [
        ("model.layers.", "blk."),
        ("input_layernorm", "attn_norm"),
        ("post_attention_layernorm", "ffn_norm"),
        ("self_attn.q_proj", "attn_q"),
        ("self_attn.k_proj", "attn_k"),
        ("self_attn.v_proj", "attn_v"),
        ("self_attn.o_proj", "attn_output"),
        ("mlp.gate_proj", "ffn_gate"),
        ("mlp.up_proj", "ffn_up"),
        ("mlp.down_proj", "ffn_down"),
    ];
    renamed
        .iter()
        .fold(name.to_owned(), |name, (ours, theirs)| {
            name.replace(ours, theirs)
        })
}

/// llama.cpp rotates neighbouring rows of queries and keys, Hugging Face a head's first half with its second; converting to GGUF interleaves the halves, and
/// this takes it back.
fn pairs_to_halves(data: &[f32], head_dim: usize, columns: usize) -> Vec<f32> {
    let mut rows = Vec::with_capacity(data.len());
    for head in data.chunks_exact(head_dim * columns) {
        for half in 0..2 {
            for pair in 0..head_dim / 2 {
                let row = 2 * pair + half;
                rows.extend_from_slice(&head[row * columns..(row + 1) * columns]);
            }
        }
    }
    rows
}

/// Whether a path names a GGUF file.
pub(super) fn is_gguf(path: &Path) -> bool {
    path.extension()
        .is_some_and(|e| e.eq_ignore_ascii_case("gguf"))
}
