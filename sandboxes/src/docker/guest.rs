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

use super::engine::{Engine, Input, Output, State, because, lost};
use super::frames::{frame, take};
use super::stop::Stop;
use crate::protocol::Broken;
use crate::{Deferred, End, SandboxError};

/// What a guest asks when it is warm: its job.
const WARM: &[u8] = b"J";
/// Bytes of standard error that are read, where an interpreter that cannot be warmed says why.
const MAX_COMPLAINT: usize = 2000;
/// Bytes of a guest's first two messages.
const MAX_GREETING: usize = 1000;
/// Exit statuses of `docker/start.py`, which no program can choose: it was stopped for want of its container's memory;
const OUT_OF_MEMORY: i64 = 250;
/// the machine had none left, and the kernel chose it;
const MACHINE_OUT_OF_MEMORY: i64 = 248;
/// it, or all of the container, was killed from outside;
const KILLED: i64 = 137;
/// it had itself killed, or left with one of these numbers.
const ITSELF: i64 = 249;
/// How long a container that has closed its end of the conversation may take to end itself, and a busy engine to notice.
const SETTLING: Duration = Duration::from_secs(30);
/// How long the engine may take to learn that a killed container was out of memory.
const NEWS: Duration = Duration::from_secs(2);
/// Between two tries to remove a container.
const REMOVAL_PAUSE: Duration = Duration::from_secs(2);
/// Tries to remove a container; what is left then is removed at the next start of a verifier.
const REMOVALS: usize = 5;

/// A container whose interpreter waits for its job, or has it.
pub(super) struct Guest {
    engine: Arc<Engine>,
    container: ContainerGuard,
    input: Input,
    output: Output,
    /// What of standard output is not a whole frame yet.
    buffer: BytesMut,
    /// The start of what the program printed.
    printed: Vec<u8>,
    /// Bytes that `printed` may have.
    room: usize,
    /// Bytes of memory that the container may use.
    memory: u64,
    /// Processor time that warming took.
    warming: Duration,
    /// What it is: `CPython 3.13.5, numpy 2.2.4, x86_64`.
    interpreter: String,
}

/// Removes the container when it is dropped, and gives its slot in the pool back when that is done.
struct ContainerGuard {
    id: String,
    engine: Arc<Engine>,
    runtime: Handle,
    slot: Option<OwnedSemaphorePermit>,
    /// [`Engine::interruptions`] when the container started.
    interruptions: usize,
}

