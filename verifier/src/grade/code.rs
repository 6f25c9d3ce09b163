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
use expected_values::{ExpectedResult, ExpectedValues, ExpectedValuesCache, POLL_INTERVAL};
use extract::ExtractedProgram;
use first_pass::FirstPass;
use program::{callable, with_class};
use run_tests::{TestResults, ValueCheck};
use suite::{Suite, Suites};
use value_mismatch::value_mismatch;

pub use canonical::CanonicalResult;
pub use expected_values::NoCanonicalResult;
pub use extract::Extraction;
pub use program::Wanted;
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
    /// Whether what is long, or needs memory that is in use, is deferred.
    first_pass: bool,
}

/// How many of a task's tests are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TestMode {
    /// Up to the first that fails, which decides the verdict.
    UntilFailure,
    /// All, so that the share of passed tests is known.
    All,
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
            first_pass: false,
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

    /// This grader for a first pass, which gives up what is long or needs memory that is in use.
    #[must_use]
    pub fn for_first_pass(&self) -> CodeGrader {
        CodeGrader {
            sandbox: Arc::new(FirstPass(Arc::clone(&self.sandbox))),
            first_pass: true,
            ..self.clone()
        }
    }

    /// The sandbox that programs run in.
    #[must_use]
    pub fn sandbox(&self) -> &dyn Sandbox {
        &*self.sandbox
    }

    /// Judges `completion`, not in a first pass. Blocks while the program runs, and while the canonical solution runs if its result is missing.
    #[must_use]
    pub fn grade(&self, task: &CodeTask, completion: &str, mode: TestMode) -> Grading {
        let mut canonical_result = None;
        loop {
            match self.try_grade(task, completion, mode, canonical_result.as_ref()) {
                Ok(grading) => return grading,
                Err(_) => match self.try_canonical_result(task) {
                    Ok(result) => canonical_result = Some(result),
                    // Another thread or process computes it.
                    Err(_) => std::thread::sleep(POLL_INTERVAL),
                },
            }
        }
    }

    /// Like [`CodeGrader::grade`], but never runs the canonical solution, and may be a first pass.
    ///
    /// # Errors
    /// Why there is no verdict yet; never [`NoVerdictYet::CanonicalResult`] if a `canonical_result` is given.
    pub fn try_grade(
        &self,
        task: &CodeTask,
        completion: &str,
        mode: TestMode,
        canonical_result: Option<&CanonicalResult>,
    ) -> Result<Grading, NoVerdictYet> {
        let graded = match self.loadable_program(task, completion) {
            Ok(source) => self
                .expected_values(task, canonical_result)?
                .and_then(|expected| self.run_tests(task, &source, mode, expected)),
            Err(grading) => Err(grading),
        };
        self.settled(graded)
    }

    /// The grading, unless this is a first pass and another try may have another one.
    fn settled(&self, graded: Result<Grading, Box<Grading>>) -> Result<Grading, NoVerdictYet> {
        let grading = graded.unwrap_or_else(|grading| *grading);
        if self.first_pass && grading.retryable {
            return Err(NoVerdictYet::NotInFirstPass);
        }
        Ok(grading)
    }

    /// The program that is run for `completion`; `None` if there is none.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn program(&self, wanted: Wanted<'_>, completion: &str) -> Result<Option<String>, Stopped> {
        let extracted = self.extract(wanted, completion)?;
        Ok(extracted.map(|extracted| extracted.source))
    }

    fn extract(
        &self,
        wanted: Wanted<'_>,
        completion: &str,
    ) -> Result<Option<ExtractedProgram>, Stopped> {
        if self.whole_programs {
            return extract::whole_program(self.sandbox(), completion, &self.limits);
        }
        extract::find(
            self.sandbox(),
            self.extraction,
            wanted,
            completion,
            &self.limits,
        )
    }

    /// The program of a completion.
    ///
    /// # Errors
    /// The grading of a completion without a program, or that was not read to its end.
    fn extracted(
        &self,
        wanted: Wanted<'_>,
        completion: &str,
    ) -> Result<ExtractedProgram, Box<Grading>> {
        self.extract(wanted, completion)
            .map_err(unread)?
            .ok_or_else(without_code)
    }

    /// The source of a completion's program, if the parser finds no fault in it.
    ///
    /// # Errors
    /// The grading, if there is no such program, or the task cannot be judged.
    fn loadable_program(&self, task: &CodeTask, completion: &str) -> Result<String, Box<Grading>> {
        let ExtractedProgram { source, fault } = self.extracted(Wanted::from(task), completion)?;
        if let Some(reason) = invalid_entry_point_reason(&task.entry_point) {
            return Err(bad_task(&format!(
                "the task's entry point cannot be defined: {reason}"
            )));
        }
        if task.tests.is_empty() && task.asserts.is_empty() {
            return Err(bad_task(
                "the task has neither tests nor asserts, so nothing distinguishes correct programs from incorrect ones",
            ));
        }
        let Some(fault) = fault else {
            return Ok(source);
        };
        // Computing the expected values, which this verdict does not need, may take minutes.
        let mut total = task.tests.len();
        if !task.asserts.is_empty() {
            total += self.suite(task)?.tests.len();
        }
        Err(Box::new(TestResults::unloadable(total, fault).grading()))
    }

    /// Runs a program on a task's tests and test code.
    fn run_tests(
        &self,
        task: &CodeTask,
        source: &str,
        mode: TestMode,
        expected: Arc<ExpectedValues>,
    ) -> Result<Grading, Box<Grading>> {
        if self.first_pass && first_pass::is_hopeless(expected.fuel) {
            return Err(SandboxError::from(Deferred::Long).into());
        }
        let canonical = task.canonical.is_some().then_some(expected.fuel);
        let limits = with_fuel(self.limits, self.fuel_limit(task.time_limit, canonical));
        let mut results = TestResults::default();
        if !task.tests.is_empty() {
            results = self.run_calls(task, source, mode, expected, &limits)?;
        }
        if !task.asserts.is_empty() {
            if mode == TestMode::UntilFailure && results.failure.is_some() {
                results.total += self.suite(task)?.tests.len();
            } else {
                results = results.append(self.run_test_code(task, source, mode, &limits)?);
            }
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
        task: &CodeTask,
        source: &str,
        mode: TestMode,
        expected: Arc<ExpectedValues>,
        limits: &Limits,
    ) -> Result<TestResults, SandboxError> {
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
            self.sandbox.run(&Request {
                watch,
                ..Request::new(work, limits)
            })
        };
        TestResults::run(calls.len(), limits, mode, run, &check)
    }

    fn suite(&self, task: &CodeTask) -> Result<Arc<Suite>, SandboxError> {
        self.suites
            .of(self.sandbox(), &with_class(task), &self.limits)
    }

    /// Runs the test code in a separate instance, which calls the program's instance.
    fn run_test_code(
        &self,
        task: &CodeTask,
        source: &str,
        mode: TestMode,
        limits: &Limits,
    ) -> Result<TestResults, Box<Grading>> {
        let suite = self.suite(task)?;
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
            let mut run = self.sandbox.run(&Request {
                watch,
                ..Request::new(work, limits)
            })?;
            let repeated = setup.len().min(run.calls.len());
            run.calls.drain(..repeated);
            Ok(run)
        };
        let any_value: ValueCheck = Arc::new(|_, _| None);
        let mut results = TestResults::run(suite.tests.len(), limits, mode, run, &any_value)?;
        if results.uncalled && results.failure.is_none() {
            let name = &task.entry_point;
            let call = format!(".{name}(");
            let remedy = match suite.tests.iter().any(|test| test.contains(&call)) {
                true => format!("; write a method as `Class().{name}`"),
                false => String::new(),
            };
            return Err(bad_task(&format!(
                "the task's test code never calls `{name}`, so any program would pass; correct the task{remedy}"
            )));
        }
        if let Some((_, detail)) = &mut results.failure
            && let Some(index) = detail.get("test").and_then(Json::as_u64)
            && let Ok(index) = usize::try_from(index)
            && let Some(name) = suite.names.get(index)
        {
            if let Some(raised) = detail.get("raised").and_then(Json::as_str)
                && !suite.depends_on_program(index)
            {
                return Err(bad_task(&format!(
                    "the task's own test code fails whatever the program does (`{}` raises {raised}); correct the task",
                    excerpt(name)
                )));
            }
            detail["assert"] = json!(excerpt(name));
        }
        Ok(results)
    }

    /// The expected values: from the canonical solution if the task has one, else from its tests.
    ///
    /// # Errors
    /// The canonical solution's result is neither given nor cached.
    fn expected_values(
        &self,
        task: &CodeTask,
        canonical_result: Option<&CanonicalResult>,
    ) -> Result<ExpectedResult, NoVerdictYet> {
        let expected = match canonical_result {
            _ if task.canonical.is_none() => recorded_values(task),
            Some(CanonicalResult(result)) => result.clone(),
            None => {
                let key = self.canonical_key(task);
                let cached = self.expected_values.cached(&key);
                cached.ok_or(NoVerdictYet::CanonicalResult(key))?
            }
        };
        Ok(expected.and_then(|expected| check_encodable(expected, task.compare)))
    }
}

