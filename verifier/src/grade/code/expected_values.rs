//! The expected values of a task: its canonical solution runs once, in the same sandbox, also on the task's test code, and the results are cached in memory and on disk.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use datasets::CodeTask;
use sandboxes::{Call, Deferred, End, Limits, Program, Request, Run, Sandbox, SandboxError, Work};
use serde::{Deserialize, Serialize};

use super::first_pass::FirstPass;
use super::program::callable;
use crate::cache::{Bounded, Claim, ExpectedValueStore, Key, KeyWriter};
use crate::grade::excerpt;

/// Fuel for a canonical solution of a data set's task: three times what the slowest of MBPP+ uses (task 599, 698 G), some minutes of a core.
const SOLUTION_FUEL: u64 = 2_000_000_000_000;
/// Fuel for a canonical solution of an inline task, in multiples of an ordinary program's: anyone may send one that loops, and others wait meanwhile.
const INLINE_SOLUTION_FUEL: u64 = 4;

/// Poll interval while another thread or process runs the canonical solution.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The expected values of a task.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ExpectedValues {
    /// The encoded value that each call of the canonical solution returned.
    pub values: Vec<String>,
    /// Fuel that the canonical solution used.
    pub fuel: u64,
}

/// Why there are no expected values.
#[derive(Debug, Clone)]
pub(super) struct NoExpectedValues {
    pub reason: String,
    /// Whether another try may succeed.
    pub retryable: bool,
}

pub(super) type ExpectedResult = Result<Arc<ExpectedValues>, NoExpectedValues>;

/// Why there is no result of the canonical solution now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoCanonicalResult {
    /// Another thread, or another process, is running the solution, or a run was broken off because nobody waited for it.
    Elsewhere,
    /// The solution runs for longer than a first pass allows, or needs memory that is in use.
    NotInFirstPass,
    /// The task has no canonical solution, or code cannot be judged now.
    Unavailable,
}

/// A run of a task's canonical solution.
pub(super) struct CanonicalRun<'a> {
    pub sandbox: &'a dyn Sandbox,
    pub task: &'a CodeTask,
    pub solution: &'a str,
    pub calls: &'a [String],
    /// Runs the solution on the task's test code, and returns the fuel used.
    pub check: &'a dyn Fn(&dyn Sandbox) -> Result<u64, NoExpectedValues>,
    /// The limits of an ordinary program.
    pub limits: &'a Limits,
    /// Whether the task is inline.
    pub inline: bool,
}

/// A cache of expected values, by task.
pub(super) struct ExpectedValuesCache {
    /// A permanent failure is cached too, so that the solution, which gets the same fuel each time, is not run again for each sample.
    memory: Bounded<ExpectedResult>,
    /// The keys whose canonical solutions run in this process now.
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
        self.expected_values.running().remove(&self.key);
    }
}

impl ExpectedValuesCache {
    pub(super) fn new(bytes: usize, store: Option<Arc<ExpectedValueStore>>) -> ExpectedValuesCache {
        ExpectedValuesCache {
            memory: Bounded::new(bytes),
            running: Mutex::new(HashSet::new()),
            store,
        }
    }

