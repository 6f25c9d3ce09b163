//! A limit on the memory of all running programs together.

use std::path::Path;

use futures::executor::block_on;
use tokio::sync::{Semaphore, SemaphorePermit};

/// Bytes that an instance may use without a share of the pool.
pub const FREE_ALLOWANCE: u64 = 256 << 20;
/// Instances in a run with test code: one for the tests, one for the program.
pub const INSTANCES: u64 = 2;
/// Assumed memory of a machine that does not report it, in bytes.
const DEFAULT_MACHINE_BYTES: u64 = 8 << 30;

/// The memory for the programs that need more than [`FREE_ALLOWANCE`].
pub struct MemoryPool {
    /// The free KiB. Requests get them in their order.
    free: Semaphore,
    /// The KiB of the whole pool.
    all: u32,
}

impl MemoryPool {
    /// A pool of `bytes` bytes.
    pub fn new(bytes: u64) -> MemoryPool {
        let all = u32::try_from(bytes >> 10).unwrap_or(u32::MAX);
        MemoryPool {
            free: Semaphore::new(all as usize),
            all,
        }
    }

    /// Acquires `bytes` until the result is dropped. If `bytes` exceeds the pool, it acquires all of it, so that the program has the pool to itself. `None` if the memory is
    /// in use and the caller does not wait.
    #[must_use]
    pub fn acquire(&self, bytes: u64, waits: bool) -> Option<SemaphorePermit<'_>> {
        let kibibytes = u32::try_from(bytes.div_ceil(1 << 10)).unwrap_or(u32::MAX);
        let share = kibibytes.min(self.all);
        match waits {
            true => block_on(self.free.acquire_many(share)).ok(),
            false => self.free.try_acquire_many(share).ok(),
        }
    }
}

/// Size of the pool for the programs that need more than [`FREE_ALLOWANCE`]. All programs together may use `all` bytes, `threads` threads run them, and a program may
/// use `limit` bytes.
pub fn pool_bytes(all: u64, threads: usize, limit: u64) -> u64 {
    let allowances = (threads as u64).saturating_mul(INSTANCES * FREE_ALLOWANCE);
    let one = limit.saturating_mul(INSTANCES);
    all.saturating_sub(allowances).max(one)
}

/// Bytes of memory for this process: the machine's, or its control group's limit if that is lower.
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
        // In a group without a limit, the file has a word, not a number.
        .filter_map(|file| std::fs::read_to_string(file).ok()?.trim().parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pool_excludes_the_free_allowances_of_the_threads() {
        let limit = 4 * FREE_ALLOWANCE;
        let pool = pool_bytes(16 * FREE_ALLOWANCE, 4, limit);
        assert_eq!(pool, 8 * FREE_ALLOWANCE);
        assert_eq!(pool_bytes(0, 4, limit), 2 * limit);
        assert!(available_bytes() > 0);
    }
}
