//! The queue, as permits for items that wait. Their number is limited, and each client leaves some to others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use crate::mutex::lock;
use crate::pool::ClientId;

/// A client with several requests may hold this many times the permits that it leaves to others.
const SHARE: usize = 8;

/// The permits of all items that wait, in whichever pool.
pub(super) struct Queue {
    capacity: usize,
    taken: Mutex<HashMap<ClientId, usize>>,
}

/// Permits of one client. Dropping this releases them.
pub(super) struct QueuePermit {
    queue: Arc<Queue>,
    client: ClientId,
    count: usize,
}

impl Queue {
    pub(super) fn new(capacity: usize) -> Arc<Queue> {
        Arc::new(Queue {
            capacity,
            taken: Mutex::default(),
        })
    }

    /// Takes `count` permits.
    ///
    /// # Errors
    /// The number of permits that have to become free first.
    pub(super) fn reserve(
        self: &Arc<Self>,
        client: ClientId,
        count: usize,
    ) -> Result<QueuePermit, usize> {
        let mut taken = lock(&self.taken);
        let all: usize = taken.values().sum();
        let own = taken.get(&client).copied().unwrap_or(0);
        let left_to_others = match own == 0 || client == ClientId::default() {
            true => 0,
            false => (own + count).div_ceil(SHARE),
        };
        let missing = (all + count + left_to_others).saturating_sub(self.capacity);
        // Readmitted items may exceed the capacity. A request that needs no permit is not refused then.
        if count > 0 && missing > 0 {
            return Err(missing);
        }
        Ok(self.take(&mut taken, client, count))
    }

    /// Takes a permit for an item that had one before, even beyond the capacity.
    pub(super) fn readmit(self: &Arc<Self>, client: ClientId) -> QueuePermit {
        self.take(&mut lock(&self.taken), client, 1)
    }

    fn take(
        self: &Arc<Self>,
        taken: &mut HashMap<ClientId, usize>,
        client: ClientId,
        count: usize,
    ) -> QueuePermit {
        *taken.entry(client).or_default() += count;
        QueuePermit {
            queue: Arc::clone(self),
            client,
            count,
        }
    }
}

impl QueuePermit {
    /// One of these permits. There must be one.
    pub(super) fn split(&mut self) -> QueuePermit {
        self.count -= 1;
        QueuePermit {
            queue: Arc::clone(&self.queue),
            client: self.client,
            count: 1,
        }
    }
}

impl Drop for QueuePermit {
    fn drop(&mut self) {
        let mut taken = lock(&self.queue.taken);
        if let Some(count) = taken.get_mut(&self.client) {
            *count -= self.count;
            if *count == 0 {
                taken.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_gets_all_its_permits_or_none() {
        let queue = Queue::new(3);
        let client = ClientId::default();
        let missing = |count| queue.reserve(client, count).err();
        let mut two = queue.reserve(client, 2).ok().unwrap();
        assert_eq!((missing(1), missing(3)), (None, Some(2)));
        let one = two.split();
        drop(two);
        assert_eq!(missing(2), None);
        // An item that had a permit gets one beyond the capacity, and a request that needs none is not refused.
        let more = [(); 3].map(|()| queue.readmit(client));
        assert_eq!((missing(0), missing(1)), (None, Some(2)));
        drop((one, more));
        assert_eq!(missing(3), None);
    }

    #[test]
    fn a_client_with_several_requests_leaves_permits_to_others() {
        let queue = Queue::new(20);
        let [one, other] = [1, 2].map(ClientId);
        let _first = queue.reserve(one, 10).ok().unwrap();
        // 16 permits leave two to others, and 17 leave three.
        assert_eq!(queue.reserve(one, 8).err(), Some(1));
        assert!(queue.reserve(one, 7).is_ok());
        assert!(queue.reserve(other, 10).is_ok());
    }
}
