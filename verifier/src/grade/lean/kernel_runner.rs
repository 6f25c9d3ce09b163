//! Runs the kernel in separate processes, because it reads hostile modules.
//!
//! ```text
//! kernels    the pool of processes: starts, queries and replaces them
//! wire       the protocol between the verifier and a process
//! check      a question of the verifier, and its answer
//! child      the program of such a process
//! libraries  the libraries that a process has opened
//! ```

mod check;
mod child;
mod kernels;
mod libraries;
mod wire;

use std::path::PathBuf;

use kernel::{Budget, Fault};

pub(super) use self::check::{CheckFailure, CheckResult, KernelExit, Statement};
pub use self::child::serve;
pub use self::kernels::Kernels;
use self::libraries::Libraries;

/// Checks proofs, in this process or in others.
pub(super) enum KernelRunner {
    /// In this process. For tests: only the kernel's own budget limits a proof.
    InProcess(Box<Libraries>),
    /// In separate processes.
    Subprocess(Box<Kernels>),
}

impl KernelRunner {
    /// A runner in this process, with the modules in `folders`.
    pub(super) fn in_process(folders: Vec<PathBuf>) -> Self {
        KernelRunner::InProcess(Box::new(Libraries::new(folders)))
    }

    /// Opens the library of a statement.
    ///
    /// # Errors
    /// [`CheckFailure::Task`] if the library cannot be read, or [`CheckFailure::Unavailable`].
    pub(super) fn open(&self, statement: Statement<'_>) -> Result<(), CheckFailure> {
        match self {
            KernelRunner::InProcess(libraries) => {
                let library = libraries.library_of(statement.module);
                library.map(drop).map_err(CheckFailure::Task)
            }
            KernelRunner::Subprocess(kernels) => kernels.open(statement),
        }
    }

    /// Checks whether the compiled module `files` proves a statement. Also returns whether one try was enough.
    pub(super) fn judge(&self, statement: Statement<'_>, files: &[Vec<u8>]) -> (CheckResult, bool) {
        match self {
            KernelRunner::InProcess(libraries) => {
                (check_in_process(libraries, statement, files), true)
            }
            KernelRunner::Subprocess(kernels) => kernels.judge(statement, files),
        }
    }
}

fn check_in_process(
    libraries: &Libraries,
    statement: Statement<'_>,
    files: &[Vec<u8>],
) -> CheckResult {
    let library = libraries
        .library_of(statement.module)
        .map_err(CheckFailure::Task)?;
    let question = kernel::TheoremCheck {
        library: &library,
        statement: statement.module,
        theorem: statement.theorem,
        axioms: statement.axioms,
        budget: Budget::default(),
    };
    let judged = child::run_on_kernel_thread(|| question.proved_by(files.to_vec()));
    match judged {
        Err(error) => Err(CheckFailure::Unavailable(format!(
            "no thread could be started to check a proof: {error}"
        ))),
        Ok(None) => Err(CheckFailure::Failed),
        Ok(Some(judged)) => judged.map_err(|fault| match fault {
            Fault::Task(reason) => CheckFailure::Task(reason),
            Fault::Proof(error) => CheckFailure::Proof(error),
        }),
    }
}