impl ContainerGuard {
    /// How the container came to its end, now that it neither speaks nor listens.
    async fn ended(&self) -> Stop {
        let mut waited = Duration::ZERO;
        let mut pause = Duration::from_millis(5);
        loop {
            let state = match self.engine.state(&self.id).await {
                Ok(state) => state,
                Err(error) => return lost("a program ran", &error).into(),
            };
            match state {
                State::Exited {
                    status: OUT_OF_MEMORY,
                    ..
                } => return Stop::Ended(End::OutOfMemory),
                State::Exited {
                    status: MACHINE_OUT_OF_MEMORY,
                    ..
                } => return Stop::Ended(End::MachineOutOfMemory),
                State::Exited {
                    status: KILLED,
                    out_of_memory: true,
                } => return Stop::Ended(End::OutOfMemory),
                // Where the kernel killed the first process too, the engine learns the reason a little later, if at all.
                State::Exited { status: KILLED, .. } if waited < NEWS => {}
                State::Running if waited < SETTLING => {}
                State::Exited { status, .. } if status != KILLED => {
                    return Stop::Ended(End::Died(farewell(status)));
                }
                State::Exited { .. } => {
                    return SandboxError::Deferred(Deferred::Failed(
                        "a container was killed from outside while a program ran in it; judge it again".to_owned(),
                    ))
                    .into();
                }
                State::Running if self.interruptions != self.engine.interruptions() => {
                    return SandboxError::Deferred(Deferred::Failed(
                        "the Docker engine was restarted while a program ran; judge it again"
                            .to_owned(),
                    ))
                    .into();
                }
                State::Running => {
                    return Stop::Ended(End::Died(
                        "the program closed its connection to the host".to_owned(),
                    ));
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
        let (id, engine, slot) = (
            std::mem::take(&mut self.id),
            Arc::clone(&self.engine),
            self.slot.take(),
        );
        self.runtime.spawn(async move {
            for attempt in 1..=REMOVALS {
                match engine.remove(&id).await {
                    Ok(()) => break,
                    Err(error) if attempt == REMOVALS => {
                        tracing::warn!("container {id} cannot be removed ({})", because(&error));
                    }
                    Err(_) => tokio::time::sleep(REMOVAL_PAUSE).await,
                }
            }
            drop(slot);
        });
    }
}

impl Guest {
    /// Starts the container `id`, which was created with `memory` bytes, and has it run `source`, which warms it. `slot` is given back when the container is
    /// removed.
    ///
    /// # Errors
    /// [`SandboxError::Deferred`] where the engine fails, [`SandboxError::Unusable`] where the interpreter does.
    pub(super) async fn start(
        engine: Arc<Engine>,
        id: String,
        memory: u64,
        source: &str,
        slot: OwnedSemaphorePermit,
    ) -> Result<Guest, SandboxError> {
        let container = ContainerGuard {
            id: id.clone(),
            engine: Arc::clone(&engine),
            runtime: Handle::current(),
            slot: Some(slot),
            interruptions: engine.interruptions(),
        };
        let failed = |error: Error| lost("a container was started", &error);
        let (input, output) = engine.attach(&id).await.map_err(failed)?;
        engine.start(&id).await.map_err(failed)?;
        let mut guest = Guest {
            engine,
            container,
            input,
            output,
            buffer: BytesMut::new(),
            printed: Vec::new(),
            room: 0,
            memory,
            warming: Duration::ZERO,
            interpreter: String::new(),
        };
        let mut complaint = String::new();
        match guest.warm(source, &mut complaint).await {
            Ok(()) => Ok(guest),
            Err(Stop::Failed(error)) => Err(error),
            Err(stop) => Err(SandboxError::Unusable(format!(
                "the interpreter of the sandbox's image cannot be made ready ({stop:?}; it says: {}); the image must have python3, 3.11 or newer, and numpy: \
                 build the one of sandboxes/docker",
                complaint
                    .trim()
                    .chars()
                    .take(MAX_COMPLAINT)
                    .collect::<String>()
            ))),
        }
    }

    async fn warm(&mut self, source: &str, complaint: &mut String) -> Result<(), Stop> {
        self.send(source.as_bytes()).await?;
        let greeting = self.next(MAX_GREETING, Some(complaint)).await?;
        let greeting = String::from_utf8_lossy(&greeting).into_owned();
        let (interpreter, nanoseconds) = greeting
            .split_once('|')
            .ok_or(Broken::Protocol("no greeting"))?;
        self.interpreter = interpreter.to_owned();
        self.warming = Duration::from_nanos(nanoseconds.parse().unwrap_or(0));
        if self.next(MAX_GREETING, Some(complaint)).await? == WARM {
            Ok(())
        } else {
            Err(Broken::Protocol("a first request that asks for no job").into())
        }
    }

    /// What the interpreter is, for people.
    pub(super) fn interpreter(&self) -> &str {
        &self.interpreter
    }

    /// Whether it still stands, as far as can be seen without waiting.
    pub(super) fn stands(&mut self) -> bool {
        match self.output.next().now_or_never() {
            None => self.container.interruptions == self.engine.interruptions(),
            // A warm guest says nothing.
            Some(_) => false,
        }
    }

    /// Makes the container's memory limit `memory` bytes.
    ///
    /// # Errors
    /// [`SandboxError::Deferred`] where the engine does not do so.
    pub(super) async fn fit(&mut self, memory: u64) -> Result<(), SandboxError> {
        if memory != self.memory {
            self.engine
                .set_memory(
                    &self.container.id,
                    i64::try_from(memory).unwrap_or(i64::MAX),
                )
                .await
                .map_err(|error| lost("a container's memory limit was set", &error))?;
            self.memory = memory;
        }
        Ok(())
    }

    /// Sends the guest its own limits, which it sets for itself before its job comes: the address space that it may add in bytes, processor time in
    /// seconds, and bytes of output.
    pub(super) async fn confine(
        &mut self,
        space: u64,
        seconds: u64,
        output: usize,
    ) -> Result<(), Stop> {
        self.room = output;
        self.send(format!("{space} {seconds} {output}").as_bytes())
            .await
    }

    /// What measures its processor time since it was warm.
    pub(super) fn meter(&self) -> Meter {
        Meter {
            engine: Arc::clone(&self.engine),
            id: self.container.id.clone(),
            before: self.warming,
        }
    }

    /// The start of what the program printed, as text.
    pub(super) fn printed(&self) -> String {
        String::from_utf8_lossy(&self.printed).into_owned()
    }

    /// Sends one answer.
    ///
    /// # Errors
    /// How the guest ended, where it did.
    pub(super) async fn send(&mut self, answer: &[u8]) -> Result<(), Stop> {
        let sent = match self.input.write_all(&frame(answer)).await {
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
    /// How the guest ended, where it did.
    pub(super) async fn receive(&mut self, longest: usize) -> Result<Bytes, Stop> {
        loop {
            let mut request = self.next(longest.max(self.room + 1), None).await?;
            if request.first() != Some(&b'O') {
                if request.len() > longest {
                    return Err(too_long());
                }
                return Ok(request);
            }
            let printed = request.split_off(1);
            let room = self.room - self.printed.len();
            self.printed
                .extend_from_slice(&printed[..printed.len().min(room)]);
        }
    }

    async fn next(
        &mut self,
        longest: usize,
        mut complaint: Option<&mut String>,
    ) -> Result<Bytes, Stop> {
        loop {
            match take(&mut self.buffer, longest) {
                Ok(Some(request)) => return Ok(request),
                Ok(None) => {}
                Err(_) => return Err(too_long()),
            }
            match self.output.next().await {
                Some(Ok(LogOutput::StdOut { message })) => self.buffer.extend_from_slice(&message),
                Some(Ok(LogOutput::StdErr { message })) => {
                    if let Some(complaint) = complaint.as_deref_mut()
                        && complaint.len() < MAX_COMPLAINT
                    {
                        complaint.push_str(&String::from_utf8_lossy(&message));
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
    /// Processor time that does not count.
    before: Duration,
}

impl Meter {
    /// Whether the container still runs. One that has ended tells no processor time any more.
    pub(super) async fn running(&self) -> Result<bool, Error> {
        Ok(self.engine.state(&self.id).await? == State::Running)
    }

    /// Processor time that it has taken.
    pub(super) async fn read(&self) -> Result<Duration, Error> {
        let all = self.engine.processor_time(&self.id).await?;
        Ok(all.saturating_sub(self.before))
    }
}

fn too_long() -> Stop {
    Broken::Protocol("a request that is longer than any value may be").into()
}

/// What an exit status says.
fn farewell(status: i64) -> String {
    match status {
        ITSELF => "the program had itself killed".to_owned(),
        129..=192 => format!("the interpreter was ended by signal {}", status - 128),
        _ => format!("the program left with exit status {status}"),
    }
}
