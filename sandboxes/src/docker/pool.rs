//! The pool of warm containers. It is filled in the background, bounded, and hands out each container once.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bollard::models::ContainerCreateBody;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::engine::{Engine, engine_failed};
use super::guest::Guest;
use super::{closed, owner};
use crate::{Deferred, SandboxError};

/// Containers that are being created at a time.
const MAX_MAKERS: usize = 2;
/// The time within which a container must be warm.
const MAX_START: Duration = Duration::from_secs(120);
/// The pause before the next container is created, if the engine fails.
const PAUSE: Duration = Duration::from_secs(2);

/// Creates containers, all with the same settings.
pub(super) struct ContainerFactory {
    pub(super) engine: Arc<Engine>,
    pub(super) body: ContainerCreateBody,
    /// Bytes of memory of each container.
    pub(super) memory: u64,
    /// The source that warms each container.
    pub(super) source: String,
}

impl ContainerFactory {
    /// Creates a warm container that occupies `slot`.
    ///
    /// # Errors
    /// As [`Guest::start`].
    pub(super) async fn make(&self, slot: OwnedSemaphorePermit) -> Result<Guest, SandboxError> {
        let name = owner::name();
        let making = async {
            let id = self.engine.create(&name, self.body.clone()).await;
            let id = id.map_err(|error| engine_failed("a container was created", &error))?;
            let engine = Arc::clone(&self.engine);
            Guest::start(engine, id, self.memory, &self.source, slot).await
        };
        let made = tokio::time::timeout(MAX_START, making)
            .await
            .unwrap_or_else(|_| {
                Err(SandboxError::Deferred(Deferred::Failed(format!(
                    "a container was not ready after {} s: the machine is overloaded; judge it again",
                    MAX_START.as_secs()
                ))))
            });
        if made.is_err() {
            // A busy engine may still create a container that nobody waits for any more. Nobody knows its id. If it is left after this, the next start of a verifier
            // removes it.
            let engine = Arc::clone(&self.engine);
            tokio::spawn(async move {
                tokio::time::sleep(MAX_START).await;
                let _ = engine.remove(&name).await;
            });
        }
        made
    }
}

pub(super) struct Pool {
    warm: Mutex<VecDeque<Guest>>,
    /// One permit for each warm guest.
    ready: Semaphore,
    /// The last failure to create a container; `None` after one was created.
    failure: watch::Sender<Option<String>>,
}

impl Pool {
    /// A pool over `slots`. As many containers exist at a time as there are slots, whether warm, in use, or being created or removed. The pool is filled until it is
    /// dropped.
    pub(super) fn new(factory: &Arc<ContainerFactory>, slots: &Arc<Semaphore>) -> Arc<Pool> {
        let pool = Arc::new(Pool {
            warm: Mutex::default(),
            ready: Semaphore::new(0),
            failure: watch::Sender::new(None),
        });
        for _ in 0..MAX_MAKERS {
            let (factory, slots) = (Arc::clone(factory), Arc::clone(slots));
            tokio::spawn(fill(Arc::downgrade(&pool), factory, slots));
        }
        pool
    }

    /// Removes all warm guests and creates no more.
    pub(super) fn close(&self) {
        self.ready.close();
        self.warm().clear();
    }

    fn warm(&self) -> MutexGuard<'_, VecDeque<Guest>> {
        self.warm.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a warm guest.
    pub(super) fn put(&self, guest: Guest) {
        self.warm().push_back(guest);
        self.ready.add_permits(1);
        self.failure.send_replace(None);
    }

    /// Takes `N` guests at once: otherwise two runs that need two guests each could wait for one another. Requests are served in their order.
    ///
    /// # Errors
    /// [`SandboxError::Deferred`] if the engine creates no container.
    pub(super) async fn take<const N: usize>(&self) -> Result<[Guest; N], SandboxError> {
        loop {
            let mut failure = self.failure.subscribe();
            let count = u32::try_from(N).unwrap_or(u32::MAX);
            let permit = tokio::select! {
                permit = self.ready.acquire_many(count) => permit,
                why = next_failure(&mut failure) => return Err(SandboxError::Deferred(Deferred::Failed(why))),
            };
            permit.map_err(|_| closed())?.forget();
            let mut taken: Vec<Guest> = {
                let mut warm = self.warm();
                let count = N.min(warm.len());
                warm.drain(..count).collect()
            };
            taken.retain_mut(Guest::is_alive);
            match <[Guest; N]>::try_from(taken) {
                Ok(guests) => return Ok(guests),
                // Some guests were dead. The live ones go back, and the makers replace the others.
                Err(alive) => alive.into_iter().for_each(|guest| self.put(guest)),
            }
        }
    }
}

async fn next_failure(failure: &mut watch::Receiver<Option<String>>) -> String {
    loop {
        if failure.changed().await.is_err() {
            return "the sandbox is being closed".to_owned();
        }
        if let Some(why) = failure.borrow_and_update().clone() {
            return why;
        }
    }
}

async fn fill(pool: std::sync::Weak<Pool>, factory: Arc<ContainerFactory>, slots: Arc<Semaphore>) {
    let open = || pool.upgrade().filter(|pool| !pool.ready.is_closed());
    while let Ok(slot) = Arc::clone(&slots).acquire_owned().await {
        if open().is_none() {
            return;
        }
        let made = factory.make(slot).await;
        let Some(pool) = open() else { return };
        match made {
            Ok(guest) => pool.put(guest),
            Err(error) => {
                tracing::warn!("no container for the sandbox: {error}");
                pool.failure.send_replace(Some(error.to_string()));
                drop(pool);
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}
