//! Conversion of llama.cpp's names and orders to Hugging Face's.

use std::collections::BTreeSet;
use std::path::Path;

use candle_core::quantized::GgmlDType;
use serde_json::Value as Json;

use super::WeightType;
use super::gguf::{Gguf, Value};
use super::gguf_writer::NewTensor;
use crate::config::{
    Family, Flags, Llama3Rope, MAX_END_TOKENS, ModelConfig, RopeScaling, Sliding, padding, within,
};

/// The tensor with the rotary factors of Llama 3.1 and later.
const ROPE_FACTORS: &str = "rope_freqs.weight";
/// Prefixes of the tensors of a model's vision part, which some files contain in addition to the text part.
const VISION_PREFIXES: [&str; 2] = ["v.", "mm."];
/// Names of the tokens that end a text or a turn, in the supported families.
pub(crate) const END_TOKENS: [&str; 6] = [
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<end_of_turn>",
];
/// llama.cpp's type of a control token.
pub(crate) const CONTROL: i64 = 3;
/// llama.cpp's defaults for Gemma 3: each sixth layer has full attention, and the other layers' rotary embedding has this base.
const GEMMA3_PATTERN: usize = 6;
const GEMMA3_SLIDING_THETA: f32 = 10_000.0;
/// Layers of Gemma 3 27B. Its scores are scaled by the width of the residual stream divided by the number of heads, which the metadata does not record.
const GEMMA3_27B_LAYERS: usize = 62;

/// Fields of `config.json`, each with the key of the metadata that has the same number.
const FIELDS: &str = "
vocab_size:FAMILY.vocab_size num_hidden_layers:FAMILY.block_count max_position_embeddings:FAMILY.context_length hidden_size:FAMILY.embedding_length
intermediate_size:FAMILY.feed_forward_length num_attention_heads:FAMILY.attention.head_count num_key_value_heads:FAMILY.attention.head_count_kv
head_dim:FAMILY.attention.key_length head_dim:FAMILY.attention.value_length head_dim:FAMILY.rope.dimension_count rope_theta:FAMILY.rope.freq_base
rms_norm_eps:FAMILY.attention.layer_norm_rms_epsilon sliding_window:FAMILY.attention.sliding_window rope_local_base_freq:FAMILY.rope.freq_base_swa
final_logit_softcapping:FAMILY.final_logit_softcapping bos_token_id:tokenizer.ggml.bos_token_id pad_token_id:tokenizer.ggml.padding_token_id";

/// Reads the configuration from a file's metadata, and checks that the file has no weights beyond those of the configuration.
pub(crate) fn config(gguf: &mut Gguf) -> Result<ModelConfig, String> {
    let architecture = match gguf.value("general.architecture") {
        Some(Value::Text(name)) => name.as_str(),
        _ => return Err("has no `general.architecture`".into()),
    };
    let family = Family::parse(architecture)?;
    let metadata = Metadata {
        gguf,
        prefix: family.name(),
    };
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
    for key in ["eos_token_id", "eot_token_id", "eom_token_id"] {
        eos_token_ids.extend(token(gguf, key)?.filter(|id| !eos_token_ids.contains(id)));
    }
    let end_tokens = end_tokens(gguf);
    if end_tokens.len() > MAX_END_TOKENS {
        return Err(format!(
            "has {} control tokens that end a text; at most {MAX_END_TOKENS} are supported",
            end_tokens.len()
        ));
    }
    for id in end_tokens {
        if !eos_token_ids.contains(&id) {
            eos_token_ids.push(id);
        }
    }
    let pad_token_id = match gguf.value("tokenizer.ggml.padding_token_id") {
        None => None,
        Some(&Value::Int(id)) => padding(id, vocab_size),
        Some(_) => return Err("`tokenizer.ggml.padding_token_id` is not a number".into()),
    };
    let num_hidden_layers = metadata.size("block_count")?;
    let mut config = ModelConfig {
        family,
        flags: family.flags(),
        vocab_size,
        hidden_size,
        intermediate_size: metadata.size("feed_forward_length")?,
        num_hidden_layers,
        num_attention_heads,
        num_key_value_heads: metadata
            .optional_size("attention.head_count_kv")?
            .unwrap_or(num_attention_heads),
        head_dim,
        max_position_embeddings: metadata.size("context_length")?,
        rms_norm_eps: metadata
            .number("attention.layer_norm_rms_epsilon")?
            .ok_or_else(|| metadata.lacks("attention.layer_norm_rms_epsilon"))?,
        rope_theta: metadata.number("rope.freq_base")?.unwrap_or(10_000.0),
        rope_scaling: linear_rope(&metadata)?,
        sliding: None,
        query_pre_attn_scalar: head_dim as f32,
        attn_logit_softcapping: None,
        final_logit_softcapping: None,
        tie_word_embeddings: gguf.shape("output.weight").is_none(),
        bos_token_id: token(gguf, "bos_token_id")?,
        eos_token_ids,
        pad_token_id,
    };
    if family == Family::Gemma3 {
        config.sliding = Some(gemma3_sliding(&metadata, num_hidden_layers)?);
        config.attn_logit_softcapping = metadata.number("attn_logit_softcapping")?;
        config.final_logit_softcapping = metadata.number("final_logit_softcapping")?;
        if num_hidden_layers == GEMMA3_27B_LAYERS {
            config.query_pre_attn_scalar = (hidden_size / num_attention_heads.max(1)) as f32;
        }
    }
    config.check()?;
    if gguf.shape(ROPE_FACTORS).is_some() {
        config.rope_scaling = Some(RopeScaling::Llama3(llama3_rope(gguf, &config)?));
        config.check()?;
    }
    reject_unused_tensors(gguf, &config)?;
    Ok(config)
}

