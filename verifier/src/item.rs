//! A sample that is judged.

use std::sync::Arc;

use verifier_api::Id;

use crate::grade::code::{SampleState, TestMode};
use crate::registry::RegisteredTask;

/// An item to be judged, with its task. It moves from its request to its verdict, and collects what is found out about it on the way.
#[derive(Debug, Clone, PartialEq)]
pub struct JudgeItem {
    /// The client's name for the item.
    pub id: Id,
    /// The task.
    pub task: Arc<RegisteredTask>,
    /// The prompt as the model saw it; empty if the client omits it. It is part of the verdict's key. Only the grader of mathematics reads it.
    pub prompt: String,
    /// The model's completion.
    pub completion: String,
    /// How many of a code task's tests are run.
    pub test_mode: TestMode,
    /// The state of a code item; empty at first.
    pub state: SampleState,
}
