//! A sweep: the runs of a grid of settings, in one folder.
//!
//! [`file`](mod@file) reads the sweep file, and [`plan`] makes its list of runs. [`folder`] is the folder with what ran, and [`manifest`] lists that. [`estimate`]
//! says how long the rest takes. The command `rapid sweep` starts each run as a process of its own.

pub mod estimate;
pub mod file;
pub mod folder;
pub mod manifest;
pub mod plan;

use std::io;
use std::path::Path;

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
    /// A file cannot be read or written, or a line of it is damaged.
    #[error("{0}")]
    File(String),
}

impl SweepError {
    fn io(path: &Path, source: &io::Error) -> Self {
        Self::File(format!("{}: {source}", path.display()))
    }
}

#[cfg(test)]
mod tests;
