//! Why something could not be fetched.

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
        /// What was asked for.
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
    #[error("{}:{name} could not be fetched. {}{}{}", .kind.word(), .reasons.join(" "), what_is_kept(*.kept), by_hand(*.kind))]
    Sources {
        /// Model, data set or sandbox.
        kind: ArtifactKind,
        /// Its name.
        name: String,
        /// A sentence or two for each source: what it is, what happened, what to do.
        reasons: Vec<String>,
        /// Whether a part was downloaded.
        kept: bool,
    },
    /// The cache folder cannot be written or read.
    #[error("{path}: {source}; {}", remedy(.source))]
    Local {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

impl FetchError {
    /// Whether another name is the remedy: nothing is called so.
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

fn what_is_kept(kept: bool) -> &'static str {
    if kept {
        " What was downloaded so far is kept, and the next attempt goes on from there."
    } else {
        ""
    }
}

fn by_hand(kind: ArtifactKind) -> &'static str {
    match kind {
        ArtifactKind::Dataset => {
            " Files that you have already serve too: name their folder with --data-dir."
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

/// How an attempt at one source ended badly.
#[derive(Debug)]
pub(super) enum Failure {
    /// The source's fault: the next one may do.
    Source(String),
    /// This machine's fault: no source would do.
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

/// What reqwest says, with the causes that it keeps to itself, without the address.
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

/// The innermost cause: the one that says what a person can do something about.
pub(super) fn root_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}