/// Control tokens that end a text or a turn, by their names. The metadata lists one or two of them; llama.cpp stops at each.
fn end_tokens(gguf: &Gguf) -> Vec<u32> {
    let (Some(Value::Texts(tokens)), Some(Value::Ints(types))) = (
        gguf.value("tokenizer.ggml.tokens"),
        gguf.value("tokenizer.ggml.token_type"),
    ) else {
        return Vec::new();
    };
    let tokens = (0..).zip(tokens.iter().zip(types));
    tokens
        .filter(|(_, (token, kind))| **kind == CONTROL && END_TOKENS.contains(&token.as_str()))
        .map(|(id, _)| id)
        .collect()
}

/// Rejects a file with weights that the decoder does not use, as llama.cpp does: biases in a Llama, experts, layers beyond the last.
fn reject_unused_tensors(gguf: &Gguf, config: &ModelConfig) -> Result<(), String> {
    let ours = config.tensor_shapes().into_iter();
    let known: BTreeSet<String> = ours
        .map(|(name, _)| llama_cpp_name(&name, config.flags))
        .collect();
    let other = gguf.names().find(|name| {
        let is_vision = VISION_PREFIXES
            .into_iter()
            .any(|start| name.starts_with(start));
        !known.contains(*name) && *name != ROPE_FACTORS && !is_vision
    });
    other.map_or(Ok(()), |name| Err(super::unused(name, config)))
}

fn linear_rope(metadata: &Metadata<'_>) -> Result<Option<RopeScaling>, String> {
    match metadata.get("rope.scaling.type") {
        None => Ok(None),
        Some(Value::Text(kind)) if kind == "none" => Ok(None),
        Some(Value::Text(kind)) if kind == "linear" => metadata
            .number("rope.scaling.factor")?
            .map(|factor| Some(RopeScaling::Linear { factor }))
            .ok_or_else(|| metadata.lacks("rope.scaling.factor")),
        Some(_) => Err(unsupported_rope()),
    }
}

fn gemma3_sliding(metadata: &Metadata<'_>, layers: usize) -> Result<Sliding, String> {
    within("num_hidden_layers", layers, crate::config::MAX_LAYERS)?;
    let pattern = match metadata.get("attention.sliding_window_pattern") {
        None => GEMMA3_PATTERN,
        Some(&Value::Int(n)) if n > 0 => usize::try_from(n).unwrap_or(usize::MAX),
        Some(_) => {
            return Err(format!(
                "`{}.attention.sliding_window_pattern` is not a number of layers",
                metadata.prefix
            ));
        }
    };
    Ok(Sliding {
        window: metadata.size("attention.sliding_window")?,
        layers: (1..=layers).map(|n| !n.is_multiple_of(pattern)).collect(),
        rope_theta: Some(
            metadata
                .number("rope.freq_base_swa")?
                .unwrap_or(GEMMA3_SLIDING_THETA),
        ),
    })
}

