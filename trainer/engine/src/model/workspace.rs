//! Buffers that a pass over a batch works in, planned for a number of tokens.

use std::ops::Add;

use crate::backend::{Backend, Buf, ElementBytes, Linear, Purpose, Rows};
use crate::config::ModelConfig;
use crate::error::EngineError;
use crate::model::Model;
use crate::model::layout::Projection;

/// Most elements of logits that exist at once.
const LOGITS: usize = 1 << 24;
/// Most rows of logits that exist at once.
const LOGITS_ROWS: usize = 1024;
/// Parts of a buffer begin at multiples of this, a cache line of f32.
const ALIGN: usize = 16;

/// Something for each purpose that the numbers of a pass have: elements, bytes, buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PerDtype<T> {
    /// For [`Purpose::Activations`].
    pub(crate) activations: T,
    /// For [`Purpose::Sums`].
    pub(crate) sums: T,
}

impl Add for PerDtype<usize> {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            activations: self.activations + other.activations,
            sums: self.sums + other.sums,
        }
    }
}

impl PerDtype<usize> {
    /// So many elements of sums alone.
    pub(crate) fn sums(sums: usize) -> Self {
        Self {
            activations: 0,
            sums,
        }
    }

    /// Bytes, where an element of each takes `width`.
    pub(crate) fn bytes(self, width: Self) -> u64 {
        (self.activations * width.activations + self.sums * width.sums) as u64
    }
}

impl PerDtype<Buf> {
    /// Buffers of so many elements.
    pub(crate) fn allocate(
        backend: &mut dyn Backend,
        len: PerDtype<usize>,
    ) -> Result<Self, EngineError> {
        let activations = backend.allocate(Purpose::Activations, len.activations)?;
        let sums = backend.allocate(Purpose::Sums, len.sums);
        if sums.is_err() {
            backend.release(activations);
        }
        Ok(Self {
            activations,
            sums: sums?,
        })
    }

    pub(crate) fn release(self, backend: &mut dyn Backend) {
        backend.release(self.activations);
        backend.release(self.sums);
    }

    /// The elements from `offset` on.
    pub(crate) fn at(self, offset: PerDtype<usize>, len: PerDtype<usize>) -> Self {
        Self {
            activations: self.activations.at(offset.activations, len.activations),
            sums: self.sums.at(offset.sums, len.sums),
        }
    }

    /// Whether they hold so many elements.
    pub(crate) fn holds(self, len: PerDtype<usize>) -> bool {
        self.activations.len() >= len.activations && self.sums.len() >= len.sums
    }
}

impl From<ElementBytes> for PerDtype<usize> {
    fn from(bytes: ElementBytes) -> Self {
        Self {
            activations: bytes.activation,
            sums: bytes.sum,
        }
    }
}

/// Parts of buffers that lie one behind the other, each on a cache line.
fn lay_out<const N: usize>(sizes: [usize; N]) -> (usize, [usize; N]) {
    let mut offset = 0;
    let places = sizes.map(|n| {
        let place = offset;
        offset += n.next_multiple_of(ALIGN);
        place
    });
    (offset, places)
}

/// Elements that parts of these sizes take.
fn total<const N: usize>(sizes: [usize; N]) -> usize {
    lay_out(sizes).0
}

/// Cuts a buffer of [`total`] elements into its parts.
fn cut<const N: usize>(buf: Buf, sizes: [usize; N]) -> [Buf; N] {
    let (_, places) = lay_out(sizes);
    let mut sizes = sizes.into_iter();
    places.map(|place| buf.at(place, sizes.next().expect("a size a place")))
}

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
pub(crate) struct BlockActivations {
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
    pub(crate) ffn_out: Buf,
}

impl BlockActivations {
    /// Elements for a number of tokens.
    pub(crate) fn len(widths: Widths, tokens: usize) -> PerDtype<usize> {
        PerDtype {
            activations: total(Self::activations(widths, tokens)),
            sums: total(Self::sums(widths, tokens)),
        }
    }

    fn activations(w: Widths, tokens: usize) -> [usize; 6] {
        [
            w.qkv(),
            w.normed_qk(),
            w.q(),
            w.branch(),
            2 * w.inner,
            w.branch(),
        ]
        .map(|n| n * tokens)
    }

    fn sums(w: Widths, tokens: usize) -> [usize; 2] {
        [w.heads * tokens, w.hidden * tokens]
    }

    /// Cuts buffers of [`BlockActivations::len`] elements.
    pub(crate) fn cut(buf: PerDtype<Buf>, widths: Widths, tokens: usize) -> Self {
        let activations = Self::activations(widths, tokens);
        let [qkv, normed, attention, attended, gate_up, ffn_out] =
            cut(buf.activations, activations);
        let [lse, middle] = cut(buf.sums, Self::sums(widths, tokens));
        Self {
            qkv,
            rotated: widths.rotated(qkv, normed),
            attention,
            lse,
            attended,
            middle,
            gate_up,
            ffn_out,
        }
    }
}

