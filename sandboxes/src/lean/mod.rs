//! Lean 4: a file goes in, Lean's messages come out.
//!
//! Two backends: [`Plain`] starts a process for each file; [`Pool`] keeps REPL processes that have read the header already. What a file may hold is not judged here: the
//! grader refuses what no proof needs before a backend sees it. A backend bounds what a process may cost, and leaves none behind.

mod jail;
mod plain;
pub mod pool;
mod process;
mod program;
mod project;
mod repl;
mod replay;
mod spawner;

use serde::Deserialize;

pub use jail::Jail;
pub use plain::Plain;
pub use pool::Pool;
pub use program::Program;
pub use project::Project;
pub use replay::Replay;

/// A message, as `lean --json` and the REPL write it.
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
    /// An answer to a command, such as `#print`. The REPL's word is `info`.
    #[serde(alias = "info")]
    Information,
    /// Of the REPL alone.
    Trace,
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
    #[error("Lean wrote more than {0} MiB of messages")]
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
    /// Seconds for a body; where a process must be started for it, [`Bounds::start_seconds`] more.
    pub seconds: u64,
    /// Seconds for starting Lean and reading a header: Mathlib's takes tens of them.
    pub start_seconds: u64,
    /// MiB of resident memory, of the process and all that it started together.
    pub memory_mib: u64,
}

/// Lean, as a grader uses it.
pub trait Lean: Send + Sync {
    /// Has Lean read `header`, then `body`, once.
    ///
    /// # Errors
    /// [`LeanError`].
    fn run(&self, header: &str, body: &str) -> Result<Said, LeanError>;

    /// As [`Lean::run`]; but what the clock or the memory's bound ended is tried again, since a busy machine may have done it. What ended so
    /// twice is ended by the file.
    ///
    /// # Errors
    /// As [`Lean::run`]; [`LeanError::Crashed`] where only the first of two runs was ended by a bound: neither decides.
    fn check(&self, header: &str, body: &str) -> Result<Said, LeanError> {
        let first = self.run(header, body);
        let Err(bound @ (LeanError::Timeout(_) | LeanError::Memory(_))) = first else {
            return first;
        };
        match self.run(header, body) {
            Err(LeanError::Timeout(_) | LeanError::Memory(_)) => Err(bound),
            Err(other) => Err(other),
            Ok(_) => Err(LeanError::Crashed(format!(
                "{bound} in one run and not in the next; judge it again, on a machine that is less busy"
            ))),
        }
    }
}

/// The REPL and `lean --json` count lines from 1 in what they were given; messages from `line` on, counted from there.
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
