//! Runs the canonical solutions of whole data sets ahead of time, so that their expected values are cached before the first sample is judged.

use std::collections::HashSet;
use std::pin::pin;
use std::sync::Arc;

use datasets::{Dataset, TaskSpec};
use futures::StreamExt as _;

use crate::grade::code::CodeGrader;
use crate::judging::{Judge, run_canonical_solution};
use crate::registry::RegisteredTask;

/// A task with a canonical solution to run.
#[derive(Debug)]
pub struct TaskToRun {
    /// The task's id.
    pub id: String,
    task: Arc<RegisteredTask>,
}

/// The tasks of a data set that get their expected values from a canonical solution. A task in both splits is returned once.
pub fn tasks_with_canonical_solution(dataset: Dataset) -> Vec<TaskToRun> {
    let mut seen = HashSet::new();
    dataset
        .train
        .into_iter()
        .chain(dataset.eval)
        .filter(
            |task| matches!(&task.spec, TaskSpec::Code(code) if CodeGrader::uses_canonical_solution(code)),
        )
        .filter(|task| seen.insert(task.id.clone()))
        .map(|task| TaskToRun {
            id: task.id,
            task: Arc::new(RegisteredTask::from(task.spec)),
        })
        .collect()
}

/// The outcome for one task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The expected values were on disk already.
    Cached,
    /// The expected values were computed, here or meanwhile by another process.
    Computed,
    /// The solution gave no expected values.
    Failed {
        /// Why.
        reason: String,
        /// Whether another try may succeed.
        retryable: bool,
    },
}

/// Runs the canonical solutions of `tasks`, and calls `report` with the index and the outcome of each. Expected values on disk are not computed again. If another
/// process is running a solution, this waits for its result.
pub async fn run(judge: &Arc<Judge>, tasks: &[TaskToRun], mut report: impl FnMut(usize, Outcome)) {
    let outcomes = futures::stream::iter(tasks.iter().enumerate())
        .map(move |(index, task)| async move { (index, outcome(judge, &task.task).await) });
    // Bounds the solutions that wait. They hold no permits.
    let mut outcomes = pin!(outcomes.buffer_unordered(judge.queue_capacity.max(1)));
    while let Some((index, outcome)) = outcomes.next().await {
        report(index, outcome);
    }
}

async fn outcome(judge: &Arc<Judge>, task: &Arc<RegisteredTask>) -> Outcome {
    if judge.graders.has_canonical_result(task) {
        return Outcome::Cached;
    }
    let result = run_canonical_solution(judge, task).await;
    let lost = "the sandbox is unavailable, or the work in it was lost";
    let failure = match &result {
        None => Some((lost, true)),
        Some(result) => result.failure(),
    };
    match failure {
        None => Outcome::Computed,
        Some((reason, retryable)) => Outcome::Failed {
            reason: reason.to_owned(),
            retryable,
        },
    }
}
