//! What a task's own solution returns: made once, in the same sandbox, and stored in memory and on disk.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use datasets::CodeTask;
use sandboxes::{Call, Deferred, End, Limits, Program, Request, Run, Sandbox, SandboxError, Work};
use serde::{Deserialize, Serialize};

use super::first_pass::FirstPass;
use crate::cache::{Bounded, Claim, Key, KeyWriter, Shelf};
use crate::grade::excerpt;

/// Fuel for a task's own solution, whoever brought the task: three times what the slowest of MBPP+ takes (task 599, 698 G), some minutes of a core. It bounds what a task that is asked
/// for once may cost; its program gets no more than twice what the solution took.
const SOLUTION_FUEL: u64 = 2_000_000_000_000;

/// How often one who waits looks whether what another makes is there.
const LOOK: Duration = Duration::from_millis(10);

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

pub(super) type Outcome = Result<Arc<Expectation>, NoExpectation>;

/// Why what a solution returns is not to be had now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absent {
    /// Another thread, or another process, is running it.
    Elsewhere,
    /// It runs for longer than most.
    Long,
    /// The task has no solution to run, or code cannot be judged now.
    Unavailable,
}

/// A run of a task's own solution.
pub(super) struct Order<'a> {
    pub sandbox: &'a dyn Sandbox,
    pub task: &'a CodeTask,
    pub solution: &'a str,
    pub calls: &'a [String],
    /// Those of a program of the task, before it is known what the solution takes.
    pub limits: &'a Limits,
    /// Whether the task came with a request.
    pub inline: bool,
}

/// Expected values by task.
pub(super) struct Expectations {
    /// That a task has none is remembered too, so that its solution, which has the same fuel each time, is not run again for each of its samples.
    memory: Bounded<Outcome>,
    /// What is being made by this process.
    making: Mutex<HashSet<Key>>,
    shelf: Option<Arc<Shelf>>,
}

/// The right to make what belongs under a key: no other thread has it, and no other process.
struct Making<'a> {
    expectations: &'a Expectations,
    key: Key,
    _claim: Option<Claim>,
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        self.expectations.making().remove(&self.key);
    }
}

impl Expectations {
    pub(super) fn new(bytes: usize, shelf: Option<Arc<Shelf>>) -> Expectations {
        Expectations {
            memory: Bounded::new(bytes),
            making: Mutex::new(HashSet::new()),
            shelf,
        }
    }

    /// What the solution returns, which is made where it is not known. Where another makes it, this waits.
    pub(super) fn of(&self, order: &Order<'_>) -> Outcome {
        loop {
            if let Ok(outcome) = self.try_of(order, false) {
                return outcome;
            }
            std::thread::sleep(LOOK);
        }
    }

    /// As [`Expectations::of`], without waiting for others; in a `first_pass`, also without waiting for a solution that takes long.
    pub(super) fn try_of(&self, order: &Order<'_>, first_pass: bool) -> Result<Outcome, Absent> {
        let key = order.key();
        if let Some(known) = self.known(&key) {
            return Ok(known);
        }
        let _making = self.claim(key, order.inline).ok_or(Absent::Elsewhere)?;
        // Another may have made it just before.
        if let Some(known) = self.known(&key) {
            return Ok(known);
        }
        let made = order.run(first_pass)?.map(Arc::new);
        self.store(key, &made, order.inline);
        Ok(made)
    }

    fn making(&self) -> MutexGuard<'_, HashSet<Key>> {
        self.making.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn claim(&self, key: Key, inline: bool) -> Option<Making<'_>> {
        if !self.making().insert(key) {
            return None;
        }
        let mut making = Making {
            expectations: self,
            key,
            _claim: None,
        };
        if let Some(shelf) = self.shelf.as_ref().filter(|_| !inline) {
            making._claim = Some(shelf.claim(&key)?);
        }
        Some(making)
    }

    /// What is in memory or on disk.
    pub(super) fn known(&self, key: &Key) -> Option<Outcome> {
        if let Some(known) = self.memory.get(key) {
            return Some(known);
        }
        let bytes = self.shelf.as_ref()?.get(key)?;
        let read: Outcome = Ok(Arc::new(serde_json::from_slice(&bytes).ok()?));
        self.remember(*key, &read);
        Some(read)
    }

    /// Whoever may ask must not fill the disk with inline tasks.
    fn store(&self, key: Key, made: &Outcome, inline: bool) {
        self.remember(key, made);
        if let Some(shelf) = &self.shelf
            && !inline
            && let Ok(made) = made
            && let Ok(bytes) = serde_json::to_vec(&**made)
        {
            shelf.put(&key, &bytes);
        }
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
        self.memory.put(key, outcome.clone(), bytes);
    }
}

impl Order<'_> {
    pub(super) fn key(&self) -> Key {
        let identity = self.sandbox.identity();
        KeyWriter::new()
            .field("expected-1")
            .field(&identity.backend)
            .field(&identity.digest)
            .field(self.limits.memory.to_le_bytes())
            .field((self.limits.value as u64).to_le_bytes())
            .field(self.solution)
            .field(&self.task.entry_point)
            .fields(self.calls.iter())
            .finish()
    }

    /// What it returns.
    ///
    /// # Errors
    /// [`Absent::Long`] in a `first_pass`, where it takes long.
    fn run(&self, first_pass: bool) -> Result<Result<Expectation, NoExpectation>, Absent> {
        let program = Program {
            source: self.solution,
            entry_point: &self.task.entry_point,
        };
        let work = Work::Calls {
            program,
            calls: self.calls,
        };
        let limits = super::with_fuel(*self.limits, self.limits.fuel.max(SOLUTION_FUEL));
        let request = Request::new(work, &limits);
        let run = if first_pass {
            FirstPass(self.sandbox).run(&request)
        } else {
            // A machine that stands still looks like a program that waits, and a task's own solution does not do so on purpose.
            match self.sandbox.run(&request) {
                Ok(run) if run.end == End::OutOfTime => self.sandbox.run(&request),
                made => made,
            }
        };
        Ok(match run {
            Ok(run) => read(run, self.calls.len(), &limits),
            Err(SandboxError::Deferred(Deferred::Long)) => return Err(Absent::Long),
            Err(error) => Err(NoExpectation {
                retryable: matches!(error, SandboxError::Deferred(_)),
                reason: error.to_string(),
            }),
        })
    }
}

/// The values that a run of the solution returned.
fn read(run: Run, calls: usize, limits: &Limits) -> Result<Expectation, NoExpectation> {
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
        End::MachineOutOfMemory => {
            return Err(NoExpectation {
                retryable: true,
                ..wrong("the machine ran out of memory".to_owned())
            });
        }
        End::Died(how) => return Err(wrong(format!("it died ({})", excerpt(&how)))),
    }
    if run.calls.len() != calls {
        return Err(wrong(format!(
            "{} of {calls} calls were answered",
            run.calls.len()
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
