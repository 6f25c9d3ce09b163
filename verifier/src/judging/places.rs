//! The places in which items wait, of which there are a limited number. A client may have only so many that others get some, too.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::pool::ClientId;

/// A client with several requests may have this many times the places that it leaves to others.
const SHARE: usize = 8;

/// The places of all items that wait, wherever they do.
pub(super) struct Places {
    capacity: usize,
    taken: Mutex<HashMap<ClientId, usize>>,
}

/// Places of one client, which are free again when this is dropped.
pub(super) struct Place {
    places: Arc<Places>,
    client: ClientId,
    count: usize,
}

impl Places {
    pub(super) fn new(capacity: usize) -> Arc<Places> {
        Arc::new(Places {
            capacity,
            taken: Mutex::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ClientId, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes `count` places.
    ///
    /// # Errors
    /// The number of places that have to become free first.
    pub(super) fn reserve(
        self: &Arc<Self>,
        client: ClientId,
        count: usize,
    ) -> Result<Place, usize> {
        let mut taken = self.lock();
        let all: usize = taken.values().sum();
        let own = taken.get(&client).copied().unwrap_or(0);
        let left_to_others = match own == 0 || client == ClientId::default() {
            true => 0,
            false => (own + count).div_ceil(SHARE),
        };
        let missing = (all + count + left_to_others).saturating_sub(self.capacity);
        // More may wait than there are places, which is no reason to refuse a request that needs none.
        if count > 0 && missing > 0 {
            return Err(missing);
        }
        Ok(self.take(&mut taken, client, count))
    }

    /// Takes a place for an item that had one before, even if there is none.
    pub(super) fn readmit(self: &Arc<Self>, client: ClientId) -> Place {
        self.take(&mut self.lock(), client, 1)
    }

    fn take(
        self: &Arc<Self>,
        taken: &mut HashMap<ClientId, usize>,
        client: ClientId,
        count: usize,
    ) -> Place {
        *taken.entry(client).or_default() += count;
        Place {
            places: Arc::clone(self),
            client,
            count,
        }
    }
}

impl Place {
    /// One of these places. There must be one.
    pub(super) fn split(&mut self) -> Place {
        self.count -= 1;
        Place {
            places: Arc::clone(&self.places),
            client: self.client,
            count: 1,
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.lock();
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
    fn a_request_gets_all_its_places_or_none() {
        let places = Places::new(3);
        let client = ClientId::default();
        let missing = |count| places.reserve(client, count).err();
        let mut two = places.reserve(client, 2).ok().unwrap();
        assert_eq!((missing(1), missing(3)), (None, Some(2)));
        let one = two.split();
        drop(two);
        assert_eq!(missing(2), None);
        // Who had a place gets one even if there is none, and who needs none is not refused.
        let more = [(); 3].map(|()| places.readmit(client));
        assert_eq!((missing(0), missing(1)), (None, Some(2)));
        drop((one, more));
        assert_eq!(missing(3), None);
    }

    #[test]
    fn a_client_with_several_requests_leaves_places_to_others() {
        let places = Places::new(20);
        let [one, other] = [1, 2].map(ClientId);
        let _first = places.reserve(one, 10).ok().unwrap();
        // 16 and the two that are left to others, or 17 and three.
        assert_eq!(places.reserve(one, 8).err(), Some(1));
        assert!(places.reserve(one, 7).is_ok());
        assert!(places.reserve(other, 10).is_ok());
    }
}
