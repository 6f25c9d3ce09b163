//! Why a run ended before its last update.

use std::io;
use std::path::{Path, PathBuf};

use engine::EngineError;

use crate::config::{Config, ConfigError};
use crate::data::DataError;
use crate::plan::{TooLarge, TooLittleDisk};
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
    /// The run does not fit into memory.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    /// There is no disk space for its checkpoints.
    #[error(transparent)]
    TooLittleDisk(#[from] TooLittleDisk),
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
    #[error("{masked} of the {all} samples of {part} have no verdict, more than the {} % that `verifier.max_masked` allows; the last reason was: {reason}. Fix the verifier, then continue", percent(*.limit))]
    Masked {
        /// The part of the run that sampled them: a phase, as the terminal numbers it, or an evaluation.
        part: String,
        /// Samples without a verdict.
        masked: usize,
        /// Samples.
        all: usize,
        /// The limit.
        limit: f64,
        /// Why one of them has none.
        reason: String,
    },
    /// A teacher's completions cannot be used.
    #[error("the teacher's file {path}: {reason}")]
    Teacher {
        /// The file.
        path: PathBuf,
        /// What is wrong, and the remedy.
        reason: String,
    },
    /// The folder for a new run has a run already.
    #[error(
        "{0} holds a run already: continue it with `rapid train --resume {0}`, or give another folder with --out"
    )]
    Exists(PathBuf),
    /// The path for a new run exists and is not a folder.
    #[error(
        "{0} exists and is not a folder, so a run cannot be written there; give another folder with --out"
    )]
    NoFolder(PathBuf),
    /// The folder for a new run has other files.
    #[error(
        "{root} holds other files, such as {entry}, and no run, so a run's files would be mixed with them; give a new folder with --out"
    )]
    Occupied {
        /// The folder.
        root: PathBuf,
        /// One of the other files.
        entry: String,
    },
    /// The folder has no run.
    #[error(
        "{0} holds no run: there is no config.toml in it. Give the folder that `rapid train` printed"
    )]
    NoRun(PathBuf),
    /// Another process is training in the folder.
    #[error("another process is training in {0}; wait for it to end, or stop it")]
    Locked(PathBuf),
    /// A file could not be written or read.
    #[error("{path}: {source}{}", advice(source))]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A line of a log is not a record of that log.
    #[error("{path}, line {line} is damaged ({reason}). {remedy}")]
    Line {
        /// The log.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// The parser's message.
        reason: String,
        /// What to do.
        remedy: &'static str,
    },
    /// A run folder's metrics do not reach its checkpoint.
    #[error(
        "{path} has {lines} whole lines, but the checkpoint to continue from was made after {step} updates: lines were removed. Restore the file, or delete the checkpoints that come after it"
    )]
    Gap {
        /// The log.
        path: PathBuf,
        /// Updates done at the checkpoint.
        step: usize,
        /// Whole lines of the log.
        lines: usize,
    },
    /// Updates are logged, but their checkpoints, or the folder of checkpoints, were removed.
    #[error(
        "{path} has no checkpoint, but {updates} updates are in the logs. Restore that folder; to train again from the first update, delete metrics.jsonl beside it"
    )]
    NoCheckpoint {
        /// The folder of checkpoints.
        path: PathBuf,
        /// Updates with a line in the metrics.
        updates: usize,
    },
    /// A checkpoint is damaged.
    #[error("{path}: {reason}; delete that folder to continue from the checkpoint before it")]
    Checkpoint {
        /// The checkpoint's folder.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A checkpoint has only weights.
    #[error(
        "{0} has no state.bin, from which training would go on: a run that has finished removes it, unless `run.keep_state = true` was set before. Start another run from its weights (`--set model.path={0}`)"
    )]
    NoState(PathBuf),
    /// The samples of the phase under way are missing.
    #[error(
        "{0} is missing or damaged: it holds the samples of the phase under way, and they cannot be sampled again, because the policy that sampled them no longer exists. Restore it, or delete the newest checkpoint to continue from the one before it"
    )]
    Samples(PathBuf),
    /// The tasks are not those that the run began with.
    #[error(
        "the tasks of the data set {dataset} are not those that the run began with: {change}. Restore the data set (and the file of its prompt template, if it has one) as it was, or start a new run"
    )]
    OtherTasks {
        /// The data set, as the recipe names it.
        dataset: String,
        /// What is different.
        change: String,
    },
    /// The model is not the one that the run began with.
    #[error(
        "the files of the model {0} are not those that the run began with. Restore the model as it was, or start a new run"
    )]
    OtherModel(PathBuf),
    /// A run's provenance cannot be read.
    #[error(
        "{path} {reason}; delete that file to continue with tasks and model as they are now, and give --data-dir if the run began with it"
    )]
    Provenance {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A setting that would make the continued run another run.
    #[error(
        "`{0}` cannot change when a run is continued, since its updates so far depend on it; start a new run, or leave the setting out (the section [verifier], [engine] but for `dtype` and `kernel`, `run.checkpoint_every`, `run.keep`, `run.keep_state` and `run.alarms` can change, and `run.updates` or `run.epochs` can grow)"
    )]
    Fixed(String),
    /// A setting that would make the continued run shorter than it is.
    #[error(
        "the run has {before}, and a run that is continued can only be made longer, not {after}; give more, or leave the setting out"
    )]
    Shorter {
        /// Its length, in words.
        before: String,
        /// The requested length, in words.
        after: String,
    },
    /// A run that would be made longer before its end.
    #[error(
        "the run has not finished (it has made {step} of its {updates} updates), and only a run that has finished can be made longer: continue it first, with `--set run.keep_state=true` and without a new length"
    )]
    Unfinished {
        /// Updates done.
        step: usize,
        /// Its length in updates.
        updates: usize,
    },
}

