//! What became of each test of a program: up to the first that was not passed, or of all, over one run or, where the program stopped in a test, several.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use sandboxes::{Call, End, Limits, Run, SandboxError, Watch, outline};
use serde_json::{Value as Json, json};
use verifier_api::Verdict;

use super::{TestMode, with_fuel};
use crate::grade::{Grading, excerpt};

/// Runs besides the first: where a program runs out of fuel or memory or leaves in one test, it goes on with the next in a fresh instance, so that
/// the tests behind that one count too. The verdict is decided by then.
const MAX_FURTHER_RUNS: usize = 3;
/// Fuel of such a run, where less is left: this part of the whole.
const FURTHER_FUEL: u64 = 8;

/// What is wrong with the value that a test returned, by the test's number; `None` where it is right.
pub(super) type Fault = Arc<dyn Fn(usize, &str) -> Option<Json> + Send + Sync>;

/// The counts, and the first test that was not passed.
#[derive(Default)]
pub(super) struct Tally {
    pub passed: usize,
    pub total: usize,
    /// The verdict that the first failure makes, and what is shown of it.
    pub failure: Option<(Verdict, Json)>,
    /// Fuel used, in all.
    pub fuel: u64,
    /// What the first run wrote.
    pub stdout: String,
    /// Whether a clock, or the machine's want of memory, ended one of the runs.
    pub by_chance: bool,
    /// Whether a run of tests got to its end without a call of the program.
    pub uncalled: bool,
}

impl Tally {
    /// Runs `total` tests, or as many as `mode` says. `run` makes a run of those from the given one on.
    pub(super) fn of(
        total: usize,
        limits: &Limits,
        mode: TestMode,
        mut run: impl FnMut(usize, &Limits, Option<&Watch>) -> Result<Run, SandboxError>,
        fault: &Fault,
    ) -> Result<Tally, SandboxError> {
        let mut tally = Tally {
            total,
            ..Tally::default()
        };
        if mode == TestMode::UntilFailure {
            let (judge, passed) = (Arc::clone(fault), Arc::new(AtomicUsize::new(0)));
            let count = Arc::clone(&passed);
            let watch = Watch::new(move |index, call| {
                let right = wrong(call, |value| judge(index, value)).is_none();
                count.store(index + usize::from(right), Ordering::Relaxed);
                right
            });
            let made = run(0, limits, Some(&watch))?;
            tally.watched(made, passed.load(Ordering::Relaxed), fault);
            return Ok(tally);
        }
        let (mut start, mut spent) = (0, 0_u64);
        for further in 0..=MAX_FURTHER_RUNS {
            let left = limits.fuel.saturating_sub(spent);
            let fuel = left.max(limits.fuel / FURTHER_FUEL);
            let made = match run(start, &with_fuel(*limits, fuel), None) {
                Ok(made) => made,
                // Behind a test that has stopped the program, the others may lack what that one was to leave them. This cannot take the verdict back.
                Err(SandboxError::Unusable(_)) if further > 0 => break,
                Err(error) => return Err(error),
            };
            tally.fuel = tally.fuel.saturating_add(made.fuel);
            // One that waited has taken little fuel, and a long time.
            let waited = made.end == End::OutOfTime;
            spent = spent.saturating_add(if waited { fuel } else { made.fuel });
            let answered = made.calls.len().min(total - start);
            for (index, call) in (start..).zip(&made.calls[..answered]) {
                match wrong(call, |value| fault(index, value)) {
                    None => tally.passed += 1,
                    Some(detail) => tally.fail(index, detail),
                }
            }
            start += answered;
            let goes_on = tally.end(&made.end, start);
            if further == 0 {
                tally.stdout = made.stdout;
            }
            start += 1;
            if !goes_on || start >= total {
                break;
            }
        }
        Ok(tally)
    }

    /// That of a program of `total` tests which cannot be loaded: nothing of it ran.
    pub(super) fn unloadable(total: usize, fault: &outline::Fault) -> Tally {
        let mut tally = Tally {
            total,
            ..Tally::default()
        };
        let (kind, message) = (fault.kind.clone(), fault.message.clone());
        tally.end(&End::Unloadable { kind, message }, 0);
        tally
    }

    /// Notes a run of which the watch found the first `passed` tests right; what it did not look at is judged here.
    fn watched(&mut self, made: Run, passed: usize, fault: &Fault) {
        let answered = made.calls.len().min(self.total);
        self.passed = passed.min(answered);
        for (index, call) in made.calls[..answered].iter().enumerate().skip(self.passed) {
            if let Some(detail) = wrong(call, |value| fault(index, value)) {
                self.fail(index, detail);
                break;
            }
            self.passed += 1;
        }
        self.end(&made.end, answered);
        self.fuel = made.fuel;
        self.stdout = made.stdout;
    }

    /// Notes a wrong test.
    fn fail(&mut self, index: usize, mut detail: Json) {
        detail["test"] = json!(index);
        self.failure.get_or_insert((Verdict::Incorrect, detail));
    }

    /// Notes how a run ended, having answered all tests before `index`; whether those behind it are worth another run.
    fn end(&mut self, end: &End, index: usize) -> bool {
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
                self.by_chance = true;
                (Verdict::Timeout, "out of time".to_owned())
            }
            End::OutOfMemory => (Verdict::Memory, "out of memory".to_owned()),
            End::MachineOutOfMemory => {
                self.by_chance = true;
                let reason = "the largest program when the machine was out of memory";
                (Verdict::Memory, reason.to_owned())
            }
            End::Died(how) => (Verdict::Incorrect, excerpt(how)),
        };
        let detail = json!({ "reason": reason, "test": index });
        self.failure.get_or_insert((verdict, detail));
        !matches!(end, End::Completed | End::Uncalled | End::Watched)
    }

    /// This and, behind it, further tests that were not run.
    pub(super) fn and_not_run(mut self, tests: usize) -> Tally {
        self.total += tests;
        self
    }

    /// This and, behind it, what became of further tests.
    pub(super) fn and(mut self, behind: Tally) -> Tally {
        self.passed += behind.passed;
        self.total += behind.total;
        self.fuel = self.fuel.saturating_add(behind.fuel);
        self.by_chance |= behind.by_chance;
        if self.failure.is_none() {
            self.failure = behind.failure;
            self.stdout = behind.stdout;
        }
        self
    }

    /// The verdict: correct only where every test was passed and the program never stopped.
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
            deterministic: !self.by_chance,
            ..Grading::new(verdict, detail)
        }
    }
}

/// What is wrong with how one test ended; `fault` judges a value.
fn wrong(call: &Call, fault: impl Fn(&str) -> Option<Json>) -> Option<Json> {
    match call {
        Call::Returned(value) => fault(value),
        Call::Raised { kind, message } => {
            Some(json!({ "raised": excerpt(&format!("{kind}: {message}")) }))
        }
        Call::TooLarge => Some(json!({ "raised": "the value returned is too large to be sent" })),
    }
}
