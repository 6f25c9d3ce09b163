//! Runs a program's tests, up to the first failure or all of them, and counts the passed ones. A program that stops in a test is run again for the tests after it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datasets::excerpt::excerpt;
use sandboxes::defined_names::Fault;
use sandboxes::{Call, End, Limits, Run, SandboxError, Watch};
use serde_json::{Value as Json, json};
use verifier_api::Verdict;

use super::fuel::with_fuel;
use crate::grade::Grading;

/// Maximum number of runs after the first. If a program runs out of fuel or memory or exits in a test, a fresh instance continues with the next test. So the later
/// tests count too, although the verdict is already decided.
const MAX_FURTHER_RUNS: usize = 3;
/// A further run gets at least the whole fuel divided by this.
const FURTHER_FUEL_DIVISOR: u64 = 8;

/// How many of a task's tests are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TestMode {
    /// Up to the first failure, since it decides the verdict.
    UntilFailure,
    /// All, so that the share of passed tests is known.
    All,
}

/// Checks the value that a test returned, given the test's index. Returns what is wrong with it, or `None`.
pub(super) type ValueCheck = Arc<dyn Fn(usize, &str) -> Option<Json> + Send + Sync>;

/// The counts, and the first failed test.
#[derive(Default)]
pub(super) struct TestResults {
    pub passed: usize,
    pub total: usize,
    /// The verdict for the first failure, and its detail.
    pub failure: Option<(Verdict, Json)>,
    /// Total fuel used.
    pub fuel: u64,
    /// Output of the first run.
    pub stdout: String,
    /// Whether a clock, or the machine's lack of memory, ended one of the runs.
    pub nondeterministic: bool,
    /// Whether a run of tests reached its end without a call of the program.
    pub uncalled: bool,
}

impl TestResults {
    /// None of `total` tests has run.
    pub(super) fn of(total: usize) -> TestResults {
        TestResults {
            total,
            ..TestResults::default()
        }
    }

    /// Runs the `total` tests, or as many as `mode` requires. `run(start, limits, watch)` runs the tests from `start` on.
    pub(super) fn run(
        total: usize,
        limits: &Limits,
        mode: TestMode,
        mut run: impl FnMut(usize, &Limits, Option<&Watch>) -> Result<Run, SandboxError>,
        check: &ValueCheck,
    ) -> Result<TestResults, SandboxError> {
        let mut results = TestResults::of(total);
        if mode == TestMode::UntilFailure {
            let (check_watched, passed) = (Arc::clone(check), Arc::new(AtomicUsize::new(0)));
            let count = Arc::clone(&passed);
            let watch = Watch::new(move |index, call| {
                let passes = failure_of(call, |value| check_watched(index, value)).is_none();
                count.store(index + usize::from(passes), Ordering::Relaxed);
                passes
            });
            let watched = run(0, limits, Some(&watch))?;
            results.record_watched_run(watched, passed.load(Ordering::Relaxed), check);
            return Ok(results);
        }
        let (mut start, mut spent) = (0, 0_u64);
        for further in 0..=MAX_FURTHER_RUNS {
            let left = limits.fuel.saturating_sub(spent);
            let fuel = left.max(limits.fuel / FURTHER_FUEL_DIVISOR);
            let finished = match run(start, &with_fuel(*limits, fuel), None) {
                Ok(finished) => finished,
                // Without the test that stopped the program, later tests may lack names that it was to assign. The verdict stays, since it is already decided.
                Err(SandboxError::Unusable(_)) if further > 0 => break,
                Err(error) => return Err(error),
            };
            results.fuel = results.fuel.saturating_add(finished.fuel);
            // A program that waited used little fuel but much time.
            let waited = finished.end == End::OutOfTime;
            spent = spent.saturating_add(if waited { fuel } else { finished.fuel });
            let answered = finished.calls.len().min(total - start);
            for (index, call) in (start..).zip(&finished.calls[..answered]) {
                match failure_of(call, |value| check(index, value)) {
                    None => results.passed += 1,
                    Some(detail) => results.record_failure(index, detail),
                }
            }
            start += answered;
            let may_continue = results.record_end(&finished.end, start);
            if further == 0 {
                results.stdout = finished.stdout;
            }
            start += 1;
            if !may_continue || start >= total {
                break;
            }
        }
        Ok(results)
    }

