//! A map bounded by weight: what is asked for again stays, and the rest is forgotten.

use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

use super::Key;

/// Bytes that stand for what an entry takes besides its texts.
const ENTRY: u64 = 256;

/// Bytes of a usual entry. From them follows how many forgotten keys are remembered, so that a value that comes back is known as one that is asked for.
const USUAL: usize = 4096;

/// The share of the bound for values that were asked for again; the rest is for new ones. A value heavier than this share is not kept.
///
/// A trainer asks for the tasks of a phase many times within the phase, and then long not again. With half, what it asks for is missing as rarely as if what
/// was not used for longest went first; with the library's own 0.97 up to three times as often, since there is little room for what is new.
const ASKED_FOR: f64 = 0.5;

/// Values by key, with their weights in bytes.
pub(crate) struct Bounded<V>(Cache<Key, Weighed<V>, ByWeight>);

#[derive(Clone)]
struct Weighed<V> {
    value: V,
    weight: u64,
}

#[derive(Clone)]
struct ByWeight;

impl<V> Weighter<Key, Weighed<V>> for ByWeight {
    fn weight(&self, _: &Key, held: &Weighed<V>) -> u64 {
        held.weight
    }
}

impl<V: Clone> Bounded<V> {
    /// Holds at most `bound` bytes.
    pub(crate) fn new(bound: usize) -> Bounded<V> {
        let options = OptionsBuilder::new()
            // Each shard would have its part of the bound, and refuse what is too heavy for the part.
            .shards(1)
            .hot_allocation(ASKED_FOR)
            .estimated_items_capacity(bound / USUAL)
            .weight_capacity(bound as u64)
            .build()
            .expect("both capacities are set");
        Bounded(Cache::with_options(
            options,
            ByWeight,
            DefaultHashBuilder::default(),
            DefaultLifecycle::default(),
        ))
    }

    /// The value under `key`.
    pub(crate) fn get(&self, key: &Key) -> Option<V> {
        self.0.get(key).map(|held| held.value)
    }

    /// Keeps a value whose texts have so many bytes, and forgets as many others as it takes. A value of more than half the bound is not kept.
    pub(crate) fn put(&self, key: Key, value: V, bytes: usize) {
        let weight = ENTRY.saturating_add(bytes as u64);
        self.0.insert(key, Weighed { value, weight });
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
    fn what_is_asked_for_stays_whatever_else_comes() {
        let bounded = Bounded::new(BOUND);
        for n in 0..10_000 {
            bounded.put(key(n), n, 10_000);
            assert_eq!(bounded.get(&key(0)), Some(0), "{n}");
        }
        assert_eq!(bounded.get(&key(9_999)), Some(9_999));
        assert_eq!(bounded.get(&key(5_000)), None);
    }

    #[test]
    fn what_fits_into_the_whole_is_kept_and_what_is_too_heavy_drives_nothing_out() {
        let bounded = Bounded::new(BOUND);
        bounded.put(key(0), 0, BOUND / 20);
        bounded.put(key(1), 1, BOUND);
        assert_eq!(
            (bounded.get(&key(0)), bounded.get(&key(1))),
            (Some(0), None)
        );
        bounded.put(key(2), 2, BOUND * 4 / 10);
        assert_eq!(bounded.get(&key(2)), Some(2));
    }

    proptest! {
        #[test]
        fn what_comes_for_the_first_time_is_held_and_the_weight_is_never_beyond_the_bound(
            puts in prop::collection::vec((0_u16..16, 0_usize..BOUND * 3 / 4, any::<bool>()), 0..100)
        ) {
            let (bounded, mut known) = (Bounded::new(BOUND), HashSet::new());
            for (n, bytes, ask) in puts {
                bounded.put(key(n), bytes, bytes);
                if known.insert(n) {
                    let fits = bytes + ENTRY as usize <= BOUND / 2;
                    prop_assert_eq!(bounded.0.contains_key(&key(n)), fits);
                }
                if ask {
                    prop_assert!(bounded.get(&key(n)).is_none_or(|held| held == bytes));
                }
                let sum: u64 = bounded.0.iter().map(|(_, held)| held.weight).sum();
                prop_assert_eq!(sum, bounded.0.weight());
                prop_assert!(sum <= BOUND as u64);
            }
        }
    }
}
