//! References of whole data sets, made before anyone asks for a verdict. A task's reference is what its own solution returns, with which its samples are compared.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use datasets::{Dataset, TaskSpec};

use crate::grade::code::{CodeGrader, NoCanonicalResult};
use crate::graders::Graders;
use crate::registry::RegisteredTask;

/// How long a thread pauses that finds only references that other processes are making.
const REST: Duration = Duration::from_millis(100);

/// A task whose reference is to be had.
#[derive(Debug)]
pub struct Wanted {
    /// The task's id.
    pub id: String,
    task: RegisteredTask,
}

/// The tasks of a data set that have a reference. One that is both trained on and evaluated is one task.
#[must_use]
pub fn wanted(dataset: Dataset) -> Vec<Wanted> {
    let mut seen = HashSet::new();
    dataset
        .train
        .into_iter()
        .chain(dataset.eval)
        .filter(
            |task| matches!(&task.spec, TaskSpec::Code(code) if CodeGrader::uses_canonical_solution(code)),
        )
        .filter(|task| seen.insert(task.id.clone()))
        .map(|task| Wanted {
            id: task.id,
            task: RegisteredTask::from(task.spec),
        })
        .collect()
}

/// How it went with one task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// It was on disk already.
    There,
    /// It was made, here or meanwhile by another process.
    Made,
    /// The task has none.
    Faulty {
        /// Why.
        reason: String,
        /// Whether another try may make it.
        retryable: bool,
    },
}

/// Makes the references of `wanted` with this many threads, and reports how each went, by its index. What is on disk is not made again; what another process is making
/// is left to it.
pub fn make(
    graders: &Graders,
    wanted: &[Wanted],
    workers: usize,
    note: impl Fn(usize, Step) + Sync,
) {
    let mut left = VecDeque::new();
    for (index, Wanted { task, .. }) in wanted.iter().enumerate() {
        if graders.has_canonical_result(task) {
            note(index, Step::There);
        } else {
            left.push_back(index);
        }
    }
    let left = Mutex::new(left);
    let lock = || left.lock().unwrap_or_else(PoisonError::into_inner);
    std::thread::scope(|scope| {
        for _ in 0..workers.max(1) {
            scope.spawn(|| {
                // References in a row that others were making.
                let mut elsewhere = 0;
                loop {
                    let Some(index) = lock().pop_front() else {
                        return;
                    };
                    match graders.try_canonical_result(&wanted[index].task, false) {
                        Ok(reference) => {
                            let step =
                                reference.fault().map_or(Step::Made, |(reason, retryable)| {
                                    Step::Faulty {
                                        reason: reason.to_owned(),
                                        retryable,
                                    }
                                });
                            note(index, step);
                            elsewhere = 0;
                        }
                        Err(NoCanonicalResult::Elsewhere | NoCanonicalResult::Long) => {
                            let mut left = lock();
                            left.push_back(index);
                            elsewhere += 1;
                            if elsewhere >= left.len() {
                                drop(left);
                                std::thread::sleep(REST);
                            }
                        }
                        Err(NoCanonicalResult::Unavailable) => note(
                            index,
                            Step::Faulty {
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