/// Why the training loop ended before its last update.
pub(super) enum LoopExit {
    /// A stop was requested.
    Stopped,
    /// Something failed.
    Failed(TrainError),
}

impl<E: Into<TrainError>> From<E> for LoopExit {
    fn from(error: E) -> Self {
        match error.into() {
            TrainError::Rollout(RolloutError::Stopped) => Self::Stopped,
            error => Self::Failed(error),
        }
    }
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

/// Whether the reason why a run ended, as a log has it, is that its weights no longer computed finite numbers.
#[must_use]
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

    /// The error for a teacher's file that cannot be read.
    #[must_use]
    pub fn unread_teacher(config: &Config, path: &Path, error: &io::Error) -> Self {
        Self::Teacher {
            path: path.to_owned(),
            reason: format!(
                "it cannot be read ({error}); write it with `rapid generate --model TEACHER --dataset {} --split train -n 5 --temperature 0.7 --out {}`, \
                 with this recipe's template and limit of tokens (--template, --max-tokens), or give another as `data.teacher`",
                config.data.dataset,
                path.display()
            ),
        }
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
    #[must_use]
    pub fn can_resume(&self) -> bool {
        !self.is_refusal() && !matches!(self, Self::Diverged { .. })
    }

    /// Whether the start was refused: an existing run is unchanged, and cannot continue before the user has done what the error says.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::Exists(_)
                | Self::NoFolder(_)
                | Self::Occupied { .. }
                | Self::Locked(_)
                | Self::Line { .. }
                | Self::Gap { .. }
                | Self::NoCheckpoint { .. }
                | Self::Checkpoint { .. }
                | Self::NoState(_)
                | Self::TooLittleDisk(_)
                | Self::Samples(_)
                | Self::OtherTasks { .. }
                | Self::OtherModel(_)
                | Self::Provenance { .. }
                | Self::Teacher { .. }
                | Self::Reward(RewardError::Policy { .. } | RewardError::UnknownPolicy { .. })
                | Self::Shorter { .. }
                | Self::Unfinished { .. }
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
    use super::{TrainError, is_divergence, percent};

    #[test]
    fn a_divergence_is_known_by_its_words() {
        let diverged = TrainError::Diverged {
            step: 3,
            what: "the loss is not finite".into(),
            remedy: "Start another run".into(),
        };
        assert!(is_divergence(&diverged.to_string()));
        assert!(!is_divergence(&TrainError::NoModel("m".into()).to_string()));
    }

    #[test]
    fn a_share_is_printed_as_it_was_written() {
        let printed = [0.07, 0.1, 0.29, 0.005, 1.0, 0.0].map(|share| percent(share).to_string());
        assert_eq!(printed, ["7", "10", "29", "0.5", "100", "0"]);
    }
}
