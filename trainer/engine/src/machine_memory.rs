//! How much memory the process may use.

use std::fs;
use std::path::Path;

/// Bytes of the machine's memory, or of the tightest limit of the process's control groups if that is lower; `None` if the system does not report it. Unlike
/// the memory that is free at the moment, it is the same from run to run, and so are the plans based on it.
pub fn total() -> Option<u64> {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("MemTotal:"))?;
        let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        kilobytes.checked_mul(1024)
    });
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    machine
        .into_iter()
        .chain(limit(&groups, Path::new("/sys/fs/cgroup")))
        .min()
}

/// The lowest limit of the groups in `groups`, in the format of /proc/self/cgroup, and of their parent groups. Their hierarchies are mounted under `root`.
fn limit(groups: &str, root: &Path) -> Option<u64> {
    groups
        .lines()
        .filter_map(|line| {
            // The format is "hierarchy:controllers:path"; in version 2 the controllers are empty.
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            let (mount, file) = match controllers {
                "" => (root.to_owned(), "memory.max"),
                _ if controllers.split(',').any(|name| name == "memory") => {
                    (root.join("memory"), "memory.limit_in_bytes")
                }
                _ => return None,
            };
            // In a container, the path may be the one seen from outside. The mount point is then the group itself.
            Path::new(path)
                .ancestors()
                .filter_map(|group| {
                    let folder = mount.join(group.strip_prefix("/").unwrap_or(group));
                    let text = fs::read_to_string(folder.join(file)).ok()?;
                    text.trim().parse().ok()
                })
                .min()
        })
        .min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tightest_limit_of_the_groups_and_their_parents_is_used() {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("user/job/memory.max", "max\n"),
            ("user/memory.max", "4096\n"),
            ("other/memory.max", "1\n"),
            // Version 1.
            ("memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("memory/job/memory.limit_in_bytes", "8192\n"),
            ("cpu/job/memory.limit_in_bytes", "1\n"),
        ] {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        for (groups, expected) in [
            ("0::/user/job\n", Some(4096)),
            ("0::/nowhere\n", None),
            (
                "4:cpu,cpuacct:/job\n3:hugetlb,memory:/job\n0::/job\n",
                Some(8192),
            ),
            ("3:memory:/docker/3f\n", Some(9_223_372_036_854_771_712)),
        ] {
            assert_eq!(limit(groups, root.path()), expected, "{groups}");
        }
    }

    #[test]
    fn this_machine_reports_its_memory() {
        assert!(total().is_some_and(|bytes| bytes > 1 << 28));
    }
}
