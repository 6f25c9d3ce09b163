//! Checkpoints: Hugging Face model folders that also hold the state to continue a run to the bit.

use std::fs::{DirEntry, File};
use std::path::{Path, PathBuf};

use engine::EngineError;
use serde::{Deserialize, Serialize};

use super::{RunFolder, write_whole};
use crate::checkpoint_settings;
use crate::missing_file::default_if_missing;
use crate::policy::Policy;
use crate::run::TrainError;

/// Weights and moments, as the engine writes them.
const STATE: &str = "state.bin";
/// The number of updates. A checkpoint without this file is not whole.
const COMPLETE_MARK: &str = "run.json";

#[derive(Debug, Serialize, Deserialize)]
struct CompleteMark {
    version: u32,
    /// Updates done.
    step: usize,
}

/// Folder of the checkpoint after `step` updates.
pub fn folder_of(run: &RunFolder, step: usize) -> PathBuf {
    run.checkpoints().join(format!("step-{step}"))
}

/// Folder of the same checkpoint while it is being written or removed. It does not count as a checkpoint.
fn partial_folder_of(run: &RunFolder, step: usize) -> PathBuf {
    run.checkpoints().join(format!(".step-{step}.partial"))
}

/// Writes a checkpoint atomically, with the file of `settings` in it, and points `last` at it. This thread waits while the engine's thread writes the model and the
/// moments; it writes the other files itself. Even after a loss of power, a checkpoint that exists has the log lines of all its updates, and the samples to continue
/// with.
pub(in crate::run) fn save(
    run: &RunFolder,
    policy: &dyn Policy,
    settings: &str,
    step: usize,
) -> Result<(), TrainError> {
    let folder = folder_of(run, step);
    if !folder.join(COMPLETE_MARK).is_file() {
        let aside = partial_folder_of(run, step);
        clear_partial(run)?;
        let write = || {
            policy.save_model(aside.clone())?;
            let settings = settings.as_bytes();
            write_whole(&aside.join(checkpoint_settings::NAME), settings)?;
            policy.save_state(aside.join(STATE))?;
            let mark = serde_json::to_vec(&CompleteMark { version: 1, step })
                .map_err(|error| TrainError::io(&aside, error.into()))?;
            write_whole(&aside.join(COMPLETE_MARK), &mark)?;
            // The names in the folder must be on the disk before the folder gets its final name.
            sync(&aside)?;
            run.sync()?;
            // The names of stored samples, and those of the logs.
            sync(&run.rollouts())?;
            sync(run.root())?;
            // A folder of this name without the mark is not a checkpoint.
            clear(&folder)?;
            std::fs::rename(&aside, &folder).map_err(|source| TrainError::io(&folder, source))
        };
        let written: Result<(), TrainError> = write();
        if written.is_err() {
            // A partial checkpoint is useless, and the disk may be full.
            let _ = clear(&aside);
        }
        written?;
        sync(&run.checkpoints())?;
    }
    point(run, "last", step)
}

/// Makes sure that the names in a folder survive a loss of power.
fn sync(folder: &Path) -> Result<(), TrainError> {
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(|source| TrainError::io(folder, source))
}

/// Everything in the folder of checkpoints.
fn entries(run: &RunFolder) -> Result<impl Iterator<Item = DirEntry>, TrainError> {
    let root = run.checkpoints();
    let entries = std::fs::read_dir(&root).map_err(|source| TrainError::io(&root, source))?;
    Ok(entries.flatten())
}

/// Steps of the whole checkpoints, in order.
pub(in crate::run) fn steps(run: &RunFolder) -> Result<Vec<usize>, TrainError> {
    let step = |entry: DirEntry| {
        let name = entry.file_name();
        name.to_str()?.strip_prefix("step-")?.parse().ok()
    };
    let whole = entries(run)?.filter(|entry| entry.path().join(COMPLETE_MARK).is_file());
    let mut steps: Vec<usize> = whole.filter_map(step).collect();
    steps.sort_unstable();
    Ok(steps)
}

/// Loads the state of the checkpoint after `step` updates.
pub(in crate::run) fn load(
    run: &RunFolder,
    policy: &dyn Policy,
    step: usize,
) -> Result<(), TrainError> {
    let folder = folder_of(run, step);
    let bad = |reason: String| damaged(&folder, &reason);
    let path = folder.join(COMPLETE_MARK);
    let text = std::fs::read(&path).map_err(|source| TrainError::io(&path, source))?;
    let mark: CompleteMark = serde_json::from_slice(&text)
        .map_err(|error| bad(format!("{COMPLETE_MARK} is damaged ({error})")))?;
    if mark.version != 1 || mark.step != step {
        return Err(bad(format!(
            "{COMPLETE_MARK} says version {}, step {}, where version 1, step {step} was expected",
            mark.version, mark.step
        )));
    }
    policy
        .load_state(folder.join(STATE))
        .map_err(|error| unusable(&folder, error))
}

