//! Runs a task's canonical solution, whose results are the expected values.

use datasets::{CodeTask, Value};

use super::CodeGrader;
use super::expected_values::{CanonicalRun, ExpectedResult, NoCanonicalResult};

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
    /// Whether `task` takes its expected values from a canonical solution.
    #[must_use]
    pub fn uses_canonical_solution(task: &CodeTask) -> bool {
        task.canonical.is_some() && !task.tests.is_empty()
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
        work(&CanonicalRun {
            sandbox: &*self.sandbox,
            task,
            solution: task.canonical.as_deref().unwrap_or_default(),
            calls: &calls_of(task),
            limits: &self.limits,
            inline: self.inline,
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
