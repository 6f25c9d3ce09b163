//! The trait that every sandbox implements.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Runs an untrusted Python program where it can harm nothing, and returns the values of its function.
///
/// The host itself observed everything in a [`Run`]. It believes nothing merely because the guest says so.
pub trait Sandbox: Send + Sync {
    /// What verdicts from this sandbox depend on. It is part of the cache key.
    fn identity(&self) -> &Identity;

    /// Does the work of `request`, in instances of its own.
    ///
    /// # Errors
    /// [`SandboxError`] if there is no run. Nothing that the program does causes this error, except [`Deferred::Long`] and
    /// [`Deferred::NoMemory`].
    fn run(&self, request: &Request<'_>) -> Result<Run, SandboxError>;
}

/// A request for one run of a sandbox.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// What to do.
    pub work: Work<'a>,
    /// Sees how each call (or test) ended, and may end the run there.
    pub watch: Option<&'a Watch>,
    /// Breaks the run off when nobody waits for it any more.
    pub abandoned: Option<&'a Abandoned>,
    /// The resources that the run may use.
    pub limits: Limits,
}

impl<'a> Request<'a> {
    /// A request without a watch.
    #[must_use]
    pub fn new(work: Work<'a>, limits: &Limits) -> Request<'a> {
        Request {
            work,
            watch: None,
            abandoned: None,
            limits: *limits,
        }
    }
}

/// The kinds of work that a sandbox can do.
#[derive(Debug, Clone, Copy)]
pub enum Work<'a> {
    /// Executes the program's source in a fresh instance, then calls its entry point once for each element of `calls`, in order, in that same instance.
    Calls {
        /// The program.
        program: Program<'a>,
        /// The arguments of each call: a JSON array in the tagged encoding of `datasets::Value`.
        calls: &'a [String],
    },
    /// Judges by test code, in two instances. The tests' instance runs `tests` one after another. In it, the program's entry point is a stub that calls the program's
    /// instance. That instance runs the program's source, and answers the calls with encoded values. [`Run::calls`] records how each test ended: a test without an
    /// exception is a [`Call::Returned`] with the value `null`.
    Tests {
        /// The program.
        program: Program<'a>,
        /// Code that the tests' instance runs before the first test.
        prelude: &'a str,
        /// The source of each test.
        tests: &'a [String],
    },
    /// Executes the program's source in a fresh instance as `python3 main.py` does, with `stdin` as its standard input. [`Run::stdout`] is all of its standard output,
    /// at most [`Limits::output`] bytes. No call is made.
    WholeProgram {
        /// Python source.
        source: &'a str,
        /// At most [`MAX_STREAM_BYTES`].
        stdin: &'a str,
    },
    /// Has the harness's own `outline` read each of `texts`. They are JSON arrays in the form of [`crate::defined_names::read`]. No program runs in the instance, so its
    /// answers can be trusted.
    Outline {
        /// The texts.
        texts: &'a [String],
    },
}

/// The properties of a sandbox that a verdict depends on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// `wasm` or `docker`.
    pub backend: String,
    /// Version of the interpreter, for people to read: `CPython 3.15.0 (wasm32-wasip1)`.
    pub interpreter: String,
    /// BLAKE3 of the interpreter's artifact and of the guest harness, hexadecimal.
    pub digest: String,
}

/// An untrusted program.
#[derive(Debug, Clone, Copy)]
pub struct Program<'a> {
    /// Python source.
    pub source: &'a str,
    /// The function to call.
    pub entry_point: &'a str,
}

/// Decides from the end of a call whether its run continues. It is asked once for each call, in order, with the call's number from 0. A repeated run is a new run for
/// it.
#[derive(Clone)]
pub struct Watch(Arc<ShouldContinue>);

type ShouldContinue = dyn Fn(usize, &Call) -> bool + Send + Sync;

impl Watch {
    /// A run continues while `should_continue` returns true.
    pub fn new(should_continue: impl Fn(usize, &Call) -> bool + Send + Sync + 'static) -> Watch {
        Watch(Arc::new(should_continue))
    }

    /// Whether the run continues.
    #[must_use]
    pub fn should_continue(&self, index: usize, call: &Call) -> bool {
        self.0(index, call)
    }
}

/// Whether nobody waits for a run any more. A run in WebAssembly asks after every portion of fuel, and one in Docker several times a second. The run is then
/// [`Deferred::Abandoned`].
#[derive(Clone)]
pub struct Abandoned(Arc<dyn Fn() -> bool + Send + Sync>);

impl Abandoned {
    /// A run is abandoned once `is_abandoned` returns true.
    pub fn new(is_abandoned: impl Fn() -> bool + Send + Sync + 'static) -> Abandoned {
        Abandoned(Arc::new(is_abandoned))
    }

    /// Whether nobody waits any more.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        self.0()
    }
}

/// Maximum bytes that a whole program may read from standard input, and write to standard output. In Docker the two are files in the memory of the container.
pub const MAX_STREAM_BYTES: usize = 8_000_000;

