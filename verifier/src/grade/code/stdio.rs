//! Judges whole programs. Each test is a run of its own, as natively, and its standard output is compared here.
//!
//! The program never sees the expected output. Its exit status can only make a test fail.

mod compare;

use datasets::ProgramTask;
use datasets::excerpt::excerpt;
use sandboxes::{
    Deferred, End, Limits, MAX_STREAM_BYTES, Request, Run, Sandbox, SandboxError, Work,
};
use serde_json::json;

use super::attempt;
use super::extract::ExtractedProgram;
use super::fuel::{fuel_limit, with_fuel};
use super::grader::CodeGrader;
use super::gradings::bad_task;
use super::program::Wanted;
use super::run_tests::{TestMode, TestResults};
use crate::grade::Grading;

/// Changes whenever the same program may get another verdict.
pub const VERSION: &str = "stdio-1";

/// The fuel of all tests of a task together, in multiples of the fuel of one.
const MAX_TESTS_FUEL: u64 = 10;

/// A program to run for its output.
#[derive(Debug, Clone, PartialEq)]
pub struct ProgramRun {
    /// Python source.
    pub source: String,
    /// The content of standard input, at most [`MAX_STREAM_BYTES`].
    pub stdin: String,
    /// Fuel of the run.
    pub fuel: u64,
    /// Bytes of memory.
    pub memory: u64,
}

impl CodeGrader {
    /// Runs a program.
    ///
    /// # Errors
    /// [`SandboxError`] if there is no run.
    pub fn run_program(&self, run: &ProgramRun) -> Result<Run, SandboxError> {
        let limits = Limits {
            memory: run.memory,
            ..with_fuel(self.limits, run.fuel)
        };
        run_once(self.sandbox(), &run.source, &run.stdin, &limits)
    }

    pub(super) fn program_grading(
        &self,
        task: &ProgramTask,
        completion: &str,
        mode: TestMode,
        known: &mut Option<ExtractedProgram>,
    ) -> Result<Grading, Box<Grading>> {
        check(task)?;
        let extracted = self.extracted(Wanted::PROGRAM, completion, known)?;
        let results = match &extracted.fault {
            Some(fault) => TestResults::unloadable(task.tests.len(), fault),
            None => self.run_program_tests(task, &extracted.source, mode)?,
        };
        Ok(results.grading())
    }

    fn run_program_tests(
        &self,
        task: &ProgramTask,
        source: &str,
        mode: TestMode,
    ) -> Result<TestResults, SandboxError> {
        let mut results = TestResults::of(task.tests.len());
        let limit = fuel_limit(self.sandbox(), &self.limits, task.time_limit, None);
        let mut left = limit.saturating_mul(MAX_TESTS_FUEL);
        for (index, test) in task.tests.iter().enumerate() {
            let fuel = limit.min(left);
            if fuel == 0 {
                results.record_end(&End::OutOfFuel, index);
                break;
            }
            let limits = with_fuel(self.limits, fuel);
            let run = run_once(self.sandbox(), source, &test.stdin, &limits)?;
            results.fuel = results.fuel.saturating_add(run.fuel);
            // A program that waited used little fuel but much time.
            let waited = run.end == End::OutOfTime;
            left = left.saturating_sub(if waited { fuel } else { run.fuel });
            match &run.end {
                End::Exited { status: 0, .. } => {
                    match compare::difference(&test.stdout, &run.stdout) {
                        None => results.passed += 1,
                        Some(difference) => {
                            let mut detail = difference.detail();
                            detail["stdin"] = json!(excerpt(&test.stdin));
                            results.record_failure(index, detail);
                        }
                    }
                }
                End::Exited { status, stderr } => {
                    let mut detail = json!({ "reason": format!("exit status {status}") });
                    detail["stdin"] = json!(excerpt(&test.stdin));
                    if let Some(last) = stderr.trim_end().lines().next_back() {
                        detail["stderr"] = json!(excerpt(last));
                    }
                    results.record_failure(index, detail);
                }
                end => _ = results.record_end(end, index),
            }
            if mode == TestMode::UntilFailure && results.failure.is_some() {
                break;
            }
            // Many short runs take as long as a long one.
            if self.sandbox.first_pass && attempt::exceeds_first_pass(results.fuel) {
                return Err(Deferred::Long.into());
            }
        }
        Ok(results)
    }
}

/// Checks that some program can pass the task's tests.
///
/// # Errors
/// The `unavailable` grading if none can.
fn check(task: &ProgramTask) -> Result<(), Box<Grading>> {
    if task.tests.is_empty() {
        return Err(bad_task(
            "the task has no tests, so nothing distinguishes correct programs from incorrect ones",
        ));
    }
    for (index, test) in task.tests.iter().enumerate() {
        for (name, text) in [("stdin", &test.stdin), ("stdout", &test.stdout)] {
            if text.len() > MAX_STREAM_BYTES {
                return Err(bad_task(&format!(
                    "`{name}` of test {index} of the task has {} bytes, and {MAX_STREAM_BYTES} are the most that a program can read or write; leave the test out",
                    text.len()
                )));
            }
        }
    }
    Ok(())
}

fn run_once(
    sandbox: &dyn Sandbox,
    source: &str,
    stdin: &str,
    limits: &Limits,
) -> Result<Run, SandboxError> {
    let limits = Limits {
        output: MAX_STREAM_BYTES,
        ..*limits
    };
    sandbox.run(&Request::new(Work::WholeProgram { source, stdin }, &limits))
}
