//! Completions on disk as they are drawn: a phase that is broken off does not draw them again.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use engine::{Completion, Finish};
use serde::{Deserialize, Serialize};

use super::RolloutError;

/// A file of completions, one a line. A policy, its task and its seed decide on a completion, so a file is for one policy and one way of drawing.
#[derive(Debug, Default)]
pub struct PartialRollout {
    /// `None` where nothing is kept.
    file: Option<(PathBuf, File)>,
    found: HashMap<(String, u64), Found>,
}

/// A completion that was drawn earlier.
#[derive(Debug)]
pub(super) struct Found {
    /// How long drawing had taken by then.
    pub(super) after: Duration,
    pub(super) tokens: Vec<u32>,
    pub(super) logp: Vec<f32>,
    pub(super) text: String,
    pub(super) finish: Finish,
}

#[derive(Serialize, Deserialize)]
struct Line<T, L, S> {
    task: S,
    seed: u64,
    /// Seconds of drawing until then.
    after: f64,
    tokens: T,
    logp: L,
    text: S,
    finish: Finish,
}

impl PartialRollout {
    /// Opens the file of a phase, which need not be there. A last line that was still being written is cut off, and so is all from the first line on that
    /// is no completion.
    ///
    /// # Errors
    /// What the system says.
    pub fn open(path: &Path) -> io::Result<Self> {
        let text = match std::fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            other => other?,
        };
        let mut found = HashMap::new();
        let mut whole = 0;
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            let Some((name, completion)) = read(line) else {
                break;
            };
            whole += line.len();
            found.insert(name, completion);
        }
        if whole < text.len() {
            let file = File::options().write(true).open(path)?;
            file.set_len(whole as u64)?;
        }
        let file = File::options().create(true).append(true).open(path)?;
        Ok(Self {
            file: Some((path.to_owned(), file)),
            found,
        })
    }

    /// Takes out what was drawn earlier.
    pub(super) fn take(&mut self, task: &str, seed: u64) -> Option<Found> {
        self.found.remove(&(task.to_owned(), seed))
    }

    /// Adds what was drawn now.
    pub(crate) fn add(
        &mut self,
        task: &str,
        seed: u64,
        after: Duration,
        completion: &Completion,
    ) -> Result<(), RolloutError> {
        let Some((path, file)) = &mut self.file else {
            return Ok(());
        };
        let line = Line {
            task,
            seed,
            after: after.as_secs_f64(),
            tokens: &completion.tokens,
            logp: &completion.logp,
            text: completion.text.as_str(),
            finish: completion.finish,
        };
        serde_json::to_vec(&line)
            .map_err(io::Error::from)
            .and_then(|mut line| {
                line.push(b'\n');
                file.write_all(&line)
            })
            .map_err(|source| RolloutError::Keep {
                path: path.clone(),
                source,
            })
    }

    /// Removes the file: what it held is elsewhere now.
    pub fn remove(self) {
        if let Some((path, _)) = self.file {
            // What stays is only in the way of disk space.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// A whole line, and of what it was drawn.
fn read(line: &[u8]) -> Option<((String, u64), Found)> {
    let line: Line<Vec<u32>, Vec<f32>, String> =
        serde_json::from_slice(line.strip_suffix(b"\n")?).ok()?;
    let found = Found {
        after: Duration::try_from_secs_f64(line.after).ok()?,
        tokens: line.tokens,
        logp: line.logp,
        text: line.text,
        finish: line.finish,
    };
    let one_each = !found.tokens.is_empty() && found.tokens.len() == found.logp.len();
    one_each.then_some(((line.task, line.seed), found))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completion(tokens: &[u32]) -> Completion {
        Completion {
            request: 0,
            sample: 0,
            tokens: tokens.to_vec(),
            logp: tokens.iter().map(|token| -0.1 * *token as f32).collect(),
            text: "é\n".to_owned(),
            finish: Finish::Length,
        }
    }

    #[test]
    fn what_was_drawn_comes_back_to_the_bit_and_once() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a.jsonl");
        let drawn = completion(&[7, 3]);
        let mut kept = PartialRollout::open(&path).unwrap();
        let after = Duration::from_millis(1500);
        kept.add("a", u64::MAX, after, &drawn).unwrap();
        kept.add("b", 1, after, &drawn).unwrap();
        assert!(kept.take("a", u64::MAX).is_none(), "it is drawn already");

        let mut kept = PartialRollout::open(&path).unwrap();
        let found = kept.take("a", u64::MAX).unwrap();
        assert_eq!((found.tokens, found.logp), (drawn.tokens, drawn.logp));
        assert_eq!((found.text, found.finish), (drawn.text, drawn.finish));
        assert_eq!(found.after, after);
        assert!(kept.take("a", u64::MAX).is_none() && kept.take("a", 1).is_none());
        assert!(kept.take("b", 1).is_some());
        kept.remove();
        assert!(!path.exists());
    }

    #[test]
    fn what_is_no_whole_completion_is_cut_off() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a.jsonl");
        let mut kept = PartialRollout::open(&path).unwrap();
        kept.add("a", 1, Duration::ZERO, &completion(&[7])).unwrap();
        let whole = std::fs::read(&path).unwrap();
        let text = String::from_utf8(whole.clone()).unwrap();
        for tail in [
            text.trim_end().to_owned(),
            "\n".to_owned(),
            text.replace("[7]", "[]"),
            text.replace("[7]", "[7,8]"),
            text.replace("0.0", "-1"),
        ] {
            std::fs::write(&path, [whole.as_slice(), tail.as_bytes(), &whole].concat()).unwrap();
            let mut kept = PartialRollout::open(&path).unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), whole, "{tail}");
            kept.add("b", 1, Duration::ZERO, &completion(&[7, 8]))
                .unwrap();
            let mut kept = PartialRollout::open(&path).unwrap();
            assert!(kept.take("a", 1).is_some() && kept.take("b", 1).is_some());
        }
    }

    #[test]
    fn where_nothing_is_kept_nothing_is_found() {
        let mut kept = PartialRollout::default();
        kept.add("a", 1, Duration::ZERO, &completion(&[7])).unwrap();
        assert!(kept.take("a", 1).is_none());
        kept.remove();
    }
}
