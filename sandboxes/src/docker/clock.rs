//! What ends a run that does not end by itself. No clock here decides a verdict alone: a run that one has ended is repeated.

use std::time::{Duration, Instant};

use bollard::errors::Error;

use super::engine::lost;
use super::guest::Meter;
use super::stop::Stop;
use crate::{Limits, SandboxError};

/// Fuel that stands for a second of processor time. A native interpreter does about as much in a second as 30 G of fuel buy in wasm, so that
/// what the default limit ends here, it ended there long before.
pub(super) const FUEL_PER_SECOND: f64 = 2e9;

/// A program that has taken next to no processor time for so long waits for what will never come.
const IDLE: Duration = Duration::from_secs(5);
/// The share of the time that is next to none.
const NEXT_TO_NONE: f64 = 0.01;
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

/// Returns when the guests that the meters measure have together taken more processor time than `limits` allow, or wait for ever. Never returns before as much
/// time has passed as they may take, as none has more than one processor and they take turns.
pub(super) async fn overrun(meters: &[Meter], limits: Limits) -> Stop {
    let allowed = allowed(limits.fuel);
    let backstop = Duration::try_from_secs_f64(limits.backstop).unwrap_or(Duration::MAX);
    let started = Instant::now();
    let mut watch = Watch {
        allowed,
        mark: (Duration::ZERO, Duration::ZERO),
    };
    let mut pause = allowed.max(LOOKS.0);
    let mut unanswered = 0;
    loop {
        tokio::time::sleep(pause.min(backstop.saturating_sub(started.elapsed()))).await;
        if started.elapsed() >= backstop {
            return SandboxError::Transient(format!(
                "a program was stopped after {} s of wall-clock time, long before it had used its processor time: the machine is overloaded or was suspended; \
                 judge it again, or raise the sandbox's backstop",
                limits.backstop
            ))
            .into();
        }
        match measure(meters).await {
            Ok(Some(used)) => {
                unanswered = 0;
                match watch.look(started.elapsed(), used) {
                    Some(next) => pause = next.clamp(LOOKS.0, LOOKS.1),
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
struct Watch {
    allowed: Duration,
    /// When, since the start, the program was last seen to work, and the processor time that it had taken then.
    mark: (Duration, Duration),
}

impl Watch {
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

    fn watch() -> Watch {
        Watch {
            allowed: seconds(10.0),
            mark: (Duration::ZERO, Duration::ZERO),
        }
    }

    #[test]
    fn processor_time_ends_a_run_and_time_alone_does_not() {
        let mut watch = watch();
        for second in 1..1000 {
            // A machine so busy that the program has a fiftieth of it.
            let elapsed = f64::from(second) * 0.4;
            assert!(
                watch
                    .look(seconds(elapsed), seconds(elapsed * 0.02))
                    .is_some()
            );
        }
        assert_eq!(watch.look(seconds(500.0), seconds(10.0)), None);
    }

    #[test]
    fn a_program_that_waits_for_ever_is_ended() {
        let mut watch = watch();
        assert!(watch.look(seconds(10.0), seconds(6.0)).is_some());
        assert!(watch.look(seconds(14.0), seconds(6.01)).is_some());
        assert_eq!(watch.look(seconds(16.0), seconds(6.02)), None);
    }

    #[test]
    fn fuel_and_processor_time_stand_for_each_other() {
        assert_eq!(allowed(20_000_000_000), Duration::from_secs(10));
        assert_eq!(fuel(Duration::from_secs(10)), 20_000_000_000);
    }
}
