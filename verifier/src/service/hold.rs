//! Holds requests without an answer, for clients that give up after a few attempts.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use super::Service;

/// The pause before the first repetition. Each further one is twice as long, up to [`MAX_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The longest pause.
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// How long one request may still be held.
#[derive(Debug)]
pub(super) struct Hold {
    end: Instant,
    pause: Duration,
}

impl Hold {
    /// Holds a request for at most `time`; if that is zero, not at all.
    pub(super) fn at_most(time: Duration) -> Hold {
        Hold::until(Instant::now() + time)
    }

    /// Holds a request until then.
    pub(super) fn until(end: Instant) -> Hold {
        Hold {
            end,
            pause: FIRST_PAUSE,
        }
    }

    /// The end of the time.
    pub(super) fn end(&self) -> Instant {
        self.end
    }

    /// Waits a little before another attempt. False if the time is over then, and at once if the service is stopping.
    pub(super) async fn wait(&mut self, service: &Service) -> bool {
        if service.stopping.load(Ordering::SeqCst) {
            return false;
        }
        tokio::time::sleep_until(self.end.min(Instant::now() + self.pause)).await;
        self.pause = (self.pause * 2).min(MAX_PAUSE);
        Instant::now() < self.end
    }
}
