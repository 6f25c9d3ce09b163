//! Blocks of the KV cache, and which prompt or sample holds which rows.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::prefix::PrefixIndex;
use crate::batch::KvRows;

/// Rows of a block, one for each token.
pub(crate) const BLOCK: usize = 16;

/// Number of blocks for `rows` rows.
pub(crate) fn blocks_for(rows: usize) -> usize {
    rows.div_ceil(BLOCK)
}

/// The store's blocks: who holds them, and which are free. The lowest free one is given out first, so that a sequence's blocks tend to be adjacent.
#[derive(Debug)]
pub(crate) struct BlockAllocator {
    free: BinaryHeap<Reverse<usize>>,
    /// Number of tables that hold each block. Prompts that begin alike hold the same blocks.
    holders: Vec<usize>,
    prefixes: PrefixIndex,
}

impl BlockAllocator {
    pub(crate) fn new(total: usize) -> Self {
        Self {
            free: (0..total).map(Reverse).collect(),
            holders: vec![0; total],
            prefixes: PrefixIndex::default(),
        }
    }

    pub(crate) fn free(&self) -> usize {
        self.free.len()
    }

    pub(crate) fn total(&self) -> usize {
        self.holders.len()
    }

    /// The blocks that hold a prompt's beginning already, in order ([`BlockTable::share`]).
    pub(crate) fn prefix(&self, prompt: &[u32]) -> Vec<usize> {
        self.prefixes.find(prompt)
    }
}

/// The blocks of one prompt or sample, indexed by position from its beginning.
///
/// Blocks must be returned to the pool that they came from. Dropping `BlockTable` leaks its blocks, so owners call [`BlockTable::release`].
#[derive(Debug, Default)]
pub(crate) struct BlockTable {
    blocks: Vec<usize>,
}

impl BlockTable {
    /// Takes blocks until there are rows for `count` tokens. If the pool has too few, takes none and returns `false`.
    pub(crate) fn grow(&mut self, pool: &mut BlockAllocator, count: usize) -> bool {
        let missing = blocks_for(count).saturating_sub(self.blocks.len());
        if missing > pool.free.len() {
            return false;
        }
        for _ in 0..missing {
            if let Some(Reverse(block)) = pool.free.pop() {
                pool.holders[block] = 1;
                self.blocks.push(block);
            }
        }
        true
    }

    /// Begins an empty table with blocks that others hold ([`BlockAllocator::prefix`]).
    pub(crate) fn share(&mut self, pool: &mut BlockAllocator, prefix: &[usize]) {
        for &block in prefix {
            pool.holders[block] += 1;
            self.blocks.push(block);
        }
    }

    /// Offers the blocks that the prompt's tokens `from..end` fill to prompts that begin alike. Their rows must be written before any batch reads them, or by
    /// the same batch.
    pub(crate) fn offer(&self, pool: &mut BlockAllocator, prompt: &[u32], from: usize, end: usize) {
        pool.prefixes
            .insert(prompt, &self.blocks, from / BLOCK, end / BLOCK);
    }

    /// Returns all blocks. Those that nobody else holds become free.
    pub(crate) fn release(&mut self, pool: &mut BlockAllocator) {
        for block in self.blocks.drain(..) {
            pool.holders[block] -= 1;
            if pool.holders[block] == 0 {
                pool.prefixes.remove(block);
                pool.free.push(Reverse(block));
            }
        }
    }

    /// Number of blocks that it holds.
    pub(crate) fn block_count(&self) -> usize {
        self.blocks.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// The store's row of the token at `position`.
    pub(crate) fn row(&self, position: usize) -> usize {
        self.blocks[position / BLOCK] * BLOCK + position % BLOCK
    }

    /// Adds the rows of the tokens `from..to`. The first token's begin a range of their own, so that prompts have the same ranges for all their samples.
    pub(crate) fn add_rows(&self, from: usize, to: usize, rows: &mut KvRows) {
        let mut position = from;
        while position < to {
            let n = (BLOCK - position % BLOCK).min(to - position);
            match position {
                0 => rows.push(self.row(0), n),
                _ => rows.append(self.row(position), n),
            }
            position += n;
        }
    }

    #[cfg(test)]
    pub(crate) fn blocks(&self) -> &[usize] {
        &self.blocks
    }
}
