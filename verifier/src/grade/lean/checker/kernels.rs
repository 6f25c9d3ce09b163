//! The processes in which proofs are checked: as many as proofs are checked at a time, each kept for the next proof, and replaced once it does what it should not.

use std::path::PathBuf;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kernel::{AXIOMS, Axioms, Budget, Error};
use sandboxes::lean::{Allowance, Companion, CompanionCommand, EndCause, Jail};

use super::child::NO_ROOM;
use super::wire::{self, CheckReply, CheckRequest, HELLO, MAX_FILE};
use super::{Ended, Judged, Objection, Statement};

/// Seconds of processor time for a proof. The kernel counts its steps and gives up after some 5 seconds; this is for what it does not count.
const PROOF_SECONDS: u64 = 120;
/// EndCause much more of the clock's time there is than of the processor's, on a machine that does other things too.
const CLOCK: u32 = 5;
/// The signal of who ends a process from outside: the system, where it is out of memory.
const KILLED: i32 = 9;
/// EndCause the runtime begins what it says where there is no memory.
const NO_MEMORY: &str = "memory allocation of ";

/// Starts, asks and replaces the kernel's processes.
pub struct Kernels {
    launch: CompanionCommand,
    memory_mib: u64,
    /// For starting one and for opening a library.
    start_seconds: u64,
    /// Processes at a time.
    most: usize,
    idle: Mutex<Idle>,
    returned: Condvar,
}

#[derive(Default)]
struct Idle {
    kernels: Vec<Kernel>,
    /// Who asks, or is about to.
    busy: usize,
}

impl Kernels {
    /// `program` is this project's `rapid-verifier`, which is started as `rapid-verifier kernel` with the folders of compiled modules; each process may have
    /// `memory_mib` besides its stack, and `start_seconds` to start and to open a library.
    #[must_use]
    pub fn new(
        program: &std::path::Path,
        folders: Vec<PathBuf>,
        jail: Jail,
        secrets: Vec<PathBuf>,
        memory_mib: u64,
        start_seconds: u64,
        most: usize,
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
            launch: CompanionCommand {
                words,
                jail,
                shown: folders,
                secrets,
            },
            memory_mib,
            start_seconds,
            most: most.max(1),
            idle: Mutex::default(),
            returned: Condvar::new(),
        }
    }

    pub(super) fn open(&self, statement: Statement<'_>) -> Result<(), Objection> {
        let _turn = self.turn();
        let kernel = self.about(statement, true)?;
        self.put_back(kernel);
        Ok(())
    }

    pub(super) fn judge(&self, statement: Statement<'_>, files: &[Vec<u8>]) -> (Judged, bool) {
        if files.iter().any(|file| file.len() > MAX_FILE) {
            let why = format!("a file of it is larger than {} MiB", MAX_FILE >> 20);
            return (Err(Objection::Proof(Error::Unreadable(why))), true);
        }
        let files: Vec<&[u8]> = files.iter().map(Vec::as_slice).collect();
        let _turn = self.turn();
        let mut ended = Ended::Crashed(String::new());
        for attempt in 0..2 {
            let mut kernel = match self.about(statement, attempt == 0) {
                Ok(kernel) => kernel,
                Err(objection) => return (Err(objection), attempt == 0),
            };
            match kernel.judge(&files, statement.axioms) {
                Some(judged) => {
                    self.put_back(kernel);
                    return (judged, attempt == 0);
                }
                None => ended = self.end_of(kernel, PROOF_SECONDS),
            }
            tracing::warn!("a proof ended the process of the kernel: {ended:?}");
        }
        // Not the proof's doing where the statement does the same.
        let alone = self.about(statement, false).and_then(|mut kernel| {
            match kernel.ask(CheckRequest::Alone, &[], PROOF_SECONDS) {
                Some(CheckReply::Ready) => {
                    self.put_back(kernel);
                    Ok(())
                }
                Some(CheckReply::Task(reason)) => Err(Objection::Task(reason)),
                _ => Err(self.absent(self.end_of(kernel, PROOF_SECONDS))),
            }
        });
        (Err(alone.err().unwrap_or(Objection::Ended(ended))), false)
    }

    /// A process that has opened the statement's library: one that waits, or a new one.
    fn about(&self, statement: Statement<'_>, known: bool) -> Result<Kernel, Objection> {
        let ask = CheckRequest::statement(statement.axioms, Budget::default());
        let mut files = vec![statement.theorem.as_bytes()];
        files.extend(statement.asked.iter().map(Vec::as_slice));
        if files.iter().any(|file| file.len() > MAX_FILE) {
            let why = format!("a file of it is larger than {} MiB", MAX_FILE >> 20);
            return Err(Objection::Task(why));
        }
        let mut ended = Ended::Crashed(String::new());
        // One that waited may have ended meanwhile; a new one is tried twice.
        let mut fresh = 0;
        while fresh < 2 {
            let idle = known.then(|| self.locked().kernels.pop()).flatten();
            let mut kernel = match idle {
                Some(kernel) if kernel.companion.is_alive() => kernel,
                Some(_) => continue,
                None => {
                    fresh += 1;
                    match self.start() {
                        Ok(kernel) => kernel,
                        Err(why) => {
                            ended = why;
                            continue;
                        }
                    }
                }
            };
            match kernel.ask(ask, &files, self.start_seconds) {
                Some(CheckReply::Ready) => return Ok(kernel),
                Some(CheckReply::Task(reason)) => {
                    self.put_back(kernel);
                    return Err(Objection::Task(reason));
                }
                _ => ended = self.end_of(kernel, self.start_seconds),
            }
        }
        Err(self.absent(ended))
    }

    fn start(&self) -> Result<Kernel, Ended> {
        let companion =
            Companion::start(&self.launch).map_err(|error| Ended::Crashed(error.to_string()))?;
        let mut kernel = Kernel {
            companion,
            number: 0,
        };
        match kernel.answer(self.start_seconds) {
            Some(CheckReply::Hello(hello)) if hello == HELLO => Ok(kernel),
            Some(_) => Err(Ended::Crashed(
                "it is of another version; start the service again".to_owned(),
            )),
            None => Err(self.end_of(kernel, self.start_seconds)),
        }
    }

    fn absent(&self, ended: Ended) -> Objection {
        let program = self.launch.words.first().map_or("", String::as_str);
        let why = match ended {
            Ended::Late(seconds) => format!(
                "took longer than {seconds} seconds to start, or to open what the header imports; raise lean.start_seconds"
            ),
            Ended::Memory(mib) => format!(
                "needed more than {mib} MiB of memory for the statement alone; raise lean.memory_mib"
            ),
            Ended::Crashed(why) => format!(
                "did not start, or ended: {why}. See that this user may run that file, in a jail of bubblewrap where lean.jail says so"
            ),
        };
        Objection::Absent(format!(
            "the process that checks proofs (`{program} kernel`) {why}"
        ))
    }

    /// EndCause a process ended that gave no answer, or none that it may give.
    fn end_of(&self, kernel: Kernel, seconds: u64) -> Ended {
        let end = kernel.companion.end();
        let no_memory = end.stderr.lines().any(|line| line.starts_with(NO_MEMORY));
        match end.cause {
            EndCause::Late => Ended::Late(seconds),
            EndCause::Signal(KILLED) | EndCause::Exited(NO_ROOM) => Ended::Memory(self.memory_mib),
            EndCause::Signal(_) if no_memory => Ended::Memory(self.memory_mib),
            EndCause::Signal(signal) => {
                Ended::Crashed(format!("signal {signal}; {}", end.last_line()))
            }
            EndCause::Exited(code) => Ended::Crashed(format!("code {code}; {}", end.last_line())),
            EndCause::Dismissed => Ended::Crashed("it answered what was not asked".to_owned()),
        }
    }

    /// Waits until there is room for another process that works.
    fn turn(&self) -> Turn<'_> {
        let mut idle = self
            .returned
            .wait_while(self.locked(), |idle| idle.busy >= self.most)
            .unwrap_or_else(PoisonError::into_inner);
        idle.busy += 1;
        Turn(self)
    }

    fn put_back(&self, kernel: Kernel) {
        self.locked().kernels.push(kernel);
    }

    fn locked(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Leave to have a process work.
struct Turn<'a>(&'a Kernels);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.locked().busy -= 1;
        self.0.returned.notify_one();
    }
}

