//! Which run a process makes next. A run's log is its lock: the process that makes the run holds it too, so it is free only when both have ended.

use std::fs::{File, TryLockError};

use super::SweepError;
use super::folder::{RunState, SweepFolder};
use super::plan::PlannedRun;

/// Whether a process may make a run.
#[derive(Debug)]
pub enum Claim {
    /// It may: its log, locked and open for appending, and how far the run is.
    Free(File, RunState),
    /// Another process makes it.
    Taken,
    /// It has ended, and this is how.
    Ended(RunState),
}

/// Tries to claim a run. The claim ends when the log is closed by all processes that have it.
///
/// # Errors
/// [`SweepError::Io`], [`SweepError::Line`].
pub fn claim(folder: &SweepFolder, run: &PlannedRun) -> Result<Claim, SweepError> {
    let path = folder.log(&run.name);
    let log = File::options()
        .create(true)
        .append(true)
        .open(&path)
        .map_err(|source| SweepError::io(&path, source))?;
    match log.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(Claim::Taken),
        Err(TryLockError::Error(source)) => return Err(SweepError::io(&path, source)),
    }
    // The manifest is read under the lock: whoever had the run before has written its end.
    Ok(match folder.state(run, &folder.manifest()?) {
        state if state.has_ended() => Claim::Ended(state),
        state => Claim::Free(log, state),
    })
}
