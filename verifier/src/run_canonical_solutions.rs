//! Runs the canonical solutions of whole data sets ahead of time, so that their expected values are cached before the first sample is judged.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use datasets::{Dataset, TaskSpec};

use crate::grade::code::{CodeGrader, NoCanonicalResult};
use crate::graders::Graders;
use crate::registry::RegisteredTask;

/// Poll interval of a thread for which only solutions are left that other processes are running.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A task with a canonical solution to run.
#[derive(Debug)]
pub struct TaskToRun {
    /// The task's id.
    pub id: String,
    task: RegisteredTask,
}

/// The tasks of a data set whose expected values come from a canonical solution. A task in both splits is returned once.
#[must_use]
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
            task: RegisteredTask::from(task.spec),
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

/// Runs the canonical solutions of `tasks` with `workers` threads, and passes the outcome of each task to `report`, with its index. Expected values on disk are not
/// computed again. A solution that another process is running is left to that process.
pub fn run(
    graders: &Graders,
    tasks: &[TaskToRun],
    workers: usize,
    report: impl Fn(usize, Outcome) + Sync,
) {
    let mut left = VecDeque::new();
    for (index, TaskToRun { task, .. }) in tasks.iter().enumerate() {
        if graders.has_canonical_result(task) {
            report(index, Outcome::Cached);
        } else {
            left.push_back(index);
        }
    }
    let left = Mutex::new(left);
    let lock = || left.lock().unwrap_or_else(PoisonError::into_inner);
    std::thread::scope(|scope| {
        for _ in 0..workers.max(1) {
            scope.spawn(|| {
                // Consecutive solutions that others were running.
                let mut elsewhere = 0;
                loop {
                    let Some(index) = lock().pop_front() else {
                        return;
                    };
                    match graders.try_canonical_result(&tasks[index].task, false, None) {
                        Ok(result) => {
                            let outcome = result.failure().map_or(
                                Outcome::Computed,
                                |(reason, retryable)| Outcome::Failed {
                                    reason: reason.to_owned(),
                                    retryable,
                                },
                            );
                            report(index, outcome);
                            elsewhere = 0;
                        }
                        Err(NoCanonicalResult::Elsewhere | NoCanonicalResult::NotInFirstPass) => {
                            let mut left = lock();
                            left.push_back(index);
                            elsewhere += 1;
                            if elsewhere >= left.len() {
                                drop(left);
                                std::thread::sleep(POLL_INTERVAL);
                            }
                        }
                        Err(NoCanonicalResult::Unavailable) => report(
                            index,
                            Outcome::Failed {
                                reason: "code cannot be judged now".to_owned(),
                                retryable: true,
                            },
                        ),
                    }
                }
            });
        }
    });
}
