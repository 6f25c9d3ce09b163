//! What a task's own solution returns: what programs are compared with.

use datasets::{CodeTask, Value};
use serde_json::Value as Json;

use super::CodeGrader;
use super::expected::{Absent, Order, Outcome};

/// What a task's own solution returned, or why there is no such thing: what its samples are compared with.
#[derive(Clone)]
pub struct Reference(pub(super) Outcome);

impl Reference {
    /// Why there is none, and whether another try may make it.
    #[must_use]
    pub fn fault(&self) -> Option<(&str, bool)> {
        let none = self.0.as_ref().err()?;
        Some((&none.reason, none.retryable))
    }
}

impl CodeGrader {
    /// Whether `task`'s own solution says what is right.
    #[must_use]
    pub fn has_reference(task: &CodeTask) -> bool {
        task.canonical.is_some() && !task.tests.is_empty()
    }

    /// What `task`'s own solution returns: run here where that is not known and nobody else runs it. In a `first_pass`, a solution that takes long is given up.
    ///
    /// # Errors
    /// [`Absent`].
    pub fn try_reference(&self, task: &CodeTask, first_pass: bool) -> Result<Reference, Absent> {
        self.with_order(task, |order| self.expectations.try_of(order, first_pass))
            .map(Reference)
    }

    /// Whether the reference of `task` is in memory or on disk.
    #[must_use]
    pub fn knows_reference(&self, task: &CodeTask) -> bool {
        self.with_order(task, |order| self.expectations.known(&order.key()))
            .is_some()
    }

    pub(super) fn with_order<T>(&self, task: &CodeTask, give: impl FnOnce(&Order<'_>) -> T) -> T {
        give(&Order {
            sandbox: &*self.sandbox,
            task,
            solution: task.canonical.as_deref().unwrap_or_default(),
            calls: &calls_of(task),
            limits: &self.limits,
            inline: self.inline,
        })
    }
}

/// The arguments of each of the task's calls.
pub(super) fn calls_of(task: &CodeTask) -> Vec<String> {
    task.tests
        .iter()
        .map(|test| Json::Array(test.args.iter().map(Value::to_json).collect()).to_string())
        .collect()
}
