//! Weights packed as 16-bit panels, in addition to their f32 values. They are packed when a product first needs them, and again after a change.

use std::collections::{BTreeMap, BTreeSet};

use super::gemm::{Format, Operand, Packed};
use super::simd::SimdLevel;
use super::threads::Threads;
use crate::backend::Buf;

/// A matrix's first element in its block, and its number of rows.
type Extent = (usize, usize);

/// Panels of the matrices of some blocks.
#[derive(Default)]
pub(super) struct PackedWeights {
    /// Blocks that contain weights.
    blocks: BTreeSet<u32>,
    matrices: BTreeMap<(u32, Extent), Matrix>,
}

struct Matrix {
    packed: Packed,
    len: usize,
    /// Whether the weights have not changed since they were packed.
    current: bool,
}

impl PackedWeights {
    /// Registers a new block of weights: from now on, panels of its matrices are stored.
    pub(super) fn register(&mut self, block: Buf) {
        self.blocks.insert(block.block);
    }

    pub(super) fn release(&mut self, block: Buf) {
        if self.blocks.remove(&block.block) {
            self.matrices.retain(|(owner, _), _| *owner != block.block);
        }
    }

    /// Records that a buffer is about to be overwritten.
    pub(super) fn changed(&mut self, buf: Buf) {
        if self.blocks.contains(&buf.block) {
            for ((block, (start, _)), matrix) in &mut self.matrices {
                let disjoint = start + matrix.len <= buf.offset || buf.offset + buf.len <= *start;
                matrix.current &= *block != buf.block || disjoint;
            }
        }
    }

    /// The panels of a matrix of weights; `None` if the buffer contains no weights.
    pub(super) fn packed(
        &mut self,
        weight: Buf,
        level: SimdLevel,
        threads: &Threads,
        format: Format,
        matrix: Operand<'_>,
    ) -> Option<&Packed> {
        if !self.blocks.contains(&weight.block) {
            return None;
        }
        let key = (weight.block, (weight.offset, matrix.vectors()));
        let entry = self.matrices.entry(key).or_insert_with(|| Matrix {
            packed: Packed::default(),
            len: weight.len,
            current: false,
        });
        if !entry.current {
            entry.packed.fill(level, threads, format, matrix);
            entry.current = true;
        }
        Some(&entry.packed)
    }
}
