//! Why the engine could not do something.

/// An error of the engine: what happened, to what, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// A model's file cannot be read or is not what it says it is.
    #[error("{path}: {reason}")]
    Model {
        /// The file or folder.
        path: std::path::PathBuf,
        /// What is wrong with it, and the remedy.
        reason: String,
    },
    /// A request that cannot be served as it is.
    #[error("{0}")]
    Request(String),
    /// The device is missing, or does not have what the work needs.
    #[error("{0}")]
    Device(String),
    /// The objective refused the log-probabilities, or something became not finite.
    #[error("{0}")]
    Numeric(String),
    /// A file could not be written or read.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: std::path::PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The worker thread is gone.
    #[error(
        "the engine's worker thread has stopped; the error that stopped it was reported to the call before"
    )]
    Stopped,
}
