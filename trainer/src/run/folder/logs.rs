//! The logs of a run folder: JSON Lines.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{RunFolder, write_whole};
use crate::missing_file::default_if_missing;
use crate::run::TrainError;

datasets::choice! {
    /// A file of one JSON object per line, each with a `step`.
    pub enum Log {
        /// A line for each update.
        #[default]
        Metrics = "metrics.jsonl",
        /// The times of each update.
        Timings = "timings.jsonl",
        /// A line for each evaluation.
        Eval = "eval.jsonl",
        /// Alarms: they follow from the metrics and the evaluations, so the file is not truncated but rebuilt.
        Alarms = "alarms.jsonl",
        /// The time of every process, so it is not truncated.
        Clock = "clock.jsonl",
        /// The importance weights of a completion of each phase.
        Weights = "weights.jsonl",
        /// The extensions of the run. A resumed run replaces it as a whole.
        Extensions = "extended.jsonl",
    }
}

impl Log {
    /// The error for a line, counted from 0, that is not a record of the log.
    pub(in crate::run) fn damaged(
        self,
        path: &Path,
        line: usize,
        error: &serde_json::Error,
    ) -> TrainError {
        let message = error.to_string();
        // The parser got a single line, so the line number in its message is removed.
        let reason = message.split(" at line ").next().unwrap_or_default();
        let remedy = match self {
            Log::Metrics => {
                "delete the checkpoints from that update on to continue from the one before"
            }
            _ => "delete that line to continue without its record",
        };
        TrainError::Refused(format!(
            "{}, line {} is damaged ({reason} at column {}). Restore the file, or {remedy}",
            path.display(),
            line + 1,
            error.column()
        ))
    }
}

impl RunFolder {
    /// Appends a line to a log, or nothing if that fails.
    pub(in crate::run) fn append(
        &self,
        log: Log,
        record: &impl Serialize,
    ) -> Result<(), TrainError> {
        let path = self.log(log);
        let line = lines(&path, [record])?;
        let write = || {
            let mut file = File::options().create(true).append(true).open(&path)?;
            let length = file.metadata()?.len();
            file.write_all(&line).inspect_err(|_| {
                // Else the next line would continue a part of this one. If it fails too, the next resumption cuts the part off.
                let _ = file.set_len(length);
            })
        };
        write().map_err(|source| TrainError::io(&path, source))
    }

    /// Replaces a log by these records. A log without records is removed.
    pub(in crate::run) fn rewrite(
        &self,
        log: Log,
        records: &[impl Serialize],
    ) -> Result<(), TrainError> {
        let path = self.log(log);
        if !records.is_empty() {
            return write_whole(&path, &lines(&path, records)?);
        }
        default_if_missing(std::fs::remove_file(&path))
            .map_err(|source| TrainError::io(&path, source))
    }

    pub(in crate::run) fn read<T: DeserializeOwned>(&self, log: Log) -> Result<Vec<T>, TrainError> {
        read_log(&self.root, log)
    }

    /// Makes sure that the appended lines survive a loss of power.
    pub(in crate::run) fn sync(&self) -> Result<(), TrainError> {
        for log in Log::ALL {
            let path = self.log(log);
            default_if_missing(File::open(&path).and_then(|file| file.sync_all()))
                .map_err(|source| TrainError::io(&path, source))?;
        }
        Ok(())
    }
}

/// The whole lines of a run folder's log; none if the file does not exist yet. For readers that need no lock.
///
/// # Errors
/// [`TrainError::Refused`] for a line that is not a record of the log, [`TrainError::Io`].
pub fn read_log<T: DeserializeOwned>(root: &Path, log: Log) -> Result<Vec<T>, TrainError> {
    let path = root.join(log.name());
    let text = content(&path)?;
    whole_lines(&text)
        .enumerate()
        .map(|(number, line)| {
            serde_json::from_slice(line).map_err(|error| log.damaged(&path, number, &error))
        })
        .collect()
}

/// A file's bytes; none if the file does not exist.
pub(in crate::run) fn content(path: &Path) -> Result<Vec<u8>, TrainError> {
    default_if_missing(std::fs::read(path)).map_err(|source| TrainError::io(path, source))
}

/// The whole lines of a log. A last line that was still being written is left out.
pub(in crate::run) fn whole_lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split_inclusive(|byte| *byte == b'\n')
        .take_while(|line| line.ends_with(b"\n"))
}

/// The records as JSON Lines. `path` is the file that an error names.
pub(in crate::run) fn lines<T: Serialize>(
    path: &Path,
    records: impl IntoIterator<Item = T>,
) -> Result<Vec<u8>, TrainError> {
    let mut text = Vec::new();
    for record in records {
        serde_json::to_writer(&mut text, &record)
            .map_err(|error| TrainError::io(path, error.into()))?;
        text.push(b'\n');
    }
    Ok(text)
}
