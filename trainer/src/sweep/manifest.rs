//! `manifest.jsonl`: what ran, on which processor, with which binary.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::SweepError;
use crate::missing_file::default_if_missing;
use crate::record::timestamp;
use crate::run::is_divergence;

/// What happened to a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Event {
    /// A process starts it.
    Start,
    /// A process continues it.
    Resume,
    /// It has made its last update.
    Finish,
    /// It was stopped on request, and can be continued.
    Stop,
    /// It ended with an error.
    Fail,
}

/// A line of the manifest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ManifestLine {
    /// The run's name.
    pub run: String,
    /// What happened.
    pub event: Event,
    /// When, in seconds since 1970.
    pub time: f64,
    /// The machine and the program.
    #[serde(flatten)]
    pub machine: Machine,
    /// How long the process ran, at its end. Those of all lines of a run are its wall time, without the processes that were killed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// The largest resident memory of the process, in bytes, at its end; absent where the system does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_memory: Option<u64>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Where a run is made, and by which program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name.
    pub processor: String,
    /// The program's version.
    pub version: String,
    /// The SHA-256 of the program's file.
    pub binary: String,
}

impl Machine {
    /// This machine and the program in this file.
    ///
    /// # Errors
    /// [`SweepError::File`] if the file cannot be read.
    pub fn here(program: &Path) -> Result<Self, SweepError> {
        let bytes = std::fs::read(program).map_err(|error| SweepError::io(program, &error))?;
        let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let mut fields = cpuinfo.lines().filter_map(|line| line.split_once(':'));
        let processor = fields.find(|(key, _)| key.trim() == "model name");
        let processor = processor.map_or(std::env::consts::ARCH, |(_, name)| name.trim());
        let digest = Sha256::digest(bytes);
        let digest = digest.iter().map(|byte| format!("{byte:02x}"));
        Ok(Self {
            processor: processor.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            binary: digest.collect(),
        })
    }
}

impl ManifestLine {
    /// Whether the run ended because its weights no longer computed finite numbers.
    pub fn is_divergence(&self) -> bool {
        let reason = self.reason.as_deref().unwrap_or_default();
        self.event == Event::Fail && is_divergence(reason)
    }

    /// A line about an event that happens now.
    pub fn now(run: &str, event: Event, machine: &Machine) -> Self {
        Self {
            run: run.to_owned(),
            event,
            time: timestamp(),
            machine: machine.clone(),
            seconds: None,
            peak_memory: None,
            reason: None,
        }
    }
}

/// Appends a line. Other processes that append wait for it. A line that a killed process has left half-written is removed first.
///
/// # Errors
/// [`SweepError::File`].
pub fn append(path: &Path, line: &ManifestLine) -> Result<(), SweepError> {
    let write = || {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        let mut options = File::options();
        options.create(true).truncate(false).read(true).write(true);
        let mut file = options.open(path)?;
        // The lock ends with the file.
        file.lock()?;
        let mut written = Vec::new();
        file.read_to_end(&mut written)?;
        let whole = whole_lines(&written).len() as u64;
        file.set_len(whole)?;
        file.seek(SeekFrom::Start(whole))?;
        file.write_all(&text)?;
        file.sync_all()
    };
    write().map_err(|error| SweepError::io(path, &error))
}

/// The whole lines of a manifest; none if there is no file yet.
///
/// # Errors
/// [`SweepError::File`].
pub fn read(path: &Path) -> Result<Vec<ManifestLine>, SweepError> {
    let text = default_if_missing(std::fs::read(path));
    let text = text.map_err(|error| SweepError::io(path, &error))?;
    let lines = whole_lines(&text).split_inclusive(|byte| *byte == b'\n');
    let lines = (1..).zip(lines).map(|(number, line)| {
        serde_json::from_slice(line).map_err(|error| {
            SweepError::File(format!(
                "{}, line {number}: {error}; restore the file, or delete that line",
                path.display()
            ))
        })
    });
    lines.collect()
}

/// The text up to the end of its last whole line.
fn whole_lines(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|byte| *byte == b'\n');
    end.map_or(&[], |end| &text[..=end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_half_written_line_is_not_read_and_a_damaged_one_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let [path, program] = ["manifest.jsonl", "program"].map(|name| folder.path().join(name));
        std::fs::write(&program, "abc").unwrap();
        let machine = Machine::here(&program).unwrap();
        assert!(machine.binary.starts_with("ba7816bf8f01cfea"));
        let line = |event| ManifestLine::now("a", event, &machine);
        let write = |text: &[u8]| {
            let mut file = File::options().append(true).open(&path).unwrap();
            file.write_all(text).unwrap();
        };
        assert_eq!(read(&path).unwrap(), []);
        let (first, second) = (line(Event::Start), line(Event::Finish));
        append(&path, &first).unwrap();
        write(b"{\"run\":\"b\",\"eve");
        assert_eq!(read(&path).unwrap(), std::slice::from_ref(&first));
        append(&path, &second).unwrap();
        assert_eq!(read(&path).unwrap(), [first, second]);
        write(b"{}\n");
        let error = read(&path).unwrap_err().to_string();
        assert!(error.contains("manifest.jsonl, line 3: missing field"));
    }
}
