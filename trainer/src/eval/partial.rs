//! An evaluation under way, on disk beside the file that it is to become: its completions, and what they were drawn of.
//!
//! `FILE.drawn.jsonl` has the completions, a line as each is drawn, and `FILE.drawn.json` says of which model, tasks, prompts and settings, so that only an
//! evaluation of the same goes on with them. Both go once FILE is there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use engine::text::Date;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::rollout::PartialRollout;

const VERSION: u32 = 1;

/// What completions are drawn of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Origin {
    /// The digest of the model's files.
    pub model: String,
    /// The digest of the tasks.
    pub tasks: String,
    /// The digest of the prompts, as text and as tokens.
    pub prompts: String,
    /// Everything else that decides a completion, by the option that sets it.
    pub settings: BTreeMap<String, Value>,
}

#[derive(Serialize, Deserialize)]
struct Content {
    version: u32,
    /// The day that chat templates wrote.
    day: String,
    #[serde(flatten)]
    origin: Origin,
}

/// An evaluation that nobody else writes.
#[derive(Debug)]
pub struct PartialEvaluation {
    note: PathBuf,
    drawn: PathBuf,
    file: File,
    begun: Option<(Option<Date>, Origin)>,
}

/// Why an evaluation does not begin.
#[derive(Debug, thiserror::Error)]
pub enum PartialEvaluationError {
    /// A file could not be written or read.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Another process is at it.
    #[error(
        "another process is evaluating into {0}; wait for it to end, or give another file with --out"
    )]
    Locked(PathBuf),
    /// The note cannot be read, and completions are there.
    #[error(
        "{note} is damaged ({reason}), so nothing is known of the completions in {drawn}; delete both to begin again, or give another file with --out"
    )]
    Damaged {
        /// The note.
        note: PathBuf,
        /// The completions.
        drawn: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The completions are those of another evaluation.
    #[error(
        "{drawn} holds {count} completions of an evaluation that was interrupted, with {what}: run that one again to go on with it; or delete {drawn} to begin this one, or give another file with --out"
    )]
    Other {
        /// The completions.
        drawn: PathBuf,
        /// How many.
        count: usize,
        /// What is different.
        what: String,
    },
}

/// A file beside another, with more to its name.
fn beside(out: &Path, suffix: &str) -> PathBuf {
    let mut name = out.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

impl PartialEvaluation {
    /// Where the evaluation stands that is to become `out`.
    ///
    /// # Errors
    /// [`PartialEvaluationError`].
    pub fn open(out: &Path) -> Result<Self, PartialEvaluationError> {
        let (note, drawn) = (beside(out, ".drawn.json"), beside(out, ".drawn.jsonl"));
        let io = |source| PartialEvaluationError::Io {
            path: note.clone(),
            source,
        };
        let mut file = loop {
            let file = File::options()
                .create(true)
                .truncate(false)
                .read(true)
                .write(true)
                .open(&note)
                .map_err(io)?;
            match file.try_lock() {
                // Whoever had it may have removed it since it was opened here.
                Ok(()) if is_at(&file, &note) => break file,
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    return Err(PartialEvaluationError::Locked(out.to_owned()));
                }
                Err(TryLockError::Error(source)) => return Err(io(source)),
            }
        };
        let mut text = String::new();
        let read = file.read_to_string(&mut text).map_err(io);
        // Without completions the note says nothing that matters, whatever a process left of it that was killed.
        let begun = if lines(&drawn) == 0 {
            None
        } else {
            let damaged = |reason: String| PartialEvaluationError::Damaged {
                note: note.clone(),
                drawn: drawn.clone(),
                reason,
            };
            read?;
            let content: Content =
                serde_json::from_str(&text).map_err(|error| damaged(error.to_string()))?;
            if content.version != VERSION {
                return Err(damaged(format!("it is of version {}", content.version)));
            }
            Some((content.day.parse().ok(), content.origin))
        };
        Ok(Self {
            note,
            drawn,
            file,
            begun,
        })
    }

    /// The day that the chat template wrote into prompts when the evaluation began.
    #[must_use]
    pub fn day(&self) -> Option<Date> {
        self.begun.as_ref().and_then(|(day, _)| *day)
    }

    /// Completions that are there already.
    #[must_use]
    pub fn drawn(&self) -> usize {
        lines(&self.drawn)
    }

    /// Goes on with what was drawn of the same, or begins.
    ///
    /// # Errors
    /// [`PartialEvaluationError::Other`], [`PartialEvaluationError::Io`].
    pub fn resume(
        &mut self,
        origin: &Origin,
        day: Date,
    ) -> Result<PartialRollout, PartialEvaluationError> {
        if let Some((_, begun)) = &self.begun
            && let Some(what) = difference(begun, origin)
        {
            return Err(PartialEvaluationError::Other {
                drawn: self.drawn.clone(),
                count: self.drawn(),
                what,
            });
        }
        let content = Content {
            version: VERSION,
            day: day.to_string(),
            origin: origin.clone(),
        };
        if self.begun.is_none() {
            let text = serde_json::to_vec(&content).map_err(io::Error::from);
            // It is on the disk before the first completion is.
            text.and_then(|text| {
                self.file.set_len(0)?;
                self.file.seek(SeekFrom::Start(0))?;
                self.file.write_all(&text)?;
                self.file.sync_all()
            })
            .map_err(|source| PartialEvaluationError::Io {
                path: self.note.clone(),
                source,
            })?;
        }
        PartialRollout::open(&self.drawn).map_err(|source| PartialEvaluationError::Io {
            path: self.drawn.clone(),
            source,
        })
    }

    /// Removes the note: `kept` is elsewhere now.
    pub fn finish(self, kept: PartialRollout) {
        kept.remove();
        // What stays is only in the way of disk space.
        let _ = std::fs::remove_file(&self.note);
    }

    /// Leaves nothing behind where nothing was drawn.
    pub fn leave(self) {
        if self.drawn() == 0 {
            let _ = std::fs::remove_file(&self.drawn);
            let _ = std::fs::remove_file(&self.note);
        }
    }
}

