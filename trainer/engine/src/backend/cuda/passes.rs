//! Passes that only decode are recorded, and made again as a whole: one call of the device instead of some hundreds.
//!
//! A pass is known by where its buffers lie and by its number of tokens, which is one of a few; everything else that differs between two such passes lies in memory
//! that the kernels read.

use std::collections::HashMap;

use super::Cuda;
use super::driver::{Address, Fault, Recording};
use crate::backend::Buf;
use crate::batch::Batch;

/// Numbers of tokens for which decoding is recorded; a batch is filled up to the next one.
const BUCKETS: [usize; 11] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];

/// Recordings that are kept. A cache of keys of another size is another set of buffers, so that a long run would fill the memory with recordings of what is gone.
const KEPT: usize = 32;

/// Recordings that may fail before no more are tried: passes made call by call are slower, and right.
const FAILURES: usize = 3;

/// What a recording is of: where its buffers begin and end, and for how many tokens.
type Pass = (Vec<[Address; 2]>, usize);

/// What is known of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    /// It was made once: everything has found its place.
    Made,
    /// It was recorded.
    Recorded(Recording),
}

/// What is known of passes.
#[derive(Debug, Default)]
pub(super) struct Recordings {
    /// Passes that were made; recorded from the second time on.
    known: HashMap<Pass, Known>,
    /// The pass that is being recorded.
    current: Option<Pass>,
    /// How many did not succeed.
    failed: usize,
}

impl Recordings {
    /// Forgets what was made and what was recorded.
    pub(super) fn clear(&mut self) {
        self.known.clear();
    }
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
            .known
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
        let tried = self.recordings.failed < FAILURES;
        if self.fault.is_some() || !decodes || !tried || !BUCKETS.contains(&tokens) {
            return false;
        }
        match self.recordings.known.get(&pass) {
            // The first time everything finds its place; what is allocated then cannot be recorded.
            None => {
                self.recordings.known.insert(pass, Known::Made);
                false
            }
            Some(Known::Made) => {
                if self
                    .recordings
                    .known
                    .values()
                    .filter(|known| **known != Known::Made)
                    .count()
                    >= KEPT
                {
                    self.driver.forget();
                    self.recordings.clear();
                }
                match self.driver.record() {
                    Ok(true) => self.recordings.current = Some(pass),
                    Ok(false) => {}
                    Err(fault) => self.not_recorded(&fault),
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
    pub(super) fn end_recording(&mut self) -> bool {
        let Some(pass) = self.recordings.current.take() else {
            return true;
        };
        let ended = self.driver.recorded();
        let recording = self.settle(ended);
        // Nothing has run since the recording began, so what went wrong is the recording's.
        match (recording, self.fault.take()) {
            (Some(recording), None) => {
                self.recordings
                    .known
                    .insert(pass, Known::Recorded(recording));
                let replayed = self.driver.replay(recording);
                self.settle(replayed);
                true
            }
            (_, fault) => {
                // Unknown again, so that the next pass is made before one is recorded.
                self.recordings.known.remove(&pass);
                if let Some(fault) = fault {
                    self.not_recorded(&fault);
                }
                false
            }
        }
    }

    fn not_recorded(&mut self, fault: &Fault) {
        self.recordings.failed += 1;
        tracing::warn!("decoding was not recorded, and goes on call by call: {fault}");
    }
}
