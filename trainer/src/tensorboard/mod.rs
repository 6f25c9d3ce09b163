//! TensorBoard event files, written without TensorFlow.
//!
//! ```text
//! Event ──protobuf──▶ bytes ──frame: length, CRC-32C──▶ events.out.tfevents.*
//! ```
//!
//! A file begins with its version and with the mark of a session's start. The mark makes a running TensorBoard discard the values of an older file in the folder.

mod event;
mod frame;
#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use tests::read;

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::atomic_file;

/// Points of curves at one step. The text before the first `/` of a tag is its section in TensorBoard.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Seconds since 1970.
    pub time: f64,
    /// The step.
    pub step: usize,
    /// The values with their tags.
    pub values: Vec<(String, f64)>,
}

/// The event file of a folder, open for appending.
#[derive(Debug)]
pub struct EventFile(File);

impl EventFile {
    /// Creates the folder's event file with these entries. The folder is created if it does not exist. Older event files in it are removed when the new one is
    /// complete.
    pub fn replace(folder: &Path, time: f64, entries: &[Entry]) -> io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        let name = format!("events.out.tfevents.{:010}.rapid", time.max(0.0) as u64);
        let path = folder.join(name);
        let mut bytes = Vec::new();
        for event in [event::version(time), event::session_start(time)] {
            frame::put(&mut bytes, &event);
        }
        for entry in entries {
            frame::put(&mut bytes, &event::summary(entry));
        }
        // TensorBoard reads every file with `tfevents` in its name. A partial file has another name.
        atomic_file::write(&path, &bytes)?;
        for older in event_files(folder) {
            if older != path {
                std::fs::remove_file(older)?;
            }
        }
        Ok(Self(File::options().append(true).open(path)?))
    }

    /// Appends an entry, in one write.
    pub fn add(&mut self, entry: &Entry) -> io::Result<()> {
        let mut bytes = Vec::new();
        frame::put(&mut bytes, &event::summary(entry));
        self.0.write_all(&bytes)
    }
}

fn event_files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_name().to_string_lossy().contains("tfevents"))
        .map(|entry| entry.path())
        .collect()
}
