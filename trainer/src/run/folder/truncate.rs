//! Truncates a run folder's logs to a checkpoint. All logs are checked before the first is changed.

use std::path::PathBuf;

use serde::de::DeserializeOwned;

use super::{Log, RunFolder, content, whole_lines, write_whole};
use crate::run::TrainError;

/// A log without the lines after a checkpoint.
pub(in crate::run) struct Truncated<T> {
    /// The records that remain.
    pub(in crate::run) records: Vec<T>,
    path: PathBuf,
    /// The new content of the file, if a part of it goes.
    content: Option<Vec<u8>>,
}

impl<T> Truncated<T> {
    /// Writes the log, and returns its records.
    pub(in crate::run) fn write(self) -> Result<Vec<T>, TrainError> {
        if let Some(content) = self.content {
            write_whole(&self.path, &content)?;
        }
        Ok(self.records)
    }
}

/// The lines that a log had after `step` updates, without a last line that is not whole. Later lines may be damaged, since none of them remains. Nothing is written yet.
///
/// # Errors
/// [`TrainError::Refused`] if one of those lines is damaged; [`TrainError::Io`].
pub(in crate::run) fn to_step<T: DeserializeOwned>(
    folder: &RunFolder,
    log: Log,
    step: usize,
    step_of: impl Fn(&T) -> usize,
) -> Result<Truncated<T>, TrainError> {
    let path = folder.log(log);
    let mut text = content(&path)?;
    let (mut records, mut length) = (Vec::new(), 0);
    // Only an evaluation can come before the first update.
    let mut reached = (log != Log::Eval).then_some(0);
    for (number, line) in whole_lines(&text).enumerate() {
        if reached == Some(step) {
            break;
        }
        let record: T =
            serde_json::from_slice(line).map_err(|error| log.damaged(&path, number, &error))?;
        let at = step_of(&record);
        if at > step {
            break;
        }
        records.push(record);
        length += line.len();
        reached = Some(at);
    }
    let is_cut = length < text.len();
    text.truncate(length);
    Ok(Truncated {
        records,
        path,
        content: is_cut.then_some(text),
    })
}

/// The number of whole lines in the metrics, damaged or not: the updates that were logged.
pub(in crate::run) fn logged(folder: &RunFolder) -> Result<usize, TrainError> {
    Ok(whole_lines(&content(&folder.log(Log::Metrics))?).count())
}
