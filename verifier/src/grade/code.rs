//! Python functions: run in a sandbox, their results compared here.
//!
//! ```text
//! completion ── extract (the sandbox parses) ──▶ program ── sandbox ──▶ encoded results ── compare ──▶ verdict
//!       task's own solution ── the same sandbox, once ──▶ expected values ──┘
//! ```
//!
//! The program never sees an expected value, and nothing that it prints or exits with decides anything.

mod blame;
mod compare;
mod equality;
mod expected;
mod extract;
mod first_pass;
mod oracle;
mod program;
mod reference;
mod suite;
mod tally;

use std::borrow::Cow;
use std::sync::Arc;

use datasets::python_name::invalid_name_reason;
use datasets::{CodeTask, Compare, Value};
use sandboxes::outline::Stopped;
use sandboxes::{Deferred, Limits, Program, Request, Sandbox, SandboxError, Watch, Work};
use serde_json::{Value as Json, json};
use verifier_api::Verdict;

use super::{Grading, excerpt};
use crate::cache::{Key, Shelf};
use expected::{Expectation, Expectations};
use extract::Found;
use first_pass::FirstPass;
use reference::calls_of;
use suite::{Suite, Suites};
use tally::{Fault, Tally};

pub use compare::passes;
pub use expected::Absent;
pub use extract::Extraction;
pub use reference::Reference;

/// Changes whenever the same completion may get another verdict.
pub const VERSION: &str = "code-10";

/// Fuel a second that even a slow machine burns, in what costs the least of it (gathering from all over the memory); the backstop is set by it.
const SLOW_FUEL_PER_SECOND: f64 = 1e8;

/// Judges programs in one sandbox.
pub struct CodeGrader {
    sandbox: Arc<dyn Sandbox>,
    limits: Limits,
    expectations: Arc<Expectations>,
    suites: Arc<Suites>,
    extraction: Extraction,
    /// Whether tasks come with requests, and not from a data set.
    inline: bool,
    /// Whether what is judged are whole programs, and no completions that hold some.
    whole: bool,
}

/// How many of a task's tests are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TestMode {
    /// Those up to the first that is not passed, which decides the verdict.
    UntilFailure,
    /// All, so that the share of those that are passed is known.
    All,
}

/// What a completion is judged with.
#[derive(Clone, Copy)]
struct Attempt<'a> {
    sandbox: &'a dyn Sandbox,
    mode: TestMode,
    /// What the task's own solution returned, where that is known beforehand.
    reference: Option<&'a Reference>,
    /// Whether a program that takes long is deferred.
    first_pass: bool,
}

/// Why a sample has no verdict yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unfinished {
    /// Its program runs for longer than most.
    Long,
    /// It needs the task's reference, which is not known: [`CodeGrader::try_reference`] makes it. No other task has this key.
    Reference(Key),
}

/// Why judging stops where it is.
enum Halt {
    Verdict(Box<Grading>),
    Reference(Key),
}

impl From<Box<Grading>> for Halt {
    fn from(grading: Box<Grading>) -> Halt {
        Halt::Verdict(grading)
    }
}

/// `limits` with another amount of fuel, and a backstop far beyond it.
fn with_fuel(limits: Limits, fuel: u64) -> Limits {
    Limits {
        fuel,
        backstop: limits.backstop.max(fuel as f64 / SLOW_FUEL_PER_SECOND),
        ..limits
    }
}

impl CodeGrader {
    /// Judges in `sandbox` under `limits` (a task whose own solution needs more fuel than half of theirs gets twice what that needs), with up to
    /// `memory` bytes of expected values in memory, and all of them on `shelf`.
    #[must_use]
    pub fn new(
        sandbox: Arc<dyn Sandbox>,
        limits: Limits,
        memory: usize,
        shelf: Option<Arc<Shelf>>,
    ) -> CodeGrader {
        CodeGrader {
            sandbox,
            limits,
            expectations: Arc::new(Expectations::new(memory, shelf)),
            suites: Arc::new(Suites::new()),
            extraction: Extraction::default(),
            inline: false,
            whole: false,
        }
    }

    /// The same grader with another way to find the program in a completion.
    #[must_use]
    pub fn extracting(self, extraction: Extraction) -> CodeGrader {
        CodeGrader { extraction, ..self }
    }

    /// The same grader for tasks that come with requests. What the solution of such a task returns stays in memory alone: whoever may ask must not fill the disk.
    #[must_use]
    pub fn for_inline(&self) -> CodeGrader {
        CodeGrader {
            sandbox: Arc::clone(&self.sandbox),
            limits: self.limits,
            expectations: Arc::clone(&self.expectations),
            suites: Arc::clone(&self.suites),
            extraction: self.extraction,
            inline: true,
            whole: self.whole,
        }
    }

