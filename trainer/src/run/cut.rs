//! How a run folder's logs are cut back to a checkpoint: all of them are checked before the first is changed.

use std::path::{Path, PathBuf};

use super::TrainError;
use super::alarms::AlarmRecord;
use super::folder::{Log, RunFolder, content, whole_lines, write_aside};
use super::record::{EvalRecord, StepRecord, StepTimings};

/// What stays of a log that goes on beyond a checkpoint.
#[derive(Debug)]
pub(super) struct Cut {
    path: PathBuf,
    kept: Vec<u8>,
}

impl Cut {
    /// Writes it in the log's place.
    pub(super) fn make(&self) -> Result<(), TrainError> {
        write_aside(&self.path, &self.kept)
    }
}

/// What it takes to cut every log back to what was so after `step` updates. Nothing is written.
///
/// # Errors
/// [`TrainError::Line`] for a line up to there that was damaged, [`TrainError::Gap`] where metrics are missing, [`TrainError::Io`].
pub(super) fn cuts(folder: &RunFolder, step: usize) -> Result<Vec<Cut>, TrainError> {
    let mut cuts = Vec::new();
    for log in [Log::Metrics, Log::Timings, Log::Eval] {
        let path = folder.log(log);
        let mut kept = content(&path)?;
        let (steps, length) = up_to(log, &path, &kept, step)?;
        if log == Log::Metrics && !steps.iter().copied().eq(1..=step) {
            return Err(TrainError::Gap {
                path,
                step,
                lines: steps.len(),
            });
        }
        if length < kept.len() {
            kept.truncate(length);
            cuts.push(Cut { path, kept });
        }
    }
    Ok(cuts)
}

/// Updates with a whole line in the metrics, damaged or not.
pub(super) fn logged(folder: &RunFolder) -> Result<usize, TrainError> {
    Ok(whole_lines(&content(&folder.log(Log::Metrics))?).count())
}

/// The steps of the lines that stood in a log after `step` updates, and their bytes. What follows is not looked at, since none of it stays.
fn up_to(
    log: Log,
    path: &Path,
    text: &[u8],
    step: usize,
) -> Result<(Vec<usize>, usize), TrainError> {
    let (mut steps, mut length) = (Vec::new(), 0);
    // Only an evaluation can come before the first update.
    let mut reached = (log != Log::Eval).then_some(0);
    for (number, line) in whole_lines(text).enumerate() {
        if reached == Some(step) {
            break;
        }
        let at = step_of(log, line).map_err(|error| log.damaged(path, number, &error))?;
        if at > step {
            break;
        }
        steps.push(at);
        length += line.len();
        reached = Some(at);
    }
    Ok((steps, length))
}

/// The step of a line that is a record of its log.
fn step_of(log: Log, line: &[u8]) -> serde_json::Result<usize> {
    Ok(match log {
        Log::Metrics => serde_json::from_slice::<StepRecord>(line)?.step,
        Log::Timings => serde_json::from_slice::<StepTimings>(line)?.step,
        Log::Eval => serde_json::from_slice::<EvalRecord>(line)?.step,
        Log::Alarms => serde_json::from_slice::<AlarmRecord>(line)?.step,
    })
}
