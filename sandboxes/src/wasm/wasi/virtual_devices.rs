//! Time, randomness and the standard streams. A native program would get them from the machine.

use super::errno::{self, Errno};

/// Seconds from 1970 to 2025-01-01T00:00:00Z, the start of every run's clock.
const EPOCH: u64 = 1_735_689_600;

/// A clock that measures work. It advances by a nanosecond for each unit of fuel, by a microsecond for each reading, and by the time that the program sleeps.
/// Sleeping takes no real time.
pub(in crate::wasm) struct Clock {
    skipped: u64,
}

impl Clock {
    pub(in crate::wasm) fn new() -> Clock {
        Clock { skipped: 0 }
    }

    /// Nanoseconds since the run began. `work` is the fuel used so far.
    pub(super) fn elapsed(&mut self, work: u64) -> u64 {
        self.skip(1_000);
        self.skipped.saturating_add(work)
    }

    /// Advances the clock by `nanoseconds`.
    pub(super) fn skip(&mut self, nanoseconds: u64) {
        self.skipped = self.skipped.saturating_add(nanoseconds);
    }

    /// The calendar time at `elapsed`, in nanoseconds since 1970.
    pub(super) fn calendar(elapsed: u64) -> u64 {
        (EPOCH * 1_000_000_000).saturating_add(elapsed)
    }
}

/// The same sequence of random bytes in every run.
pub(in crate::wasm) fn random() -> blake3::OutputReader {
    blake3::Hasher::new_derive_key("rapid sandboxes wasm random 1").finalize_xof()
}

/// Stores the first bytes written.
pub(in crate::wasm) struct Output {
    bytes: Vec<u8>,
    limit: usize,
    /// Whether a write beyond the limit fails. Otherwise the rest is dropped, and the guest does not notice.
    refuses: bool,
    /// Whether more than the limit was written.
    exceeded: bool,
}

impl Output {
    pub(in crate::wasm) fn new(limit: usize) -> Output {
        Output {
            bytes: Vec::new(),
            limit,
            refuses: false,
            exceeded: false,
        }
    }

    /// An output that refuses what is beyond its limit.
    pub(in crate::wasm) fn refusing(limit: usize) -> Output {
        Output {
            refuses: true,
            ..Output::new(limit)
        }
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), Errno> {
        let room = self.limit - self.bytes.len();
        self.bytes
            .extend_from_slice(&bytes[..bytes.len().min(room)]);
        self.exceeded |= bytes.len() > room;
        match self.refuses && self.exceeded {
            true => Err(errno::FBIG),
            false => Ok(()),
        }
    }

    pub(in crate::wasm) fn exceeded(&self) -> bool {
        self.exceeded
    }

    /// The stored bytes, as text.
    pub(in crate::wasm) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}
