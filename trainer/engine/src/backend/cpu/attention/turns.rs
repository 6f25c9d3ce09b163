//! Turns at sums that several tasks add to: block by block in the tasks' order, so that the sums are the same whatever the threads and their speed.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::threads::wait_until;
use super::KEYS;

/// How far each task of a component has come with one head of keys: it adds nothing more to positions below.
pub(super) struct Progress(Vec<AtomicUsize>);

impl Progress {
    pub(super) fn of(tasks: usize) -> Self {
        Self((0..tasks).map(|_| AtomicUsize::new(0)).collect())
    }

    /// The turn of the task at this place, once for each.
    pub(super) fn turn(&self, place: usize) -> Turn<'_> {
        Turn {
            before: &self.0[..place],
            own: &self.0[place],
            ended: Cell::new(0),
        }
    }
}

/// One task's turn. Its blocks come in order of position. Dropped, it is over, also where the task panicked.
pub(super) struct Turn<'a> {
    before: &'a [AtomicUsize],
    own: &'a AtomicUsize,
    /// So many of those before are over.
    ended: Cell<usize>,
}

const OVER: usize = usize::MAX;

impl Turn<'_> {
    /// Waits until every task before this one has added what it adds to the block at `position`.
    pub(super) fn wait(&self, position: usize) {
        wait_until(|| {
            for (place, task) in self.before.iter().enumerate().skip(self.ended.get()) {
                let come = task.load(Ordering::Acquire);
                if come < position + KEYS {
                    return false;
                }
                if come == OVER && place == self.ended.get() {
                    self.ended.set(place + 1);
                }
            }
            true
        });
    }

    /// Lets others add to the block at `position`.
    pub(super) fn pass(&self, position: usize) {
        self.own.store(position + KEYS, Ordering::Release);
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.own.store(OVER, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn each_block_is_added_to_in_the_order_of_the_tasks() {
        const TASKS: usize = 12;
        const BLOCKS: usize = 9;
        let progress = Progress::of(TASKS);
        let added: Vec<Mutex<Vec<usize>>> = (0..BLOCKS).map(|_| Mutex::default()).collect();
        // Tasks that begin late and end early, begun in their order.
        let blocks = |task: usize| task % 4..BLOCKS - task % 3;
        std::thread::scope(|scope| {
            for task in 0..TASKS {
                let (turn, added) = (progress.turn(task), &added);
                scope.spawn(move || {
                    for block in blocks(task) {
                        turn.wait(block * KEYS);
                        added[block].lock().unwrap().push(task);
                        turn.pass(block * KEYS);
                    }
                });
            }
        });
        for (block, added) in added.into_iter().enumerate() {
            let all: Vec<usize> = (0..TASKS)
                .filter(|task| blocks(*task).contains(&block))
                .collect();
            assert_eq!(added.into_inner().unwrap(), all, "block {block}");
        }
    }

    #[test]
    fn a_task_that_panics_holds_nobody_up() {
        let progress = Progress::of(2);
        let first = progress.turn(0);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
            first.wait(0);
            panic!("as wanted");
        }));
        assert!(panicked.is_err());
        progress.turn(1).wait(0);
    }
}
