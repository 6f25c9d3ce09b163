//! The requests to the Docker engine, and the meaning of their failures.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bollard::container::{AttachContainerResults, LogOutput};
use bollard::errors::Error;
use bollard::models::{ContainerCreateBody, ContainerSummaryStateEnum, ContainerUpdateBody};
use bollard::query_parameters::{
    AttachContainerOptionsBuilder, CreateContainerOptionsBuilder, EventsOptionsBuilder,
    ListContainersOptionsBuilder, RemoveContainerOptionsBuilder, StatsOptionsBuilder,
};
use bollard::{API_DEFAULT_VERSION, Docker};
use futures::{Stream, StreamExt as _};
use tokio::io::AsyncWrite;

use crate::{Deferred, SandboxError};

/// Seconds that the engine may take to answer.
const MAX_ANSWER_SECONDS: u64 = 60;
/// The socket of an engine with the default configuration.
const SOCKET: &str = "unix:///var/run/docker.sock";
/// The pause before the engine's events are listened to again.
const PAUSE: Duration = Duration::from_secs(1);
/// Within this many seconds, the creator of a container has started it or given up.
const STARTING: u64 = 120;

/// The label by which verifiers' containers are found; it holds the owner (`owner`).
pub(super) const LABEL: &str = "rapid-verifier.owner";

/// A container's standard input.
pub(super) type Input = Pin<Box<dyn AsyncWrite + Send>>;
/// A container's standard output and error.
pub(super) type Output = Pin<Box<dyn Stream<Item = Result<LogOutput, Error>> + Send>>;

pub(super) struct Engine {
    docker: Docker,
    /// How often the engine's event connection has ended.
    interruptions: AtomicUsize,
}

/// The state of a container's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Running,
    Exited {
        status: i64,
        /// Whether the kernel killed it because it was out of memory.
        out_of_memory: bool,
    },
}

/// A container of any verifier on this engine.
#[derive(Debug, Clone)]
pub(super) struct VerifierContainer {
    pub(super) id: String,
    pub(super) owner: String,
    /// Whether it runs or is about to.
    pub(super) running: bool,
}

impl Engine {
    /// Connects to the engine at `host` (`unix:///…`), or at the address in the environment's `DOCKER_HOST`, or at the usual address.
    ///
    /// # Errors
    /// [`SandboxError::Unusable`] if no engine answers.
    pub(super) async fn connect(host: Option<&str>) -> Result<Arc<Engine>, SandboxError> {
        let host = host
            .map(str::to_owned)
            .or_else(|| std::env::var("DOCKER_HOST").ok())
            .filter(|host| !host.trim().is_empty())
            .unwrap_or_else(|| SOCKET.to_owned());
        if !host.starts_with("unix://") {
            return Err(SandboxError::Unusable(format!(
                "the Docker engine's address is {host}, and only local sockets (unix:///…) are supported; correct docker.host or DOCKER_HOST"
            )));
        }
        let connected =
            match Docker::connect_with_unix(&host, MAX_ANSWER_SECONDS, API_DEFAULT_VERSION) {
                Ok(docker) => docker.negotiate_version().await,
                Err(error) => Err(error),
            };
        let docker = connected.map_err(|error| {
            SandboxError::Unusable(format!(
                "no Docker engine answers at {host} ({}); install and start it (on Debian: apt-get install docker.io), let this user use it (usermod \
                 --append --groups docker USER), name its socket with docker.host, or judge in WebAssembly with code.sandbox = \"wasm\"",
                with_causes(&error)
            ))
        })?;
        let engine = Arc::new(Engine {
            docker,
            interruptions: AtomicUsize::new(0),
        });
        tokio::spawn(listen(Arc::downgrade(&engine)));
        Ok(engine)
    }

    /// The digest of an image's configuration. It identifies the image's content.
    ///
    /// # Errors
    /// [`SandboxError::Unusable`] if the engine has no such image.
    pub(super) async fn image(&self, name: &str) -> Result<String, SandboxError> {
        match self.docker.inspect_image(name).await {
            Ok(image) => image.id.ok_or_else(|| {
                SandboxError::Unusable(format!("the Docker engine returns no id for image {name}"))
            }),
            Err(Error::DockerResponseServerError {
                status_code: 404, ..
            }) => Err(SandboxError::Unusable(format!(
                "the Docker engine has no image {name}; build it with `docker build --tag {name} sandboxes/docker`, or, where no registry can be reached, \
                 with `bash sandboxes/docker/import-image.sh {name}`"
            ))),
            Err(error) => Err(engine_failed("the sandbox's image was looked for", &error)),
        }
    }

    /// # Errors
    /// [`SandboxError::Unusable`] if the engine does not know a runtime of this name.
    pub(super) async fn require_runtime(&self, name: &str) -> Result<(), SandboxError> {
        let info = self.docker.info().await;
        let info = info.map_err(|error| engine_failed("its runtimes were listed", &error))?;
        let known = info.runtimes.unwrap_or_default();
        if known.contains_key(name) {
            return Ok(());
        }
        let mut names: Vec<&str> = known.keys().map(String::as_str).collect();
        names.sort_unstable();
        Err(SandboxError::Unusable(format!(
            "the Docker engine has no runtime `{name}` (it has {}); install it and name it in /etc/docker/daemon.json, or leave docker.runtime out",
            names.join(", ")
        )))
    }

