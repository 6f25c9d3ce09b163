//! How far a client is behind the slowest pace at which it may send or read.

use std::time::{Duration, Instant};

/// Bytes per second. A client that is slower falls behind.
const SLOWEST: f64 = 16.0 * 1024.0;

/// The pace of one transfer. Bytes that come early give no credit, so a client cannot send fast and then pause for long.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    begun: Instant,
    /// When a client at the slowest pace would have transferred as much.
    due: Instant,
}

impl Pace {
    pub(super) fn new(now: Instant) -> Pace {
        Pace {
            begun: now,
            due: now,
        }
    }

    /// Records a transfer of `bytes`.
    pub(super) fn record(&mut self, bytes: usize, now: Instant) {
        let paid = Duration::from_secs_f64(bytes as f64 / SLOWEST);
        self.due = (self.due + paid).min(now);
    }

    /// The time since the transfer began.
    pub(super) fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.begun)
    }

    /// How far the client is behind.
    pub(super) fn lag(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_clients_fall_behind_and_fast_ones_save_nothing() {
        for (bytes, expected) in [(0, 4.0), (1 << 13, 2.0), (1 << 14, 0.0), (1 << 24, 0.0)] {
            let start = Instant::now();
            let after = |seconds| start + Duration::from_secs(seconds);
            let mut pace = Pace::new(start);
            (1..5).for_each(|second| pace.record(bytes, after(second)));
            assert_eq!(pace.lag(after(4)).as_secs_f64(), expected, "{bytes}");
            assert_eq!(pace.lag(after(5)).as_secs_f64(), expected + 1.0, "{bytes}");
        }
    }
}
