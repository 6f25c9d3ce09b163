//! What a run folder holds, read for a report. A run that is still going, or was killed in the middle of a line, reads too.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use serde::de::DeserializeOwned;

use crate::config::Config;
use crate::eval::Record;
use crate::record::AlarmRecord;
use crate::record::{EvalRecord, ExtensionRecord, StepRecord, StepTimings};

/// One run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunData {
    /// The folder's name; beside a run of the same name, with the folders that it lies in, as far as they tell the two apart.
    pub name: String,
    /// The folder.
    pub folder: PathBuf,
    /// `config.toml` as it stands.
    pub config_text: String,
    /// The same, parsed; `None` where another version wrote it.
    pub config: Option<Config>,
    /// One an update.
    pub steps: Vec<StepRecord>,
    /// One an update.
    pub timings: Vec<StepTimings>,
    /// One an evaluation during training.
    pub evals: Vec<EvalRecord>,
    /// Each time that it was made longer.
    pub extensions: Vec<ExtensionRecord>,
    /// What the run warned of, and what was over.
    pub alarms: Vec<AlarmRecord>,
    /// Evaluated tasks that it was also trained on, as counted when it began; `None` where the folder has no provenance of this version.
    pub trained_on: Option<usize>,
    /// Of the evaluated tasks' content; `None` as above.
    pub eval_digest: Option<String>,
    /// The verifier's graders that judged last, with their versions and policies; empty as above.
    pub graders: Vec<String>,
    /// Samples of the evaluation's tasks at the first evaluation; empty where there was none.
    pub before: Vec<Record>,
    /// Samples of the same tasks at the last evaluation; empty where there was no second one.
    pub after: Vec<Record>,
    /// Training samples of the first phase that was recorded.
    pub first: Vec<Record>,
    /// Training samples of the last phase that was recorded.
    pub last: Vec<Record>,
}

/// Why a run cannot be reported on.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Not a run folder.
    #[error(
        "{0} is not a run folder: it has no config.toml; give a folder that `rapid train` or `rapid quickstart` made"
    )]
    NotARun(PathBuf),
    /// One run is given twice, maybe by two paths.
    #[error("{first} and {second} are the same run; give each run once")]
    Twice {
        /// As given first.
        first: String,
        /// As given again.
        second: String,
    },
    /// A file cannot be read.
    #[error("{path} cannot be read: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A line is not what the file should hold.
    #[error(
        "{path}, line {line} is not a record of this file ({reason}); the file was changed, or a different version of rapid wrote it"
    )]
    Record {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// What the parser said.
        reason: String,
    },
}

impl RunData {
    /// Reads a run folder.
    ///
    /// # Errors
    /// [`RunError`]; files that a young run does not have yet count as empty.
    pub fn read(folder: &Path) -> Result<Self, RunError> {
        let config_file = folder.join("config.toml");
        if !config_file.is_file() {
            return Err(RunError::NotARun(folder.to_owned()));
        }
        let config_text = fs::read_to_string(&config_file).map_err(|source| RunError::Io {
            path: config_file,
            source,
        })?;
        let samples = folder.join("samples");
        let phases = numbered(&samples, "phase-");
        let evaluations = numbered(&samples, "eval-");
        let of = |file: Option<&PathBuf>| file.map_or(Ok(Vec::new()), |file| lines(file));
        let evals: Vec<EvalRecord> = lines(&folder.join("eval.jsonl"))?;
        let first: Vec<Record> = of(phases.first())?;
        let last: Vec<Record> = of(phases.last().filter(|_| phases.len() > 1))?;
        Ok(Self {
            name: tail(&full(folder), 1),
            folder: folder.to_owned(),
            config: toml::from_str(&config_text).ok(),
            config_text,
            steps: lines(&folder.join("metrics.jsonl"))?,
            timings: lines(&folder.join("timings.jsonl"))?,
            eval_digest: crate::run::eval_digest(folder).ok().flatten(),
            graders: crate::run::graders(folder).unwrap_or_default(),
            trained_on: crate::run::trained_on(folder).ok().flatten(),
            evals,
            extensions: lines(&folder.join("extended.jsonl"))?,
            alarms: lines(&folder.join("alarms.jsonl"))?,
            before: of(evaluations.first())?,
            after: of(evaluations.last().filter(|_| evaluations.len() > 1))?,
            first,
            last,
        })
    }

    /// Reads the folders of runs that are shown side by side, and gives them names that differ.
    ///
    /// # Errors
    /// As [`RunData::read`]; [`RunError::Twice`].
    pub fn read_all(folders: &[PathBuf]) -> Result<Vec<Self>, RunError> {
        let places: Vec<PathBuf> = folders.iter().map(|folder| full(folder)).collect();
        for (at, place) in places.iter().enumerate() {
            if let Some(before) = places[..at].iter().position(|other| other == place) {
                return Err(RunError::Twice {
                    first: folders[before].display().to_string(),
                    second: folders[at].display().to_string(),
                });
            }
        }
        folders
            .iter()
            .zip(names(&places))
            .map(|(folder, name)| {
                Ok(Self {
                    name,
                    ..Self::read(folder)?
                })
            })
            .collect()
    }
}

fn full(folder: &Path) -> PathBuf {
    fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned())
}

/// Of each path the last parts, as few as no other of the paths ends in.
fn names(paths: &[PathBuf]) -> Vec<String> {
    let alone = |path: &Path, parts: usize| {
        let mut others = paths.iter().filter(|other| *other != path);
        others.all(|other| tail(other, parts) != tail(path, parts))
    };
    paths
        .iter()
        .map(|path| {
            let all = path.components().count();
            let parts = (1..all).find(|parts| alone(path, *parts)).unwrap_or(all);
            tail(path, parts)
        })
        .collect()
}

/// The last `parts` of a path.
fn tail(path: &Path, parts: usize) -> String {
    let all: Vec<Component<'_>> = path.components().collect();
    let last = &all[all.len().saturating_sub(parts)..];
    last.iter().collect::<PathBuf>().display().to_string()
}

/// `PREFIX<number>.jsonl` files of a folder in order of their numbers.
fn numbered(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let mut files: Vec<(u64, PathBuf)> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let path = entry.path();
            let number = path
                .file_name()?
                .to_str()?
                .strip_prefix(prefix)?
                .strip_suffix(".jsonl")?
                .parse()
                .ok()?;
            Some((number, path))
        })
        .collect();
    files.sort();
    files.into_iter().map(|(_, path)| path).collect()
}

/// The records of a JSON Lines file; none where there is no such file. A last line without its end was being written, and is left out.
fn lines<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>, RunError> {
    let text = match fs::read(path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => {
            return Err(RunError::Io {
                path: path.to_owned(),
                source,
            });
        }
    };
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(number, line)| {
            serde_json::from_str(line).map_err(|error| RunError::Record {
                path: path.to_owned(),
                line: number + 1,
                reason: error.to_string(),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_one_name_are_told_apart_by_where_they_lie() {
        let named = |paths: &[&str]| names(&paths.iter().map(PathBuf::from).collect::<Vec<_>>());
        assert_eq!(named(&["/o1/a", "/o2/a", "/o2/b"]), ["o1/a", "o2/a", "b"]);
        assert_eq!(
            named(&["/x/o/a", "/y/o/a", "/y/p/a"]),
            ["x/o/a", "y/o/a", "p/a"]
        );
        assert_eq!(named(&["/a", "/x/a"]), ["/a", "x/a"]);
        assert_eq!(named(&["/o/a"]), ["a"]);
    }
}
