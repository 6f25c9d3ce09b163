//! The limit of a program's fuel.

use std::time::Duration;

use sandboxes::{Limits, Sandbox, docker};

/// Fuel in WebAssembly for what a native interpreter does in a second. A task's `time_limit` gives this much for each second.
const FUEL_PER_SECOND: u64 = 25_000_000_000;
/// The limit of fuel in multiples of what the task's canonical solution uses.
const CANONICAL_FUEL: u64 = 10;

/// Fuel per second that even a slow machine burns on the slowest work per unit of fuel (reads scattered over memory). It determines the backstop.
const SLOW_FUEL_PER_SECOND: f64 = 1e8;

/// The fuel in `sandbox` of a program on a task with this time limit. `canonical` is the fuel of its canonical solution, if known. `limits` has the minimum. A program
/// that works like the solution has enough fuel, whatever the time limit.
pub(super) fn fuel_limit(
    sandbox: &dyn Sandbox,
    limits: &Limits,
    time_limit: Option<Duration>,
    canonical: Option<u64>,
) -> u64 {
    let least = limits.fuel;
    let in_docker = sandbox.identity().backend == docker::BACKEND;
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

/// `limits` with this amount of fuel, and a backstop far longer than the fuel lasts.
pub(super) fn with_fuel(limits: Limits, fuel: u64) -> Limits {
    Limits {
        fuel,
        backstop: limits.backstop.max(fuel as f64 / SLOW_FUEL_PER_SECOND),
        ..limits
    }
}
