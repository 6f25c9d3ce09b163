//! Why a data set cannot be read.

use std::path::PathBuf;

/// What is wrong, with which file, line and field, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum DatasetError {
    /// No data set has this name.
    #[error("no data set is called `{name}`{}; known are {known}, or give the path of a file that ends in .jsonl", crate::nearest::hint(.nearest.as_deref()))]
    Unknown {
        /// What was asked for.
        name: String,
        /// The known name most like it.
        nearest: Option<String>,
        /// All known names.
        known: String,
    },
    /// The files of a known data set are nowhere.
    #[error("the data set `{name}` is not on this machine (looked for {}): fetch it with `rapid fetch dataset:{name}`, or give the folder that holds {name}/ with `--data-dir`", paths(.looked_for))]
    Missing {
        /// The data set.
        name: String,
        /// The files that would have served.
        looked_for: Vec<PathBuf>,
    },
    /// A file cannot be read.
    #[error("{path}: {source}; check that the file exists and may be read")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A record is not what it should be.
    #[error("{path}, line {line}{}: {reason}", of_field(.field.as_deref()))]
    Record {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The field of the record, where one is to blame.
        field: Option<String>,
        /// What is wrong, and what was expected.
        reason: String,
    },
    /// A file has no records.
    #[error("{path} has no records: one JSON object a line is expected")]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

impl DatasetError {
    /// Whether another name or path is the remedy: nothing is called so, or nothing is there.
    #[must_use]
    pub fn is_misnamed(&self) -> bool {
        match self {
            DatasetError::Unknown { .. } => true,
            DatasetError::Io { path, .. } => !path.exists(),
            _ => false,
        }
    }
}

fn paths(paths: &[PathBuf]) -> String {
    let shown: Vec<String> = paths.iter().map(|p| p.display().to_string()).collect();
    shown.join(", ")
}

fn of_field(field: Option<&str>) -> String {
    field.map(|f| format!(", field `{f}`")).unwrap_or_default()
}
