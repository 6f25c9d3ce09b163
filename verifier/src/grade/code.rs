//! The grader of Python functions: it runs them in a sandbox and compares their results here.
//!
//! ```text
//! completion ── extract (the sandbox parses) ──▶ program ── sandbox ──▶ encoded results ── compare ──▶ verdict
//!        canonical solution ── the same sandbox, once ──▶ expected values ──┘
//! ```
//!
//! The program never sees an expected value. Its output and its exit code decide nothing.

mod abandonable;
mod canonical;
mod compare;
mod equality;
mod evalplus_special_rules;
mod expected_values;
mod extract;
mod first_pass;
mod fuel;
mod program;
mod run_tests;
mod stdio;
mod suite;
mod test_dependency;
mod value_mismatch;

use std::borrow::Cow;
use std::sync::Arc;

use datasets::python_name::{class_of_method, invalid_entry_point_reason};
use datasets::{CodeTask, Compare, Value};
use sandboxes::outline::Stopped;
use sandboxes::{
    Abandoned, Deferred, Limits, Program, Request, Sandbox, SandboxError, Watch, Work,
};
use serde_json::{Value as Json, json};
use verifier_api::Verdict;

use super::{Grading, excerpt};
use crate::cache::{ExpectedValueStore, Key};
use abandonable::Abandonable;
use canonical::calls_of;
use compare::Rule;
use expected_values::{ExpectedValues, ExpectedValuesCache};
use extract::ExtractedProgram;
use first_pass::FirstPass;
use program::{Wanted, callable, with_class};
use run_tests::{TestResults, ValueCheck};
use suite::{Suite, Suites};
use value_mismatch::value_mismatch;

pub use canonical::CanonicalResult;
pub use expected_values::NoCanonicalResult;
pub use extract::Extraction;
pub use stdio::{ProgramRun, VERSION as STDIO_VERSION};

/// Changes whenever the same completion may get another verdict.
pub const VERSION: &str = "code-13";

/// Fuel per second that even a slow machine burns on the slowest work per unit of fuel (reads scattered over memory). It determines the backstop.
const SLOW_FUEL_PER_SECOND: f64 = 1e8;

/// Judges programs in one sandbox.
#[derive(Clone)]
pub struct CodeGrader {
    sandbox: Arc<dyn Sandbox>,
    limits: Limits,
    expected_values: Arc<ExpectedValuesCache>,
    suites: Arc<Suites>,
    extraction: Extraction,
    /// Whether the tasks are inline.
    inline: bool,
    /// Whether a completion is a whole program, and not a text that contains one.
    whole_programs: bool,
}

/// How many of a task's tests are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TestMode {
    /// Up to the first that fails, which decides the verdict.
    UntilFailure,
    /// All, so that the share of passed tests is known.
    All,
}

/// How a completion is judged.
#[derive(Clone, Copy)]
struct Attempt<'a> {
    sandbox: &'a dyn Sandbox,
    mode: TestMode,
    /// The result of the canonical solution, if the caller has it.
    canonical_result: Option<&'a CanonicalResult>,
    /// Whether a program that is long, or needs memory that is in use, is deferred.
    first_pass: bool,
}

/// Why a sample has no verdict yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoVerdictYet {
    /// The first pass cannot judge it: it is a proof, its program is long or needs memory that is in use, or a failure occurred that another try may not have. It has to be
    /// judged without a first pass.
    NotInFirstPass,
    /// The result of the task's canonical solution is missing: [`CodeGrader::try_canonical_result`] computes it. The key identifies the result.
    CanonicalResult(Key),
}

/// Why judging ends before all tests have run.
enum EarlyEnd {
    /// The verdict is known.
    Verdict(Box<Grading>),
    /// The result of the canonical solution is missing.
    CanonicalResult(Key),
}

impl From<Box<Grading>> for EarlyEnd {
    fn from(grading: Box<Grading>) -> EarlyEnd {
        EarlyEnd::Verdict(grading)
    }
}

/// `limits` with this amount of fuel, and a backstop far longer than the fuel lasts.
fn with_fuel(limits: Limits, fuel: u64) -> Limits {
    Limits {
        fuel,
        backstop: limits.backstop.max(fuel as f64 / SLOW_FUEL_PER_SECOND),
        ..limits
    }
}

impl CodeGrader {
    /// A grader that runs programs in `sandbox` under `limits`, whose fuel is for tasks that do not need more ([`CodeGrader::fuel_limit`]).
    /// Up to `memory` bytes of expected values are cached in memory. `store`, which limits its own size, stores those of tasks that are not inline.
    #[must_use]
    pub fn new(
        sandbox: Arc<dyn Sandbox>,
        limits: Limits,
        memory: usize,
        store: Option<Arc<ExpectedValueStore>>,
    ) -> CodeGrader {
        CodeGrader {
            sandbox,
            limits,
            expected_values: Arc::new(ExpectedValuesCache::new(memory, store)),
            suites: Arc::new(Suites::new()),
            extraction: Extraction::default(),
            inline: false,
            whole_programs: false,
        }
    }

