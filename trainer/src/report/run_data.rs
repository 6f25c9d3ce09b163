//! The contents of a run folder, read for a report. The run may still be going, or may have been killed while it wrote a line.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use serde::de::DeserializeOwned;

use crate::config::Config;
use crate::missing_file::default_if_missing;
use crate::record::{
    AlarmRecord, ClockRecord, EvalRecord, ExtensionRecord, RunTimes, SampleRecord, StepRecord,
    StepTimings, TokenWeights,
};
use crate::run::Provenance;

/// The data of one run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RunData {
    /// The folder's name; beside a run of the same name, with as many parent folders as distinguish the two.
    pub name: String,
    /// The folder.
    pub folder: PathBuf,
    /// The text of `config.toml`, without a token in the verifier's address, which older versions accepted there.
    pub config_text: String,
    /// The parsed configuration; `None` if another version wrote it.
    pub config: Option<Config>,
    /// One record for each update.
    pub steps: Vec<StepRecord>,
    /// The times of each update.
    pub timings: Vec<StepTimings>,
    /// What each process of the run spent its time on; empty in the folder of a version without a clock.
    pub clock: Vec<ClockRecord>,
    /// Token-level importance weights of a completion of each phase.
    pub weights: Vec<TokenWeights>,
    /// One record for each evaluation during training.
    pub evals: Vec<EvalRecord>,
    /// One record for each extension of the run.
    pub extensions: Vec<ExtensionRecord>,
    /// The alarms that were raised and cleared.
    pub alarms: Vec<AlarmRecord>,
    /// Number of evaluated tasks that the run was also trained on, as counted when it began; `None` if the folder has no provenance of this version.
    pub trained_on: Option<usize>,
    /// Digest of the evaluated tasks' content; `None` if the folder has no provenance of this version.
    pub eval_digest: Option<String>,
    /// The verifier's graders that judged last, with their versions and policies; empty if the folder has no provenance of this version.
    pub graders: Vec<String>,
    /// Samples of the evaluation's tasks at the first evaluation; empty without an evaluation.
    pub before: Vec<SampleRecord>,
    /// Samples of the same tasks at the last evaluation; empty without a second evaluation.
    pub after: Vec<SampleRecord>,
    /// Training samples of the first recorded phase.
    pub first: Vec<SampleRecord>,
    /// Training samples of the last recorded phase; empty without a second one.
    pub last: Vec<SampleRecord>,
}

fn without_token(config_text: String) -> String {
    let mut settings: toml::Table = toml::from_str(&config_text).unwrap_or_default();
    let verifier = settings.get_mut("verifier");
    if let Some(toml::Value::String(url)) = verifier.and_then(|it| it.get_mut("url")) {
        let shown = verifier_api::without_secrets(url);
        if shown != *url {
            *url = shown;
            return settings.to_string();
        }
    }
    config_text
}

/// Why a run cannot be reported on.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A folder that was given is not a run's, or two are the same run's.
    #[error("{0}")]
    Given(String),
    /// A file cannot be read, or a line of it is not a record.
    #[error("{0}")]
    File(String),
}

fn unreadable(path: &Path, error: &io::Error) -> RunError {
    RunError::File(format!("{} cannot be read: {error}", path.display()))
}

impl RunData {
    /// Reads a run folder. Files that a young run does not have yet count as empty.
    ///
    /// # Errors
    /// [`RunError::Given`] if it is not a run's folder, [`RunError::File`] if a file cannot be read or a line of it is not a record.
    pub fn read(folder: &Path) -> Result<Self, RunError> {
        // The first file and the last, if it is another one.
        let ends = |prefix: &str| -> Result<[Vec<SampleRecord>; 2], RunError> {
            Ok(match &numbered(&folder.join("samples"), prefix)[..] {
                [] => [Vec::new(), Vec::new()],
                [only] => [lines(only)?, Vec::new()],
                [first, .., last] => [lines(first)?, lines(last)?],
            })
        };
        let mut run = Self::read_without_samples(folder)?;
        [run.before, run.after] = ends("eval-")?;
        [run.first, run.last] = ends("phase-")?;
        Ok(run)
    }

