//! Why a conversation with a container stopped before its end.

use crate::protocol::Broken;
use crate::{End, SandboxError};

/// The reason why a conversation stopped.
#[derive(Debug)]
pub(super) enum Termination {
    /// The program ended the run (it exited, ran out of memory, or broke the protocol), or the clock did.
    Ended(End),
    /// The run failed, and says nothing about the program.
    Failed(SandboxError),
}

impl Termination {
    /// How a run ended that stopped for this reason.
    ///
    /// # Errors
    /// If the reason says nothing about the program.
    pub(super) fn end(self) -> Result<End, SandboxError> {
        match self {
            Termination::Ended(end) => Ok(end),
            Termination::Failed(error) => Err(error),
        }
    }
}

impl From<Broken> for Termination {
    fn from(broken: Broken) -> Termination {
        broken
            .end()
            .map_or_else(Termination::Failed, Termination::Ended)
    }
}

impl From<SandboxError> for Termination {
    fn from(error: SandboxError) -> Termination {
        Termination::Failed(error)
    }
}
