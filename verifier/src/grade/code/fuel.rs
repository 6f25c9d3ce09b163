//! The limit of a program's fuel.

use std::time::Duration;

use sandboxes::docker;

use super::CodeGrader;

/// Fuel in WebAssembly for what a native interpreter does in a second: a task's `time_limit` has this much for each of its seconds.
const FUEL_PER_SECOND: u64 = 25_000_000_000;
/// The limit of fuel in multiples of what the task's canonical solution uses.
const CANONICAL_FUEL: u64 = 10;

impl CodeGrader {
    /// The fuel of a program on a task with this time limit, whose canonical solution uses `canonical` units, if that is known. A program that works like the solution has
    /// enough of it, whatever the time limit.
    pub(super) fn fuel_limit(&self, time_limit: Option<Duration>, canonical: Option<u64>) -> u64 {
        let least = self.limits.fuel;
        let in_docker = self.sandbox.identity().backend == docker::BACKEND;
        let second = if in_docker {
            docker::FUEL_PER_SECOND
        } else {
            FUEL_PER_SECOND
        } as f64;
        let by_time = time_limit.map(|limit| (limit.as_secs_f64() * second) as u64);
        let by_solution = |factor: u64| canonical.unwrap_or(0).saturating_mul(factor);
        match by_time {
            Some(by_time) if !in_docker => by_time.max(by_solution(2)),
            // 50 G unless it is set.
            None if !in_docker && canonical.is_none() => least.saturating_mul(5) / 2,
            _ => least
                .max(by_time.unwrap_or(0))
                .max(by_solution(CANONICAL_FUEL)),
        }
    }
}
