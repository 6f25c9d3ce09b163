//! A model's sizes and flags, from its `config.json` or GGUF metadata. The one decoder is built from them.
//!
//! Field names are those of Hugging Face's `config.json`. Every number is checked before it determines the size of anything.

mod json;
mod published;
#[cfg(test)]
mod tests;

pub use published::{published, published_names};

/// The supported families. The flags of [`ModelConfig`] describe their decoders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// Llama 2, Llama 3, SmolLM and others of `model_type` `llama`.
    Llama,
    /// Qwen2 and Qwen2.5: Llama with a bias on queries, keys and values.
    Qwen2,
    /// The dense Qwen3 models: Llama with norms of queries and keys.
    Qwen3,
    /// The text part of Gemma 3.
    Gemma3,
}

impl Family {
    /// All families.
    pub const ALL: [Self; 4] = [Self::Llama, Self::Qwen2, Self::Qwen3, Self::Gemma3];

    /// The value of `general.architecture` in GGUF. `model_type` in `config.json` is the same, except for Gemma's `gemma3_text`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Llama => "llama",
            Self::Qwen2 => "qwen2",
            Self::Qwen3 => "qwen3",
            Self::Gemma3 => "gemma3",
        }
    }

    pub(crate) fn parse(name: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|family| family.name() == name)
            .ok_or_else(|| {
                let all = Self::ALL.map(|family| format!("`{}`", family.name()));
                format!(
                    "models of type `{name}` are not supported; this version runs {}",
                    all.join(", ")
                )
            })
    }

    /// The differences of the family's blocks from those of others.
    pub fn flags(self) -> Flags {
        let gemma = self == Self::Gemma3;
        Flags {
            qkv_bias: self == Self::Qwen2,
            qk_norm: matches!(self, Self::Qwen3 | Self::Gemma3),
            sandwich_norms: gemma,
            unit_offset_norms: gemma,
            scaled_embedding: gemma,
            activation: if gemma {
                Activation::GeluTanh
            } else {
                Activation::Silu
            },
        }
    }
}

/// The activation function of a feed-forward block's gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// `x · σ(x)`.
    Silu,
    /// GELU by its tanh approximation, PyTorch's `gelu_pytorch_tanh`.
    GeluTanh,
}

impl Activation {
    /// The name in `config.json`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Silu => "silu",
            Self::GeluTanh => "gelu_pytorch_tanh",
        }
    }
}

/// Features in which the families' blocks differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flags {
    /// Queries, keys and values have a bias.
    pub qkv_bias: bool,
    /// Each head's query and key goes through an RMS norm before its rotation.
    pub qk_norm: bool,
    /// There are norms after attention and after the feed-forward block, in addition to those before.
    pub sandwich_norms: bool,
    /// Norms multiply by 1 + w, where w is the stored weight.
    pub unit_offset_norms: bool,
    /// Token embeddings are multiplied by √hidden_size.
    pub scaled_embedding: bool,
    /// Activation of the feed-forward block's gate.
    pub activation: Activation,
}

/// Scaling of the rotary frequencies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RopeScaling {
    /// All rotations are slower by `factor` (`rope_type` `linear`).
    Linear {
        /// A positive number.
        factor: f32,
    },
    /// Slow rotations are slowed further (`rope_type` `llama3`).
    Llama3(Llama3Rope),
}

/// Llama 3.1's scaling of slow rotations.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Llama3Rope {
    /// The factor by which slow rotations are slowed.
    pub factor: f32,
    /// Rotations with fewer turns than this over the original context are slowed by the full factor.
    pub low_freq_factor: f32,
    /// Rotations with more turns than this over the original context are unchanged.
    pub high_freq_factor: f32,
    /// Context of the model before the scaling.
    pub original_max_position_embeddings: usize,
}

/// Sliding-window attention.
#[derive(Debug, Clone, PartialEq)]
pub struct Sliding {
    /// Number of tokens that a token attends to, itself included.
    pub window: usize,
    /// For each layer, whether it has a sliding window.
    pub layers: Vec<bool>,
    /// Base of these layers' rotary embedding, which is then not scaled. `None` if they use that of the other layers.
    pub rope_theta: Option<f32>,
}

