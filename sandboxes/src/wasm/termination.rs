//! Why a guest stopped before its turn returned.

use wasmtime::Trap;

use crate::protocol::Broken;
use crate::{Deferred, End, SandboxError};

/// The reason why a guest stopped. Host functions return it, or a [`Broken`], as an error through wasmtime. wasmtime's traps are converted to it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(super) enum Termination {
    /// `proc_exit`.
    #[error("the program left with exit status {0}")]
    Exit(i32),
    /// The wall clock reached the backstop. This says nothing about the program.
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
    /// The conversation cannot continue, or the fuel was used up.
    #[error(transparent)]
    Broken(#[from] Broken),
    /// Another trap, by its name.
    #[error("{0}")]
    Trap(String),
}

impl Termination {
    /// The reason in an error that wasmtime returned.
    pub(super) fn of(error: &wasmtime::Error) -> Termination {
        if let Some(stop) = error.downcast_ref::<Termination>() {
            return stop.clone();
        }
        if let Some(broken) = error.downcast_ref::<Broken>() {
            return broken.clone().into();
        }
        Termination::Trap(match error.downcast_ref::<Trap>() {
            Some(Trap::StackOverflow) => "the native stack overflowed".to_owned(),
            Some(Trap::UnreachableCodeReached) => "the interpreter aborted".to_owned(),
            Some(trap) => trap.to_string(),
            None => error.to_string(),
        })
    }

    /// How a run ended that stopped for this reason.
    ///
    /// # Errors
    /// If the reason says nothing about the program.
    pub(super) fn end(self) -> Result<End, SandboxError> {
        match self {
            Termination::Memory => Ok(End::OutOfMemory),
            Termination::Abandoned => Err(Deferred::Abandoned.into()),
            Termination::Backstop(_) => Err(Deferred::Failed(self.to_string()).into()),
            Termination::Broken(broken) => broken.end(),
            Termination::Exit(_) | Termination::Trap(_) => Ok(End::Died(self.to_string())),
        }
    }
}
