//! The position of each weight in the one buffer that holds all of them. Gradients and moments have buffers of the same layout.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::backend::Buf;
use crate::config::ModelConfig;
use crate::error::EngineError;

/// Weights and the parts of buffers begin at multiples of this many elements, a cache line of f32.
pub(crate) const ALIGN: usize = 16;

/// A contiguous range of elements of a buffer, such as those of one weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Region {
    offset: usize,
    len: usize,
}

impl Region {
    pub(crate) fn len(self) -> usize {
        self.len
    }

    /// This range of `buffer`, if the buffer has the region's layout.
    pub(crate) fn within(self, buffer: Buf) -> Buf {
        buffer.at(self.offset, self.len)
    }

    /// The part of this range that lies in `shard`: how far into this range it begins, and its place in a buffer of the shard alone.
    pub(crate) fn in_shard(self, shard: &Range<usize>) -> (usize, Self) {
        let end = (self.offset + self.len).clamp(shard.start, shard.end);
        let start = self.offset.clamp(shard.start, end);
        let part = Self {
            offset: start - shard.start,
            len: end - start,
        };
        (start.saturating_sub(self.offset).min(self.len), part)
    }
}

/// A matrix of a block. Weights that share their input are stacked by rows into one matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Projection {
    /// Queries, keys and values.
    Qkv,
    /// The output projection of attention.
    Out,
    /// Gate and up projections.
    GateUp,
    Down,
}

impl Projection {
    pub(crate) const ALL: [Self; 4] = [Self::Qkv, Self::Out, Self::GateUp, Self::Down];

    /// Its parts, by their Hugging Face names.
    fn parts(self) -> &'static [&'static str] {
        match self {
            Self::Qkv => &["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
            Self::Out => &["self_attn.o_proj"],
            Self::GateUp => &["mlp.gate_proj", "mlp.up_proj"],
            Self::Down => &["mlp.down_proj"],
        }
    }

    /// A name for the whole matrix.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Qkv => "self_attn.qkv_proj",
            Self::Out => "self_attn.o_proj",
            Self::GateUp => "mlp.gate_up_proj",
            Self::Down => "mlp.down_proj",
        }
    }
}

/// Regions of one block's weights.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockLayout {
    pub(crate) attention_norm: Region,
    matrices: [Region; 4],
    pub(crate) qkv_bias: Option<Region>,
    /// Norms of each head's query and of each head's key.
    pub(crate) qk_norm: Option<[Region; 2]>,
    pub(crate) attention_post_norm: Option<Region>,
    pub(crate) mlp_norm: Region,
    pub(crate) mlp_post_norm: Option<Region>,
}

impl BlockLayout {
    pub(crate) fn matrix(&self, which: Projection) -> Region {
        self.matrices[which as usize]
    }
}

/// Named tensors stored one after the other, aligned to [`ALIGN`].
#[derive(Debug, Clone, Default)]
pub(crate) struct TensorLayout {
    pub(crate) len: usize,
    tensors: BTreeMap<String, (Region, Vec<usize>)>,
}

impl TensorLayout {
    /// Appends tensors of these shapes without gaps between them; returns the region of all of them together.
    pub(crate) fn put(
        &mut self,
        tensors: impl IntoIterator<Item = (String, Vec<usize>)>,
    ) -> Region {
        let offset = self.len;
        for (name, shape) in tensors {
            let len = shape.iter().product();
            let region = Region {
                offset: self.len,
                len,
            };
            self.tensors.insert(name, (region, shape));
            self.len += len;
        }
        let region = Region {
            offset,
            len: self.len - offset,
        };
        self.len = self.len.next_multiple_of(ALIGN);
        region
    }

    /// A tensor's region, by its name.
    pub(crate) fn region(&self, name: &str) -> Result<Region, EngineError> {
        let tensor = self.tensors.get(name);
        tensor.map(|(region, _)| *region).ok_or_else(|| {
            EngineError::Request(format!(
                "the model has no weight `{name}`; it belongs to another model"
            ))
        })
    }

    /// Every tensor by name, with its region and shape.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, Region, &[usize])> {
        let all = self.tensors.iter();
        all.map(|(name, (region, shape))| (name.as_str(), *region, shape.as_slice()))
    }
}

/// Regions of all weights.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    pub(crate) tensors: TensorLayout,
    pub(crate) embedding: Region,
    pub(crate) blocks: Vec<BlockLayout>,
    pub(crate) norm: Region,
    /// The embedding's own region if head and embedding are tied.
    pub(crate) head: Region,
}

impl Layout {
    pub(crate) fn new(config: &ModelConfig) -> Self {
        let shapes: BTreeMap<String, Vec<usize>> = config.tensor_shapes().into_iter().collect();
        let mut tensors = TensorLayout::default();
        let mut put = |names: &[String]| {
            tensors.put(names.iter().map(|name| {
                let shape = shapes
                    .get(name)
                    .expect("the configuration lists every weight of its flags");
                (name.clone(), shape.clone())
            }))
        };
        let embedding = put(&["model.embed_tokens.weight".into()]);
        let blocks = (0..config.num_hidden_layers)
            .map(|layer| {
                let name = |suffix: &str| format!("model.layers.{layer}.{suffix}");
                let parts = |which: Projection, kind: &str| -> Vec<String> {
                    let parts = which.parts().iter();
                    parts.map(|part| name(&format!("{part}.{kind}"))).collect()
                };
                let norm = |which: &str| [name(&format!("{which}.weight"))];
                let flags = config.flags;
                // Hugging Face uses the name `post_attention_layernorm` for the norm after attention where there is one, and otherwise for the norm before the
                // feed-forward block.
                let (after_attention, before_mlp) = if flags.sandwich_norms {
                    let after = put(&norm("post_attention_layernorm"));
                    (Some(after), "pre_feedforward_layernorm")
                } else {
                    (None, "post_attention_layernorm")
                };
                BlockLayout {
                    attention_norm: put(&norm("input_layernorm")),
                    matrices: Projection::ALL.map(|which| put(&parts(which, "weight"))),
                    qkv_bias: flags.qkv_bias.then(|| put(&parts(Projection::Qkv, "bias"))),
                    qk_norm: flags.qk_norm.then(|| {
                        ["q", "k"].map(|which| put(&norm(&format!("self_attn.{which}_norm"))))
                    }),
                    attention_post_norm: after_attention,
                    mlp_norm: put(&norm(before_mlp)),
                    mlp_post_norm: flags
                        .sandwich_norms
                        .then(|| put(&norm("post_feedforward_layernorm"))),
                }
            })
            .collect();
        let norm = put(&["model.norm.weight".into()]);
        let head = if config.tie_word_embeddings {
            embedding
        } else {
            put(&["lm_head.weight".into()])
        };
        Self {
            tensors,
            embedding,
            blocks,
            norm,
            head,
        }
    }

    /// The block matrix that contains a tensor, and the tensor's range of elements in it; `None` for tensors outside these matrices.
    pub(crate) fn rows_of(&self, tensor: Region) -> Option<(usize, Projection, Range<usize>)> {
        let inside = |whole: Region| {
            let (start, end) = (tensor.offset, tensor.offset + tensor.len);
            (whole.offset <= start && end <= whole.offset + whole.len)
                .then(|| start - whole.offset..end - whole.offset)
        };
        self.blocks.iter().enumerate().find_map(|(layer, block)| {
            Projection::ALL
                .into_iter()
                .find_map(|which| Some((layer, which, inside(block.matrix(which))?)))
        })
    }
}
