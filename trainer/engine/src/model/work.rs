//! Buffers that a pass over a batch works in, planned for a number of tokens.

use crate::backend::{Backend, Buf, Linear, Purpose, Rows};
use crate::config::ModelConfig;
use crate::error::EngineError;
use crate::model::layout::Projection;

/// Most elements of logits that exist at once.
const LOGITS: usize = 1 << 24;
/// Most rows of logits that exist at once.
const LOGITS_ROWS: usize = 1024;

/// Widths of a model's activations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Widths {
    pub(crate) hidden: usize,
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) head_dim: usize,
    /// Of the gate and up projections, each.
    pub(crate) inner: usize,
    pub(crate) vocabulary: usize,
    /// Queries and keys go through norms, so that what is rotated lies apart from the projections.
    pub(crate) qk_norm: bool,
    /// Both parts of a block end in a norm, whose inputs lie apart from the residual stream.
    pub(crate) sandwich: bool,
    /// Tables of rotations, 1 or 2.
    pub(crate) rope_tables: usize,
    /// Of adapters; 0 where there are none.
    pub(crate) rank: usize,
}

impl Widths {
    pub(crate) fn new(config: &ModelConfig) -> Self {
        Self {
            hidden: config.hidden_size,
            heads: config.num_attention_heads,
            kv_heads: config.num_key_value_heads,
            head_dim: config.head_dim,
            inner: config.intermediate_size,
            vocabulary: config.vocab_size,
            qk_norm: config.flags.qk_norm,
            sandwich: config.flags.sandwich_norms,
            rope_tables: 1 + usize::from(config.sliding_rope_frequencies().is_some()),
            rank: 0,
        }
    }

    /// All heads of queries side by side.
    pub(crate) fn q(self) -> usize {
        self.heads * self.head_dim
    }

    /// All heads of keys side by side.
    pub(crate) fn kv(self) -> usize {
        self.kv_heads * self.head_dim
    }

    /// Queries, keys and values side by side.
    pub(crate) fn qkv(self) -> usize {
        self.q() + 2 * self.kv()
    }

    /// Elements a token of normed queries and keys; 0 where they have no norm.
    fn normed_qk(self) -> usize {
        if self.qk_norm {
            self.q() + self.kv()
        } else {
            0
        }
    }

    /// Elements a token of what goes into a norm behind a part of a block.
    fn branch(self) -> usize {
        if self.sandwich { self.hidden } else { 0 }
    }

    /// Queries and keys after norm and rotation: in `normed`, or in place among the projections where there is no norm.
    fn rotated(self, qkv: Buf, normed: Buf) -> Rows {
        if self.qk_norm {
            normed.rows(0, self.q() + self.kv())
        } else {
            qkv.rows(0, self.qkv())
        }
    }

    /// Sizes of a block's product for a number of rows.
    pub(crate) fn projection(self, which: Projection, rows: usize) -> Linear {
        let (outputs, inputs) = match which {
            Projection::Qkv => (self.qkv(), self.hidden),
            Projection::Out => (self.hidden, self.q()),
            Projection::GateUp => (2 * self.inner, self.hidden),
            Projection::Down => (self.hidden, self.inner),
        };
        Linear {
            rows,
            outputs,
            inputs,
        }
    }

    /// Rows of logits that the head computes at a time.
    pub(crate) fn head_rows(self) -> usize {
        (LOGITS / self.vocabulary).clamp(1, LOGITS_ROWS)
    }
}

/// What a block computes on the way and its backward pass needs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Inside {
    /// Queries, keys and values as they are projected, and rotated where there is no norm in between.
    pub(crate) qkv: Buf,
    /// Queries, keys beside them, normed and rotated.
    pub(crate) rotated: Rows,
    pub(crate) attention: Buf,
    /// Log-sum-exp of the scores, tokens × heads.
    pub(crate) lse: Buf,
    /// Attention's projected result, where a norm follows.
    pub(crate) attended: Buf,
    /// Residual stream between attention and feed-forward.
    pub(crate) middle: Buf,
    pub(crate) gate_up: Buf,
    /// The feed-forward block's result, where a norm follows.
    pub(crate) fed: Buf,
}

impl Inside {
    /// Elements for a number of tokens.
    pub(crate) fn len(widths: Widths, tokens: usize) -> usize {
        Self::sizes(widths, tokens).iter().sum()
    }

    fn sizes(w: Widths, tokens: usize) -> [usize; 8] {
        [
            w.qkv(),
            w.normed_qk(),
            w.q(),
            w.heads,
            w.branch(),
            w.hidden,
            2 * w.inner,
            w.branch(),
        ]
        .map(|n| n * tokens)
    }

    /// Cuts a buffer of [`Inside::len`] elements.
    pub(crate) fn cut(buf: Buf, widths: Widths, tokens: usize) -> Self {
        let mut offset = 0;
        let parts = Self::sizes(widths, tokens).map(|n| {
            offset += n;
            buf.at(offset - n, n)
        });
        let [qkv, normed, attention, lse, attended, middle, gate_up, fed] = parts;
        Self {
            qkv,
            rotated: widths.rotated(qkv, normed),
            attention,
            lse,
            attended,
            middle,
            gate_up,
            fed,
        }
    }
}

