//! The file of judgements: one line for each sample, in the samples' order, written as they come. An interrupted run continues at the end of its file.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, BufWriter, Read as _, Write as _};
use std::path::{Path, PathBuf};

use datasets::jsonl::MAX_LINE;
use serde_json::{Value as Json, json};
use verifier_api::Judgement;

use super::Sample;

/// The beginning of every line.
const LINE_START: &[u8] = b"{\"cached\":";

/// Why judgements cannot be written to a file.
#[derive(Debug, thiserror::Error)]
pub enum ResultsError {
    /// The file cannot be read or written.
    #[error(
        "{path} cannot be read or written; check that the disk has room. The judgements in the file stay, and the same command continues it"
    )]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file cannot be opened, has other content, or is being written by another process.
    #[error("{path} {reason}; {remedy}")]
    Misnamed {
        /// The file.
        path: PathBuf,
        /// Why judgements cannot be written to it.
        reason: String,
        /// What to do.
        remedy: &'static str,
    },
    /// The grader cannot judge, so stored judgements may not be comparable with new ones.
    #[error("the samples cannot be judged: {0}")]
    Unavailable(String),
}

impl ResultsError {
    fn io(path: &Path, source: io::Error) -> ResultsError {
        let path = path.to_owned();
        ResultsError::Io { path, source }
    }

    /// The error for an existing file with other content, as `reason` says.
    fn other(path: &Path, reason: &str) -> ResultsError {
        ResultsError::Misnamed {
            path: path.to_owned(),
            reason: format!("exists already and {reason}"),
            remedy: "name another file with --out, or delete this one to start again",
        }
    }
}

/// The file that judgements are written to.
pub struct Results {
    path: PathBuf,
    file: File,
    /// The end of the complete lines, while an incomplete line follows them.
    incomplete_from: Option<u64>,
    /// Number of lines in the file.
    written: usize,
    /// New lines that are to replace lines in the file.
    replaced: BTreeMap<usize, String>,
}

