//! Limits the total size of the request bodies in memory. A body counts from its first byte until its response.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Refusal;

/// Number of bodies of the maximum size that fit.
const MAX_LARGE_BODIES: usize = 4;
/// Bytes of one unit of the semaphore.
const UNIT: usize = 1 << 10;
/// The suggested wait if there is no room.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The memory for request bodies.
pub(super) struct BodyMemory {
    room: Arc<Semaphore>,
    /// The total size, in units.
    all: u32,
}

/// The memory of one body, until it is dropped.
pub(super) struct BodyPermit(OwnedSemaphorePermit);

impl BodyMemory {
    /// Memory for four bodies of `largest` bytes, or for many small ones.
    pub(super) fn new(largest: usize) -> BodyMemory {
        let all = units(largest).saturating_mul(MAX_LARGE_BODIES);
        let all = u32::try_from(all).unwrap_or(u32::MAX);
        BodyMemory {
            room: Arc::new(Semaphore::new(all as usize)),
            all,
        }
    }

    /// Reserves memory for a body of up to `bytes`.
    ///
    /// # Errors
    /// [`Refusal::Full`] if there is not enough now.
    pub(super) fn acquire(&self, bytes: usize) -> Result<BodyPermit, Refusal> {
        let requested = u32::try_from(units(bytes)).unwrap_or(u32::MAX);
        Arc::clone(&self.room)
            .try_acquire_many_owned(requested.min(self.all))
            .map(BodyPermit)
            .map_err(|_| Refusal::Full {
                retry_after: RETRY_AFTER,
            })
    }
}

impl BodyPermit {
    /// Reserves more memory, so that there is enough for `bytes`.
    ///
    /// # Errors
    /// [`Refusal::Full`] if there is not enough now.
    pub(super) fn grow(&mut self, bytes: usize) -> Result<(), Refusal> {
        let full = Refusal::Full {
            retry_after: RETRY_AFTER,
        };
        let lacking = units(bytes).saturating_sub(self.0.num_permits());
        let lacking = u32::try_from(lacking).map_err(|_| full)?;
        let more = Arc::clone(self.0.semaphore()).try_acquire_many_owned(lacking);
        self.0.merge(more.map_err(|_| full)?);
        Ok(())
    }

    /// Releases the memory that a body of `bytes` does not need.
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
    fn a_few_large_bodies_or_many_small_ones_fit() {
        let bodies = BodyMemory::new(100 * UNIT);
        let mut held: Vec<BodyPermit> = (0..MAX_LARGE_BODIES)
            .map(|_| bodies.acquire(100 * UNIT).unwrap())
            .collect();
        assert!(bodies.acquire(0).is_err());
        held[0].shrink(10 * UNIT);
        held.extend((0..9).map(|_| bodies.acquire(9 * UNIT).unwrap()));
        assert!(bodies.acquire(0).is_err());
        held.clear();
        assert!(bodies.acquire(usize::MAX).is_ok());
    }
}