    /// The same grader for whole programs: each is run as it stands, without a task's prefix before it.
    #[must_use]
    pub fn for_programs(&self) -> CodeGrader {
        CodeGrader {
            sandbox: Arc::clone(&self.sandbox),
            limits: self.limits,
            expectations: Arc::clone(&self.expectations),
            suites: Arc::clone(&self.suites),
            extraction: self.extraction,
            inline: self.inline,
            whole: true,
        }
    }

    /// The sandbox that verdicts are made in.
    #[must_use]
    pub fn sandbox(&self) -> &dyn Sandbox {
        &*self.sandbox
    }

    /// The limits of a task whose own solution is not known to need more.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Judges `completion`. Blocks for as long as the program runs, and for as long as the task's own solution does where its reference is not known.
    #[must_use]
    pub fn grade(&self, task: &CodeTask, completion: &str, mode: TestMode) -> Grading {
        let mut reference = None;
        loop {
            match self.grade_with(task, completion, mode, reference.as_ref()) {
                Ok(grading) => return grading,
                Err(_) => {
                    let made = self.with_order(task, |order| self.expectations.of(order));
                    reference = Some(Reference(made));
                }
            }
        }
    }

    /// As [`CodeGrader::grade`], but it runs no solution: the key of the task's reference, where that is neither given nor known.
    ///
    /// # Errors
    /// The key of a reference that is missing.
    pub fn grade_with(
        &self,
        task: &CodeTask,
        completion: &str,
        mode: TestMode,
        reference: Option<&Reference>,
    ) -> Result<Grading, Key> {
        let attempt = Attempt {
            sandbox: &*self.sandbox,
            mode,
            reference,
            first_pass: false,
        };
        self.grade_in(attempt, task, completion)
    }

    /// The same verdict, where a first pass finds it.
    ///
    /// # Errors
    /// What it has to wait for.
    pub fn grade_first_pass(
        &self,
        task: &CodeTask,
        completion: &str,
        mode: TestMode,
        reference: Option<&Reference>,
    ) -> Result<Grading, Unfinished> {
        let attempt = Attempt {
            sandbox: &FirstPass(&*self.sandbox),
            mode,
            reference,
            first_pass: true,
        };
        match self.grade_in(attempt, task, completion) {
            Ok(grading) if grading.verdict == Verdict::Unavailable && grading.retryable => {
                Err(Unfinished::Long)
            }
            Ok(grading) => Ok(grading),
            Err(key) => Err(Unfinished::Reference(key)),
        }
    }