impl Results {
    /// Opens `path`, and returns its judgements. They must be those of the first of `samples`. The next judgement overwrites an incomplete line at the end.
    ///
    /// # Errors
    /// [`ResultsError`]; [`ResultsError::Misnamed`] if a line is not a judgement, or is of another sample.
    pub fn open(
        path: &Path,
        samples: &[Sample],
    ) -> Result<(Results, Vec<Judgement>), ResultsError> {
        let io = |source| ResultsError::io(path, source);
        let opened = OpenOptions::new()
            .create(true)
            .read(true)
            .append(true)
            .open(path);
        let file = opened.map_err(|error| ResultsError::Misnamed {
            path: path.to_owned(),
            reason: format!("cannot be written ({error})"),
            remedy: "check that its folder exists, or name another file with --out",
        })?;
        if !file.metadata().map_err(io)?.is_file() {
            return Err(ResultsError::other(path, "is not a regular file"));
        }
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(ResultsError::Misnamed {
                    path: path.to_owned(),
                    reason: "is being written by another process".to_owned(),
                    remedy: "wait for its end, or name another file with --out",
                });
            }
            // Not every file system has locks.
            Err(TryLockError::Error(error)) => tracing::debug!("{}: {error}", path.display()),
        }
        let mut stored = Vec::new();
        let (mut complete, mut incomplete_from) = (0, None);
        let mut reader = BufReader::new(&file);
        let mut line = Vec::new();
        loop {
            line.clear();
            let max_length = MAX_LINE as u64 * 2;
            let read = reader
                .by_ref()
                .take(max_length)
                .read_until(b'\n', &mut line);
            let length = read.map_err(io)?;
            if length == 0 {
                break;
            }
            if !line.ends_with(b"\n") && (length as u64) < max_length {
                let is_judgement = line.starts_with(LINE_START) || LINE_START.starts_with(&line);
                if !is_judgement {
                    let reason = "ends in a line that is not a judgement";
                    return Err(ResultsError::other(path, reason));
                }
                tracing::info!(
                    "{}: its last line is incomplete, and is written again",
                    path.display()
                );
                incomplete_from = Some(complete);
                break;
            }
            let judgement = parse_line(&line, stored.len(), samples);
            stored.push(judgement.map_err(|reason| ResultsError::other(path, &reason))?);
            complete += length as u64;
        }
        let results = Results {
            path: path.to_owned(),
            file,
            incomplete_from,
            written: stored.len(),
            replaced: BTreeMap::new(),
        };
        Ok((results, stored))
    }

    /// Writes the judgement of the sample with this index. The sample is the first one without a line, or has a line that [`Results::finish`] is to replace. A new line
    /// goes to the file at once, not to a buffer of this process.
    ///
    /// # Errors
    /// [`ResultsError::Io`].
    pub fn put(
        &mut self,
        index: usize,
        sample: &Sample,
        judgement: &Judgement,
    ) -> Result<(), ResultsError> {
        let line = line_of(sample, judgement);
        if let Some(complete) = self.incomplete_from.take() {
            let cut = self.file.set_len(complete);
            cut.map_err(|source| ResultsError::io(&self.path, source))?;
        }
        if index < self.written {
            self.replaced.insert(index, line);
            return Ok(());
        }
        let written = self.file.write_all(line.as_bytes());
        written.map_err(|source| ResultsError::io(&self.path, source))?;
        self.written += 1;
        Ok(())
    }

    /// Waits until all lines, including replacements, are on disk.
    ///
    /// # Errors
    /// [`ResultsError::Io`].
    pub fn finish(self) -> Result<(), ResultsError> {
        let done = if self.replaced.is_empty() {
            self.file.sync_all()
        } else {
            self.rewrite()
        };
        done.map_err(|source| ResultsError::io(&self.path, source))
    }

    /// Writes the file again under another name, with the replaced lines, and renames it. A symbolic link to the file, and its mode, stay.
    fn rewrite(&self) -> io::Result<()> {
        let path = self.path.canonicalize()?;
        let folder = path.parent().unwrap_or(Path::new("."));
        let temporary = tempfile::NamedTempFile::new_in(folder)?;
        temporary
            .as_file()
            .set_permissions(self.file.metadata()?.permissions())?;
        let mut out = BufWriter::new(temporary);
        let lines = BufReader::new(File::open(&self.path)?).split(b'\n');
        for (index, line) in lines.enumerate() {
            match self.replaced.get(&index) {
                Some(line) => out.write_all(line.as_bytes())?,
                None => {
                    out.write_all(&line?)?;
                    out.write_all(b"\n")?;
                }
            }
        }
        let temporary = out.into_inner()?;
        temporary.as_file().sync_all()?;
        temporary.persist(&path)?;
        Ok(())
    }

    /// The error for a file with judgements of these samples under other keys.
    pub fn judged_differently(&self, index: usize, task: &str) -> ResultsError {
        let reason = format!(
            "its judgements were made differently (line {}, `{task}`, has another key): with another version of the grader, other settings or limits, or another task with that name",
            index + 1
        );
        ResultsError::other(&self.path, &reason)
    }
}

/// Parses the judgement in a line. It must be of the sample with the same index.
fn parse_line(line: &[u8], index: usize, samples: &[Sample]) -> Result<Judgement, String> {
    let number = index + 1;
    let json: Json = serde_json::from_slice(line)
        .map_err(|_| format!("its line {number} is not a judgement"))?;
    let judgement: Judgement = serde_json::from_value(json.clone())
        .map_err(|error| format!("its line {number} is not a judgement ({error})"))?;
    let Some(sample) = samples.get(index) else {
        return Err(format!(
            "holds more judgements than there are samples ({})",
            samples.len()
        ));
    };
    let text = json[text_field(sample)].as_str();
    if json["task"] != sample.task || text != Some(&sample.completion) {
        return Err(format!(
            "holds judgements of other samples (line {number} is of `{}`, sample {number} is of `{}`{})",
            json["task"].as_str().unwrap_or_default(),
            sample.task,
            if json["task"] == sample.task {
                " and another text"
            } else {
                ""
            }
        ));
    }
    Ok(judgement)
}

/// The field of a sample's text.
fn text_field(sample: &Sample) -> &'static str {
    if sample.is_whole_program {
        "solution"
    } else {
        "completion"
    }
}

