//! Buffers for a pass over a batch, planned for a number of tokens.

use std::ops::Add;

use crate::backend::{Backend, Buf, ElementBytes, Linear, Purpose, Rows};
use crate::config::ModelConfig;
use crate::error::EngineError;
use crate::model::Model;
use crate::model::layout::{ALIGN, Projection};

/// A value for each purpose of a pass's numbers: a count of elements, of bytes, or a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PerPurpose<T> {
    pub(crate) activations: T,
    pub(crate) sums: T,
}

impl Add for PerPurpose<usize> {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            activations: self.activations + other.activations,
            sums: self.sums + other.sums,
        }
    }
}

impl PerPurpose<usize> {
    /// This many elements of sums and none of activations.
    pub(crate) fn sums(sums: usize) -> Self {
        Self {
            activations: 0,
            sums,
        }
    }

    /// Bytes, if an element of each purpose takes `width` bytes.
    pub(crate) fn bytes(self, width: Self) -> u64 {
        (self.activations * width.activations + self.sums * width.sums) as u64
    }
}

impl PerPurpose<Buf> {
    pub(crate) fn allocate(
        backend: &mut dyn Backend,
        len: PerPurpose<usize>,
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

    pub(crate) fn at(self, offset: PerPurpose<usize>, len: PerPurpose<usize>) -> Self {
        Self {
            activations: self.activations.at(offset.activations, len.activations),
            sums: self.sums.at(offset.sums, len.sums),
        }
    }

    /// Whether the buffers have at least `len` elements.
    pub(crate) fn holds(self, len: PerPurpose<usize>) -> bool {
        self.activations.len() >= len.activations && self.sums.len() >= len.sums
    }
}

impl From<ElementBytes> for PerPurpose<usize> {
    fn from(bytes: ElementBytes) -> Self {
        Self {
            activations: bytes.activation,
            sums: bytes.sum,
        }
    }
}

/// Divides buffers into parts, one after the other, each on a cache line.
pub(crate) struct Cutter {
    all: PerPurpose<Buf>,
    used: PerPurpose<usize>,
}

impl Cutter {
    pub(crate) fn of(all: PerPurpose<Buf>) -> Self {
        Self {
            all,
            used: PerPurpose::default(),
        }
    }

    /// Number of elements of the parts that `cut` cuts.
    fn count<T>(cut: impl FnOnce(&mut Self) -> T) -> PerPurpose<usize> {
        let endless = Buf {
            block: 0,
            offset: 0,
            len: usize::MAX,
        };
        let mut cutter = Self::of(PerPurpose {
            activations: endless,
            sums: endless,
        });
        cut(&mut cutter);
        cutter.used
    }

    fn activations(&mut self, len: usize) -> Buf {
        part(self.all.activations, &mut self.used.activations, len)
    }

    fn sums(&mut self, len: usize) -> Buf {
        part(self.all.sums, &mut self.used.sums, len)
    }
}

/// The next `len` elements of a buffer, after those that are used.
fn part(buf: Buf, used: &mut usize, len: usize) -> Buf {
    let part = buf.at(*used, len);
    *used += len.next_multiple_of(ALIGN);
    part
}

/// Widths of a model's activations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Widths {
    pub(crate) hidden: usize,
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) head_dim: usize,
    /// Width of the gate projection, and of the up projection.
    pub(crate) inner: usize,
    pub(crate) vocabulary: usize,
    /// Maximum number of rows of logits that the head computes at a time ([`Backend::logits_rows`]).
    pub(crate) head_rows: usize,
    /// Whether queries and keys have norms; the rotated ones are then stored apart from the projections.
    pub(crate) qk_norm: bool,
    /// Whether both parts of a block end in a norm; the norms' inputs are then stored apart from the residual stream.
    pub(crate) sandwich: bool,
    /// Number of tables of rotations, 1 or 2.
    pub(crate) rope_tables: usize,
    /// Rank of the adapters; 0 without adapters.
    pub(crate) rank: usize,
}

impl Widths {
    /// Widths for a head that computes `head_rows` rows at a time.
    pub(crate) fn new(config: &ModelConfig, head_rows: usize) -> Self {
        Self {
            hidden: config.hidden_size,
            heads: config.num_attention_heads,
            kv_heads: config.num_key_value_heads,
            head_dim: config.head_dim,
            inner: config.intermediate_size,
            vocabulary: config.vocab_size,
            head_rows,
            qk_norm: config.flags.qk_norm,
            sandwich: config.flags.sandwich_norms,
            rope_tables: 1 + usize::from(config.sliding_rope_frequencies().is_some()),
            rank: 0,
        }
    }

