//! A run's folder: where everything is, and who may write to it.

use std::fs::{DirEntry, File, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{TrainError, data_note};

/// An open run folder. While it is open no other process can open it; the system lets go of the lock however the process ends.
#[derive(Debug)]
pub struct RunFolder {
    root: PathBuf,
    _lock: File,
}

/// A file of one JSON object a line, each with a `step`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Log {
    /// `metrics.jsonl`
    Metrics,
    /// `timings.jsonl`
    Timings,
    /// `eval.jsonl`
    Eval,
    /// `alarms.jsonl`: made of the metrics and the evaluations, so never cut back but made anew.
    Alarms,
}

impl Log {
    fn name(self) -> &'static str {
        match self {
            Log::Metrics => "metrics.jsonl",
            Log::Timings => "timings.jsonl",
            Log::Eval => "eval.jsonl",
            Log::Alarms => "alarms.jsonl",
        }
    }

    /// That a line, counted from 0, is no record.
    pub(super) fn damaged(self, path: &Path, line: usize, error: &serde_json::Error) -> TrainError {
        let said = error.to_string();
        // The parser counts lines too, and has seen one.
        let reason = said.split(" at line ").next().unwrap_or_default();
        TrainError::Line {
            path: path.to_owned(),
            line: line + 1,
            reason: format!("{reason} at column {}", error.column()),
            remedy: match self {
                Log::Metrics => {
                    "Restore the file, or delete the checkpoints from that update on to continue from the one before"
                }
                _ => "Restore the file, or delete that line to continue without its record",
            },
        }
    }
}

/// What may be in a folder before a run begins: a start that was cut off leaves the first three and a note of its data, `rapid quickstart` begins with the last.
const BEFOREHAND: [&str; 4] = [
    ".lock",
    "config.toml.partial",
    "data.json.partial",
    "verifier.log",
];

/// How the names of files end whose completions are still being drawn.
pub(super) const DRAWN: &str = ".drawn.jsonl";

