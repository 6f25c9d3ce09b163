//! A limit on the memory of all running programs together.
//!
//! Nearly every program needs less than [`FREE_ALLOWANCE`], which each may use at any time. A program that needs more is run again from the start, with its full memory limit,
//! once the pool has that much memory. Both runs behave identically until the first hits its limit: the sandbox ends a program at its limit, and does not reveal the
//! limit before. So a verdict does not depend on what else runs. A request that must not wait is deferred if the pool lacks the memory.

use std::path::Path;
use std::sync::Arc;

use futures::executor::block_on;
use sandboxes::{
    Deferred, End, Identity, Limits, Patience, Request, Run, Sandbox, SandboxError, Work,
};
use tokio::sync::Semaphore;

/// Bytes that an instance may use without a share of the pool.
pub const FREE_ALLOWANCE: u64 = 256 << 20;
/// Instances in a run with test code: one for the tests, one for the program.
const INSTANCES: u64 = 2;
/// Assumed memory of a machine that does not report it, in bytes.
const DEFAULT_MACHINE_BYTES: u64 = 8 << 30;

/// A sandbox that limits the memory of all its programs together. The wrapped sandbox must end a program at its memory limit, whatever the limit is.
pub struct PooledMemorySandbox {
    sandbox: Arc<dyn Sandbox>,
    /// The KiB that are free. They are lent in the order of the requests.
    free: Semaphore,
    /// The KiB of the whole pool.
    all: u32,
}

impl PooledMemorySandbox {
    /// `bytes` is the pool for the programs that need more than [`FREE_ALLOWANCE`]. A program whose limit is the whole pool or more has the pool to itself while it runs.
    #[must_use]
    pub fn new(sandbox: Arc<dyn Sandbox>, bytes: u64) -> PooledMemorySandbox {
        let all = u32::try_from(bytes >> 10).unwrap_or(u32::MAX);
        PooledMemorySandbox {
            sandbox,
            free: Semaphore::new(all as usize),
            all,
        }
    }

    /// The KiB that `bytes` take of the pool: all of them, if it has no more.
    fn kibibytes(&self, bytes: u64) -> u32 {
        let kibibytes = u32::try_from(bytes.div_ceil(1 << 10)).unwrap_or(u32::MAX);
        kibibytes.min(self.all)
    }
}

impl Sandbox for PooledMemorySandbox {
    fn identity(&self) -> &Identity {
        self.sandbox.identity()
    }

    fn run(&self, request: &Request<'_>) -> Result<Run, SandboxError> {
        let limit = request.limits.memory;
        let run = self.sandbox.run(&Request {
            limits: Limits {
                memory: limit.min(FREE_ALLOWANCE),
                ..request.limits
            },
            ..*request
        })?;
        if run.end != End::OutOfMemory || limit <= FREE_ALLOWANCE {
            return Ok(run);
        }
        let bytes = match request.work {
            Work::Tests { .. } => limit.saturating_mul(INSTANCES),
            Work::Calls { .. } | Work::WholeProgram { .. } | Work::Outline { .. } => limit,
        };
        let share = self.kibibytes(bytes);
        let lent = match request.patience {
            Patience::Wait => block_on(self.free.acquire_many(share)).ok(),
            Patience::Defer => self.free.try_acquire_many(share).ok(),
        };
        let _lent = lent.ok_or(Deferred::NoMemory)?;
        self.sandbox.run(request)
    }
}

/// Size of the pool for the programs that need more than [`FREE_ALLOWANCE`], if all programs together may use `all` bytes, `threads` threads run them, and a program may use
/// `limit` bytes.
#[must_use]
pub fn pool_bytes(all: u64, threads: usize, limit: u64) -> u64 {
    let allowances = (threads as u64).saturating_mul(INSTANCES * FREE_ALLOWANCE);
    let one = limit.saturating_mul(INSTANCES);
    all.saturating_sub(allowances).max(one)
}

/// Bytes of memory that this process may use: the machine's, or the limit of its control group if that is lower.
#[must_use]
pub fn available_bytes() -> u64 {
    machine_bytes()
        .into_iter()
        .chain(control_group_limits())
        .min()
        .unwrap_or(DEFAULT_MACHINE_BYTES)
}

fn machine_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let total = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = total.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

