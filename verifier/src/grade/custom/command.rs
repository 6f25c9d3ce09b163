//! The processes of an operator's program. Each judges one item at a time, and stays for the next.
//!
//! A process gets `{"id": …, "task": {…}, "prompt": "…", "completion": "…"}` on a line. It answers on a line with the same `id` and a `reward`, optionally with `terms`
//! and `detail`, or with an `error`. A process that answers anything else, or too late, is ended with all that it started. So no answer is taken for that of another
//! item.

use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use datasets::excerpt::excerpt;
use sandboxes::lean::{End, EndCause, HelperCommand, HelperProcess, Jail};
use serde_json::json;

use super::answer::{Answer, Failure, Question};
use super::files::Content;
use super::settings::CustomSettings;
use crate::grade::lean::JailChoice;
use crate::mutex::lock;

/// Maximum length of an answer, in bytes.
const MAX_LINE: usize = 1 << 20;
/// How long a program gets to end because it cannot work, as when a module is missing.
const TRIAL: Duration = Duration::from_secs(2);

/// Starts processes, asks them, and replaces those that misbehave. There are as many as threads that ask.
pub(super) struct Processes {
    launch: HelperCommand,
    time: Duration,
    idle: Mutex<Vec<Process>>,
    /// Whether a process has ever answered an item.
    has_answered: AtomicBool,
}

/// A process that waits for its next item.
struct Process {
    process: HelperProcess,
    /// The content of the files that it has read.
    content: Content,
    /// Number of items that it has received.
    asked: u64,
    /// What it has written after its last answer.
    surplus: Vec<u8>,
}

impl Processes {
    pub(super) fn open(
        name: &str,
        settings: &CustomSettings,
        files: &[PathBuf],
        secrets: Vec<PathBuf>,
    ) -> Result<Self, String> {
        let dir = std::env::current_dir()
            .map_err(|error| format!("the current folder cannot be found: {error}"))?;
        let mut words = settings.command.clone();
        let program = words.first().map(PathBuf::from).unwrap_or_default();
        if program.components().count() > 1 && program.is_relative() {
            words[0] = dir.join(&program).to_string_lossy().into_owned();
        }
        let jail = match settings.jail {
            JailChoice::None => Jail::None,
            JailChoice::Bubblewrap => match Jail::detect() {
                Jail::Bubblewrap => Jail::Bubblewrap,
                Jail::None => {
                    return Err("bubblewrap (`bwrap`) does not work here, and the configuration asks for it; install it, or set jail = \"none\"".to_owned());
                }
            },
        };
        let absolute = |path: &PathBuf| dir.join(path);
        let variable = |name: &String| Some((name.clone(), std::env::var_os(name)?));
        let launch = HelperCommand {
            words,
            jail,
            shown: files.iter().map(absolute).collect(),
            secrets,
            env: settings.env.iter().filter_map(variable).collect(),
            dir: match jail {
                Jail::None => dir,
                // The folder may be one that a jail empties.
                Jail::Bubblewrap => PathBuf::from("/"),
            },
            log: Some(name.to_owned()),
        };
        Ok(Self {
            launch,
            time: Duration::try_from_secs_f64(settings.seconds).unwrap_or(Duration::MAX),
            idle: Mutex::default(),
            has_answered: AtomicBool::new(false),
        })
    }

    /// Starts a process, which then waits for an item.
    ///
    /// # Errors
    /// If its program cannot be started.
    pub(super) fn warm_up(&self, content: &Content) -> Result<(), String> {
        let process = self.start(content).map_err(|failure| failure.reason)?;
        lock(&self.idle).push(process);
        Ok(())
    }

    /// Starts a process that is asked nothing, and waits for whether it ends or writes.
    ///
    /// # Errors
    /// What it did.
    pub(super) fn try_out(&self, content: &Content) -> Result<(), String> {
        let mut process = self.start(content).map_err(|failure| failure.reason)?;
        process.process.allow_clock(TRIAL);
        let did = match process.line() {
            Ok(line) => {
                let line = excerpt(String::from_utf8_lossy(&line).trim());
                NoAnswer::Line(format!("it wrote before it was asked: {line}"))
            }
            Err(did) => did,
        };
        let end = process.process.end();
        match (&did, end.cause) {
            (NoAnswer::Ended, EndCause::Late) => Ok(()),
            _ => Err(self.failure(did, &end).reason),
        }
    }

