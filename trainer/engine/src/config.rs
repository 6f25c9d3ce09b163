//! A model's `config.json` or GGUF metadata, as the sizes and flags that the one decoder is built from.
//!
//! Field names are those of Hugging Face's `config.json`. Every number is checked before anything is sized by it.

mod json;
mod known;
#[cfg(test)]
mod tests;

pub use known::{known, known_names};

/// Families whose decoders the flags of [`ModelConfig`] describe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// Llama 2, Llama 3, SmolLM and others of `model_type` `llama`.
    Llama,
    /// Qwen2 and Qwen2.5: Llama with a bias on queries, keys and values.
    Qwen2,
    /// The dense Qwen3: Llama with norms of queries and keys.
    Qwen3,
    /// The text part of Gemma 3.
    Gemma3,
}

impl Family {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Llama, Self::Qwen2, Self::Qwen3, Self::Gemma3];

    /// `general.architecture` in GGUF; `model_type` in `config.json` is the same but for Gemma's `gemma3_text`.
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

    /// What sets the family's blocks apart.
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

/// The function that a feed-forward block's gate goes through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// `x · σ(x)`.
    Silu,
    /// GELU by its approximation with tanh, PyTorch's `gelu_pytorch_tanh`.
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

/// What the blocks of one family have and those of another have not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flags {
    /// Queries, keys and values have a bias.
    pub qkv_bias: bool,
    /// Each head's query and key goes through an RMS norm before it is rotated.
    pub qk_norm: bool,
    /// A norm behind attention and one behind the feed-forward block, beside those before them.
    pub sandwich_norms: bool,
    /// Norms multiply by 1 + w, w being the stored weight.
    pub unit_offset_norms: bool,
    /// Embedded tokens are multiplied by √hidden_size.
    pub scaled_embedding: bool,
    /// Of the feed-forward block's gate.
    pub activation: Activation,
}

/// Changes to the rotary frequencies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RopeScaling {
    /// All rotations are `factor` times slower (`rope_type` `linear`).
    Linear {
        /// Positive.
        factor: f32,
    },
    /// Slow rotations are stretched (`rope_type` `llama3`).
    Llama3(Llama3Rope),
}

/// Llama 3.1's stretching of slow rotations.
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

/// Layers whose attention reaches back over a window only.
#[derive(Debug, Clone, PartialEq)]
pub struct Sliding {
    /// Tokens that a token sees, itself included.
    pub window: usize,
    /// Whether each layer is such a layer.
    pub layers: Vec<bool>,
    /// Base of these layers' rotary embedding, which is then not scaled; `None` where they turn as the other layers do.
    pub rope_theta: Option<f32>,
}

/// Sizes and flags of a decoder.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelConfig {
    /// The family, which decides the architecture's name in files.
    pub family: Family,
    /// What sets its blocks apart.
    pub flags: Flags,
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
    pub rope_scaling: Option<RopeScaling>,
    /// Layers that see a window only.
    pub sliding: Option<Sliding>,
    /// Scores are divided by its square root; [`ModelConfig::head_dim`] in most families.
    pub query_pre_attn_scalar: f32,
    /// Scores become `cap · tanh(score / cap)`.
    pub attn_logit_softcapping: Option<f32>,
    /// Logits become `cap · tanh(logit / cap)`.
    pub final_logit_softcapping: Option<f32>,
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
    /// Rotations of a head's pairs in radians a position, `head_dim / 2` of them. The arithmetic is f32, as `transformers` does it.
    pub fn rope_frequencies(&self) -> Vec<f32> {
        let plain = self.plain_frequencies(self.rope_theta);
        match self.rope_scaling {
            None => plain.collect(),
            Some(RopeScaling::Linear { factor }) => plain.map(|f| f / factor).collect(),
            Some(RopeScaling::Llama3(scaling)) => plain.map(|f| scaling.stretched(f)).collect(),
        }
    }

    /// Those of the layers that see a window only, where they have a base of their own.
    pub fn sliding_rope_frequencies(&self) -> Option<Vec<f32>> {
        let theta = self.sliding.as_ref()?.rope_theta?;
        Some(self.plain_frequencies(theta).collect())
    }

    fn plain_frequencies(&self, theta: f32) -> impl Iterator<Item = f32> {
        let width = self.head_dim;
        (0..width)
            .step_by(2)
            .map(move |i| 1.0 / theta.powf(i as f32 / width as f32))
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
            // Behind attention where there are norms behind, before the feed-forward block elsewhere.
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
        within("num_hidden_layers", self.num_hidden_layers, MAX_LAYERS)?;
        within("num_attention_heads", self.num_attention_heads, 1 << 12)?;
        within("num_key_value_heads", self.num_key_value_heads, 1 << 12)?;
        within("head_dim", self.head_dim, 1 << 12)?;
        within(
            "max_position_embeddings",
            self.max_position_embeddings,
            MAX_POSITIONS,
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

impl Llama3Rope {
    /// A rotation after the stretching.
    fn stretched(&self, frequency: f32) -> f32 {
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
            return Err("the `high_freq_factor` of `rope_scaling` is the greater one".into());
        }
        Ok(())
    }
}

/// The token that fills up a batch. Nothing in the engine asks for it, so where early conversions name -1, or a token that the vocabulary does not have, there is
/// none.
pub(crate) fn padding(id: i64, vocab_size: usize) -> Option<u32> {
    let id = u32::try_from(id).ok()?;
    ((id as usize) < vocab_size).then_some(id)
}

/// No model has more layers.
pub(crate) const MAX_LAYERS: usize = 1 << 10;
/// No model has a longer context.
const MAX_POSITIONS: usize = 1 << 26;

pub(crate) fn within(name: &str, value: usize, most: usize) -> Result<(), String> {
    if (1..=most).contains(&value) {
        Ok(())
    } else {
        Err(format!("`{name}` is {value}; it lies between 1 and {most}"))
    }
}

fn base(name: &str, value: f32) -> Result<(), String> {
    if value >= 1.0 && value.is_finite() {
        Ok(())
    } else {
        Err(format!("`{name}` is {value}; it is at least 1"))
    }
}

fn positive(name: &str, value: f32) -> Result<(), String> {
    if value > 0.0 && value.is_finite() {
        Ok(())
    } else {
        Err(format!("`{name}` is {value}; it is positive"))
    }
}