/// What one program may use. All limits are deterministic, except `backstop` and, in Docker, `fuel` and `memory`: the machine may run out of memory before the limit
/// ([`End::MachineOutOfMemory`]).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Units of fuel (about one for each wasm instruction) for the program and all its calls together. In Docker, 2 G units stand for a second of processor
    /// time.
    pub fuel: u64,
    /// Bytes of the instance's memory: the linear memory in wasm, the container's memory in Docker.
    pub memory: u64,
    /// Bytes of standard output and error that a run returns; the rest is dropped. A whole program must not write more to standard output. The maximum is
    /// [`MAX_STREAM_BYTES`].
    pub output: usize,
    /// Bytes of one encoded value that a run returns; see [`Call::Returned`].
    pub value: usize,
    /// Wall-clock seconds after which a run is stopped, far beyond what `fuel` allows. In wasm, such a run is a failure of the sandbox. In Docker, programs can wait,
    /// so it is out of time.
    pub backstop: f64,
}

impl Default for Limits {
    /// 20 G of fuel (some seconds of a core), 2 GiB of memory, 64 KiB of output, 16 MiB per value, 15 minutes as the backstop.
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
    /// How each call (or test, or text) ended, as far as the run got: never more entries than were requested.
    pub calls: Vec<Call>,
    /// How the run ended.
    pub end: End,
    /// Total fuel used; in Docker, the fuel that the processor time stands for.
    pub fuel: u64,
    /// The first bytes of standard output, only for people to read. Of a whole program all of it, with U+FFFD in place of bytes that are not UTF-8.
    pub stdout: String,
}

/// How one call of the entry point ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Call {
    /// It returned this value, in the tagged JSON encoding. If the value is longer than [`Limits::value`], or all values of the run together are longer than 16 times
    /// that, this is a digest, `{"$digest":"…"}`. It stands for the same value in every run; [`crate::is_same_encoding`] compares it with a value in full.
    Returned(String),
    /// It raised: the exception's type and the start of its message.
    Raised {
        /// `ValueError`
        kind: String,
        /// The start of `str(exception)`.
        message: String,
    },
    /// It returned a value that refers to itself, or is nested too deeply to be encoded. Test code gets no digests, so for it this is also a value longer than
    /// [`Limits::value`].
    TooDeepOrLarge,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub enum End {
    /// Every call was made.
    Completed,
    /// Every test ran, and neither the tests nor the code before them called the program.
    Uncalled,
    /// The whole program exited, by itself or by an exception that it did not catch.
    Exited {
        /// Its exit status; 0 says that it succeeded.
        status: i32,
        /// The start of its standard error, for people to read.
        stderr: String,
    },
    /// The whole program wrote more to standard output than it may.
    TooMuchOutput,
    /// The watch ended it after the last call in [`Run::calls`].
    Watched,
    /// The source did not compile, raised an exception while it ran, or does not define the entry point.
    Unloadable {
        /// `SyntaxError`
        kind: String,
        /// The start of the message.
        message: String,
    },
    /// The fuel was used up.
    OutOfFuel,
    /// The sandbox does not meter fuel, and the clock stopped the program: it had used up the processor time that the fuel stands for, or waited instead of
    /// working.
    OutOfTime,
    /// The program reached the memory limit.
    OutOfMemory,
    /// In Docker: the machine had no memory left, and the kernel stopped this program, as the largest. Another run may end differently. But the run is not deferred for
    /// that reason, since a program could then prevent its own verdict.
    MachineOutOfMemory,
    /// The guest exited or trapped in some other way (exit, abort, stack overflow), which the text describes.
    Died(String),
}

/// Why there is no run. The reason says nothing about the program, except [`Deferred::Long`] and [`Deferred::NoMemory`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SandboxError {
    /// The sandbox cannot work on this machine, or cannot do this request, until someone acts. The text states what is missing, and the remedy.
    #[error("{0}")]
    Unusable(String),
    /// The same request may have a run later.
    #[error(transparent)]
    Deferred(#[from] Deferred),
}

impl Limits {
    /// The error for a memory limit below what the interpreter takes.
    pub(crate) fn too_little_memory(&self) -> SandboxError {
        SandboxError::Unusable(format!(
            "a memory limit of {} MiB is less than the interpreter itself takes; raise it",
            self.memory >> 20
        ))
    }
}

/// Why a run is deferred.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Deferred {
    /// The program does not end within the part of its fuel that a first pass gives it.
    #[error("the program does not end soon")]
    Long,
    /// The program needs more memory than is free now. The sandboxes of this crate do not limit the memory of all runs together; a sandbox around them does.
    #[error("the memory that the program needs is in use by other programs")]
    NoMemory,
    /// Nobody waits for the run any more ([`Abandoned`]).
    #[error("nobody waits for the result any more")]
    Abandoned,
    /// The sandbox failed this time. The text states what happened.
    #[error("{0}")]
    Failed(String),
}
