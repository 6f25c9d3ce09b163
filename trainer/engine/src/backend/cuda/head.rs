//! What is asked of logits: log-probabilities of targets, and draws.

use std::ops::Range;

use super::call::{blocks, size};
use super::driver::Arg;
use super::scratch::Use;
use super::{Cuda, VOCABULARY};
use crate::backend::{Buf, Target};
use crate::error::EngineError;
use crate::sample::NotFinite;
use crate::sample::{Draw, Sampled};

/// Bytes of `struct Draw`.
const DRAW: usize = 32;
/// Bytes of what one draw drew: a token, its log-probability, whether the logits were not finite.
const DRAWN: usize = 12;

impl Cuda {
    /// Which targets belong to each row, and their tokens: offsets of `rows + 1` words, then tokens, then `with`.
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

    /// [`crate::backend::Backend::draws`].
    pub(super) fn send_draws(&mut self, draws: &[Draw]) {
        // `struct Draw`: seed, index, temperature, top_p, min_p, top_k. Rows for the shape's sake draw greedily.
        let halves = |n: u64| [n as u32, (n >> 32) as u32];
        let mut words: Vec<u32> = Vec::with_capacity(DRAW / 4 * draws.len());
        for draw in draws {
            let s = draw.sampling;
            words.extend(halves(draw.seed));
            words.extend(halves(draw.index));
            words.extend([s.temperature, s.top_p, s.min_p].map(f32::to_bits));
            words.push(u32::try_from(s.top_k).unwrap_or(0));
        }
        let most = draws.len().max(self.plan.tokens);
        words.resize(DRAW / 4 * most, 0);
        self.draws = draws.len();
        self.send(Use::Draws, &words);
        self.scratch(Use::Drawn, DRAWN * most);
    }

    /// [`crate::backend::Backend::sample`].
    pub(super) fn launch_draws(&mut self, logits: Buf, vocabulary: usize, draws: Range<usize>) {
        let most = self.draws.max(self.plan.tokens);
        let (Some(from), Some(drawn)) = (
            self.scratch(Use::Draws, DRAW * most),
            self.scratch(Use::Drawn, DRAWN * most),
        ) else {
            return;
        };
        let result = |part: usize| Arg::Address(drawn + 4 * (part * most + draws.start) as u64);
        let args = [
            result(0),
            result(1),
            result(2),
            self.at(logits),
            size(vocabulary),
            Arg::Address(from + (DRAW * draws.start) as u64),
        ];
        self.launch("sample", blocks([draws.len(), 1, 1], VOCABULARY), &args);
    }

    /// [`crate::backend::Backend::sampled`].
    pub(super) fn read_drawn(&mut self) -> Result<Vec<Sampled>, EngineError> {
        let most = self.draws.max(self.plan.tokens);
        let drawn = self.scratch(Use::Drawn, DRAWN * most).unwrap_or_default();
        let mut bytes = vec![0; DRAWN * most];
        self.read(drawn, &mut bytes)?;
        let words = bytes.as_chunks().0;
        let word = |part: usize, i: usize| u32::from_le_bytes(words[part * most + i]);
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
