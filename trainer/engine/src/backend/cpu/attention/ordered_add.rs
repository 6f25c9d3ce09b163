//! Turns for sums that several tasks add to. They add block by block in the tasks' order, so that the sums do not depend on the number or speed of the threads.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::threads::wait_until;
use super::KEYS;

/// Progress of each task of a component with one key head: the task adds nothing more to positions below this number.
pub(super) struct Progress(Vec<AtomicUsize>);

impl Progress {
    pub(super) fn of(tasks: usize) -> Self {
        Self((0..tasks).map(|_| AtomicUsize::new(0)).collect())
    }

    /// The turn of the task with this index. Must be called once for each.
    pub(super) fn turn(&self, index: usize) -> Turn<'_> {
        Turn {
            before: &self.0[..index],
            own: &self.0[index],
            ended: Cell::new(0),
        }
    }
}

/// One task's turn. Its blocks come in order of position. Dropping it ends the turn, also if the task panics.
pub(super) struct Turn<'a> {
    before: &'a [AtomicUsize],
    own: &'a AtomicUsize,
    /// Number of earlier tasks, from the first on, that have ended.
    ended: Cell<usize>,
}

const ENDED: usize = usize::MAX;

impl Turn<'_> {
    /// Waits until every earlier task has made its additions to the block at `position`.
    pub(super) fn wait(&self, position: usize) {
        wait_until(|| {
            for (index, task) in self.before.iter().enumerate().skip(self.ended.get()) {
                let position_reached = task.load(Ordering::Acquire);
                if position_reached < position + KEYS {
                    return false;
                }
                if position_reached == ENDED && index == self.ended.get() {
                    self.ended.set(index + 1);
                }
            }
            true
        });
    }

    /// Lets later tasks add to the block at `position`.
    pub(super) fn pass(&self, position: usize) {
        self.own.store(position + KEYS, Ordering::Release);
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.own.store(ENDED, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn tasks_add_to_each_block_in_order() {
        const TASKS: usize = 12;
        const BLOCKS: usize = 9;
        let progress = Progress::of(TASKS);
        let added: Vec<Mutex<Vec<usize>>> = (0..BLOCKS).map(|_| Mutex::default()).collect();
        // Tasks that start late and end early; they are started in order.
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
    fn a_task_that_panics_blocks_no_other() {
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
