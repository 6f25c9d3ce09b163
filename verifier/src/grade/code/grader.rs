//! The grader of Python code: from a completion to its verdict.

use std::borrow::Cow;
use std::sync::Arc;

use datasets::excerpt::excerpt;
use datasets::python_name::{class_of_method, invalid_entry_point_reason};
use datasets::{CodeTask, ProgramTask};
use sandboxes::defined_names::Stopped;
use sandboxes::{
    Abandoned, Deferred, Limits, Program, Request, Run, Sandbox, SandboxError, Watch, Work,
};
use serde_json::{Value as Json, json};

use super::attempt::{self, Attempt};
use super::compare::Rule;
use super::expected_values::{
    CanonicalResult, ExpectedResult, ExpectedValues, ExpectedValuesCache, POLL_INTERVAL,
    check_encodable, recorded_values,
};
use super::extract::{self, ExtractedProgram, Extraction};
use super::fuel::{fuel_limit, with_fuel};
use super::gradings::{bad_task, unread, without_code};
use super::program::{Wanted, callable, calls_of, with_class};
use super::run_tests::{TestMode, TestResults, ValueCheck};
use super::suite::{Suite, Suites};
use super::value_mismatch::value_mismatch;
use crate::cache::{ExpectedValueStore, Key};
use crate::grade::Grading;
use crate::memory_pool::MemoryPool;

/// Changes whenever the same completion may get another verdict.
pub const VERSION: &str = "code-13";

/// Judges programs in one sandbox.
#[derive(Clone)]
pub struct CodeGrader {
    pub(super) sandbox: Attempt,
    pub(super) limits: Limits,
    pub(super) expected_values: Arc<ExpectedValuesCache>,
    suites: Arc<Suites>,
    /// How the program is found in a completion; `None` if the completion is a whole program.
    extraction: Option<Extraction>,
    /// Whether the tasks are inline.
    pub(super) inline: bool,
}

/// A task of the grader of code.
#[derive(Debug, Clone, Copy)]
pub enum CodingTask<'a> {
    /// Its function is called.
    Function(&'a CodeTask),
    /// Its program is run for what it writes.
    Program(&'a ProgramTask),
}

impl<'a> From<&'a CodeTask> for CodingTask<'a> {
    fn from(task: &'a CodeTask) -> CodingTask<'a> {
        CodingTask::Function(task)
    }
}

impl<'a> From<&'a ProgramTask> for CodingTask<'a> {
    fn from(task: &'a ProgramTask) -> CodingTask<'a> {
        CodingTask::Program(task)
    }
}

/// The state of a sample before its verdict. It goes with the sample from one attempt to the next, so that no work is repeated.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SampleState {
    /// The program in its completion, once that has been parsed.
    program: Option<ExtractedProgram>,
    /// The result of its task's canonical solution, once the sample has waited for that.
    pub canonical_result: Option<CanonicalResult>,
}

/// Why a sample has no verdict yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pending {
    /// The first pass cannot judge it, so it has to be judged without one. It is a proof, its program is long or needs memory that is in use, or a failure occurred
    /// that may pass.
    Deferred,
    /// The result of the task's canonical solution is missing: [`CodeGrader::try_canonical_result`] computes it. The key identifies the result.
    CanonicalResult(Key),
}

impl CodeGrader {
    /// A grader that runs programs in `sandbox` under `limits`. Tasks may need more fuel than these give ([`fuel_limit`]). Up to `memory` bytes of expected values are
    /// cached in memory. `store` keeps those of tasks that are not inline, and limits its own size.
    pub fn new(
        sandbox: Arc<dyn Sandbox>,
        limits: Limits,
        memory: usize,
        store: Option<Arc<ExpectedValueStore>>,
    ) -> CodeGrader {
        CodeGrader {
            sandbox: Attempt {
                sandbox,
                memory_pool: None,
                first_pass: false,
                abandoned: None,
            },
            limits,
            expected_values: Arc::new(ExpectedValuesCache::new(memory, store)),
            suites: Arc::new(Suites::new()),
            extraction: Some(Extraction::default()),
            inline: false,
        }
    }

    /// This grader with a pool of `bytes` for all programs together that need more than [`FREE_ALLOWANCE`](crate::memory_pool::FREE_ALLOWANCE). The sandbox must end a
    /// program at its memory limit, whatever the limit is.
    pub fn with_memory_pool(mut self, bytes: Option<u64>) -> CodeGrader {
        self.sandbox.memory_pool = bytes.map(|bytes| Arc::new(MemoryPool::new(bytes)));
        self
    }

    /// This grader with another rule for finding the program in a completion.
    pub fn extracting(self, extraction: Extraction) -> CodeGrader {
        let extraction = Some(extraction);
        CodeGrader { extraction, ..self }
    }

    /// This grader for inline tasks. Their expected values are cached in memory only, so that clients cannot fill the disk.
    pub fn for_inline(&self) -> CodeGrader {
        CodeGrader {
            inline: true,
            ..self.clone()
        }
    }

    /// This grader for whole programs: each is run unchanged, without the task's prefix before it.
    pub fn for_whole_programs(&self) -> CodeGrader {
        CodeGrader {
            extraction: None,
            ..self.clone()
        }
    }

    /// This grader for one attempt. A first pass defers long programs, and those that need memory in use. The runs are cancelled when nobody waits for them any
    /// more.
    pub fn attempt(&self, first_pass: bool, abandoned: Option<&Abandoned>) -> CodeGrader {
        CodeGrader {
            sandbox: Attempt {
                first_pass,
                abandoned: abandoned.cloned(),
                ..self.sandbox.clone()
            },
            ..self.clone()
        }
    }

