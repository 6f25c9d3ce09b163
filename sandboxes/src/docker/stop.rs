//! Why a conversation with a container stopped before its end.

use crate::protocol::Broken;
use crate::{End, SandboxError};

/// The reason why a conversation stopped.
#[derive(Debug)]
pub(super) enum Stop {
    /// The program ended the run: it exited, ran out of memory, or broke the protocol.
    Ended(End),
    /// The clock ended the run.
    Clock,
    /// The run failed, and says nothing about the program.
    Failed(SandboxError),
}

impl From<Broken> for Stop {
    fn from(broken: Broken) -> Stop {
        match broken {
            Broken::Protocol(_) => Stop::Ended(End::Died(broken.to_string())),
            Broken::Fuel => Stop::Ended(End::OutOfFuel),
            Broken::Watched => Stop::Ended(End::Watched),
            Broken::Task(problem) => Stop::Failed(SandboxError::Unusable(problem)),
        }
    }
}

impl From<SandboxError> for Stop {
    fn from(error: SandboxError) -> Stop {
        Stop::Failed(error)
    }
}