    /// Creates a container with that name, and returns its id.
    pub(super) async fn create(
        &self,
        name: &str,
        body: ContainerCreateBody,
    ) -> Result<String, Error> {
        let options = CreateContainerOptionsBuilder::new().name(name).build();
        Ok(self.docker.create_container(Some(options), body).await?.id)
    }

    /// The streams of a container that has not started yet.
    pub(super) async fn attach(&self, id: &str) -> Result<(Input, Output), Error> {
        let options = AttachContainerOptionsBuilder::new().stream(true);
        let options = options.stdin(true).stdout(true).stderr(true).build();
        let AttachContainerResults { output, input } =
            self.docker.attach_container(id, Some(options)).await?;
        Ok((input, output))
    }

    pub(super) async fn start(&self, id: &str) -> Result<(), Error> {
        self.docker.start_container(id, None).await
    }

    /// Kills a container, given by its id or name, and removes it. It is not an error if the container is gone already.
    pub(super) async fn remove(&self, id: &str) -> Result<(), Error> {
        let options = RemoveContainerOptionsBuilder::new().force(true);
        let options = options.v(true).build();
        match self.docker.remove_container(id, Some(options)).await {
            // 409: the engine is already removing it.
            Err(Error::DockerResponseServerError {
                status_code: 404 | 409,
                ..
            }) => Ok(()),
            other => other,
        }
    }

    pub(super) async fn state(&self, id: &str) -> Result<State, Error> {
        let state = self.docker.inspect_container(id, None).await?.state;
        let state = state.unwrap_or_default();
        Ok(if state.running == Some(true) {
            State::Running
        } else {
            State::Exited {
                status: state.exit_code.unwrap_or(0),
                out_of_memory: state.oom_killed == Some(true),
            }
        })
    }

    /// Processor time that a container has taken since it started.
    pub(super) async fn processor_time(&self, id: &str) -> Result<Duration, Error> {
        let options = StatsOptionsBuilder::new().stream(false);
        let options = options.one_shot(true).build();
        let mut stats = std::pin::pin!(self.docker.stats(id, Some(options)));
        let stats = stats.next().await.transpose()?;
        let nanoseconds = stats
            .and_then(|stats| stats.cpu_stats?.cpu_usage?.total_usage)
            .unwrap_or(0);
        Ok(Duration::from_nanos(nanoseconds))
    }

    /// Sets the memory limit of a running container, in bytes, without swap.
    pub(super) async fn set_memory(&self, id: &str, bytes: i64) -> Result<(), Error> {
        let update = ContainerUpdateBody {
            memory: Some(bytes),
            memory_swap: Some(bytes),
            ..ContainerUpdateBody::default()
        };
        self.docker.update_container(id, update).await
    }

    /// All containers that any verifier created.
    pub(super) async fn verifiers_containers(&self) -> Result<Vec<VerifierContainer>, Error> {
        let options = ListContainersOptionsBuilder::new().all(true);
        let options = options.filters(&labelled()).build();
        let containers = self.docker.list_containers(Some(options)).await?;
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs());
        Ok(containers
            .into_iter()
            .filter_map(|container| {
                let running = match container.state {
                    Some(ContainerSummaryStateEnum::EXITED | ContainerSummaryStateEnum::DEAD) => {
                        false
                    }
                    Some(ContainerSummaryStateEnum::CREATED) => container
                        .created
                        .and_then(|created| u64::try_from(created).ok())
                        .is_some_and(|created| now < created.saturating_add(STARTING)),
                    _ => true,
                };
                Some(VerifierContainer {
                    id: container.id?,
                    owner: container.labels?.remove(LABEL)?,
                    running,
                })
            })
            .collect())
    }

    /// Grows whenever the connection to the engine is lost. Equal numbers before and after mean that the engine ran all the time.
    pub(super) fn interruptions(&self) -> usize {
        self.interruptions.load(Ordering::SeqCst)
    }
}

/// Listens to the engine's events, only to notice the end of the connection.
async fn listen(engine: std::sync::Weak<Engine>) {
    loop {
        let Some(docker) = engine.upgrade().map(|engine| engine.docker.clone()) else {
            return;
        };
        let options = EventsOptionsBuilder::new().filters(&labelled()).build();
        let mut events = std::pin::pin!(docker.events(Some(options)));
        while let Some(Ok(_)) = events.next().await {}
        match engine.upgrade() {
            Some(engine) => engine.interruptions.fetch_add(1, Ordering::SeqCst),
            None => return,
        };
        tokio::time::sleep(PAUSE).await;
    }
}

fn labelled() -> HashMap<String, Vec<String>> {
    HashMap::from([("label".to_owned(), vec![LABEL.to_owned()])])
}

/// The engine failed at a request, and may not fail at the next one.
pub(super) fn engine_failed(when: &str, error: &Error) -> SandboxError {
    let what = format!(
        "the Docker engine failed when {when} ({}); see whether it runs and has room (docker info, docker system df), and judge it again",
        with_causes(error)
    );
    Deferred::Failed(what).into()
}

/// The text of an error and of its causes.
pub(super) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}
