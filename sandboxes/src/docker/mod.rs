//! Native CPython in Docker containers. A container has no network, nowhere to write and no rights, and runs one program.
//!
//! Warm containers wait in a `pool`. Each is used for one program and removed (`container`: its rights; `guest`: its conversation and its end). Containers that only
//! read texts stay for further texts (`parsing_containers`). `conversation` answers a guest's requests. `watchdog` ends a run that does not end by itself. The harness,
//! `guest/*.py`, is the other end of the conversation; `docker/*.py` set up its environment. A failure of the engine is a failure of the sandbox, never of the program.

mod container;
mod conversation;
mod engine;
mod guest;
mod owner;
mod parsing_containers;
mod pool;
mod run;
mod termination;
mod watchdog;

use std::future::Future;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::sync::Semaphore;

use self::engine::Engine;
use self::parsing_containers::ParsingContainers;
use self::pool::{ContainerFactory, Pool};
pub use self::watchdog::FUEL_PER_SECOND;
use crate::protocol::{HARNESS, IMPORTS};
use crate::{Abandoned, Deferred, Identity, Limits, SandboxError};

/// The environment of the harness: a clock and randomness that repeat, the calls to the host, and the last restrictions.
const ENVIRONMENT: &str = concat!(
    include_str!("../../docker/clock_and_randomness.py"),
    "\n",
    include_str!("../../docker/host_connection.py"),
    "\n",
    include_str!("../../docker/confine.py"),
);
/// The script that puts the parts together.
const WARM: &str = include_str!("../../docker/warm.py");
const _: () = assert!(ENVIRONMENT.is_ascii() && WARM.is_ascii());
/// [`Identity::backend`] of this sandbox.
pub const BACKEND: &str = "docker";
/// The version of everything that verdicts depend on, except image, harness and limits.
const HOST: &str = "docker 3";
/// Threads that speak to the engine.
const THREADS: usize = 2;
/// How long closing waits for containers to be removed.
const CLOSING: Duration = Duration::from_secs(20);
/// Interval at which a run is checked for being abandoned.
const ABANDONED_INTERVAL: Duration = Duration::from_millis(200);

/// How the Docker sandbox is set up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The engine's socket, `unix:///…`. If it is missing, `DOCKER_HOST` names the socket; otherwise it is the usual one.
    pub host: Option<String>,
    /// The image: Debian with python3 (3.11 or newer) and numpy, as `docker/Dockerfile` builds it.
    pub image: String,
    /// Another runtime than the engine's own, such as `runsc`.
    pub runtime: Option<String>,
    /// Containers at a time, whether warm, in use, or being created or removed; at least 2.
    pub containers: usize,
    /// Bytes of memory of each container, unless a program's limits differ and there is no other `runtime`.
    pub memory: u64,
}

impl Default for Settings {
    /// The image `rapid-python:1` on the engine in the usual place, six containers.
    fn default() -> Settings {
        Settings {
            host: None,
            image: "rapid-python:1".to_owned(),
            runtime: None,
            containers: 6,
            memory: Limits::default().memory,
        }
    }
}

/// Runs programs in containers. Runs are independent. Each takes one container, or two if it has test code.
pub struct DockerSandbox {
    identity: Identity,
    /// Bytes of memory of every container, if the limit of a running container cannot change. Some other runtimes, such as `runsc`, cannot change it.
    fixed_memory: Option<u64>,
    pool: Arc<Pool>,
    parsing_containers: Arc<ParsingContainers>,
    slots: Arc<Semaphore>,
    containers: u32,
    /// `None` only while the sandbox is being dropped.
    runtime: Option<Runtime>,
}

impl DockerSandbox {
    /// Finds the engine and the image, removes containers of dead verifiers, and warms the first container.
    ///
    /// # Errors
    /// [`SandboxError::Unusable`] with the remedy, if no engine answers, or the image is missing or does not work.
    pub fn open(settings: &Settings) -> Result<DockerSandbox, SandboxError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("docker")
            .enable_all()
            .build()
            .map_err(|error| {
                SandboxError::Unusable(format!(
                    "the threads that speak to Docker could not be started ({error})"
                ))
            })?;
        let containers = u32::try_from(settings.containers.max(2)).unwrap_or(u32::MAX);
        let slots = Arc::new(Semaphore::new(containers as usize));
        let opened = on(&runtime, open(settings.clone(), Arc::clone(&slots)));
        match opened {
            Ok((identity, pool)) => Ok(DockerSandbox {
                identity,
                fixed_memory: settings.runtime.is_some().then_some(settings.memory),
                parsing_containers: Arc::new(ParsingContainers::new(&pool, containers as usize)),
                pool,
                slots,
                containers,
                runtime: Some(runtime),
            }),
            Err(error) => {
                runtime.shutdown_background();
                Err(error)
            }
        }
    }

    /// Does `work` on the runtime's threads, and waits for it until it is abandoned.
    fn wait_for<T: Send + 'static>(
        &self,
        abandoned: Option<&Abandoned>,
        work: impl Future<Output = Result<T, SandboxError>> + Send + 'static,
    ) -> Result<T, SandboxError> {
        let abandoned = abandoned.cloned();
        let work = async move {
            tokio::select! {
                done = work => done,
                () = until_abandoned(abandoned) => Err(Deferred::Abandoned.into()),
            }
        };
        match &self.runtime {
            Some(runtime) => on(runtime, work),
            None => Err(closed()),
        }
    }
}