fn phase_name(phase: usize, from: usize) -> String {
    match from {
        0 => format!("phase-{phase}"),
        _ => format!("phase-{phase}-from-{from}"),
    }
}

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
    pub(super) fn claim(root: &Path) -> Result<Self, TrainError> {
        let folder = Self::lock(root)?;
        if folder.config().exists() {
            return Err(TrainError::Exists(root.to_owned()));
        }
        folder.make_rooms()?;
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
        folder.make_rooms()?;
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

    fn make_rooms(&self) -> Result<(), TrainError> {
        for room in [self.samples(), self.checkpoints(), self.rollouts()] {
            make(&room)?;
        }
        Ok(())
    }

    /// The folder itself.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The file of a log.
    pub(super) fn log(&self, log: Log) -> PathBuf {
        self.root.join(log.name())
    }

    /// `config.toml`: the resolved configuration.
    #[must_use]
    pub fn config(&self) -> PathBuf {
        self.root.join("config.toml")
    }

    /// `samples/`: completions for people to read.
    #[must_use]
    pub fn samples(&self) -> PathBuf {
        self.root.join("samples")
    }

    /// `checkpoints/`
    #[must_use]
    pub fn checkpoints(&self) -> PathBuf {
        self.root.join("checkpoints")
    }

    /// `rollouts/`: the phase under way, as the updates need it.
    pub(super) fn rollouts(&self) -> PathBuf {
        self.root.join("rollouts")
    }

    /// `samples/phase-N.jsonl`; what was drawn anew for the phase's updates from U on, `samples/phase-N-from-U.jsonl`.
    pub(super) fn phase_samples(&self, phase: usize, from: usize) -> PathBuf {
        let name = phase_name(phase, from);
        self.samples().join(format!("{name}.jsonl"))
    }

    /// The same in `rollouts/`, as the updates need it.
    pub(super) fn phase_rollout(&self, phase: usize, from: usize) -> PathBuf {
        let name = phase_name(phase, from);
        self.rollouts().join(format!("{name}.json"))
    }

    /// `rollouts/phase-N.drawn.jsonl`: its completions while they are drawn.
    pub(super) fn phase_drawn(&self, phase: usize, from: usize) -> PathBuf {
        let name = phase_name(phase, from);
        self.rollouts().join(format!("{name}{DRAWN}"))
    }

    /// `rollouts/eval-N.drawn.jsonl`: those of the evaluation after N updates, the same.
    pub(super) fn eval_drawn(&self, step: usize) -> PathBuf {
        self.rollouts().join(format!("eval-{step}{DRAWN}"))
    }

    /// `samples/eval-N.jsonl`, N the updates before it.
    pub(super) fn eval_samples(&self, step: usize) -> PathBuf {
        self.samples().join(format!("eval-{step}.jsonl"))
    }

    /// `tensorboard/`
    pub(super) fn tensorboard(&self) -> PathBuf {
        self.root.join("tensorboard")
    }

    /// Saves the resolved configuration, in place of an older one.
    pub(super) fn save_config(&self, config: &str) -> Result<(), TrainError> {
        write_aside(&self.config(), config.as_bytes())
    }

    /// Adds a line to a log.
    pub(super) fn append(&self, log: Log, record: &impl Serialize) -> Result<(), TrainError> {
        let path = self.log(log);
        let line = lines(&path, [record])?;
        File::options()
            .create(true)
            .append(true)
            .open(&path)
            .and_then(|mut file| file.write_all(&line))
            .map_err(|source| TrainError::io(&path, source))
    }

    /// Replaces a log by these lines; one without any is removed.
    pub(super) fn rewrite(&self, log: Log, records: &[impl Serialize]) -> Result<(), TrainError> {
        let path = self.log(log);
        if !records.is_empty() {
            return write_aside(&path, &lines(&path, records)?);
        }
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(TrainError::io(&path, error))
            }
            _ => Ok(()),
        }
    }

    /// The whole lines of a log.
    pub(super) fn read<T: DeserializeOwned>(&self, log: Log) -> Result<Vec<T>, TrainError> {
        read_log(&self.root, log)
    }

    /// Makes sure that what was appended survives a loss of power.
    pub(super) fn sync(&self) -> Result<(), TrainError> {
        for log in [Log::Metrics, Log::Timings, Log::Eval, Log::Alarms] {
            let path = self.log(log);
            match File::open(&path).and_then(|file| file.sync_all()) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(TrainError::io(&path, error));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Something in a folder that does not belong to a run which is about to begin. An empty folder is in nobody's way.
fn stranger(root: &Path) -> Result<Option<String>, TrainError> {
    let entries = std::fs::read_dir(root).map_err(|source| TrainError::io(root, source))?;
    let strange = |entry: &DirEntry| {
        let known = BEFOREHAND.iter().any(|name| entry.file_name() == *name)
            || data_note::is_note(&entry.path());
        let empty = std::fs::read_dir(entry.path()).is_ok_and(|mut inside| inside.next().is_none());
        !known && !empty
    };
    let found = entries.flatten().find(strange);
    Ok(found.map(|entry| entry.file_name().to_string_lossy().into_owned()))
}

/// The whole lines of a run folder's log; none where there is no such file yet. For readers that need no lock.
///
/// # Errors
/// [`TrainError::Line`] for a line that is not such a record, [`TrainError::Io`].
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

/// A file's bytes; none where there is no such file.
pub(super) fn content(path: &Path) -> Result<Vec<u8>, TrainError> {
    match std::fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        other => other.map_err(|source| TrainError::io(path, source)),
    }
}

/// The lines of a log but for one that was still being written.
pub(super) fn whole_lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split_inclusive(|byte| *byte == b'\n')
        .take_while(|line| line.ends_with(b"\n"))
}

/// JSON Lines for the file of this path.
pub(super) fn lines<T: Serialize>(
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

/// Writes a file aside, then renames it: whoever looks sees the old content or the new.
pub(super) fn write_aside(path: &Path, content: &[u8]) -> Result<(), TrainError> {
    let mut aside = path.as_os_str().to_owned();
    aside.push(".partial");
    let aside = PathBuf::from(aside);
    File::create(&aside)
        .and_then(|mut file| file.write_all(content).and_then(|()| file.sync_all()))
        .and_then(|()| std::fs::rename(&aside, path))
        .map_err(|source| {
            let _ = std::fs::remove_file(&aside);
            TrainError::io(path, source)
        })
}

fn make(folder: &Path) -> Result<(), TrainError> {
    std::fs::create_dir_all(folder).map_err(|source| TrainError::io(folder, source))
}
