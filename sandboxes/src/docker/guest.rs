//! One warm container, for one program: its conversation and its end.

use std::sync::Arc;
use std::time::Duration;

use bollard::container::LogOutput;
use bollard::errors::Error;
use bytes::{Bytes, BytesMut};
use futures::{FutureExt as _, StreamExt as _};
use tokio::io::AsyncWriteExt as _;
use tokio::runtime::Handle;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::codec::{Decoder as _, LengthDelimitedCodec};

use super::engine::{Engine, Input, Output, State, engine_failed, with_causes};
use super::termination::Termination;
use crate::protocol::Broken;
use crate::{Deferred, End, SandboxError};

/// The first request of a warm guest, for its job.
const WARM: &[u8] = b"J";
/// Bytes of standard error that are read. An interpreter that cannot be warmed states the reason there.
const MAX_STDERR: usize = 2000;
/// Bytes of a guest's first two messages.
const MAX_GREETING: usize = 1000;
/// Exit status of `docker/start.py`: the program exceeded its container's memory. No program can choose this status.
const OUT_OF_MEMORY: i64 = 250;
/// Exit status of `docker/start.py`: the machine had no memory left, and the kernel killed the program.
const MACHINE_OUT_OF_MEMORY: i64 = 248;
/// Exit status: the program, or the whole container, was killed from outside.
const KILLED: i64 = 137;
/// Exit status of `docker/start.py`: the program had itself killed, or exited with one of these numbers.
const KILLED_ITSELF: i64 = 249;
/// A container that has closed its end of the conversation may take this long to end, and a busy engine to notice.
const EXIT_GRACE: Duration = Duration::from_secs(30);
/// The engine may take this long to learn that a killed container was out of memory.
const OUT_OF_MEMORY_DELAY: Duration = Duration::from_secs(2);
/// The pause between two requests to remove a container.
const REMOVAL_PAUSE: Duration = Duration::from_secs(2);
/// Maximum number of requests to remove a container. If they all fail, it is removed at the next start of a verifier.
const MAX_REMOVALS: usize = 5;

/// A container with an interpreter that waits for its job, or runs it.
pub(super) struct Guest {
    container: ContainerGuard,
    input: Input,
    output: Output,
    /// The frames of requests: a length in four bytes, big-endian, and then that many bytes. Answers have the same form.
    frames: LengthDelimitedCodec,
    /// The end of standard output that is not a whole frame yet.
    buffer: BytesMut,
    /// The start of the program's output.
    printed: Vec<u8>,
    /// Bytes that `printed` may have.
    max_printed: usize,
    /// Bytes of memory that the container may use.
    memory: u64,
    /// Processor time that warming took.
    warming: Duration,
    /// Versions of the interpreter: `CPython 3.13.5, numpy 2.2.4, x86_64`.
    pub(super) interpreter: String,
}

/// Removes the container when it is dropped, and then releases its slot in the pool.
struct ContainerGuard {
    id: String,
    engine: Arc<Engine>,
    runtime: Handle,
    slot: Option<OwnedSemaphorePermit>,
    /// [`Engine::interruptions`] when the container started.
    interruptions: usize,
}

impl ContainerGuard {
    /// Why the container ended. Its connection to the host is already closed.
    async fn ended(&self) -> Termination {
        let failed = |what: &str| Termination::Failed(Deferred::Failed(what.to_owned()).into());
        let mut waited = Duration::ZERO;
        let mut pause = Duration::from_millis(5);
        loop {
            let state = match self.engine.state(&self.id).await {
                Ok(state) => state,
                Err(error) => return engine_failed("a program ran", &error).into(),
            };
            match state {
                State::Exited {
                    status: OUT_OF_MEMORY,
                    ..
                } => return Termination::Ended(End::OutOfMemory),
                State::Exited {
                    status: MACHINE_OUT_OF_MEMORY,
                    ..
                } => return Termination::Ended(End::MachineOutOfMemory),
                State::Exited {
                    status: KILLED,
                    out_of_memory: true,
                } => return Termination::Ended(End::OutOfMemory),
                // If the kernel killed the first process too, the engine learns the reason a little later, if at all.
                State::Exited { status: KILLED, .. } if waited < OUT_OF_MEMORY_DELAY => {}
                State::Running if waited < EXIT_GRACE => {}
                State::Exited { status, .. } if status != KILLED => {
                    return Termination::Ended(End::Died(describe_exit(status)));
                }
                State::Exited { .. } => {
                    return failed(
                        "a container was killed from outside while a program ran in it; judge it again",
                    );
                }
                State::Running if self.interruptions != self.engine.interruptions() => {
                    return failed(
                        "the Docker engine was restarted while a program ran; judge it again",
                    );
                }
                State::Running => {
                    let how = "the program closed its connection to the host";
                    return Termination::Ended(End::Died(how.to_owned()));
                }
            }
            tokio::time::sleep(pause).await;
            waited += pause;
            pause = (pause * 2).min(Duration::from_millis(200));
        }
    }
}

