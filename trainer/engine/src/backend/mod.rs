//! The seam between the model and the device: about thirty operations on buffers.
//!
//! A backend owns an arena. Buffers are planned and allocated before work starts; afterwards operations take handles, offsets and sizes, and no tensor's memory of their
//! own: what they need besides is lists of their parts, and working memory that grows to the largest operation's and is then kept. They may be asynchronous: they run in
//! the order they are called in, and those that hand numbers to the host (they return a `Result`) wait for the ones before them. Nothing above this module asks which
//! backend it has.
//!
//! Matrices are row-major. Weights are as in Hugging Face files: `(out, in)`, so `y = x · Wᵀ`. Sizes are in elements.

pub mod cpu;
pub mod cuda;

use std::ops::Range;

use crate::batch::Batch;
use crate::config::Activation;
use crate::error::EngineError;
use crate::sample::{Draw, Sampled};

/// A range of elements of the backend's arena; a handle, not memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Buf {
    /// Which allocation.
    pub(crate) block: u32,
    /// First element in the allocation.
    pub(crate) offset: usize,
    /// Number of elements.
    pub(crate) len: usize,
}

impl Buf {
    /// Number of elements.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(self) -> usize {
        self.len
    }

    /// `len` elements from `offset` on.
    ///
    /// # Panics
    /// Where the range does not lie in the buffer: a mistake in a plan, found before it becomes a wrong number.
    pub fn at(self, offset: usize, len: usize) -> Self {
        let inside = offset.checked_add(len).is_some_and(|end| end <= self.len);
        assert!(
            inside,
            "{len} elements at {offset} of a buffer of {}",
            self.len
        );
        Self {
            block: self.block,
            offset: self.offset + offset,
            len,
        }
    }

    /// The buffer as rows that begin `stride` elements apart, the first of them at `column`.
    pub fn rows(self, column: usize, stride: usize) -> Rows {
        Rows {
            buf: self.at(column, self.len - column),
            stride,
        }
    }
}

/// Rows that begin `stride` elements apart; what of a row an operation touches is said by the operation's sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rows {
    /// Begins with the first element of row 0.
    pub buf: Buf,
    /// Elements from a row's beginning to the next one's.
    pub stride: usize,
}

/// What a buffer is for; a backend may choose its number format and its place by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Model weights. A backend that computes with 16-bit weights keeps the f32 ones beside them: upload, download and [`Backend::adamw`] are about the latter.
    Weights,
    /// Gradients and moments: f32.
    Optimiser,
    /// Keys and values of generated sequences.
    Cache,
    /// What lives for one pass and goes into matrix products or attention.
    Activations,
    /// What lives for one pass and sums are made in: residual streams, their gradients, statistics, logits. f32.
    Sums,
}

/// The numbers that a model's matrix products multiply. Weights, gradients and moments are f32 whatever it is, and so are sums and log-probabilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dtype {
    /// As they are.
    #[default]
    F32,
    /// Rounded to bf16, weights and activations alike.
    Bf16,
}

/// Bytes that a backend holds for an element, by its [`Purpose`]. Gradients and moments are f32 on each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ElementBytes {
    /// A weight: its f32, and the copy of it that products use.
    pub weight: usize,
    /// A key or value.
    pub cache: usize,
    /// An activation.
    pub activation: usize,
    /// An element of a sum.
    pub sum: usize,
}

impl ElementBytes {
    /// With products of `dtype`, and activations, keys and values of `activation` bytes.
    pub(crate) fn new(dtype: Dtype, activation: usize) -> Self {
        let copy = match dtype {
            Dtype::F32 => 0,
            Dtype::Bf16 => 2,
        };
        Self {
            weight: 4 + copy,
            cache: activation,
            activation,
            sum: 4,
        }
    }
}

/// Sizes of `y (rows × outputs) = x (rows × inputs) · Wᵀ`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Linear {
    /// Rows of `x` and `y`.
    pub rows: usize,
    /// Columns of `y`, rows of `W`.
    pub outputs: usize,
    /// Columns of `x` and of `W`.
    pub inputs: usize,
}

/// Sizes and constants of RMS norms: `y = x / √(mean(x²) + eps) · (offset + weight)`, vector by vector. A vector is as wide as its weight.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Norm {
    /// Rows of `x` and `y`.
    pub rows: usize,
    /// Vectors of a row, side by side from its beginning; each is normed by itself.
    pub heads: usize,
    /// Added to the mean square.
    pub eps: f32,
    /// Added to the weights: 0, or 1 where they are stored so.
    pub offset: f32,
}

