//! Runs a task's canonical solution in the sandbox of the other programs, also on the task's test code. The values that it returns are the expected values.

use std::sync::Arc;

use datasets::CodeTask;
use datasets::excerpt::excerpt;
use sandboxes::{Call, Deferred, End, Limits, Run, Sandbox as _, SandboxError};

use super::expected_values::{CanonicalResult, ExpectedResult, ExpectedValues, NoCanonicalResult};
use super::fuel::with_fuel;
use super::grader::{CodeGrader, VERSION};
use super::program::{callable, calls_of};
use super::run_tests::TestMode;
use crate::cache::{Key, KeyWriter};
use crate::grade::Grading;

/// Fuel for a canonical solution of a data set's task: three times what the slowest of MBPP+ uses (task 599, 698 G), some minutes of a core.
const SOLUTION_FUEL: u64 = 2_000_000_000_000;
/// Fuel for a canonical solution of an inline task, in multiples of an ordinary program's. It is small, since anyone may send a solution that loops while others wait.
const INLINE_SOLUTION_FUEL: u64 = 4;

impl CodeGrader {
    /// Whether `task` has a canonical solution to run: for its expected values, or on its own test code.
    pub fn uses_canonical_solution(task: &CodeTask) -> bool {
        task.canonical.is_some() && !(task.tests.is_empty() && task.asserts.is_empty())
    }

    /// The result of `task`'s canonical solution, from the cache or by a run here. In a first pass, a long run is deferred.
    ///
    /// # Errors
    /// [`NoCanonicalResult`].
    pub fn try_canonical_result(
        &self,
        task: &CodeTask,
    ) -> Result<CanonicalResult, NoCanonicalResult> {
        let run = || self.run_canonical_solution(task);
        self.expected_values
            .get_or_run(self.canonical_key(task), self.inline, run)
            .map(CanonicalResult)
    }

    /// Whether the result of `task`'s canonical solution is cached, in memory or on disk.
    pub fn has_canonical_result(&self, task: &CodeTask) -> bool {
        let cached = self.expected_values.cached(&self.canonical_key(task));
        cached.is_some()
    }

    pub(super) fn canonical_key(&self, task: &CodeTask) -> Key {
        let identity = self.sandbox.identity();
        let key = KeyWriter::new()
            .field("expected-1")
            .field(&identity.backend)
            .field(&identity.digest)
            .field(self.limits.memory.to_le_bytes())
            .field((self.limits.value as u64).to_le_bytes())
            .field(canonical_solution(task))
            .field(&task.entry_point)
            .fields(calls_of(task).iter());
        // An inline task's solution has less fuel, so it may have another result.
        let key = match self.inline {
            true => key.field("inline"),
            false => key,
        };
        if task.asserts.is_empty() {
            return key.finish();
        }
        key.field(VERSION)
            .fields(task.imports.iter())
            .fields(task.asserts.iter())
            .finish()
    }

    /// Runs the canonical solution on the calls, then on the task's own test code.
    fn run_canonical_solution(&self, task: &CodeTask) -> Result<ExpectedResult, NoCanonicalResult> {
        let mut expected = ExpectedValues::default();
        if !task.tests.is_empty() {
            let run = match self.run_canonical_calls(task) {
                Ok(run) => run,
                Err(SandboxError::Deferred(Deferred::Long | Deferred::NoMemory)) => {
                    return Err(NoCanonicalResult::Deferred);
                }
                // Another sample may need the result by now.
                Err(SandboxError::Deferred(Deferred::Abandoned)) => {
                    return Err(NoCanonicalResult::InProgress);
                }
                Err(error) => return Ok(Err(error.into())),
            };
            expected = match expected_values_of(run, task.tests.len()) {
                Ok(expected) => expected,
                Err(none) => return Ok(Err(none)),
            };
        }
        match self.check_own_tests(task) {
            Err(none) if none.retryable && self.sandbox.first_pass => {
                Err(NoCanonicalResult::Deferred)
            }
            Err(none) => Ok(Err(none)),
            Ok(fuel) => {
                expected.fuel = expected.fuel.saturating_add(fuel);
                Ok(Ok(Arc::new(expected)))
            }
        }
    }

    fn run_canonical_calls(&self, task: &CodeTask) -> Result<Run, SandboxError> {
        let (source, entry_point) = callable(&task.entry_point, canonical_solution(task));
        let (calls, limits) = (calls_of(task), self.solution_limits());
        let run = || self.call(&source, entry_point, &calls, &limits, None);
        // A suspended machine looks like a program that waits. A canonical solution does not wait on purpose, so it gets a second run. A first pass has to be short, so
        // it gets none there.
        match run() {
            Ok(first) if first.end == End::OutOfTime && !self.sandbox.first_pass => run(),
            result => result,
        }
    }

    /// Runs the canonical solution on the task's own test code, if there is any. Returns the fuel used.
    fn check_own_tests(&self, task: &CodeTask) -> Result<u64, Box<Grading>> {
        if task.asserts.is_empty() {
            return Ok(0);
        }
        let (solution, limits) = (canonical_solution(task), self.solution_limits());
        let results = self.run_test_code(task, solution, TestMode::UntilFailure, &limits)?;
        let Some((_, detail)) = &results.failure else {
            return Ok(results.fuel);
        };
        let text = |name: &str| detail[name].as_str();
        let what = text("raised").or_else(|| text("reason"));
        let reason = format!(
            "the task's canonical solution does not pass the task's own test code here (`{}`: {}). The task cannot be judged; correct it, or leave it out",
            text("assert").unwrap_or_default(),
            what.unwrap_or_default()
        );
        // A clock may decide otherwise another time.
        let retryable = results.nondeterministic;
        Err(Box::new(Grading::unavailable(&reason, retryable)))
    }

    fn solution_limits(&self) -> Limits {
        let fuel = match self.inline {
            true => self.limits.fuel.saturating_mul(INLINE_SOLUTION_FUEL),
            false => self.limits.fuel.max(SOLUTION_FUEL),
        };
        with_fuel(self.limits, fuel)
    }
}

fn canonical_solution(task: &CodeTask) -> &str {
    task.canonical.as_deref().unwrap_or_default()
}

/// The values that a run of the canonical solution returned.
fn expected_values_of(run: Run, calls: usize) -> Result<ExpectedValues, Box<Grading>> {
    let retryable = run.end == End::MachineOutOfMemory;
    let wrong = |what: String| {
        let reason = format!(
            "the task's canonical solution gives no expected value in this sandbox: {what}. The task cannot be judged; leave it out"
        );
        Box::new(Grading::unavailable(&reason, retryable))
    };
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
        return Err(wrong(problem));
    }
    let value = |(index, call)| match call {
        Call::Returned(value) => Ok(value),
        Call::Raised { kind, message } => Err(wrong(format!(
            "call {index} raised {kind}: {}",
            excerpt(&message)
        ))),
        // A merely long value would come as a digest.
        Call::TooDeepOrLarge => Err(wrong(format!(
            "call {index} returned a value that is nested too deeply, or that refers to itself"
        ))),
    };
    Ok(ExpectedValues {
        values: run
            .calls
            .into_iter()
            .enumerate()
            .map(value)
            .collect::<Result<_, _>>()?,
        fuel: run.fuel,
    })
}
