//! Stores an evaluation under way beside FILE, its output: its completions, and their origin.
//!
//! `FILE.drawn.jsonl` has the completions, one line when each is sampled. `FILE.drawn.json` has their origin: the model, the tasks, the prompts and the settings. Only an
//! evaluation with the same origin continues with them. Both files are removed once FILE exists.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use engine::text::Date;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::rollout::PartialRollout;

const VERSION: u32 = 1;

/// Everything that determines the completions of an evaluation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Origin {
    /// The digest of the model's files.
    pub model: String,
    /// The digest of the tasks.
    pub tasks: String,
    /// The digest of the prompts, as text and as tokens.
    pub prompts: String,
    /// Everything else that determines a completion, by the option that sets it.
    pub settings: BTreeMap<String, Value>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Content {
    version: u32,
    /// The date that chat templates wrote into prompts.
    day: String,
    #[serde(flatten)]
    origin: Origin,
}

/// An evaluation under way, locked for this process.
#[derive(Debug)]
pub struct PartialEvaluation {
    origin_path: PathBuf,
    completions_path: PathBuf,
    /// The open and locked `FILE.drawn.json`.
    origin_file: File,
    /// The interrupted evaluation, if it has completions.
    previous: Option<Content>,
}

/// Why an evaluation cannot begin or continue.
#[derive(Debug, thiserror::Error)]
pub enum PartialEvaluationError {
    /// A file could not be written or read, another process writes the same evaluation, or it is not known what the existing completions are of.
    #[error("{0}")]
    Refused(String),
    /// The completions are those of another evaluation.
    #[error("{0}, or give another file with --out")]
    Other(String),
}

impl PartialEvaluation {
    /// Opens and locks the evaluation with the output `out`.
    pub fn open(out: &Path) -> Result<Self, PartialEvaluationError> {
        let origin_path = out.with_added_extension("drawn.json");
        let completions_path = out.with_added_extension("drawn.jsonl");
        let failed = at(&origin_path);
        let mut options = File::options();
        options.create(true).truncate(false).read(true).write(true);
        let mut origin_file = loop {
            let file = options.open(&origin_path).map_err(&failed)?;
            match file.try_lock() {
                // The process that held the lock may have removed the file since it was opened here.
                Ok(()) if is_at(&file, &origin_path) => break file,
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    return Err(PartialEvaluationError::Refused(format!(
                        "another process is evaluating into {}; wait for it to end, or give another file with --out",
                        out.display()
                    )));
                }
                Err(TryLockError::Error(source)) => return Err(failed(source)),
            }
        };
        let mut text = Vec::new();
        origin_file.read_to_end(&mut text).map_err(&failed)?;
        // Without completions the origin does not matter, even if a killed process left it damaged.
        let previous = if lines(&completions_path) == 0 {
            None
        } else {
            let content = serde_json::from_slice(&text).map_err(|error| error.to_string());
            let content = content.and_then(|content: Content| match content.version {
                VERSION => Ok(content),
                other => Err(format!("it is of version {other}")),
            });
            let damaged = |reason: String| {
                PartialEvaluationError::Refused(format!(
                    "{} is damaged ({reason}), so the origin of the completions in {} is not known; delete both files to begin again, or give another file with --out",
                    origin_path.display(),
                    completions_path.display()
                ))
            };
            Some(content.map_err(damaged)?)
        };
        Ok(Self {
            origin_path,
            completions_path,
            origin_file,
            previous,
        })
    }

    /// The date that the chat template wrote into prompts when the evaluation began; `None` if there are no completions.
    pub fn day(&self) -> Option<Date> {
        self.previous.as_ref()?.day.parse().ok()
    }

    /// The number of stored completions.
    pub fn completions(&self) -> usize {
        lines(&self.completions_path)
    }

    /// Continues with stored completions of the same origin, or begins if there are none.
    pub fn resume(
        &mut self,
        origin: &Origin,
        day: Date,
    ) -> Result<PartialRollout, PartialEvaluationError> {
        if let Some(previous) = &self.previous
            && let Some(difference) = difference(&previous.origin, origin)
        {
            return Err(PartialEvaluationError::Other(format!(
                "{0} holds {1} completions of an interrupted evaluation with {difference}: run that evaluation again to continue it, delete {0} to begin this one",
                self.completions_path.display(),
                self.completions()
            )));
        }
        if self.previous.is_none() {
            let content = Content {
                version: VERSION,
                day: day.to_string(),
                origin: origin.clone(),
            };
            // The origin is on the disk before the first completion.
            serde_json::to_vec(&content)
                .map_err(io::Error::from)
                .and_then(|text| {
                    self.origin_file.set_len(0)?;
                    self.origin_file.seek(SeekFrom::Start(0))?;
                    self.origin_file.write_all(&text)?;
                    self.origin_file.sync_all()
                })
                .map_err(at(&self.origin_path))?;
        }
        PartialRollout::open(&self.completions_path).map_err(at(&self.completions_path))
    }

    /// Removes both files, once the completions of `partial` are in the output.
    pub fn finish(self, partial: PartialRollout) {
        partial.remove();
        // A file that cannot be removed only takes disk space.
        let _ = std::fs::remove_file(&self.origin_path);
    }

    /// Removes both files if there are no completions.
    pub fn remove_if_empty(self) {
        if self.completions() == 0 {
            let _ = std::fs::remove_file(&self.completions_path);
            let _ = std::fs::remove_file(&self.origin_path);
        }
    }
}