impl Drop for ContainerGuard {
    fn drop(&mut self) {
        let (id, slot) = (std::mem::take(&mut self.id), self.slot.take());
        let engine = Arc::clone(&self.engine);
        self.runtime.spawn(async move {
            for removal in 1..=MAX_REMOVALS {
                match engine.remove(&id).await {
                    Ok(()) => break,
                    Err(error) if removal == MAX_REMOVALS => {
                        let why = with_causes(&error);
                        tracing::warn!("container {id} cannot be removed ({why})");
                    }
                    Err(_) => tokio::time::sleep(REMOVAL_PAUSE).await,
                }
            }
            drop(slot);
        });
    }
}

impl Guest {
    /// Starts the container `id`, created with `memory` bytes, and warms it by running `source`. `slot` is released when the container is removed.
    ///
    /// # Errors
    /// [`SandboxError::Deferred`] if the engine fails, [`SandboxError::Unusable`] if the interpreter fails.
    pub(super) async fn start(
        engine: Arc<Engine>,
        id: String,
        memory: u64,
        source: &str,
        slot: OwnedSemaphorePermit,
    ) -> Result<Guest, SandboxError> {
        let container = ContainerGuard {
            interruptions: engine.interruptions(),
            id,
            engine,
            runtime: Handle::current(),
            slot: Some(slot),
        };
        let ContainerGuard { engine, id, .. } = &container;
        let failed = |error: Error| engine_failed("a container was started", &error);
        let (input, output) = engine.attach(id).await.map_err(failed)?;
        engine.start(id).await.map_err(failed)?;
        let mut guest = Guest {
            container,
            input,
            output,
            frames: LengthDelimitedCodec::new(),
            buffer: BytesMut::new(),
            printed: Vec::new(),
            max_printed: 0,
            memory,
            warming: Duration::ZERO,
            interpreter: String::new(),
        };
        let mut stderr = String::new();
        match guest.warm(source, &mut stderr).await {
            Ok(()) => Ok(guest),
            Err(Termination::Failed(error)) => Err(error),
            Err(stop) => Err(SandboxError::Unusable(format!(
                "the interpreter of the sandbox's image cannot be made ready ({stop:?}; its standard error: {}); the image must have python3, 3.11 or newer, and numpy: \
                 build the one of sandboxes/docker",
                stderr.trim().chars().take(MAX_STDERR).collect::<String>()
            ))),
        }
    }

    async fn warm(&mut self, source: &str, stderr: &mut String) -> Result<(), Termination> {
        self.send(source.as_bytes()).await?;
        let greeting = self.next(MAX_GREETING, Some(stderr)).await?;
        let greeting = String::from_utf8_lossy(&greeting).into_owned();
        let (interpreter, nanoseconds) = greeting
            .split_once('|')
            .ok_or(Broken::Protocol("no greeting"))?;
        self.interpreter = interpreter.to_owned();
        self.warming = Duration::from_nanos(nanoseconds.parse().unwrap_or(0));
        if self.next(MAX_GREETING, Some(stderr)).await? == WARM {
            Ok(())
        } else {
            Err(Broken::Protocol("a first request that does not request a job").into())
        }
    }

    /// Whether it is still alive, as far as can be seen without waiting.
    pub(super) fn is_alive(&mut self) -> bool {
        match self.output.next().now_or_never() {
            None => self.container.interruptions == self.container.engine.interruptions(),
            // A warm guest sends nothing.
            Some(_) => false,
        }
    }

    /// Sets the container's memory limit to `memory` bytes.
    ///
    /// # Errors
    /// [`SandboxError::Deferred`] if the engine fails.
    pub(super) async fn set_memory(&mut self, memory: u64) -> Result<(), SandboxError> {
        if memory != self.memory {
            let bytes = i64::try_from(memory).unwrap_or(i64::MAX);
            let ContainerGuard { engine, id, .. } = &self.container;
            let set = engine.set_memory(id, bytes).await;
            set.map_err(|error| engine_failed("a container's memory limit was set", &error))?;
            self.memory = memory;
        }
        Ok(())
    }