/// Llama 3's scaling, recovered from the factors that llama.cpp's converter computes from it. `low_freq_factor`, `high_freq_factor` and the original context
/// are those of all of these models.
fn llama3_rope(gguf: &mut Gguf, config: &ModelConfig) -> Result<Llama3Rope, String> {
    let factors = gguf.tensor(ROPE_FACTORS, &[config.head_dim / 2])?;
    let scaling = Llama3Rope {
        factor: factors.iter().copied().fold(0.0, f32::max),
        low_freq_factor: 1.0,
        high_freq_factor: 4.0,
        original_max_position_embeddings: 8192,
    };
    let scaled = ModelConfig {
        rope_scaling: Some(RopeScaling::Llama3(scaling)),
        ..config.clone()
    };
    let mut all = rope_factors(&scaled).into_iter().zip(&factors);
    if all.all(|(expected, factor)| (expected / factor - 1.0).abs() < 1e-3) {
        Ok(scaling)
    } else {
        Err(unsupported_rope())
    }
}

fn unsupported_rope() -> String {
    "scales its rotary embedding in a way that is not supported; `linear` and Llama 3's scaling are, and others may be readable from a safetensors checkpoint".into()
}

/// A special token's id, by the end of its metadata key.
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
        self.optional_size(key)?.ok_or_else(|| self.lacks(key))
    }

    fn optional_size(&self, key: &str) -> Result<Option<usize>, String> {
        match self.get(key) {
            None => Ok(None),
            Some(&Value::Int(n)) if n >= 0 => Ok(usize::try_from(n).ok()),
            Some(_) => Err(format!("`{}.{key}` is not a size", self.prefix)),
        }
    }

    fn number(&self, key: &str) -> Result<Option<f32>, String> {
        match self.get(key) {
            None => Ok(None),
            Some(&Value::Float(x)) => Ok(Some(x as f32)),
            Some(_) => Err(format!("`{}.{key}` is not a number", self.prefix)),
        }
    }

    fn lacks(&self, key: &str) -> String {
        format!("lacks the metadata `{}.{key}`", self.prefix)
    }
}

/// Reads a weight by its Hugging Face name, in Hugging Face's order of rows.
pub(crate) fn tensor(
    gguf: &mut Gguf,
    config: &ModelConfig,
    name: &str,
    shape: &[usize],
) -> Result<Vec<f32>, String> {
    let stored = llama_cpp_name(name, config.flags);
    let mut data = super::finite(&stored, gguf.tensor(&stored, shape)?)?;
    if config.flags.unit_offset_norms && name.ends_with("norm.weight") {
        // The conversion to GGUF has added the 1.
        data.iter_mut().for_each(|w| *w -= 1.0);
    }
    let half = config.head_dim / 2;
    let from = |row| 2 * (row % half) + row / half;
    Ok(reordered(config, name, shape, data, from))
}

/// The metadata of a file that calls its model `name`. [`config`] reads the configuration back from it, except what GGUF has no key for.
pub(crate) fn metadata(
    config: &ModelConfig,
    dtype: WeightType,
    name: &str,
) -> Vec<(String, Value)> {
    let (json, family) = (config.to_json(), config.family.name());
    let number = |field: &Json| match (field.as_i64(), field.as_f64()) {
        (Some(n), _) => Some(Value::Int(n)),
        (None, x) => x.map(Value::Float),
    };
    let fields = FIELDS.split_whitespace().filter_map(|pair| {
        let (field, key) = pair.split_once(':')?;
        let key = key.replace("FAMILY", family);
        Some((key, number(&json[field])?))
    });
    let text = |key: &str, text: &str| (key.to_owned(), Value::Text(text.to_owned()));
    let mut all: Vec<(String, Value)> = fields.collect();
    all.extend([
        text("general.architecture", family),
        text("general.type", "model"),
        text("general.name", name),
        ("general.file_type".into(), Value::Int(dtype.number)),
        ("general.quantization_version".into(), Value::Int(2)),
    ]);
    if let Some(RopeScaling::Linear { factor }) = config.rope_scaling {
        all.push(text(&format!("{family}.rope.scaling.type"), "linear"));
        let key = format!("{family}.rope.scaling.factor");
        all.push((key, Value::Float(factor.into())));
    }
    let ends = ["eos", "eot", "eom"].iter().zip(&config.eos_token_ids);
    let key = |end: &str| format!("tokenizer.ggml.{end}_token_id");
    all.extend(ends.map(|(end, id)| (key(end), Value::Int((*id).into()))));
    all
}