/// Buffers of a forward pass.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Workspace {
    /// Most tokens of a batch.
    pub(crate) tokens: usize,
    all: PerDtype<Buf>,
    /// Residual stream.
    pub(crate) x: Buf,
    /// A norm's result.
    pub(crate) normed: Buf,
    pub(crate) acts: BlockActivations,
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

impl Workspace {
    fn activations(w: Widths, tokens: usize) -> [usize; 5] {
        [
            tokens * w.hidden,
            BlockActivations::len(w, tokens).activations,
            tokens * w.inner,
            tokens * w.rank,
            w.head_rows() * w.hidden,
        ]
    }

    fn sums(w: Widths, tokens: usize, targets: usize) -> [usize; 8] {
        let rows = w.head_rows();
        [
            tokens * w.hidden,
            BlockActivations::len(w, tokens).sums,
            tokens * w.head_dim,
            (w.rope_tables - 1) * tokens * w.head_dim,
            rows * w.hidden,
            rows * w.vocabulary,
            targets,
            targets,
        ]
    }

    /// Elements for so many tokens and targets.
    pub(crate) fn len(w: Widths, tokens: usize, targets: usize) -> PerDtype<usize> {
        PerDtype {
            activations: total(Self::activations(w, tokens)),
            sums: total(Self::sums(w, tokens, targets)),
        }
    }

    pub(crate) fn plan(
        backend: &mut dyn Backend,
        w: Widths,
        tokens: usize,
        targets: usize,
    ) -> Result<Self, EngineError> {
        let all = PerDtype::allocate(backend, Self::len(w, tokens, targets))?;
        let [normed, acts, gated, low, picked_normed] =
            cut(all.activations, Self::activations(w, tokens));
        let [
            x,
            inside_sums,
            rope,
            sliding_rope,
            picked,
            logits,
            logp,
            entropy,
        ] = cut(all.sums, Self::sums(w, tokens, targets));
        let acts = PerDtype {
            activations: acts,
            sums: inside_sums,
        };
        Ok(Self {
            tokens,
            all,
            x,
            normed,
            acts: BlockActivations::cut(acts, w, tokens),
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
        self.all.release(backend);
    }
}

/// Buffers of a backward pass, beside those of the forward pass.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BackwardWorkspace {
    pub(crate) tokens: usize,
    all: PerDtype<Buf>,
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

impl BackwardWorkspace {
    fn activations(w: Widths, tokens: usize) -> [usize; 5] {
        [
            tokens * w.hidden,
            tokens * w.inner,
            tokens * w.q(),
            tokens * w.rank,
            w.head_rows() * w.hidden,
        ]
    }

    fn sums(w: Widths, tokens: usize) -> [usize; 6] {
        [
            tokens * w.hidden,
            tokens * w.qkv(),
            tokens * w.normed_qk(),
            tokens * w.branch(),
            w.hidden.max(w.head_dim),
            w.head_rows() * w.hidden,
        ]
    }

    /// Elements for so many tokens.
    pub(crate) fn len(w: Widths, tokens: usize) -> PerDtype<usize> {
        PerDtype {
            activations: total(Self::activations(w, tokens)),
            sums: total(Self::sums(w, tokens)),
        }
    }

    pub(crate) fn plan(
        backend: &mut dyn Backend,
        w: Widths,
        tokens: usize,
    ) -> Result<Self, EngineError> {
        let all = PerDtype::allocate(backend, Self::len(w, tokens))?;
        let [dnormed, dgated, dattention, dlow, dpicked_normed] =
            cut(all.activations, Self::activations(w, tokens));
        let [dx, dqkv, dnormed_qk, dbranch, unread, dpicked] = cut(all.sums, Self::sums(w, tokens));
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
        self.all.release(backend);
    }
}

impl Model {
    /// Buffers for a forward pass of so many tokens and targets.
    pub(crate) fn workspace(
        &mut self,
        tokens: usize,
        targets: usize,
    ) -> Result<Workspace, EngineError> {
        let (mut most_tokens, mut most_targets) = (tokens, targets);
        if let Some(work) = self.work {
            if work.tokens >= tokens && work.targets() >= targets {
                return Ok(work);
            }
            (most_tokens, most_targets) = (tokens.max(work.tokens), targets.max(work.targets()));
            self.work = None;
            work.release(self.decoder.backend.as_mut());
        }
        let widths = self.decoder.widths;
        let backend = self.decoder.backend.as_mut();
        let work = Workspace::plan(backend, widths, most_tokens, most_targets)?;
        self.work = Some(work);
        Ok(work)
    }
}
