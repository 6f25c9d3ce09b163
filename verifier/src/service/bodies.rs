//! How much of requests' bodies is held at a time: each from its first byte to its answer.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Refusal;

/// Bodies of the largest size that there is room for.
const LARGEST: usize = 4;
/// Bytes that are counted together.
const UNIT: usize = 1 << 10;
/// When there may be room again, where there is none.
const SOON: Duration = Duration::from_secs(1);

/// The room for bodies.
pub(super) struct Bodies {
    room: Arc<Semaphore>,
    /// All of it, in units.
    all: u32,
}

/// A body's room, until it is dropped.
pub(super) struct Held(OwnedSemaphorePermit);

impl Bodies {
    /// Room for four bodies of `largest` bytes, or for many small ones.
    pub(super) fn new(largest: usize) -> Bodies {
        let all = units(largest).saturating_mul(LARGEST);
        let all = u32::try_from(all).unwrap_or(u32::MAX);
        Bodies {
            room: Arc::new(Semaphore::new(all as usize)),
            all,
        }
    }

    /// Room for a body of up to `bytes`.
    ///
    /// # Errors
    /// [`Refusal::Full`] where there is not so much now.
    pub(super) fn hold(&self, bytes: usize) -> Result<Held, Refusal> {
        let wanted = u32::try_from(units(bytes)).unwrap_or(u32::MAX);
        Arc::clone(&self.room)
            .try_acquire_many_owned(wanted.min(self.all))
            .map(Held)
            .map_err(|_| Refusal::Full { retry_after: SOON })
    }
}

impl Held {
    /// Takes more room, so that there is enough for `bytes`.
    ///
    /// # Errors
    /// [`Refusal::Full`] where there is not so much now.
    pub(super) fn grow(&mut self, bytes: usize) -> Result<(), Refusal> {
        let full = Refusal::Full { retry_after: SOON };
        let lacking = units(bytes).saturating_sub(self.0.num_permits());
        let lacking = u32::try_from(lacking).map_err(|_| full)?;
        let more = Arc::clone(self.0.semaphore()).try_acquire_many_owned(lacking);
        self.0.merge(more.map_err(|_| full)?);
        Ok(())
    }

    /// Gives back what the body, now that it is here, does not need.
    pub(super) fn shrink(&mut self, bytes: usize) {
        let surplus = self.0.num_permits().saturating_sub(units(bytes));
        drop(self.0.split(surplus));
    }
}

fn units(bytes: usize) -> usize {
    bytes / UNIT + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_few_large_bodies_or_many_small_ones() {
        let bodies = Bodies::new(100 * UNIT);
        let mut held: Vec<Held> = (0..LARGEST)
            .map(|_| bodies.hold(100 * UNIT).unwrap())
            .collect();
        assert!(bodies.hold(0).is_err());
        held[0].shrink(10 * UNIT);
        held.extend((0..9).map(|_| bodies.hold(9 * UNIT).unwrap()));
        assert!(bodies.hold(0).is_err());
        held.clear();
        assert!(bodies.hold(usize::MAX).is_ok());
    }
}
