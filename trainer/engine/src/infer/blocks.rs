//! Blocks of the KV cache: which prompt or sample holds which rows. Prompts that begin alike share the blocks of their common prefix.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use crate::batch::KvRows;

/// Rows of a block, one for each token.
pub(crate) const BLOCK: usize = 16;

pub(crate) fn blocks_for(rows: usize) -> usize {
    rows.div_ceil(BLOCK)
}

/// A prefix of a prompt in whole blocks: the tokens of its last block, and the block before it, which has a prefix of its own. So equal values stand for equal
/// prefixes. Tokens are compared, and not digests of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Prefix {
    before: Option<usize>,
    tokens: [u32; BLOCK],
}

/// The KV cache's blocks: who holds them, and which are free. The lowest free one is given out first, so that a sequence's blocks tend to be adjacent.
#[derive(Debug)]
pub(crate) struct BlockAllocator {
    free: BinaryHeap<Reverse<usize>>,
    /// Number of tables that hold each block. Prompts that begin alike hold the same blocks.
    holders: Vec<usize>,
    /// The blocks that prompts can share: full of tokens of a prompt that holds them. Each prefix has one block.
    ///
    /// Whoever holds a block holds the ones before it too. So the block `before` of a prefix is not reused while the prefix is here.
    shared: HashMap<Prefix, usize>,
    /// The prefixes of these blocks.
    prefixes: HashMap<usize, Prefix>,
}

impl BlockAllocator {
    pub(crate) fn new(total: usize) -> Self {
        Self {
            free: (0..total).map(Reverse).collect(),
            holders: vec![0; total],
            shared: HashMap::new(),
            prefixes: HashMap::new(),
        }
    }

    pub(crate) fn free(&self) -> usize {
        self.free.len()
    }

    pub(crate) fn total(&self) -> usize {
        self.holders.len()
    }

    /// The blocks of the longest prefix of a prompt that it can share, in order ([`BlockTable::share`]). The prompt's last token is not in them: it is computed
    /// for its logits.
    pub(crate) fn prefix(&self, prompt: &[u32]) -> Vec<usize> {
        let mut found = Vec::new();
        for tokens in whole_blocks(&prompt[..prompt.len().saturating_sub(1)]) {
            let before = found.last().copied();
            let Some(block) = self.shared.get(&Prefix { before, tokens }) else {
                break;
            };
            found.push(*block);
        }
        found
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

    /// Lets prompts with the same prefix share the blocks that the prompt's tokens `from..end` fill. A prefix that has a block keeps it. The blocks' rows must
    /// be written before any batch reads them, or by the same batch.
    pub(crate) fn offer(&self, pool: &mut BlockAllocator, prompt: &[u32], from: usize, end: usize) {
        let filled = whole_blocks(prompt).zip(&self.blocks).enumerate();
        for (number, (tokens, &block)) in filled.take(end / BLOCK).skip(from / BLOCK) {
            let before = number.checked_sub(1).map(|number| self.blocks[number]);
            let prefix = Prefix { before, tokens };
            if *pool.shared.entry(prefix).or_insert(block) == block {
                pool.prefixes.insert(block, prefix);
            }
        }
    }

    /// Returns all blocks. Those that nobody else holds become free.
    pub(crate) fn release(&mut self, pool: &mut BlockAllocator) {
        for block in self.blocks.drain(..) {
            pool.holders[block] -= 1;
            if pool.holders[block] == 0 {
                if let Some(prefix) = pool.prefixes.remove(&block) {
                    pool.shared.remove(&prefix);
                }
                pool.free.push(Reverse(block));
            }
        }
    }

    pub(crate) fn blocks(&self) -> &[usize] {
        &self.blocks
    }

    /// Adds the rows of the tokens `from..to`. The first token's row begins a new range, so prompts have the same ranges for all their samples.
    pub(crate) fn add_rows(&self, from: usize, to: usize, rows: &mut KvRows) {
        let mut position = from;
        while position < to {
            let n = (BLOCK - position % BLOCK).min(to - position);
            let row = self.blocks[position / BLOCK] * BLOCK + position % BLOCK;
            match position {
                0 => rows.push(row, n),
                _ => rows.append(row, n),
            }
            position += n;
        }
    }
}

fn whole_blocks(tokens: &[u32]) -> impl Iterator<Item = [u32; BLOCK]> {
    tokens.as_chunks::<BLOCK>().0.iter().copied()
}

/// Number of blocks that two prompts share while both are in the KV cache.
pub(crate) fn shared_blocks(a: &[u32], b: &[u32]) -> usize {
    let common = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    // Each prompt computes its last token.
    let shortest = a.len().min(b.len());
    common.min(shortest.saturating_sub(1)) / BLOCK
}

/// Length in tokens of the common prefix of all prompts, in whole blocks. The KV cache stores it once for all of them.
#[must_use]
pub fn shared_prompt_tokens<'a>(prompts: impl IntoIterator<Item = &'a [u32]>) -> usize {
    let mut prompts = prompts.into_iter();
    let Some(first) = prompts.next() else {
        return 0;
    };
    let shared = prompts.map(|prompt| shared_blocks(first, prompt));
    shared.min().unwrap_or(0) * BLOCK
}