    /// The result of the canonical solution, cached or computed here. Waits if another thread or process computes it.
    pub(super) fn wait_for(&self, canonical_run: &CanonicalRun<'_>) -> ExpectedResult {
        loop {
            if let Ok(result) = self.try_get(canonical_run, false) {
                return result;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Like [`ExpectedValuesCache::wait_for`], but does not wait for others. In a `first_pass`, gives up also if the run is long or needs memory that is in use.
    pub(super) fn try_get(
        &self,
        canonical_run: &CanonicalRun<'_>,
        first_pass: bool,
    ) -> Result<ExpectedResult, NoCanonicalResult> {
        let key = canonical_run.key();
        if let Some(cached) = self.cached(&key) {
            return Ok(cached);
        }
        let _claim = self
            .claim(key, canonical_run.inline)
            .ok_or(NoCanonicalResult::Elsewhere)?;
        // Another thread or process may have finished just before the claim.
        if let Some(cached) = self.cached(&key) {
            return Ok(cached);
        }
        let result = canonical_run.run(first_pass)?.map(Arc::new);
        self.store(key, &result, canonical_run.inline);
        Ok(result)
    }

    fn running(&self) -> MutexGuard<'_, HashSet<Key>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn claim(&self, key: Key, inline: bool) -> Option<ComputeClaim<'_>> {
        if !self.running().insert(key) {
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

    /// Caches a result. That of an inline task stays in memory, so that clients cannot fill the disk.
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
            Ok(expected) => expected
                .values
                .iter()
                .map(|value| value.len() + 24)
                .sum::<usize>(),
            Err(none) if none.retryable => return,
            Err(none) => none.reason.len(),
        };
        self.memory.put(key, result.clone(), bytes);
    }
}

impl CanonicalRun<'_> {
    pub(super) fn key(&self) -> Key {
        let identity = self.sandbox.identity();
        let key = KeyWriter::new()
            .field("expected-1")
            .field(&identity.backend)
            .field(&identity.digest)
            .field(self.limits.memory.to_le_bytes())
            .field((self.limits.value as u64).to_le_bytes())
            .field(self.solution)
            .field(&self.task.entry_point)
            .fields(self.calls.iter());
        // With less fuel, it may have another result.
        let key = match self.inline {
            true => key.field("inline"),
            false => key,
        };
        if self.task.asserts.is_empty() {
            return key.finish();
        }
        key.field(super::VERSION)
            .fields(self.task.imports.iter())
            .fields(self.task.asserts.iter())
            .finish()
    }

    /// Runs the canonical solution on the calls, then on the test code.
    ///
    /// # Errors
    /// As [`CanonicalRun::run_calls`].
    fn run(
        &self,
        first_pass: bool,
    ) -> Result<Result<ExpectedValues, NoExpectedValues>, NoCanonicalResult> {
        let expected = if self.calls.is_empty() {
            Ok(ExpectedValues::default())
        } else {
            self.run_calls(first_pass)?
        };
        let Ok(mut expected) = expected else {
            return Ok(expected);
        };
        let checked = if first_pass {
            (self.check)(&FirstPass(self.sandbox))
        } else {
            (self.check)(self.sandbox)
        };
        match checked {
            Err(none) if none.retryable && first_pass => Err(NoCanonicalResult::NotInFirstPass),
            Err(none) => Ok(Err(none)),
            Ok(fuel) => {
                expected.fuel = expected.fuel.saturating_add(fuel);
                Ok(Ok(expected))
            }
        }
    }

    /// Runs the canonical solution on the calls.
    ///
    /// # Errors
    /// [`NoCanonicalResult::NotInFirstPass`] in a `first_pass`, if the run is long or needs memory that is in use.
    fn run_calls(
        &self,
        first_pass: bool,
    ) -> Result<Result<ExpectedValues, NoExpectedValues>, NoCanonicalResult> {
        let (source, entry_point) = callable(&self.task.entry_point, self.solution);
        let program = Program {
            source: &source,
            entry_point,
        };
        let work = Work::Calls {
            program,
            calls: self.calls,
        };
        let limits = solution_limits(self.limits, self.inline);
        let request = Request::new(work, &limits);
        let run = if first_pass {
            FirstPass(self.sandbox).run(&request)
        } else {
            // A suspended machine looks like a program that waits, which a canonical solution does not do on purpose. So it gets a second run.
            match self.sandbox.run(&request) {
                Ok(run) if run.end == End::OutOfTime => self.sandbox.run(&request),
                result => result,
            }
        };
        Ok(match run {
            Ok(run) => expected_values_of(run, self.calls.len()),
            Err(SandboxError::Deferred(Deferred::Long | Deferred::NoMemory)) => {
                return Err(NoCanonicalResult::NotInFirstPass);
            }
            // Someone may have begun to wait again.
            Err(SandboxError::Deferred(Deferred::Abandoned)) => {
                return Err(NoCanonicalResult::Elsewhere);
            }
            Err(error) => Err(NoExpectedValues {
                retryable: matches!(error, SandboxError::Deferred(_)),
                reason: error.to_string(),
            }),
        })
    }
}

/// The limits of a canonical solution.
pub(super) fn solution_limits(limits: &Limits, inline: bool) -> Limits {
    let fuel = match inline {
        true => limits.fuel.saturating_mul(INLINE_SOLUTION_FUEL),
        false => limits.fuel.max(SOLUTION_FUEL),
    };
    super::with_fuel(*limits, fuel)
}

/// The values that a run of the canonical solution returned.
fn expected_values_of(run: Run, calls: usize) -> Result<ExpectedValues, NoExpectedValues> {
    let wrong = |what: String| NoExpectedValues {
        reason: format!(
            "the task's canonical solution gives no expected value in this sandbox: {what}. The task cannot be judged; leave it out"
        ),
        retryable: false,
    };
    let retryable = run.end == End::MachineOutOfMemory;
    let problem = match run.end {
        End::Completed | End::Uncalled | End::Watched if run.calls.len() == calls => None,
        End::Completed | End::Uncalled | End::Watched => {
            let answered = run.calls.len();
            Some(format!("{answered} of {calls} calls were answered"))
        }
        End::Unloadable { kind, message } => Some(format!("{kind}: {}", excerpt(&message))),
        End::OutOfFuel => Some("it ran out of fuel".to_owned()),
        End::OutOfTime => Some("it ran out of time".to_owned()),
        End::OutOfMemory => Some("it ran out of memory".to_owned()),
        End::MachineOutOfMemory => Some("the machine ran out of memory".to_owned()),
        End::Exited { status, .. } => Some(format!("it exited with status {status}")),
        End::TooMuchOutput => Some("it wrote too much".to_owned()),
        End::Died(how) => Some(format!("it died ({})", excerpt(&how))),
    };
    if let Some(problem) = problem {
        return Err(NoExpectedValues {
            retryable,
            ..wrong(problem)
        });
    }
    let mut values = Vec::with_capacity(run.calls.len());
    for (index, call) in run.calls.into_iter().enumerate() {
        match call {
            Call::Returned(value) => values.push(value),
            Call::Raised { kind, message } => {
                return Err(wrong(format!(
                    "call {index} raised {kind}: {}",
                    excerpt(&message)
                )));
            }
            // A value that is only long comes as a digest.
            Call::TooDeepOrLarge => {
                return Err(wrong(format!(
                    "call {index} returned a value that is nested too deeply, or that refers to itself"
                )));
            }
        }
    }
    Ok(ExpectedValues {
        values,
        fuel: run.fuel,
    })
}