fn line_of(sample: &Sample, judgement: &Judgement) -> String {
    let mut line = json!(judgement);
    line["task"] = json!(sample.task);
    line[text_field(sample)] = json!(sample.completion);
    format!("{line}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(number: usize) -> Sample {
        Sample {
            task: format!("sums/{number}"),
            prompt: String::new(),
            completion: number.to_string(),
            is_whole_program: number % 2 == 1,
        }
    }

    fn samples(count: usize) -> Vec<Sample> {
        (0..count).map(sample).collect()
    }

    fn judgement(number: usize, reward: Option<f64>) -> Judgement {
        serde_json::from_value(json!({
            "id": format!("sums/{number}"), "reward": reward, "verdict": "correct", "detail": {}, "retryable": false,
            "key": number.to_string(), "cached": false, "deterministic": true, "elapsed_ms": 0.0,
        }))
        .unwrap()
    }

    fn put(results: &mut Results, number: usize, reward: Option<f64>) {
        results
            .put(number, &sample(number), &judgement(number, reward))
            .unwrap();
    }

    fn rewards(stored: &[Judgement]) -> Vec<Option<f64>> {
        stored.iter().map(|judgement| judgement.reward).collect()
    }

    #[test]
    fn a_rewritten_file_keeps_its_mode_and_the_link_to_it() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        let [path, link, other] = ["judged.jsonl", "link", "link.part"].map(file);
        std::fs::write(&other, "mine").unwrap();
        symlink(&path, &link).unwrap();
        let (mut results, _) = Results::open(&link, &samples(1)).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        put(&mut results, 0, None);
        put(&mut results, 0, Some(1.0));
        results.finish().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains("\"reward\":1.0"), "{text}");
        assert!(link.is_symlink());
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        assert_eq!(std::fs::read_to_string(&other).unwrap(), "mine");
    }

    #[test]
    fn an_interrupted_file_is_continued_without_its_incomplete_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("judged.jsonl");
        let (mut results, _) = Results::open(&path, &samples(4)).unwrap();
        put(&mut results, 0, Some(1.0));
        put(&mut results, 1, None);
        drop(results);
        let before = std::fs::read_to_string(&path).unwrap();
        let third = line_of(&sample(2), &judgement(2, Some(1.0)));
        let incomplete = format!("{before}{}", third.trim_end());
        let begun = &incomplete[..before.len() + 1];
        for text in [before.as_str(), &incomplete, begun] {
            std::fs::write(&path, text).unwrap();
            let (mut results, stored) = Results::open(&path, &samples(4)).unwrap();
            assert_eq!(rewards(&stored), [Some(1.0), None]);
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
            // The sample without a verdict gets one.
            (1..4).for_each(|number| put(&mut results, number, Some(0.0)));
            results.finish().unwrap();
            let (_, stored) = Results::open(&path, &samples(4)).unwrap();
            assert_eq!(rewards(&stored), [1.0, 0.0, 0.0, 0.0].map(Some));
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_with_other_content_is_refused_and_not_changed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("judged.jsonl");
        let line = |number| line_of(&sample(number), &judgement(number, Some(1.0)));
        let mut other = sample(0);
        other.completion.push('0');
        let other = line_of(&other, &judgement(0, Some(1.0)));
        let (empty, three) = ("{}\n".to_owned(), line(0) + &line(1) + &line(2));
        for (text, says) in [
            ("notes\n".to_owned(), "its line 1 is not a judgement"),
            ("notes".to_owned(), "ends in a line that is not a judgement"),
            (line(0) + "notes", "ends in a line that is not a judgement"),
            (empty, "its line 1 is not a judgement (missing field"),
            (line(1), "line 1 is of `sums/1`, sample 1 is of `sums/0`"),
            (other, "sample 1 is of `sums/0` and another text"),
            (three, "holds more judgements than there are samples (2)"),
        ] {
            std::fs::write(&path, &text).unwrap();
            let error = Results::open(&path, &samples(2)).err().unwrap().to_string();
            assert!(
                error.contains(says) && error.contains("name another file"),
                "{says} in {error}"
            );
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
    }

    #[test]
    fn two_runs_cannot_write_one_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("judged.jsonl");
        let _first = Results::open(&path, &samples(1)).unwrap();
        let second = Results::open(&path, &samples(1));
        assert!(matches!(second, Err(ResultsError::Misnamed { .. })));
    }
}
