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

/// A value that TensorBoard shows at a step.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A point of a curve.
    Scalar(f64),
    /// A text in Markdown.
    Text(String),
}

/// Tags and values of one step. The text before the first `/` of a tag is its section in TensorBoard.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Seconds since 1970.
    pub time: f64,
    /// The step.
    pub step: usize,
    /// The values with their tags.
    pub values: Vec<(String, Value)>,
}

/// The event file of a folder, open for appending.
#[derive(Debug)]
pub struct EventFile {
    file: File,
    path: PathBuf,
}

impl EventFile {
    /// Creates the folder's event file with these entries. The folder is created if it does not exist. Older event files in it are removed when the new one is
    /// complete.
    ///
    /// # Errors
    /// The system's error, with the path that it concerns.
    pub fn replace(
        folder: &Path,
        time: f64,
        entries: &[Entry],
    ) -> Result<Self, (PathBuf, io::Error)> {
        let with_path = |path: &Path| {
            let path = path.to_owned();
            move |error| (path, error)
        };
        std::fs::create_dir_all(folder).map_err(with_path(folder))?;
        let path = folder.join(format!(
            "events.out.tfevents.{:010}.rapid",
            time.max(0.0) as u64
        ));
        // TensorBoard reads every file with `tfevents` in its name, so the new file gets such a name only when it is complete.
        let temporary = folder.join(".events.partial");
        let mut bytes = Vec::new();
        for event in [event::version(time), event::session_start(time)] {
            frame::put(&mut bytes, &event);
        }
        for entry in entries {
            put(&mut bytes, entry);
        }
        let file = File::create(&temporary)
            .and_then(|mut file| {
                file.write_all(&bytes)?;
                file.sync_all()?;
                std::fs::rename(&temporary, &path)?;
                Ok(file)
            })
            .map_err(|error| {
                let _ = std::fs::remove_file(&temporary);
                (path.clone(), error)
            })?;
        for older in event_files(folder) {
            if older != path {
                std::fs::remove_file(&older).map_err(with_path(&older))?;
            }
        }
        Ok(Self { file, path })
    }

    /// Appends an entry, in one write.
    ///
    /// # Errors
    /// The system's error, with the file's path.
    pub fn add(&mut self, entry: &Entry) -> Result<(), (PathBuf, io::Error)> {
        let mut bytes = Vec::new();
        put(&mut bytes, entry);
        self.file
            .write_all(&bytes)
            .map_err(|error| (self.path.clone(), error))
    }
}

fn put(bytes: &mut Vec<u8>, entry: &Entry) {
    if !entry.values.is_empty() {
        frame::put(bytes, &event::summary(entry));
    }
}

/// The event files of a folder; empty if the folder does not exist.
pub fn event_files(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().contains("tfevents"))
        })
        .collect()
}
