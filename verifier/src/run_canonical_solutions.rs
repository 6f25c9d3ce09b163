//! Runs the canonical solutions of whole data sets ahead of time, so that their expected values are cached before the first sample is judged.

use std::collections::{HashSet, VecDeque};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use datasets::{Dataset, TaskSpec};

use crate::grade::code::{CodeGrader, NoCanonicalResult};
use crate::graders::Graders;
use crate::registry::RegisteredTask;

/// Pause of a thread that has come upon a solution that another process is running.
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
    mut report: impl FnMut(usize, Outcome),
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
    let work = |outcomes: Sender<(usize, Outcome)>| loop {
        // Not in the condition, where the lock would be held meanwhile.
        let next = lock().pop_front();
        let Some(index) = next else { return };
        let outcome = match graders.try_canonical_result(&tasks[index].task, false, None) {
            Ok(result) => match result.failure() {
                None => Outcome::Computed,
                Some((reason, retryable)) => Outcome::Failed {
                    reason: reason.to_owned(),
                    retryable,
                },
            },
            Err(NoCanonicalResult::Unavailable) => Outcome::Failed {
                reason: "code cannot be judged now".to_owned(),
                retryable: true,
            },
            Err(NoCanonicalResult::Elsewhere | NoCanonicalResult::NotInFirstPass) => {
                lock().push_back(index);
                std::thread::sleep(POLL_INTERVAL);
                continue;
            }
        };
        // It is received until all threads have ended.
        let _ = outcomes.send((index, outcome));
    };
    std::thread::scope(|scope| {
        let (sender, outcomes) = channel();
        for _ in 0..workers.max(1) {
            let (work, sender) = (&work, sender.clone());
            scope.spawn(move || work(sender));
        }
        drop(sender);
        outcomes
            .into_iter()
            .for_each(|(index, outcome)| report(index, outcome));
    });
}
