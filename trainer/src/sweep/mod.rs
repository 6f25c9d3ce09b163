//! A sweep: the runs of a grid of settings, in one folder.
//!
//! [`file`](mod@file) reads the sweep file, [`plan`] makes the list of runs of it, [`folder`] is the folder with what ran, of which [`manifest`] is the list, and
//! [`estimate`] says how long the rest takes. The command `rapid sweep` starts each run as a process of its own.

pub mod estimate;
pub mod file;
pub mod folder;
pub mod manifest;
pub mod plan;

use std::io;
use std::path::{Path, PathBuf};

pub use file::{Arm, Compare, SweepFile};
pub use folder::{RunState, SweepFolder, is_sweep};
pub use manifest::{Event, ManifestLine};
pub use plan::{Plan, PlannedRun};

/// A sweep that cannot be planned, opened or continued: one paragraph that names the thing and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// The command line or the sweep file has to be changed.
    #[error("{0}")]
    Usage(String),
    /// A line of the manifest is damaged.
    #[error("{}, line {line}: {source}; restore the file, or delete that line", path.display())]
    Line {
        /// The manifest.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// The parser's error.
        source: serde_json::Error,
    },
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl SweepError {
    fn io(path: &Path, source: io::Error) -> Self {
        Self::Io {
            path: path.to_owned(),
            source,
        }
    }
}

#[cfg(test)]
mod tests;
