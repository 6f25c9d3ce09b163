//! The kernel's side of the conversation: one question after another, each judged on a thread with a stack of its own.

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;

use kernel::{Axioms, Budget, Error, Fault, Library};

use super::libraries::Libraries;
use super::wire::{self, CheckReply, CheckRequest, HELLO};

/// The code with which a process leaves that has no room for a thread.
pub(super) const NO_ROOM: i32 = 12;

/// Limits this process, and answers what is asked through `from` until that ends. Modules are looked for in `folders`. For the process that [`super::Kernels`] starts.
///
/// # Errors
/// Where the system refuses the limits, or what is read is no question.
pub fn serve(
    folders: Vec<PathBuf>,
    memory_mib: u64,
    mut from: impl Read,
    mut to: impl Write,
) -> io::Result<()> {
    // The stack counts, whether it is used or not.
    let bytes = (memory_mib << 20).saturating_add(kernel::STACK_BYTES as u64);
    sandboxes::lean::confine(bytes)?;
    wire::answer(&mut to, 0, CheckReply::Hello(HELLO.to_owned()))?;
    let libraries = Libraries::new(folders);
    let mut statement = None;
    while let Some(question) = wire::question(&mut from)? {
        let files = question.files;
        let said = match question.ask {
            CheckRequest::Statement {
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
                let opened = on_a_thread(|| Statement::open(&libraries, files, axioms, budget))?;
                match opened {
                    Some(Ok(opened)) => {
                        statement = Some(opened);
                        CheckReply::Ready
                    }
                    Some(Err(reason)) => CheckReply::Task(reason),
                    None => CheckReply::Task(FAILED.to_owned()),
                }
            }
            CheckRequest::Alone => {
                let about = known(statement.as_ref())?;
                match on_a_thread(|| about.check_statement())? {
                    Some(Ok(())) => CheckReply::Ready,
                    Some(Err(reason)) => CheckReply::Task(reason),
                    None => CheckReply::Task(FAILED.to_owned()),
                }
            }
            CheckRequest::Proof => {
                let about = known(statement.as_ref())?;
                on_a_thread(|| about.proved_by(files))?.map_or(CheckReply::Failed, said)
            }
        };
        wire::answer(&mut to, question.number, said)?;
    }
    Ok(())
}

/// Why a statement is refused on which the kernel panics.
const FAILED: &str = "the kernel failed on this statement; please report it";

/// What a question was last asked about.
struct Statement {
    library: Arc<Library>,
    asked: Vec<Vec<u8>>,
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
            library: libraries.of(&files)?,
            asked: files,
            theorem,
            axioms,
            budget,
        })
    }
}

fn known(statement: Option<&Statement>) -> io::Result<kernel::Question<'_>> {
    let statement =
        statement.ok_or_else(|| io::Error::other("a question about no statement was asked"))?;
    Ok(kernel::Question {
        library: &statement.library,
        statement: &statement.asked,
        theorem: &statement.theorem,
        axioms: statement.axioms,
        budget: statement.budget,
    })
}

fn said(judged: Result<Option<Vec<String>>, Fault>) -> CheckReply {
    match judged {
        Ok(axioms) => CheckReply::Proved(axioms),
        Err(Fault::Task(reason)) => CheckReply::Task(reason),
        Err(Fault::Proof(Error::Rejected(reason))) => CheckReply::Rejected(reason),
        Err(Fault::Proof(Error::Unreadable(reason))) => CheckReply::Unreadable(reason),
        Err(Fault::Proof(Error::Budget)) => CheckReply::Budget,
    }
}

/// What `work` returns, on a thread with the stack that judgements need; `None` where it panics.
pub(super) fn on_a_thread<T: Send>(work: impl FnOnce() -> T + Send) -> io::Result<Option<T>> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name("lean-kernel".to_owned())
            .stack_size(kernel::STACK_BYTES);
        match thread.spawn_scoped(scope, work) {
            Ok(thread) => Ok(thread.join().ok()),
            Err(_) => std::process::exit(NO_ROOM),
        }
    })
}
