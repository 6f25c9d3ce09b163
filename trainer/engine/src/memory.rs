//! How much memory the process may count on.

/// Bytes of the machine's memory, or of the control group's limit where that is less; `None` where the system does not say. Unlike what is free at the
/// moment, it is the same from run to run, and so is what is planned by it.
pub(crate) fn total() -> Option<u64> {
    let machine = std::fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| {
            let line = text
                .lines()
                .find_map(|line| line.strip_prefix("MemTotal:"))?;
            let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
            kilobytes.checked_mul(1024)
        });
    let group = [
        "/sys/fs/cgroup/memory.max",
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
    ]
    .iter()
    .find_map(|path| std::fs::read_to_string(path).ok()?.trim().parse().ok());
    machine.into_iter().chain(group).min()
}
