//! What ends a run that does not end by itself. Such a run is not repeated: a program that loops, or waits, in one run of two must gain nothing by the other.
//!
//! So that an honest program is not ended because the machine is busy, what counts is the processor time that the kernel says its container has taken; the wall
//! clock counts only where a program takes next to none, and not while the verifier itself stands still.

use std::time::{Duration, Instant};

use bollard::errors::Error;

use super::engine::lost;
use super::guest::Meter;
use super::stop::Stop;
use crate::Limits;

/// Fuel that stands for a second of processor time. A native interpreter does about as much in a second as 30 G of fuel buy in wasm, so that
/// what the default limit ends here, it ended there long before.
pub(super) const FUEL_PER_SECOND: f64 = 2e9;

/// A program that has taken next to no processor time for so long waits for what will never come.
const IDLE: Duration = Duration::from_secs(10);
/// The share of the time that is next to none.
const NEXT_TO_NONE: f64 = 0.01;
/// What a run may take of the wall clock, in the processor time that it may take: a program that has less than a twentieth of a processor all the time waits on
/// purpose. On a machine that is as busy as that, an honest program is out of time only if it needs nearly all that it may take.
const SLOWEST: u32 = 20;
/// The same where that is longer than the backstop, at least.
const MIN_SLOWEST: u32 = 4;
/// A look that comes later than this shows that the machine stood still, or was suspended: that time does not count.
const LATE: Duration = Duration::from_secs(1);
/// Between two looks, at least and at most.
const LOOKS: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));
/// Looks in a row that the engine may leave unanswered.
const UNANSWERED: usize = 5;

/// The processor time that `fuel` stands for.
pub(super) fn allowed(fuel: u64) -> Duration {
    Duration::try_from_secs_f64(fuel as f64 / FUEL_PER_SECOND).unwrap_or(Duration::MAX)
}

/// The fuel that stands for `time`.
pub(super) fn fuel(time: Duration) -> u64 {
    (time.as_secs_f64() * FUEL_PER_SECOND) as u64
}

/// Returns when the guests that the meters measure have together taken more processor time than `limits` allow, or wait. Never returns before as much time has
/// passed as they may take, as none has more than one processor and they take turns.
pub(super) async fn overrun(meters: &[Meter], limits: Limits) -> Stop {
    let allowed = allowed(limits.fuel);
    let deadline = deadline(allowed, limits.backstop);
    let started = Instant::now();
    let mut lost_time = Duration::ZERO;
    let mut progress = Progress {
        allowed,
        mark: (Duration::ZERO, Duration::ZERO),
    };
    let mut pause = allowed.max(LOOKS.0);
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
            return Stop::Clock;
        }
        match measure(meters).await {
            Ok(Some(used)) => {
                unanswered = 0;
                match progress.look(elapsed, used) {
                    Some(next) => {
                        pause = next.min(deadline - elapsed).clamp(LOOKS.0, LOOKS.1);
                    }
                    None => return Stop::Clock,
                }
            }
            // A container has ended, of which the conversation is about to learn.
            Ok(None) => pause = LOOKS.1,
            Err(error) => {
                unanswered += 1;
                if unanswered == UNANSWERED {
                    return lost("a program's processor time was asked for", &error).into();
                }
                pause = LOOKS.0;
            }
        }
    }
}

/// Wall-clock time after which a run is over that may take `allowed` of a processor.
fn deadline(allowed: Duration, backstop: f64) -> Duration {
    let backstop = Duration::try_from_secs_f64(backstop).unwrap_or(Duration::MAX);
    let longest = backstop.max(allowed.saturating_mul(MIN_SLOWEST));
    allowed.saturating_mul(SLOWEST).min(longest).max(IDLE)
}

/// The processor time that the guests have taken together; `None` where one has ended.
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

/// What was seen of a run so far.
struct Progress {
    allowed: Duration,
    /// When, since the start, the program was last seen to work, and the processor time that it had taken then.
    mark: (Duration, Duration),
}

impl Progress {
    /// When to look next, after a look at `elapsed` since the start has shown that `used` was taken; `None` where the run is over.
    fn look(&mut self, elapsed: Duration, used: Duration) -> Option<Duration> {
        if used >= self.allowed {
            return None;
        }
        let since = elapsed.saturating_sub(self.mark.0);
        let worked = used.saturating_sub(self.mark.1);
        if worked.as_secs_f64() > NEXT_TO_NONE * since.as_secs_f64() {
            self.mark = (elapsed, used);
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

    fn progress() -> Progress {
        Progress {
            allowed: seconds(10.0),
            mark: (Duration::ZERO, Duration::ZERO),
        }
    }

    #[test]
    fn processor_time_ends_a_run_and_time_alone_does_not() {
        let mut progress = progress();
        for second in 1..1000 {
            // A machine so busy that the program has a fiftieth of it.
            let elapsed = f64::from(second) * 0.4;
            assert!(
                progress
                    .look(seconds(elapsed), seconds(elapsed * 0.02))
                    .is_some()
            );
        }
        assert_eq!(progress.look(seconds(500.0), seconds(10.0)), None);
    }

    #[test]
    fn a_program_that_waits_for_ever_is_ended() {
        let mut progress = progress();
        assert!(progress.look(seconds(10.0), seconds(6.0)).is_some());
        assert!(progress.look(seconds(14.0), seconds(6.01)).is_some());
        assert!(progress.look(seconds(18.0), seconds(6.02)).is_some());
        assert_eq!(progress.look(seconds(21.0), seconds(6.02)), None);
    }

    #[test]
    fn a_program_that_works_a_little_and_waits_is_over_within_minutes() {
        assert_eq!(deadline(seconds(10.0), 900.0), seconds(200.0));
        // A task whose own solution takes minutes.
        assert_eq!(deadline(seconds(100.0), 900.0), seconds(900.0));
        assert_eq!(deadline(seconds(1000.0), 2000.0), seconds(4000.0));
        assert_eq!(deadline(seconds(0.1), 900.0), IDLE);
    }

    #[test]
    fn fuel_and_processor_time_stand_for_each_other() {
        assert_eq!(allowed(20_000_000_000), Duration::from_secs(10));
        assert_eq!(fuel(Duration::from_secs(10)), 20_000_000_000);
    }
}
