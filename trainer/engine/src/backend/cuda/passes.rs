//! Passes that only decode are recorded, and made again as a whole: one call of the device instead of some hundreds.
//!
//! A pass is known by where its buffers lie and by its number of tokens, which is one of a few; everything else that differs between two such passes lies in memory
//! that the kernels read.

use super::Cuda;
use super::driver::{Address, Recording};
use crate::backend::Buf;
use crate::batch::Batch;

/// Numbers of tokens for which decoding is recorded; a batch is filled up to the next one.
const BUCKETS: [usize; 11] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];

/// Recordings that are kept. A cache of keys of another size is another set of buffers, so that a long run would fill the memory with recordings of what is gone.
const KEPT: usize = 32;

/// What a recording is of: where its buffers begin and end, and for how many tokens.
pub(super) type Pass = (Vec<[Address; 2]>, usize);

/// What is known of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    /// It was made once: everything has found its place.
    Made,
    /// It was recorded.
    Recorded(Recording),
}

/// Tokens that a pass over the batch is filled up to.
pub(super) fn bucket(batch: &Batch) -> usize {
    let tokens = batch.tokens.len();
    let decodes = batch.spans.len() == tokens;
    let bucket = BUCKETS.into_iter().find(|bucket| *bucket >= tokens);
    bucket.filter(|_| decodes).unwrap_or(tokens)
}

impl Cuda {
    /// Drops all recordings: something that they may refer to lies elsewhere.
    pub(super) fn forget_recordings(&mut self) {
        self.driver.forget();
        self.recordings
            .values_mut()
            .for_each(|known| *known = Known::Made);
    }

    /// [`crate::backend::Backend::replay`].
    pub(super) fn replay_pass(&mut self, buffers: &[Buf], tokens: usize) -> bool {
        let ends = |buf: &Buf| {
            let bytes = buf.len() * self.format(*buf).bytes();
            let address = self.arena.address(*buf);
            [address, address + bytes as u64]
        };
        let pass: Pass = (buffers.iter().map(ends).collect(), tokens);
        let decodes = self.plan.single == tokens && self.plan.tiles == self.plan.single_tiles;
        if self.fault.is_some() || !decodes || !BUCKETS.contains(&tokens) {
            return false;
        }
        match self.recordings.get(&pass) {
            // The first time everything finds its place; what is allocated then cannot be recorded.
            None => {
                self.recordings.insert(pass, Known::Made);
                false
            }
            Some(Known::Made) => {
                if self
                    .recordings
                    .values()
                    .filter(|known| **known != Known::Made)
                    .count()
                    >= KEPT
                {
                    self.driver.forget();
                    self.recordings.clear();
                }
                let begun = self.driver.record();
                if self.settle(begun) == Some(true) {
                    self.recording = Some(pass);
                }
                false
            }
            Some(Known::Recorded(recording)) => {
                let replayed = self.driver.replay(*recording);
                self.settle(replayed);
                true
            }
        }
    }

    /// [`crate::backend::Backend::recorded`].
    pub(super) fn end_recording(&mut self) {
        let Some(pass) = self.recording.take() else {
            return;
        };
        let ended = self.driver.recorded();
        if let Some(recording) = self.settle(ended)
            && self.fault.is_none()
        {
            self.recordings.insert(pass, Known::Recorded(recording));
            let replayed = self.driver.replay(recording);
            self.settle(replayed);
        }
    }
}