/// Whether a file that is open is the one of that name. Elsewhere than on Unix, a file that is open cannot be removed.
fn is_at(file: &File, path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        let place = |status: std::fs::Metadata| (status.dev(), status.ino());
        file.metadata().ok().map(place) == std::fs::metadata(path).ok().map(place)
    }
    #[cfg(not(unix))]
    {
        let _ = (file, path);
        true
    }
}

/// Whole lines of a file, which need not be there.
fn lines(path: &Path) -> usize {
    std::fs::read(path).map_or(0, |text| text.iter().filter(|byte| **byte == b'\n').count())
}

/// What is different, in words; `None` where nothing is.
fn difference(begun: &Origin, now: &Origin) -> Option<String> {
    let mut what = Vec::new();
    if begun.model != now.model {
        what.push("another model".to_owned());
    }
    if begun.tasks != now.tasks {
        what.push("other tasks (--dataset, --split, --limit)".to_owned());
    } else if begun.prompts != now.prompts {
        what.push("other prompts (--template, --chat)".to_owned());
    }
    let names: BTreeSet<&String> = begun.settings.keys().chain(now.settings.keys()).collect();
    for name in names {
        let (before, after) = (begun.settings.get(name), now.settings.get(name));
        if before != after {
            let before = before.map_or_else(|| "unset".to_owned(), Value::to_string);
            what.push(format!("{name} {before}"));
        }
    }
    (!what.is_empty()).then(|| what.join(", "))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use engine::text::today;
    use engine::{Completion, Finish};

    use super::*;

    fn origin() -> Origin {
        Origin {
            model: "m".into(),
            tasks: "t".into(),
            prompts: "p".into(),
            settings: [("-n".to_owned(), 4.into()), ("--seed".to_owned(), 1.into())].into(),
        }
    }

    /// Begins an evaluation of which one completion is drawn.
    fn begun(out: &Path) {
        let mut partial = PartialEvaluation::open(out).unwrap();
        let mut kept = partial.resume(&origin(), today()).unwrap();
        let completion = Completion {
            request: 0,
            sample: 0,
            tokens: vec![1],
            logp: vec![0.0],
            text: "a".into(),
            finish: Finish::Stop,
        };
        kept.add("a", 1, Duration::ZERO, &completion).unwrap();
    }

    #[test]
    fn an_evaluation_goes_on_with_its_own_completions_alone() {
        let home = tempfile::tempdir().unwrap();
        let out = home.path().join("s.jsonl");
        begun(&out);
        let said = |change: &dyn Fn(&mut Origin)| {
            let mut other = origin();
            change(&mut other);
            let mut partial = PartialEvaluation::open(&out).unwrap();
            let taken = partial.resume(&other, today());
            taken.unwrap_err().to_string()
        };
        for (change, says) in [
            (
                &(|o: &mut Origin| o.model = "n".into()) as &dyn Fn(&mut Origin),
                "with another model:",
            ),
            (&|o| o.tasks = "u".into(), "with other tasks (--dataset"),
            (
                &|o| o.prompts = "q".into(),
                "with other prompts (--template",
            ),
            (
                &|o| drop(o.settings.insert("-n".into(), 8.into())),
                "with -n 4:",
            ),
        ] {
            let said = said(change);
            assert!(
                said.contains(says)
                    && said.contains("s.jsonl.drawn.jsonl holds 1 completions")
                    && said.contains("give another file with --out"),
                "{said}"
            );
        }
        let mut partial = PartialEvaluation::open(&out).unwrap();
        assert_eq!((partial.day(), partial.drawn()), (Some(today()), 1));
        assert!(matches!(
            PartialEvaluation::open(&out),
            Err(PartialEvaluationError::Locked(_))
        ));
        let kept = partial.resume(&origin(), today()).unwrap();
        partial.finish(kept);
        assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_note_that_is_damaged_is_refused_only_where_completions_are_at_stake() {
        let home = tempfile::tempdir().unwrap();
        let out = home.path().join("s.jsonl");
        let note = home.path().join("s.jsonl.drawn.json");
        std::fs::write(&note, "{\"version\":").unwrap();
        begun(&out);
        std::fs::write(&note, "{\"version\":").unwrap();
        let said = PartialEvaluation::open(&out).unwrap_err().to_string();
        assert!(
            said.contains("is damaged") && said.contains("delete both"),
            "{said}"
        );
        std::fs::remove_file(home.path().join("s.jsonl.drawn.jsonl")).unwrap();
        PartialEvaluation::open(&out).unwrap().leave();
        assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
    }
}
