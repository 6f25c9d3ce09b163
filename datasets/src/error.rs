//! Errors of reading a data set.

use std::path::PathBuf;

/// An error that names the file, the line and the field, and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum DatasetError {
    /// No data set has this name.
    #[error("no data set is called `{name}`{}; known are {known}, or give the path of a file that ends in .jsonl, .json, .csv or .parquet, or owner/name of the Hugging Face hub", crate::did_you_mean::hint(.nearest.as_deref()))]
    Unknown {
        /// The requested name.
        name: String,
        /// The nearest known name.
        nearest: Option<String>,
        /// All known names.
        known: String,
    },
    /// The files of a known data set were not found.
    #[error("the data set `{name}` is not on this machine (looked for {}): fetch it with `rapid fetch dataset:{name}`, or give the folder that holds {name}/ with `--data-dir`", paths(.looked_for))]
    Missing {
        /// The data set.
        name: String,
        /// The files that were looked for.
        looked_for: Vec<PathBuf>,
    },
    /// A file in the cache folder is damaged, or of another version than the one that this program fetches.
    #[error(
        "{path} {difference}, so it is not the file of the data set `{name}`: fetch that with `rapid fetch dataset:{name}`, which replaces the folder. Files of your own can be used with `--data-dir`"
    )]
    OtherVersion {
        /// The data set.
        name: String,
        /// The file.
        path: PathBuf,
        /// How it differs.
        difference: String,
    },
    /// A file cannot be read.
    #[error("{path}: {source}; check that the file exists and may be read")]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A record is wrong.
    #[error("{path}, {unit} {number}{}: {reason}", of_field(.field.as_deref()))]
    Record {
        /// The file.
        path: PathBuf,
        /// What the file's records are counted by: `line`, `element` or `row`.
        unit: &'static str,
        /// Its number, from 1.
        number: usize,
        /// The wrong field, if the error is about one.
        field: Option<String>,
        /// What is wrong, and what is expected.
        reason: String,
    },
    /// A file has no records.
    #[error("{path} has no records")]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// A setting of the data set's source is wrong.
    #[error("the data set `{dataset}`: {reason}")]
    Source {
        /// The data set.
        dataset: String,
        /// What is wrong, and what to write.
        reason: String,
    },
}

impl DatasetError {
    /// Whether another name, path or setting is the remedy.
    #[must_use]
    pub fn is_misnamed(&self) -> bool {
        match self {
            DatasetError::Unknown { .. } | DatasetError::Source { .. } => true,
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
