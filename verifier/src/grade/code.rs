//! Python functions: run in a sandbox, their results compared here.
//!
//! ```text
//! completion ── extract ──▶ program ── sandbox ──▶ encoded results ── compare ──▶ verdict
//!       task's own solution ── the same sandbox, once ──▶ expected values ──┘
//! ```
//!
//! The program never sees an expected value, and nothing that it prints or exits with decides anything.

mod compare;
mod equality;
mod expected;
mod extract;

use std::sync::Arc;

use datasets::{CodeTask, Value};
use sandboxes::{Call, End, Limits, Program, Run, Sandbox, SandboxError};
use serde_json::{Value as Json, json};
use verifier_api::Verdict;

use super::{Grading, excerpt};
use crate::cache::Disk;
use expected::{Expectation, Expectations};

pub use compare::passes;
pub use extract::extract;

/// Changes whenever the same completion may get another verdict.
pub const VERSION: &str = "code-1";

/// Fuel a second that even a slow machine burns; the backstop is set by it.
const SLOW_FUEL_PER_SECOND: f64 = 1e9;

/// Judges programs in one sandbox.
pub struct CodeGrader {
    sandbox: Arc<dyn Sandbox>,
    limits: Limits,
    expectations: Expectations,
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
        let Some(source) = extract(completion) else {
            return Grading::new(
                Verdict::Malformed,
                json!({ "reason": "the completion holds no code" }),
            );
        };
        self.try_grade(task, source)
            .unwrap_or_else(|unavailable| *unavailable)
    }

    fn try_grade(&self, task: &CodeTask, source: &str) -> Result<Grading, Box<Grading>> {
        if task.tests.is_empty() && task.asserts.is_empty() {
            return Err(Box::new(Grading::unavailable(
                "the task has neither tests nor asserts, so that nothing can tell a right program from a wrong one",
                false,
            )));
        }
        let mut gradings = Vec::new();
        if !task.tests.is_empty() {
            gradings.push(self.by_values(task, source)?);
        }
        // Test code is run only where it can still change the verdict.
        let right_so_far = gradings
            .iter()
            .all(|grading| grading.verdict == Verdict::Correct);
        if !task.asserts.is_empty() && right_so_far {
            gradings.push(self.by_asserts(task, source)?);
        }
        let total = task.tests.len() + task.asserts.len();
        let passed: u32 = gradings.iter().filter_map(|grading| grading.passed).sum();
        // Only the last can have failed.
        let last = gradings
            .pop()
            .unwrap_or_else(|| Grading::unavailable("nothing was judged", true));
        Ok(Grading {
            passed: Some(passed),
            total: Some(u32::try_from(total).unwrap_or(u32::MAX)),
            ..last
        })
    }

    /// Inputs in, values out, compared here.
    fn by_values(&self, task: &CodeTask, source: &str) -> Result<Grading, Box<Grading>> {
        let calls: Vec<String> = task
            .tests
            .iter()
            .map(|test| Json::Array(test.args.iter().map(Value::to_json).collect()).to_string())
            .collect();
        let expectation = self.expectation(task, &calls)?;
        let limits = with_fuel(
            self.limits,
            self.limits.fuel.max(expectation.fuel.saturating_mul(2)),
        );
        let run = self
            .sandbox
            .run(
                &Program {
                    source,
                    entry_point: &task.entry_point,
                    calls: &calls,
                },
                &limits,
            )
            .map_err(|error| failure(&error))?;
        Ok(grade_run(&run, calls.len(), |index, value| {
            fault(task, &calls[index], &expectation.values[index], value)
        }))
    }

    fn by_asserts(&self, task: &CodeTask, source: &str) -> Result<Grading, Box<Grading>> {
        let prelude = task.imports.join("\n");
        let program = Program {
            source,
            entry_point: &task.entry_point,
            calls: &[],
        };
        let run = self
            .sandbox
            .run_tests(&program, &prelude, &task.asserts, &self.limits)
            .map_err(|error| failure(&error))?;
        let mut grading = grade_run(&run, task.asserts.len(), |_, _| None);
        if let Some(test) = grading
            .detail
            .get("test")
            .and_then(Json::as_u64)
            .and_then(|index| task.asserts.get(usize::try_from(index).ok()?))
        {
            grading.detail["assert"] = json!(excerpt(test));
        }
        Ok(grading)
    }

    /// From the task's own solution, else from the record.
    fn expectation(
        &self,
        task: &CodeTask,
        calls: &[String],
    ) -> Result<Arc<Expectation>, Box<Grading>> {
        if let Some(solution) = &task.canonical {
            return self
                .expectations
                .of(&*self.sandbox, task, solution, calls, &self.limits)
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

/// What is wrong with one result, or `None`.
fn fault(task: &CodeTask, call: &str, expected: &str, got: &str) -> Option<Json> {
    // Most right results have the very encoding of the expected one; a NaN or an opaque object must not pass for itself.
    let plain = !expected.contains("\"$float\"") && !expected.contains("\"$opaque\"");
    let same = expected == got && plain;
    let passed = same
        || match (Value::parse_json(expected), Value::parse_json(got)) {
            (Ok(expected), Ok(got)) => passes(&expected, &got, task.atol, task.compare),
            _ => false,
        };
    (!passed).then(
        || json!({ "args": excerpt(call), "expected": excerpt(expected), "got": excerpt(got) }),
    )
}

/// The verdict on a run: the first failing call decides, and how the run ended only where no call had failed before.
fn grade_run(run: &Run, total: usize, fault: impl Fn(usize, &str) -> Option<Json>) -> Grading {
    let mut passed = 0;
    let mut first: Option<Json> = None;
    for (index, call) in run.calls.iter().take(total).enumerate() {
        let wrong = match call {
            Call::Returned(value) => fault(index, value),
            Call::Raised { kind, message } => {
                Some(json!({ "raised": excerpt(&format!("{kind}: {message}")) }))
            }
            Call::TooLarge => {
                Some(json!({ "raised": "the value returned is too large to be sent" }))
            }
        };
        match wrong {
            None => passed += 1,
            Some(mut detail) => {
                detail["test"] = json!(index);
                first.get_or_insert(detail);
            }
        }
    }
    let by_clock = first.is_none() && run.end == End::OutOfTime;
    let (verdict, mut detail) = match (first, &run.end) {
        (Some(detail), _) => (Verdict::Incorrect, detail),
        (None, End::Completed) if passed == total => (Verdict::Correct, json!({})),
        (None, End::Completed) => (
            Verdict::Incorrect,
            json!({ "reason": "not every call was answered", "test": passed }),
        ),
        (None, End::Unloadable { kind, message }) => (
            Verdict::Incorrect,
            json!({ "reason": excerpt(&format!("{kind}: {message}")) }),
        ),
        (None, End::OutOfFuel) => (
            Verdict::Timeout,
            json!({ "reason": "out of fuel", "test": passed }),
        ),
        (None, End::OutOfTime) => (
            Verdict::Timeout,
            json!({ "reason": "out of time, twice", "test": passed }),
        ),
        (None, End::OutOfMemory) => (
            Verdict::Memory,
            json!({ "reason": "out of memory", "test": passed }),
        ),
        (None, End::Died(how)) => (
            Verdict::Incorrect,
            json!({ "reason": excerpt(how), "test": passed }),
        ),
    };
    if verdict != Verdict::Correct && !run.stdout.is_empty() {
        detail["stdout"] = json!(excerpt(&run.stdout));
    }
    detail["fuel"] = json!(run.fuel);
    let count = |n: usize| Some(u32::try_from(n).unwrap_or(u32::MAX));
    Grading {
        passed: count(passed),
        total: count(total),
        deterministic: !by_clock,
        ..Grading::new(verdict, detail)
    }
}

#[cfg(test)]
mod tests;