/// A process, and how many questions it was asked.
struct Kernel {
    companion: Companion,
    number: u64,
}

impl Kernel {
    /// The answer to a question; `None` where there is none in time, or it is no answer. Such a process is asked nothing more.
    fn ask(&mut self, ask: CheckRequest, files: &[&[u8]], seconds: u64) -> Option<CheckReply> {
        self.number += 1;
        self.companion.allow(Some(allowance(seconds)));
        wire::ask(&mut self.companion, self.number, ask, files).ok()?;
        self.answer(seconds)
    }

    fn answer(&mut self, seconds: u64) -> Option<CheckReply> {
        self.companion.allow(Some(allowance(seconds)));
        let said = wire::answered(&mut self.companion, self.number).ok()?;
        self.companion.allow(None);
        Some(said)
    }

    fn judge(&mut self, files: &[&[u8]], axioms: Axioms) -> Option<Judged> {
        Some(match self.ask(CheckRequest::Proof, files, PROOF_SECONDS)? {
            CheckReply::Proved(found) if may_rest_on(found.as_deref(), axioms) => Ok(found),
            CheckReply::Task(reason) => Err(Objection::Task(reason)),
            CheckReply::Rejected(reason) => Err(Objection::Proof(Error::Rejected(reason))),
            CheckReply::Unreadable(reason) => Err(Objection::Proof(Error::Unreadable(reason))),
            CheckReply::Budget => Err(Objection::Proof(Error::Budget)),
            CheckReply::Failed => Err(Objection::Failed),
            CheckReply::Proved(_) | CheckReply::Hello(_) | CheckReply::Ready => return None,
        })
    }
}

/// Whether a proof may be accepted that rests on these.
fn may_rest_on(found: Option<&[String]>, axioms: Axioms) -> bool {
    match (found, axioms) {
        (Some(found), Axioms::Followed) => {
            found.iter().all(|axiom| AXIOMS.contains(&axiom.as_str()))
        }
        (found, Axioms::Named) => found.is_none(),
        (None, Axioms::Followed) => false,
    }
}

fn allowance(seconds: u64) -> Allowance {
    let processor = Duration::from_secs(seconds);
    Allowance {
        processor,
        clock: processor * CLOCK,
    }
}
