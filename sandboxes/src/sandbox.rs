//! The trait that every sandbox implements.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Runs a candidate's Python program where it can harm nothing, and hands back what its function returned.
///
/// Everything said in [`Run`] was observed by the host; nothing is believed because the guest says so.
pub trait Sandbox: Send + Sync {
    /// What the verdicts made with this sandbox depend on; part of the cache key.
    fn identity(&self) -> &Identity;

    /// Executes `program.source` in a fresh instance, then calls `program.entry_point` once for each element of `program.calls`,
    /// in order, in that same instance.
    ///
    /// # Errors
    /// [`SandboxError`] where the sandbox itself failed: never for anything that the program did.
    fn run(&self, program: &Program<'_>, limits: &Limits) -> Result<Run, SandboxError>;

    /// The two-instance form for tasks with test code. `tests` run one after another in a judge's instance in which
    /// `program.entry_point` is a stub that calls out; the candidate's instance runs `program.source` and answers those calls with encoded values.
    /// `program.calls` is not used; `program.watch` is asked about the tests. Each element of the answer says how one test ended: a [`Call::Returned`] with value
    /// `null` where it ran without an exception.
    ///
    /// # Errors
    /// As [`Sandbox::run`].
    fn run_tests(
        &self,
        program: &Program<'_>,
        prelude: &str,
        tests: &[String],
        limits: &Limits,
    ) -> Result<Run, SandboxError>;

    /// Has the harness's own `outline` answer each of `calls`, JSON arrays as [`crate::outline::read`] writes them, in an instance in which no program runs, so that
    /// the answers are true.
    ///
    /// # Errors
    /// As [`Sandbox::run`].
    fn outline(&self, calls: &[String], limits: &Limits) -> Result<Run, SandboxError>;

    /// As [`Sandbox::run`], for whoever gives a program up that takes long, and then waits for nothing else either: the end of a run, [`End::OutOfTime`], says no more than
    /// that.
    ///
    /// # Errors
    /// As [`Sandbox::run`].
    fn run_once(&self, program: &Program<'_>, limits: &Limits) -> Result<Run, SandboxError> {
        self.run(program, limits)
    }

    /// [`Sandbox::run_tests`] in the manner of [`Sandbox::run_once`].
    ///
    /// # Errors
    /// As [`Sandbox::run`].
    fn run_tests_once(
        &self,
        program: &Program<'_>,
        prelude: &str,
        tests: &[String],
        limits: &Limits,
    ) -> Result<Run, SandboxError> {
        self.run_tests(program, prelude, tests, limits)
    }
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

/// A candidate's program and the calls to make.
#[derive(Debug, Clone, Copy)]
pub struct Program<'a> {
    /// Python source.
    pub source: &'a str,
    /// The function to call.
    pub entry_point: &'a str,
    /// The arguments of each call: a JSON array in the tagged encoding of `datasets::Value`.
    pub calls: &'a [String],
    /// Looks at how each call (or test) ended, and may end the run there.
    pub watch: Option<&'a Watch>,
}

/// Whether a run goes on after its call of that number, from 0, ended so. It is asked once a call, in their order; a run that is repeated is a new one to it.
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
    /// Bytes of standard output and error that are kept; more is dropped.
    pub output: usize,
    /// Bytes of one encoded value that are kept; see [`Call::Returned`].
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
    /// How each call ended, as far as the run got: never longer than `program.calls`.
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
    /// In Docker: the machine had no memory left, and the kernel stopped this program, as the largest. Another run may end otherwise.
    MachineOutOfMemory,
    /// The guest left or trapped in some other way (exit, abort, stack overflow): what it was.
    Died(String),
}

/// A failure of the sandbox itself, which says nothing about the program.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The sandbox cannot work on this machine until someone acts: what is missing, and the remedy.
    #[error("{0}")]
    Unusable(String),
    /// Something went wrong this time; the same run may succeed later.
    #[error("{0}")]
    Transient(String),
}