    /// Width of all heads of queries.
    pub(crate) fn q(self) -> usize {
        self.heads * self.head_dim
    }

    /// Width of all heads of keys.
    pub(crate) fn kv(self) -> usize {
        self.kv_heads * self.head_dim
    }

    /// Width of queries, keys and values together.
    pub(crate) fn qkv(self) -> usize {
        self.q() + 2 * self.kv()
    }

    /// Elements per token of normed queries and keys; 0 if they have no norm.
    fn normed_qk(self) -> usize {
        if self.qk_norm {
            self.q() + self.kv()
        } else {
            0
        }
    }

    /// Elements per token of the input of the norm after a part of a block; 0 if there is none.
    fn branch(self) -> usize {
        if self.sandwich { self.hidden } else { 0 }
    }

    /// Queries and keys after norm and rotation: in `normed`, or, without a norm, in place among the projections.
    fn rotated(self, qkv: Buf, normed: Buf) -> Rows {
        if self.qk_norm {
            normed.rows(0, self.q() + self.kv())
        } else {
            qkv.rows(0, self.qkv())
        }
    }

    /// Sizes of a block's matrix product for a number of rows.
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
}

/// Intermediate results of a block that its backward pass needs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct BlockActivations {
    /// Projected queries, keys and values; rotated in place if there is no norm in between.
    pub(crate) qkv: Buf,
    /// Queries and then keys, after norm and rotation.
    pub(crate) rotated: Rows,
    pub(crate) attention: Buf,
    /// Log-sum-exp of the attention scores, tokens × heads.
    pub(crate) lse: Buf,
    /// Attention's projected result, if a norm follows.
    pub(crate) attended: Buf,
    /// Residual stream between attention and the feed-forward block.
    pub(crate) middle: Buf,
    pub(crate) gate_up: Buf,
    /// The feed-forward block's result, if a norm follows.
    pub(crate) ffn_out: Buf,
}

impl BlockActivations {
    /// Number of elements for a number of tokens.
    pub(crate) fn len(w: Widths, tokens: usize) -> PerPurpose<usize> {
        Cutter::count(|parts| Self::cut(parts, w, tokens))
    }

    pub(crate) fn cut(parts: &mut Cutter, w: Widths, tokens: usize) -> Self {
        let qkv = parts.activations(tokens * w.qkv());
        let normed = parts.activations(tokens * w.normed_qk());
        Self {
            qkv,
            rotated: w.rotated(qkv, normed),
            attention: parts.activations(tokens * w.q()),
            lse: parts.sums(tokens * w.heads),
            attended: parts.activations(tokens * w.branch()),
            middle: parts.sums(tokens * w.hidden),
            gate_up: parts.activations(tokens * 2 * w.inner),
            ffn_out: parts.activations(tokens * w.branch()),
        }
    }
}

/// What the buffers of a pass depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PassSize {
    pub(crate) tokens: usize,
    /// Rows of logits that are computed: a token counts as often as it is requested.
    pub(crate) logit_rows: usize,
    /// Targets of log-probabilities.
    pub(crate) targets: usize,
}

impl PassSize {
    fn max(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.max(other.tokens),
            logit_rows: self.logit_rows.max(other.logit_rows),
            targets: self.targets.max(other.targets),
        }
    }

    /// The same with no more rows of logits than exist at once.
    fn clamped(self, w: Widths) -> Self {
        Self {
            logit_rows: w.head_rows.min(self.logit_rows),
            ..self
        }
    }
}

/// Buffers of a forward pass.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Workspace {
    /// The largest pass that the buffers suffice for. It counts only the rows of logits that the head computes at a time.
    pub(crate) size: PassSize,
    pub(crate) all: PerPurpose<Buf>,
    /// Residual stream.
    pub(crate) x: Buf,
    pub(crate) normed: Buf,
    pub(crate) acts: BlockActivations,
    pub(crate) gated: Buf,
    /// Activations between an adapter's two matrices.
    pub(crate) low: Buf,
    /// Cosines and sines of the batch's positions. The second table is for sliding-window layers, and empty if their rotations are those of the other layers.
    pub(crate) rope: [Buf; 2],
    /// Rows of the residual stream for the head, before and after the last norm.
    pub(crate) picked: Buf,
    pub(crate) picked_normed: Buf,
    pub(crate) logits: Buf,
    pub(crate) logp: Buf,
    pub(crate) entropy: Buf,
}

