//! Who may write to a run folder: one process at a time, and a new run only where nothing else is.

use std::fs::{DirEntry, File, TryLockError};
use std::path::Path;

use super::{RunFolder, make, provenance};
use crate::atomic_file;
use crate::run::TrainError;

/// What may be in a folder before a run begins, besides partial files and a note of its data: an interrupted start leaves the first, `rapid quickstart` the second.
const BEFOREHAND: [&str; 2] = [".lock", "verifier.log"];

impl RunFolder {
    /// Refuses a place where a new run cannot be kept by itself. Nothing is made.
    ///
    /// # Errors
    /// [`TrainError::Exists`] where a run is there already, [`TrainError::NoFolder`], [`TrainError::Occupied`], [`TrainError::Io`].
    pub fn check_free(root: &Path) -> Result<(), TrainError> {
        if root.join("config.toml").exists() {
            return Err(TrainError::Exists(root.to_owned()));
        }
        match root
            .ancestors()
            .find(|path| path.is_symlink() || path.exists())
        {
            Some(there) if !there.is_dir() => Err(TrainError::NoFolder(there.to_owned())),
            Some(there) if there == root => match stranger(root)? {
                Some(entry) => Err(TrainError::Occupied {
                    root: root.to_owned(),
                    entry,
                }),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// Makes the folder of a new run and saves its resolved configuration.
    ///
    /// # Errors
    /// [`TrainError::Exists`] where a run is there already, [`TrainError::Locked`], [`TrainError::Io`].
    pub fn create(root: &Path, config: &str) -> Result<Self, TrainError> {
        let folder = Self::claim(root)?;
        folder.save_config(config)?;
        Ok(folder)
    }

    /// Makes the folder of a new run, which is none before its configuration is saved.
    pub(in crate::run) fn claim(root: &Path) -> Result<Self, TrainError> {
        let folder = Self::lock(root)?;
        if folder.config().exists() {
            return Err(TrainError::Exists(root.to_owned()));
        }
        folder.make_folders()?;
        Ok(folder)
    }

    /// Opens the folder of a run to take it up again.
    ///
    /// # Errors
    /// [`TrainError::NoRun`], [`TrainError::Locked`], [`TrainError::Io`].
    pub fn open(root: &Path) -> Result<Self, TrainError> {
        if !root.join("config.toml").is_file() {
            return Err(TrainError::NoRun(root.to_owned()));
        }
        let folder = Self::lock(root)?;
        folder.make_folders()?;
        Ok(folder)
    }

    fn lock(root: &Path) -> Result<Self, TrainError> {
        make(root)?;
        let path = root.join(".lock");
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(|source| TrainError::io(&path, source))?;
        match file.try_lock() {
            Ok(()) => Ok(Self {
                root: root.to_owned(),
                _lock: file,
            }),
            Err(TryLockError::WouldBlock) => Err(TrainError::Locked(root.to_owned())),
            Err(TryLockError::Error(source)) => Err(TrainError::io(&path, source)),
        }
    }

    fn make_folders(&self) -> Result<(), TrainError> {
        for folder in [self.samples(), self.checkpoints(), self.rollouts()] {
            make(&folder)?;
        }
        Ok(())
    }
}

/// Something in a folder that does not belong to a run which is about to begin. An empty folder is in nobody's way.
fn stranger(root: &Path) -> Result<Option<String>, TrainError> {
    let entries = std::fs::read_dir(root).map_err(|source| TrainError::io(root, source))?;
    let strange = |entry: &DirEntry| {
        let known = BEFOREHAND.iter().any(|name| entry.file_name() == *name)
            || atomic_file::is_partial(&entry.file_name())
            || provenance::is_note(&entry.path());
        let empty = std::fs::read_dir(entry.path()).is_ok_and(|mut inside| inside.next().is_none());
        !known && !empty
    };
    let found = entries.flatten().find(strange);
    Ok(found.map(|entry| entry.file_name().to_string_lossy().into_owned()))
}
