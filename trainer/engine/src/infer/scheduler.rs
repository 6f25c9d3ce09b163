//! Which tokens to compute next.
//!
//! Requests, and samples within them, are served in order. Each step computes one token of every running sample, and besides a bounded number of tokens of
//! prompts and of samples that were preempted. A sample is let in while there are blocks for it; when they run out, the youngest one gives its blocks up
//! and is recomputed later, from the tokens it already has. So the oldest always goes on, and everything ends.

use super::blocks::{Pool, blocks_for};
use super::sequence::{Phase, Sequence};

/// Tokens of a prompt (`sample` is `None`) or of a sample that are computed next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ScheduledChunk {
    pub(crate) request: usize,
    pub(crate) sample: Option<usize>,
    /// First token, counted from the beginning of the prompt or of the sample.
    pub(crate) from: usize,
    pub(crate) count: usize,
}

/// The requests and the store's blocks.
#[derive(Debug)]
pub(crate) struct Scheduler {
    pub(crate) sequences: Vec<Sequence>,
    pool: Pool,
    max_sequences: usize,
    /// Tokens of a step beside one of each running sample.
    chunk: usize,
    /// Requests before this one are done.
    first: usize,
}

impl Scheduler {
    /// A store of `blocks` blocks must hold the largest request's prompt and one sample of it ([`Scheduler::blocks_needed`]).
    pub(crate) fn new(
        sequences: Vec<Sequence>,
        blocks: usize,
        max_sequences: usize,
        chunk: usize,
    ) -> Self {
        Self {
            sequences,
            pool: Pool::new(blocks),
            max_sequences: max_sequences.max(1),
            chunk: chunk.max(1),
            first: 0,
        }
    }

    /// Blocks without which a request cannot be served. The last token's keys are never needed.
    pub(crate) fn blocks_needed(sequence: &Sequence) -> usize {
        blocks_for(sequence.prompt.len()) + blocks_for(sequence.most.saturating_sub(1))
    }

    /// What to compute next; empty when every sample is done.
    pub(crate) fn plan(&mut self) -> Vec<ScheduledChunk> {
        while self.first < self.sequences.len() && self.sequences[self.first].live == 0 {
            self.first += 1;
        }
        self.make_room();
        loop {
            let chunks = self.chunks();
            // Nothing can be computed only where prompts without running samples sit on the blocks.
            if !chunks.is_empty() || !self.evict_idle_prompt(self.first) {
                return chunks;
            }
        }
    }

    /// Gives every running sample the rows for the tokens that it has, oldest first, interrupting the youngest where blocks run out.
    fn make_room(&mut self) {
        for request in self.first..self.sequences.len() {
            for sample in 0..self.sequences[request].samples.len() {
                while !self.grows(request, sample) {
                    if !self.interrupt_after(request, sample) {
                        self.preempt(request, sample);
                        break;
                    }
                }
            }
        }
    }

    /// Whether a sample has its rows, now or because it does not run.
    fn grows(&mut self, request: usize, sample: usize) -> bool {
        let sample = &mut self.sequences[request].samples[sample];
        sample.phase != Phase::Running || sample.rows.grow(&mut self.pool, sample.tokens.len())
    }

    /// Frees blocks of something younger than this sample; `false` where nothing younger has any.
    fn interrupt_after(&mut self, request: usize, sample: usize) -> bool {
        for other in (request..self.sequences.len()).rev() {
            let oldest = if other == request { sample + 1 } else { 0 };
            let samples = &self.sequences[other].samples[oldest..];
            if let Some(n) = samples.iter().rposition(|s| s.phase == Phase::Running) {
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
        sample.computed = 0;
        sample.phase = Phase::Waiting;
    }

    /// Frees the blocks of the youngest prompt after `first` that no running sample reads.
    fn evict_idle_prompt(&mut self, first: usize) -> bool {
        (first + 1..self.sequences.len())
            .rev()
            .any(|request| !self.sequences[request].runs() && self.drop_prompt(request))
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
        let running = |s: &Sequence| s.running().count();
        let growing = |s: &Sequence| s.running().filter(|sample| s.grows(sample)).count();
        let all = &self.sequences[self.first..];
        let mut sequences: usize = all.iter().map(running).sum();
        // Running samples that may ask for another block.
        let mut growing: usize = all.iter().map(growing).sum();
        // Once someone has to wait, nobody younger is let in.
        let mut open = true;
        for (request, sequence) in self.sequences.iter_mut().enumerate().skip(self.first) {
            if sequence.live == 0 {
                continue;
            }
            if !sequence.prompt_ready() {
                if sequence.rows.is_empty() {
                    let rows = sequence.prompt.len();
                    let fits = blocks_for(rows) + sequence.live <= self.pool.free()
                        || self.pool.free() == self.pool.total();
                    open = open && chunk > 0 && fits && sequence.rows.grow(&mut self.pool, rows);
                }
                if !sequence.rows.is_empty() && chunk > 0 {
                    let count = chunk.min(sequence.prompt.len() - sequence.computed);
                    chunks.push(ScheduledChunk {
                        request,
                        sample: None,
                        from: sequence.computed,
                        count,
                    });
                    chunk -= count;
                }
                continue;
            }
            let last = blocks_for(sequence.most.saturating_sub(1));
            for (number, sample) in sequence.samples.iter_mut().enumerate() {
                if sample.phase == Phase::Waiting {
                    // A block is left for each that may still ask for one, so that what is let in is not preempted at the next step.
                    let need = blocks_for(sample.tokens.len());
                    let room = sequences == 0 || need + growing <= self.pool.free();
                    open = open
                        && sequences < self.max_sequences
                        && room
                        && sample.rows.grow(&mut self.pool, sample.tokens.len());
                    if open {
                        sample.phase = Phase::Running;
                        sequences += 1;
                        growing += usize::from(need < last);
                    }
                }
                if sample.phase == Phase::Running {
                    // One token is every running sample's right; more of them come out of the common budget.
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

    /// Notes that a chunk has been computed; returns the samples for which a token can now be drawn from the chunk's last token.
    pub(crate) fn computed(&mut self, chunk: &ScheduledChunk) -> Vec<usize> {
        let sequence = &mut self.sequences[chunk.request];
        match chunk.sample {
            None => {
                sequence.computed += chunk.count;
                if !sequence.prompt_ready() {
                    return Vec::new();
                }
                let new = sequence.samples.iter().enumerate();
                new.filter(|(_, sample)| sample.phase == Phase::Waiting && sample.tokens.is_empty())
                    .map(|(number, _)| number)
                    .collect()
            }
            Some(number) => {
                let sample = &mut sequence.samples[number];
                sample.computed += chunk.count;
                let complete = sample.computed == sample.tokens.len();
                complete.then_some(number).into_iter().collect()
            }
        }
    }

    /// Gives a finished sample's blocks back, and those of its prompt with the last of its samples.
    pub(crate) fn finish(&mut self, request: usize, sample: usize) {
        self.preempt(request, sample);
        let sequence = &mut self.sequences[request];
        sequence.samples[sample].phase = Phase::Done;
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
