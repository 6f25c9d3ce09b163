//! A map bounded by weight that forgets what was not used for longest.

use std::collections::{BTreeMap, HashMap};

use super::Key;

/// Values by key, with their weights in bytes.
pub(crate) struct Lru<V> {
    entries: HashMap<Key, Entry<V>>,
    /// Keys by their last use, oldest first.
    uses: BTreeMap<u64, Key>,
    clock: u64,
    weight: usize,
    bound: usize,
}

struct Entry<V> {
    value: V,
    weight: usize,
    used: u64,
}

impl<V> Lru<V> {
    /// Holds at most `bound` bytes.
    pub(crate) fn new(bound: usize) -> Lru<V> {
        Lru {
            entries: HashMap::new(),
            uses: BTreeMap::new(),
            clock: 0,
            weight: 0,
            bound,
        }
    }

    /// The value under `key`, which is now the last one to be forgotten.
    pub(crate) fn get(&mut self, key: &Key) -> Option<&V> {
        let entry = self.entries.get_mut(key)?;
        self.clock += 1;
        self.uses.remove(&entry.used);
        self.uses.insert(self.clock, *key);
        entry.used = self.clock;
        Some(&entry.value)
    }

    /// Keeps a value, and forgets as many others as it takes. A value beyond the bound by itself is not kept.
    pub(crate) fn put(&mut self, key: Key, value: V, weight: usize) {
        self.remove(&key);
        if weight > self.bound {
            return;
        }
        while self.weight + weight > self.bound {
            let Some((_, oldest)) = self.uses.first_key_value() else {
                break;
            };
            let oldest = *oldest;
            self.remove(&oldest);
        }
        self.clock += 1;
        self.uses.insert(self.clock, key);
        self.weight += weight;
        self.entries.insert(
            key,
            Entry {
                value,
                weight,
                used: self.clock,
            },
        );
    }

    fn remove(&mut self, key: &Key) {
        if let Some(entry) = self.entries.remove(key) {
            self.uses.remove(&entry.used);
            self.weight -= entry.weight;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(n: u8) -> Key {
        Key([n; 32])
    }

    #[test]
    fn what_was_not_used_for_longest_is_forgotten_first() {
        let mut lru = Lru::new(3);
        for n in 0..3 {
            lru.put(key(n), n, 1);
        }
        lru.get(&key(0));
        lru.put(key(3), 3, 1);
        let kept: Vec<bool> = (0..4).map(|n| lru.get(&key(n)).is_some()).collect();
        assert_eq!(kept, [true, false, true, true]);
    }

    #[test]
    fn what_is_too_heavy_is_not_kept_and_drives_nothing_out() {
        let mut lru = Lru::new(3);
        lru.put(key(0), 0, 2);
        lru.put(key(1), 1, 4);
        assert!(lru.get(&key(0)).is_some() && lru.get(&key(1)).is_none());
    }

    proptest! {
        #[test]
        fn the_weight_is_the_sum_of_what_is_held_and_never_beyond_the_bound(puts in prop::collection::vec((0_u8..8, 0_usize..6), 0..60)) {
            let mut lru = Lru::new(10);
            for (n, weight) in puts {
                lru.put(key(n), n, weight);
                let sum: usize = lru.entries.values().map(|entry| entry.weight).sum();
                prop_assert_eq!(sum, lru.weight);
                prop_assert!(sum <= 10);
                prop_assert_eq!(lru.uses.len(), lru.entries.len());
            }
        }
    }
}