    /// This grader with another rule for finding the program in a completion.
    #[must_use]
    pub fn extracting(self, extraction: Extraction) -> CodeGrader {
        CodeGrader { extraction, ..self }
    }

    /// This grader for inline tasks. Their expected values are cached in memory only, so that clients cannot fill the disk.
    #[must_use]
    pub fn for_inline(&self) -> CodeGrader {
        CodeGrader {
            inline: true,
            ..self.clone()
        }
    }

    /// This grader for a client who may leave: its runs are broken off then.
    #[must_use]
    pub fn until(&self, abandoned: &Abandoned) -> CodeGrader {
        let sandbox = Abandonable {
            sandbox: Arc::clone(&self.sandbox),
            abandoned: abandoned.clone(),
        };
        CodeGrader {
            sandbox: Arc::new(sandbox),
            ..self.clone()
        }
    }

    /// This grader for whole programs: each is run unchanged, without the task's prefix before it.
    #[must_use]
    pub fn for_whole_programs(&self) -> CodeGrader {
        CodeGrader {
            whole_programs: true,
            ..self.clone()
        }
    }

    /// The sandbox that programs run in.
    #[must_use]
    pub fn sandbox(&self) -> &dyn Sandbox {
        &*self.sandbox
    }

    /// The limits of a program whose task does not need more fuel.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Judges `completion`. Blocks while the program runs, and while the canonical solution runs if its result is missing.
    #[must_use]
    pub fn grade(&self, task: &CodeTask, completion: &str, mode: TestMode) -> Grading {
        let mut canonical_result = None;
        loop {
            match self.grade_with(task, completion, mode, canonical_result.as_ref()) {
                Ok(grading) => return grading,
                Err(_) => {
                    let result = self.with_canonical_run(task, |canonical_run| {
                        self.expected_values.wait_for(canonical_run)
                    });
                    canonical_result = Some(CanonicalResult(result));
                }
            }
        }
    }

    /// Like [`CodeGrader::grade`], but never runs the canonical solution.
    ///
    /// # Errors
    /// The key of the canonical solution's result, if that is neither given nor cached.
    pub fn grade_with(
        &self,
        task: &CodeTask,
        completion: &str,
        mode: TestMode,
        canonical_result: Option<&CanonicalResult>,
    ) -> Result<Grading, Key> {
        let attempt = Attempt {
            sandbox: &*self.sandbox,
            mode,
            canonical_result,
            first_pass: false,
        };
        self.grade_attempt(attempt, task, completion)
    }

    /// Like [`CodeGrader::grade_with`], but gives up on a program that is not finished after a first pass.
    ///
    /// # Errors
    /// Why there is no verdict yet.
    pub fn grade_first_pass(
        &self,
        task: &CodeTask,
        completion: &str,
        mode: TestMode,
        canonical_result: Option<&CanonicalResult>,
    ) -> Result<Grading, NoVerdictYet> {
        let attempt = Attempt {
            sandbox: &FirstPass(&*self.sandbox),
            mode,
            canonical_result,
            first_pass: true,
        };
        match self.grade_attempt(attempt, task, completion) {
            Ok(grading) if grading.verdict == Verdict::Unavailable && grading.retryable => {
                Err(NoVerdictYet::NotInFirstPass)
            }
            Ok(grading) => Ok(grading),
            Err(key) => Err(NoVerdictYet::CanonicalResult(key)),
        }
    }

