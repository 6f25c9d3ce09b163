//! The folder of a run: its layout and its lock.

pub(in crate::run) mod checkpoint;
mod lock;
mod logs;
pub(in crate::run) mod model_digest;
pub(in crate::run) mod provenance;
pub(in crate::run) mod rollouts;
pub(in crate::run) mod truncate;

use std::fs::File;
use std::path::{Path, PathBuf};

use super::TrainError;
use crate::atomic_file;

pub(in crate::run) use logs::lines;
pub use logs::{Log, read_log};
use logs::{content, whole_lines};

/// An open run folder. While it is open no other process can open it; the system releases the lock however the process ends.
#[derive(Debug)]
pub struct RunFolder {
    root: PathBuf,
    _lock: File,
}

/// Suffix of the files that hold the completions of a phase or an evaluation while it is being sampled. In names of files and keys, `drawn` stands for sampled.
pub(in crate::run) const PARTIAL_ROLLOUT: &str = ".drawn.jsonl";

impl RunFolder {
    /// The folder itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    pub(in crate::run) fn log(&self, log: Log) -> PathBuf {
        self.root.join(log.name())
    }

    /// `config.toml`: the resolved configuration.
    pub fn config(&self) -> PathBuf {
        self.root.join("config.toml")
    }

    /// `samples/`: completions for people to read.
    pub fn samples(&self) -> PathBuf {
        self.root.join("samples")
    }

    /// `checkpoints/`
    pub fn checkpoints(&self) -> PathBuf {
        self.root.join("checkpoints")
    }

    /// `rollouts/`: the samples of the current phase, as the updates need them.
    pub(in crate::run) fn rollouts(&self) -> PathBuf {
        self.root.join("rollouts")
    }

    /// `tensorboard/`
    pub(in crate::run) fn tensorboard(&self) -> PathBuf {
        self.root.join("tensorboard")
    }

    /// Saves the resolved configuration. It replaces an older one.
    pub(in crate::run) fn save_config(&self, config: &str) -> Result<(), TrainError> {
        write_whole(&self.config(), config.as_bytes())
    }
}

/// Writes a file atomically: a reader sees the old content or the new.
pub(in crate::run) fn write_whole(path: &Path, content: &[u8]) -> Result<(), TrainError> {
    atomic_file::write(path, content).map_err(|source| TrainError::io(path, source))
}

fn create_folder(folder: &Path) -> Result<(), TrainError> {
    std::fs::create_dir_all(folder).map_err(|source| TrainError::io(folder, source))
}
