//! Where the kernel runs: in a process of its own, since what it reads is hostile.
//!
//! ```text
//! kernels    the processes, as the verifier starts, asks and replaces them
//! wire       what both sides say to each other
//! child      what such a process does
//! libraries  what it has opened
//! ```

mod child;
mod kernels;
mod libraries;
mod wire;

use std::path::PathBuf;

use kernel::{Axioms, Budget, Error, Fault};

pub use self::child::serve;
pub use self::kernels::Kernels;
use self::libraries::Libraries;

/// A statement that proofs are compared with.
#[derive(Clone, Copy)]
pub(super) struct Statement<'a> {
    /// The compiled module in which it stands.
    pub asked: &'a [Vec<u8>],
    /// The theorem's name.
    pub theorem: &'a str,
    /// How far it is followed what a proof rests on.
    pub axioms: Axioms,
}

/// Why a proof is not accepted, or not judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Objection {
    /// The statement or its library is at fault.
    Task(String),
    /// The proof is.
    Proof(Error),
    /// The kernel panicked.
    Failed,
    /// The kernel's process was ended by this proof, twice.
    Ended(Ended),
    /// There is no process: why, and what to do. Another time there may be one.
    Absent(String),
}

/// How a proof ended the kernel's process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ended {
    /// It took more processor time than this, in seconds.
    Late(u64),
    /// It needed more than this, in MiB.
    Memory(u64),
    /// It crashed.
    Crashed(String),
}

/// What a proof rests on; nothing for [`Axioms::Named`].
pub(super) type Judged = Result<Option<Vec<String>>, Objection>;

/// Where proofs are checked.
pub(super) enum Checker {
    /// In this process. For tests: nothing but the kernel's own budget bounds what a proof may do.
    Here(Box<Libraries>),
    /// In processes that are started for it.
    Apart(Kernels),
}

impl Checker {
    /// In this process, with the modules in `folders`.
    pub(super) fn here(folders: Vec<PathBuf>) -> Self {
        Checker::Here(Box::new(Libraries::new(folders)))
    }

    /// Opens the library of a statement: [`Objection::Task`] where that cannot be read, or [`Objection::Absent`].
    pub(super) fn open(&self, statement: Statement<'_>) -> Result<(), Objection> {
        match self {
            Checker::Here(libraries) => {
                let library = libraries.of(statement.asked);
                library.map(drop).map_err(Objection::Task)
            }
            Checker::Apart(kernels) => kernels.open(statement),
        }
    }

    /// Whether the compiled module `files` proves a statement; and whether one try was enough.
    pub(super) fn judge(&self, statement: Statement<'_>, files: &[Vec<u8>]) -> (Judged, bool) {
        match self {
            Checker::Here(libraries) => (judged_here(libraries, statement, files), true),
            Checker::Apart(kernels) => kernels.judge(statement, files),
        }
    }
}

fn judged_here(libraries: &Libraries, statement: Statement<'_>, files: &[Vec<u8>]) -> Judged {
    let library = libraries.of(statement.asked).map_err(Objection::Task)?;
    let question = kernel::Question {
        library: &library,
        statement: statement.asked,
        theorem: statement.theorem,
        axioms: statement.axioms,
        budget: Budget::default(),
    };
    let judged = child::on_a_thread(|| question.proved_by(files.to_vec()));
    match judged {
        Err(error) => Err(Objection::Absent(format!(
            "the system gives no thread to check a proof in: {error}"
        ))),
        Ok(None) => Err(Objection::Failed),
        Ok(Some(judged)) => judged.map_err(|fault| match fault {
            Fault::Task(reason) => Objection::Task(reason),
            Fault::Proof(error) => Objection::Proof(error),
        }),
    }
}
