//! An instance that only parses texts, and how long it stays for further ones.

use super::guest::Guest;
use crate::idle_parsers::IdleParsers;
use crate::{End, Limits, Run};

/// Fuel after which an instance is dropped, so that nothing accumulates in it.
const MAX_FUEL: u64 = 10_000_000_000;
/// An answer counts if it took at most the limits of fuel and of memory, divided by this.
const MARGIN: u64 = 2;
/// Maximum memory of an instance that stays, since instances do not give any back.
const MAX_MEMORY: u64 = 128 << 20;
/// Instances that may wait at a time.
pub(super) const MAX_IDLE: usize = 64;

/// An instance that reads texts under the same limits each time.
pub(super) struct ParsingInstance {
    pub(super) guest: Guest,
    /// Fuel that it has used in all.
    pub(super) used: u64,
}

impl ParsingInstance {
    /// Puts an instance back after `run`, unless it is used up. Returns whether the answer counts.
    pub(super) fn put_back(
        mut self,
        idle: &IdleParsers<ParsingInstance>,
        limits: &Limits,
        run: &Run,
    ) -> bool {
        self.used = self.used.saturating_add(run.fuel);
        let memory = self.guest.memory();
        let counts = counts(run, limits, memory);
        if counts && stays(self.used, memory) {
            // The closure may own what the run's waiters wait for.
            self.guest.data().abandoned = None;
            idle.put_back(*limits, self);
        }
        counts
    }
}

/// Whether an answer is far from every limit. `memory` is the instance's, in bytes.
fn counts(run: &Run, limits: &Limits, memory: u64) -> bool {
    run.end == End::Completed
        && run.fuel <= limits.fuel / MARGIN
        && memory <= limits.memory / MARGIN
}

/// Whether an instance stays that has used `used` fuel and has `memory` bytes of memory.
fn stays(used: u64, memory: u64) -> bool {
    used <= MAX_FUEL && memory <= MAX_MEMORY
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parsing_instance_stays_while_it_is_small_and_new() {
        let limits = Limits {
            fuel: 20_000_000_000,
            memory: 512 << 20,
            ..Limits::default()
        };
        let (half, most) = (limits.fuel / 2, MAX_FUEL);
        for (end, fuel, used, mib, expected) in [
            (End::Completed, 1_000, 1_000, 64, (true, true)),
            (End::Completed, half, most, 128, (true, true)),
            (End::Completed, half + 1, most + 1, 64, (false, false)),
            (End::Completed, 1_000, most + 1, 64, (true, false)),
            (End::Completed, 1_000, 1_000, 129, (true, false)),
            (End::Completed, 1_000, 1_000, 256, (true, false)),
            (End::Completed, 1_000, 1_000, 257, (false, false)),
            (End::OutOfFuel, 1_000, 1_000, 64, (false, true)),
            (
                End::Died("exit".to_owned()),
                1_000,
                1_000,
                64,
                (false, true),
            ),
        ] {
            let run = Run {
                calls: Vec::new(),
                end,
                fuel,
                stdout: String::new(),
            };
            let memory = mib << 20;
            let found = (counts(&run, &limits, memory), stays(used, memory));
            assert_eq!(found, expected, "{run:?}, {used}, {mib} MiB");
        }
    }
}
