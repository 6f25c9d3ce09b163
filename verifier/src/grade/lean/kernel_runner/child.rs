//! The program of a kernel process: it handles one request after another, each on a thread with a large stack.

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;

use kernel::{Axioms, Budget, Error, Fault, Library};

use super::libraries::Libraries;
use super::wire::{self, HELLO, RequestKind, ResponseKind};

/// The exit code of a process that lacks the memory for a thread.
pub(super) const EXIT_NO_MEMORY: i32 = 12;

/// The main function of a process that [`super::Kernels`] starts. Limits the memory of this process, and answers requests from `from` until the stream ends. `folders`
/// have the compiled modules.
///
/// # Errors
/// If the system refuses the limits, or a request is malformed.
pub fn serve(
    folders: Vec<PathBuf>,
    memory_mib: u64,
    mut from: impl Read,
    mut to: impl Write,
) -> io::Result<()> {
    // The whole stack counts as memory, used or not.
    let bytes = (memory_mib << 20).saturating_add(kernel::STACK_BYTES as u64);
    sandboxes::lean::confine(bytes)?;
    wire::write_response(&mut to, 0, ResponseKind::Hello(HELLO.to_owned()))?;
    let libraries = Libraries::new(folders);
    let mut statement = None;
    while let Some((request, files)) = wire::read_request(&mut from)? {
        let response = match request.ask {
            RequestKind::Statement {
                followed,
                steps,
                terms,
            } => {
                let axioms = if followed {
                    Axioms::Followed
                } else {
                    Axioms::Named
                };
                let budget = Budget { steps, terms };
                let opened =
                    run_on_kernel_thread(|| Statement::open(&libraries, files, axioms, budget))?;
                task_response(opened.map(|result| result.map(|new| statement = Some(new))))
            }
            RequestKind::Alone => {
                let question = current_check(statement.as_ref())?;
                task_response(run_on_kernel_thread(|| question.check_statement())?)
            }
            RequestKind::Proof => {
                let question = current_check(statement.as_ref())?;
                run_on_kernel_thread(|| question.proved_by(files))?
                    .map_or(ResponseKind::Failed, proof_response)
            }
        };
        wire::write_response(&mut to, request.number, response)?;
    }
    Ok(())
}

/// The reason for refusing a statement if the kernel panics on it.
const FAILED: &str = "the kernel failed on this statement; please report it";

/// The statement of the current requests.
struct Statement {
    library: Arc<Library>,
    module: Vec<Vec<u8>>,
    theorem: String,
    axioms: Axioms,
    budget: Budget,
}

impl Statement {
    fn open(
        libraries: &Libraries,
        mut files: Vec<Vec<u8>>,
        axioms: Axioms,
        budget: Budget,
    ) -> Result<Self, String> {
        if files.is_empty() {
            return Err("a statement without a name".to_owned());
        }
        let theorem = String::from_utf8_lossy(&files.remove(0)).into_owned();
        Ok(Self {
            library: libraries.library_of(&files)?,
            module: files,
            theorem,
            axioms,
            budget,
        })
    }
}

fn current_check(statement: Option<&Statement>) -> io::Result<kernel::TheoremCheck<'_>> {
    let statement =
        statement.ok_or_else(|| io::Error::other("a request came before its statement"))?;
    Ok(kernel::TheoremCheck {
        library: &statement.library,
        statement: &statement.module,
        theorem: &statement.theorem,
        axioms: statement.axioms,
        budget: statement.budget,
    })
}

fn task_response(result: Option<Result<(), String>>) -> ResponseKind {
    match result {
        Some(Ok(())) => ResponseKind::Ready,
        Some(Err(reason)) => ResponseKind::Task(reason),
        None => ResponseKind::Task(FAILED.to_owned()),
    }
}

fn proof_response(result: Result<Option<Vec<String>>, Fault>) -> ResponseKind {
    match result {
        Ok(axioms) => ResponseKind::Proved(axioms),
        Err(Fault::Task(reason)) => ResponseKind::Task(reason),
        Err(Fault::Proof(Error::Rejected(reason))) => ResponseKind::Rejected(reason),
        Err(Fault::Proof(Error::Unreadable(reason))) => ResponseKind::Unreadable(reason),
        Err(Fault::Proof(Error::Budget)) => ResponseKind::Budget,
    }
}

/// Runs `work` on a thread with the stack that the kernel needs; `None` if it panics.
pub(super) fn run_on_kernel_thread<T: Send>(
    work: impl FnOnce() -> T + Send,
) -> io::Result<Option<T>> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name("lean-kernel".to_owned())
            .stack_size(kernel::STACK_BYTES);
        match thread.spawn_scoped(scope, work) {
            Ok(thread) => Ok(thread.join().ok()),
            Err(_) => std::process::exit(EXIT_NO_MEMORY),
        }
    })
}
