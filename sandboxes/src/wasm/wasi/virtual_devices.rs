//! Time, randomness and standard output, which a program elsewhere would get from the machine.

/// Seconds from 1970 to 2025-01-01T00:00:00Z, where every run's clock begins.
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

/// The same sequence of bytes in every run.
pub(in crate::wasm) struct Random {
    stream: blake3::OutputReader,
}

impl Random {
    pub(in crate::wasm) fn new() -> Random {
        Random {
            stream: blake3::Hasher::new_derive_key("rapid sandboxes wasm random 1").finalize_xof(),
        }
    }

    pub(super) fn fill(&mut self, bytes: &mut [u8]) {
        self.stream.fill(bytes);
    }
}

/// Stores the first bytes written, and drops the rest.
pub(in crate::wasm) struct Output {
    bytes: Vec<u8>,
    limit: usize,
}

impl Output {
    pub(in crate::wasm) fn new(limit: usize) -> Output {
        Output {
            bytes: Vec::new(),
            limit,
        }
    }

    pub(super) fn write(&mut self, bytes: &[u8]) {
        let room = self.limit - self.bytes.len();
        self.bytes
            .extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// The stored bytes, as text.
    pub(in crate::wasm) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}
