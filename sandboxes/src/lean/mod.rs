//! Lean 4: a file goes in, Lean's messages and a compiled module come out.
//!
//! [`Compiler`] starts a process for each file, in its jail, bounds what it may cost, and leaves none behind. What a file may hold is not judged here, nor is anything
//! believed that comes out: the grader has the compiled module checked by a kernel that never ran the file. A [`Companion`] is the process that this kernel runs in.

mod companion;
mod compile;
mod family;
mod jail;
mod jail_output;
mod limits;
mod process;
mod program;
mod project;
mod replay;

use serde::Deserialize;

pub use companion::{Allowance, Companion, CompanionCommand, End, How};
pub use compile::Compiler;
pub use jail::Jail;
pub use limits::confine;
pub use program::Program;
pub use project::Project;
pub use replay::Replay;

/// A message, as `lean --json` writes it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Message {
    /// How grave it is.
    pub severity: Severity,
    /// Where it begins.
    pub pos: Position,
    /// What it says.
    pub data: String,
}

/// How grave a message is.
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

/// A place in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct Position {
    /// From 1.
    pub line: usize,
    /// From 0.
    pub column: usize,
}

/// What Lean said of a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Said {
    /// Of its header; lines from the header's first.
    pub header: Vec<Message>,
    /// Of what follows; lines from the body's first.
    pub body: Vec<Message>,
}

/// Why Lean said nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LeanError {
    /// The deadline passed, each time that it was tried.
    #[error("Lean took longer than {0} seconds")]
    Timeout(u64),
    /// The process grew too large.
    #[error("Lean needed more than {0} MiB of memory")]
    Memory(u64),
    /// It wrote too much.
    #[error("Lean wrote more than {0} MiB")]
    Output(u64),
    /// It ended, or answered, in a way that says nothing of the file; another time it may be different.
    #[error("Lean gave no answer: {0}")]
    Crashed(String),
    /// It cannot be started.
    #[error("Lean cannot be started: {0}")]
    Missing(String),
}

/// What a process may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Seconds for a file, besides [`Bounds::start_seconds`].
    pub seconds: u64,
    /// Seconds for starting Lean and reading a header: Mathlib's takes tens of them.
    pub start_seconds: u64,
    /// MiB of resident memory, of the process and all that it started together.
    pub memory_mib: u64,
}

/// What Lean made of a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Compiled {
    /// What it said of it.
    pub said: Said,
    /// The compiled module, hostile data: its file, and where it is of Lean's module system those of its server's and its private part. Empty where there were errors.
    pub files: Vec<Vec<u8>>,
}

/// Lean, as a grader uses it.
pub trait Lean: Send + Sync {
    /// Has Lean compile `header`, then `body`, once.
    ///
    /// # Errors
    /// [`LeanError`].
    fn compile(&self, header: &str, body: &str) -> Result<Compiled, LeanError>;

    /// As [`Lean::compile`]; but what the clock, the memory's bound or a crash ended is tried once more, since a busy machine may have done it. With whether one run
    /// was enough.
    fn compile_patiently(&self, header: &str, body: &str) -> (Result<Compiled, LeanError>, bool) {
        match self.compile(header, body) {
            Err(LeanError::Timeout(_) | LeanError::Memory(_) | LeanError::Crashed(_)) => {
                (self.compile(header, body), false)
            }
            decided => (decided, true),
        }
    }
}

/// Lean counts lines from 1; messages from `line` on, counted from there.
fn split(messages: Vec<Message>, line: usize) -> Said {
    let mut said = Said::default();
    for mut message in messages {
        if message.pos.line < line {
            said.header.push(message);
        } else {
            message.pos.line -= line - 1;
            said.body.push(message);
        }
    }
    said
}
