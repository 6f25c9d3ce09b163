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
    #[must_use]
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
    #[must_use]
    pub fn in_memory(&self, key: &Key) -> Option<Grading> {
        self.memory.get(key)
    }

    /// The verdict under `key`, from memory or disk.
    #[must_use]
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

    fn key(text: &str) -> Key {
        KeyWriter::new().field(text).finish()
    }

    #[test]
    fn a_verdict_survives_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cache.redb");
        let grading = Grading::new(Verdict::Correct, json!({ "rule": "number" }));
        {
            let disk = Arc::new(VerdictDb::open(&path, DISK_BYTES).unwrap());
            VerdictCache::new(1 << 20, Some(Arc::clone(&disk))).put(key("a"), &grading);
            disk.flush();
        }
        let cache = VerdictCache::new(
            1 << 20,
            Some(Arc::new(VerdictDb::open(&path, DISK_BYTES).unwrap())),
        );
        assert_eq!(cache.in_memory(&key("a")), None);
        assert_eq!(cache.get(&key("a")), Some(grading.clone()));
        assert_eq!(cache.in_memory(&key("a")), Some(grading));
        assert_eq!(cache.get(&key("b")), None);
    }

    #[test]
    fn a_verdict_that_a_clock_decided_is_cached_in_memory_only() {
        let folder = tempfile::tempdir().unwrap();
        let disk =
            Arc::new(VerdictDb::open(&folder.path().join("cache.redb"), DISK_BYTES).unwrap());
        let cache = VerdictCache::new(1 << 20, Some(Arc::clone(&disk)));
        let grading = Grading {
            deterministic: false,
            ..Grading::new(Verdict::Timeout, json!({}))
        };
        cache.put(key("a"), &grading);
        cache.flush();
        assert_eq!(cache.get(&key("a")), Some(grading));
        assert_eq!(disk.get(&key("a")), None);
    }
}
