//! Truncates a run folder's logs to a checkpoint. All logs are checked before the first is changed.

use std::path::{Path, PathBuf};

use super::{Log, RunFolder, content, whole_lines};
use crate::record::{AlarmRecord, ClockRecord, EvalRecord, StepRecord, StepTimings, TokenWeights};
use crate::run::TrainError;

/// The logs that have lines after the checkpoint of `step` updates, and their content without these; of the clock, without a line that is not whole. Nothing is written
/// yet.
///
/// # Errors
/// [`TrainError::Refused`] if one of those lines is damaged, or metrics are missing; [`TrainError::Io`].
pub(in crate::run) fn to_step(
    folder: &RunFolder,
    step: usize,
) -> Result<Vec<(PathBuf, Vec<u8>)>, TrainError> {
    let mut truncations = Vec::new();
    // Alarms are made again from the metrics and the evaluations.
    for log in Log::ALL.into_iter().filter(|log| *log != Log::Alarms) {
        let path = folder.log(log);
        let mut text = content(&path)?;
        let last = if log == Log::Clock { usize::MAX } else { step };
        let (steps, length) = up_to(log, &path, &text, last)?;
        if log == Log::Metrics && !steps.iter().copied().eq(1..=step) {
            return Err(TrainError::Refused(format!(
                "{} has {} whole lines, but the checkpoint to continue from was made after {step} updates: lines were removed. Restore the file, or delete the \
                 checkpoints that come after it",
                path.display(),
                steps.len()
            )));
        }
        if length < text.len() {
            text.truncate(length);
            truncations.push((path, text));
        }
    }
    Ok(truncations)
}

/// The records of the first `step` updates, or of as many as there are. Later lines may be damaged.
///
/// # Errors
/// [`TrainError::Refused`] if one of them is damaged, [`TrainError::Io`].
pub(in crate::run) fn updates(
    folder: &RunFolder,
    step: usize,
) -> Result<Vec<StepRecord>, TrainError> {
    let (log, path) = (Log::Metrics, folder.log(Log::Metrics));
    whole_lines(&content(&path)?)
        .take(step)
        .enumerate()
        .map(|(number, line)| {
            serde_json::from_slice(line).map_err(|error| log.damaged(&path, number, &error))
        })
        .collect()
}

/// The number of whole lines in the metrics, damaged or not: the updates that were logged.
pub(in crate::run) fn logged(folder: &RunFolder) -> Result<usize, TrainError> {
    Ok(whole_lines(&content(&folder.log(Log::Metrics))?).count())
}

/// The steps of the lines that a log had after `step` updates, and the number of their bytes. Later lines may be damaged, since none of them remains.
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

/// The step of a log's line.
fn step_of(log: Log, line: &[u8]) -> serde_json::Result<usize> {
    Ok(match log {
        Log::Metrics => serde_json::from_slice::<StepRecord>(line)?.step,
        Log::Timings => serde_json::from_slice::<StepTimings>(line)?.step,
        Log::Eval => serde_json::from_slice::<EvalRecord>(line)?.step,
        Log::Alarms => serde_json::from_slice::<AlarmRecord>(line)?.step,
        Log::Clock => serde_json::from_slice::<ClockRecord>(line)?.step,
        Log::Weights => serde_json::from_slice::<TokenWeights>(line)?.step,
    })
}
