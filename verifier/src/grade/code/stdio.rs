//! Judges whole programs: each test is a run of its own, as natively, and its standard output is compared here.
//!
//! The program never sees the expected output. Its exit status can only make a test fail.

mod compare;

use datasets::ProgramTask;
use sandboxes::outline::Stopped;
use sandboxes::{
    Deferred, End, Limits, MAX_STREAM_BYTES, Request, Run, Sandbox, SandboxError, Work,
};
use serde_json::json;

use super::extract::{self, ExtractedProgram};
use super::first_pass::{self, FirstPass};
use super::program::Wanted;
use super::run_tests::TestResults;
use super::{CodeGrader, NoVerdictYet, TestMode, failure, unread, with_fuel, without_code};
use crate::grade::{Grading, excerpt};

/// Changes whenever the same program may get another verdict.
pub const VERSION: &str = "stdio-1";

/// The fuel of all tests of a task together, in multiples of the fuel of one.
const MAX_TESTS_FUEL: u64 = 10;

/// A program to run for what it writes.
#[derive(Debug, Clone, PartialEq)]
pub struct ProgramRun {
    /// Python source.
    pub source: String,
    /// What it reads from standard input, at most [`MAX_STREAM_BYTES`].
    pub stdin: String,
    /// Fuel of the run.
    pub fuel: u64,
    /// Bytes of memory.
    pub memory: u64,
}

impl CodeGrader {
    /// Judges `completion`. Blocks while the program runs.
    #[must_use]
    pub fn grade_program(&self, task: &ProgramTask, completion: &str, mode: TestMode) -> Grading {
        self.program_grading(task, completion, mode, false)
            .unwrap_or_else(|error| *failure(&error))
    }

    /// Like [`CodeGrader::grade_program`], but gives up on a program that is not finished after a first pass.
    ///
    /// # Errors
    /// [`NoVerdictYet::NotInFirstPass`].
    pub fn grade_program_first_pass(
        &self,
        task: &ProgramTask,
        completion: &str,
        mode: TestMode,
    ) -> Result<Grading, NoVerdictYet> {
        match self.program_grading(task, completion, mode, true) {
            Ok(grading) => Ok(grading),
            Err(SandboxError::Deferred(_)) => Err(NoVerdictYet::NotInFirstPass),
            Err(error) => Ok(*failure(&error)),
        }
    }

    /// Runs a program. In a `first_pass`, a program that is long or needs memory that is in use is deferred.
    ///
    /// # Errors
    /// [`SandboxError`] if there is no run.
    pub fn run_program(&self, run: &ProgramRun, first_pass: bool) -> Result<Run, SandboxError> {
        let limits = Limits {
            memory: run.memory,
            ..with_fuel(self.limits, run.fuel)
        };
        self.in_pass(first_pass, |sandbox| {
            run_once(sandbox, &run.source, &run.stdin, &limits)
        })
    }

    /// The program of a completion; `None` if there is none. In a `first_pass`, a completion that takes long to read is deferred.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn stdio_program(
        &self,
        completion: &str,
        first_pass: bool,
    ) -> Result<Option<String>, Stopped> {
        let extracted = self.in_pass(first_pass, |sandbox| {
            self.extract_stdio_program(sandbox, completion)
        })?;
        Ok(extracted.map(|extracted| extracted.source))
    }

    fn extract_stdio_program(
        &self,
        sandbox: &dyn Sandbox,
        completion: &str,
    ) -> Result<Option<ExtractedProgram>, Stopped> {
        if self.whole_programs {
            return extract::whole_program(sandbox, completion, &self.limits);
        }
        extract::find(
            sandbox,
            self.extraction,
            Wanted::PROGRAM,
            completion,
            &self.limits,
        )
    }

    fn program_grading(
        &self,
        task: &ProgramTask,
        completion: &str,
        mode: TestMode,
        first_pass: bool,
    ) -> Result<Grading, SandboxError> {
        check(task)?;
        let first = FirstPass(&*self.sandbox);
        let sandbox: &dyn Sandbox = if first_pass { &first } else { &*self.sandbox };
        let extracted = match self.extract_stdio_program(sandbox, completion) {
            Ok(Some(extracted)) => extracted,
            Ok(None) => return Ok(without_code()),
            Err(stopped) => return unread(stopped),
        };
        if let Some(fault) = &extracted.fault {
            return Ok(TestResults::unloadable(task.tests.len(), fault).grading());
        }
        let results = self.run_program_tests(sandbox, task, &extracted.source, mode, first_pass)?;
        Ok(results.grading())
    }

    fn run_program_tests(
        &self,
        sandbox: &dyn Sandbox,
        task: &ProgramTask,
        source: &str,
        mode: TestMode,
        first_pass: bool,
    ) -> Result<TestResults, SandboxError> {
        let mut results = TestResults {
            total: task.tests.len(),
            ..TestResults::default()
        };
        let limit = self.fuel_limit(task.time_limit, None);
        let mut left = limit.saturating_mul(MAX_TESTS_FUEL);
        for (index, test) in task.tests.iter().enumerate() {
            let fuel = limit.min(left);
            if fuel == 0 {
                results.record_end(&End::OutOfFuel, index);
                break;
            }
            let limits = with_fuel(self.limits, fuel);
            let run = run_once(sandbox, source, &test.stdin, &limits)?;
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
            if first_pass && first_pass::is_hopeless(results.fuel) {
                return Err(Deferred::Long.into());
            }
        }
        Ok(results)
    }
}

/// Checks that some program can pass the task's tests.
///
/// # Errors
/// [`SandboxError::Unusable`] if none can.
fn check(task: &ProgramTask) -> Result<(), SandboxError> {
    let unusable = |reason: String| Err(SandboxError::Unusable(reason));
    if task.tests.is_empty() {
        return unusable(
            "the task has no tests, so nothing distinguishes correct programs from incorrect ones"
                .to_owned(),
        );
    }
    for (index, test) in task.tests.iter().enumerate() {
        for (name, text) in [("stdin", &test.stdin), ("stdout", &test.stdout)] {
            if text.len() > MAX_STREAM_BYTES {
                return unusable(format!(
                    "`{name}` of test {index} of the task has {} bytes, and {MAX_STREAM_BYTES} are the most that a program can read or write; leave the test out",
                    text.len()
                ));
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
