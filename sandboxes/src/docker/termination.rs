//! Why a conversation with a container stopped before its end.

use crate::protocol::Broken;
use crate::{End, SandboxError};

/// The reason why a conversation stopped.
#[derive(Debug)]
pub(super) enum Termination {
    /// The program ended the run: it exited, ran out of memory, or broke the protocol.
    Ended(End),
    /// The clock ended the run.
    Clock,
    /// The run failed, and says nothing about the program.
    Failed(SandboxError),
}

impl From<Broken> for Termination {
    fn from(broken: Broken) -> Termination {
        match broken {
            Broken::Protocol(_) => Termination::Ended(End::Died(broken.to_string())),
            Broken::Fuel => Termination::Ended(End::OutOfFuel),
            Broken::Watched => Termination::Ended(End::Watched),
            Broken::Task(problem) => Termination::Failed(SandboxError::Unusable(problem)),
        }
    }
}

impl From<SandboxError> for Termination {
    fn from(error: SandboxError) -> Termination {
        Termination::Failed(error)
    }
}
