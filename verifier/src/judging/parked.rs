//! Samples that wait for the result of their task's canonical solution, and hold no thread meanwhile.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::cache::Key;
use crate::pool::{ClientId, Job, Lane};

/// The waiting samples, with their lanes, by the key of the result.
pub(super) struct Parked<T>(Mutex<HashMap<Key, Vec<(Lane, T)>>>);

impl<T> Default for Parked<T> {
    fn default() -> Parked<T> {
        Parked(Mutex::default())
    }
}

impl<T: Job> Parked<T> {
    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Vec<(Lane, T)>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of waiting samples.
    pub(super) fn count(&self) -> usize {
        self.lock().values().map(Vec::len).sum()
    }

    /// The number of places that the waiting samples take in the queue, and that of `client`'s. The canonical solution has the place of the first sample that waits for it.
    pub(super) fn places(&self, client: ClientId) -> (usize, usize) {
        let parked = self.lock();
        let samples = || parked.values().flat_map(|samples| samples.iter().skip(1));
        let own = samples().filter(|(lane, _)| lane.client == client);
        (samples().count(), own.count())
    }

    /// Parks a sample. True if it is the first for its key.
    pub(super) fn add(&self, key: Key, lane: Lane, sample: T) -> bool {
        let mut parked = self.lock();
        let samples = parked.entry(key).or_default();
        samples.push((lane, sample));
        samples.len() == 1
    }

    pub(super) fn take(&self, key: &Key) -> Vec<(Lane, T)> {
        self.lock().remove(key).unwrap_or_default()
    }

    /// Whether any sample under `key` is still wanted. Drops those that are not.
    pub(super) fn wanted(&self, key: &Key) -> bool {
        let mut parked = self.lock();
        let Some(samples) = parked.get_mut(key) else {
            return false;
        };
        samples.retain_mut(|(_, sample)| sample.wanted());
        if samples.is_empty() {
            parked.remove(key);
            return false;
        }
        true
    }
}