/// The error for a file that could not be written or read.
fn at(path: &Path) -> impl Fn(io::Error) -> PartialEvaluationError + use<> {
    let path = path.display().to_string();
    move |error| PartialEvaluationError::Refused(format!("{path}: {error}"))
}

/// Whether an open file is still the file at the path.
fn is_at(file: &File, path: &Path) -> bool {
    let inode = |status: std::fs::Metadata| (status.dev(), status.ino());
    file.metadata().ok().map(inode) == std::fs::metadata(path).ok().map(inode)
}

/// The number of whole lines of a file; 0 if it does not exist.
fn lines(path: &Path) -> usize {
    std::fs::read(path).map_or(0, |text| text.iter().filter(|byte| **byte == b'\n').count())
}

/// How the previous origin differs from this one, in words; `None` if they are equal.
fn difference(previous: &Origin, now: &Origin) -> Option<String> {
    let mut parts = Vec::new();
    if previous.model != now.model {
        parts.push("another model".to_owned());
    }
    if previous.tasks != now.tasks {
        parts.push("other tasks (--dataset, --split, --limit)".to_owned());
    } else if previous.prompts != now.prompts {
        parts.push("other prompts (--template, --chat)".to_owned());
    }
    let names = previous.settings.keys().chain(now.settings.keys());
    for name in BTreeSet::from_iter(names) {
        let (before, after) = (previous.settings.get(name), now.settings.get(name));
        if before != after {
            let before = before.map_or_else(|| "unset".to_owned(), Value::to_string);
            parts.push(format!("{name} {before}"));
        }
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use engine::text::today;

    use super::*;
    use crate::fakes;

    fn origin() -> Origin {
        Origin {
            model: "m".into(),
            tasks: "t".into(),
            prompts: "p".into(),
            settings: [("-n".to_owned(), 4.into()), ("--seed".to_owned(), 1.into())].into(),
        }
    }

    /// An interrupted evaluation with one completion.
    fn begin(out: &Path) {
        let mut evaluation = PartialEvaluation::open(out).unwrap();
        let mut partial = evaluation.resume(&origin(), today()).unwrap();
        let sample = fakes::sample("a", 0.0);
        partial.add("a", 1, Duration::ZERO, &sample).unwrap();
    }

    #[test]
    fn an_evaluation_continues_only_with_its_own_completions() {
        let home = tempfile::tempdir().unwrap();
        let out = home.path().join("s.jsonl");
        begin(&out);
        let changed = |change: &dyn Fn(&mut Origin)| {
            let mut origin = origin();
            change(&mut origin);
            origin
        };
        for (other, expected) in [
            (changed(&|o| o.model = "n".into()), "another model:"),
            (changed(&|o| o.tasks = "u".into()), "other tasks (--dataset"),
            (changed(&|o| o.prompts = "q".into()), "other prompts"),
            (changed(&|o| _ = o.settings.remove("-n")), "-n 4:"),
        ] {
            let mut evaluation = PartialEvaluation::open(&out).unwrap();
            let error = evaluation.resume(&other, today()).unwrap_err().to_string();
            let start = "s.jsonl.drawn.jsonl holds 1 completions of an interrupted evaluation with";
            assert!(error.contains(&format!("{start} {expected}")), "{error}");
        }
        let mut evaluation = PartialEvaluation::open(&out).unwrap();
        let found = (evaluation.day(), evaluation.completions());
        assert_eq!(found, (Some(today()), 1));
        let error = PartialEvaluation::open(&out).unwrap_err().to_string();
        assert!(error.starts_with("another process is evaluating into"));
        let partial = evaluation.resume(&origin(), today()).unwrap();
        evaluation.finish(partial);
        assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_damaged_origin_is_refused_only_if_there_are_completions() {
        let home = tempfile::tempdir().unwrap();
        let out = home.path().join("s.jsonl");
        let origin_path = home.path().join("s.jsonl.drawn.json");
        std::fs::write(&origin_path, "{\"version\":").unwrap();
        begin(&out);
        std::fs::write(&origin_path, "{\"version\":").unwrap();
        let error = PartialEvaluation::open(&out).unwrap_err().to_string();
        let words = ["is damaged", "delete both"];
        assert!(words.iter().all(|it| error.contains(it)), "{error}");
        std::fs::remove_file(home.path().join("s.jsonl.drawn.jsonl")).unwrap();
        PartialEvaluation::open(&out).unwrap().remove_if_empty();
        assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
    }
}
