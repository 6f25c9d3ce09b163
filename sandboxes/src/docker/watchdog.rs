//! Ends a run that does not end by itself. Such a run is not repeated: a program that loops or waits in one run of two must not gain from a second run.
//!
//! An honest program must not be ended because the machine is busy. So the processor time of its container counts; the kernel reports it. The wall clock counts only if
//! a program takes almost no processor time, and not while the verifier itself stands still.

use std::time::{Duration, Instant};

use bollard::errors::Error;

use super::engine::engine_failed;
use super::guest::Meter;
use super::termination::Termination;
use crate::{End, Limits};

/// Fuel per second of processor time. A native interpreter does about as much in a second as 25 G of fuel buy in wasm. So a limit here has another number than one in
/// wasm.
pub const FUEL_PER_SECOND: u64 = 2_000_000_000;

/// A program with almost no processor time for this long is ended: it waits for something that will not happen.
const IDLE: Duration = Duration::from_secs(10);
/// The share of the elapsed time up to which processor time counts as almost none.
const IDLE_SHARE: f64 = 0.01;
/// The wall-clock time of a run, in multiples of its processor time. A program that gets less than a twentieth of a processor all the time waits on purpose. If the
/// machine is as busy as that, an honest program is out of time only if it needs nearly all of its processor time.
const MAX_SLOWDOWN: u32 = 20;
/// The minimum of this multiple, if the backstop is shorter than [`MAX_SLOWDOWN`] allows.
const MIN_SLOWDOWN: u32 = 4;
/// A later check than this shows that the machine stood still or was suspended. That time does not count.
const LATE: Duration = Duration::from_secs(1);
/// The shortest and the longest time between two checks.
const INTERVAL: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));
/// Failed checks in a row after which the engine has failed.
const MAX_UNANSWERED: usize = 5;

/// The processor time for `fuel`.
pub(super) fn allowed(fuel: u64) -> Duration {
    Duration::try_from_secs_f64(fuel as f64 / FUEL_PER_SECOND as f64).unwrap_or(Duration::MAX)
}

/// The fuel for `time`.
pub(super) fn fuel(time: Duration) -> u64 {
    (time.as_secs_f64() * FUEL_PER_SECOND as f64) as u64
}

/// Returns when the guests of the meters together exceed the processor time of `limits`, or wait. Never returns before that much time has passed on the wall clock: no
/// guest has more than one processor, and the guests take turns.
pub(super) async fn overrun(meters: &[Meter], limits: Limits) -> Termination {
    let allowed = allowed(limits.fuel);
    let deadline = deadline(allowed, limits.backstop);
    let started = Instant::now();
    let mut lost_time = Duration::ZERO;
    let mut progress = Progress {
        allowed,
        last_active: (Duration::ZERO, Duration::ZERO),
    };
    let mut pause = allowed.max(INTERVAL.0);
    let mut unanswered = 0;
    loop {
        let asleep = Instant::now();
        tokio::time::sleep(pause).await;
        let late = asleep.elapsed().saturating_sub(pause);
        if late > LATE {
            lost_time += late;
        }
        let elapsed = started.elapsed().saturating_sub(lost_time);
        if elapsed >= deadline {
            return Termination::Ended(End::OutOfTime);
        }
        match measure(meters).await {
            Ok(Some(used)) => {
                unanswered = 0;
                match progress.check(elapsed, used) {
                    Some(next) => {
                        pause = next.min(deadline - elapsed).clamp(INTERVAL.0, INTERVAL.1);
                    }
                    None => return Termination::Ended(End::OutOfTime),
                }
            }
            // A container has ended, and the conversation is about to notice.
            Ok(None) => pause = INTERVAL.1,
            Err(error) => {
                unanswered += 1;
                if unanswered == MAX_UNANSWERED {
                    return engine_failed("a program's processor time was read", &error).into();
                }
                pause = INTERVAL.0;
            }
        }
    }
}

/// The maximum wall-clock time of a run with `allowed` processor time.
fn deadline(allowed: Duration, backstop: f64) -> Duration {
    let backstop = Duration::try_from_secs_f64(backstop).unwrap_or(Duration::MAX);
    let longest = backstop.max(allowed.saturating_mul(MIN_SLOWDOWN));
    allowed.saturating_mul(MAX_SLOWDOWN).min(longest).max(IDLE)
}

/// The processor time that the guests have taken together; `None` if one has ended.
async fn measure(meters: &[Meter]) -> Result<Option<Duration>, Error> {
    let mut used = Duration::ZERO;
    for meter in meters {
        used += meter.read().await?;
    }
    for meter in meters {
        if !meter.running().await? {
            return Ok(None);
        }
    }
    Ok(Some(used))
}

/// The observed progress of a run.
struct Progress {
    allowed: Duration,
    /// When the program was last seen to work, since the start, and its processor time then.
    last_active: (Duration, Duration),
}

impl Progress {
    /// Records that the program had taken `used` processor time at `elapsed` since the start. Returns the time until the next check, or `None` if the run must end.
    fn check(&mut self, elapsed: Duration, used: Duration) -> Option<Duration> {
        if used >= self.allowed {
            return None;
        }
        let since = elapsed.saturating_sub(self.last_active.0);
        let worked = used.saturating_sub(self.last_active.1);
        if worked.as_secs_f64() > IDLE_SHARE * since.as_secs_f64() {
            self.last_active = (elapsed, used);
        } else if since >= IDLE {
            return None;
        }
        Some((self.allowed - used).min(IDLE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    #[test]
    fn processor_time_and_waiting_end_a_run_and_a_busy_machine_does_not() {
        // On a machine so busy that the program gets a fiftieth of a processor.
        let elapsed = (1..1000).map(|second| f64::from(second) * 0.4);
        let mut busy: Vec<_> = elapsed.map(|elapsed| (elapsed, elapsed * 0.02)).collect();
        busy.push((500.0, 10.0));
        let waiting = vec![(10.0, 6.0), (14.0, 6.01), (18.0, 6.02), (21.0, 6.02)];
        for checks in [busy, waiting] {
            let mut progress = Progress {
                allowed: seconds(10.0),
                last_active: (Duration::ZERO, Duration::ZERO),
            };
            let ended = |(elapsed, used)| progress.check(seconds(elapsed), seconds(used)).is_none();
            let last = checks.len() - 1;
            assert_eq!(checks.into_iter().position(ended), Some(last));
        }
    }

    #[test]
    fn a_program_that_works_a_little_and_waits_is_ended_within_minutes() {
        for (allowed, backstop, expected) in [
            (10.0, 900.0, 200.0),
            // The canonical solution of this task takes minutes.
            (100.0, 900.0, 900.0),
            (1000.0, 2000.0, 4000.0),
            (0.1, 900.0, IDLE.as_secs_f64()),
        ] {
            assert_eq!(deadline(seconds(allowed), backstop), seconds(expected));
        }
    }
}
