//! A model's `config.json` or GGUF metadata, as the flags that the one decoder is built from.
//!
//! Field names are those of Hugging Face's `config.json`. Every number is checked before anything is sized by it.

use serde_json::{Map, Value, json};

/// Families whose decoders the flags of [`ModelConfig`] describe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// Llama 2, Llama 3, SmolLM and others of `model_type` `llama`.
    Llama,
    /// Qwen2 and Qwen2.5: Llama with a bias on queries, keys and values.
    Qwen2,
}

impl Family {
    /// `model_type` in `config.json`, `general.architecture` in GGUF.
    pub fn name(self) -> &'static str {
        match self {
            Self::Llama => "llama",
            Self::Qwen2 => "qwen2",
        }
    }

    pub(crate) fn parse(name: &str) -> Result<Self, String> {
        match name {
            "llama" => Ok(Self::Llama),
            "qwen2" => Ok(Self::Qwen2),
            other => Err(format!(
                "models of type `{other}` are not supported; this version runs `llama` and `qwen2`"
            )),
        }
    }
}

/// Llama 3.1's stretching of slow rotations (`rope_scaling` of `rope_type` `llama3`).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Llama3Rope {
    /// Slow rotations are this many times slower.
    pub factor: f32,
    /// Rotations with fewer turns than this over the original context are slowed in full.
    pub low_freq_factor: f32,
    /// Rotations with more turns than this over the original context stay as they are.
    pub high_freq_factor: f32,
    /// Context of the model before the stretching.
    pub original_max_position_embeddings: usize,
}

/// Sizes and flags of a decoder.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelConfig {
    /// The family, which decides the architecture's name in files.
    pub family: Family,
    /// Number of token ids; rows of the embedding.
    pub vocab_size: usize,
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Width inside the feed-forward block.
    pub intermediate_size: usize,
    /// Number of blocks.
    pub num_hidden_layers: usize,
    /// Heads of queries.
    pub num_attention_heads: usize,
    /// Heads of keys and values; divides the heads of queries.
    pub num_key_value_heads: usize,
    /// Width of a head; even.
    pub head_dim: usize,
    /// Longest sequence, in tokens.
    pub max_position_embeddings: usize,
    /// Added to the mean square in RMS norms.
    pub rms_norm_eps: f32,
    /// Base of the rotary embedding.
    pub rope_theta: f32,
    /// Changes to the rotary frequencies.
    pub rope_scaling: Option<Llama3Rope>,
    /// Queries, keys and values have a bias.
    pub qkv_bias: bool,
    /// The head's matrix is the embedding's.
    pub tie_word_embeddings: bool,
    /// Token that begins a text.
    pub bos_token_id: Option<u32>,
    /// Tokens that end a text.
    pub eos_token_ids: Vec<u32>,
    /// Token that fills up a batch; its meaning is for other programs.
    pub pad_token_id: Option<u32>,
}

impl ModelConfig {
    /// Reads a Hugging Face `config.json`. The error names the field and what is accepted.
    pub fn from_json(text: &str) -> Result<Self, String> {
        let value: Value =
            serde_json::from_str(text).map_err(|e| format!("not valid JSON: {e}"))?;
        let object = value
            .as_object()
            .ok_or("a configuration is a JSON object")?;
        let family = Family::parse(
            object
                .get("model_type")
                .and_then(Value::as_str)
                .ok_or("the field `model_type` is missing")?,
        )?;
        refuse_variants(object, family)?;
        let hidden_size = size(object, "hidden_size")?;
        let num_attention_heads = size(object, "num_attention_heads")?;
        // transformers 5 keeps the rotary settings together under `rope_parameters`.
        let rope = match object.get("rope_parameters") {
            Some(Value::Object(parameters)) => Some(parameters),
            _ => None,
        };
        let rope_theta = rope
            .and_then(|r| r.get("rope_theta"))
            .or_else(|| object.get("rope_theta"));
        let config = Self {
            family,
            vocab_size: size(object, "vocab_size")?,
            hidden_size,
            intermediate_size: size(object, "intermediate_size")?,
            num_hidden_layers: size(object, "num_hidden_layers")?,
            num_attention_heads,
            num_key_value_heads: optional_size(object, "num_key_value_heads")?
                .unwrap_or(num_attention_heads),
            head_dim: match optional_size(object, "head_dim")? {
                Some(width) => width,
                None => hidden_size / num_attention_heads.max(1),
            },
            max_position_embeddings: size(object, "max_position_embeddings")?,
            rms_norm_eps: number(object.get("rms_norm_eps"), "rms_norm_eps", 1e-6)?,
            rope_theta: number(rope_theta, "rope_theta", 10_000.0)?,
            rope_scaling: match rope {
                Some(parameters) => rope_scaling(parameters)?,
                None => match object.get("rope_scaling") {
                    None | Some(Value::Null) => None,
                    Some(Value::Object(scaling)) => rope_scaling(scaling)?,
                    Some(_) => return Err("`rope_scaling` is not an object".into()),
                },
            },
            qkv_bias: family == Family::Qwen2,
            tie_word_embeddings: object
                .get("tie_word_embeddings")
                .and_then(Value::as_bool)
                .unwrap_or(false),
            bos_token_id: token_ids(object, "bos_token_id")?.first().copied(),
            eos_token_ids: token_ids(object, "eos_token_id")?,
            pad_token_id: token_ids(object, "pad_token_id")?.first().copied(),
        };
        config.check()?;
        Ok(config)
    }