/// The error for a state that the engine cannot load. It names the checkpoint's folder, since the user can delete that.
pub(in crate::run) fn unusable(folder: &Path, error: EngineError) -> TrainError {
    match error {
        EngineError::Model { reason, .. } => damaged(folder, &format!("{STATE}: {reason}")),
        other => other.into(),
    }
}

fn damaged(folder: &Path, reason: &str) -> TrainError {
    TrainError::Refused(format!(
        "{}: {reason}; delete that folder to continue from the checkpoint before it",
        folder.display()
    ))
}

/// The error if updates are logged, but their checkpoints, or the folder of checkpoints, were removed.
pub(in crate::run) fn missing(run: &RunFolder, updates: usize) -> TrainError {
    TrainError::Refused(format!(
        "{} has no checkpoint, but {updates} updates are in the logs. Restore that folder; to train again from the first update, delete metrics.jsonl beside it",
        run.checkpoints().display()
    ))
}

/// Whether a checkpoint has the state from which training goes on.
pub(in crate::run) fn has_state(run: &RunFolder, step: usize) -> bool {
    folder_of(run, step).join(STATE).exists()
}

/// Removes the state of all checkpoints of a run that has finished. Before, its last evaluation has to survive a loss of power: without it, the run needs the state.
pub(in crate::run) fn remove_states(run: &RunFolder) -> Result<(), TrainError> {
    run.sync()?;
    for path in entries(run)?.map(|entry| entry.path().join(STATE)) {
        match std::fs::remove_file(&path) {
            Err(error) if path.exists() => return Err(TrainError::io(&path, error)),
            _ => {}
        }
    }
    Ok(())
}

/// Removes all checkpoints except the `keep` newest and the best. Returns the steps of the remaining ones.
pub(in crate::run) fn prune(
    run: &RunFolder,
    keep: usize,
    best: Option<usize>,
) -> Result<Vec<usize>, TrainError> {
    let steps = steps(run)?;
    let old = steps.len().saturating_sub(keep);
    let mut remaining = Vec::new();
    for (number, step) in steps.into_iter().enumerate() {
        if number >= old || Some(step) == best {
            remaining.push(step);
        } else {
            remove(run, step)?;
        }
    }
    Ok(remaining)
}

/// Points the link `last` or `best` at a checkpoint, atomically. The link is relative, so that run folders can be moved.
pub(in crate::run) fn point(run: &RunFolder, name: &str, step: usize) -> Result<(), TrainError> {
    let path = run.checkpoints().join(name);
    let aside = run.checkpoints().join(format!(".{name}.partial"));
    let _ = std::fs::remove_file(&aside);
    std::os::unix::fs::symlink(format!("step-{step}"), &aside)
        .and_then(|()| std::fs::rename(&aside, &path))
        .map_err(|source| TrainError::io(&path, source))
}

/// Removes a checkpoint. A process that is killed meanwhile leaves all of it, or what [`clear_partial`] removes.
fn remove(run: &RunFolder, step: usize) -> Result<(), TrainError> {
    let (folder, aside) = (folder_of(run, step), partial_folder_of(run, step));
    clear(&aside)?;
    std::fs::rename(&folder, &aside).map_err(|source| TrainError::io(&folder, source))?;
    clear(&aside)
}

/// Removes checkpoints that were being written or removed when a process was killed: folders with names that begin with a dot, from the engine or from [`save`].
fn clear_partial(run: &RunFolder) -> Result<(), TrainError> {
    let hidden = |entry: &DirEntry| entry.file_name().as_encoded_bytes().starts_with(b".");
    entries(run)?
        .filter(hidden)
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .try_for_each(|entry| clear(&entry.path()))
}

fn clear(folder: &Path) -> Result<(), TrainError> {
    default_if_missing(std::fs::remove_dir_all(folder))
        .map_err(|source| TrainError::io(folder, source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_is_whole_until_it_is_gone() {
        let home = tempfile::tempdir().unwrap();
        let run = RunFolder::claim(&home.path().join("run")).unwrap();
        let folder = folder_of(&run, 2);
        std::fs::create_dir(&folder).unwrap();
        // Many files, so that their removal takes a while, with the mark in the middle.
        for number in 0..2000 {
            let name = match number {
                1000 => COMPLETE_MARK.to_owned(),
                _ => number.to_string(),
            };
            std::fs::write(folder.join(name), "").unwrap();
        }
        // What an earlier removal left.
        std::fs::create_dir(partial_folder_of(&run, 2)).unwrap();
        std::fs::write(partial_folder_of(&run, 2).join(COMPLETE_MARK), "").unwrap();
        assert_eq!(steps(&run).unwrap(), [2]);

        let was_half = std::thread::scope(|scope| {
            let watcher = scope.spawn(|| {
                let mut was_half = false;
                while folder.exists() {
                    let files = ["0", "500", "1500", "1999"];
                    let lacks_one = files.iter().any(|name| !folder.join(name).exists());
                    was_half |= lacks_one && folder.join(COMPLETE_MARK).exists();
                }
                was_half
            });
            prune(&run, 0, None).unwrap();
            watcher.join().unwrap()
        });
        assert!(!was_half);
        assert!(!partial_folder_of(&run, 2).exists());
    }
}
