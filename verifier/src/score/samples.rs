//! Reads samples: JSON Lines from a file or a pipe, plain or gzip, or EvalPlus's folder of programs.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use datasets::did_you_mean::nearest;
use datasets::excerpt::excerpt;
use datasets::fields::json_kind as kind;
use datasets::jsonl::{Line, LineError, Lines, read_text};
use datasets::{Dataset, TaskSpec, loose_json};
use serde::Deserialize;
use serde_json::value::RawValue;
use verifier_api::Id;

use super::task_lookup::TaskLookup;

/// One completion of one task, or one program for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// The task's id in its data set: `mbppplus/2`.
    pub task: String,
    /// The prompt; empty if the file does not have it.
    pub prompt: String,
    /// The model's completion, or the program that somebody extracted from it.
    pub completion: String,
    /// Whether `completion` is a whole program, which is run unchanged.
    pub is_whole_program: bool,
}

/// Why samples cannot be scored.
#[derive(Debug, thiserror::Error)]
pub enum ScoreError {
    /// The file cannot be read.
    #[error("the samples {location} cannot be read; check the path given to --samples")]
    Io {
        /// The file.
        location: String,
        /// The system's error.
        source: io::Error,
    },
    /// A folder without programs.
    #[error(
        "the folder {0} holds no programs; EvalPlus's are in folders such as Mbpp_2/0.py, and a file of samples is given by its own path"
    )]
    NoPrograms(String),
    /// What a file holds is not a sample, or it holds none.
    #[error("{location}: {reason}")]
    Content {
        /// The file, with the line from 1 if it has several samples.
        location: String,
        /// What is wrong there, and what to do.
        reason: String,
    },
}

const FORM: &str = "a sample is one line, such as {\"task_id\": \"Mbpp/2\", \"completion\": \"…\"}";

/// The path that stands for standard input.
const STANDARD_INPUT: &str = "-";

/// Reads the samples at `path`: a file of JSON Lines, or `-` for standard input, plain or gzip; or a folder of programs. The folder is in EvalPlus's form, with one
/// file for each sample (`Mbpp_2/0.py`).
///
/// A line has `task_id`, `task` or `id`. It is the data set's id of the task (`mbppplus/2`), its last part (`2`, `"2"`), or another project's id (`Mbpp/2`). Samples of
/// a user's own data set may have the latter too. A line also has `solution`, a whole program, or else `completion`. `prompt` is optional. Other fields are ignored.
///
/// # Errors
/// [`ScoreError`], which names the faulty line. A task that `dataset` does not have is an error too.
pub fn read_samples(path: &Path, dataset: &Dataset) -> Result<Vec<Sample>, ScoreError> {
    let lookup = TaskLookup::of(dataset);
    if path == Path::new(STANDARD_INPUT) {
        return lines("standard input", io::stdin().lock(), &lookup);
    }
    let location = path.display().to_string();
    if path.is_dir() {
        return folder(path, &lookup);
    }
    match File::open(path) {
        Ok(file) => lines(&location, file, &lookup),
        Err(source) => Err(ScoreError::Io { location, source }),
    }
}

fn lines(
    location: &str,
    source: impl Read,
    lookup: &TaskLookup<'_>,
) -> Result<Vec<Sample>, ScoreError> {
    let io = |source| ScoreError::Io {
        location: location.to_owned(),
        source,
    };
    let fault = |line: usize, reason: String| ScoreError::Content {
        location: format!("{location}, line {line}"),
        reason,
    };
    let mut lines = Lines::new(source).map_err(io)?;
    let mut samples = Vec::new();
    while let Some(Line { number, text }) = lines.next_line().map_err(|error| match error {
        LineError::Io(source) => io(source),
        LineError::Line { line, reason } => fault(line, reason),
    })? {
        samples.push(sample(text, lookup).map_err(|reason| fault(number, reason))?);
    }
    if samples.is_empty() {
        return Err(ScoreError::Content {
            location: location.to_owned(),
            reason: format!("it holds no samples; {FORM}"),
        });
    }
    Ok(samples)
}

/// The fields of a sample. `null` counts as absent. A duplicate field is refused by the parser.
#[derive(Deserialize)]
struct Record<'a> {
    #[serde(borrow)]
    task_id: Option<&'a RawValue>,
    task: Option<&'a RawValue>,
    id: Option<&'a RawValue>,
    solution: Option<&'a RawValue>,
    completion: Option<&'a RawValue>,
    prompt: Option<&'a RawValue>,
}

