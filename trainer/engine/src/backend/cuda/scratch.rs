//! Memory that lives for one operation, or until the next batch. It grows and is then retained.
//!
//! [`ScratchSizes`] estimates it beforehand.

use std::collections::BTreeMap;

use super::BIAS_PART;
use super::batch::KEY_TILE;
use super::driver::{Address, Driver, Fault};
use super::launch::occupying_blocks;
use crate::backend::{Dtype, MemoryMeter};

/// The use of a piece of memory. Pieces of different uses may be in use at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Use {
    Batch,
    Segments,
    /// The current batch's tiles of keys.
    KeyTiles,
    /// A product's left operand in bf16.
    Left,
    /// A product's right operand in bf16.
    Right,
    Partial,
    /// Row sums of attention's backward pass.
    Delta,
    /// Rows, tokens and gradients that come from the host.
    Indices,
    Draws,
    /// The tokens sampled for the current draws.
    Sampled,
}

const MIN_BYTES: usize = 64 << 10;

/// Pieces up to this size are powers of two, and larger ones are multiples of it, so that little of a large piece is unused.
const STEP: usize = 32 << 20;

/// Size of the piece for a number of bytes.
fn piece(bytes: usize) -> usize {
    if bytes <= STEP {
        bytes.next_power_of_two().max(MIN_BYTES)
    } else {
        bytes.next_multiple_of(STEP)
    }
}

/// Approximate number of multiprocessors of a device. A device with more divides sums into more parts.
const MULTIPROCESSORS: u32 = 132;

/// What the scratch memory of a model depends on, for its largest pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ScratchSizes {
    /// Format of the operands of products.
    pub(crate) dtype: Dtype,
    pub(crate) tokens: usize,
    pub(crate) logit_rows: usize,
    pub(crate) trains: bool,
    /// Widths of the model: residual stream; queries, keys and values together; vocabulary.
    pub(crate) hidden: usize,
    pub(crate) qkv: usize,
    pub(crate) vocabulary: usize,
    /// Heads of queries, and the width of one.
    pub(crate) heads: usize,
    pub(crate) head_dim: usize,
    pub(crate) cached_rows: usize,
}

impl ScratchSizes {
    /// Approximate bytes of all pieces.
    pub(crate) fn bytes(self) -> u64 {
        let Self { tokens, heads, .. } = self;
        // Tokens, positions, rows, spans and tiles, and a segment for each block of the KV cache.
        let batch = 4 * 12 * tokens + 8 * self.cached_rows.div_ceil(16);
        let decode = tokens * heads * (self.head_dim + 2);
        let mut pieces = vec![batch, batch, batch];
        let mut partial = decode;
        if self.trains {
            let blocks = occupying_blocks(MULTIPROCESSORS);
            let norms = blocks * self.hidden.max(self.head_dim);
            let biases = tokens.div_ceil(BIAS_PART) * self.qkv;
            let kv_width = (self.qkv - heads * self.head_dim) / 2;
            let kv_heads = kv_width / self.head_dim;
            // Pieces of tiles of keys that are divided: at most three times as many as occupy the device, or about those of a single sequence.
            let tiles = tokens.div_ceil(KEY_TILE);
            let of_sequence = tiles * (tiles + 1) * heads / kv_heads;
            let key_pieces = of_sequence.min(3 * blocks.div_ceil(kv_heads));
            let keys = key_pieces * KEY_TILE * 2 * kv_width;
            partial = partial.max(norms).max(biases).max(keys);
            pieces.push(4 * tokens * heads);
            if self.dtype == Dtype::Bf16 {
                // Gradients that are sums in f32 are converted.
                let streams = tokens * self.hidden.max(self.qkv);
                pieces.push(2 * streams.max(self.logit_rows * self.vocabulary));
            }
        }
        pieces.push(4 * partial);
        pieces.into_iter().map(|bytes| piece(bytes) as u64).sum()
    }
}

#[derive(Debug, Default)]
pub(super) struct Scratch {
    pieces: BTreeMap<Use, (Address, usize)>,
    meter: MemoryMeter,
}

impl Scratch {
    pub(super) fn new(meter: MemoryMeter) -> Self {
        Self {
            meter,
            ..Self::default()
        }
    }

    /// Memory of at least `bytes` bytes, and whether its address has changed.
    pub(super) fn get(
        &mut self,
        driver: &mut dyn Driver,
        usage: Use,
        bytes: usize,
    ) -> Result<(Address, bool), Fault> {
        if let Some((address, size)) = self.pieces.get(&usage) {
            if *size >= bytes {
                return Ok((*address, false));
            }
            driver.free(*address);
            self.meter.subtract(*size);
            self.pieces.remove(&usage);
        }
        let size = piece(bytes);
        let address = driver.allocate(size)?;
        self.meter.add(size);
        self.pieces.insert(usage, (address, size));
        Ok((address, true))
    }
}
