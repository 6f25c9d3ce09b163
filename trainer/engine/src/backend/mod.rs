//! The interface between the model and the device: operations on buffers.
//!
//! A backend owns an arena. Buffers are planned and allocated before work starts. After that, operations take handles, offsets and sizes, and allocate no
//! memory for tensors. They allocate only lists of their parts, and working memory that grows to the needs of the largest operation and is then retained.
//! Operations may be asynchronous. They run in the order of the calls, and those that return numbers to the host (as a `Result`) wait for all earlier ones. No
//! code above this module asks which backend it has.
//!
//! Matrices are row-major. Weights have the orientation of Hugging Face files, `(out, in)`, so `y = x · Wᵀ`. Sizes are in elements.

pub mod cpu;
pub mod cuda;
pub(crate) mod device_spec;
mod memory_meter;
pub mod ranks;

use std::ops::Range;
use std::sync::Arc;

pub use self::cpu::Bf16Kernel;
pub use self::memory_meter::MemoryMeter;
use self::ranks::ProcessGroup;
use crate::batch::Batch;
use crate::config::Activation;
use crate::error::EngineError;
use crate::sample::{Draw, Sampled};

/// A range of elements of the backend's arena: a handle that owns no memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Buf {
    /// Index of the allocation.
    pub(crate) block: u32,
    /// First element in the allocation.
    pub(crate) offset: usize,
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
    /// If the range does not lie in the buffer. This is an error in a plan, which is caught before it leads to a wrong number.
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

/// Puts an arena's allocation into the first empty place, and returns its index.
fn insert<T>(allocations: &mut Vec<Option<T>>, new: T) -> usize {
    let empty = allocations.iter().position(Option::is_none);
    let index = empty.unwrap_or(allocations.len());
    allocations.resize_with(allocations.len().max(index + 1), || None);
    allocations[index] = Some(new);
    index
}

/// Rows that begin `stride` elements apart. The sizes of an operation determine how much of each row it accesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rows {
    /// The buffer from the first element of row 0 on.
    pub buf: Buf,
    /// Distance between the beginnings of consecutive rows, in elements.
    pub stride: usize,
}

/// The use of a buffer. It determines the backend's number format, and possibly its position in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Model weights. A backend that computes with 16-bit weights also stores them in f32; upload, download and [`Backend::adamw`] refer to the f32 weights.
    Weights,
    /// Gradients and moments, in f32.
    Optimiser,
    /// Keys and values of generated sequences.
    Cache,
    /// Activations that live for one pass and are operands of matrix products or attention.
    Activations,
    /// Sums that live for one pass: residual streams, their gradients, statistics, logits. In f32.
    Sums,
}

/// A number format. A model's is that of the operands of its matrix products. Weights, gradients, moments, sums and log-probabilities are f32 in either case.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, Default, serde::Serialize, serde::Deserialize,
)]
pub enum Dtype {
    /// f32, without rounding.
    #[default]
    F32,
    /// Weights and activations rounded to bf16.
    Bf16,
}

impl Dtype {
    /// Its name in settings.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
        }
    }

    /// Bytes of a number.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::Bf16 => 2,
        }
    }
}

/// Bytes that a backend stores for an element of each [`Purpose`]. Gradients and moments are always f32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ElementBytes {
    /// A weight: its f32 value, and its copy for matrix products if there is one.
    pub weight: usize,
    /// A key or value.
    pub cache: usize,
    /// An activation.
    pub activation: usize,
    /// An element of a sum.
    pub sum: usize,
}

impl ElementBytes {
    /// Sizes for products in `dtype`, with `activation` bytes for activations, keys and values.
    pub(crate) fn new(dtype: Dtype, activation: usize) -> Self {
        let copy = match dtype {
            Dtype::F32 => 0,
            Dtype::Bf16 => dtype.bytes(),
        };
        Self {
            weight: 4 + copy,
            cache: activation,
            activation,
            sum: 4,
        }
    }
}

/// Default limits of the logits that exist at once, and of their rows.
const LOGITS: usize = 1 << 24;
const LOGITS_ROWS: usize = 1024;

/// Number of rows of logits that the head computes at a time, for a vocabulary of this size. Logits stay near the processor's caches.
pub(crate) fn logits_rows(vocabulary: usize) -> usize {
    (LOGITS / vocabulary).clamp(1, LOGITS_ROWS)
}

