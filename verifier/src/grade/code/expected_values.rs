//! A cache of expected values, in memory and on disk. Canonical solutions return them. Those of a task are computed once.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use datasets::excerpt::excerpt;
use datasets::{CodeTask, Compare, Value};
use serde::{Deserialize, Serialize};

use super::gradings::bad_task;
use super::value_mismatch::without_encoding;
use crate::cache::{BoundedCache, Claim, ExpectedValueStore, Key};
use crate::grade::Grading;
use crate::mutex::lock;

/// Poll interval while another thread or process runs the canonical solution.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The expected values of a task.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ExpectedValues {
    /// The encoded value that each call of the canonical solution returned.
    pub values: Vec<String>,
    /// Fuel that the canonical solution used.
    pub fuel: u64,
}

/// The expected values, or the `unavailable` grading with the reason for their absence.
pub(super) type ExpectedResult = Result<Arc<ExpectedValues>, Box<Grading>>;

/// The result of a task's canonical solution: the expected values that samples are compared with, or why there are none.
#[derive(Debug, Clone, PartialEq)]
pub struct CanonicalResult(pub(super) ExpectedResult);

impl CanonicalResult {
    /// Why there are no expected values, and whether another try may compute them.
    pub fn failure(&self) -> Option<(&str, bool)> {
        let none = self.0.as_ref().err()?;
        let reason = none.detail["reason"].as_str().unwrap_or_default();
        Some((reason, none.retryable))
    }
}

/// Why there is no result of the canonical solution now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoCanonicalResult {
    /// Another thread, or another process, is running the solution, or a run was cancelled because nobody waited for it.
    InProgress,
    /// The solution runs for longer than a first pass allows, or needs memory that is in use.
    Deferred,
    /// The task has no canonical solution, or code cannot be judged now.
    Unavailable,
}

/// A cache of expected values, by task.
pub(super) struct ExpectedValuesCache {
    /// Permanent failures are cached too, so that the solution is not run again for each sample. It gets the same fuel each time.
    memory: BoundedCache<ExpectedResult>,
    /// The keys with a canonical solution that runs in this process now.
    running: Mutex<HashSet<Key>>,
    store: Option<Arc<ExpectedValueStore>>,
}

/// The exclusive right to compute the values of a key, among all threads and processes.
struct ComputeClaim<'a> {
    expected_values: &'a ExpectedValuesCache,
    key: Key,
    _store_claim: Option<Claim>,
}

impl Drop for ComputeClaim<'_> {
    fn drop(&mut self) {
        lock(&self.expected_values.running).remove(&self.key);
    }
}

impl ExpectedValuesCache {
    pub(super) fn new(bytes: usize, store: Option<Arc<ExpectedValueStore>>) -> ExpectedValuesCache {
        ExpectedValuesCache {
            memory: BoundedCache::new(bytes),
            running: Mutex::new(HashSet::new()),
            store,
        }
    }

    /// The cached result of a canonical solution, or the result of `run`. `run` is called only if no other thread or process runs the solution.
    pub(super) fn get_or_run(
        &self,
        key: Key,
        inline: bool,
        run: impl FnOnce() -> Result<ExpectedResult, NoCanonicalResult>,
    ) -> Result<ExpectedResult, NoCanonicalResult> {
        if let Some(cached) = self.cached(&key) {
            return Ok(cached);
        }
        let _claim = self
            .claim(key, inline)
            .ok_or(NoCanonicalResult::InProgress)?;
        // Another thread or process may have finished just before the claim.
        if let Some(cached) = self.cached(&key) {
            return Ok(cached);
        }
        let result = run()?;
        self.store(key, &result, inline);
        Ok(result)
    }

    fn claim(&self, key: Key, inline: bool) -> Option<ComputeClaim<'_>> {
        if !lock(&self.running).insert(key) {
            return None;
        }
        let mut claim = ComputeClaim {
            expected_values: self,
            key,
            _store_claim: None,
        };
        if let Some(store) = self.store.as_ref().filter(|_| !inline) {
            claim._store_claim = Some(store.claim(&key)?);
        }
        Some(claim)
    }

    /// The result in memory or on disk.
    pub(super) fn cached(&self, key: &Key) -> Option<ExpectedResult> {
        if let Some(cached) = self.memory.get(key) {
            return Some(cached);
        }
        let bytes = self.store.as_ref()?.get(key)?;
        let read: ExpectedResult = Ok(Arc::new(serde_json::from_slice(&bytes).ok()?));
        self.store_in_memory(*key, &read);
        Some(read)
    }

    /// Caches a result. Results of inline tasks stay in memory, so that clients cannot fill the disk.
    fn store(&self, key: Key, result: &ExpectedResult, inline: bool) {
        self.store_in_memory(key, result);
        if let Some(store) = &self.store
            && !inline
            && let Ok(expected) = result
            && let Ok(bytes) = serde_json::to_vec(&**expected)
        {
            store.put(&key, &bytes);
        }
    }

    fn store_in_memory(&self, key: Key, result: &ExpectedResult) {
        let bytes = match result {
            Ok(expected) => expected.values.iter().map(|value| value.len() + 24).sum(),
            Err(none) if none.retryable => return,
            Err(none) => none.detail.to_string().len(),
        };
        self.memory.put(key, result.clone(), bytes);
    }
}

/// The expected values in a task's tests.
pub(super) fn recorded_values(task: &CodeTask) -> ExpectedResult {
    let recorded = task.tests.iter();
    let values: Option<_> = recorded
        .map(|test| test.expected.as_ref().map(Value::to_json_text))
        .collect();
    let values = values.ok_or_else(|| {
        bad_task(
            "the task has a test without an expected value, and no canonical solution to compute it; leave the task out",
        )
    })?;
    Ok(Arc::new(ExpectedValues { values, fuel: 0 }))
}

/// Returns the expected values, or an `unavailable` grading if one of them has no encoding. Such a value equals nothing, not even itself, so no program could pass.
pub(super) fn check_encodable(expected: Arc<ExpectedValues>, compare: Compare) -> ExpectedResult {
    if matches!(compare, Compare::NotNone | Compare::Root) {
        return Ok(expected);
    }
    let mut values = expected.values.iter().enumerate();
    if let Some((test, kind)) =
        values.find_map(|(test, value)| Some((test, without_encoding(value)?)))
    {
        return Err(bad_task(&format!(
            "test {test} of the task expects a value of type {}, which has no encoding, so that no program could pass; have the task's solution return built-in types (such as \
             str(x) or list(x)), or test it by `asserts`",
            excerpt(kind)
        )));
    }
    Ok(expected)
}
