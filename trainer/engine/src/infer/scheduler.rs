//! Decides which tokens to compute next.
//!
//! Requests, and samples within them, are served in order. Each step computes one token of every running sample, and a bounded number of tokens of prompts and
//! of preempted samples (chunked prefill). A prompt shares the blocks of a prefix that is in the KV cache, and computes only what follows. It is not admitted
//! while an older prompt still has tokens for later steps. So the blocks that it can share are computed, or planned for the same step: a batch writes all its
//! rows before it reads any. A sample is admitted while there are blocks for it. When blocks run out, the youngest sample is preempted and later recomputed
//! from the tokens it already has. The oldest sample therefore always makes progress, and all samples finish.

use super::blocks::{BLOCK, BlockAllocator, blocks_for};
use super::sequence::{SampleState, SequenceGroup};
use crate::batch::KvRows;

/// Tokens of a prompt (`sample` is `None`) or of a sample that the next step computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ScheduledChunk {
    pub(crate) request: usize,
    pub(crate) sample: Option<usize>,
    /// First token, counted from the beginning of the prompt or of the sample.
    pub(crate) from: usize,
    pub(crate) count: usize,
}

/// The requests and the KV cache's blocks.
#[derive(Debug)]
pub(crate) struct Scheduler {
    pub(crate) sequences: Vec<SequenceGroup>,
    pool: BlockAllocator,
    max_sequences: usize,
    /// Maximum number of tokens of a step, in addition to one for each running sample.
    chunk: usize,
    /// Requests before this index are done.
    first: usize,
}

impl Scheduler {
    /// `blocks` must be enough for the largest request's prompt and one sample of it ([`Scheduler::blocks_needed`]).
    pub(crate) fn new(
        sequences: Vec<SequenceGroup>,
        blocks: usize,
        max_sequences: usize,
        chunk: usize,
    ) -> Self {
        Self {
            sequences,
            pool: BlockAllocator::new(blocks),
            max_sequences: max_sequences.max(1),
            chunk: chunk.max(1),
            first: 0,
        }
    }

    /// Blocks that a request needs. The keys of a sample's last token are never needed.
    pub(crate) fn blocks_needed(sequence: &SequenceGroup) -> usize {
        blocks_for(sequence.prompt.len()) + blocks_for(sequence.max_tokens.saturating_sub(1))
    }

    /// The next chunks to compute; empty when every sample is done.
    pub(crate) fn plan(&mut self) -> Vec<ScheduledChunk> {
        while self.first < self.sequences.len() && self.sequences[self.first].live == 0 {
            self.first += 1;
        }
        self.make_room();
        loop {
            let chunks = self.chunks();
            // There are no chunks only if prompts without running samples occupy the blocks.
            if !chunks.is_empty() || !self.evict_idle_prompt() {
                return chunks;
            }
        }
    }

    /// Gives every running sample rows for its tokens, oldest first, preempting the youngest when blocks run out.
    fn make_room(&mut self) {
        for request in self.first..self.sequences.len() {
            for sample in 0..self.sequences[request].samples.len() {
                while !self.ensure_rows(request, sample) {
                    if !self.preempt_younger(request, sample) {
                        self.preempt(request, sample);
                        break;
                    }
                }
            }
        }
    }

    /// Allocates the rows of a running sample's tokens; `false` if blocks run out. Samples that do not run need none.
    fn ensure_rows(&mut self, request: usize, sample: usize) -> bool {
        let sample = &mut self.sequences[request].samples[sample];
        sample.state != SampleState::Running
            || sample.rows.grow(&mut self.pool, sample.tokens.len())
    }

    /// Frees the blocks of something younger than this sample; `false` if nothing younger has any.
    fn preempt_younger(&mut self, request: usize, sample: usize) -> bool {
        for other in (request..self.sequences.len()).rev() {
            let oldest = if other == request { sample + 1 } else { 0 };
            let samples = &self.sequences[other].samples[oldest..];
            if let Some(n) = samples
                .iter()
                .rposition(|s| s.state == SampleState::Running)
            {
                self.preempt(other, oldest + n);
                return true;
            }
            if other != request && self.drop_prompt(other) {
                return true;
            }
        }
        false
    }

    fn preempt(&mut self, request: usize, sample: usize) {
        let sample = &mut self.sequences[request].samples[sample];
        sample.rows.release(&mut self.pool);
        sample.kv = KvRows::default();
        sample.computed = 0;
        sample.state = SampleState::Waiting;
    }

    /// Frees the blocks of the youngest prompt after the first that no running sample reads.
    fn evict_idle_prompt(&mut self) -> bool {
        (self.first + 1..self.sequences.len()).rev().any(|request| {
            let idle = self.sequences[request].running().next().is_none();
            idle && self.drop_prompt(request)
        })
    }

    /// Frees a prompt's blocks; `false` if it has none.
    fn drop_prompt(&mut self, request: usize) -> bool {
        let sequence = &mut self.sequences[request];
        if sequence.rows.is_empty() {
            return false;
        }
        sequence.rows.release(&mut self.pool);
        sequence.computed = 0;
        true
    }