/// Operands that attention's forward and backward passes share. Queries are the current batch's tokens, keys and values rows of a store.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Attention {
    /// Row = token of the batch; `heads` heads side by side.
    pub q: Rows,
    /// Row = row of the store; `kv_heads` heads side by side. Head `h` of the queries reads head `h / (heads / kv_heads)`.
    pub k: Rows,
    /// As `k`.
    pub v: Rows,
    /// Heads of queries.
    pub heads: usize,
    /// Heads of keys and values.
    pub kv_heads: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// Factor of the scores.
    pub scale: f32,
    /// Scaled scores become `cap · tanh(score / cap)`.
    pub soft_cap: Option<f32>,
    /// Most keys that a query sees: the nearest, its own included.
    pub window: Option<usize>,
}

/// A token whose log-probability is wanted, and the row of logits that predicts it. Several targets may share a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// Row of logits.
    pub row: usize,
    /// Token id.
    pub token: u32,
}

/// Numbers of one AdamW update: `g ← g · grad_scale; m ← β₁m + (1−β₁)g; v ← β₂v + (1−β₂)g²; w ← w − lr·(m/bias1 / (√(v/bias2) + ε) + decay·w)`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdamWStep {
    /// Learning rate.
    pub lr: f32,
    /// β₁.
    pub beta1: f32,
    /// β₂.
    pub beta2: f32,
    /// ε.
    pub eps: f32,
    /// Decoupled weight decay.
    pub decay: f32,
    /// 1 − β₁ᵗ.
    pub bias1: f32,
    /// 1 − β₂ᵗ.
    pub bias2: f32,
    /// Clipping's factor.
    pub grad_scale: f32,
}

/// A device that computes.
///
/// Results are a function of the inputs and the sizes alone (on one machine with one setting of the backend), and a row's result never depends on other rows' values.
pub trait Backend: Send {
    /// The device in words.
    fn name(&self) -> String;
    /// Bytes of the device's memory, where it is known.
    fn memory(&self) -> Option<u64>;
    /// Whether it has to be dropped before the process ends, since the libraries that it calls are torn down with the process.
    fn must_drop_before_exit(&self) -> bool {
        false
    }
    /// Bytes that elements take.
    fn element_bytes(&self) -> ElementBytes;
    /// Waits until the device has done all that was asked of it. An error is that of the first operation that failed.
    fn synchronise(&mut self) -> Result<(), EngineError>;

    /// A zeroed buffer. An error says how much was asked for and what to lower.
    fn allocate(&mut self, purpose: Purpose, len: usize) -> Result<Buf, EngineError>;
    /// Gives an allocation back; `buf` is what [`Backend::allocate`] returned.
    fn release(&mut self, buf: Buf);
    /// Copies from the host; the lengths are equal.
    fn upload(&mut self, dst: Buf, values: &[f32]);
    /// Copies to the host; the lengths are equal.
    fn download(&mut self, src: Buf, values: &mut [f32]) -> Result<(), EngineError>;
    /// Sets all elements to 0.
    fn zero(&mut self, buf: Buf);
    /// Copies between buffers that do not overlap; the lengths are equal.
    fn copy(&mut self, dst: Buf, src: Buf);

    /// Tokens for which a pass that only decodes is best computed: the batch's own, or more, where passes of a few sizes are kept ([`Backend::replay`]).
    fn padded(&self, batch: &Batch) -> usize {
        batch.tokens.len()
    }
    /// Makes a batch the current one: its tokens, positions, rows and spans are what the operations up to the next call refer to. Operations over its tokens compute
    /// `tokens` rows: as many as the batch has, or [`Backend::padded`]; what those beyond it hold is not said.
    /// An error where the batch contradicts itself. `store_rows` is the number of rows in the key/value store.
    fn begin(&mut self, batch: &Batch, tokens: usize, store_rows: usize)
    -> Result<(), EngineError>;
    /// Makes the pass over the current batch of `tokens` rows that was recorded before in these buffers. `false` where there is none: the pass is then to be made, and
    /// [`Backend::recorded`] called at its end. A pass is recorded between [`Backend::begin`] and [`Backend::sampled`], and hands nothing else to or from the host.
    fn replay(&mut self, _buffers: &[Buf], _tokens: usize) -> bool {
        false
    }
    /// Ends the pass that began with [`Backend::replay`]. `false` where it could not be recorded and so has not been made: it is to be made again, from [`Backend::replay`] on.
    fn recorded(&mut self) -> bool {
        true
    }

    /// `y[i] = scale · table[token i]`.
    fn embed(&mut self, y: Buf, table: Buf, width: usize, scale: f32);
    /// `dtable[token i] += scale · dy[i]`.
    fn embed_backward(&mut self, dtable: Buf, dy: Buf, width: usize, scale: f32);
    /// `y[i] = x[rows[i]]`.
    fn gather(&mut self, y: Buf, x: Buf, rows: &[usize], width: usize);
    /// `x[rows[i]] += y[i]`; no row is named twice.
    fn scatter_add(&mut self, x: Buf, y: Buf, rows: &[usize], width: usize);

