//! The items that are being judged, each with the requests that wait for its verdict, so that equal items are judged once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::watch;

use crate::cache::Key;
use crate::grade::Grading;

/// The keys that are being judged. The job that judges one owns its channel, so that the requests that wait for it notice if the job is dropped.
#[derive(Default)]
pub(super) struct InFlight(Mutex<HashMap<Key, Weak<Waiters>>>);

/// Passes a key's result to the requests that wait for it.
pub(super) type Waiters = watch::Sender<Option<ItemResult>>;
pub(super) type Waiter = watch::Receiver<Option<ItemResult>>;

/// The result for an item, and whether it came from the cache.
#[derive(Debug, Clone)]
pub(super) struct ItemResult {
    pub(super) grading: Grading,
    pub(super) cached: bool,
    /// Time that workers spent on it; `None` if no worker did.
    pub(super) seconds: Option<f64>,
}

impl InFlight {
    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Weak<Waiters>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a waiter for the verdict under `key`. If it is the first, returns the key's channel too, and the item must be queued.
    pub(super) fn join(&self, key: Key) -> (Waiter, Option<Arc<Waiters>>) {
        let mut keys = self.lock();
        if let Some(waiters) = keys.get(&key).and_then(Weak::upgrade) {
            return (waiters.subscribe(), None);
        }
        let waiters = Arc::new(Waiters::new(None));
        keys.insert(key, Arc::downgrade(&waiters));
        (waiters.subscribe(), Some(waiters))
    }

    /// Whether a request still waits for `key`. If none does, the key is removed.
    pub(super) fn wanted(&self, key: &Key, waiters: &Waiters) -> bool {
        let mut keys = self.lock();
        let wanted = !waiters.is_closed();
        if !wanted {
            keys.remove(key);
        }
        wanted
    }

    pub(super) fn finish(&self, key: &Key, waiters: &Waiters, result: ItemResult) {
        self.lock().remove(key);
        waiters.send_replace(Some(result));
    }
}