/// The tensors of a file with matrices of this type: those of [`ModelConfig::tensor_shapes`], and Llama 3's [`rope_factors`]. Vectors are f32. A matrix with rows that
/// are no whole blocks is f16.
pub(crate) fn new_tensors(config: &ModelConfig, kind: GgmlDType) -> Vec<NewTensor> {
    let mut shapes = config.tensor_shapes();
    if let Some(RopeScaling::Llama3(_)) = config.rope_scaling {
        shapes.push((ROPE_FACTORS.into(), vec![config.head_dim / 2]));
    }
    let tensors = shapes.into_iter().map(|(name, shape)| NewTensor {
        name: llama_cpp_name(&name, config.flags),
        kind: match shape[..] {
            [_, columns] if columns.is_multiple_of(kind.block_size()) => kind,
            [_, _] => GgmlDType::F16,
            _ => GgmlDType::F32,
        },
        shape,
    });
    tensors.collect()
}

/// The factors by which the rotary frequencies are scaled.
pub(crate) fn rope_factors(config: &ModelConfig) -> Vec<f32> {
    let plain = config.plain_frequencies(config.rope_theta);
    let pairs = plain.zip(config.rope_frequencies());
    pairs.map(|(plain, scaled)| plain / scaled).collect()
}

/// A weight as a GGUF file has it, which [`tensor`] reverses.
pub(crate) fn converted(
    config: &ModelConfig,
    name: &str,
    shape: &[usize],
    mut data: Vec<f32>,
) -> Vec<f32> {
    if config.flags.unit_offset_norms && name.ends_with("norm.weight") {
        data.iter_mut().for_each(|w| *w += 1.0);
    }
    let half = config.head_dim / 2;
    reordered(config, name, shape, data, |row| half * (row % 2) + row / 2)
}

/// llama.cpp's name of a weight.
pub(crate) fn llama_cpp_name(name: &str, flags: Flags) -> String {
    match name {
        "model.embed_tokens.weight" => return "token_embd.weight".into(),
        "model.norm.weight" => return "output_norm.weight".into(),
        "lm_head.weight" => return "output.weight".into(),
        _ => {}
    }
    let after_attention = if flags.sandwich_norms {
        "post_attention_norm"
    } else {
        "ffn_norm"
    };
    let renamed = [
        ("model.layers.", "blk."),
        ("input_layernorm", "attn_norm"),
        ("post_attention_layernorm", after_attention),
        ("pre_feedforward_layernorm", "ffn_norm"),
        ("post_feedforward_layernorm", "post_ffw_norm"),
        ("self_attn.q_norm", "attn_q_norm"),
        ("self_attn.k_norm", "attn_k_norm"),
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

/// The rows of each head of a Llama's queries and keys in another order: `from` has the place where a row was. llama.cpp rotates neighbouring rows, Hugging Face a
/// head's first half with its second, so the conversion to GGUF interleaves the halves.
fn reordered(
    config: &ModelConfig,
    name: &str,
    shape: &[usize],
    data: Vec<f32>,
    from: impl Fn(usize) -> usize,
) -> Vec<f32> {
    let is_rotated = name.contains(".q_proj.") || name.contains(".k_proj.");
    if config.family != Family::Llama || !is_rotated {
        return data;
    }
    let columns = data.len() / shape[0];
    let mut rows = Vec::with_capacity(data.len());
    for head in data.chunks_exact(config.head_dim * columns) {
        for row in (0..config.head_dim).map(&from) {
            rows.extend_from_slice(&head[row * columns..(row + 1) * columns]);
        }
    }
    rows
}

/// Whether a path has the extension of a GGUF file.
pub(crate) fn is_gguf(path: &Path) -> bool {
    path.extension()
        .is_some_and(|e| e.eq_ignore_ascii_case("gguf"))
}
