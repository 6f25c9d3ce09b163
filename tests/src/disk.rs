//! A small file system, for tests of a disk that is full or cannot be written.

use std::path::Path;
use std::process::Command;

use crate::artifacts::skipped;

/// A file system in memory, which only root may mount. It is unmounted when dropped.
pub struct Disk(tempfile::TempDir);

impl Disk {
    /// With these options of tmpfs, such as `size=3m`. `None` if it cannot be mounted; prints that the test is skipped.
    pub fn mount(options: &str) -> Option<Disk> {
        let disk = Disk(tempfile::tempdir().unwrap());
        if disk.is_mounted(options) {
            return Some(disk);
        }
        skipped("it needs a small file system, which only root may mount");
        None
    }

    /// Changes its options.
    pub fn remount(&self, options: &str) {
        assert!(self.is_mounted(&format!("remount,{options}")));
    }

    fn is_mounted(&self, options: &str) -> bool {
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", options, "tmpfs"]);
        let output = command.arg(self.path()).output();
        output.is_ok_and(|out| out.status.success())
    }

    /// Its folder.
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.path()).status();
    }
}