fn sample(text: &str, lookup: &TaskLookup<'_>) -> Result<Sample, String> {
    if !text.starts_with('{') {
        return Err(format!("it is not a JSON object; {FORM}"));
    }
    let record: Record<'_> =
        serde_json::from_str(text).map_err(|error| parse_error(text, &error))?;
    let id = [
        ("task_id", record.task_id),
        ("task", record.task),
        ("id", record.id),
    ];
    let id = match id.iter().find_map(|(name, id)| Some((name, (*id)?))) {
        None => return Err(missing(text, "`task_id`", &["task_id", "task", "id"])),
        Some((name, id)) => Id::of(id).ok_or_else(|| {
            format!(
                "`{name}` is {}; a text or a number is expected, such as \"Mbpp/2\" or 2",
                kind(id)
            )
        })?,
    };
    let (task, spec) = lookup.find(&id.to_string())?;
    let is_whole_program = record.solution.is_some();
    let completion = match (record.solution, record.completion) {
        (Some(solution), _) => string("solution", solution)?,
        (None, Some(completion)) => string("completion", completion)?,
        (None, None) => {
            let fields = ["completion", "solution"];
            return Err(missing(text, "`completion` or `solution`", &fields));
        }
    };
    if is_whole_program && !matches!(spec, TaskSpec::Code(_) | TaskSpec::Program(_)) {
        return Err(format!(
            "`solution` is for programs, and `{task}` is not a code task; give `completion`"
        ));
    }
    Ok(Sample {
        task: task.to_owned(),
        prompt: match record.prompt {
            Some(prompt) => string("prompt", prompt)?,
            None => String::new(),
        },
        completion,
        is_whole_program,
    })
}

/// The parser's message for a text that is not a sample, without its line number: the parser sees one line only.
fn parse_error(text: &str, error: &serde_json::Error) -> String {
    let message = loose_json::reason(text.as_bytes(), error);
    let what = message
        .rsplit_once(" at line ")
        .map_or(message.as_str(), |(what, _)| what.trim_end_matches(','));
    if error.is_data() {
        return format!("{what}; {FORM}");
    }
    format!("it is not JSON ({what}, column {}); {FORM}", error.column())
}

fn missing(text: &str, what: &str, known: &[&str]) -> String {
    let fields: BTreeMap<String, &RawValue> = serde_json::from_str(text).unwrap_or_default();
    // A field with a value would not be missing.
    if let Some(name) = known.iter().find(|name| fields.contains_key(**name)) {
        return format!("its `{name}` is null, and {what} is required; {FORM}");
    }
    let near = fields.keys().find_map(|name| {
        let meant = nearest(&name.to_lowercase(), known.iter().copied())?;
        let name = excerpt(name);
        Some(format!("; is its `{name}` meant to be `{meant}`?"))
    });
    let has: Vec<String> = fields
        .keys()
        .take(12)
        .map(|name| format!("`{}`", excerpt(name)))
        .collect();
    let has = if has.is_empty() {
        "nothing".to_owned()
    } else {
        has.join(", ")
    };
    format!(
        "it has no {what}, only {has}{}",
        near.unwrap_or_else(|| format!("; {FORM}"))
    )
}

fn string(name: &str, json: &RawValue) -> Result<String, String> {
    serde_json::from_str(json.get())
        .map_err(|_| format!("`{name}` is {}; a text is expected", kind(json)))
}

/// EvalPlus's folder of programs: a folder for each task, a file for each sample.
fn folder(path: &Path, lookup: &TaskLookup<'_>) -> Result<Vec<Sample>, ScoreError> {
    let mut samples = Vec::new();
    for tasks in sorted_entries(path)? {
        let Some((set, number)) = tasks
            .file_name()
            .and_then(|name| name.to_str()?.split_once('_'))
        else {
            continue;
        };
        if !tasks.is_dir() {
            continue;
        }
        let id = format!("{set}/{number}");
        for program in sorted_entries(&tasks)? {
            if program.extension().is_none_or(|suffix| suffix != "py") {
                continue;
            }
            let fault = |reason: String| ScoreError::Content {
                location: program.display().to_string(),
                reason,
            };
            let (task, spec) = lookup.find(&id).map_err(fault)?;
            if !matches!(spec, TaskSpec::Code(_) | TaskSpec::Program(_)) {
                return Err(fault(format!("`{task}` is not a code task")));
            }
            samples.push(Sample {
                task: task.to_owned(),
                prompt: String::new(),
                completion: read_text(&program)
                    .map_err(|error| fault(format!("it cannot be read ({error})")))?,
                is_whole_program: true,
            });
        }
    }
    if samples.is_empty() {
        return Err(ScoreError::NoPrograms(path.display().to_string()));
    }
    Ok(samples)
}

/// The entries of a folder, sorted by name and number.
fn sorted_entries(path: &Path) -> Result<Vec<PathBuf>, ScoreError> {
    let entries = std::fs::read_dir(path).and_then(|entries| {
        entries
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<io::Result<Vec<PathBuf>>>()
    });
    let mut entries = entries.map_err(|source| ScoreError::Io {
        location: path.display().to_string(),
        source,
    })?;
    entries.sort_by_cached_key(|path| {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let (prefix, number) = stem.rsplit_once('_').unwrap_or(("", &stem));
        let number = number.parse::<u64>().unwrap_or(u64::MAX);
        (prefix.to_owned(), number, stem.into_owned())
    });
    Ok(entries)
}

#[cfg(test)]
mod tests;
