//! Runs a task's canonical solution, whose results are the expected values.

use datasets::{CodeTask, Value};
use sandboxes::Sandbox;
use serde_json::Value as Json;

use super::expected_values::{
    CanonicalRun, ExpectedResult, NoCanonicalResult, NoExpectedValues, solution_limits,
};
use super::{Attempt, CodeGrader, TestMode};

/// The result of a task's canonical solution: the expected values that samples are compared with, or why there are none.
#[derive(Clone)]
pub struct CanonicalResult(pub(super) ExpectedResult);

impl CanonicalResult {
    /// Why there are no expected values, and whether another try may compute them.
    #[must_use]
    pub fn failure(&self) -> Option<(&str, bool)> {
        let none = self.0.as_ref().err()?;
        Some((&none.reason, none.retryable))
    }
}

impl CodeGrader {
    /// Whether `task` has a canonical solution to run: for its expected values, or on its own test code.
    #[must_use]
    pub fn uses_canonical_solution(task: &CodeTask) -> bool {
        task.canonical.is_some() && !(task.tests.is_empty() && task.asserts.is_empty())
    }

    /// The result of `task`'s canonical solution, from the cache or by a run here. In a `first_pass`, a long run is given up.
    ///
    /// # Errors
    /// [`NoCanonicalResult`].
    pub fn try_canonical_result(
        &self,
        task: &CodeTask,
        first_pass: bool,
    ) -> Result<CanonicalResult, NoCanonicalResult> {
        self.with_canonical_run(task, |canonical_run| {
            self.expected_values.try_get(canonical_run, first_pass)
        })
        .map(CanonicalResult)
    }

    /// Whether the result of `task`'s canonical solution is cached, in memory or on disk.
    #[must_use]
    pub fn has_canonical_result(&self, task: &CodeTask) -> bool {
        self.with_canonical_run(task, |canonical_run| {
            self.expected_values.cached(&canonical_run.key())
        })
        .is_some()
    }

    pub(super) fn with_canonical_run<T>(
        &self,
        task: &CodeTask,
        work: impl FnOnce(&CanonicalRun<'_>) -> T,
    ) -> T {
        let solution = task.canonical.as_deref().unwrap_or_default();
        work(&CanonicalRun {
            sandbox: &*self.sandbox,
            task,
            solution,
            calls: &calls_of(task),
            check: &|sandbox| self.check_own_tests(sandbox, task, solution),
            limits: &self.limits,
            inline: self.inline,
        })
    }

    /// Runs the canonical solution on the task's own test code, as far as it has any, and returns the fuel used.
    fn check_own_tests(
        &self,
        sandbox: &dyn Sandbox,
        task: &CodeTask,
        solution: &str,
    ) -> Result<u64, NoExpectedValues> {
        if task.asserts.is_empty() {
            return Ok(0);
        }
        let attempt = Attempt {
            sandbox,
            mode: TestMode::UntilFailure,
            canonical_result: None,
            first_pass: false,
        };
        let limits = solution_limits(&self.limits, self.inline);
        let text = |detail: &Json, name: &str| detail[name].as_str().map(str::to_owned);
        let results = self
            .run_test_code(attempt, task, solution, &limits)
            .map_err(|grading| NoExpectedValues {
                reason: text(&grading.detail, "reason").unwrap_or_default(),
                retryable: grading.retryable,
            })?;
        let Some((_, detail)) = &results.failure else {
            return Ok(results.fuel);
        };
        let what = text(detail, "raised").or_else(|| text(detail, "reason"));
        Err(NoExpectedValues {
            reason: format!(
                "the task's canonical solution does not pass the task's own test code here (`{}`: {}). The task cannot be judged; correct it, or leave it out",
                text(detail, "assert").unwrap_or_default(),
                what.unwrap_or_default()
            ),
            // A clock may decide otherwise another time.
            retryable: results.nondeterministic,
        })
    }
}

/// The encoded arguments of each of the task's tests.
pub(super) fn calls_of(task: &CodeTask) -> Vec<String> {
    task.tests
        .iter()
        .map(|test| {
            let args: Vec<String> = test.args.iter().map(Value::to_json_text).collect();
            format!("[{}]", args.join(","))
        })
        .collect()
}