/// What training uses on a device unless settings say otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrainingDefaults {
    /// Maximum tokens of a pack. It is halved until all activations of a pack can be saved, but not below 2,048.
    pub pack_tokens: usize,
    /// Bytes of activations that are saved from the forward to the backward pass.
    pub activation_bytes: u64,
}

/// Maximum bytes of saved activations, and the default if the size of the memory is not known.
const MAX_ACTIVATIONS: u64 = 6 << 30;
const UNKNOWN_MEMORY_ACTIVATIONS: u64 = 1 << 30;

/// Packs of 2,048 tokens, and a third of the memory that weights, gradients and moments (`resident` bytes) leave, up to 6 GiB.
pub(crate) fn training_defaults(memory: Option<u64>, resident: u64) -> TrainingDefaults {
    TrainingDefaults {
        pack_tokens: 2048,
        activation_bytes: memory.map_or(UNKNOWN_MEMORY_ACTIVATIONS, |all| {
            (all.saturating_sub(resident) / 3).min(MAX_ACTIVATIONS)
        }),
    }
}

/// Ranks divide the optimiser's buffers at multiples of this number of elements.
pub const SQUARES: usize = 1 << 16;

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

/// Sizes and constants of RMS norms: `y = x / √(mean(x²) + eps) · (offset + weight)`, for each vector. A vector is as wide as its weight.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Norm {
    /// Rows of `x` and `y`.
    pub rows: usize,
    /// Number of vectors in a row, side by side from its beginning; each is normalised separately.
    pub heads: usize,
    /// Added to the mean square.
    pub eps: f32,
    /// Added to the weights: 1 if they are stored minus 1, else 0.
    pub offset: f32,
}

/// Operands of attention's forward and backward passes. Queries are the current batch's tokens. Keys and values are rows of a store: the KV cache, or in
/// training the batch itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Attention {
    /// One row for each token of the batch, with `heads` heads side by side.
    pub q: Rows,
    /// One row for each row of the store, with `kv_heads` heads side by side. Head `h` of the queries reads head `h / (heads / kv_heads)`.
    pub k: Rows,
    /// Values, laid out like `k`.
    pub v: Rows,
    /// Heads of queries.
    pub heads: usize,
    /// Heads of keys and values.
    pub kv_heads: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// Factor by which scores are multiplied.
    pub scale: f32,
    /// If set, scaled scores become `cap · tanh(score / cap)`.
    pub soft_cap: Option<f32>,
    /// If set, the maximum number of keys that a query attends to: the nearest ones, its own included.
    pub window: Option<usize>,
}

/// A token and the row of logits that predicts it, to compute its log-probability. Several targets may share a row.
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
    /// The factor of gradient clipping.
    pub grad_scale: f32,
}

/// A device that computes the model's operations.
/// Results are a function of the inputs and the sizes alone (on one machine with fixed settings of the backend). A row's result never depends on the values of
/// other rows.
pub trait Backend: Send {
    /// Description of the device.
    fn name(&self) -> String;
    /// Description of what results depend on besides the inputs: backends with the same description compute the same bits.
    fn arithmetic(&self) -> String {
        self.name()
    }
    /// Bytes of the device's memory, if known.
    fn memory(&self) -> Option<u64>;
    /// Bytes of the device's memory that are free at the moment, if known.
    fn free_memory(&self) -> Option<u64> {
        None
    }
    /// The meter of the device's memory; `None` if buffers are in the process's own memory.
    fn memory_meter(&self) -> Option<MemoryMeter> {
        None
    }
    /// Whether the backend has to be dropped before the process exits: exiting unloads the libraries that it calls.
    fn must_drop_before_exit(&self) -> bool {
        false
    }
    /// Sizes of elements in bytes.
    fn element_bytes(&self) -> ElementBytes;
    /// Number of rows of logits that the head computes at a time, for a vocabulary of this size. The head's weight is read once for them.
    fn logits_rows(&self, vocabulary: usize) -> usize {
        logits_rows(vocabulary)
    }
    /// What training uses unless settings say otherwise, if weights, gradients and moments take `resident` bytes.
    fn training_defaults(&self, resident: u64) -> TrainingDefaults {
        training_defaults(self.memory(), resident)
    }
    /// Waits until the device has finished all operations. An error is that of the first operation that failed.
    fn synchronise(&mut self) -> Result<(), EngineError>;

