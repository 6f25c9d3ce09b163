//! Why a run ended before its last update.

use std::io;
use std::path::{Path, PathBuf};

use engine::EngineError;

use crate::config::ConfigError;
use crate::data::DataError;
use crate::plan::Misfit;
use crate::reward::RewardError;
use crate::rollout::RolloutError;

/// What happened, to what, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// There are no prompts.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The run does not fit into memory, or its checkpoints onto the disk.
    #[error(transparent)]
    Misfit(#[from] Misfit),
    /// There can be no rewards.
    #[error(transparent)]
    Reward(#[from] RewardError),
    /// A phase or an evaluation has no samples.
    #[error(transparent)]
    Rollout(RolloutError),
    /// The policy's numbers are no longer finite.
    #[error(
        "after {step} updates, {what}. With --resume, the run would compute the same and end here again. {remedy}"
    )]
    Diverged {
        /// Updates done.
        step: usize,
        /// What is not finite.
        what: String,
        /// Which run to start instead.
        remedy: String,
    },
    /// The model is not on this machine.
    #[error(
        "the model {0} is not on this machine: fetch it with `rapid fetch model:{0}`, or give a GGUF file or a Hugging Face folder as `model.path`"
    )]
    NoModel(String),
    /// Too many samples without a verdict.
    #[error("{0}")]
    Masked(String),
    /// A file could not be written or read.
    #[error("{path}: {source}{}", advice(source))]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The folder that the command line names does not allow what it asks for. A new run finds the folder not free, or a resumed one finds no run. Or a setting
    /// would make it another run, or a length is one that it cannot have. Nothing was changed.
    #[error("{0}")]
    Usage(String),
    /// A run, or its teacher's file, cannot be used before the user has done what the error says. Nothing was changed.
    #[error("{0}")]
    Refused(String),
}

impl From<RolloutError> for TrainError {
    fn from(error: RolloutError) -> Self {
        match error {
            RolloutError::Save { path, source } => Self::Io { path, source },
            error => Self::Rollout(error),
        }
    }
}

/// The words by which [`TrainError::Diverged`] is known from a log.
const DIVERGENCE: &str = "the run would compute the same and end here again";

/// Whether a log's reason for the end of a run is that its weights no longer computed finite numbers.
pub fn is_divergence(reason: &str) -> bool {
    reason.contains(DIVERGENCE)
}

impl TrainError {
    pub(super) fn io(path: &Path, source: io::Error) -> Self {
        Self::Io {
            path: path.to_owned(),
            source,
        }
    }

    /// The error for a folder to resume from that has no run.
    pub(super) fn no_run(folder: &Path) -> Self {
        Self::Usage(format!(
            "{} holds no run: there is no config.toml in it. Give the folder that `rapid train` printed",
            folder.display()
        ))
    }

    /// What is not finite, if that ended the run.
    pub(super) fn not_finite(&self) -> Option<&str> {
        match self {
            Self::Engine(EngineError::Numeric(what))
            | Self::Rollout(RolloutError::Engine(EngineError::Numeric(what))) => Some(what),
            _ => None,
        }
    }

    /// Whether `--resume` can continue the run as it is.
    pub fn can_resume(&self) -> bool {
        !self.is_refusal() && !matches!(self, Self::Diverged { .. })
    }

    /// Whether the start was refused: an existing run is unchanged, and cannot continue before the user has done what the error says.
    pub fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::Usage(_)
                | Self::Refused(_)
                | Self::Misfit(Misfit::Disk { .. })
                | Self::Reward(RewardError::GraderSettings(_))
        )
    }
}

/// A share in percent, rounded to what the user wrote: 0.07 times 100 is 7.000000000000001.
pub(super) fn percent(share: f64) -> f64 {
    (share * 1e6).round() / 1e4
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            ". The disk is full: make room, then continue the run"
        }
        io::ErrorKind::PermissionDenied => {
            ". Give this user access to it; a new run can be in another folder, with --out"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::percent;

    #[test]
    fn a_share_is_printed_as_it_was_written() {
        let printed = [0.07, 0.1, 0.29, 0.005, 1.0, 0.0].map(|share| percent(share).to_string());
        assert_eq!(printed, ["7", "10", "29", "0.5", "100", "0"]);
    }
}