    fn chunks(&mut self) -> Vec<ScheduledChunk> {
        let mut chunks = Vec::new();
        let mut chunk = self.chunk;
        let running = |s: &SequenceGroup| s.running().count();
        let growing = |s: &SequenceGroup| s.running().filter(|sample| s.may_grow(sample)).count();
        let all = &self.sequences[self.first..];
        let mut sequences: usize = all.iter().map(running).sum();
        // Running samples that may still need another block.
        let mut growing: usize = all.iter().map(growing).sum();
        // Once one has to wait, nothing younger is admitted.
        let mut admitting = true;
        for (request, sequence) in self.sequences.iter_mut().enumerate().skip(self.first) {
            if sequence.live == 0 {
                continue;
            }
            if !sequence.prompt_ready() {
                if sequence.rows.is_empty() {
                    admitting = admitting && chunk > 0 && admit_prompt(&mut self.pool, sequence);
                }
                if !sequence.rows.is_empty() && chunk > 0 {
                    let count = chunk.min(sequence.prompt.len() - sequence.computed);
                    let (from, end) = (sequence.computed, sequence.computed + count);
                    let prompt = &sequence.prompt;
                    sequence.rows.offer(&mut self.pool, prompt, from, end);
                    chunks.push(ScheduledChunk {
                        request,
                        sample: None,
                        from,
                        count,
                    });
                    chunk -= count;
                }
                continue;
            }
            let max_blocks = blocks_for(sequence.max_tokens.saturating_sub(1));
            for (number, sample) in sequence.samples.iter_mut().enumerate() {
                if sample.state == SampleState::Waiting {
                    // A block is reserved for each sample that may still need one. So a newly admitted sample is not preempted at the next step.
                    let need = blocks_for(sample.tokens.len());
                    let has_blocks = sequences == 0 || need + growing <= self.pool.free();
                    admitting = admitting
                        && sequences < self.max_sequences
                        && has_blocks
                        && sample.rows.grow(&mut self.pool, sample.tokens.len());
                    if admitting {
                        sample.state = SampleState::Running;
                        sequences += 1;
                        growing += usize::from(need < max_blocks);
                    }
                }
                if sample.state == SampleState::Running {
                    // Every running sample may compute one token; further tokens come out of the shared budget.
                    let pending = sample.tokens.len() - sample.computed;
                    let count = pending.min(chunk + 1);
                    chunk -= count - 1;
                    chunks.push(ScheduledChunk {
                        request,
                        sample: Some(number),
                        from: sample.computed,
                        count,
                    });
                }
            }
        }
        chunks
    }

    /// Records that a chunk is being computed. Adds to `ready` the request and number of the samples that get a token from the chunk's last logits.
    pub(crate) fn computed(&mut self, chunk: &ScheduledChunk, ready: &mut Vec<(usize, usize)>) {
        let sequence = &mut self.sequences[chunk.request];
        match chunk.sample {
            None => {
                sequence.computed += chunk.count;
                if sequence.prompt_ready() {
                    let samples = sequence.samples.iter().enumerate();
                    let new = samples.filter(|(_, sample)| {
                        sample.state == SampleState::Waiting && sample.tokens.is_empty()
                    });
                    ready.extend(new.map(|(number, _)| (chunk.request, number)));
                }
            }
            Some(number) => {
                let sample = &mut sequence.samples[number];
                sample.computed += chunk.count;
                if sample.computed == sample.tokens.len() {
                    ready.push((chunk.request, number));
                }
            }
        }
    }

    /// Makes room for the token that is being sampled, since the next step is planned before it is known. If the sample ends with it, returns its blocks.
    pub(crate) fn expect_token(&mut self, request: usize, sample: usize) {
        if self.sequences[request].expect_token(sample) {
            self.finish(request, sample);
        }
    }

    /// Returns a finished sample's blocks to the pool, unless this has been done. After the last sample of a prompt, returns the prompt's blocks. Prompts that
    /// share them keep them.
    pub(crate) fn finish(&mut self, request: usize, sample: usize) {
        if self.sequences[request].samples[sample].state == SampleState::Done {
            return;
        }
        self.preempt(request, sample);
        let sequence = &mut self.sequences[request];
        sequence.samples[sample].state = SampleState::Done;
        sequence.live -= 1;
        if sequence.live == 0 {
            sequence.rows.release(&mut self.pool);
        }
    }

    #[cfg(test)]
    pub(crate) fn free_blocks(&self) -> usize {
        self.pool.free()
    }
}

/// Takes blocks for a prompt: those of its prefix in the KV cache, which need not be computed, and free ones for what follows. Takes none and returns `false`
/// if too few are free for these and for the first block of each of its samples.
fn admit_prompt(pool: &mut BlockAllocator, sequence: &mut SequenceGroup) -> bool {
    let prefix = pool.prefix(&sequence.prompt);
    let missing = blocks_for(sequence.prompt.len()) - prefix.len();
    if missing + sequence.live > pool.free() && pool.free() < pool.total() {
        return false;
    }
    sequence.rows.share(pool, &prefix);
    sequence.computed = prefix.len() * BLOCK;
    sequence.rows.grow(pool, sequence.prompt.len())
}
