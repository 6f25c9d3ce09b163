//! The decoder's fixed parts: sizes, weights, and the backend that holds them.

use crate::backend::{Attention, Backend, Buf, Linear, Norm, Rows};
use crate::config::{Flags, ModelConfig};
use crate::model::adapters::Adapters;
use crate::model::layout::Layout;
use crate::model::workspace::{Widths, Workspace};

/// State that every pass needs. A pass changes none of it but the backend.
pub(crate) struct Decoder {
    pub(crate) backend: Box<dyn Backend>,
    pub(crate) layout: Layout,
    pub(crate) widths: Widths,
    /// All weights.
    pub(crate) weights: Buf,
    pub(crate) adapters: Option<Adapters>,
    /// Rotary frequencies, `head_dim / 2` of them; then those of sliding-window layers, if these have their own.
    pub(crate) frequencies: [Option<Buf>; 2],
    pub(crate) constants: Constants,
}

/// The configuration's constants and flags, without sizes.
#[derive(Debug, Clone)]
pub(crate) struct Constants {
    pub(crate) flags: Flags,
    eps: f32,
    pub(crate) embedding_scale: f32,
    score_scale: f32,
    score_cap: Option<f32>,
    pub(crate) logit_cap: Option<f32>,
    window: Option<usize>,
    /// For each layer, whether it has a sliding window.
    slides: Vec<bool>,
}

impl Constants {
    pub(crate) fn new(config: &ModelConfig) -> Self {
        let sliding = config.sliding.as_ref();
        Self {
            flags: config.flags,
            eps: config.rms_norm_eps,
            embedding_scale: if config.flags.scaled_embedding {
                (config.hidden_size as f32).sqrt()
            } else {
                1.0
            },
            score_scale: 1.0 / config.query_pre_attn_scalar.sqrt(),
            score_cap: config.attn_logit_softcapping,
            logit_cap: config.final_logit_softcapping,
            window: sliding.map(|sliding| sliding.window),
            slides: match sliding {
                Some(sliding) => sliding.layers.clone(),
                None => vec![false; config.num_hidden_layers],
            },
        }
    }
}

impl Decoder {
    /// Attention of a layer. Keys lie beside queries in the rotated rows, or elsewhere (in the KV cache).
    pub(crate) fn attention(&self, layer: usize, q: Rows, k: Rows, v: Rows) -> Attention {
        let (w, c) = (self.widths, &self.constants);
        Attention {
            q,
            k,
            v,
            heads: w.heads,
            kv_heads: w.kv_heads,
            head_dim: w.head_dim,
            scale: c.score_scale,
            soft_cap: c.score_cap,
            window: c.window.filter(|_| c.slides[layer]),
        }
    }

    /// A norm of rows as wide as the residual stream.
    pub(crate) fn norm(&self, rows: usize) -> Norm {
        self.head_norm(rows, 1)
    }

    /// A norm of `heads` vectors in each row.
    pub(crate) fn head_norm(&self, rows: usize, heads: usize) -> Norm {
        let offset = self.constants.flags.unit_offset_norms;
        Norm {
            rows,
            heads,
            eps: self.constants.eps,
            offset: if offset { 1.0 } else { 0.0 },
        }
    }

    /// Cosines and sines of a layer's rotations.
    pub(crate) fn layer_rotations(&self, layer: usize, work: &Workspace) -> Buf {
        let own = self.constants.slides[layer] && self.frequencies[1].is_some();
        work.rope[usize::from(own)]
    }

    /// The residual stream, or a buffer of its shape, as rows.
    pub(crate) fn stream(&self, x: Buf) -> Rows {
        x.rows(0, self.widths.hidden)
    }

    /// The keys, which lie after the queries in the same rows.
    pub(crate) fn keys(&self, queries: Rows) -> Rows {
        queries.buf.rows(self.widths.q(), queries.stride)
    }

    /// The values in rows of queries, keys and values.
    pub(crate) fn values(&self, qkv: Buf) -> Rows {
        let w = self.widths;
        qkv.rows(w.q() + w.kv(), w.qkv())
    }

    pub(crate) fn head_size(&self, rows: usize) -> Linear {
        Linear {
            rows,
            outputs: self.widths.vocabulary,
            inputs: self.widths.hidden,
        }
    }
}
