//! Lean 4: a file goes in, Lean's messages and a compiled module come out.
//!
//! [`Compiler`] starts a process for each file in its jail, limits its time and memory, and leaves no process behind. This module does not judge what a file contains.
//! The output is not trusted: the grader has the compiled module checked by a kernel that never ran the file. This kernel runs in a [`HelperProcess`].

mod compile;
mod helper_process;
mod jail;
mod jail_output;
mod process;
mod process_tree;
mod program;
mod project;
mod second_checker;
mod self_limits;
mod start_times;

use serde::{Deserialize, Serialize};

pub use compile::Compiler;
pub use helper_process::{End, EndCause, HelperCommand, HelperProcess};
pub use jail::Jail;
pub use program::Program;
pub use project::Project;
pub use second_checker::SecondChecker;
pub use self_limits::confine;
pub use start_times::imports;

/// A message, as `lean --json` writes it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Message {
    /// Its severity.
    pub severity: Severity,
    /// Where it begins.
    pub pos: Position,
    /// Where it ends, if it is about a range.
    #[serde(default, rename = "endPos")]
    pub end: Option<Position>,
    /// Its text.
    pub data: String,
}

/// The severity of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Something is not accepted.
    Error,
    /// Something is accepted with a reservation: `sorry`.
    Warning,
    /// An answer to a command, such as `#print`.
    Information,
}

/// A position in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// Counted from 1.
    pub line: usize,
    /// Counted from 0.
    pub column: usize,
}

/// Lean's messages about a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Messages {
    /// Those about its header, with lines counted from the header's first line.
    pub header: Vec<Message>,
    /// Those about its body, with lines counted from the body's first line.
    pub body: Vec<Message>,
}

impl Messages {
    /// The first error in the header.
    #[must_use]
    pub fn header_error(&self) -> Option<&Message> {
        first_error(&self.header)
    }

    /// The first error in the body. Code in it may have written the messages, so they explain a verdict and never decide it.
    #[must_use]
    pub fn body_error(&self) -> Option<&Message> {
        first_error(&self.body)
    }
}

fn first_error(messages: &[Message]) -> Option<&Message> {
    let is_error = |message: &&Message| message.severity == Severity::Error;
    messages.iter().find(is_error)
}

/// Why Lean gave no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LeanError {
    /// The deadline passed while the process waited, or other work kept it waiting. Another run may differ.
    #[error("Lean took longer than {0} seconds")]
    Timeout(u64),
    /// It took as long although it had a processor. Another run would take as long.
    #[error("Lean took longer than {0} seconds")]
    ProcessorTime(u64),
    /// The process needed too much memory.
    #[error("Lean needed more than {0} MiB of memory")]
    Memory(u64),
    /// It used more of something at a time than any file needs.
    #[error("Lean used more than {0} {1} at a time")]
    TooMany(usize, &'static str),
    /// One of its processes shows nobody but root its open files. So memory in such files could not be limited.
    #[error(
        "Lean, or a process that it started, hides its open files, so their memory cannot be limited; the verifier's user has to be able to read Lean's program"
    )]
    Hidden,
    /// It wrote too much.
    #[error("Lean wrote more than {0} MiB")]
    Output(u64),
    /// It reported an error in the header: an import is missing, or could not be loaded this time, for lack of memory for example.
    #[error("Lean does not accept the header: {0}")]
    Header(String),
    /// It ended or answered in a way that says nothing about the file. Another run may differ.
    #[error("Lean gave no answer: {0}")]
    Crashed(String),
    /// It cannot be started.
    #[error("Lean cannot be started: {0}")]
    Missing(String),
}

/// The time and memory that a process may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Seconds for a file, in addition to [`Bounds::start_seconds`].
    pub seconds: u64,
    /// Seconds for starting Lean and reading a header. Mathlib's takes tens of seconds the first time. Once the start is measured, a file that keeps a processor busy
    /// gets twice the measured time instead.
    pub start_seconds: u64,
    /// MiB of memory of the process tree: its resident memory, and the anonymous files that it has open.
    pub memory_mib: u64,
}

/// The result of Lean's compilation of a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Compiled {
    /// Lean's messages.
    pub messages: Messages,
    /// The compiled module, as hostile data: its file, and in Lean's module system also the files of its server part and its private part. Empty if there were errors.
    pub files: Vec<Vec<u8>>,
}

/// The interface to Lean that a grader uses.
pub trait Lean: Send + Sync {
    /// Has Lean compile `header`, then `body`, once. It may take at most `seconds`, or less if [`Bounds::seconds`] is less, in addition to [`Bounds::start_seconds`]. An
    /// error in the header is one of the messages.
    ///
    /// # Errors
    /// [`LeanError`].
    fn compile_within(&self, header: &str, body: &str, seconds: u64)
    -> Result<Compiled, LeanError>;

    /// As [`Lean::compile_within`], for as long as [`Bounds::seconds`]. An error in the header is no answer about the body.
    ///
    /// # Errors
    /// [`LeanError`].
    fn compile(&self, header: &str, body: &str) -> Result<Compiled, LeanError> {
        let compiled = self.compile_within(header, body, u64::MAX)?;
        if compiled.files.is_empty()
            && let Some(error) = compiled.messages.header_error()
        {
            return Err(LeanError::Header(error.data.clone()));
        }
        Ok(compiled)
    }
}

/// Repeats a run once if the clock, the memory limit, an error in the header or a crash ended it, since a busy machine may be the cause. A run that had its processor
/// time is not repeated. Also returns whether one run was enough.
pub fn with_retry<T>(run: impl Fn() -> Result<T, LeanError>) -> (Result<T, LeanError>, bool) {
    match run() {
        Err(
            LeanError::Timeout(_)
            | LeanError::Memory(_)
            | LeanError::Hidden
            | LeanError::Header(_)
            | LeanError::Crashed(_),
        ) => (run(), false),
        decided => (decided, true),
    }
}

/// Splits messages into those about the header and those about the body. The body begins at `line`. Lines in the result are counted from the start of each part.
fn split(messages: Vec<Message>, line: usize) -> Messages {
    let mut parts = Messages::default();
    for mut message in messages {
        if message.pos.line < line {
            parts.header.push(message);
        } else {
            message.pos.line -= line - 1;
            if let Some(end) = &mut message.end {
                end.line = end.line.saturating_sub(line - 1);
            }
            parts.body.push(message);
        }
    }
    parts
}