    /// The program that is run for `completion`; `None` if there is none. In a `first_pass`, a completion that takes long to read is deferred.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn program(
        &self,
        task: &CodeTask,
        completion: &str,
        first_pass: bool,
    ) -> Result<Option<String>, Stopped> {
        let extracted = self.in_pass(first_pass, |sandbox| {
            self.extract_program(sandbox, task, completion)
        })?;
        Ok(extracted.map(|extracted| extracted.source))
    }

    /// Does `work` in the sandbox, which defers what is long if this is a `first_pass`.
    fn in_pass<T>(&self, first_pass: bool, work: impl FnOnce(&dyn Sandbox) -> T) -> T {
        if first_pass {
            work(&FirstPass(&*self.sandbox))
        } else {
            work(&*self.sandbox)
        }
    }

    fn extract_program(
        &self,
        sandbox: &dyn Sandbox,
        task: &CodeTask,
        completion: &str,
    ) -> Result<Option<ExtractedProgram>, Stopped> {
        if self.whole_programs {
            return extract::whole_program(sandbox, completion, &self.limits);
        }
        let wanted = Wanted::from(task);
        extract::find(sandbox, self.extraction, wanted, completion, &self.limits)
    }

    /// Judges one completion: extracts the program, runs its tests, and computes the verdict.
    ///
    /// # Errors
    /// The key of the canonical solution's result, if that is neither given nor cached.
    fn grade_attempt(
        &self,
        attempt: Attempt<'_>,
        task: &CodeTask,
        completion: &str,
    ) -> Result<Grading, Key> {
        match self.extract_program(attempt.sandbox, task, completion) {
            Ok(Some(extracted)) => match self.try_grade(attempt, task, &extracted) {
                Ok(grading) => Ok(grading),
                Err(EarlyEnd::Verdict(grading)) => Ok(*grading),
                Err(EarlyEnd::CanonicalResult(key)) => Err(key),
            },
            Ok(None) => Ok(without_code()),
            Err(stopped) => Ok(unread(stopped).unwrap_or_else(|error| *failure(&error))),
        }
    }

    fn try_grade(
        &self,
        attempt: Attempt<'_>,
        task: &CodeTask,
        extracted: &ExtractedProgram,
    ) -> Result<Grading, EarlyEnd> {
        if let Some(reason) = invalid_entry_point_reason(&task.entry_point) {
            let reason = format!("the task's entry point cannot be defined: {reason}");
            return Err(Box::new(Grading::unavailable(&reason, false)).into());
        }
        if task.tests.is_empty() && task.asserts.is_empty() {
            return Err(Box::new(Grading::unavailable(
                "the task has neither tests nor asserts, so nothing distinguishes correct programs from incorrect ones",
                false,
            ))
            .into());
        }
        let source = &extracted.source;
        if let Some(fault) = &extracted.fault {
            // Computing the expected values, which this verdict does not need, may take minutes.
            let mut total = task.tests.len();
            if !task.asserts.is_empty() {
                total += self.suite(attempt, task)?.tests.len();
            }
            return Ok(TestResults::unloadable(total, fault).grading());
        }
        let expected = self.expected_values(attempt, task)?;
        if attempt.first_pass && first_pass::is_hopeless(expected.fuel) {
            return Err(failure(&Deferred::Long.into()).into());
        }
        let canonical = task.canonical.is_some().then_some(expected.fuel);
        let limits = with_fuel(self.limits, self.fuel_limit(task.time_limit, canonical));
        let mut results = TestResults::default();
        if !task.tests.is_empty() {
            results = self.run_calls(attempt, task, source, expected, &limits)?;
        }
        if !task.asserts.is_empty() {
            results = match attempt.mode {
                TestMode::UntilFailure if results.failure.is_some() => {
                    results.append_not_run(self.suite(attempt, task)?.tests.len())
                }
                _ => results.append(self.run_test_code(attempt, task, source, &limits)?),
            };
        }
        let mut grading = results.grading();
        if grading.passed == Some(0)
            && let Some(remedy) = class_of_method(source, &task.entry_point)
        {
            grading.detail["hint"] = json!(excerpt(&remedy));
        }
        Ok(grading)
    }

    /// Runs the program on the tests' inputs, and compares the values that it returns.
    fn run_calls(
        &self,
        attempt: Attempt<'_>,
        task: &CodeTask,
        source: &str,
        expected: Arc<ExpectedValues>,
        limits: &Limits,
    ) -> Result<TestResults, Box<Grading>> {
        let calls: Arc<[String]> = calls_of(task).into();
        let check: ValueCheck = {
            let calls = Arc::clone(&calls);
            let rule = Rule::from(task);
            Arc::new(move |index, got| {
                value_mismatch(&calls[index], &expected.values[index], got, rule)
            })
        };
        let (source, entry_point) = callable(&task.entry_point, source);
        let run = |start: usize, limits: &Limits, watch: Option<&Watch>| {
            let program = Program {
                source: &source,
                entry_point,
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
        TestResults::run(calls.len(), limits, attempt.mode, run, &check)
            .map_err(|error| failure(&error))
    }

    fn suite(&self, attempt: Attempt<'_>, task: &CodeTask) -> Result<Arc<Suite>, Box<Grading>> {
        self.suites
            .of(attempt.sandbox, &with_class(task), &self.limits)
            .map_err(|error| failure(&error))
    }

    /// Runs the test code in a separate instance, which calls the program's instance.
    fn run_test_code(
        &self,
        attempt: Attempt<'_>,
        task: &CodeTask,
        source: &str,
        limits: &Limits,
    ) -> Result<TestResults, Box<Grading>> {
        let suite = self.suite(attempt, task)?;
        let (source, entry_point) = callable(&task.entry_point, source);
        let mut stopped = Vec::new();
        let run = |start: usize, limits: &Limits, watch: Option<&Watch>| {
            let program = Program {
                source: &source,
                entry_point,
            };
            // A run starts after a test that stopped the program, or with the first test.
            stopped.extend(start.checked_sub(1));
            let setup = suite.setup_for(start, &stopped);
            let tests: Cow<'_, [String]> = if setup.is_empty() {
                Cow::Borrowed(&suite.tests[start..])
            } else {
                Cow::Owned([&setup[..], &suite.tests[start..]].concat())
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
            let repeated = setup.len().min(run.calls.len());
            run.calls.drain(..repeated);
            Ok(run)
        };
        let any_value: ValueCheck = Arc::new(|_, _| None);
        let mut results =
            TestResults::run(suite.tests.len(), limits, attempt.mode, run, &any_value)
                .map_err(|error| failure(&error))?;
        if results.uncalled && results.failure.is_none() {
            let name = &task.entry_point;
            let call = format!(".{name}(");
            let remedy = match suite.tests.iter().any(|test| test.contains(&call)) {
                true => format!("; write a method as `Class().{name}`"),
                false => String::new(),
            };
            let reason = format!(
                "the task's test code never calls `{name}`, so any program would pass; correct the task{remedy}"
            );
            return Err(Box::new(Grading::unavailable(&reason, false)));
        }
        if let Some((_, detail)) = &mut results.failure
            && let Some(index) = detail.get("test").and_then(Json::as_u64)
            && let Ok(index) = usize::try_from(index)
            && let Some(name) = suite.names.get(index)
        {
            if let Some(raised) = detail.get("raised").and_then(Json::as_str)
                && !suite.depends_on_program(index)
            {
                return Err(test_error(name, raised));
            }
            detail["assert"] = json!(excerpt(name));
        }
        Ok(results)
    }

    /// The expected values: from the canonical solution if the task has one, else from its tests.
    fn expected_values(
        &self,
        attempt: Attempt<'_>,
        task: &CodeTask,
    ) -> Result<Arc<ExpectedValues>, EarlyEnd> {
        if task.canonical.is_some() {
            let result = match attempt.canonical_result {
                Some(CanonicalResult(result)) => result.clone(),
                None => self.with_canonical_run(task, |canonical_run| {
                    let key = canonical_run.key();
                    self.expected_values
                        .cached(&key)
                        .ok_or(EarlyEnd::CanonicalResult(key))
                })?,
            };
            let expected = result
                .map_err(|none| Box::new(Grading::unavailable(&none.reason, none.retryable)))?;
            return Ok(check_encodable(expected, task.compare)?);
        }
        let values: Option<Vec<String>> = task
            .tests
            .iter()
            .map(|test| test.expected.as_ref().map(Value::to_json_text))
            .collect();
        match values {
            Some(values) => Ok(check_encodable(
                Arc::new(ExpectedValues { values, fuel: 0 }),
                task.compare,
            )?),
            None => Err(Box::new(Grading::unavailable(
                "the task has a test without an expected value, and no canonical solution to compute it; leave the task out",
                false,
            ))
            .into()),
        }
    }
}

/// The grading of a completion without a program.
fn without_code() -> Grading {
    Grading::new(
        Verdict::Malformed,
        json!({ "reason": "the completion holds no code" }),
    )
}

/// The grading of a completion that was not read to its end. The clock or the machine's memory may allow it another time.
fn unread(stopped: Stopped) -> Result<Grading, SandboxError> {
    let (verdict, reason) = match stopped {
        Stopped::OutOfTime => (Verdict::Timeout, "the completion takes too long to read"),
        Stopped::OutOfMemory => (
            Verdict::Memory,
            "the machine had no memory to read the completion",
        ),
        Stopped::Failed(error) => return Err(error),
    };
    Ok(Grading {
        deterministic: false,
        ..Grading::new(verdict, json!({ "reason": reason }))
    })
}

/// The `unavailable` grading for a failure of the sandbox.
fn failure(error: &SandboxError) -> Box<Grading> {
    Box::new(Grading::unavailable(
        &error.to_string(),
        matches!(error, SandboxError::Deferred(_)),
    ))
}

/// Returns the expected values, or an `unavailable` grading if one of them has no encoding: such a value equals nothing, not even itself, so no program could pass.
fn check_encodable(
    expected: Arc<ExpectedValues>,
    compare: Compare,
) -> Result<Arc<ExpectedValues>, Box<Grading>> {
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
    // Inside a string, the quotes would be escaped by backslashes.
    let (_, kind) = value.split_once("{\"$opaque\":\"")?;
    kind.split('"').next()
}

/// The `unavailable` grading for a test that raises without depending on the program.
fn test_error(name: &str, raised: &str) -> Box<Grading> {
    Box::new(Grading::unavailable(
        &format!(
            "the task's own test code fails whatever the program does (`{}` raises {raised}); correct the task",
            excerpt(name)
        ),
        false,
    ))
}

#[cfg(test)]
mod tests;
