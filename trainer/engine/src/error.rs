//! The engine's errors.

/// An error of the engine. The message states what happened, to what, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// A model's file cannot be read or does not have the expected content.
    #[error("{path}: {reason}")]
    Model {
        /// The file or folder.
        path: std::path::PathBuf,
        /// What is wrong with it, and how to fix it.
        reason: String,
    },
    /// A request that cannot be served.
    #[error("{0}")]
    Request(String),
    /// The device is missing or lacks something that the work needs.
    #[error("{0}")]
    Device(String),
    /// A number is not finite.
    #[error("{0}")]
    Numeric(String),
    /// The objective rejected the log-probabilities, or does not return what it has to. That is a fault of the caller, and says nothing about the weights.
    #[error("{0}")]
    Objective(String),
    /// A file could not be written or read.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: std::path::PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// Another rank is gone, or the ranks cannot exchange bytes. They cannot go on together.
    #[error("{0}")]
    Ranks(String),
    /// The worker thread is gone.
    #[error(
        "the engine's worker thread has stopped; the error that stopped it was reported to the previous call"
    )]
    Stopped,
}

/// Checks that an error has all these words.
#[cfg(test)]
#[track_caller]
pub(crate) fn assert_says(error: &str, words: &[&str]) {
    let says = words.iter().all(|it| error.contains(it));
    assert!(says, "{words:?}: {error}");
}