/// The expected values that a task's tests have.
fn recorded_values(task: &CodeTask) -> ExpectedResult {
    let recorded = task.tests.iter();
    let values: Option<_> = recorded
        .map(|test| test.expected.as_ref().map(Value::to_json_text))
        .collect();
    let values = values.ok_or_else(|| {
        bad_task(
            "the task has a test without an expected value, and no canonical solution to compute it; leave the task out",
        )
    })?;
    Ok(Arc::new(ExpectedValues { values, fuel: 0 }))
}

/// The grading of a completion without a program.
fn without_code() -> Box<Grading> {
    Box::new(Grading::new(
        Verdict::Malformed,
        json!({ "reason": "the completion holds no code" }),
    ))
}

/// The grading of a completion that was not read to its end. The clock or the machine's memory may allow it another time.
fn unread(stopped: Stopped) -> Box<Grading> {
    let (verdict, reason) = match stopped {
        Stopped::OutOfTime => (Verdict::Timeout, "the completion takes too long to read"),
        Stopped::OutOfMemory => (
            Verdict::Memory,
            "the machine had no memory to read the completion",
        ),
        Stopped::Failed(error) => return error.into(),
    };
    Box::new(Grading {
        deterministic: false,
        ..Grading::new(verdict, json!({ "reason": reason }))
    })
}

