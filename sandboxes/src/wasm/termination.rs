//! Why a guest stopped before its turn returned.

use wasmtime::Trap;

use crate::protocol::Broken;
use crate::{Deferred, End, SandboxError};

/// The reason why a guest stopped. Host functions return it through wasmtime as an error, and wasmtime's traps are converted to it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(super) enum Termination {
    /// `proc_exit`.
    #[error("the program left with exit status {0}")]
    Exit(i32),
    /// The fuel was used up.
    #[error("the fuel was used up")]
    Fuel,
    /// The wall clock reached the backstop, which says nothing about the program.
    #[error(
        "a program was stopped after {0} s of wall-clock time, long before its fuel was used up: the machine is overloaded or was suspended; judge it again, or \
         raise the sandbox's backstop"
    )]
    Backstop(f64),
    /// Nobody waits for the run any more.
    #[error("nobody waits for the run any more")]
    Abandoned,
    /// The guest reached the memory limit.
    #[error("the memory limit was met")]
    Memory,
    /// The guest sent a request that the harness never sends.
    #[error("the program broke the protocol: {0}")]
    Protocol(&'static str),
    /// The task's own test code cannot be run here. This says nothing about the candidate.
    #[error("{0}")]
    Task(String),
    /// The watch ended the run.
    #[error("the watch ended the run")]
    Watched,
    /// Another trap, by its name.
    #[error("{0}")]
    Trap(String),
}

impl From<Broken> for Termination {
    fn from(broken: Broken) -> Termination {
        match broken {
            Broken::Protocol(what) => Termination::Protocol(what),
            Broken::Task(problem) => Termination::Task(problem),
            Broken::Fuel => Termination::Fuel,
            Broken::Watched => Termination::Watched,
        }
    }
}

impl Termination {
    /// The reason in an error that wasmtime returned.
    pub(super) fn of(error: &wasmtime::Error) -> Termination {
        if let Some(stop) = error.downcast_ref::<Termination>() {
            return stop.clone();
        }
        match error.downcast_ref::<Trap>() {
            Some(Trap::StackOverflow) => {
                Termination::Trap("the native stack overflowed".to_owned())
            }
            Some(Trap::UnreachableCodeReached) => {
                Termination::Trap("the interpreter aborted".to_owned())
            }
            Some(trap) => Termination::Trap(trap.to_string()),
            None => Termination::Trap(error.to_string()),
        }
    }

    /// How a run ended that stopped for this reason.
    ///
    /// # Errors
    /// If the reason says nothing about the program.
    pub(super) fn end(&self) -> Result<End, SandboxError> {
        match self {
            Termination::Fuel => Ok(End::OutOfFuel),
            Termination::Memory => Ok(End::OutOfMemory),
            Termination::Watched => Ok(End::Watched),
            Termination::Abandoned => Err(Deferred::Abandoned.into()),
            Termination::Backstop(_) => Err(Deferred::Failed(self.to_string()).into()),
            Termination::Task(problem) => Err(SandboxError::Unusable(problem.clone())),
            other => Ok(End::Died(other.to_string())),
        }
    }
}
