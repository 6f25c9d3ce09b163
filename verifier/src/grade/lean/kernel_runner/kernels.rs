//! The pool of processes that check proofs. Each checks one proof at a time, is reused for the next, and is replaced if it misbehaves.

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use futures::executor::block_on;
use kernel::{AXIOMS, Axioms, Budget, Error};
use sandboxes::lean::{EndCause, HelperCommand, HelperProcess, Jail};
use tokio::sync::Semaphore;

use super::check::{CheckFailure, CheckResult, KernelExit, Statement};
use super::child::EXIT_NO_MEMORY;
use super::wire::{self, HELLO, MAX_FILE, RequestKind, ResponseKind};
use crate::mutex::lock;

/// Limit for a proof, in seconds of processor time. The kernel counts its steps and stops after some 5 seconds; this is the backstop for uncounted work.
const PROOF_SECONDS: u64 = 120;
/// SIGKILL. The system ends a process with it if memory is short.
const SIGKILL: i32 = 9;
/// The beginning of the runtime's message after a failed allocation.
const ALLOCATION_FAILED: &str = "memory allocation of ";

/// Starts, queries and replaces the kernel's processes.
pub struct Kernels {
    launch: HelperCommand,
    memory_mib: u64,
    /// Time limit for starting a process or opening a library, in seconds.
    start_seconds: u64,
    /// A permit for each process that may work at a time.
    permits: Semaphore,
    idle: Mutex<Vec<Kernel>>,
}

impl Kernels {
    /// `program` is this project's `rapid-verifier`. It is started as `rapid-verifier kernel` with the folders of compiled modules. Each process may use `memory_mib`
    /// besides its stack, and `start_seconds` to start or to open a library.
    pub fn new(
        program: &std::path::Path,
        folders: Vec<PathBuf>,
        jail: Jail,
        secrets: Vec<PathBuf>,
        memory_mib: u64,
        start_seconds: u64,
        max_processes: usize,
    ) -> Self {
        let mut words = vec![
            program.to_string_lossy().into_owned(),
            "kernel".to_owned(),
            format!("--memory-mib={memory_mib}"),
            "--".to_owned(),
        ];
        let folder = |folder: &PathBuf| folder.to_string_lossy().into_owned();
        words.extend(folders.iter().map(folder));
        Self {
            launch: HelperCommand {
                words,
                jail,
                shown: folders,
                secrets,
                env: Vec::new(),
                dir: PathBuf::from("/"),
                log: None,
            },
            memory_mib,
            start_seconds,
            permits: Semaphore::new(max_processes.clamp(1, Semaphore::MAX_PERMITS)),
            idle: Mutex::default(),
        }
    }

    pub(super) fn open(&self, statement: Statement<'_>) -> Result<(), CheckFailure> {
        let _permit = block_on(self.permits.acquire());
        let kernel = self.kernel_for(statement, true)?;
        lock(&self.idle).push(kernel);
        Ok(())
    }

    pub(super) fn judge(&self, statement: Statement<'_>, files: &[Vec<u8>]) -> (CheckResult, bool) {
        if files.iter().any(|file| file.len() > MAX_FILE) {
            let why = format!("a file of it is larger than {} MiB", MAX_FILE >> 20);
            return (Err(CheckFailure::Proof(Error::Unreadable(why))), true);
        }
        let files: Vec<&[u8]> = files.iter().map(Vec::as_slice).collect();
        let _permit = block_on(self.permits.acquire());
        let mut ended = KernelExit::Crashed(String::new());
        for attempt in 0..2 {
            let mut kernel = match self.kernel_for(statement, attempt == 0) {
                Ok(kernel) => kernel,
                Err(failure) => return (Err(failure), attempt == 0),
            };
            match kernel.judge(&files, statement.axioms) {
                Some(result) => {
                    lock(&self.idle).push(kernel);
                    return (result, attempt == 0);
                }
                None => ended = self.classify_exit(kernel, PROOF_SECONDS),
            }
            tracing::warn!("a proof ended the process of the kernel: {ended:?}");
        }
        // The proof is not the cause if the statement alone ends the process too.
        let alone = self.kernel_for(statement, false).and_then(|mut kernel| {
            match kernel.request(RequestKind::Alone, &[], PROOF_SECONDS) {
                Some(ResponseKind::Ready) => {
                    lock(&self.idle).push(kernel);
                    Ok(())
                }
                Some(ResponseKind::Task(reason)) => Err(CheckFailure::Task(reason)),
                _ => Err(self.unavailable(self.classify_exit(kernel, PROOF_SECONDS))),
            }
        });
        let failure = alone.err().unwrap_or(CheckFailure::Ended(ended));
        (Err(failure), false)
    }

