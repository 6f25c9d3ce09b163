//! The highest resident memory of a process, as Linux counts it.

use std::fmt::Display;
use std::fs;

/// Bytes of this process since the last [`reset_peak`], or since it began; `None` where the system does not report it.
pub fn peak() -> Option<u64> {
    peak_of("self")
}

/// As [`peak`], of the process that `/proc` has under this name: its id, or `self`.
pub fn peak_of(process: impl Display) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

/// Lets [`peak`] begin again at the memory of this moment. Where the system does not allow it, the peak remains that of the whole process.
pub fn reset_peak() {
    // proc_pid_clear_refs(5): 5 resets the peak and changes nothing else.
    let _ = fs::write("/proc/self/clear_refs", "5");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_includes_memory_that_was_freed() {
        let before = peak().unwrap();
        drop(std::hint::black_box(vec![1_u8; 256 << 20]));
        assert!(peak().unwrap() >= before.max(256 << 20));
    }
}
