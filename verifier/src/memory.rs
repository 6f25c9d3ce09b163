//! The memory that programs have together.
//!
//! Nearly every program needs less than [`MODEST`], which each may have at any time. One that needs more is run again, from its start, with all that its limit
//! allows, once there is memory for it. Up to where the first run ends, both are the same: the sandbox ends a program at its limit, and does not let it know of the
//! limit before. So a verdict does not depend on what else runs. A request that is not to wait is deferred where there is no memory for it now.

use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use sandboxes::{
    Deferred, End, Identity, Limits, Patience, Request, Run, Sandbox, SandboxError, Work,
};

/// Bytes that an instance may have without asking.
pub const MODEST: u64 = 256 << 20;
/// Instances of a run with test code: the tests' and the program's.
const INSTANCES: u64 = 2;
/// Bytes of a machine that does not say how many it has.
const UNKNOWN: u64 = 8 << 30;

/// A sandbox whose programs have a bounded memory together. It must be one that ends a program at its memory limit, whatever that is.
pub struct Shared {
    sandbox: Arc<dyn Sandbox>,
    memory: MemoryPool,
}

impl Shared {
    /// `bytes` are for the programs that need more than [`MODEST`], together. One that may need all of them, or more, runs when no other such one does.
    #[must_use]
    pub fn new(sandbox: Arc<dyn Sandbox>, bytes: u64) -> Shared {
        Shared {
            sandbox,
            memory: MemoryPool::new(bytes),
        }
    }
}

impl Sandbox for Shared {
    fn identity(&self) -> &Identity {
        self.sandbox.identity()
    }

    fn run(&self, request: &Request<'_>) -> Result<Run, SandboxError> {
        let limit = request.limits.memory;
        let run = self.sandbox.run(&Request {
            limits: Limits {
                memory: limit.min(MODEST),
                ..request.limits
            },
            ..*request
        })?;
        if run.end != End::OutOfMemory || limit <= MODEST {
            return Ok(run);
        }
        let bytes = match request.work {
            Work::Tests { .. } => limit.saturating_mul(INSTANCES),
            Work::Calls { .. } | Work::Outline { .. } => limit,
        };
        let _lease = match request.patience {
            Patience::Wait => self.memory.take(bytes),
            Patience::Defer => self.memory.try_take(bytes).ok_or(Deferred::Long)?,
        };
        self.sandbox.run(request)
    }
}

/// Bytes for the programs that need more than [`MODEST`], where all of them together may have `all`, `threads` run them, and one may have `limit`.
#[must_use]
pub fn beyond_modest(all: u64, threads: usize, limit: u64) -> u64 {
    let modest = (threads as u64).saturating_mul(INSTANCES * MODEST);
    let one = limit.saturating_mul(INSTANCES);
    all.saturating_sub(modest).max(one)
}

/// Bytes of memory that this process may have: the machine's, or its control group's where those are fewer.
#[must_use]
pub fn of_machine() -> u64 {
    machine()
        .into_iter()
        .chain(control_groups())
        .min()
        .unwrap_or(UNKNOWN)
}

fn machine() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let total = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = total.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

/// The limits of this process's group and of those that it lies in; of the first version of control groups, that of a container alone.
fn control_groups() -> Vec<u64> {
    let root = Path::new("/sys/fs/cgroup");
    let text = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own = text.lines().find_map(|line| line.strip_prefix("0::/"));
    root.join(own.unwrap_or_default())
        .ancestors()
        .take_while(|group| group.starts_with(root))
        .map(|group| group.join("memory.max"))
        .chain([root.join("memory/memory.limit_in_bytes")])
        // Where there is no limit, no number stands there.
        .filter_map(|file| std::fs::read_to_string(file).ok()?.trim().parse().ok())
        .collect()
}

/// Bytes that are taken and given back, in the order in which they are asked for.
struct MemoryPool {
    state: Mutex<State>,
    changed: Condvar,
    all: u64,
}

struct State {
    free: u64,
    /// The number of the next who asks.
    next: u64,
    /// The number of the next who gets.
    turn: u64,
}

/// Bytes taken, until it is dropped.
struct MemoryLease<'a> {
    pool: &'a MemoryPool,
    bytes: u64,
}

