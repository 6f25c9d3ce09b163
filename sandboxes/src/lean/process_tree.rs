//! A process with all processes that it started, read from `/proc`: the resources that they use together, and how to kill them.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// A process of a process tree.
pub(super) struct Member {
    pub(super) id: u32,
    /// Resident pages.
    pages: u64,
    /// Processor time, in ticks of the system's clock.
    ticks: u64,
}

/// A process with all processes that descend from it or are in its group; empty if `/proc` cannot be read.
pub(super) fn process_tree(root: u32) -> Vec<Member> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    let (mut stats, mut members) = (HashMap::new(), HashSet::new());
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
            members.insert(id);
        }
        stats.insert(id, stat);
    }
    let mut open: Vec<u32> = members.iter().copied().collect();
    while let Some(id) = open.pop() {
        for child in children.get(&id).into_iter().flatten() {
            if members.insert(*child) {
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
    members.into_iter().filter_map(member).collect()
}

/// Resident memory of the members together, in MiB.
pub(super) fn memory_mib(process_tree: &[Member]) -> u64 {
    let pages: u64 = process_tree.iter().map(|member| member.pages).sum();
    (pages * rustix::param::page_size() as u64) >> 20
}

/// Processor time of the members together. Processes that have ended do not count.
pub(super) fn processor_time(process_tree: &[Member]) -> Duration {
    let ticks: u64 = process_tree.iter().map(|member| member.ticks).sum();
    Duration::from_millis(ticks * 1_000 / rustix::param::clock_ticks_per_second().max(1))
}

/// Kills a process tree.
pub(super) fn kill(root: u32) {
    // Processes that left the group are found through their parents, as long as these live.
    let process_tree = process_tree(root);
    if let Some(pid) = pid(root) {
        // Any of them may have ended already.
        let _ = kill_process_group(pid, Signal::KILL);
    }
    for member in process_tree.iter().filter_map(|member| pid(member.id)) {
        let _ = kill_process(member, Signal::KILL);
    }
}

pub(super) fn pid(id: u32) -> Option<Pid> {
    i32::try_from(id).ok().and_then(Pid::from_raw)
}

/// The fields of `/proc/ID/stat` that are used.
struct Stat {
    parent: u32,
    group: u32,
    ticks: u64,
    pages: u64,
}

impl Stat {
    fn read(id: u32) -> Option<Stat> {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        // The name, in parentheses, may contain any characters; state, parent and group follow it.
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
    fn a_process_belongs_to_its_own_tree_and_its_processor_time_grows() {
        let own = process_tree(std::process::id());
        assert!(own.iter().any(|member| member.id == std::process::id()));
        assert!(memory_mib(&own) > 0);
        let before = processor_time(&own);
        while processor_time(&process_tree(std::process::id())) <= before {
            std::hint::spin_loop();
        }
    }
}
