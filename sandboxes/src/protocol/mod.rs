//! The conversation between the host and a guest: an interpreter with the untrusted program in it, and with the harness, which is this project's. All sandboxes share it.
//!
//! The guest sends requests and the host answers them. Each sandbox has its own way to transport requests and answers. `program_conversation` and
//! `test_conversation` are the host's side, `guest/*.py` is the harness. `arguments` checks the arguments that the host is about to send.

pub(crate) mod arguments;
pub mod marshal;
pub(crate) mod program_conversation;
pub(crate) mod test_conversation;
pub(crate) mod whole_program;

use crate::{End, SandboxError};

pub(crate) use program_conversation::ProgramConversation;
pub(crate) use test_conversation::{Reply, TestConversation};

/// The harness: files that are executed as one file. The host trusts nothing that it sends, since the program runs beside it.
pub(crate) const HARNESS: &str = concat!(
    include_str!("../../guest/values.py"),
    "\n",
    include_str!("../../guest/between.py"),
    "\n",
    include_str!("../../guest/conversation.py"),
    "\n",
    include_str!("../../guest/library.py"),
    "\n",
    include_str!("../../guest/judge.py"),
    "\n",
    include_str!("../../guest/defined_names.py"),
    "\n",
    include_str!("../../guest/event_loop.py"),
    "\n",
    include_str!("../../guest/whole_program.py"),
);

/// Python that defines `_rapid_patch_asyncio`. It makes asyncio work in a sandbox.
pub const EVENT_LOOP: &str = include_str!("../../guest/event_loop.py");

/// The imports of every warm interpreter.
pub(crate) const IMPORTS: &str = include_str!("../../guest/imports.py");

// The JSON form of an ASCII text is a Python literal.
const _: () = assert!(HARNESS.is_ascii() && IMPORTS.is_ascii());

/// Room in a request for everything except values, in bytes.
const SLACK: usize = 64 << 10;

/// Whether the guest waits for the answer to `request`. The answer to any other request is empty, and a transport may leave it out.
pub(crate) fn is_answered(request: &[u8]) -> bool {
    matches!(request.first(), Some(b'J' | b'N' | b'C' | b'A'))
}

/// Why a conversation cannot continue.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Broken {
    /// The guest sent a request that the harness never sends.
    #[error("the program broke the protocol: {0}")]
    Protocol(&'static str),
    /// The task's own test code cannot be run here. This says nothing about the program.
    #[error("{0}")]
    Task(String),
    /// The text that the host had to write for the program's results has cost all fuel.
    #[error("the fuel was used up")]
    Fuel,
    /// The watch ended the run.
    #[error("the watch ended the run")]
    Watched,
}

impl Broken {
    /// How a run ends if its conversation cannot continue.
    ///
    /// # Errors
    /// [`SandboxError::Unusable`] if that says nothing about the program.
    pub(crate) fn end(self) -> Result<End, SandboxError> {
        match self {
            Broken::Protocol(_) => Ok(End::Died(self.to_string())),
            Broken::Fuel => Ok(End::OutOfFuel),
            Broken::Watched => Ok(End::Watched),
            Broken::Task(problem) => Err(SandboxError::Unusable(problem)),
        }
    }
}

/// The end of a program if its instance stops while the host expects further requests.
pub(crate) fn broken_off() -> End {
    End::Died("the program broke the conversation off".to_owned())
}
