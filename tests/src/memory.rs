//! The memory of a process, as Linux reports it.

/// Bytes of memory of one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Resident pages; a shared page counts in full.
    pub resident: u64,
    /// Resident pages; a shared page counts with this process's part.
    pub own: u64,
}

impl Memory {
    /// The memory of the process with this id.
    pub fn of(process: u32) -> Memory {
        let path = format!("/proc/{process}/smaps_rollup");
        let text = std::fs::read_to_string(&path).unwrap();
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            let kilobytes =
                line.and_then(|rest| rest.trim().strip_suffix(" kB")?.parse::<u64>().ok());
            kilobytes.unwrap_or_else(|| panic!("no {name} in {path}:\n{text}")) << 10
        };
        Memory {
            resident: field("Rss:"),
            own: field("Pss:"),
        }
    }
}