    /// Takes up what `generation_config.json` says of the tokens that end a text; chat models list more of them there.
    pub(crate) fn add_generation_config(&mut self, text: &str) -> Result<(), String> {
        let value: Value =
            serde_json::from_str(text).map_err(|e| format!("not valid JSON: {e}"))?;
        if let Some(object) = value.as_object() {
            for id in token_ids(object, "eos_token_id")? {
                if !self.eos_token_ids.contains(&id) {
                    self.eos_token_ids.push(id);
                }
            }
        }
        self.check()
    }

    /// The configuration as `config.json`; `dtype` is the weights' type by its `torch` name.
    pub fn to_json(&self, dtype: &str) -> Value {
        let architecture = match self.family {
            Family::Llama => "LlamaForCausalLM",
            Family::Qwen2 => "Qwen2ForCausalLM",
        };
        let eos = match self.eos_token_ids.as_slice() {
            [] => Value::Null,
            [one] => json!(one),
            several => json!(several),
        };
        let mut config = json!({
            "architectures": [architecture],
            "model_type": self.family.name(),
            "vocab_size": self.vocab_size,
            "hidden_size": self.hidden_size,
            "intermediate_size": self.intermediate_size,
            "num_hidden_layers": self.num_hidden_layers,
            "num_attention_heads": self.num_attention_heads,
            "num_key_value_heads": self.num_key_value_heads,
            "head_dim": self.head_dim,
            "hidden_act": "silu",
            "max_position_embeddings": self.max_position_embeddings,
            "rms_norm_eps": shortest(self.rms_norm_eps),
            "rope_theta": shortest(self.rope_theta),
            "rope_scaling": self.rope_scaling.map(|scaling| json!({
                "rope_type": "llama3",
                "factor": shortest(scaling.factor),
                "low_freq_factor": shortest(scaling.low_freq_factor),
                "high_freq_factor": shortest(scaling.high_freq_factor),
                "original_max_position_embeddings": scaling.original_max_position_embeddings,
            })),
            "tie_word_embeddings": self.tie_word_embeddings,
            "bos_token_id": self.bos_token_id,
            "eos_token_id": eos,
            "pad_token_id": self.pad_token_id,
            "attention_dropout": 0.0,
            "initializer_range": 0.02,
            "use_cache": true,
            "torch_dtype": dtype,
        });
        if self.family == Family::Llama {
            config["attention_bias"] = json!(false);
            config["mlp_bias"] = json!(false);
        }
        config
    }

    /// Rotations of a head's pairs in radians a position, `head_dim / 2` of them. The arithmetic is f32, as `transformers` does it.
    pub fn rope_frequencies(&self) -> Vec<f32> {
        let plain = (0..self.head_dim)
            .step_by(2)
            .map(|i| 1.0 / self.rope_theta.powf(i as f32 / self.head_dim as f32));
        let Some(scaling) = self.rope_scaling else {
            return plain.collect();
        };
        let original = scaling.original_max_position_embeddings as f32;
        plain
            .map(|frequency| {
                let wavelength = 2.0 * std::f32::consts::PI / frequency;
                if wavelength < original / scaling.high_freq_factor {
                    frequency
                } else if wavelength > original / scaling.low_freq_factor {
                    frequency / scaling.factor
                } else {
                    let smooth = (original / wavelength - scaling.low_freq_factor)
                        / (scaling.high_freq_factor - scaling.low_freq_factor);
                    (1.0 - smooth) * frequency / scaling.factor + smooth * frequency
                }
            })
            .collect()
    }