/// A failure of the sandbox says nothing about the program.
impl From<SandboxError> for Box<Grading> {
    fn from(error: SandboxError) -> Box<Grading> {
        let retryable = matches!(error, SandboxError::Deferred(_));
        Box::new(Grading::unavailable(&error.to_string(), retryable))
    }
}

/// The `unavailable` grading for an error in the task.
fn bad_task(reason: &str) -> Box<Grading> {
    Box::new(Grading::unavailable(reason, false))
}

/// Returns the expected values, or an `unavailable` grading if one of them has no encoding: such a value equals nothing, not even itself, so no program could pass.
fn check_encodable(expected: Arc<ExpectedValues>, compare: Compare) -> ExpectedResult {
    if matches!(compare, Compare::NotNone | Compare::Root) {
        return Ok(expected);
    }
    let mut values = expected.values.iter().enumerate();
    if let Some((test, kind)) =
        values.find_map(|(test, value)| Some((test, without_encoding(value)?)))
    {
        return Err(bad_task(&format!(
            "test {test} of the task expects a value of type {}, which has no encoding, so that no program could pass; have the task's solution return built-in types (such as \
             str(x) or list(x)), or test it by `asserts`",
            excerpt(kind)
        )));
    }
    Ok(expected)
}

/// The type of the first object in an encoded value that has no encoding.
fn without_encoding(value: &str) -> Option<&str> {
    // Inside a string, the quotes would be escaped by backslashes.
    let (_, kind) = value.split_once("{\"$opaque\":\"")?;
    kind.split('"').next()
}

#[cfg(test)]
mod tests;