    /// Allocates a buffer. Weights and the optimiser's buffers are zeros, and the content of others is unspecified. An error states the requested size and
    /// which setting to lower.
    fn allocate(&mut self, purpose: Purpose, len: usize) -> Result<Buf, EngineError>;
    /// Releases an allocation; `buf` is the one that [`Backend::allocate`] returned.
    fn release(&mut self, buf: Buf);
    /// Copies from the host; the lengths are equal.
    fn upload(&mut self, dst: Buf, values: &[f32]);
    /// Copies to the host; the lengths are equal.
    fn download(&mut self, src: Buf, values: &mut [f32]) -> Result<(), EngineError>;
    /// Sets all elements to 0.
    fn zero(&mut self, buf: Buf);
    /// Copies between buffers that do not overlap; the lengths are equal.
    fn copy(&mut self, dst: Buf, src: Buf);
    /// Connects this device with those of the other ranks, which all call it together. Returns whether they can [exchange](Backend::exchange) buffers; if not, the host
    /// exchanges their content.
    ///
    /// # Errors
    /// If the connection fails on any rank; [`EngineError::Ranks`] if the ranks lose each other.
    fn connect(&mut self, _ranks: &Arc<dyn ProcessGroup>) -> Result<bool, EngineError> {
        Ok(false)
    }
    /// Sends a buffer of f32 numbers to each rank's device, and receives one from each, in the order of ranks. The buffers on both sides have the same length.
    /// Empty ones are not sent. The device has been [connected](Backend::connect).
    fn exchange(&mut self, _send: &[Buf], _receive: &[Buf]) {
        unreachable!("the device has not been connected");
    }

    /// The number of tokens to compute in a decoding pass: the batch's own, or more if passes of only a few sizes are recorded ([`Backend::replay`]).
    fn padded(&self, batch: &Batch) -> usize {
        batch.tokens.len()
    }
    /// Makes a batch the current one: operations up to the next call refer to its tokens, positions, rows and spans. Operations over its tokens compute
    /// `tokens` rows: the batch's own number, or [`Backend::padded`]. Rows past the batch are unspecified. An inconsistent batch is an error. `store_rows` is
    /// the number of rows in the KV cache.
    fn begin(&mut self, batch: &Batch, tokens: usize, store_rows: usize)
    -> Result<(), EngineError>;
    /// Replays the recorded pass over `tokens` rows in these buffers, with the current batch. Returns `false` if there is none: the caller must then run the
    /// pass and call [`Backend::end_pass`] at its end. A recorded pass lies between [`Backend::begin`] and [`Backend::sampled`], and transfers nothing else to
    /// or from the host.
    fn replay(&mut self, _buffers: &[Buf], _tokens: usize) -> bool {
        false
    }
    /// Ends the pass that began with [`Backend::replay`]. Returns `false` if the pass could not be recorded and was therefore not computed: the caller must run
    /// it again, from [`Backend::replay`] on.
    fn end_pass(&mut self) -> bool {
        true
    }
    /// Sets whether passes are recorded, which is the default. Unrecorded passes run call by call and compute the same.
    fn set_recording(&mut self, _on: bool) {}
    /// Number of passes that were replayed.
    fn replays(&self) -> u64 {
        0
    }

    /// `y[i] = scale · table[token i]`.
    fn embed(&mut self, y: Buf, table: Buf, width: usize, scale: f32);
    /// `dtable[token i] += scale · dy[i]`.
    fn embed_backward(&mut self, dtable: Buf, dy: Buf, width: usize, scale: f32);
    /// `y[i] = x[rows[i]]`.
    fn gather(&mut self, y: Buf, x: Buf, rows: &[usize], width: usize);
    /// `x[rows[i]] += y[i]`; the rows are distinct.
    fn scatter_add(&mut self, x: Buf, y: Buf, rows: &[usize], width: usize);