impl Workspace {
    /// Number of elements for passes of a size.
    pub(crate) fn len(w: Widths, size: PassSize) -> PerPurpose<usize> {
        Cutter::count(|parts| Self::cut(parts, w, size))
    }

    pub(crate) fn plan(
        backend: &mut dyn Backend,
        w: Widths,
        size: PassSize,
    ) -> Result<Self, EngineError> {
        let all = PerPurpose::allocate(backend, Self::len(w, size))?;
        Ok(Self::cut(&mut Cutter::of(all), w, size))
    }

    fn cut(parts: &mut Cutter, w: Widths, size: PassSize) -> Self {
        let size = size.clamped(w);
        let (tokens, rows) = (size.tokens, size.logit_rows);
        let rope = tokens * w.head_dim;
        Self {
            size,
            all: parts.all,
            x: parts.sums(tokens * w.hidden),
            normed: parts.activations(tokens * w.hidden),
            acts: BlockActivations::cut(parts, w, tokens),
            gated: parts.activations(tokens * w.inner),
            low: parts.activations(tokens * w.rank),
            rope: [rope, (w.rope_tables - 1) * rope].map(|len| parts.sums(len)),
            picked: parts.sums(rows * w.hidden),
            picked_normed: parts.activations(rows * w.hidden),
            logits: parts.sums(rows * w.vocabulary),
            logp: parts.sums(size.targets),
            entropy: parts.sums(size.targets),
        }
    }
}

/// Buffers of a backward pass, in addition to those of the forward pass.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BackwardWorkspace {
    pub(crate) tokens: usize,
    pub(crate) all: PerPurpose<Buf>,
    /// Gradient of the residual stream.
    pub(crate) dx: Buf,
    pub(crate) dnormed: Buf,
    pub(crate) dgated: Buf,
    pub(crate) dattention: Buf,
    pub(crate) dqkv: Buf,
    /// Gradient of rotated queries and keys; without a norm, in place among that of the projections.
    pub(crate) drotated: Rows,
    /// Gradient of the input of the norm after a part of a block.
    pub(crate) dbranch: Buf,
    /// Gradient between an adapter's two matrices.
    pub(crate) dlow: Buf,
    /// Discarded gradients of norms that are not trained.
    pub(crate) unread: Buf,
    pub(crate) dpicked: Buf,
    pub(crate) dpicked_normed: Buf,
}

impl BackwardWorkspace {
    /// Number of elements for a number of tokens.
    pub(crate) fn len(w: Widths, tokens: usize) -> PerPurpose<usize> {
        Cutter::count(|parts| Self::cut(parts, w, tokens))
    }

    pub(crate) fn plan(
        backend: &mut dyn Backend,
        w: Widths,
        tokens: usize,
    ) -> Result<Self, EngineError> {
        let all = PerPurpose::allocate(backend, Self::len(w, tokens))?;
        Ok(Self::cut(&mut Cutter::of(all), w, tokens))
    }

    fn cut(parts: &mut Cutter, w: Widths, tokens: usize) -> Self {
        let rows = w.head_rows.min(tokens);
        let dqkv = parts.sums(tokens * w.qkv());
        let dnormed_qk = parts.sums(tokens * w.normed_qk());
        Self {
            tokens,
            all: parts.all,
            dx: parts.sums(tokens * w.hidden),
            dnormed: parts.activations(tokens * w.hidden),
            dgated: parts.activations(tokens * w.inner),
            dattention: parts.activations(tokens * w.q()),
            dqkv,
            drotated: w.rotated(dqkv, dnormed_qk),
            dbranch: parts.sums(tokens * w.branch()),
            dlow: parts.activations(tokens * w.rank),
            unread: parts.sums(w.hidden.max(w.head_dim)),
            dpicked: parts.sums(rows * w.hidden),
            dpicked_normed: parts.activations(rows * w.hidden),
        }
    }
}

impl Model {
    /// Buffers for a forward pass of a size; larger existing ones are reused.
    pub(crate) fn workspace(&mut self, size: PassSize) -> Result<Workspace, EngineError> {
        let widths = self.decoder.widths;
        let mut size = size.clamped(widths);
        if let Some(work) = self.work {
            if work.size.max(size) == work.size {
                return Ok(work);
            }
            size = size.max(work.size);
            self.release_work();
        }
        let work = Workspace::plan(self.decoder.backend.as_mut(), widths, size)?;
        self.work = Some(work);
        Ok(work)
    }

    /// Releases the buffers of forward passes, if there are any.
    pub(super) fn release_work(&mut self) {
        if let Some(work) = self.work.take() {
            work.all.release(self.decoder.backend.as_mut());
        }
    }
}
