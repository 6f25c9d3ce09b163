//! A process with all processes that it started, read from `/proc`: their resources together, and how to kill them.

use std::collections::{HashMap, HashSet};
use std::fs::DirEntry;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::LeanError;

/// A process of a process tree.
pub(super) struct Member {
    id: u32,
    /// The thread under which `/proc` shows its memory and files.
    pub(super) thread: u32,
    /// Resident pages.
    pages: u64,
    /// Processor time of it and of its ended children, in ticks of the system's clock.
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
        let Some(id) = number(&entry) else { continue };
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
        let (thread, stat) = living_thread(id, stats.remove(&id)?);
        Some(Member {
            id,
            thread,
            pages: stat.pages,
            ticks: stat.ticks,
        })
    };
    members.into_iter().filter_map(member).collect()
}

/// The thread under which `/proc` shows a process's memory and files, with its entry there. It is the first thread, or another if that has ended.
fn living_thread(id: u32, first: Stat) -> (u32, Stat) {
    if first.has_memory {
        return (id, first);
    }
    let threads = std::fs::read_dir(format!("/proc/{id}/task"));
    threads
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| number(&entry))
        .filter_map(|thread| Some((thread, Stat::read(thread)?)))
        .find(|(_, stat)| stat.has_memory)
        .unwrap_or((id, first))
}

/// The number in the name of an entry of `/proc`.
fn number(entry: &DirEntry) -> Option<u32> {
    entry.file_name().to_str()?.parse().ok()
}

/// Resident memory of the members together, in MiB.
pub(super) fn memory_mib(process_tree: &[Member]) -> u64 {
    let pages: u64 = process_tree.iter().map(|member| member.pages).sum();
    (pages * rustix::param::page_size() as u64) >> 20
}

/// MiB of the anonymous files (`memfd_create`) that the members have open: memory that is resident in no process until one maps it.
///
/// # Errors
/// [`LeanError::TooMany`] if they have more than `max_files` files of any kind open, and [`LeanError::Hidden`].
pub(super) fn anonymous_files_mib(
    process_tree: &[Member],
    max_files: usize,
) -> Result<u64, LeanError> {
    let mut open = 0;
    let mut bytes: HashMap<(u64, u64), u64> = HashMap::new();
    for member in process_tree {
        let files = std::fs::read_dir(format!("/proc/{}/fd", member.thread));
        let is_denied = |error: &std::io::Error| error.kind() == ErrorKind::PermissionDenied;
        // The files of a process that is ending belong to root.
        if files.as_ref().is_err_and(is_denied)
            && Stat::read(member.thread).is_some_and(|stat| stat.has_memory)
        {
            return Err(LeanError::Hidden);
        }
        for file in files.into_iter().flatten().flatten() {
            open += 1;
            if open > max_files {
                return Err(LeanError::TooMany(max_files, "open files"));
            }
            let path = file.path();
            let is_anonymous = std::fs::read_link(&path)
                .is_ok_and(|name| name.to_string_lossy().starts_with("/memfd:"));
            if is_anonymous && let Ok(metadata) = std::fs::metadata(&path) {
                // Several processes may have it open.
                let file = (metadata.dev(), metadata.ino());
                bytes.insert(file, metadata.blocks() * 512);
            }
        }
    }
    Ok(bytes.into_values().sum::<u64>() >> 20)
}

/// Sets the OOM score of the members, so that they end before any other process if the machine runs out of memory. Some memory counts for no process, such as a mapping
/// that is shared and not resident.
pub(super) fn set_oom_score(process_tree: &[Member]) {
    for member in process_tree {
        // It fails for a process that has just ended, or that runs as another user. If this process is not root, a member may change the score until the next check.
        let _ = std::fs::write(format!("/proc/{}/oom_score_adj", member.thread), "1000");
    }
}

/// Processor time of the members together, with that of their ended children.
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
    /// Whether it has any memory, resident or not. A thread that has ended has none.
    has_memory: bool,
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
            ticks: (11..=14).map(number).sum::<Option<u64>>()?,
            pages: number(21)?,
            has_memory: number(20)? > 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write as _;

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

    #[test]
    fn a_file_without_a_name_counts_although_nothing_maps_it() {
        let flags = rustix::fs::MemfdFlags::CLOEXEC;
        let mut file = File::from(rustix::fs::memfd_create("test", flags).unwrap());
        file.write_all(&vec![0; 3 << 20]).unwrap();
        let own = process_tree(std::process::id());
        assert!(anonymous_files_mib(&own, usize::MAX).unwrap() >= 3);
        let too_many = Err(LeanError::TooMany(0, "open files"));
        assert_eq!(anonymous_files_mib(&own, 0), too_many);
    }
}
