//! Where each weight lies in the one buffer that holds all of them; gradients and moments lie alike in theirs.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::backend::Buf;
use crate::config::ModelConfig;

/// Weights begin at multiples of this, a cache line of f32.
const ALIGN: usize = 16;

/// A weight's elements in the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    offset: usize,
    len: usize,
}

impl Place {
    /// Number of elements.
    pub(crate) fn len(self) -> usize {
        self.len
    }

    /// The place in `buffer`, which is laid out so.
    pub(crate) fn of(self, buffer: Buf) -> Buf {
        buffer.at(self.offset, self.len)
    }
}

/// A matrix of a block. Those that share their input lie one below the other, as one matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Projection {
    /// Queries, keys, values.
    Qkv,
    /// Attention's result.
    Out,
    /// Gate, up.
    GateUp,
    Down,
}

impl Projection {
    pub(crate) const ALL: [Self; 4] = [Self::Qkv, Self::Out, Self::GateUp, Self::Down];

    /// The parts that it is made of, as Hugging Face names them.
    fn parts(self) -> &'static [&'static str] {
        match self {
            Self::Qkv => &["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
            Self::Out => &["self_attn.o_proj"],
            Self::GateUp => &["mlp.gate_proj", "mlp.up_proj"],
            Self::Down => &["mlp.down_proj"],
        }
    }

    /// A name for the whole of it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Qkv => "self_attn.qkv_proj",
            Self::Out => "self_attn.o_proj",
            Self::GateUp => "mlp.gate_up_proj",
            Self::Down => "mlp.down_proj",
        }
    }
}

/// Weights of one block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockPlaces {
    pub(crate) attention_norm: Place,
    matrices: [Place; 4],
    pub(crate) qkv_bias: Option<Place>,
    /// Of queries' heads and of keys'.
    pub(crate) qk_norm: Option<[Place; 2]>,
    /// Behind attention.
    pub(crate) attention_post_norm: Option<Place>,
    pub(crate) mlp_norm: Place,
    /// Behind the feed-forward block.
    pub(crate) mlp_post_norm: Option<Place>,
}

impl BlockPlaces {
    pub(crate) fn matrix(&self, which: Projection) -> Place {
        self.matrices[which as usize]
    }
}

/// Named tensors one behind the other, with gaps to [`ALIGN`].
#[derive(Debug, Clone, Default)]
pub(crate) struct Places {
    /// Number of elements in all.
    pub(crate) len: usize,
    tensors: BTreeMap<String, (Place, Vec<usize>)>,
}

impl Places {
    /// Appends tensors of these shapes without gaps between them; returns the place of all of them.
    pub(crate) fn put(&mut self, tensors: impl IntoIterator<Item = (String, Vec<usize>)>) -> Place {
        let offset = self.len;
        for (name, shape) in tensors {
            let len = shape.iter().product();
            let place = Place {
                offset: self.len,
                len,
            };
            self.tensors.insert(name, (place, shape));
            self.len += len;
        }
        let place = Place {
            offset,
            len: self.len - offset,
        };
        self.len = self.len.next_multiple_of(ALIGN);
        place
    }

    /// Place and shape of a tensor by its name.
    pub(crate) fn tensor(&self, name: &str) -> Option<(Place, &[usize])> {
        let (place, shape) = self.tensors.get(name)?;
        Some((*place, shape))
    }

    /// Every tensor by name, with its place and shape.
    pub(crate) fn tensors(&self) -> impl Iterator<Item = (&str, Place, &[usize])> {
        let all = self.tensors.iter();
        all.map(|(name, (place, shape))| (name.as_str(), *place, shape.as_slice()))
    }
}

/// Places of all weights.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    pub(crate) places: Places,
    pub(crate) embedding: Place,
    pub(crate) blocks: Vec<BlockPlaces>,
    pub(crate) norm: Place,
    /// The embedding itself where they are tied.
    pub(crate) head: Place,
}

impl Layout {
    pub(crate) fn new(config: &ModelConfig) -> Self {
        let shapes: BTreeMap<String, Vec<usize>> = config.tensor_shapes().into_iter().collect();
        let mut places = Places::default();
        let mut put = |names: &[String]| {
            places.put(names.iter().map(|name| {
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
                // Hugging Face's name of the norm before the feed-forward block, elsewhere that of the norm behind attention.
                let (behind_attention, before_mlp) = if flags.sandwich_norms {
                    let behind = put(&norm("post_attention_layernorm"));
                    (Some(behind), "pre_feedforward_layernorm")
                } else {
                    (None, "post_attention_layernorm")
                };
                BlockPlaces {
                    attention_norm: put(&norm("input_layernorm")),
                    matrices: Projection::ALL.map(|which| put(&parts(which, "weight"))),
                    qkv_bias: flags.qkv_bias.then(|| put(&parts(Projection::Qkv, "bias"))),
                    qk_norm: flags.qk_norm.then(|| {
                        ["q", "k"].map(|which| put(&norm(&format!("self_attn.{which}_norm"))))
                    }),
                    attention_post_norm: behind_attention,
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
            places,
            embedding,
            blocks,
            norm,
            head,
        }
    }

    /// Number of elements of the buffer.
    pub(crate) fn len(&self) -> usize {
        self.places.len
    }

    /// The block's matrix that a tensor is rows of, and its elements in it; `None` for tensors that are in no such matrix.
    pub(crate) fn rows_of(&self, tensor: Place) -> Option<(usize, Projection, Range<usize>)> {
        let inside = |whole: Place| {
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