    /// Every weight by its Hugging Face name, with its shape (rows × columns: a matrix maps a vector of its columns' number to its rows').
    pub fn tensor_shapes(&self) -> Vec<(String, Vec<usize>)> {
        let hidden = self.hidden_size;
        let queries = self.num_attention_heads * self.head_dim;
        let keys = self.num_key_value_heads * self.head_dim;
        let mut shapes = vec![(
            "model.embed_tokens.weight".to_owned(),
            vec![self.vocab_size, hidden],
        )];
        for layer in 0..self.num_hidden_layers {
            let mut add = |name: &str, shape: &[usize]| {
                shapes.push((format!("model.layers.{layer}.{name}"), shape.to_vec()));
            };
            add("input_layernorm.weight", &[hidden]);
            add("self_attn.q_proj.weight", &[queries, hidden]);
            add("self_attn.k_proj.weight", &[keys, hidden]);
            add("self_attn.v_proj.weight", &[keys, hidden]);
            if self.qkv_bias {
                add("self_attn.q_proj.bias", &[queries]);
                add("self_attn.k_proj.bias", &[keys]);
                add("self_attn.v_proj.bias", &[keys]);
            }
            add("self_attn.o_proj.weight", &[hidden, queries]);
            add("post_attention_layernorm.weight", &[hidden]);
            add("mlp.gate_proj.weight", &[self.intermediate_size, hidden]);
            add("mlp.up_proj.weight", &[self.intermediate_size, hidden]);
            add("mlp.down_proj.weight", &[hidden, self.intermediate_size]);
        }
        shapes.push(("model.norm.weight".to_owned(), vec![hidden]));
        if !self.tie_word_embeddings {
            shapes.push(("lm_head.weight".to_owned(), vec![self.vocab_size, hidden]));
        }
        shapes
    }

    /// Number of weights, a tied head counted once.
    pub fn parameters(&self) -> u64 {
        self.tensor_shapes()
            .iter()
            .map(|(_, shape)| shape.iter().map(|&n| n as u64).product::<u64>())
            .sum()
    }

    /// Refuses sizes that no model has, so that products of them cannot overflow and nothing absurd is allocated.
    pub(crate) fn check(&self) -> Result<(), String> {
        within("vocab_size", self.vocab_size, 1 << 22)?;
        within("hidden_size", self.hidden_size, 1 << 16)?;
        within("intermediate_size", self.intermediate_size, 1 << 20)?;
        within("num_hidden_layers", self.num_hidden_layers, 1 << 10)?;
        within("num_attention_heads", self.num_attention_heads, 1 << 12)?;
        within("num_key_value_heads", self.num_key_value_heads, 1 << 12)?;
        within("head_dim", self.head_dim, 1 << 12)?;
        within(
            "max_position_embeddings",
            self.max_position_embeddings,
            1 << 26,
        )?;
        if !self
            .num_attention_heads
            .is_multiple_of(self.num_key_value_heads)
        {
            return Err(format!(
                "`num_attention_heads` ({}) is not a multiple of `num_key_value_heads` ({})",
                self.num_attention_heads, self.num_key_value_heads
            ));
        }
        if !self.head_dim.is_multiple_of(2) {
            return Err(format!(
                "`head_dim` ({}) is odd; rotary embeddings need pairs",
                self.head_dim
            ));
        }
        if !(self.rms_norm_eps > 0.0 && self.rms_norm_eps < 1.0) {
            return Err(format!(
                "`rms_norm_eps` is {}; it lies between 0 and 1",
                self.rms_norm_eps
            ));
        }
        if !(self.rope_theta >= 1.0 && self.rope_theta.is_finite()) {
            return Err(format!(
                "`rope_theta` is {}; it is at least 1",
                self.rope_theta
            ));
        }
        if let Some(scaling) = self.rope_scaling {
            within(
                "rope_scaling.original_max_position_embeddings",
                scaling.original_max_position_embeddings,
                1 << 26,
            )?;
            let factors = [
                scaling.factor,
                scaling.low_freq_factor,
                scaling.high_freq_factor,
            ];
            if factors.iter().any(|f| !(*f > 0.0 && f.is_finite()))
                || scaling.high_freq_factor <= scaling.low_freq_factor
            {
                return Err("the factors of `rope_scaling` are positive, and `high_freq_factor` is the greater".into());
            }
        }
        let tokens = self
            .bos_token_id
            .iter()
            .chain(&self.eos_token_ids)
            .chain(&self.pad_token_id);
        for &token in tokens {
            if token as usize >= self.vocab_size {
                return Err(format!(
                    "special token {token} lies beyond the vocabulary of {}",
                    self.vocab_size
                ));
            }
        }
        Ok(())
    }
}

