//! All that a guest can see of the outside.

use std::sync::Arc;

use wasmtime::{Memory, ResourceLimiter};

use super::door::Door;
use super::fuel::Tank;
use super::stop::Stop;
use super::wasi::{Clock, Files, Output, Random};
use crate::Limits;

/// The data of a guest's store.
pub(super) struct World {
    pub(super) files: Files,
    pub(super) clock: Clock,
    pub(super) random: Random,
    pub(super) stdout: Output,
    pub(super) stderr: Output,
    pub(super) door: Door,
    pub(super) room: Room,
    /// What the guest may still do, known once it is instantiated; nothing is counted while the interpreter is warmed.
    pub(super) tank: Option<Tank>,
    /// The guest's linear memory, known once it is instantiated.
    pub(super) memory: Option<Memory>,
}

impl World {
    /// A world of which only the library's zip, the limits and the door are to choose.
    pub(super) fn new(library: Arc<[u8]>, limits: &Limits, door: Door) -> World {
        World {
            files: Files::new(library),
            clock: Clock::new(),
            random: Random::new(),
            stdout: Output::new(limits.output),
            stderr: Output::new(limits.output),
            door,
            room: Room {
                limit: limits.memory,
                peak: 0,
            },
            tank: None,
            memory: None,
        }
    }
}

/// The memory limit. A guest that asks for more is stopped there and then: a `MemoryError` that Python could catch would
/// make the outcome depend on how near to the limit each allocation lands.
pub(super) struct Room {
    limit: u64,
    peak: u64,
}

impl Room {
    /// Highest size of the linear memory so far, in bytes.
    pub(super) fn peak(&self) -> u64 {
        self.peak
    }
}

impl ResourceLimiter for Room {
    fn memory_growing(
        &mut self,
        _current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let desired = desired as u64;
        if desired > self.limit || maximum.is_some_and(|maximum| desired > maximum as u64) {
            return Err(Stop::Memory.into());
        }
        self.peak = self.peak.max(desired);
        Ok(true)
    }

    fn table_growing(
        &mut self,
        _current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        Ok(desired <= 1 << 20)
    }
}
