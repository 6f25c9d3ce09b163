//! The decoder's fixed parts: sizes, weights, and the backend that holds them.

use crate::backend::{Attention, Backend, Buf, Linear, Rows};
use crate::model::layout::Layout;
use crate::model::work::Widths;

/// What every pass needs and none changes, beside the backend.
pub(crate) struct Decoder {
    pub(crate) backend: Box<dyn Backend>,
    pub(crate) layout: Layout,
    pub(crate) widths: Widths,
    /// All weights.
    pub(crate) weights: Buf,
    /// Rotary frequencies, half a head of them.
    pub(crate) frequencies: Buf,
    /// Of the RMS norms.
    pub(crate) eps: f32,
}

impl Decoder {
    /// Attention's operands over keys and values in `k` and `v`.
    pub(crate) fn attention(&self, qkv: Buf, k: Rows, v: Rows) -> Attention {
        let w = self.widths;
        Attention {
            q: qkv.rows(0, w.qkv()),
            k,
            v,
            heads: w.heads,
            kv_heads: w.kv_heads,
            head_dim: w.head_dim,
            scale: 1.0 / (w.head_dim as f32).sqrt(),
        }
    }

    /// Keys and values inside rows of queries, keys and values.
    pub(crate) fn own_keys(&self, qkv: Buf) -> (Rows, Rows) {
        let w = self.widths;
        (qkv.rows(w.q(), w.qkv()), qkv.rows(w.q() + w.kv(), w.qkv()))
    }

    /// Sizes of the products of a block, for a number of tokens.
    pub(crate) fn qkv_size(&self, rows: usize) -> Linear {
        Linear {
            rows,
            outputs: self.widths.qkv(),
            inputs: self.widths.hidden,
        }
    }

    pub(crate) fn out_size(&self, rows: usize) -> Linear {
        Linear {
            rows,
            outputs: self.widths.hidden,
            inputs: self.widths.q(),
        }
    }

    pub(crate) fn gate_up_size(&self, rows: usize) -> Linear {
        Linear {
            rows,
            outputs: 2 * self.widths.inner,
            inputs: self.widths.hidden,
        }
    }

    pub(crate) fn down_size(&self, rows: usize) -> Linear {
        Linear {
            rows,
            outputs: self.widths.hidden,
            inputs: self.widths.inner,
        }
    }

    pub(crate) fn head_size(&self, rows: usize) -> Linear {
        Linear {
            rows,
            outputs: self.widths.vocabulary,
            inputs: self.widths.hidden,
        }
    }
}
