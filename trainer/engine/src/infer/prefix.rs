//! Which blocks of the KV cache hold the beginnings of prompts, so that prompts that begin alike share them.

use std::collections::HashMap;

use super::blocks::BLOCK;

/// The tokens of a block, and the block before it, whose tokens have an entry of their own. So an entry stands for all tokens up to its last, and equal
/// entries stand for equal beginnings: tokens are compared, not digests of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Entry {
    before: Option<usize>,
    tokens: [u32; BLOCK],
}

/// The blocks that prompts can share: those that are full of a prompt's tokens and that some prompt holds. One block per beginning.
///
/// Whoever holds a block holds the ones before it too, so a block that an entry names as `before` is not reused while the entry exists.
#[derive(Debug, Default)]
pub(crate) struct PrefixIndex {
    blocks: HashMap<Entry, usize>,
    entries: HashMap<usize, Entry>,
}

impl PrefixIndex {
    /// The blocks of the longest beginning of a prompt that can be shared. The prompt's last token is not in them: it is computed for its logits.
    pub(crate) fn find(&self, prompt: &[u32]) -> Vec<usize> {
        let mut found = Vec::new();
        for tokens in whole_blocks(&prompt[..prompt.len().saturating_sub(1)]) {
            let before = found.last().copied();
            let Some(block) = self.blocks.get(&Entry { before, tokens }) else {
                break;
            };
            found.push(*block);
        }
        found
    }

    /// Enters the blocks `from..to` of a prompt, of which `blocks` are all. A beginning that has a block keeps it.
    pub(crate) fn insert(&mut self, prompt: &[u32], blocks: &[usize], from: usize, to: usize) {
        for (number, tokens) in whole_blocks(prompt).enumerate().take(to).skip(from) {
            let before = number.checked_sub(1).map(|number| blocks[number]);
            let entry = Entry { before, tokens };
            let block = blocks[number];
            if *self.blocks.entry(entry).or_insert(block) == block {
                self.entries.insert(block, entry);
            }
        }
    }

    /// Removes a block that nobody holds any more.
    pub(crate) fn remove(&mut self, block: usize) {
        if let Some(entry) = self.entries.remove(&block) {
            self.blocks.remove(&entry);
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

/// Number of tokens at the beginning of all prompts that the KV cache stores once for all of them: whole blocks that they have in common.
#[must_use]
pub fn shared_prompt_tokens<'a>(prompts: impl IntoIterator<Item = &'a [u32]>) -> usize {
    let mut prompts = prompts.into_iter();
    let Some(first) = prompts.next() else {
        return 0;
    };
    let shared = prompts.map(|prompt| shared_blocks(first, prompt));
    shared.min().unwrap_or(0) * BLOCK
}
