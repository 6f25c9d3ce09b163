//! Waiting between the attempts at a request that cannot be answered yet. Clients that repeat a request only a few times are kept waiting instead of refused.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use super::Service;

/// The first pause. Each further one is twice as long, up to [`MAX_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The longest pause.
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// Exponential backoff until a deadline.
#[derive(Debug)]
pub(super) struct Backoff {
    deadline: Instant,
    pause: Duration,
}

impl Backoff {
    /// Waits for at most `time` in all; if that is zero, not at all.
    pub(super) fn at_most(time: Duration) -> Backoff {
        Backoff::until(Instant::now() + time)
    }

    pub(super) fn until(deadline: Instant) -> Backoff {
        Backoff {
            deadline,
            pause: FIRST_PAUSE,
        }
    }

    pub(super) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Pauses before the next attempt. False if the deadline has passed then, and at once if the service is stopping.
    pub(super) async fn wait(&mut self, service: &Service) -> bool {
        if service.stopping.load(Ordering::SeqCst) {
            return false;
        }
        tokio::time::sleep_until(self.deadline.min(Instant::now() + self.pause)).await;
        self.pause = (self.pause * 2).min(MAX_PAUSE);
        Instant::now() < self.deadline
    }
}
