//! A question to the kernel, and its answer.

use kernel::{Axioms, Error};

/// A statement that proofs are checked against.
#[derive(Clone, Copy)]
pub(in crate::grade::lean) struct Statement<'a> {
    /// The files of its compiled module.
    pub module: &'a [Vec<u8>],
    /// The theorem's name.
    pub theorem: &'a str,
    /// Whether axiom dependencies are checked transitively.
    pub axioms: Axioms,
}

/// Why a proof is not accepted, or could not be checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::grade::lean) enum CheckFailure {
    /// The statement or its library is faulty.
    Task(String),
    /// The proof is faulty.
    Proof(Error),
    /// The kernel panicked.
    Failed,
    /// This proof ended the kernel's process, twice.
    Ended(KernelExit),
    /// No kernel process is available: why, and what to do. Another try may succeed.
    Unavailable(String),
}

/// How a process of the kernel ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::grade::lean) enum KernelExit {
    /// It exceeded this time limit, in seconds of processor time.
    Late(u64),
    /// It exceeded this memory limit, in MiB.
    Memory(u64),
    /// It crashed.
    Crashed(String),
}

/// The axioms that an accepted proof depends on; `None` for [`Axioms::Named`].
pub(in crate::grade::lean) type CheckResult = Result<Option<Vec<String>>, CheckFailure>;