    /// The results of a program that cannot be loaded: none of the `total` tests ran.
    pub(super) fn unloadable(total: usize, fault: &Fault) -> TestResults {
        let mut results = TestResults::of(total);
        let Fault { kind, message } = fault.clone();
        results.record_end(&End::Unloadable { kind, message }, 0);
        results
    }

    /// Records a run in which the watch saw the first `passed` tests pass. The other calls are checked here.
    fn record_watched_run(&mut self, run: Run, passed: usize, check: &ValueCheck) {
        let answered = run.calls.len().min(self.total);
        self.passed = passed.min(answered);
        for (index, call) in run.calls[..answered].iter().enumerate().skip(self.passed) {
            if let Some(detail) = failure_of(call, |value| check(index, value)) {
                self.record_failure(index, detail);
                break;
            }
            self.passed += 1;
        }
        self.record_end(&run.end, answered);
        self.fuel = run.fuel;
        self.stdout = run.stdout;
    }

    /// Records a failed test.
    pub(super) fn record_failure(&mut self, index: usize, mut detail: Json) {
        detail["test"] = json!(index);
        self.failure.get_or_insert((Verdict::Incorrect, detail));
    }

    /// Records the end of a run that answered all tests before `index`. Returns whether another run may continue with the tests after `index`.
    pub(super) fn record_end(&mut self, end: &End, index: usize) -> bool {
        let (verdict, reason) = match end {
            End::Completed | End::Uncalled if index == self.total => {
                self.uncalled |= *end == End::Uncalled;
                return false;
            }
            End::Completed | End::Uncalled | End::Watched => {
                (Verdict::Incorrect, "not every call was answered".to_owned())
            }
            End::Unloadable { kind, message } => {
                let detail = json!({ "reason": excerpt(&format!("{kind}: {message}")) });
                self.failure.get_or_insert((Verdict::Incorrect, detail));
                return false;
            }
            End::OutOfFuel => (Verdict::Timeout, "out of fuel".to_owned()),
            End::OutOfTime => {
                self.nondeterministic = true;
                (Verdict::Timeout, "out of time".to_owned())
            }
            End::OutOfMemory => (Verdict::Memory, "out of memory".to_owned()),
            End::MachineOutOfMemory => {
                self.nondeterministic = true;
                let reason = "the largest program when the machine was out of memory";
                (Verdict::Memory, reason.to_owned())
            }
            End::Exited { status, .. } => (Verdict::Incorrect, format!("exit status {status}")),
            End::TooMuchOutput => (Verdict::Incorrect, "too much output".to_owned()),
            End::Died(how) => (Verdict::Incorrect, excerpt(how)),
        };
        let detail = json!({ "reason": reason, "test": index });
        self.failure.get_or_insert((verdict, detail));
        !matches!(end, End::Completed | End::Uncalled | End::Watched)
    }

    /// Appends the results of later tests.
    pub(super) fn append(mut self, later: TestResults) -> TestResults {
        self.passed += later.passed;
        self.total += later.total;
        self.fuel = self.fuel.saturating_add(later.fuel);
        self.nondeterministic |= later.nondeterministic;
        if self.failure.is_none() {
            self.failure = later.failure;
            self.stdout = later.stdout;
        }
        self
    }

    /// The grading: correct only if every test passed and the program never stopped.
    pub(super) fn grading(self) -> Grading {
        let (verdict, mut detail) = match self.failure {
            Some(failure) => failure,
            None => (Verdict::Correct, json!({})),
        };
        if verdict != Verdict::Correct && !self.stdout.is_empty() {
            detail["stdout"] = json!(excerpt(&self.stdout));
        }
        detail["fuel"] = json!(self.fuel);
        let count = |n: usize| Some(u32::try_from(n).unwrap_or(u32::MAX));
        Grading {
            passed: count(self.passed),
            total: count(self.total),
            deterministic: !self.nondeterministic,
            ..Grading::new(verdict, detail)
        }
    }
}

/// Describes why a call fails its test, or `None` if it passes; `check` checks a returned value.
fn failure_of(call: &Call, check: impl Fn(&str) -> Option<Json>) -> Option<Json> {
    match call {
        Call::Returned(value) => check(value),
        Call::Raised { kind, message } => {
            Some(json!({ "raised": excerpt(&format!("{kind}: {message}")) }))
        }
        // A merely long value would come as a digest.
        Call::TooDeepOrLarge => Some(
            json!({ "raised": "the returned value is nested too deeply, or refers to itself" }),
        ),
    }
}