    /// The norm of [`Norm`]; added to `y` if `accumulate`.
    fn rms_norm(&mut self, y: Rows, x: Rows, weight: Buf, norm: Norm, accumulate: bool);
    /// Adds the gradients that follow from `dy` to `dx` and `dweight`. `x` is the input of the forward pass.
    fn rms_norm_backward(
        &mut self,
        dx: Rows,
        dweight: Buf,
        dy: Rows,
        x: Rows,
        weight: Buf,
        norm: Norm,
    );

    /// `y = x · Wᵀ`; added to `y` if `accumulate`.
    fn linear(&mut self, y: Buf, x: Buf, weight: Buf, size: Linear, accumulate: bool);
    /// `dx = dy · W`; added to `dx` if `accumulate`.
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

    /// Fills `table` (tokens × `2 · frequencies`) with the cosines, then the sines, of position × frequency for each token of the batch.
    fn rope_table(&mut self, table: Buf, frequencies: Buf);
    /// Rotates the first `heads` heads of each token's row in place, in pairs `(j, j + head_dim / 2)`. `inverse` rotates back, which is also the backward pass.
    fn rope(&mut self, x: Rows, table: Buf, heads: usize, head_dim: usize, inverse: bool);
    /// Adds the bias as [`Backend::add_bias`] does to `rows` rows, and rotates heads as [`Backend::rope`] does.
    fn add_bias_and_rope(
        &mut self,
        x: Rows,
        bias: Buf,
        rows: usize,
        table: Buf,
        heads: usize,
        head_dim: usize,
    ) {
        self.add_bias(x.buf, bias, rows);
        self.rope(x, table, heads, head_dim, false);
    }
    /// Copies the heads at the beginning of each token's row of `src` into the token's row of the store, as given by the batch. Only this and attention access
    /// a store of [`Purpose::Cache`], since the backend may arrange its rows otherwise. The store begins at a multiple of its stride, and has whole rows.
    fn write_kv(&mut self, store: Rows, src: Rows, heads: usize, head_dim: usize);
    /// `y` = attention over the batch's spans, with rows like those of `q`. `lse` (tokens × heads) receives the log-sum-exp of each query's scaled scores.
    fn attention(&mut self, y: Rows, lse: Buf, attention: &Attention);
    /// Writes `dq`, and adds to `dk` and `dv`. `y` and `lse` are results of the forward pass.
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
    /// `y[i] = activation(x[i, ..width]) · x[i, width..]`, for rows of `x` of width `2 · width`.
    fn gate(&mut self, y: Buf, x: Buf, rows: usize, width: usize, activation: Activation);
    /// Replaces `x` by its gradient, given the gradient `dy` of [`Backend::gate`]'s result.
    fn gate_backward(&mut self, x: Buf, dy: Buf, rows: usize, width: usize, activation: Activation);

    /// `x = factor · x`.
    fn scale(&mut self, x: Buf, factor: f32);
    /// `x = cap · tanh(x / cap)`.
    fn soft_cap(&mut self, x: Buf, cap: f32);
    /// Writes each target's log-probability to `logp` and its row's entropy to `entropy`, both of softmax(logits / temperature). The temperature is at least
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
    /// Replaces the logits by dL/dlogits, given dL/dlogp of each target. With `soft_cap`, the logits are results of [`Backend::soft_cap`], and the gradient is
    /// with respect to its input.
    fn log_probs_backward(
        &mut self,
        logits: Buf,
        vocabulary: usize,
        targets: &[Target],
        dlogp: &[f32],
        temperature: f32,
        soft_cap: Option<f32>,
    );
    /// Sets the current draws.
    fn draws(&mut self, draws: &[Draw]);
    /// Samples a token for some of the current draws, from one row of logits each. The logits may be overwritten. The reference is [`crate::sample`]'s function
    /// on one row.
    fn sample(&mut self, logits: Buf, vocabulary: usize, draws: Range<usize>);
    /// The tokens sampled for the current draws.
    fn sampled(&mut self) -> Result<Vec<Sampled>, EngineError>;

    /// Σ x² in f64, as terms to be added in their order. On a CPU, the terms of a buffer's parts are those of the whole if it is cut at multiples of [`SQUARES`].
    fn sum_squares(&mut self, x: Buf) -> Result<Vec<f64>, EngineError>;
    /// One update of `weights` and both moments; all four buffers have the same length.
    fn adamw(&mut self, weights: Buf, gradient: Buf, m: Buf, v: Buf, step: &AdamWStep);
}