    /// Sends the guest limits that it sets for itself before its job arrives: additional address space in bytes, processor time in seconds, and bytes of output.
    pub(super) async fn confine(
        &mut self,
        space: u64,
        seconds: u64,
        output: usize,
    ) -> Result<(), Termination> {
        self.max_printed = output;
        self.send(format!("{space} {seconds} {output}").as_bytes())
            .await
    }

    /// A meter of its processor time since it was warm.
    pub(super) fn meter(&self) -> Meter {
        Meter {
            engine: Arc::clone(&self.container.engine),
            id: self.container.id.clone(),
            warming: self.warming,
        }
    }

    /// The start of the program's output, as text.
    pub(super) fn printed(&self) -> String {
        String::from_utf8_lossy(&self.printed).into_owned()
    }

    /// Sends one answer.
    ///
    /// # Errors
    /// How the guest ended, if it did.
    ///
    /// # Panics
    /// If it is longer than 4 GiB. Everything that the host sends is shorter.
    pub(super) async fn send(&mut self, answer: &[u8]) -> Result<(), Termination> {
        let length = u32::try_from(answer.len()).expect("a job or an argument is far below 4 GiB");
        let frame = [&length.to_be_bytes()[..], answer].concat();
        let sent = match self.input.write_all(&frame).await {
            Ok(()) => self.input.flush().await,
            error => error,
        };
        match sent {
            Ok(()) => Ok(()),
            Err(_) => Err(self.container.ended().await),
        }
    }

    /// The guest's next request, of at most `longest` bytes.
    ///
    /// # Errors
    /// How the guest ended, if it did.
    pub(super) async fn receive(&mut self, longest: usize) -> Result<Bytes, Termination> {
        loop {
            let mut request = self.next(longest.max(self.max_printed + 1), None).await?;
            if request.first() != Some(&b'O') {
                if request.len() > longest {
                    return Err(too_long());
                }
                return Ok(request);
            }
            let printed = request.split_off(1);
            let room = self.max_printed - self.printed.len();
            self.printed
                .extend_from_slice(&printed[..printed.len().min(room)]);
        }
    }

    async fn next(
        &mut self,
        longest: usize,
        mut stderr: Option<&mut String>,
    ) -> Result<Bytes, Termination> {
        loop {
            // A frame that is too long is refused as soon as its length is known. Room reserved for a frame takes no memory before its bytes arrive.
            self.frames.set_max_frame_length(longest);
            match self.frames.decode(&mut self.buffer) {
                Ok(Some(request)) => return Ok(request.freeze()),
                Ok(None) => {}
                Err(_) => return Err(too_long()),
            }
            match self.output.next().await {
                Some(Ok(LogOutput::StdOut { message })) => self.buffer.extend_from_slice(&message),
                Some(Ok(LogOutput::StdErr { message })) => {
                    if let Some(stderr) = stderr.as_deref_mut()
                        && stderr.len() < MAX_STDERR
                    {
                        stderr.push_str(&String::from_utf8_lossy(&message));
                    }
                }
                Some(Ok(LogOutput::StdIn { .. } | LogOutput::Console { .. })) => {}
                Some(Err(_)) | None => return Err(self.container.ended().await),
            }
        }
    }
}

/// Asks the engine for a guest's processor time.
pub(super) struct Meter {
    engine: Arc<Engine>,
    id: String,
    /// Processor time of warming, which does not count.
    warming: Duration,
}

impl Meter {
    /// Whether the container still runs. A container that has ended no longer reports its processor time.
    pub(super) async fn running(&self) -> Result<bool, Error> {
        Ok(self.engine.state(&self.id).await? == State::Running)
    }

    /// Processor time that it has taken since it was warm.
    pub(super) async fn read(&self) -> Result<Duration, Error> {
        let all = self.engine.processor_time(&self.id).await?;
        Ok(all.saturating_sub(self.warming))
    }
}

fn too_long() -> Termination {
    Broken::Protocol("a request that is longer than any value may be").into()
}

/// The meaning of an exit status.
fn describe_exit(status: i64) -> String {
    match status {
        KILLED_ITSELF => "the program had itself killed".to_owned(),
        129..=192 => format!("the interpreter was ended by signal {}", status - 128),
        _ => format!("the program left with exit status {status}"),
    }
}