fn closed() -> SandboxError {
    Deferred::Failed("the sandbox is being closed".to_owned()).into()
}

async fn until_abandoned(abandoned: Option<Abandoned>) {
    let Some(abandoned) = abandoned else {
        return std::future::pending().await;
    };
    while !abandoned.is_abandoned() {
        tokio::time::sleep(ABANDONED_INTERVAL).await;
    }
}

/// Does `work` on `runtime`'s threads, and waits for it. Unlike `block_on`, it may be called from any thread.
fn on<T: Send + 'static>(
    runtime: &Runtime,
    work: impl Future<Output = Result<T, SandboxError>> + Send + 'static,
) -> Result<T, SandboxError> {
    let (send, receive) = mpsc::channel();
    runtime.spawn(async move {
        let _ = send.send(work.await);
    });
    receive.recv().unwrap_or_else(|_| {
        Err(SandboxError::Deferred(Deferred::Failed(
            "the thread that speaks to Docker broke off; judge it again".to_owned(),
        )))
    })
}

async fn open(
    settings: Settings,
    slots: Arc<Semaphore>,
) -> Result<(Identity, Arc<Pool>), SandboxError> {
    let engine = Engine::connect(settings.host.as_deref()).await?;
    let image = engine.image(&settings.image).await?;
    if let Some(name) = &settings.runtime {
        engine.require_runtime(name).await?;
    }
    let removed = owner::remove_abandoned(&engine).await?;
    if removed > 0 {
        tracing::info!("removed {removed} containers that dead verifiers had left");
    }
    let factory = Arc::new(ContainerFactory {
        engine,
        body: container::container(&settings, &image, &owner::label()),
        memory: settings.memory,
        source: source(),
    });
    let slot = Arc::clone(&slots).acquire_owned().await;
    let slot = slot.map_err(|_| closed())?;
    let first = factory.make(slot).await?;
    let identity = Identity {
        backend: BACKEND.to_owned(),
        interpreter: format!("{}, {}", first.interpreter, settings.image),
        digest: digest(&settings, &image),
    };
    let pool = Pool::new(&factory, &slots);
    pool.put(first);
    Ok((identity, pool))
}

/// The source that warms an interpreter.
fn source() -> String {
    // A JSON string of ASCII is a Python literal too.
    let parts =
        serde_json::to_string(&[ENVIRONMENT, HARNESS]).expect("strings always have a JSON form");
    // Imported objects stay alive. Collecting the few others would take a tenth of the time.
    format!("import gc\ngc.disable()\nPARTS = {parts}\n{IMPORTS}\n{WARM}")
}

fn digest(settings: &Settings, image: &str) -> String {
    let mut hasher = blake3::Hasher::new();
    let mut part = |text: &str| {
        hasher.update(&(text.len() as u64).to_le_bytes());
        hasher.update(text.as_bytes());
    };
    let runtime = settings.runtime.as_deref().unwrap_or_default();
    for text in [HOST, image, runtime, &source()] {
        part(text);
    }
    for text in container::contents() {
        part(&text);
    }
    hasher.finalize().to_hex().to_string()
}

impl Drop for DockerSandbox {
    fn drop(&mut self) {
        let Some(runtime) = self.runtime.take() else {
            return;
        };
        // No further containers are created. The existing ones are removed, and each then releases its slot.
        let (slots, all) = (Arc::clone(&self.slots), self.containers);
        self.pool.close();
        self.parsing_containers.close();
        let closing = async move {
            let _ = tokio::time::timeout(CLOSING, slots.acquire_many(all)).await;
            slots.close();
            Ok(())
        };
        let _ = on(&runtime, closing);
        runtime.shutdown_background();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_depends_on_image_and_runtime() {
        let settings = Settings::default();
        let other = Settings {
            runtime: Some("runsc".to_owned()),
            ..settings.clone()
        };
        let digests = [(&settings, "a"), (&settings, "b"), (&other, "a")];
        let digests = digests.map(|(settings, image)| digest(settings, image));
        assert!(digests[0] != digests[1] && digests[0] != digests[2]);
        assert_eq!(digests[0], digest(&settings, "a"));
    }
}