/// Buffers of a forward pass.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Work {
    /// Most tokens of a batch.
    pub(crate) tokens: usize,
    all: Buf,
    /// Residual stream.
    pub(crate) x: Buf,
    /// A norm's result.
    pub(crate) normed: Buf,
    pub(crate) inside: Inside,
    /// Gated activations.
    pub(crate) gated: Buf,
    /// Between an adapter's two matrices.
    pub(crate) low: Buf,
    /// Cosines and sines of the batch's positions; the second for layers that see a window only, empty where they turn as the others do.
    pub(crate) rope: [Buf; 2],
    /// Rows of the residual stream whose logits are wanted, before and after the last norm.
    pub(crate) picked: Buf,
    pub(crate) picked_normed: Buf,
    pub(crate) logits: Buf,
    pub(crate) logp: Buf,
    pub(crate) entropy: Buf,
}

impl Work {
    fn sizes(w: Widths, tokens: usize, targets: usize) -> [usize; 12] {
        let rows = w.head_rows();
        [
            tokens * w.hidden,
            tokens * w.hidden,
            Inside::len(w, tokens),
            tokens * w.inner,
            tokens * w.rank,
            tokens * w.head_dim,
            (w.rope_tables - 1) * tokens * w.head_dim,
            rows * w.hidden,
            rows * w.hidden,
            rows * w.vocabulary,
            targets,
            targets,
        ]
    }

    /// Elements for so many tokens and targets.
    pub(crate) fn elements(w: Widths, tokens: usize, targets: usize) -> usize {
        Self::sizes(w, tokens, targets).iter().sum()
    }

    pub(crate) fn plan(
        backend: &mut dyn Backend,
        w: Widths,
        tokens: usize,
        targets: usize,
    ) -> Result<Self, EngineError> {
        let (all, parts) = allocate(backend, Self::sizes(w, tokens, targets))?;
        let [
            x,
            normed,
            inside,
            gated,
            low,
            rope,
            sliding_rope,
            picked,
            picked_normed,
            logits,
            logp,
            entropy,
        ] = parts;
        Ok(Self {
            tokens,
            all,
            x,
            normed,
            inside: Inside::cut(inside, w, tokens),
            gated,
            low,
            rope: [rope, sliding_rope],
            picked,
            picked_normed,
            logits,
            logp,
            entropy,
        })
    }

    /// Targets of one pass that fit.
    pub(crate) fn targets(&self) -> usize {
        self.logp.len()
    }

    pub(crate) fn release(self, backend: &mut dyn Backend) {
        backend.release(self.all);
    }
}

/// Buffers of a backward pass, beside those of the forward pass.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Back {
    pub(crate) tokens: usize,
    all: Buf,
    /// Gradient of the residual stream.
    pub(crate) dx: Buf,
    /// Of a norm's result.
    pub(crate) dnormed: Buf,
    pub(crate) dgated: Buf,
    pub(crate) dattention: Buf,
    pub(crate) dqkv: Buf,
    /// Of rotated queries and keys; in place among those of the projections where there is no norm.
    pub(crate) drotated: Rows,
    /// Of what goes into a norm behind a part of a block.
    pub(crate) dbranch: Buf,
    /// Between an adapter's two matrices.
    pub(crate) dlow: Buf,
    /// Where the gradients of norms that are not trained end; nobody reads it.
    pub(crate) unread: Buf,
    pub(crate) dpicked: Buf,
    pub(crate) dpicked_normed: Buf,
}

impl Back {
    fn sizes(w: Widths, tokens: usize) -> [usize; 11] {
        let rows = w.head_rows();
        [
            tokens * w.hidden,
            tokens * w.hidden,
            tokens * w.inner,
            tokens * w.q(),
            tokens * w.qkv(),
            tokens * w.normed_qk(),
            tokens * w.branch(),
            tokens * w.rank,
            w.hidden.max(w.head_dim),
            rows * w.hidden,
            rows * w.hidden,
        ]
    }

    /// Elements for so many tokens.
    pub(crate) fn elements(w: Widths, tokens: usize) -> usize {
        Self::sizes(w, tokens).iter().sum()
    }

    pub(crate) fn plan(
        backend: &mut dyn Backend,
        w: Widths,
        tokens: usize,
    ) -> Result<Self, EngineError> {
        let (all, parts) = allocate(backend, Self::sizes(w, tokens))?;
        let [
            dx,
            dnormed,
            dgated,
            dattention,
            dqkv,
            dnormed_qk,
            dbranch,
            dlow,
            unread,
            dpicked,
            dpicked_normed,
        ] = parts;
        Ok(Self {
            tokens,
            all,
            dx,
            dnormed,
            dgated,
            dattention,
            dqkv,
            drotated: w.rotated(dqkv, dnormed_qk),
            dbranch,
            dlow,
            unread,
            dpicked,
            dpicked_normed,
        })
    }

    pub(crate) fn release(self, backend: &mut dyn Backend) {
        backend.release(self.all);
    }
}

/// One allocation for several buffers, each on a cache line.
fn allocate<const N: usize>(
    backend: &mut dyn Backend,
    sizes: [usize; N],
) -> Result<(Buf, [Buf; N]), EngineError> {
    let total = sizes.iter().map(|n| n.next_multiple_of(16)).sum();
    let all = backend.allocate(Purpose::Activations, total)?;
    let mut offset = 0;
    let parts = sizes.map(|n| {
        let part = all.at(offset, n);
        offset += n.next_multiple_of(16);
        part
    });
    Ok((all, parts))
}
