//! The lock of a run folder: one process writes to it at a time, and a new run starts only in a folder without other files.

use std::fs::{DirEntry, File, TryLockError};
use std::path::Path;

use super::{RunFolder, checkpoint, create_folder, provenance, truncate};
use crate::atomic_file;
use crate::run::TrainError;

/// Files that may be in a folder before a run begins, in addition to partial files and a provenance. An interrupted start leaves the first, `rapid quickstart` the second.
const ALLOWED: [&str; 2] = [".lock", "verifier.log"];

impl RunFolder {
    /// Refuses a path where a new run cannot have a folder of its own. Nothing is created.
    ///
    /// # Errors
    /// [`TrainError::Usage`], [`TrainError::Io`].
    pub fn check_free(root: &Path) -> Result<(), TrainError> {
        if root.join("config.toml").exists() {
            return Err(has_run(root));
        }
        let mut above = root.ancestors();
        let reason = match above.find(|path| path.is_symlink() || path.exists()) {
            Some(existing) if !existing.is_dir() => format!(
                "{} exists and is not a folder, so a run cannot be written there",
                existing.display()
            ),
            Some(existing) if existing == root => match foreign_entry(root)? {
                None => return Ok(()),
                Some(entry) => format!(
                    "{} holds other files, such as {entry}, and no run, so a run's files would be mixed with them",
                    root.display()
                ),
            },
            _ => return Ok(()),
        };
        Err(TrainError::Usage(format!(
            "{reason}; give another folder with --out"
        )))
    }

    /// Creates and locks the folder of a new run. It does not count as a run before its configuration is saved.
    ///
    /// # Errors
    /// [`TrainError::Usage`] if the folder has a run already, [`TrainError::Refused`] if another process has it, [`TrainError::Io`].
    pub(in crate::run) fn claim(root: &Path) -> Result<Self, TrainError> {
        let folder = Self::lock(root)?;
        if folder.config().exists() {
            return Err(has_run(root));
        }
        folder.create_folders()?;
        Ok(folder)
    }

    /// Opens and locks the folder of a run to resume.
    ///
    /// # Errors
    /// [`TrainError::Usage`] if it has no run, [`TrainError::Refused`] if another process has it or the folder of checkpoints was removed, [`TrainError::Io`].
    pub fn open(root: &Path) -> Result<Self, TrainError> {
        if !root.join("config.toml").is_file() {
            return Err(TrainError::no_run(root));
        }
        let folder = Self::lock(root)?;
        // A run has this folder before its first update.
        if !folder.checkpoints().exists() {
            let updates = truncate::logged(&folder)?;
            if updates > 0 {
                return Err(checkpoint::missing(&folder, updates));
            }
        }
        folder.create_folders()?;
        Ok(folder)
    }

    fn lock(root: &Path) -> Result<Self, TrainError> {
        create_folder(root)?;
        let path = root.join(".lock");
        let mut options = File::options();
        options.create(true).truncate(false).write(true);
        let file = options.open(&path);
        let file = file.map_err(|source| TrainError::io(&path, source))?;
        match file.try_lock() {
            Ok(()) => Ok(Self {
                root: root.to_owned(),
                _lock: file,
            }),
            Err(TryLockError::WouldBlock) => Err(TrainError::Refused(format!(
                "another process is training in {}; wait for it to end, or stop it",
                root.display()
            ))),
            Err(TryLockError::Error(source)) => Err(TrainError::io(&path, source)),
        }
    }

    fn create_folders(&self) -> Result<(), TrainError> {
        for folder in [self.samples(), self.checkpoints(), self.rollouts()] {
            create_folder(&folder)?;
        }
        Ok(())
    }
}

fn has_run(root: &Path) -> TrainError {
    TrainError::Usage(format!(
        "{0} holds a run already: continue it with `rapid train --resume {0}`, or give another folder with --out",
        root.display()
    ))
}

/// The name of an entry in a folder that a new run would be mixed with, if there is one. Empty folders do not count.
fn foreign_entry(root: &Path) -> Result<Option<String>, TrainError> {
    let entries = std::fs::read_dir(root).map_err(|source| TrainError::io(root, source))?;
    let is_foreign = |entry: &DirEntry| {
        let allowed = ALLOWED.iter().any(|name| entry.file_name() == *name)
            || atomic_file::is_partial(&entry.file_name())
            || provenance::is_provenance(&entry.path());
        let empty = std::fs::read_dir(entry.path()).is_ok_and(|mut inside| inside.next().is_none());
        !allowed && !empty
    };
    let found = entries.flatten().find(is_foreign);
    Ok(found.map(|entry| entry.file_name().to_string_lossy().into_owned()))
}