impl MemoryPool {
    fn new(all: u64) -> MemoryPool {
        MemoryPool {
            state: Mutex::new(State {
                free: all,
                next: 0,
                turn: 0,
            }),
            changed: Condvar::new(),
            all,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there are `bytes`, or, where there can never be as many, until all are there.
    fn take(&self, bytes: u64) -> MemoryLease<'_> {
        let bytes = bytes.min(self.all);
        let mut state = self.lock();
        let number = state.next;
        state.next += 1;
        while state.turn != number || state.free < bytes {
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.turn += 1;
        state.free -= bytes;
        drop(state);
        self.changed.notify_all();
        MemoryLease { pool: self, bytes }
    }

    /// As [`MemoryPool::take`]; `None` where it would have to wait.
    fn try_take(&self, bytes: u64) -> Option<MemoryLease<'_>> {
        let bytes = bytes.min(self.all);
        let mut state = self.lock();
        if state.turn != state.next || state.free < bytes {
            return None;
        }
        state.free -= bytes;
        Some(MemoryLease { pool: self, bytes })
    }
}

impl Drop for MemoryLease<'_> {
    fn drop(&mut self) {
        self.pool.lock().free += self.bytes;
        self.pool.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use sandboxes::Program;

    use super::*;
    use crate::scripted::{Scripted, completed, ended};

    const LIMIT: u64 = 4 * MODEST;

    fn limits() -> Limits {
        Limits {
            memory: LIMIT,
            ..Limits::default()
        }
    }

    fn run(shared: &Shared, source: &str, patience: Patience) -> Result<End, SandboxError> {
        let program = Program {
            source,
            entry_point: "f",
        };
        let work = Work::Calls {
            program,
            calls: &[],
        };
        let request = Request {
            patience,
            ..Request::new(work, &limits())
        };
        shared.run(&request).map(|run| run.end)
    }

    #[test]
    fn programs_that_need_much_never_have_more_than_the_pool_together() {
        let (held, most) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let sandbox = {
            let (held, most) = (Arc::clone(&held), Arc::clone(&most));
            Scripted::new(move |_, _, limits| {
                if limits.memory <= MODEST {
                    return Ok(ended(Vec::new(), End::OutOfMemory));
                }
                let now = held.fetch_add(limits.memory, Ordering::SeqCst) + limits.memory;
                most.fetch_max(now, Ordering::SeqCst);
                std::thread::yield_now();
                held.fetch_sub(limits.memory, Ordering::SeqCst);
                Ok(completed(Vec::new()))
            })
        };
        let shared = Shared::new(Arc::new(sandbox), 2 * LIMIT + 1);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        assert_eq!(run(&shared, "", Patience::Wait), Ok(End::Completed));
                    }
                });
            }
        });
        let most = most.load(Ordering::SeqCst);
        assert!((LIMIT..=2 * LIMIT).contains(&most), "{most}");
    }

    #[test]
    fn only_a_program_that_needs_much_waits_and_is_deferred_where_it_may_not() {
        let sandbox = Arc::new(Scripted::new(|source, _, limits| {
            let much = source == "much" && limits.memory < LIMIT;
            Ok(if much {
                ended(Vec::new(), End::OutOfMemory)
            } else {
                completed(Vec::new())
            })
        }));
        let shared = Shared::new(Arc::<Scripted>::clone(&sandbox) as Arc<dyn Sandbox>, LIMIT);
        let all = shared.memory.take(u64::MAX);
        let completed = Ok(End::Completed);
        assert_eq!(run(&shared, "little", Patience::Wait), completed);
        assert_eq!(sandbox.runs.load(Ordering::SeqCst), 1);
        assert_eq!(
            run(&shared, "much", Patience::Defer),
            Err(Deferred::Long.into())
        );
        drop(all);
        assert_eq!(run(&shared, "much", Patience::Defer), completed);
        assert_eq!(run(&shared, "much", Patience::Wait), completed);
        assert_eq!(sandbox.runs.load(Ordering::SeqCst), 6);
    }

    #[test]
    fn memory_is_given_in_the_order_in_which_it_was_asked_for() {
        let pool = MemoryPool::new(10);
        let (few, order) = (pool.take(5), Mutex::new(Vec::new()));
        std::thread::scope(|scope| {
            for (number, bytes) in [(1, 10), (2, 1)] {
                scope.spawn({
                    let (pool, order) = (&pool, &order);
                    move || {
                        let _lease = pool.take(bytes);
                        order.lock().unwrap().push(number);
                    }
                });
                while pool.lock().next <= number {
                    std::thread::yield_now();
                }
            }
            drop(few);
        });
        assert_eq!(*order.lock().unwrap(), [1, 2]);
    }

    #[test]
    fn memory_that_threads_may_take_at_any_time_is_not_in_the_pool() {
        assert_eq!(beyond_modest(16 * MODEST, 4, LIMIT), 8 * MODEST);
        assert_eq!(beyond_modest(0, 4, LIMIT), 2 * LIMIT);
        assert!(of_machine() > 0);
    }
}