    /// As [`Norm`] says, added to what `y` holds if `accumulate`.
    fn rms_norm(&mut self, y: Rows, x: Rows, weight: Buf, norm: Norm, accumulate: bool);
    /// Adds to `dx` and `dweight` what `dy` gives; `x` is the forward's input.
    fn rms_norm_backward(
        &mut self,
        dx: Rows,
        dweight: Buf,
        dy: Rows,
        x: Rows,
        weight: Buf,
        norm: Norm,
    );

    /// `y = x · Wᵀ`, added to what `y` holds if `accumulate`.
    fn linear(&mut self, y: Buf, x: Buf, weight: Buf, size: Linear, accumulate: bool);
    /// `dx = dy · W`, added to what `dx` holds if `accumulate`.
    fn linear_backward_input(
        &mut self,
        dx: Buf,
        dy: Buf,
        weight: Buf,
        size: Linear,
        accumulate: bool,
    );
    /// `dW += dyᵀ · x`.
    fn linear_backward_weight(&mut self, dweight: Buf, dy: Buf, x: Buf, size: Linear);
    /// `y[i] += bias`, row by row; the bias is as wide as a row.
    fn add_bias(&mut self, y: Buf, bias: Buf, rows: usize);
    /// `dbias += Σᵢ dy[i]`.
    fn bias_backward(&mut self, dbias: Buf, dy: Buf, rows: usize);

    /// Fills `table` (tokens × `2 · frequencies`) with cosines, then sines, of position × frequency for each token of the batch.
    fn rope_table(&mut self, table: Buf, frequencies: Buf);
    /// Rotates the first `heads` heads of each token's row in place: pairs `(j, j + head_dim / 2)`. `inverse` turns back, which is also the backward pass.
    fn rope(&mut self, x: Rows, table: Buf, heads: usize, head_dim: usize, inverse: bool);
    /// Copies the first `width` elements of each token's row of `src` into the row of the store that the batch names for it.
    fn store(&mut self, store: Rows, src: Rows, width: usize);
    /// `y` = attention over the batch's spans; rows as `q`'s. `lse` (tokens × heads) gets the log-sum-exp of each query's scaled scores.
    fn attention(&mut self, y: Rows, lse: Buf, attention: &Attention);
    /// Writes `dq`, adds to `dk` and `dv`. `y` and `lse` are the forward's.
    fn attention_backward(
        &mut self,
        dq: Rows,
        dk: Rows,
        dv: Rows,
        dy: Rows,
        y: Rows,
        lse: Buf,
        attention: &Attention,
    );
    /// `y[i] = activation(x[i, ..width]) · x[i, width..]` for rows `x` of `2 · width`.
    fn gate(&mut self, y: Buf, x: Buf, rows: usize, width: usize, activation: Activation);
    /// Replaces `x` by the gradient with respect to it, given `dy` of [`Backend::gate`]'s result.
    fn gate_backward(&mut self, x: Buf, dy: Buf, rows: usize, width: usize, activation: Activation);

    /// `x = factor · x`.
    fn scale(&mut self, x: Buf, factor: f32);
    /// `x = cap · tanh(x / cap)`.
    fn soft_cap(&mut self, x: Buf, cap: f32);
    /// For each target, its log-probability in `logp` and its row's entropy in `entropy`, both of softmax(logits / temperature). The temperature is at least
    /// [`crate::sample::MIN_TEMPERATURE`], here and in the backward pass.
    fn log_probs(
        &mut self,
        logp: Buf,
        entropy: Buf,
        logits: Buf,
        vocabulary: usize,
        targets: &[Target],
        temperature: f32,
    );
    /// Replaces the logits by dL/dlogits, given dL/dlogp of each target; where the logits are [`Backend::soft_cap`]'s result, with respect to what it was
    /// given.
    fn log_probs_backward(
        &mut self,
        logits: Buf,
        vocabulary: usize,
        targets: &[Target],
        dlogp: &[f32],
        temperature: f32,
        soft_cap: Option<f32>,
    );
    /// Makes these the current draws.
    fn draws(&mut self, draws: &[Draw]);
    /// Makes some of the current draws, one from each row of logits, which may be overwritten. The reference is [`crate::sample`]'s function on one row.
    fn sample(&mut self, logits: Buf, vocabulary: usize, draws: Range<usize>);
    /// What the current draws drew.
    fn sampled(&mut self) -> Result<Vec<Sampled>, EngineError>;

    /// Σ x², in f64.
    fn sum_squares(&mut self, x: Buf) -> Result<f64, EngineError>;
    /// One update of `weights` and both moments; all four are of one length.
    fn adamw(&mut self, weights: Buf, gradient: Buf, m: Buf, v: Buf, step: &AdamWStep);
}
