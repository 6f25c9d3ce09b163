//! What a task's own solution returns, made once in the same sandbox and kept in memory and on disk.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use datasets::CodeTask;
use sandboxes::{Call, End, Limits, Program, Sandbox, SandboxError};
use serde::{Deserialize, Serialize};

use super::Attempt;
use crate::cache::{Disk, Key, KeyWriter, Lru, Table};
use crate::grade::excerpt;

/// Fuel for a task's own solution, whoever brought the task: three times what the slowest of MBPP+ takes (task 599, 698 G), some minutes of a core. It bounds what a task that is asked
/// for once may cost; its program gets no more than twice what the solution took.
const SOLUTION_FUEL: u64 = 2_000_000_000_000;

/// What a task's own solution did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Expectation {
    /// The encoded value that each call returned.
    pub values: Vec<String>,
    /// Fuel that it took.
    pub fuel: u64,
}

/// Why there are no expected values.
#[derive(Debug, Clone)]
pub(super) struct NoExpectation {
    pub reason: String,
    /// Whether another try may succeed.
    pub retryable: bool,
}

type Outcome = Result<Arc<Expectation>, NoExpectation>;
/// Filled by the one worker that makes the values, while others for the same task wait.
type Slot = Arc<Mutex<Option<Outcome>>>;

/// Expected values by task.
pub(super) struct Expectations {
    /// That a task has none is remembered too, so that its solution, which has the same fuel each time, is not run again for each of its samples.
    memory: Mutex<Lru<Outcome>>,
    making: Mutex<HashMap<Key, Slot>>,
    disk: Option<Arc<Disk>>,
}

impl Expectations {
    pub(super) fn new(bytes: usize, disk: Option<Arc<Disk>>) -> Expectations {
        Expectations {
            memory: Mutex::new(Lru::new(bytes)),
            making: Mutex::new(HashMap::new()),
            disk,
        }
    }

    /// What `solution` returns for `calls`. Made at most once at a time; others wait for it meanwhile, where the `attempt` is not brief.
    pub(super) fn of(
        &self,
        attempt: Attempt<'_>,
        task: &CodeTask,
        solution: &str,
        calls: &[String],
        limits: &Limits,
    ) -> Outcome {
        let fuel = limits.fuel.max(SOLUTION_FUEL);
        let key = key(attempt.sandbox, task, solution, calls, limits);
        if let Some(kept) = self.kept(&key) {
            return kept;
        }
        let slot = Arc::clone(
            self.making
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .entry(key)
                .or_default(),
        );
        let mut slot = match slot.try_lock() {
            Ok(slot) => slot,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) if !attempt.brief => {
                slot.lock().unwrap_or_else(PoisonError::into_inner)
            }
            Err(TryLockError::WouldBlock) => {
                return Err(NoExpectation {
                    reason: "the task's own solution is just being run".to_owned(),
                    retryable: true,
                });
            }
        };
        let outcome = match &*slot {
            Some(outcome) => outcome.clone(),
            None => {
                let outcome = self.kept(&key).unwrap_or_else(|| {
                    let limits = super::with_fuel(*limits, fuel);
                    let made = make(attempt.sandbox, task, solution, calls, &limits);
                    self.keep(key, made.map(Arc::new), attempt.brought)
                });
                // What may succeed the next time is tried again by the next.
                if !matches!(&outcome, Err(none) if none.retryable) {
                    *slot = Some(outcome.clone());
                }
                outcome
            }
        };
        self.making
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&key);
        outcome
    }

    fn kept(&self, key: &Key) -> Option<Outcome> {
        if let Some(kept) = self
            .memory
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(key)
        {
            return Some(kept.clone());
        }
        let bytes = self.disk.as_ref()?.get(Table::Expected, key)?;
        let kept: Outcome = Ok(Arc::new(serde_json::from_slice(&bytes).ok()?));
        self.remember(*key, &kept);
        Some(kept)
    }

    fn keep(&self, key: Key, made: Outcome, brought: bool) -> Outcome {
        self.remember(key, &made);
        if let Some(disk) = &self.disk
            && !brought
            && let Ok(made) = &made
            && let Ok(bytes) = serde_json::to_vec(&**made)
        {
            disk.put(Table::Expected, key, bytes);
        }
        made
    }

    fn remember(&self, key: Key, outcome: &Outcome) {
        let bytes = match outcome {
            Ok(made) => made
                .values
                .iter()
                .map(|value| value.len() + 24)
                .sum::<usize>(),
            Err(none) if none.retryable => return,
            Err(none) => none.reason.len(),
        };
        self.memory
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .put(key, outcome.clone(), 256 + bytes);
    }
}

fn key(
    sandbox: &dyn Sandbox,
    task: &CodeTask,
    solution: &str,
    calls: &[String],
    limits: &Limits,
) -> Key {
    let identity = sandbox.identity();
    KeyWriter::new()
        .field("expected-1")
        .field(&identity.backend)
        .field(&identity.digest)
        .field(limits.memory.to_le_bytes())
        .field((limits.value as u64).to_le_bytes())
        .field(solution)
        .field(&task.entry_point)
        .fields(calls.iter())
        .finish()
}

fn make(
    sandbox: &dyn Sandbox,
    task: &CodeTask,
    solution: &str,
    calls: &[String],
    limits: &Limits,
) -> Result<Expectation, NoExpectation> {
    let program = Program {
        source: solution,
        entry_point: &task.entry_point,
        calls,
        watch: None,
    };
    let run = sandbox
        .run(&program, limits)
        .map_err(|error| NoExpectation {
            retryable: matches!(error, SandboxError::Transient(_)),
            reason: error.to_string(),
        })?;
    let wrong = |what: String| NoExpectation {
        reason: format!(
            "the task's own solution gives no expected value in this sandbox: {what}. The task cannot be judged; leave it out"
        ),
        retryable: false,
    };
    match run.end {
        End::Completed | End::Uncalled | End::Watched => {}
        End::Unloadable { kind, message } => {
            return Err(wrong(format!("{kind}: {}", excerpt(&message))));
        }
        End::OutOfFuel => return Err(wrong("it ran out of fuel".to_owned())),
        End::OutOfTime => return Err(wrong("it ran out of time".to_owned())),
        End::OutOfMemory => return Err(wrong("it ran out of memory".to_owned())),
        End::Died(how) => return Err(wrong(format!("it died ({})", excerpt(&how)))),
    }
    if run.calls.len() != calls.len() {
        return Err(wrong(format!(
            "{} of {} calls were answered",
            run.calls.len(),
            calls.len()
        )));
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
            Call::TooLarge => {
                return Err(wrong(format!(
                    "call {index} returned a value beyond {} bytes",
                    limits.value
                )));
            }
        }
    }
    Ok(Expectation {
        values,
        fuel: run.fuel,
    })
}