/// The memory limits of this process's control group and of the groups around it. For version 1 of control groups, only a container's limit.
fn control_group_limits() -> Vec<u64> {
    let root = Path::new("/sys/fs/cgroup");
    let text = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own = text.lines().find_map(|line| line.strip_prefix("0::/"));
    root.join(own.unwrap_or_default())
        .ancestors()
        .take_while(|group| group.starts_with(root))
        .map(|group| group.join("memory.max"))
        .chain([root.join("memory/memory.limit_in_bytes")])
        // A group without a limit has a word here, not a number.
        .filter_map(|file| std::fs::read_to_string(file).ok()?.trim().parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use sandboxes::Program;

    use super::*;
    use crate::fake_sandbox::{FakeSandbox, completed, ended};

    const LIMIT: u64 = 4 * FREE_ALLOWANCE;

    fn run(
        sandbox: &PooledMemorySandbox,
        source: &str,
        patience: Patience,
    ) -> Result<End, SandboxError> {
        let entry_point = "f";
        let program = Program {
            source,
            entry_point,
        };
        let calls = &[];
        let limits = Limits {
            memory: LIMIT,
            ..Limits::default()
        };
        let request = Request {
            patience,
            ..Request::new(Work::Calls { program, calls }, &limits)
        };
        sandbox.run(&request).map(|run| run.end)
    }

    #[test]
    fn large_programs_together_never_use_more_than_the_pool() {
        let (in_use, max_in_use) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let sandbox = {
            let (in_use, max_in_use) = (Arc::clone(&in_use), Arc::clone(&max_in_use));
            FakeSandbox::new(move |_, _, limits| {
                if limits.memory <= FREE_ALLOWANCE {
                    return Ok(ended(Vec::new(), End::OutOfMemory));
                }
                let now = in_use.fetch_add(limits.memory, Ordering::SeqCst) + limits.memory;
                max_in_use.fetch_max(now, Ordering::SeqCst);
                std::thread::yield_now();
                in_use.fetch_sub(limits.memory, Ordering::SeqCst);
                Ok(completed(Vec::new()))
            })
        };
        let sandbox_with_pool = PooledMemorySandbox::new(Arc::new(sandbox), 2 * LIMIT + 1);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        assert_eq!(
                            run(&sandbox_with_pool, "", Patience::Wait),
                            Ok(End::Completed)
                        );
                    }
                });
            }
        });
        let max_in_use = max_in_use.load(Ordering::SeqCst);
        assert!((LIMIT..=2 * LIMIT).contains(&max_in_use), "{max_in_use}");
    }

    #[test]
    fn only_a_large_program_waits_or_is_deferred() {
        let sandbox = Arc::new(FakeSandbox::new(|source, _, limits| {
            let much = source == "much" && limits.memory < LIMIT;
            Ok(if much {
                ended(Vec::new(), End::OutOfMemory)
            } else {
                completed(Vec::new())
            })
        }));
        let sandbox_with_pool = PooledMemorySandbox::new(
            Arc::<FakeSandbox>::clone(&sandbox) as Arc<dyn Sandbox>,
            LIMIT,
        );
        let all = block_on(sandbox_with_pool.free.acquire_many(sandbox_with_pool.all)).unwrap();
        let completed = Ok(End::Completed);
        assert_eq!(run(&sandbox_with_pool, "little", Patience::Wait), completed);
        assert_eq!(sandbox.runs.load(Ordering::SeqCst), 1);
        assert_eq!(
            run(&sandbox_with_pool, "much", Patience::Defer),
            Err(Deferred::NoMemory.into())
        );
        drop(all);
        assert_eq!(run(&sandbox_with_pool, "much", Patience::Defer), completed);
        assert_eq!(run(&sandbox_with_pool, "much", Patience::Wait), completed);
        assert_eq!(sandbox.runs.load(Ordering::SeqCst), 6);
    }

    #[test]
    fn the_pool_excludes_the_free_allowances_of_the_threads() {
        assert_eq!(
            pool_bytes(16 * FREE_ALLOWANCE, 4, LIMIT),
            8 * FREE_ALLOWANCE
        );
        assert_eq!(pool_bytes(0, 4, LIMIT), 2 * LIMIT);
        assert!(available_bytes() > 0);
    }
}
