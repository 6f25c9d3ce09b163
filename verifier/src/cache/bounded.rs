//! A cache of bounded weight. Entries that are requested again stay, and others are evicted.

use datasets::digest::Digest as Key;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

/// Bytes that an entry is assumed to need in addition to its texts.
const OVERHEAD_BYTES: u64 = 256;

/// Bytes of a usual entry. The library remembers evicted keys, in a number that follows from this. So it recognises an evicted value that is stored again as one that
/// is requested repeatedly.
const TYPICAL_BYTES: usize = 4096;

/// The share of the bound for values that were requested again; the rest is for new values. A value heavier than this share is not stored.
///
/// A trainer requests the tasks of a phase many times within the phase, and then not for a long time. With a share of one half, misses are as rare as with eviction of
/// the least recently used value. With the library's default of 0.97 they are up to three times as frequent, since there is little room for new values.
const REQUESTED_AGAIN: f64 = 0.5;

/// Values by key, with their weights in bytes.
pub(crate) struct BoundedCache<V>(Cache<Key, (V, u64), ByWeight>);

#[derive(Clone)]
struct ByWeight;

impl<V> Weighter<Key, (V, u64)> for ByWeight {
    fn weight(&self, _: &Key, (_, weight): &(V, u64)) -> u64 {
        *weight
    }
}

impl<V: Clone> BoundedCache<V> {
    /// An empty cache of at most `bound` bytes.
    pub(crate) fn new(bound: usize) -> BoundedCache<V> {
        let options = OptionsBuilder::new()
            // Each shard would get a part of the bound, and refuse values that are too heavy for its part.
            .shards(1)
            .hot_allocation(REQUESTED_AGAIN)
            .estimated_items_capacity(bound / TYPICAL_BYTES)
            .weight_capacity(bound as u64)
            .build()
            .expect("both capacities are set");
        BoundedCache(Cache::with_options(
            options,
            ByWeight,
            DefaultHashBuilder::default(),
            DefaultLifecycle::default(),
        ))
    }

    /// The value under `key`.
    pub(crate) fn get(&self, key: &Key) -> Option<V> {
        self.0.get(key).map(|(value, _)| value)
    }

    /// Stores a value, and evicts others to make room. `bytes` is the size of its texts. A value of more than half the bound is not stored.
    pub(crate) fn put(&self, key: Key, value: V, bytes: usize) {
        let weight = OVERHEAD_BYTES.saturating_add(bytes as u64);
        self.0.insert(key, (value, weight));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    const BOUND: usize = 100_000;

    fn key(n: u16) -> Key {
        let mut bytes = [0; 32];
        bytes[..2].copy_from_slice(&n.to_le_bytes());
        Key(bytes)
    }

    #[test]
    fn a_requested_value_is_never_evicted() {
        let bounded = BoundedCache::new(BOUND);
        for n in 0..10_000 {
            bounded.put(key(n), n, 10_000);
            assert_eq!(bounded.get(&key(0)), Some(0), "{n}");
        }
        assert_eq!(bounded.get(&key(9_999)), Some(9_999));
        assert_eq!(bounded.get(&key(5_000)), None);
    }

    proptest! {
        #[test]
        fn a_new_value_is_stored_and_the_weight_never_exceeds_the_bound(
            puts in prop::collection::vec((0_u16..16, 0_usize..BOUND * 3 / 4, any::<bool>()), 0..100)
        ) {
            let (bounded, mut known) = (BoundedCache::new(BOUND), HashSet::new());
            for (n, bytes, ask) in puts {
                bounded.put(key(n), bytes, bytes);
                if known.insert(n) {
                    let fits = bytes + OVERHEAD_BYTES as usize <= BOUND / 2;
                    prop_assert_eq!(bounded.0.contains_key(&key(n)), fits);
                }
                if ask {
                    prop_assert!(bounded.get(&key(n)).is_none_or(|held| held == bytes));
                }
                let sum: u64 = bounded.0.iter().map(|(_, (_, weight))| weight).sum();
                prop_assert_eq!(sum, bounded.0.weight());
                prop_assert!(sum <= BOUND as u64);
            }
        }
    }
}