    /// A process that has opened the statement's library: a new one, or an idle one if `reuse`.
    fn kernel_for(&self, statement: Statement<'_>, reuse: bool) -> Result<Kernel, CheckFailure> {
        let Budget { steps, terms } = Budget::default();
        let ask = RequestKind::Statement {
            followed: statement.axioms == Axioms::Followed,
            steps,
            terms,
        };
        let mut files = vec![statement.theorem.as_bytes()];
        files.extend(statement.module.iter().map(Vec::as_slice));
        if files.iter().any(|file| file.len() > MAX_FILE) {
            let why = format!("a file of it is larger than {} MiB", MAX_FILE >> 20);
            return Err(CheckFailure::Task(why));
        }
        let mut ended = KernelExit::Crashed(String::new());
        // An idle process may have ended meanwhile. At most two new ones are started.
        let mut started = 0;
        while started < 2 {
            let idle = reuse.then(|| lock(&self.idle).pop()).flatten();
            let mut kernel = match idle {
                Some(kernel) if kernel.process.is_alive() => kernel,
                Some(_) => continue,
                None => {
                    started += 1;
                    match self.start() {
                        Ok(kernel) => kernel,
                        Err(why) => {
                            ended = why;
                            continue;
                        }
                    }
                }
            };
            match kernel.request(ask, &files, self.start_seconds) {
                Some(ResponseKind::Ready) => return Ok(kernel),
                Some(ResponseKind::Task(reason)) => {
                    lock(&self.idle).push(kernel);
                    return Err(CheckFailure::Task(reason));
                }
                _ => ended = self.classify_exit(kernel, self.start_seconds),
            }
        }
        Err(self.unavailable(ended))
    }

    fn start(&self) -> Result<Kernel, KernelExit> {
        let process = HelperProcess::start(&self.launch)
            .map_err(|error| KernelExit::Crashed(error.to_string()))?;
        let mut kernel = Kernel { process, number: 0 };
        match kernel.read_response(self.start_seconds) {
            Some(ResponseKind::Hello(hello)) if hello == HELLO => Ok(kernel),
            Some(_) => Err(KernelExit::Crashed(
                "it is of another version; start the service again".to_owned(),
            )),
            None => Err(self.classify_exit(kernel, self.start_seconds)),
        }
    }

    fn unavailable(&self, ended: KernelExit) -> CheckFailure {
        let program = self.launch.words.first().map_or("", String::as_str);
        let why = match ended {
            KernelExit::Late(seconds) => format!(
                "took longer than {seconds} seconds to start, or to open what the header imports; raise lean.start_seconds"
            ),
            KernelExit::Memory(mib) => format!(
                "needed more than {mib} MiB of memory for the statement alone; raise lean.memory_mib"
            ),
            KernelExit::Crashed(why) => format!(
                "did not start, or ended: {why}. Check that this user may run that file, in a jail of bubblewrap if lean.jail is bubblewrap"
            ),
        };
        CheckFailure::Unavailable(format!(
            "the process that checks proofs (`{program} kernel`) {why}"
        ))
    }

    /// Ends a process that gave no valid response, and classifies its exit.
    fn classify_exit(&self, kernel: Kernel, seconds: u64) -> KernelExit {
        let end = kernel.process.end();
        let no_memory = end
            .stderr
            .lines()
            .any(|line| line.starts_with(ALLOCATION_FAILED));
        match end.cause {
            EndCause::Late => KernelExit::Late(seconds),
            EndCause::Signal(SIGKILL) | EndCause::Exited(EXIT_NO_MEMORY) => {
                KernelExit::Memory(self.memory_mib)
            }
            EndCause::Signal(_) if no_memory => KernelExit::Memory(self.memory_mib),
            EndCause::Signal(signal) => {
                KernelExit::Crashed(format!("signal {signal}; {}", end.last_line()))
            }
            EndCause::Exited(code) => {
                KernelExit::Crashed(format!("code {code}; {}", end.last_line()))
            }
            EndCause::Dismissed => KernelExit::Crashed("it answered without a request".to_owned()),
        }
    }
}

/// A process, and the number of requests it was sent.
struct Kernel {
    process: HelperProcess,
    number: u64,
}

impl Kernel {
    /// Sends a request and returns the response. `None` if there is no response in time, or it is malformed; the process is then not used again.
    fn request(&mut self, ask: RequestKind, files: &[&[u8]], seconds: u64) -> Option<ResponseKind> {
        self.number += 1;
        self.process.allow(Some(Duration::from_secs(seconds)));
        wire::write_request(&mut self.process, self.number, ask, files).ok()?;
        self.read_response(seconds)
    }

    fn read_response(&mut self, seconds: u64) -> Option<ResponseKind> {
        self.process.allow(Some(Duration::from_secs(seconds)));
        let response = wire::read_response(&mut self.process, self.number).ok()?;
        self.process.allow(None);
        Some(response)
    }

    fn judge(&mut self, files: &[&[u8]], axioms: Axioms) -> Option<CheckResult> {
        Some(
            match self.request(RequestKind::Proof, files, PROOF_SECONDS)? {
                ResponseKind::Proved(used) if are_allowed(used.as_deref(), axioms) => Ok(used),
                ResponseKind::Task(reason) => Err(CheckFailure::Task(reason)),
                ResponseKind::Rejected(reason) => Err(CheckFailure::Proof(Error::Rejected(reason))),
                ResponseKind::Unreadable(reason) => {
                    Err(CheckFailure::Proof(Error::Unreadable(reason)))
                }
                ResponseKind::Budget => Err(CheckFailure::Proof(Error::Budget)),
                ResponseKind::Failed => Err(CheckFailure::Failed),
                ResponseKind::Proved(_) | ResponseKind::Hello(_) | ResponseKind::Ready => {
                    return None;
                }
            },
        )
    }
}

/// Whether a proof that depends on these axioms may be accepted. [`Axioms::Named`] lists none.
fn are_allowed(used: Option<&[String]>, axioms: Axioms) -> bool {
    match (used, axioms) {
        (Some(used), Axioms::Followed) => used.iter().all(|axiom| AXIOMS.contains(&axiom.as_str())),
        (used, Axioms::Named) => used.is_none(),
        (None, Axioms::Followed) => false,
    }
}
