//! Where each weight lies in the one buffer that holds all of them; gradients and moments lie alike in theirs.

use std::collections::BTreeMap;

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
    /// The place in `buffer`, which is laid out so.
    pub(crate) fn of(self, buffer: Buf) -> Buf {
        buffer.at(self.offset, self.len)
    }
}

/// Weights of one block. Matrices that share their input lie one below the other, as one matrix.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockPlaces {
    pub(crate) attention_norm: Place,
    /// Queries, keys, values.
    pub(crate) qkv: Place,
    pub(crate) qkv_bias: Option<Place>,
    /// Of queries' heads and of keys'.
    pub(crate) qk_norm: Option<[Place; 2]>,
    pub(crate) out: Place,
    /// Behind attention.
    pub(crate) attention_post_norm: Option<Place>,
    pub(crate) mlp_norm: Place,
    /// Gate, up.
    pub(crate) gate_up: Place,
    pub(crate) down: Place,
    /// Behind the feed-forward block.
    pub(crate) mlp_post_norm: Option<Place>,
}

/// Places of all weights.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    /// Number of elements of the buffer.
    pub(crate) len: usize,
    pub(crate) embedding: Place,
    pub(crate) blocks: Vec<BlockPlaces>,
    pub(crate) norm: Place,
    /// The embedding itself where they are tied.
    pub(crate) head: Place,
    tensors: BTreeMap<String, (Place, Vec<usize>)>,
}

impl Layout {
    pub(crate) fn new(config: &ModelConfig) -> Self {
        let shapes: BTreeMap<String, Vec<usize>> = config.tensor_shapes().into_iter().collect();
        let mut tensors = BTreeMap::new();
        let mut len = 0;
        let mut put = |names: &[String]| {
            let offset = len;
            for name in names {
                let shape = shapes
                    .get(name)
                    .expect("the configuration lists every weight of its flags");
                let size = shape.iter().product();
                let place = Place {
                    offset: len,
                    len: size,
                };
                tensors.insert(name.clone(), (place, shape.clone()));
                len += size;
            }
            let place = Place {
                offset,
                len: len - offset,
            };
            len = len.next_multiple_of(ALIGN);
            place
        };
        let embedding = put(&["model.embed_tokens.weight".into()]);
        let blocks = (0..config.num_hidden_layers)
            .map(|layer| {
                let name = |suffix: &str| format!("model.layers.{layer}.{suffix}");
                let three = |kind: &str| {
                    ["q", "k", "v"].map(|which| name(&format!("self_attn.{which}_proj.{kind}")))
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
                    qkv: put(&three("weight")),
                    qkv_bias: flags.qkv_bias.then(|| put(&three("bias"))),
                    qk_norm: flags.qk_norm.then(|| {
                        ["q", "k"].map(|which| put(&norm(&format!("self_attn.{which}_norm"))))
                    }),
                    out: put(&[name("self_attn.o_proj.weight")]),
                    attention_post_norm: behind_attention,
                    mlp_norm: put(&norm(before_mlp)),
                    gate_up: put(
                        &["gate", "up"].map(|which| name(&format!("mlp.{which}_proj.weight")))
                    ),
                    down: put(&[name("mlp.down_proj.weight")]),
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
            len,
            embedding,
            blocks,
            norm,
            head,
            tensors,
        }
    }

    /// Place and shape of a weight by its Hugging Face name.
    pub(crate) fn tensor(&self, name: &str) -> Option<(Place, &[usize])> {
        let (place, shape) = self.tensors.get(name)?;
        Some((*place, shape))
    }

    /// Every weight by name, with its place and shape.
    pub(crate) fn tensors(&self) -> impl Iterator<Item = (&str, Place, &[usize])> {
        let all = self.tensors.iter();
        all.map(|(name, (place, shape))| (name.as_str(), *place, shape.as_slice()))
    }
}
