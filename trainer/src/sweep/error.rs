//! Errors of sweeps.

use std::io;
use std::path::{Path, PathBuf};

use crate::config::ConfigError;

/// A sweep that cannot be planned, opened or continued: one paragraph that names the thing and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// The sweep file cannot be read.
    #[error("the sweep file {} cannot be read ({source}); give a TOML file, see `rapid sweep --help`", path.display())]
    Unreadable {
        /// The given path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The sweep file's text is wrong.
    #[error("{origin}: {reason}")]
    File {
        /// The file's path.
        origin: String,
        /// What is wrong, and what to do.
        reason: String,
    },
    /// The settings of a run are refused.
    #[error("the run {run}: {source}")]
    Run {
        /// The run's name.
        run: String,
        /// The reason.
        source: ConfigError,
    },
    /// The folder has another sweep.
    #[error(
        "{} has the runs of another sweep: {difference}; give another folder with --out, or restore the sweep file",
        root.display()
    )]
    Other {
        /// The sweep's folder.
        root: PathBuf,
        /// The first difference.
        difference: String,
    },
    /// The folder is not a sweep's.
    #[error("{} is not the folder of a sweep: it has no sweep.toml; `rapid sweep FILE --out {}` makes one", .0.display(), .0.display())]
    NotASweep(PathBuf),
    /// A line of the manifest is damaged.
    #[error("{}, line {line}: {reason}; restore the file, or delete that line", path.display())]
    Line {
        /// The manifest.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// The parser's error.
        reason: String,
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
    pub(super) fn file(origin: &str, reason: impl Into<String>) -> Self {
        Self::File {
            origin: origin.to_owned(),
            reason: reason.into(),
        }
    }

    pub(super) fn io(path: &Path, source: io::Error) -> Self {
        Self::Io {
            path: path.to_owned(),
            source,
        }
    }

    /// Whether the command line or the sweep file has to be changed.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        !matches!(self, Self::Line { .. } | Self::Io { .. })
    }
}