/// Sizes and flags of a decoder.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelConfig {
    /// The family, which decides the architecture's name in files.
    pub family: Family,
    /// Features of the family's blocks.
    pub flags: Flags,
    /// Size of the vocabulary; rows of the embedding.
    pub vocab_size: usize,
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Width inside the feed-forward block.
    pub intermediate_size: usize,
    /// Number of blocks.
    pub num_hidden_layers: usize,
    /// Heads of queries.
    pub num_attention_heads: usize,
    /// Heads of keys and values; a divisor of the number of query heads.
    pub num_key_value_heads: usize,
    /// Width of a head; an even number.
    pub head_dim: usize,
    /// Longest sequence, in tokens.
    pub max_position_embeddings: usize,
    /// Added to the mean square in RMS norms.
    pub rms_norm_eps: f32,
    /// Base of the rotary embedding.
    pub rope_theta: f32,
    /// Scaling of the rotary frequencies.
    pub rope_scaling: Option<RopeScaling>,
    /// Sliding-window attention, if some layers have it.
    pub sliding: Option<Sliding>,
    /// Attention scores are divided by its square root. It equals [`ModelConfig::head_dim`] in most families.
    pub query_pre_attn_scalar: f32,
    /// If set, attention scores become `cap · tanh(score / cap)`.
    pub attn_logit_softcapping: Option<f32>,
    /// If set, logits become `cap · tanh(logit / cap)`.
    pub final_logit_softcapping: Option<f32>,
    /// Whether the head's matrix is the embedding.
    pub tie_word_embeddings: bool,
    /// The token at the beginning of a text.
    pub bos_token_id: Option<u32>,
    /// The tokens that end a text.
    pub eos_token_ids: Vec<u32>,
    /// The token that pads a batch. The engine does not use it.
    pub pad_token_id: Option<u32>,
}

impl ModelConfig {
    /// Rotation of each of a head's `head_dim / 2` pairs, in radians per position. The arithmetic is f32, as in `transformers`.
    pub fn rope_frequencies(&self) -> Vec<f32> {
        let plain = self.plain_frequencies(self.rope_theta);
        match self.rope_scaling {
            None => plain.collect(),
            Some(RopeScaling::Linear { factor }) => plain.map(|f| f / factor).collect(),
            Some(RopeScaling::Llama3(scaling)) => plain.map(|f| scaling.scaled(f)).collect(),
        }
    }

    /// The rotations of the sliding-window layers, if these have a base of their own.
    pub fn sliding_rope_frequencies(&self) -> Option<Vec<f32>> {
        let theta = self.sliding.as_ref()?.rope_theta?;
        Some(self.plain_frequencies(theta).collect())
    }

    /// The rotations without scaling, of a base.
    pub(crate) fn plain_frequencies(&self, theta: f32) -> impl Iterator<Item = f32> {
        let width = self.head_dim;
        (0..width)
            .step_by(2)
            .map(move |i| 1.0 / theta.powf(i as f32 / width as f32))
    }

    /// Every weight's Hugging Face name and shape (rows × columns: a matrix maps vectors of length columns to vectors of length rows).
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
            if self.flags.qkv_bias {
                add("self_attn.q_proj.bias", &[queries]);
                add("self_attn.k_proj.bias", &[keys]);
                add("self_attn.v_proj.bias", &[keys]);
            }
            if self.flags.qk_norm {
                add("self_attn.q_norm.weight", &[self.head_dim]);
                add("self_attn.k_norm.weight", &[self.head_dim]);
            }
            add("self_attn.o_proj.weight", &[hidden, queries]);
            // The norm after attention in families with sandwich norms, and otherwise the norm before the feed-forward block.
            add("post_attention_layernorm.weight", &[hidden]);
            if self.flags.sandwich_norms {
                add("pre_feedforward_layernorm.weight", &[hidden]);
                add("post_feedforward_layernorm.weight", &[hidden]);
            }
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

    /// Number of weights; a tied head is counted once.
    pub fn parameters(&self) -> u64 {
        self.tensor_shapes()
            .iter()
            .map(|(_, shape)| shape.iter().map(|&n| n as u64).product::<u64>())
            .sum()
    }

