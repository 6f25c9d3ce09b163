//! Operations on logits: log-probabilities of targets, and sampling.

use std::ops::Range;

use super::driver::Arg;
use super::launch::{blocks, size};
use super::scratch::Use;
use super::{Cuda, VOCABULARY};
use crate::backend::{Buf, Target};
use crate::error::EngineError;
use crate::sample::{Draw, NotFinite, Sampled};

/// Bytes of the kernels' `struct Draw`.
const DRAW: usize = 40;
/// Bytes of the result of a draw: a token, its log-probability, and whether the logits were not finite.
const SAMPLED: usize = 12;

/// Maximum number of rows of logits that exist at once.
const MAX_ROWS: usize = 4096;
/// If there are at least this many, their number is a multiple of this: the rows of a product's tile.
const ROWS_STEP: usize = 128;
/// Bytes of a logit: in f32, and converted to bf16 for the products of the backward pass.
const LOGIT: u64 = 6;
/// Logits may take one part in this many of the device's memory.
const SHARES: u64 = 32;

/// Number of rows of logits that the head computes at a time on a device with this many bytes of memory. The head's weight is read once for them. Reading it
/// takes as long as the arithmetic of about 200 rows (on an H200), so it hardly counts from 1,000 rows on.
pub(crate) fn logits_rows(memory: u64, vocabulary: usize) -> usize {
    let fitting = memory / SHARES / (LOGIT * vocabulary as u64);
    let rows = MAX_ROWS.min(fitting as usize);
    match rows / ROWS_STEP * ROWS_STEP {
        0 => rows.max(1),
        whole => whole,
    }
}

impl Cuda {
    /// Sends the targets of each row: `rows + 1` offsets, the targets' tokens, and the numbers of `with`. Returns the addresses of the three.
    pub(super) fn send_targets(
        &mut self,
        rows: usize,
        targets: &[Target],
        with: &[f32],
    ) -> Option<[Arg; 3]> {
        let mut words: Vec<u32> = (0..=rows)
            .map(|row| targets.partition_point(|target| target.row < row) as u32)
            .collect();
        words.extend(targets.iter().map(|target| target.token));
        words.extend(with.iter().map(|x| x.to_bits()));
        let address = self.send(Use::Indices, &words)?;
        let at = |words: usize| Arg::Address(address + 4 * words as u64);
        Some([at(0), at(rows + 1), at(rows + 1 + targets.len())])
    }

    /// See [`crate::backend::Backend::draws`].
    pub(super) fn send_draws(&mut self, draws: &[Draw]) {
        // The kernels' `struct Draw`: seed, index, temperature, top_p, min_p, top_k, and the range of its suppressed tokens, which follow all draws. Padding rows sample
        // greedily.
        let rows = draws.len().max(self.plan.tokens);
        let mut suppressed: Vec<u32> = Vec::new();
        let halves = |n: u64| [n as u32, (n >> 32) as u32];
        let mut words: Vec<u32> = Vec::with_capacity(DRAW / 4 * draws.len());
        for draw in draws {
            let s = draw.sampling;
            words.extend(halves(draw.seed));
            words.extend(halves(draw.index));
            words.extend([s.temperature, s.top_p, s.min_p].map(f32::to_bits));
            words.push(u32::try_from(s.top_k).unwrap_or(0));
            words.extend([suppressed.len(), draw.suppressed.len()].map(|n| n as u32));
            suppressed.extend_from_slice(&draw.suppressed);
        }
        words.resize(DRAW / 4 * rows, 0);
        words.extend(suppressed);
        self.draws = draws.len();
        self.send(Use::Draws, &words);
        self.scratch(Use::Sampled, SAMPLED * rows);
    }

    /// See [`crate::backend::Backend::sample`].
    pub(super) fn launch_sampling(&mut self, logits: Buf, vocabulary: usize, draws: Range<usize>) {
        let rows = self.draws.max(self.plan.tokens);
        let (Some(from), Some(sampled)) = (
            self.scratch(Use::Draws, DRAW * rows),
            self.scratch(Use::Sampled, SAMPLED * rows),
        ) else {
            return;
        };
        let result = |part: usize| Arg::Address(sampled + 4 * (part * rows + draws.start) as u64);
        let args = [
            result(0),
            result(1),
            result(2),
            self.at(logits),
            size(vocabulary),
            Arg::Address(from + (DRAW * draws.start) as u64),
            Arg::Address(from + (DRAW * rows) as u64),
        ];
        self.launch("sample", blocks([draws.len(), 1, 1], VOCABULARY), &args);
    }

    /// See [`crate::backend::Backend::sampled`].
    pub(super) fn read_sampled(&mut self) -> Result<Vec<Sampled>, EngineError> {
        let rows = self.draws.max(self.plan.tokens);
        let sampled = self
            .scratch(Use::Sampled, SAMPLED * rows)
            .unwrap_or_default();
        let mut bytes = vec![0; SAMPLED * rows];
        self.read(sampled, &mut bytes)?;
        let words = bytes.as_chunks().0;
        let word = |part: usize, i: usize| u32::from_le_bytes(words[part * rows + i]);
        (0..self.draws)
            .map(|i| match word(2, i) {
                0 => Ok(Sampled {
                    token: word(0, i),
                    logp: f32::from_bits(word(1, i)),
                }),
                _ => Err(EngineError::Numeric(NotFinite.to_string())),
            })
            .collect()
    }
}