fn within(name: &str, value: usize, most: usize) -> Result<(), String> {
    if (1..=most).contains(&value) {
        Ok(())
    } else {
        Err(format!("`{name}` is {value}; it lies between 1 and {most}"))
    }
}

/// What a `config.json` of a supported type may still ask for that the decoder does not do.
fn refuse_variants(object: &Map<String, Value>, family: Family) -> Result<(), String> {
    for flag in ["attention_bias", "mlp_bias", "use_sliding_window"] {
        if object.get(flag).and_then(Value::as_bool) == Some(true) {
            return Err(format!(
                "`{flag}` is set, which this version does not support for `{}` models",
                family.name()
            ));
        }
    }
    match object.get("hidden_act").and_then(Value::as_str) {
        None | Some("silu") => {}
        Some(other) => return Err(format!("`hidden_act` is `{other}`; `silu` is supported")),
    }
    if object.contains_key("quantization_config") {
        return Err("the checkpoint is quantised (`quantization_config`); take the full-precision safetensors, or a GGUF file".into());
    }
    Ok(())
}

fn size(object: &Map<String, Value>, name: &str) -> Result<usize, String> {
    optional_size(object, name)?.ok_or_else(|| format!("the field `{name}` is missing"))
}

fn optional_size(object: &Map<String, Value>, name: &str) -> Result<Option<usize>, String> {
    match object.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => value
            .as_u64()
            .and_then(|n| usize::try_from(n).ok())
            .map(Some)
            .ok_or_else(|| format!("`{name}` is {value}, not a whole number")),
    }
}

fn number(value: Option<&Value>, name: &str, default: f32) -> Result<f32, String> {
    match value {
        None | Some(Value::Null) => Ok(default),
        Some(value) => value
            .as_f64()
            .map(|x| x as f32)
            .ok_or_else(|| format!("`{name}` is {value}, not a number")),
    }
}

fn token_ids(object: &Map<String, Value>, name: &str) -> Result<Vec<u32>, String> {
    let id = |value: &Value| {
        value
            .as_u64()
            .and_then(|n| u32::try_from(n).ok())
            .ok_or_else(|| format!("`{name}` is not a token id"))
    };
    match object.get(name) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(values)) => values.iter().map(id).collect(),
        Some(value) => Ok(vec![id(value)?]),
    }
}

fn rope_scaling(scaling: &Map<String, Value>) -> Result<Option<Llama3Rope>, String> {
    let kind = scaling.get("rope_type").or_else(|| scaling.get("type"));
    match kind.and_then(Value::as_str) {
        None | Some("default") => Ok(None),
        Some("llama3") => Ok(Some(Llama3Rope {
            factor: number(scaling.get("factor"), "rope_scaling.factor", 1.0)?,
            low_freq_factor: number(
                scaling.get("low_freq_factor"),
                "rope_scaling.low_freq_factor",
                1.0,
            )?,
            high_freq_factor: number(
                scaling.get("high_freq_factor"),
                "rope_scaling.high_freq_factor",
                4.0,
            )?,
            original_max_position_embeddings: size(scaling, "original_max_position_embeddings")?,
        })),
        Some(other) => Err(format!(
            "`rope_scaling` of type `{other}` is not supported; `default` and `llama3` are"
        )),
    }
}

/// The f64 that prints as the f32 does (1e-5, not 9.999999747378752e-6), and reads back as the same f32.
fn shortest(x: f32) -> f64 {
    x.to_string().parse().unwrap_or(f64::from(x))
}
