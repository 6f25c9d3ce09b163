//! Instances that read texts. No part of a text runs in one, so it stays for the next texts, whereas an instance in which a program runs is dropped after its run.
//!
//! What a reader answers must not depend on what it has read before. So its answer counts only if it is far from every limit, and otherwise a fresh one reads again.

use std::sync::{Mutex, PoisonError};

use super::guest::Guest;
use crate::{End, Limits, Run};

/// Fuel after which a reader is dropped, so that nothing accumulates in it.
const MAX_FUEL: u64 = 10_000_000_000;
/// An answer counts if it took at most the limits of fuel and of memory, divided by this.
const MARGIN: u64 = 2;
/// The most memory of a reader that stays: instances do not give any back.
const MAX_MEMORY: u64 = 128 << 20;
/// Readers that may wait at a time.
const MAX_IDLE: usize = 64;

/// The readers that wait for texts.
#[derive(Default)]
pub(super) struct Readers(Mutex<Vec<Reader>>);

/// An instance that reads texts under the same limits each time.
pub(super) struct Reader {
    pub(super) guest: Guest,
    limits: Limits,
    /// Fuel that it has used in all.
    used: u64,
}

impl Reader {
    pub(super) fn new(guest: Guest, limits: Limits) -> Reader {
        let used = 0;
        Reader {
            guest,
            limits,
            used,
        }
    }
}

impl Readers {
    /// Takes a reader with these limits.
    pub(super) fn take(&self, limits: &Limits) -> Option<Reader> {
        let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = idle.iter().rposition(|reader| reader.limits == *limits)?;
        Some(idle.remove(at))
    }

    /// Puts a reader back after `run`, unless that came near to a limit, which is false then.
    pub(super) fn put_back(&self, mut reader: Reader, run: &Run) -> bool {
        reader.used = reader.used.saturating_add(run.fuel);
        let memory = reader.guest.memory();
        let counts = run.end == End::Completed
            && run.fuel <= reader.limits.fuel / MARGIN
            && memory <= reader.limits.memory / MARGIN;
        if counts && reader.used <= MAX_FUEL && memory <= MAX_MEMORY {
            // It may own what its run's waiters wait for.
            reader.guest.data().abandoned = None;
            let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if idle.len() >= MAX_IDLE {
                // The oldest may have limits that are no longer requested.
                idle.remove(0);
            }
            idle.push(reader);
        }
        counts
    }
}
