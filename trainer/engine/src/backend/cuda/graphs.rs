//! Decoding passes are recorded and replayed as a whole: one call of the device instead of hundreds.
//!
//! A pass is identified by the addresses of its buffers and by its number of tokens, rounded up to one of a few. All other differences between two passes are
//! in memory that the kernels read.

use std::collections::HashMap;

use super::Cuda;
use super::driver::{Address, Fault, Recording};
use crate::backend::Buf;

/// Decoding is recorded for these numbers of tokens: powers of two up to this, then multiples of it up to 16 times as many. Beyond that, the step is a
/// sixteenth of the next power of two, so padding takes at most an eighth of a pass.
const STEP: usize = 64;

/// Maximum number of recordings: those of two KV caches for up to 1,024 sequences at once, 22 each, or of one for up to 16,384. A KV cache of another size has
/// other buffers. Without a limit, a long run would fill the memory with recordings for buffers that no longer exist.
const MAX_RECORDINGS: usize = 56;

/// Number of failed recordings after which no more are tried. Passes that are run call by call are slower, but correct.
const FAILURES: usize = 3;

/// Identity of a pass: the start and end of each buffer, and the number of tokens.
type Pass = (Vec<[Address; 2]>, usize);

/// The passes that have run, and their recordings.
#[derive(Debug, Default)]
pub(super) struct Recordings {
    /// Passes that have run once, so that all their memory is allocated. Those that have run again have a recording.
    pub(super) passes: HashMap<Pass, Option<Recording>>,
    /// The pass that is being recorded.
    current: Option<Pass>,
    /// Number of recordings that failed.
    failed: usize,
}

/// The smallest number of tokens, not below `tokens`, that decoding is recorded for.
pub(super) fn bucket(tokens: usize) -> usize {
    let power = tokens.next_power_of_two();
    if tokens <= STEP {
        return power;
    }
    tokens.next_multiple_of(STEP.max(power / 16))
}

impl Cuda {
    /// See [`crate::backend::Backend::replay`].
    pub(super) fn replay_pass(&mut self, buffers: &[Buf], tokens: usize) -> bool {
        // A recording contains its own conversions.
        self.converted = None;
        let ends = |buf: &Buf| {
            let bytes = buf.len() * self.format(*buf).bytes();
            let address = self.arena.address(*buf);
            [address, address + bytes as u64]
        };
        let pass: Pass = (buffers.iter().map(ends).collect(), tokens);
        let decodes = self.plan.single == tokens && self.plan.tiles == self.plan.single_tiles;
        let allowed = self.recordings.failed < FAILURES;
        if self.fault.is_some() || !decodes || !allowed || bucket(tokens) != tokens {
            return false;
        }
        match self.recordings.passes.get(&pass) {
            // The first run allocates all memory. Allocations cannot be recorded.
            None => {
                self.recordings.passes.insert(pass, None);
                false
            }
            Some(None) => {
                if self.recordings.passes.values().flatten().count() >= MAX_RECORDINGS {
                    self.driver.drop_recordings();
                    self.recordings.passes.clear();
                }
                match self.driver.begin_recording() {
                    Ok(()) => self.recordings.current = Some(pass),
                    Err(fault) => self.not_recorded(&fault),
                }
                false
            }
            Some(Some(recording)) => {
                let replayed = self.driver.replay(*recording);
                self.store_fault(replayed);
                true
            }
        }
    }

    /// See [`crate::backend::Backend::end_pass`].
    pub(super) fn end_recording(&mut self) -> bool {
        self.converted = None;
        let Some(pass) = self.recordings.current.take() else {
            return true;
        };
        let ended = self.driver.end_recording();
        let recording = self.store_fault(ended);
        // Nothing has run since the recording began, so the failure is the recording's own.
        match (recording, self.fault.take()) {
            (Some(recording), None) => {
                self.recordings.passes.insert(pass, Some(recording));
                let replayed = self.driver.replay(recording);
                self.store_fault(replayed);
                true
            }
            (_, fault) => {
                // Forgotten, so that the pass runs once before it is recorded again.
                self.recordings.passes.remove(&pass);
                if let Some(fault) = fault {
                    self.not_recorded(&fault);
                }
                false
            }
        }
    }

    fn not_recorded(&mut self, fault: &Fault) {
        self.recordings.failed += 1;
        tracing::warn!("decoding was not recorded and continues call by call: {fault}");
    }
}

#[cfg(test)]
mod tests {
    use super::bucket;

    #[test]
    fn padding_is_at_most_an_eighth_of_a_large_pass() {
        for tokens in 1..20_000 {
            let padded = bucket(tokens);
            assert_eq!(bucket(padded), padded);
            assert!(padded >= tokens && (padded - tokens) * 8 < padded.max(8 * 64));
        }
    }
}
