//! One attempt at a sample. It is cancelled when nobody waits for it any more. The first attempt is a first pass, with little fuel, in which most programs finish.
//! Separate threads judge the others later, so that they delay nothing.

use std::sync::Arc;

use sandboxes::{
    Abandoned, Deferred, End, Identity, Limits, Request, Run, Sandbox, SandboxError, Work,
};

use crate::memory_pool::{FREE_ALLOWANCE, INSTANCES, MemoryPool};

/// Fuel of a first pass: a few tenths of a second in WebAssembly, and one second of processor time in Docker.
const FUEL: u64 = 2_000_000_000;

/// A sandbox for the runs of an attempt. In a first pass it defers a program ([`Deferred::Long`]) that has not finished after [`FUEL`]. A run that finishes earlier
/// equals a run of the wrapped sandbox, because fuel is counted the same way whatever the limit.
///
/// Nearly every program needs less memory than [`FREE_ALLOWANCE`], and may use that much at any time. A program that needs more is run again from its start, with its
/// full limit, once the pool has that much. Both runs behave identically until the first hits its limit: the sandbox ends a program at its limit, and does not reveal
/// the limit before. So a verdict does not depend on what else runs. A first pass does not wait for memory ([`Deferred::NoMemory`]).
#[derive(Clone)]
pub(super) struct Attempt {
    pub(super) sandbox: Arc<dyn Sandbox>,
    /// `None` if the sandbox itself limits the memory of all programs together.
    pub(super) memory_pool: Option<Arc<MemoryPool>>,
    pub(super) first_pass: bool,
    pub(super) abandoned: Option<Abandoned>,
}

impl Sandbox for Attempt {
    fn identity(&self) -> &Identity {
        self.sandbox.identity()
    }

    fn run(&self, request: &Request<'_>) -> Result<Run, SandboxError> {
        let (mut limits, whole) = (request.limits, request.limits);
        if self.first_pass {
            limits.fuel = whole.fuel.min(FUEL);
        }
        if self.memory_pool.is_some() {
            limits.memory = whole.memory.min(FREE_ALLOWANCE);
        }
        let run = |limits: Limits| {
            self.sandbox.run(&Request {
                abandoned: self.abandoned.as_ref(),
                limits,
                ..*request
            })
        };
        let mut finished = run(limits)?;
        if let Some(memory_pool) = &self.memory_pool
            && finished.end == End::OutOfMemory
            && limits.memory < whole.memory
        {
            let bytes = match request.work {
                Work::Tests { .. } => whole.memory.saturating_mul(INSTANCES),
                Work::Calls { .. } | Work::WholeProgram { .. } | Work::Outline { .. } => {
                    whole.memory
                }
            };
            let permit = memory_pool.acquire(bytes, !self.first_pass);
            let _permit = permit.ok_or(Deferred::NoMemory)?;
            limits.memory = whole.memory;
            finished = run(limits)?;
        }
        match finished.end {
            End::OutOfFuel | End::OutOfTime if limits.fuel < whole.fuel => {
                Err(Deferred::Long.into())
            }
            _ => Ok(finished),
        }
    }
}

/// Whether a first pass is pointless, since the task's canonical solution used `fuel`.
pub(super) fn exceeds_first_pass(fuel: u64) -> bool {
    fuel >= FUEL
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use sandboxes::Program;

    use super::*;
    use crate::fake_sandbox::{FakeSandbox, completed, ended};

    const LIMIT: u64 = 4 * FREE_ALLOWANCE;

    fn attempt(sandbox: &Arc<FakeSandbox>, pool_bytes: u64) -> Attempt {
        Attempt {
            sandbox: Arc::<FakeSandbox>::clone(sandbox),
            memory_pool: Some(Arc::new(MemoryPool::new(pool_bytes))),
            first_pass: false,
            abandoned: None,
        }
    }

    fn run(attempt: &Attempt, source: &str) -> Result<End, SandboxError> {
        let entry_point = "f";
        let program = Program {
            source,
            entry_point,
        };
        let limits = Limits {
            memory: LIMIT,
            ..Limits::default()
        };
        let calls = &[];
        let request = Request::new(Work::Calls { program, calls }, &limits);
        attempt.run(&request).map(|run| run.end)
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
        let attempt = attempt(&Arc::new(sandbox), 2 * LIMIT + 1);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        assert_eq!(run(&attempt, ""), Ok(End::Completed));
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
        let whole = attempt(&sandbox, LIMIT);
        let first_pass = Attempt {
            first_pass: true,
            ..whole.clone()
        };
        let all = whole.memory_pool.as_ref().unwrap().acquire(u64::MAX, true);
        let completed = Ok(End::Completed);
        assert_eq!(run(&whole, "little"), completed);
        assert_eq!(sandbox.runs(), 1);
        assert_eq!(run(&first_pass, "much"), Err(Deferred::NoMemory.into()));
        drop(all);
        assert_eq!(run(&first_pass, "much"), completed);
        assert_eq!(run(&whole, "much"), completed);
        assert_eq!(sandbox.runs(), 6);
    }
}
