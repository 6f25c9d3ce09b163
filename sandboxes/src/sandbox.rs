//! The trait that every sandbox implements.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Runs a candidate's Python program where it can harm nothing, and hands back what its function returned.
///
/// The host observed everything in a [`Run`] itself; it believes nothing because the guest says so.
pub trait Sandbox: Send + Sync {
    /// What the verdicts made with this sandbox depend on; part of the cache key.
    fn identity(&self) -> &Identity;

    /// Does the work of `request`, in instances of its own.
    ///
    /// # Errors
    /// [`SandboxError`] where there is no run: never for anything that the program did.
    fn run(&self, request: &Request<'_>) -> Result<Run, SandboxError>;
}

/// One run that a sandbox is asked for.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// What to do.
    pub work: Work<'a>,
    /// Looks at how each call (or test) ended, and may end the run there.
    pub watch: Option<&'a Watch>,
    /// Whether the run may wait.
    pub patience: Patience,
    /// What the run may use.
    pub limits: Limits,
}

impl<'a> Request<'a> {
    /// A run to its end: without a watch, and it may wait.
    #[must_use]
    pub fn new(work: Work<'a>, limits: &Limits) -> Request<'a> {
        Request {
            work,
            watch: None,
            patience: Patience::Wait,
            limits: *limits,
        }
    }
}

/// What a sandbox can do.
#[derive(Debug, Clone, Copy)]
pub enum Work<'a> {
    /// Executes the program's source in a fresh instance, then calls its entry point once for each element of `calls`, in order, in that same instance.
    Calls {
        /// The program.
        program: Program<'a>,
        /// The arguments of each call: a JSON array in the tagged encoding of `datasets::Value`.
        calls: &'a [String],
    },
    /// Judges by test code, in two instances. The judge's runs `tests` one after another; in it, the program's entry point is a stub that calls out. The
    /// candidate's runs the program's source and answers those calls with encoded values. [`Run::calls`] says how each test ended: a [`Call::Returned`] with
    /// value `null` where it ran without an exception.
    Tests {
        /// The program.
        program: Program<'a>,
        /// Code that the judge's instance runs before the first test.
        prelude: &'a str,
        /// The source of each test.
        tests: &'a [String],
    },
    /// Has the harness's own `outline` read each of `texts`, JSON arrays as [`crate::outline::read`] writes them. No program runs in its instance, so its answers
    /// are true.
    Outline {
        /// The texts.
        texts: &'a [String],
    },
}

/// What a run does where it would have to wait for others to free what it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// It waits.
    Wait,
    /// It is deferred ([`Deferred::Long`]).
    Defer,
}

/// What a verdict depends on besides the program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// `wasm` or `docker`.
    pub backend: String,
    /// Version of the interpreter, for people: `CPython 3.15.0 (wasm32-wasip1)`.
    pub interpreter: String,
    /// BLAKE3 of the interpreter's artifact and of the guest harness, hexadecimal.
    pub digest: String,
}

/// A candidate's program.
#[derive(Debug, Clone, Copy)]
pub struct Program<'a> {
    /// Python source.
    pub source: &'a str,
    /// The function to call.
    pub entry_point: &'a str,
}

/// Decides whether a run goes on after one of its calls, from how that call ended. It is asked once per call, in order, with the call's number from 0; a repeated run is a
/// new one to it.
#[derive(Clone)]
pub struct Watch(Arc<GoesOn>);

type GoesOn = dyn Fn(usize, &Call) -> bool + Send + Sync;

impl Watch {
    /// A run goes on while `goes_on` says so.
    pub fn new(goes_on: impl Fn(usize, &Call) -> bool + Send + Sync + 'static) -> Watch {
        Watch(Arc::new(goes_on))
    }

    /// Whether the run goes on.
    #[must_use]
    pub fn goes_on(&self, index: usize, call: &Call) -> bool {
        self.0(index, call)
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watch")
    }
}

/// What one program may use. All are deterministic but `backstop`, and, in Docker, `fuel`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Units of fuel (about one a wasm instruction) for the program and all its calls together. In Docker, 2 G of them stand for a second of
    /// processor time.
    pub fuel: u64,
    /// Bytes of the instance's memory: the linear memory in wasm, the container's in Docker.
    pub memory: u64,
    /// Bytes of standard output and error that a run returns; more is dropped.
    pub output: usize,
    /// Bytes of one encoded value that a run returns; see [`Call::Returned`].
    pub value: usize,
    /// Wall-clock seconds after which a run is stopped, far beyond what `fuel` allows: as a failure of the sandbox, but in Docker, where a program can wait, as one
    /// that is out of time.
    pub backstop: f64,
}

impl Default for Limits {
    /// 20 G of fuel (some seconds of a core), 2 GiB of memory, 64 KiB of output, 16 MiB a value, 15 minutes as the backstop.
    fn default() -> Self {
        Limits {
            fuel: 20_000_000_000,
            memory: 2 << 30,
            output: 64 << 10,
            value: 16 << 20,
            backstop: 900.0,
        }
    }
}

/// What happened in one instance.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// How each call (or test, or text) ended, as far as the run got: never longer than what was asked for.
    pub calls: Vec<Call>,
    /// How the run ended.
    pub end: End,
    /// Fuel used, in all; in Docker, what the processor time stands for.
    pub fuel: u64,
    /// Highest size of the linear memory, in bytes; 0 in Docker, where nobody asks.
    pub peak_memory: u64,
    /// The first bytes of what the program wrote to standard output, for people only.
    pub stdout: String,
}

/// How one call of the entry point ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Call {
    /// It returned; the value in the tagged JSON encoding. Where that is longer than [`Limits::value`] (or all values of the run together are
    /// longer than 16 such), a digest of it stands here, `{"$digest":"…"}`: it equals only itself, and stands for the same values in every run.
    Returned(String),
    /// It raised: the exception's type and the start of its message.
    Raised {
        /// `ValueError`
        kind: String,
        /// The start of `str(exception)`.
        message: String,
    },
    /// It returned a value that is nested too deeply to be encoded, or refers to itself.
    TooLarge,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub enum End {
    /// Every call was made.
    Completed,
    /// Every test was run, and none of them called the program, nor did what is loaded before them.
    Uncalled,
    /// The watch ended it after the last of the calls.
    Watched,
    /// The source did not compile or raised while it ran; or it does not define the entry point.
    Unloadable {
        /// `SyntaxError`
        kind: String,
        /// The start of the message.
        message: String,
    },
    /// The fuel was used up.
    OutOfFuel,
    /// The sandbox does not meter, and the clock stopped the program: it had used up the processor time that the fuel stands for, or waited instead of
    /// working.
    OutOfTime,
    /// The memory limit was met.
    OutOfMemory,
    /// In Docker: the machine had no memory left, and the kernel stopped this program, as the largest. Another run may end otherwise, but none is deferred for it: a
    /// program could make its own verdict impossible.
    MachineOutOfMemory,
    /// The guest left or trapped in some other way (exit, abort, stack overflow): what it was.
    Died(String),
}

/// Why there is no run. It says nothing about the program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SandboxError {
    /// The sandbox cannot work on this machine, or do this request, until someone acts: what is missing, and the remedy.
    #[error("{0}")]
    Unusable(String),
    /// The same request may have a run later.
    #[error(transparent)]
    Deferred(#[from] Deferred),
}

/// Why a run is put off.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Deferred {
    /// The program takes longer than whoever asked waits for it ([`Patience::Defer`]).
    #[error("the program is not over soon")]
    Long,
    /// The sandbox failed this time: what happened.
    #[error("{0}")]
    Failed(String),
}