    /// The answer of a process that has read this content of the files.
    pub(super) fn ask(
        &self,
        question: &Question<'_>,
        content: &Content,
    ) -> Result<Answer, Failure> {
        let mut idle = self.take(content);
        loop {
            let was_idle = idle.is_some();
            let mut process = match idle.take() {
                Some(process) => process,
                None => self.start(content)?,
            };
            match process.ask(question, self.time) {
                Ok(answer) => {
                    self.has_answered.store(true, Ordering::Relaxed);
                    let checked = answer.check();
                    lock(&self.idle).push(process);
                    return checked;
                }
                Err(wrong) => {
                    let failure = self.failure(wrong, &process.process.end());
                    // The process may have ended since its last answer. That says nothing about the item.
                    if !(was_idle && failure.retryable) {
                        // What has never worked does not work the next time either.
                        let worked = self.has_answered.load(Ordering::Relaxed);
                        let retryable = failure.retryable && worked;
                        return Err(Failure {
                            retryable,
                            ..failure
                        });
                    }
                }
            }
        }
    }

    /// An idle process that has read this content. Ends those that have read another.
    fn take(&self, content: &Content) -> Option<Process> {
        let mut idle = lock(&self.idle);
        let old: Vec<Process> = idle
            .extract_if(.., |process| {
                process.content != *content || !process.process.is_alive()
            })
            .collect();
        let process = idle.pop();
        drop(idle);
        drop(old);
        process
    }

    fn start(&self, content: &Content) -> Result<Process, Failure> {
        let process = HelperProcess::start(&self.launch).map_err(|error| {
            let program = self.launch.words.first().map_or("", String::as_str);
            Failure::passing(format!("`{program}` cannot be started: {error}"))
        })?;
        Ok(Process {
            process,
            content: content.clone(),
            asked: 0,
            surplus: Vec::new(),
        })
    }

    /// Why a process that has ended gave no answer.
    fn failure(&self, no_answer: NoAnswer, end: &End) -> Failure {
        let late = || {
            let seconds = self.time.as_secs_f64();
            Failure::new(format!("it did not answer within {seconds} seconds"))
        };
        match (no_answer, end.cause) {
            (NoAnswer::Line(reason), _) => Failure::new(reason),
            (NoAnswer::Ended, EndCause::Late) => late(),
            (NoAnswer::Ended, EndCause::Exited(code)) => Failure::passing(format!(
                "its program ended with the status {code}: {}",
                end.last_line()
            )),
            (NoAnswer::Ended, EndCause::Signal(signal)) => Failure::passing(format!(
                "its program was ended by the signal {signal}: {}",
                end.last_line()
            )),
            (NoAnswer::Ended, EndCause::Dismissed) => {
                Failure::passing("its program closed its standard output")
            }
        }
    }
}

/// Why a process gave no answer.
enum NoAnswer {
    /// It has ended, or was ended because it was late.
    Ended,
    /// It wrote something else.
    Line(String),
}

impl Process {
    fn ask(&mut self, question: &Question<'_>, time: Duration) -> Result<Answer, NoAnswer> {
        if !self.surplus.is_empty() {
            let line = excerpt(String::from_utf8_lossy(&self.surplus).trim());
            return Err(NoAnswer::Line(format!(
                "it wrote more than one line for an item: {line}"
            )));
        }
        self.asked += 1;
        let id = self.asked;
        let mut line = json!({
            "id": id,
            "task": question.task,
            "prompt": question.prompt,
            "completion": question.completion,
        })
        .to_string();
        line.push('\n');
        self.process.allow_clock(time);
        let line = self
            .process
            .write_all(line.as_bytes())
            .map_err(|_| NoAnswer::Ended)
            .and_then(|()| self.line());
        self.process.allow(None);
        let line = line?;
        let answer: Answer = serde_json::from_slice(&line).map_err(|error| {
            let text = excerpt(String::from_utf8_lossy(&line).trim());
            NoAnswer::Line(format!(
                "it wrote a line that is no answer ({error}): {text}"
            ))
        })?;
        if answer.id.as_u64() != Some(id) {
            let other = excerpt(&answer.id.to_string());
            return Err(NoAnswer::Line(format!(
                "it answered the item {other} when it was asked for {id}; an answer repeats the `id` of its item, and there is one for each"
            )));
        }
        Ok(answer)
    }

    /// The next line that it writes.
    fn line(&mut self) -> Result<Vec<u8>, NoAnswer> {
        let (mut line, mut buffer) = (Vec::new(), [0; 16 << 10]);
        loop {
            let read = match self.process.read(&mut buffer) {
                Ok(read @ 1..) => &buffer[..read],
                Ok(0) | Err(_) => return Err(NoAnswer::Ended),
            };
            if let Some(end) = read.iter().position(|byte| *byte == b'\n') {
                line.extend_from_slice(&read[..end]);
                self.surplus = read[end + 1..].to_vec();
                return Ok(line);
            }
            line.extend_from_slice(read);
            if line.len() > MAX_LINE {
                return Err(NoAnswer::Line(format!(
                    "its answer is longer than {} MiB",
                    MAX_LINE >> 20
                )));
            }
        }
    }
}