    /// The program that `completion` is judged by; `None` where it holds none.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn program(&self, task: &CodeTask, completion: &str) -> Result<Option<String>, Stopped> {
        let found = self.found(&*self.sandbox, task, completion)?;
        Ok(found.map(|found| found.source))
    }

    fn found(
        &self,
        sandbox: &dyn Sandbox,
        task: &CodeTask,
        completion: &str,
    ) -> Result<Option<Found>, Stopped> {
        if self.whole {
            return extract::as_it_stands(sandbox, completion, &self.limits);
        }
        extract::find(sandbox, self.extraction, task, completion, &self.limits)
    }

    /// # Errors
    /// The key of a reference that is missing.
    fn grade_in(
        &self,
        attempt: Attempt<'_>,
        task: &CodeTask,
        completion: &str,
    ) -> Result<Grading, Key> {
        match self.found(attempt.sandbox, task, completion) {
            Ok(Some(found)) => match self.try_grade(attempt, task, &found) {
                Ok(grading) => Ok(grading),
                Err(Halt::Verdict(grading)) => Ok(*grading),
                Err(Halt::Reference(key)) => Err(key),
            },
            Ok(None) => Ok(Grading::new(
                Verdict::Malformed,
                json!({ "reason": "the completion holds no code" }),
            )),
            Err(Stopped::OutOfTime) => Ok(Grading {
                deterministic: false,
                ..Grading::new(
                    Verdict::Timeout,
                    json!({ "reason": "the completion takes too long to read" }),
                )
            }),
            Err(Stopped::Failed(error)) => Ok(*failure(&error)),
        }
    }

    fn try_grade(
        &self,
        attempt: Attempt<'_>,
        task: &CodeTask,
        found: &Found,
    ) -> Result<Grading, Halt> {
        if let Some(reason) = invalid_name_reason(&task.entry_point) {
            let reason = format!("the task's entry point cannot be defined: {reason}");
            return Err(Box::new(Grading::unavailable(&reason, false)).into());
        }
        if task.tests.is_empty() && task.asserts.is_empty() {
            return Err(Box::new(Grading::unavailable(
                "the task has neither tests nor asserts, so that nothing can tell a right program from a wrong one",
                false,
            ))
            .into());
        }
        let source = &found.source;
        if let Some(fault) = &found.fault {
            // What its tests expect may take minutes to make.
            let mut total = task.tests.len();
            if !task.asserts.is_empty() {
                total += self.suite(attempt, task)?.tests.len();
            }
            return Ok(Tally::unloadable(total, fault).grading());
        }
        let mut tally = Tally::default();
        if !task.tests.is_empty() {
            tally = self.by_values(attempt, task, source)?;
        }
        if !task.asserts.is_empty() {
            tally = match attempt.mode {
                TestMode::UntilFailure if tally.failure.is_some() => {
                    tally.and_not_run(self.suite(attempt, task)?.tests.len())
                }
                _ => tally.and(self.by_test_code(attempt, task, source)?),
            };
        }
        Ok(tally.grading())
    }

    /// Inputs in, values out, compared here.
    fn by_values(
        &self,
        attempt: Attempt<'_>,
        task: &CodeTask,
        source: &str,
    ) -> Result<Tally, Halt> {
        let calls = calls_of(task);
        let expectation = self.expectation(attempt, task)?;
        if attempt.first_pass && first_pass::is_hopeless(expectation.fuel) {
            return Err(failure(&Deferred::Long.into()).into());
        }
        let limits = with_fuel(
            self.limits,
            self.limits.fuel.max(expectation.fuel.saturating_mul(2)),
        );
        let calls: Arc<[String]> = calls.into();
        let fault: Fault = {
            let (calls, expectation) = (Arc::clone(&calls), Arc::clone(&expectation));
            let (atol, compare) = (task.atol, task.compare);
            Arc::new(move |index, got| {
                fault(
                    &calls[index],
                    &expectation.values[index],
                    got,
                    atol,
                    compare,
                )
            })
        };
        let run = |start: usize, limits: &Limits, watch: Option<&Watch>| {
            let program = Program {
                source,
                entry_point: &task.entry_point,
            };
            let work = Work::Calls {
                program,
                calls: &calls[start..],
            };
            attempt.sandbox.run(&Request {
                watch,
                ..Request::new(work, limits)
            })
        };
        Tally::of(calls.len(), &limits, attempt.mode, run, &fault)
            .map_err(|error| failure(&error).into())
    }

    fn suite(&self, attempt: Attempt<'_>, task: &CodeTask) -> Result<Arc<Suite>, Box<Grading>> {
        self.suites
            .of(attempt.sandbox, task, &self.limits)
            .map_err(|error| failure(&error))
    }

    /// The tests in an instance of their own, which calls the program's.
    fn by_test_code(
        &self,
        attempt: Attempt<'_>,
        task: &CodeTask,
        source: &str,
    ) -> Result<Tally, Box<Grading>> {
        let suite = self.suite(attempt, task)?;
        let mut stopped = Vec::new();
        let run = |start: usize, limits: &Limits, watch: Option<&Watch>| {
            let program = Program {
                source,
                entry_point: &task.entry_point,
            };
            // A run begins behind a test that stopped the program, or with the first.
            stopped.extend(start.checked_sub(1));
            let again = suite.before(start, &stopped);
            let tests: Cow<'_, [String]> = if again.is_empty() {
                Cow::Borrowed(&suite.tests[start..])
            } else {
                Cow::Owned([&again[..], &suite.tests[start..]].concat())
            };
            let work = Work::Tests {
                program,
                prelude: &suite.prelude,
                tests: &tests,
            };
            let mut run = attempt.sandbox.run(&Request {
                watch,
                ..Request::new(work, limits)
            })?;
            let repeated = again.len().min(run.calls.len());
            run.calls.drain(..repeated);
            Ok(run)
        };
        let none: Fault = Arc::new(|_, _| None);
        let mut tally = Tally::of(suite.tests.len(), &self.limits, attempt.mode, run, &none)
            .map_err(|error| failure(&error))?;
        if tally.uncalled && tally.failure.is_none() {
            let reason = format!(
                "the task's test code never calls `{}`, so that any program would pass; correct the task",
                task.entry_point
            );
            return Err(Box::new(Grading::unavailable(&reason, false)));
        }
        if let Some((_, detail)) = &mut tally.failure
            && let Some(index) = detail.get("test").and_then(Json::as_u64)
            && let Ok(index) = usize::try_from(index)
            && let Some(name) = suite.names.get(index)
        {
            if let Some(raised) = detail.get("raised").and_then(Json::as_str)
                && !suite.depends_on_program(index)
            {
                return Err(own_fault(name, raised));
            }
            detail["assert"] = json!(excerpt(name));
        }
        Ok(tally)
    }

    /// From the task's own solution, else from the record.
    fn expectation(&self, attempt: Attempt<'_>, task: &CodeTask) -> Result<Arc<Expectation>, Halt> {
        if task.canonical.is_some() {
            let made = match attempt.reference {
                Some(Reference(made)) => made.clone(),
                None => self.with_order(task, |order| {
                    let key = order.key();
                    self.expectations.known(&key).ok_or(Halt::Reference(key))
                })?,
            };
            let made =
                made.map_err(|none| Box::new(Grading::unavailable(&none.reason, none.retryable)))?;
            return Ok(comparable(made, task.compare)?);
        }
        let values: Option<Vec<String>> = task
            .tests
            .iter()
            .map(|test| {
                test.expected
                    .as_ref()
                    .map(|value| value.to_json().to_string())
            })
            .collect();
        match values {
            Some(values) => Ok(comparable(
                Arc::new(Expectation { values, fuel: 0 }),
                task.compare,
            )?),
            None => Err(Box::new(Grading::unavailable(
                "the task has a test without an expected value and no solution to make one from; leave it out",
                false,
            ))
            .into()),
        }
    }
}

