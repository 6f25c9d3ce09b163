//! Weights as 16-bit panels beside the f32 ones: made when a product first asks for them, and again after a change.

use std::collections::{BTreeMap, BTreeSet};

use super::gemm::{Format, Operand, Packed};
use super::lanes::Level;
use super::threads::Threads;
use crate::backend::Buf;

/// First element of a matrix in its block, and its rows.
type Extent = (usize, usize);

/// Panels of the matrices of some blocks.
#[derive(Default)]
pub(super) struct PackedWeights {
    /// Blocks of weights.
    blocks: BTreeSet<u32>,
    matrices: BTreeMap<(u32, Extent), Matrix>,
}

struct Matrix {
    packed: Packed,
    len: usize,
    /// Whether the weights are as they were when they were packed.
    current: bool,
}

impl PackedWeights {
    /// From now on keeps panels of the matrices in a new block.
    pub(super) fn keep(&mut self, block: Buf) {
        self.blocks.insert(block.block);
    }

    /// Drops what belongs to a block.
    pub(super) fn release(&mut self, block: Buf) {
        if self.blocks.remove(&block.block) {
            self.matrices.retain(|(of, _), _| *of != block.block);
        }
    }

    /// Notes that a buffer is about to be written to.
    pub(super) fn changed(&mut self, buf: Buf) {
        if self.blocks.contains(&buf.block) {
            for ((block, (start, _)), matrix) in &mut self.matrices {
                let apart = start + matrix.len <= buf.offset || buf.offset + buf.len <= *start;
                matrix.current &= *block != buf.block || apart;
            }
        }
    }

    /// The panels of a matrix of weights; `None` for anything else.
    pub(super) fn packed(
        &mut self,
        weight: Buf,
        level: Level,
        threads: &Threads,
        format: Format,
        matrix: Operand<'_>,
    ) -> Option<&Packed> {
        if !self.blocks.contains(&weight.block) {
            return None;
        }
        let key = (weight.block, (weight.offset, matrix.vectors()));
        let kept = self.matrices.entry(key).or_insert_with(|| Matrix {
            packed: Packed::default(),
            len: weight.len,
            current: false,
        });
        if !kept.current {
            kept.packed.fill(level, threads, format, matrix);
            kept.current = true;
        }
        Some(&kept.packed)
    }
}
