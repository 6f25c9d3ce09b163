//! The reasons why something could not be fetched.

use std::path::{Path, PathBuf};

use super::ArtifactKind;
use crate::did_you_mean::hint;

/// What went wrong, with what, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// No manifest has this name.
    #[error("no {} is called `{name}`{}; known are {known}{}", .kind.word(), hint(.nearest.as_deref()), or_repository(*.kind))]
    Unknown {
        /// Model, data set or sandbox.
        kind: ArtifactKind,
        /// The requested name.
        name: String,
        /// The known name most like it.
        nearest: Option<String>,
        /// All known names of this kind.
        known: String,
    },
    /// The data set is part of the program.
    #[error(
        "the data set `{name}` comes with the program, so there is nothing to fetch: use it by its name"
    )]
    BuiltIn {
        /// The data set.
        name: String,
    },
    /// Every source failed.
    #[error("{}:{name} could not be fetched. {}{}{}", .kind.word(), .reasons.join(" "), partial_download(*.partial), by_hand(*.kind))]
    Sources {
        /// Model, data set or sandbox.
        kind: ArtifactKind,
        /// Its name.
        name: String,
        /// A sentence or two for each source: its name, what happened and what to do.
        reasons: Vec<String>,
        /// Whether a part was downloaded.
        partial: bool,
    },
    /// The cache folder cannot be written or read.
    #[error("{path}: {source}; {}", remedy(.source))]
    Local {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
}

impl FetchError {
    /// Whether another name is the remedy, since nothing has this name.
    #[must_use]
    pub fn is_misnamed(&self) -> bool {
        matches!(self, FetchError::Unknown { .. })
    }
}

fn or_repository(kind: ArtifactKind) -> &'static str {
    match kind {
        ArtifactKind::Model => ", or give a repository of the hub as owner/name",
        ArtifactKind::Dataset | ArtifactKind::Sandbox => "",
    }
}

fn partial_download(partial: bool) -> &'static str {
    if partial {
        " The downloaded part is stored, and the next attempt continues from there."
    } else {
        ""
    }
}

fn by_hand(kind: ArtifactKind) -> &'static str {
    match kind {
        ArtifactKind::Dataset => {
            " If you have the files already, name their folder with --data-dir."
        }
        ArtifactKind::Model | ArtifactKind::Sandbox => "",
    }
}

fn remedy(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
            "the disk is full: make room, or set RAPID_HOME to a folder on another disk, and run the command again"
        }
        std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem => {
            "set RAPID_HOME to a folder that you may write to"
        }
        _ => "check the folder, or set RAPID_HOME to another one",
    }
}

/// Why an attempt at one source failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// The source's fault. The next one may work.
    Source(String),
    /// This machine's fault. No source would work.
    Local(FetchError),
}

impl Failure {
    pub(super) fn local(path: &Path, source: std::io::Error) -> Failure {
        Failure::Local(FetchError::Local {
            path: path.to_owned(),
            source,
        })
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
            text.push_str(": ");
            text.push_str(&inner_text);
        }
        cause = inner.source();
    }
    text
}

/// The innermost cause, which names the actual problem.
pub(super) fn root_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}
