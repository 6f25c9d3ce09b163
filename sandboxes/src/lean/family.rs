//! A process and all that it started, by `/proc`: what they use together, and their end.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// One of them.
pub(super) struct Member {
    pub(super) id: u32,
    /// Resident pages.
    pages: u64,
    /// Processor time, in ticks of the system's clock.
    ticks: u64,
}

/// A process and all that descend from it or are in its group; none where the system does not say.
pub(super) fn family(root: u32) -> Vec<Member> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    let (mut stats, mut found) = (HashMap::new(), HashSet::new());
    for entry in entries.flatten() {
        let Some(id) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<u32>().ok())
        else {
            continue;
        };
        let Some(stat) = Stat::read(id) else { continue };
        children.entry(stat.parent).or_default().push(id);
        if id == root || stat.group == root {
            found.insert(id);
        }
        stats.insert(id, stat);
    }
    let mut open: Vec<u32> = found.iter().copied().collect();
    while let Some(id) = open.pop() {
        for child in children.get(&id).into_iter().flatten() {
            if found.insert(*child) {
                open.push(*child);
            }
        }
    }
    let member = |id: u32| {
        let stat = stats.get(&id)?;
        Some(Member {
            id,
            pages: stat.pages,
            ticks: stat.ticks,
        })
    };
    found.into_iter().filter_map(member).collect()
}

/// MiB that they hold together.
pub(super) fn memory_mib(family: &[Member]) -> u64 {
    let pages: u64 = family.iter().map(|member| member.pages).sum();
    (pages * rustix::param::page_size() as u64) >> 20
}

/// Processor time of those that have not ended, together.
pub(super) fn processor_time(family: &[Member]) -> Duration {
    let ticks: u64 = family.iter().map(|member| member.ticks).sum();
    Duration::from_millis(ticks * 1_000 / rustix::param::clock_ticks_per_second().max(1))
}

/// Ends a process with its family.
pub(super) fn kill(root: u32) {
    // Those that left the group are found by their parents, as long as these live.
    let family = family(root);
    if let Some(pid) = pid(root) {
        // Any of them may be gone already.
        let _ = kill_process_group(pid, Signal::KILL);
    }
    for member in family.iter().filter_map(|member| pid(member.id)) {
        let _ = kill_process(member, Signal::KILL);
    }
}

pub(super) fn pid(id: u32) -> Option<Pid> {
    i32::try_from(id).ok().and_then(Pid::from_raw)
}

/// What `/proc/ID/stat` says of a process.
struct Stat {
    parent: u32,
    group: u32,
    ticks: u64,
    pages: u64,
}

impl Stat {
    fn read(id: u32) -> Option<Stat> {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        // The name, in parentheses, may hold anything; state, parent and group follow it.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
        Some(Stat {
            parent: fields.get(1)?.parse().ok()?,
            group: fields.get(2)?.parse().ok()?,
            ticks: number(11)? + number(12)?,
            pages: number(21)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_belongs_to_its_own_family_and_its_processor_time_grows() {
        let own = family(std::process::id());
        assert!(own.iter().any(|member| member.id == std::process::id()));
        assert!(memory_mib(&own) > 0);
        let before = processor_time(&own);
        while processor_time(&family(std::process::id())) <= before {
            std::hint::spin_loop();
        }
    }
}
