//! Python functions: run in a sandbox, their results compared here.
//!
//! ```text
//! completion ── extract ──▶ program ── sandbox ──▶ encoded results ── compare ──▶ verdict
//!       task's own solution ── the same sandbox, once ──▶ expected values ──┘
//! ```
//!
//! The program never sees an expected value, and nothing that it prints or exits with decides anything.

mod brief;
mod compare;
mod equality;
mod expected;
mod extract;
mod oracle;
mod program;
mod suite;
mod tally;

use std::sync::Arc;

use datasets::{CodeTask, Compare, Value};
use sandboxes::{Limits, Program, Sandbox, SandboxError};
use serde_json::{Value as Json, json};
use verifier_api::Verdict;

use super::{Grading, excerpt};
use crate::cache::Disk;
use brief::Brief;
use expected::{Expectation, Expectations};
use suite::Suites;
use tally::Tally;

pub use compare::passes;
pub use extract::extract;

/// Changes whenever the same completion may get another verdict.
pub const VERSION: &str = "code-2";

/// Fuel a second that even a slow machine burns; the backstop is set by it.
const SLOW_FUEL_PER_SECOND: f64 = 1e9;

/// Judges programs in one sandbox.
pub struct CodeGrader {
    sandbox: Arc<dyn Sandbox>,
    limits: Limits,
    expectations: Expectations,
    suites: Suites,
}

