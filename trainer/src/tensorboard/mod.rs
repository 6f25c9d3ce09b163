//! TensorBoard event files, written without TensorFlow.
//!
//! ```text
//! Event ──protobuf──▶ bytes ──frame: length, CRC-32C──▶ events.out.tfevents.*
//! ```
//!
//! A file begins with its version and with the mark of a session's start: by that a TensorBoard that is looking on forgets what an older
//! file of the folder said.

mod event;
mod frame;
#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use tests::read;

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// What TensorBoard shows at a step.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A point of a curve.
    Scalar(f64),
    /// A text in Markdown.
    Text(String),
}

/// Tags and values of one step. What stands before the first `/` of a tag is the section that TensorBoard shows it in.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Seconds since 1970.
    pub time: f64,
    /// The step.
    pub step: usize,
    /// By tag.
    pub values: Vec<(String, Value)>,
}

/// The event file of a folder, open for more.
#[derive(Debug)]
pub struct EventFile {
    file: File,
    path: PathBuf,
}

impl EventFile {
    /// Begins the folder's event file with these entries. The folder is made where there is none; event files that are in it are removed
    /// once the new one is whole.
    ///
    /// # Errors
    /// What the system says, with the path that it says it of.
    pub fn replace(
        folder: &Path,
        time: f64,
        entries: &[Entry],
    ) -> Result<Self, (PathBuf, io::Error)> {
        let at = |path: &Path| {
            let path = path.to_owned();
            move |error| (path, error)
        };
        std::fs::create_dir_all(folder).map_err(at(folder))?;
        let path = folder.join(format!(
            "events.out.tfevents.{:010}.rapid",
            time.max(0.0) as u64
        ));
        // TensorBoard takes whatever has `tfevents` in its name, so the new file must not have it while it grows.
        let aside = folder.join(".events.partial");
        let mut bytes = Vec::new();
        for event in [event::version(time), event::session_start(time)] {
            frame::put(&mut bytes, &event);
        }
        for entry in entries {
            put(&mut bytes, entry);
        }
        let file = File::create(&aside)
            .and_then(|mut file| {
                file.write_all(&bytes)?;
                file.sync_all()?;
                std::fs::rename(&aside, &path)?;
                Ok(file)
            })
            .map_err(|error| {
                let _ = std::fs::remove_file(&aside);
                (path.clone(), error)
            })?;
        for older in event_files(folder) {
            if older != path {
                std::fs::remove_file(&older).map_err(at(&older))?;
            }
        }
        Ok(Self { file, path })
    }

    /// Adds an entry, in one write.
    ///
    /// # Errors
    /// What the system says.
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

/// The event files of a folder; none where there is no such folder.
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