    /// The sandbox that programs run in.
    pub fn sandbox(&self) -> &dyn Sandbox {
        &self.sandbox
    }

    /// Judges `completion`, unless its verdict needs more than this attempt gives it. Blocks while the program runs, and never runs the canonical solution.
    ///
    /// # Errors
    /// Why there is no verdict yet; never [`Pending::CanonicalResult`] if `state` has that result. The next attempt continues with this `state`.
    pub fn grade<'a>(
        &self,
        task: impl Into<CodingTask<'a>>,
        completion: &str,
        mode: TestMode,
        state: &mut SampleState,
    ) -> Result<Grading, Pending> {
        let SampleState {
            program,
            canonical_result,
        } = state;
        let graded = match task.into() {
            CodingTask::Program(task) => self.program_grading(task, completion, mode, program),
            CodingTask::Function(task) => match self.loadable_program(task, completion, program) {
                Ok(source) => self
                    .expected_values(task, canonical_result.as_ref())?
                    .and_then(|expected| self.run_tests(task, source, mode, expected)),
                Err(grading) => Err(grading),
            },
        };
        let grading = graded.unwrap_or_else(|grading| *grading);
        // Another attempt may have another grading.
        if self.sandbox.first_pass && grading.retryable {
            return Err(Pending::Deferred);
        }
        Ok(grading)
    }

    /// Judges `completion` to the end on this thread, not in a first pass. Runs the canonical solution if its result is missing.
    pub fn judge<'a>(
        &self,
        task: impl Into<CodingTask<'a>>,
        completion: &str,
        mode: TestMode,
    ) -> Grading {
        let (task, mut state) = (task.into(), SampleState::default());
        loop {
            if let Ok(grading) = self.grade(task, completion, mode, &mut state) {
                return grading;
            }
            if let CodingTask::Function(task) = task
                && let Ok(result) = self.try_canonical_result(task)
            {
                state.canonical_result = Some(result);
            } else {
                // Another thread or process computes the result.
                std::thread::sleep(POLL_INTERVAL);
            }
        }
    }

    /// The program that is run for `completion`; `None` if there is none.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn program(
        &self,
        wanted: Wanted<'_>,
        completion: &str,
    ) -> Result<Option<ExtractedProgram>, Stopped> {
        let (sandbox, limits) = (self.sandbox(), &self.limits);
        extract::find(sandbox, self.extraction, wanted, completion, limits)
    }

    /// The program of a completion. The completion is parsed unless its program is `known`.
    ///
    /// # Errors
    /// The grading of a completion without a program, or of one that was not read to its end.
    pub(super) fn extracted<'k>(
        &self,
        wanted: Wanted<'_>,
        completion: &str,
        known: &'k mut Option<ExtractedProgram>,
    ) -> Result<&'k ExtractedProgram, Box<Grading>> {
        let program = match known.take() {
            Some(program) => program,
            None => {
                let program = self.program(wanted, completion).map_err(unread)?;
                program.ok_or_else(without_code)?
            }
        };
        Ok(known.insert(program))
    }

    /// The source of a completion's program, if the parser finds no fault in it.
    ///
    /// # Errors
    /// The grading, if there is no such program, or the task cannot be judged.
    fn loadable_program<'k>(
        &self,
        task: &CodeTask,
        completion: &str,
        known: &'k mut Option<ExtractedProgram>,
    ) -> Result<&'k str, Box<Grading>> {
        let program = self.extracted(Wanted::from(task), completion, known)?;
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
        let Some(fault) = &program.fault else {
            return Ok(&program.source);
        };
        // The expected values may take minutes to compute, and this verdict does not need them.
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
        if self.sandbox.first_pass && attempt::exceeds_first_pass(expected.fuel) {
            return Err(SandboxError::from(Deferred::Long).into());
        }
        let canonical = task.canonical.is_some().then_some(expected.fuel);
        let fuel = fuel_limit(self.sandbox(), &self.limits, task.time_limit, canonical);
        let limits = with_fuel(self.limits, fuel);
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
            self.call(&source, entry_point, &calls[start..], limits, watch)
        };
        TestResults::run(calls.len(), limits, mode, run, &check)
    }

    /// Runs a program for these calls of its entry point.
    pub(super) fn call(
        &self,
        source: &str,
        entry_point: &str,
        calls: &[String],
        limits: &Limits,
        watch: Option<&Watch>,
    ) -> Result<Run, SandboxError> {
        let program = Program {
            source,
            entry_point,
        };
        let work = Work::Calls { program, calls };
        self.sandbox.run(&Request {
            watch,
            ..Request::new(work, limits)
        })
    }

    fn suite(&self, task: &CodeTask) -> Result<Arc<Suite>, SandboxError> {
        self.suites
            .of(self.sandbox(), &with_class(task), &self.limits)
    }

    /// Runs the test code in a separate instance. It calls the program's instance.
    pub(super) fn run_test_code(
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
    ) -> Result<ExpectedResult, Pending> {
        let expected = match canonical_result {
            _ if task.canonical.is_none() => recorded_values(task),
            Some(CanonicalResult(result)) => result.clone(),
            None => {
                let key = self.canonical_key(task);
                let cached = self.expected_values.cached(&key);
                cached.ok_or(Pending::CanonicalResult(key))?
            }
        };
        Ok(expected.and_then(|expected| check_encodable(expected, task.compare)))
    }
}

#[cfg(test)]
mod tests;
