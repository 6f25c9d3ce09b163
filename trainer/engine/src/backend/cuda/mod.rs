//! The CUDA backend: the kernels of `kernels/*.cu` and cuBLASLt's matrix products, on the device behind a [`Driver`].
//!
//! Weights, gradients, moments and all sums are f32. In bf16, the operands of matrix products and attention are bf16, and weights have a bf16 copy as well.
//! Operations are asynchronous: after a failure later ones do nothing, and the first that returns numbers to the host reports it.

mod arena;
mod attention;
mod batch;
mod column_major;
pub mod compile;
pub mod device;
pub mod driver;
pub mod emulated;
mod graphs;
mod handles;
pub mod kernel_cache;
pub mod kernels;
mod launch;
pub mod ledger;
mod libraries;
mod logits;
mod matmul;
pub mod nccl;
pub mod nvtx;
mod operations;
pub mod probe;
pub mod profile;
mod scratch;
mod segments;
mod staging;
mod step_recorder;

use self::arena::Arena;
use self::batch::{BatchPlan, KeyTiles};
use self::driver::{Driver, Fault};
use self::graphs::Recordings;
pub(crate) use self::logits::logits_rows;
use self::scratch::Scratch;
pub(crate) use self::scratch::ScratchSizes;
use self::segments::SegmentTable;
use crate::backend::{Backend, Buf, Dtype, ElementBytes, MemoryMeter, TrainingDefaults};

/// Threads of a block that processes a row of the vocabulary's width.
const VOCABULARY: u32 = 512;
/// Threads of a block that processes elements.
const BLOCK: u32 = 256;
/// Threads of a block that processes a row.
const ROW: u32 = 128;
/// Warps of a block of [`BLOCK`] threads.
const WARPS: usize = 8;
/// Columns that a block of [`BLOCK`] threads adds up.
const ADDED_COLUMNS: usize = 8;
/// Number of rows over which a bias's gradient is summed before the sums are added up.
const BIAS_PART: usize = 64;

/// A backend on a device, with matrix products in the given number format.
pub fn open_on(driver: Box<dyn Driver>, dtype: Dtype) -> Box<dyn Backend> {
    let meter = MemoryMeter::default();
    Box::new(Cuda {
        driver,
        activations: dtype,
        arena: Arena::new(meter.clone()),
        scratch: Scratch::new(meter.clone()),
        meter,
        tokens: Vec::new(),
        plan: BatchPlan::default(),
        segments: SegmentTable::default(),
        key_tiles: None,
        draws: 0,
        words: Vec::new(),
        recordings: Recordings::default(),
        recording: true,
        replays: 0,
        converted: None,
        fault: None,
    })
}

/// Element sizes in bytes. Operands of bf16 products are stored in bf16.
pub(crate) fn element_bytes(dtype: Dtype) -> ElementBytes {
    ElementBytes::new(dtype, dtype.bytes())
}

/// Maximum tokens of a pack. Norms, attention's gradients and conversions fill a GPU from about 8,000 tokens on (`PERFORMANCE.md`).
const PACK_TOKENS: usize = 16 << 10;
/// Bytes that a process takes on a GPU before its first tensor: the context with its kernels and cuBLASLt's, about 0.7 GB (assumed, not measured), and cuBLASLt's
/// workspace.
pub(crate) const RESERVED: u64 = (700 << 20) + matmul::MAX_WORKSPACE as u64;

/// The defaults of training on a GPU. Packs have 16,384 tokens. Activations get half of the memory that is left by weights, gradients and moments (`resident`
/// bytes) and by the GPU's own software.
pub(crate) fn training_defaults(memory: u64, resident: u64) -> TrainingDefaults {
    TrainingDefaults {
        pack_tokens: PACK_TOKENS,
        activation_bytes: memory.saturating_sub(RESERVED + resident) / 2,
    }
}

struct Cuda {
    driver: Box<dyn Driver>,
    /// Format of the operands of products and attention.
    activations: Dtype,
    arena: Arena,
    scratch: Scratch,
    /// Counts the memory of `arena` and `scratch`.
    meter: MemoryMeter,
    /// The current batch's tokens.
    tokens: Vec<u32>,
    plan: BatchPlan,
    segments: SegmentTable,
    key_tiles: Option<KeyTiles>,
    draws: usize,
    /// Words to be sent to the device; the memory is reused.
    words: Vec<u32>,
    recordings: Recordings,
    /// Whether passes are recorded and replayed.
    recording: bool,
    replays: u64,
    /// The buffer that a product's left operand has been converted from, until another call may change its numbers.
    converted: Option<Buf>,
    /// The first failure that has not been reported yet.
    fault: Option<Fault>,
}