fn failure(error: &SandboxError) -> Box<Grading> {
    Box::new(Grading::unavailable(
        &error.to_string(),
        matches!(error, SandboxError::Deferred(_)),
    ))
}

/// What is expected, where there is a program that could return it. Nothing equals what has no encoding, itself included.
fn comparable(
    expected: Arc<Expectation>,
    compare: Compare,
) -> Result<Arc<Expectation>, Box<Grading>> {
    if matches!(compare, Compare::NotNone | Compare::Root) {
        return Ok(expected);
    }
    let opaque = expected
        .values
        .iter()
        .enumerate()
        .find_map(|(test, value)| Some((test, without_encoding(value)?)));
    if let Some((test, kind)) = opaque {
        let reason = format!(
            "test {test} of the task expects a value of type {}, which has no encoding, so that no program could pass; have the task's solution return built-in types (such as \
             str(x) or list(x)), or test it by `asserts`",
            excerpt(kind)
        );
        return Err(Box::new(Grading::unavailable(&reason, false)));
    }
    Ok(expected)
}

/// The type of the first object in an encoded value that has no encoding.
fn without_encoding(value: &str) -> Option<&str> {
    // Inside a text its quotes would stand behind backslashes.
    let (_, kind) = value.split_once("{\"$opaque\":\"")?;
    kind.split('"').next()
}

/// The verdict where a test that never asks the program raises.
fn own_fault(name: &str, raised: &str) -> Box<Grading> {
    Box::new(Grading::unavailable(
        &format!(
            "the task's own test code fails whatever the program does (`{}` raises {raised}); correct the task",
            excerpt(name)
        ),
        false,
    ))
}

/// What is wrong with `got`, the result of `call`, or `None`.
fn fault(call: &str, expected: &str, got: &str, atol: f64, compare: Compare) -> Option<Json> {
    // Most right results have the very encoding of the expected one; an opaque object must not pass for itself.
    let plain = !expected.contains("\"$opaque\"");
    let same = expected == got && plain && compare != Compare::Root;
    if same || (of_a_size(expected, got) && is_passed(call, expected, got, atol, compare)) {
        return None;
    }
    let mut detail =
        json!({ "args": excerpt(call), "expected": excerpt(expected), "got": excerpt(got) });
    if let Some(kind) = without_encoding(got) {
        detail["no_encoding"] = json!(excerpt(kind));
    }
    Some(detail)
}

fn is_passed(call: &str, expected: &str, got: &str, atol: f64, compare: Compare) -> bool {
    let (Ok(expected), Ok(got)) = (Value::parse_json(expected), Value::parse_json(got)) else {
        return false;
    };
    let args = match compare {
        Compare::Equal | Compare::Set | Compare::NotNone => Vec::new(),
        Compare::PyramidSurface | Compare::DigitDistance | Compare::Root => {
            match Value::parse_json(call) {
                Ok(Value::List(args)) => args,
                _ => return false,
            }
        }
    };
    passes(&args, &expected, &got, atol, compare)
}

/// Whether `got` is not so much longer than `expected`, in bytes or in elements, that it is not worth reading: a program may return 16 MiB for each test,
/// and reading them costs time and memory that no fuel pays for. The longest that equals something short is an integer of 309 digits, for `1e308`.
fn of_a_size(expected: &str, got: &str) -> bool {
    let commas = |text: &str| text.bytes().filter(|&byte| byte == b',').count();
    got.len() <= (64 << 10) + 64 * expected.len()
        && (got.len() <= 64 << 10 || commas(got) <= 10_000 + 4 * commas(expected))
}

#[cfg(test)]
mod tests;
