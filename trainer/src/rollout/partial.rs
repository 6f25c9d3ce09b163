//! Saves completions as they are sampled, so that an interrupted phase does not sample them again.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{RolloutError, Sample};
use crate::missing_file::default_if_missing;

/// A file of completions, one per line. Task and seed identify a completion, so a file is for one policy with one set of sampling parameters.
#[derive(Debug, Default)]
pub struct PartialRollout {
    /// `None` if completions are not saved.
    file: Option<(PathBuf, File)>,
    /// The completions of an earlier process, by task id and seed, each with the time that sampling had taken by then.
    stored: HashMap<(String, u64), (Duration, Sample)>,
}

/// A line of the file: a sample, and which it is.
#[derive(Serialize, Deserialize)]
struct Line<'a> {
    task: Cow<'a, str>,
    seed: u64,
    /// Seconds that sampling had taken by then.
    after: f64,
    /// It is read by itself: of a flattened field, serde would read each log-probability as an `f64`, and round it a second time.
    #[serde(flatten, skip_deserializing)]
    sample: Option<&'a Sample>,
}

impl PartialRollout {
    /// Opens the file of a phase, or creates it. The file is truncated before its first line that is incomplete or not a completion.
    pub fn open(path: &Path) -> io::Result<Self> {
        let text = default_if_missing(std::fs::read(path))?;
        let mut stored = HashMap::new();
        let mut whole = 0;
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            let Some((key, sample)) = read(line) else {
                break;
            };
            whole += line.len();
            stored.insert(key, sample);
        }
        if whole < text.len() {
            let file = File::options().write(true).open(path)?;
            file.set_len(whole as u64)?;
        }
        let file = File::options().create(true).append(true).open(path)?;
        Ok(Self {
            file: Some((path.to_owned(), file)),
            stored,
        })
    }

    /// Removes and returns an earlier process's completion of a task and seed, after the time that sampling had taken by then.
    pub(super) fn take(&mut self, task: &str, seed: u64) -> Option<(Duration, Sample)> {
        self.stored.remove(&(task.to_owned(), seed))
    }

    /// Appends a completion to the file.
    pub(crate) fn add(
        &mut self,
        task: &str,
        seed: u64,
        after: Duration,
        sample: &Sample,
    ) -> Result<(), RolloutError> {
        let Some((path, file)) = &mut self.file else {
            return Ok(());
        };
        let line = Line {
            task: task.into(),
            seed,
            after: after.as_secs_f64(),
            sample: Some(sample),
        };
        serde_json::to_vec(&line)
            .map_err(io::Error::from)
            .and_then(|mut line| {
                line.push(b'\n');
                file.write_all(&line)
            })
            .map_err(|source| RolloutError::Save {
                path: path.clone(),
                source,
            })
    }

    /// Removes the file, once its completions are stored elsewhere.
    pub fn remove(self) {
        if let Some((path, _)) = self.file {
            // A file that cannot be removed only takes disk space.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// The task, the seed, the time and the sample of a line; `None` if the line is incomplete or damaged.
fn read(line: &[u8]) -> Option<((String, u64), (Duration, Sample))> {
    let line = line.strip_suffix(b"\n")?;
    let sample: Sample = serde_json::from_slice(line).ok()?;
    let line: Line<'_> = serde_json::from_slice(line).ok()?;
    let one_each = !sample.tokens.is_empty() && sample.tokens.len() == sample.logp.len();
    let after = Duration::try_from_secs_f64(line.after).ok()?;
    one_each.then(|| ((line.task.into_owned(), line.seed), (after, sample)))
}

#[cfg(test)]
mod tests {
    use engine::{Completion, Finish};

    use super::*;

    fn sample(tokens: &[u32]) -> Sample {
        Sample::unjudged(Completion {
            request: 0,
            sample: 0,
            tokens: tokens.to_vec(),
            logp: tokens.iter().map(|token| -0.1 * *token as f32).collect(),
            text: "é\n".to_owned(),
            finish: Finish::Length,
        })
    }

    #[test]
    fn saved_completions_are_read_to_the_bit_and_taken_once() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a.jsonl");
        let saved = sample(&[7, 3]);
        let mut partial = PartialRollout::open(&path).unwrap();
        let after = Duration::from_millis(1500);
        partial.add("a", u64::MAX, after, &saved).unwrap();
        assert!(partial.take("a", u64::MAX).is_none());
        let line = r#"{"task":"a","seed":18446744073709551615,"after":1.5,"tokens":[7,3],"logp":[-0.7,-0.3],"text":"é\n","finish":"length"}"#;
        assert_eq!(std::fs::read_to_string(&path).unwrap().trim(), line);

        let mut partial = PartialRollout::open(&path).unwrap();
        assert_eq!(partial.take("a", u64::MAX), Some((after, saved)));
        assert!(partial.take("a", u64::MAX).is_none() && partial.take("a", 1).is_none());
        partial.remove();
        assert!(!path.exists());
    }

    #[test]
    fn the_file_is_truncated_before_the_first_damaged_line() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a.jsonl");
        let add = |task: &str, tokens: &[u32]| {
            let mut partial = PartialRollout::open(&path).unwrap();
            let saved = sample(tokens);
            partial.add(task, 1, Duration::ZERO, &saved).unwrap();
        };
        add("a", &[7]);
        let whole = std::fs::read_to_string(&path).unwrap();
        for tail in [
            whole.trim_end().to_owned(),
            "\n".to_owned(),
            whole.replace("[7]", "[]"),
            whole.replace("[7]", "[7,8]"),
            whole.replace("0.0", "-1"),
        ] {
            std::fs::write(&path, [&whole, &*tail, &whole].concat()).unwrap();
            drop(PartialRollout::open(&path).unwrap());
            assert_eq!(std::fs::read_to_string(&path).unwrap(), whole, "{tail}");
            add("b", &[7, 8]);
            let mut partial = PartialRollout::open(&path).unwrap();
            assert!(partial.take("a", 1).is_some() && partial.take("b", 1).is_some());
        }
    }
}
