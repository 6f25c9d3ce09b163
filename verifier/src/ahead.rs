//! References of whole data sets, made before anyone asks for a verdict: what each task's own solution returns, which its samples are compared with.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use datasets::{Dataset, TaskSpec};

use crate::grade::code::{Absent, CodeGrader};
use crate::graders::Graders;
use crate::registry::Known;

/// How long a thread rests that finds only what other processes are making.
const REST: Duration = Duration::from_millis(100);

/// A task whose reference is to be had.
#[derive(Debug)]
pub struct Wanted {
    /// The task's id.
    pub id: String,
    task: Known,
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
            |task| matches!(&task.spec, TaskSpec::Code(code) if CodeGrader::has_reference(code)),
        )
        .filter(|task| seen.insert(task.id.clone()))
        .map(|task| Wanted {
            id: task.id,
            task: Known::from(task.spec),
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

/// Makes the references of `wanted` with so many threads, and says of each how it went, by its place in the list. What is on disk is not made again; what another process is making
/// is left to it.
pub fn make(
    graders: &Graders,
    wanted: &[Wanted],
    workers: usize,
    note: impl Fn(usize, Step) + Sync,
) {
    let mut left = VecDeque::new();
    for (place, Wanted { task, .. }) in wanted.iter().enumerate() {
        if graders.knows_reference(task) {
            note(place, Step::There);
        } else {
            left.push_back(place);
        }
    }
    let left = Mutex::new(left);
    let lock = || left.lock().unwrap_or_else(PoisonError::into_inner);
    std::thread::scope(|scope| {
        for _ in 0..workers.max(1) {
            scope.spawn(|| {
                // How many in a row were being made elsewhere.
                let mut elsewhere = 0;
                loop {
                    let Some(place) = lock().pop_front() else {
                        return;
                    };
                    match graders.try_reference(&wanted[place].task, false) {
                        Some(Ok(reference)) => {
                            let step =
                                reference.fault().map_or(Step::Made, |(reason, retryable)| {
                                    Step::Faulty {
                                        reason: reason.to_owned(),
                                        retryable,
                                    }
                                });
                            note(place, step);
                            elsewhere = 0;
                        }
                        Some(Err(Absent::Elsewhere | Absent::Long)) => {
                            let mut left = lock();
                            left.push_back(place);
                            elsewhere += 1;
                            if elsewhere >= left.len() {
                                drop(left);
                                std::thread::sleep(REST);
                            }
                        }
                        None => note(
                            place,
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
