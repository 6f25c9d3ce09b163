//! The reasons why something could not be fetched.

use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};

/// What went wrong, with what, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// Nothing, or more than one thing, has this name.
    #[error("{0}")]
    Unknown(String),
    /// The data set is part of the program.
    #[error(
        "the data set `{0}` comes with the program, so there is nothing to fetch: use it by its name"
    )]
    BuiltIn(String),
    /// Every source failed.
    #[error("{0}")]
    Sources(String),
    /// The cache folder cannot be written or read.
    #[error("{path}: {source}; {}", remedy(.source))]
    Local {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: Error,
    },
}

fn remedy(error: &Error) -> &'static str {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            "the disk is full: make room, or set RAPID_HOME to a folder on another disk, and run the command again"
        }
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            "set RAPID_HOME to a folder that you may write to"
        }
        _ => "check the folder, or set RAPID_HOME to another one",
    }
}

/// Why one source failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// The source's fault. The next one may work.
    Source(String),
    /// This machine's fault. No source would work.
    Local(FetchError),
}

impl From<FetchError> for Failure {
    fn from(error: FetchError) -> Failure {
        Failure::Local(error)
    }
}

/// The error about a file or folder of this machine.
pub(super) fn local(path: &Path) -> impl Fn(Error) -> FetchError {
    move |source| FetchError::Local {
        path: path.to_owned(),
        source,
    }
}

/// reqwest's message with all its causes, without the address.
pub(super) fn explain(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut cause: Option<&dyn std::error::Error> = std::error::Error::source(&error);
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        cause = inner.source();
    }
    text
}