    /// Reads a run folder, but not its samples, which are most of it.
    pub fn read_without_samples(folder: &Path) -> Result<Self, RunError> {
        let config_file = folder.join("config.toml");
        if !config_file.is_file() {
            return Err(RunError::Given(format!(
                "{} is not a run folder: it has no config.toml; give a folder that `rapid train`, `rapid quickstart` or `rapid sweep` made",
                folder.display()
            )));
        }
        let config_text = fs::read_to_string(&config_file);
        let config_text = config_text.map_err(|error| unreadable(&config_file, &error))?;
        let config_text = without_token(config_text);
        let provenance = Provenance::of_run(folder).ok().flatten();
        Ok(Self {
            name: tail(&canonical(folder), 1),
            folder: folder.to_owned(),
            config: toml::from_str(&config_text).ok(),
            config_text,
            steps: lines(&folder.join("metrics.jsonl"))?,
            timings: lines(&folder.join("timings.jsonl"))?,
            clock: lines(&folder.join("clock.jsonl"))?,
            weights: lines(&folder.join("weights.jsonl"))?,
            graders: provenance
                .as_ref()
                .map_or_else(Vec::new, Provenance::graders),
            trained_on: provenance.as_ref().map(|run| run.trained_on),
            eval_digest: provenance.map(|run| run.eval_digest),
            evals: lines(&folder.join("eval.jsonl"))?,
            extensions: lines(&folder.join("extended.jsonl"))?,
            alarms: lines(&folder.join("alarms.jsonl"))?,
            ..Self::default()
        })
    }

    /// The time of the run by activity, over all its processes.
    pub fn times(&self) -> RunTimes {
        RunTimes::of(&self.clock, &self.timings)
    }

    /// Reads the folders of runs that are shown side by side, and gives the runs different names.
    ///
    /// # Errors
    /// As [`RunData::read`]; [`RunError::Given`] also if a run is given twice.
    pub fn read_all(folders: &[PathBuf]) -> Result<Vec<Self>, RunError> {
        let paths: Vec<PathBuf> = folders.iter().map(|folder| canonical(folder)).collect();
        for (index, path) in paths.iter().enumerate() {
            if let Some(first) = paths[..index].iter().position(|other| other == path) {
                return Err(RunError::Given(format!(
                    "{} and {} are the same run; give each run once",
                    folders[first].display(),
                    folders[index].display()
                )));
            }
        }
        let named = folders.iter().zip(distinct_names(&paths));
        named
            .map(|(folder, name)| Self::read(folder).map(|run| Self { name, ..run }))
            .collect()
    }
}

fn canonical(folder: &Path) -> PathBuf {
    fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned())
}

/// A distinct name for each path: its last components, as few as no other path ends with.
pub fn distinct_names(paths: &[PathBuf]) -> Vec<String> {
    let is_distinct = |path: &Path, parts: usize| {
        let mut others = paths.iter().filter(|other| *other != path);
        others.all(|other| tail(other, parts) != tail(path, parts))
    };
    let name = |path: &PathBuf| {
        let all = path.components().count();
        let mut parts = (1..all).filter(|parts| is_distinct(path, *parts));
        tail(path, parts.next().unwrap_or(all))
    };
    paths.iter().map(name).collect()
}

/// The last `parts` components of a path.
fn tail(path: &Path, parts: usize) -> String {
    let all: Vec<Component<'_>> = path.components().collect();
    let last = &all[all.len().saturating_sub(parts)..];
    last.iter().collect::<PathBuf>().display().to_string()
}

/// The `PREFIX<number>.jsonl` files of a folder in the order of their numbers.
fn numbered(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let number = |path: PathBuf| -> Option<(u64, PathBuf)> {
        let name = path.file_name()?.to_str()?.strip_prefix(prefix)?;
        Some((name.strip_suffix(".jsonl")?.parse().ok()?, path))
    };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let files = entries.filter_map(|entry| number(entry.path()));
    let files: BTreeMap<u64, PathBuf> = files.collect();
    files.into_values().collect()
}

/// The records of a JSON Lines file; empty if the file does not exist. A last line without a line break is incomplete and is left out.
fn lines<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>, RunError> {
    let text = default_if_missing(fs::read(path)).map_err(|error| unreadable(path, &error))?;
    let text = String::from_utf8_lossy(&text);
    let complete = text.rfind('\n').map_or("", |end| &text[..end]);
    let lines = (1..).zip(complete.lines());
    let lines = lines.filter(|(_, line)| !line.trim().is_empty());
    let records = lines.map(|(number, line)| {
        serde_json::from_str(line).map_err(|error| {
            RunError::File(format!(
                "{}, line {number} is not a record of this file ({error}); the file was changed, or a different version of rapid wrote it",
                path.display()
            ))
        })
    });
    records.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_the_same_name_are_distinguished_by_their_folders() {
        for (paths, names) in [
            ("/o1/a /o2/a /o2/b", "o1/a o2/a b"),
            ("/x/o/a /y/o/a /y/p/a", "x/o/a y/o/a p/a"),
            ("/a /x/a", "/a x/a"),
            ("/o/a", "a"),
        ] {
            let paths: Vec<PathBuf> = paths.split(' ').map(PathBuf::from).collect();
            assert_eq!(distinct_names(&paths).join(" "), names);
        }
    }
}
