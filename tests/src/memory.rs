//! The memory of a process, as Linux reports it.

use std::fmt;

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
    ///
    /// # Panics
    /// If the process does not exist, or the system is not Linux.
    #[must_use]
    pub fn of(process: u32) -> Memory {
        let path = format!("/proc/{process}/smaps_rollup");
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let field = |name: &str| {
            text.lines()
                .find_map(|line| line.strip_prefix(name))
                .and_then(|rest| rest.trim().strip_suffix(" kB")?.parse::<u64>().ok())
                .unwrap_or_else(|| panic!("no {name} in {path}:\n{text}"))
                << 10
        };
        Memory {
            resident: field("Rss:"),
            own: field("Pss:"),
        }
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Memory { resident, own } = self;
        write!(
            f,
            "{} MB resident, {} MB of its own",
            resident / 1_000_000,
            own / 1_000_000
        )
    }
}