    /// Rejects sizes that no model has: products of them could overflow or lead to absurd allocations.
    pub(crate) fn check(&self) -> Result<(), String> {
        within("vocab_size", self.vocab_size, 1 << 22)?;
        within("hidden_size", self.hidden_size, 1 << 16)?;
        within("intermediate_size", self.intermediate_size, 1 << 20)?;
        within("num_hidden_layers", self.num_hidden_layers, MAX_LAYERS)?;
        within("num_attention_heads", self.num_attention_heads, 1 << 12)?;
        within("num_key_value_heads", self.num_key_value_heads, 1 << 12)?;
        within("head_dim", self.head_dim, 1 << 12)?;
        let context = self.max_position_embeddings;
        within("max_position_embeddings", context, MAX_POSITIONS)?;
        let (heads, kv_heads) = (self.num_attention_heads, self.num_key_value_heads);
        if !heads.is_multiple_of(kv_heads) {
            return Err(format!(
                "`num_attention_heads` ({heads}) is not a multiple of `num_key_value_heads` ({kv_heads})"
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
                "`rms_norm_eps` is {}; it must lie between 0 and 1",
                self.rms_norm_eps
            ));
        }
        base("rope_theta", self.rope_theta)?;
        match self.rope_scaling {
            None => {}
            Some(RopeScaling::Linear { factor }) => positive("rope_scaling.factor", factor)?,
            Some(RopeScaling::Llama3(scaling)) => scaling.check()?,
        }
        if let Some(sliding) = &self.sliding {
            within("sliding_window", sliding.window, MAX_POSITIONS)?;
            if let Some(theta) = sliding.rope_theta {
                base("rope_local_base_freq", theta)?;
            }
            if sliding.layers.len() != self.num_hidden_layers {
                return Err(format!(
                    "`layer_types` names {} layers of {}",
                    sliding.layers.len(),
                    self.num_hidden_layers
                ));
            }
        }
        positive("query_pre_attn_scalar", self.query_pre_attn_scalar)?;
        for (name, cap) in [
            ("attn_logit_softcapping", self.attn_logit_softcapping),
            ("final_logit_softcapping", self.final_logit_softcapping),
        ] {
            cap.map_or(Ok(()), |cap| positive(name, cap))?;
        }
        let tokens = self.bos_token_id.iter().chain(&self.eos_token_ids);
        let mut tokens = tokens.chain(&self.pad_token_id);
        match tokens.find(|token| **token as usize >= self.vocab_size) {
            Some(token) => Err(format!(
                "special token {token} lies beyond the vocabulary of {}",
                self.vocab_size
            )),
            None => Ok(()),
        }
    }
}

impl Llama3Rope {
    fn scaled(&self, frequency: f32) -> f32 {
        let original = self.original_max_position_embeddings as f32;
        let wavelength = 2.0 * std::f32::consts::PI / frequency;
        if wavelength < original / self.high_freq_factor {
            frequency
        } else if wavelength > original / self.low_freq_factor {
            frequency / self.factor
        } else {
            let smooth = (original / wavelength - self.low_freq_factor)
                / (self.high_freq_factor - self.low_freq_factor);
            (1.0 - smooth) * frequency / self.factor + smooth * frequency
        }
    }

    fn check(&self) -> Result<(), String> {
        within(
            "rope_scaling.original_max_position_embeddings",
            self.original_max_position_embeddings,
            MAX_POSITIONS,
        )?;
        positive("rope_scaling.factor", self.factor)?;
        positive("rope_scaling.low_freq_factor", self.low_freq_factor)?;
        positive("rope_scaling.high_freq_factor", self.high_freq_factor)?;
        if self.high_freq_factor <= self.low_freq_factor {
            return Err("the `high_freq_factor` of `rope_scaling` must be greater than its `low_freq_factor`".into());
        }
        Ok(())
    }
}

/// The padding token. The engine does not use it, so -1 (in early conversions) or a token outside the vocabulary means that there is none.
pub(crate) fn padding(id: i64, vocab_size: usize) -> Option<u32> {
    let id = u32::try_from(id).ok()?;
    ((id as usize) < vocab_size).then_some(id)
}

/// Maximum number of layers; no model has more.
pub(crate) const MAX_LAYERS: usize = 1 << 10;
/// Maximum number of end-of-text tokens; no model has more.
pub(crate) const MAX_END_TOKENS: usize = 1 << 10;
/// Maximum context; no model has a longer one.
const MAX_POSITIONS: usize = 1 << 26;

pub(crate) fn within(name: &str, value: usize, max: usize) -> Result<(), String> {
    if (1..=max).contains(&value) {
        Ok(())
    } else {
        Err(format!(
            "`{name}` is {value}; it must lie between 1 and {max}"
        ))
    }
}

fn base(name: &str, value: f32) -> Result<(), String> {
    if value >= 1.0 && value.is_finite() {
        Ok(())
    } else {
        Err(format!("`{name}` is {value}; it must be at least 1"))
    }
}

fn positive(name: &str, value: f32) -> Result<(), String> {
    if value > 0.0 && value.is_finite() {
        Ok(())
    } else {
        Err(format!("`{name}` is {value}; it must be positive"))
    }
}
