//! Caches, in memory and on disk: of verdicts, and of the expected values of tasks.

mod bounded;
mod expected_value_store;
mod verdict_db;

use std::sync::Arc;

pub(crate) use bounded::BoundedCache;
/// A cache key: the digest of everything that a verdict, or a task's expected values, depend on.
pub use datasets::digest::{Digest as Key, DigestWriter as KeyWriter};
pub use expected_value_store::{Claim, ExpectedValueStore};
pub use verdict_db::{BYTES as DISK_BYTES, VerdictDb};

use crate::grading::Grading;

/// Verdicts by key. An `unavailable` verdict is never cached. A verdict that is not deterministic is cached in memory only. So requests of one training step agree, but
/// the decision of a clock is not stored for good.
pub struct VerdictCache {
    memory: BoundedCache<Grading>,
    disk: Option<Arc<VerdictDb>>,
}

impl VerdictCache {
    /// Caches up to `bytes` of verdicts in memory. If `disk` is given, deterministic verdicts are written to it too; it limits its own size.
    pub fn new(bytes: usize, disk: Option<Arc<VerdictDb>>) -> VerdictCache {
        VerdictCache {
            memory: BoundedCache::new(bytes),
            disk,
        }
    }

    /// Waits until every verdict is on disk.
    pub fn flush(&self) {
        if let Some(disk) = &self.disk {
            disk.flush();
        }
    }

    /// The verdict under `key`, if it is in memory. Never reads the disk.
    pub fn in_memory(&self, key: &Key) -> Option<Grading> {
        self.memory.get(key)
    }

    /// The verdict under `key`, from memory or disk.
    pub fn get(&self, key: &Key) -> Option<Grading> {
        if let Some(grading) = self.in_memory(key) {
            return Some(grading);
        }
        let bytes = self.disk.as_ref()?.get(key)?;
        let grading: Grading = serde_json::from_slice(&bytes).ok()?;
        self.store_in_memory(*key, &grading);
        Some(grading)
    }

    /// Caches a verdict, unless it is `unavailable`.
    pub fn put(&self, key: Key, grading: &Grading) {
        if grading.reward().is_none() {
            return;
        }
        self.store_in_memory(key, grading);
        if let Some(disk) = &self.disk
            && grading.deterministic
            && let Ok(bytes) = serde_json::to_vec(grading)
        {
            disk.put(key, bytes);
        }
    }

    fn store_in_memory(&self, key: Key, grading: &Grading) {
        // The detail is nearly all of a verdict.
        let bytes = grading.detail.to_string().len();
        self.memory.put(key, grading.clone(), bytes);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use verifier_api::Verdict;

    use super::*;

    #[test]
    fn a_verdict_survives_a_restart_unless_a_clock_decided_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cache.redb");
        let open = || {
            let disk = Arc::new(VerdictDb::open(&path, DISK_BYTES).unwrap());
            VerdictCache::new(1 << 20, Some(disk))
        };
        let grading = Grading::new(Verdict::Correct, json!({ "rule": "number" }));
        let by_clock = Grading::new(Verdict::Timeout, json!({})).deterministic_if(false);
        let keys = [1, 2, 3].map(|n| Key([n; 32]));
        let cache = open();
        cache.put(keys[0], &grading);
        cache.put(keys[1], &by_clock);
        assert_eq!(cache.get(&keys[1]), Some(by_clock));
        cache.flush();
        drop(cache);
        let cache = open();
        assert_eq!(cache.in_memory(&keys[0]), None);
        let gradings = keys.map(|key| cache.get(&key));
        assert_eq!(gradings, [Some(grading.clone()), None, None]);
        assert_eq!(cache.in_memory(&keys[0]), Some(grading));
    }
}