/// What a completion is judged with.
#[derive(Clone, Copy)]
struct Attempt<'a> {
    sandbox: &'a dyn Sandbox,
    /// Whether it waits for expected values that another worker is making.
    patient: bool,
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
    /// `memory` bytes of expected values in memory, and all of them on `disk`.
    #[must_use]
    pub fn new(
        sandbox: Arc<dyn Sandbox>,
        limits: Limits,
        memory: usize,
        disk: Option<Arc<Disk>>,
    ) -> CodeGrader {
        CodeGrader {
            sandbox,
            limits,
            expectations: Expectations::new(memory, disk),
            suites: Suites::new(),
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

    /// Judges `completion`. Blocks for as long as the program runs.
    #[must_use]
    pub fn grade(&self, task: &CodeTask, completion: &str) -> Grading {
        self.grade_in(
            Attempt {
                sandbox: &*self.sandbox,
                patient: true,
            },
            task,
            completion,
        )
    }

    /// The same verdict, or `None` where it is not to be had soon: the program, or the task's own solution, runs for longer than most, or that solution is
    /// just being run elsewhere.
    #[must_use]
    pub fn grade_briefly(&self, task: &CodeTask, completion: &str) -> Option<Grading> {
        let grading = self.grade_in(
            Attempt {
                sandbox: &Brief(&*self.sandbox),
                patient: false,
            },
            task,
            completion,
        );
        (grading.verdict != Verdict::Unavailable || !grading.retryable).then_some(grading)
    }

    fn grade_in(&self, attempt: Attempt<'_>, task: &CodeTask, completion: &str) -> Grading {
        let Some(source) = program::assemble(task, completion) else {
            return Grading::new(
                Verdict::Malformed,
                json!({ "reason": "the completion holds no code" }),
            );
        };
        self.try_grade(attempt, task, &source)
            .unwrap_or_else(|unavailable| *unavailable)
    }

    fn try_grade(
        &self,
        attempt: Attempt<'_>,
        task: &CodeTask,
        source: &str,
    ) -> Result<Grading, Box<Grading>> {
        if task.tests.is_empty() && task.asserts.is_empty() {
            return Err(Box::new(Grading::unavailable(
                "the task has neither tests nor asserts, so that nothing can tell a right program from a wrong one",
                false,
            )));
        }
        // All of them run even where some have failed: what is passed counts where a trainer asks for partial credit.
        let values = if task.tests.is_empty() {
            None
        } else {
            Some(self.by_values(attempt, task, source)?)
        };
        let tally = match (values, task.asserts.is_empty()) {
            (Some(values), true) => values,
            (Some(values), false) => values.and(self.by_test_code(attempt, task, source)?),
            (None, _) => self.by_test_code(attempt, task, source)?,
        };
        Ok(tally.grading())
    }

    /// Inputs in, values out, compared here.
    fn by_values(
        &self,
        attempt: Attempt<'_>,
        task: &CodeTask,
        source: &str,
    ) -> Result<Tally, Box<Grading>> {
        let calls: Vec<String> = task
            .tests
            .iter()
            .map(|test| Json::Array(test.args.iter().map(Value::to_json).collect()).to_string())
            .collect();
        let expectation = self.expectation(attempt, task, &calls)?;
        let limits = with_fuel(
            self.limits,
            self.limits.fuel.max(expectation.fuel.saturating_mul(2)),
        );
        let run = |start: usize, limits: &Limits| {
            let program = Program {
                source,
                entry_point: &task.entry_point,
                calls: &calls[start..],
            };
            attempt.sandbox.run(&program, limits)
        };
        let fault = |index: usize, got: &str| {
            let call = &calls[index];
            fault(task, index, call, &expectation.values[index], got)
        };
        Tally::of(calls.len(), &limits, run, fault).map_err(|error| failure(&error))
    }

    /// The tests in an instance of their own, which calls the program's.
    fn by_test_code(
        &self,
        attempt: Attempt<'_>,
        task: &CodeTask,
        source: &str,
    ) -> Result<Tally, Box<Grading>> {
        let suite = self
            .suites
            .of(attempt.sandbox, task, &self.limits)
            .map_err(|error| failure(&error))?;
        let program = Program {
            source,
            entry_point: &task.entry_point,
            calls: &[],
        };
        let run = |start: usize, limits: &Limits| {
            attempt
                .sandbox
                .run_tests(&program, &suite.prelude, &suite.tests[start..], limits)
        };
        let mut tally = Tally::of(suite.tests.len(), &self.limits, run, |_, _| None)
            .map_err(|error| failure(&error))?;
        if let Some((_, detail)) = &mut tally.failure
            && let Some(index) = detail.get("test").and_then(Json::as_u64)
            && let Some(name) = usize::try_from(index).ok().and_then(|i| suite.names.get(i))
        {
            detail["assert"] = json!(excerpt(name));
        }
        Ok(tally)
    }

    /// From the task's own solution, else from the record.
    fn expectation(
        &self,
        attempt: Attempt<'_>,
        task: &CodeTask,
        calls: &[String],
    ) -> Result<Arc<Expectation>, Box<Grading>> {
        if let Some(solution) = &task.canonical {
            return self
                .expectations
                .of(attempt, task, solution, calls, &self.limits)
                .map_err(|none| Box::new(Grading::unavailable(&none.reason, none.retryable)));
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
            Some(values) => Ok(Arc::new(Expectation { values, fuel: 0 })),
            None => Err(Box::new(Grading::unavailable(
                "the task has a test without an expected value and no solution to make one from; leave it out",
                false,
            ))),
        }
    }
}

fn failure(error: &SandboxError) -> Box<Grading> {
    Box::new(Grading::unavailable(
        &error.to_string(),
        matches!(error, SandboxError::Transient(_)),
    ))
}

/// What is wrong with the result of test `index`, or `None`.
fn fault(task: &CodeTask, index: usize, call: &str, expected: &str, got: &str) -> Option<Json> {
    // Most right results have the very encoding of the expected one; a NaN or an opaque object must not pass for itself.
    let plain = !expected.contains("\"$float\"") && !expected.contains("\"$opaque\"");
    let same = expected == got && plain && task.compare != Compare::Root;
    let passed = same
        || (of_a_size(expected, got)
            && match (Value::parse_json(expected), Value::parse_json(got)) {
                (Ok(expected), Ok(got)) => {
                    let args = &task.tests[index].args;
                    passes(args, &expected, &got, task.atol, task.compare)
                }
                _ => false,
            });
    (!passed).then(
        || json!({ "args": excerpt(call), "expected": excerpt(expected), "got": excerpt(got) }),
    )
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
