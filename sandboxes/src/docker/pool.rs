//! Warm containers: filled beside the runs, bounded, each given out once.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bollard::models::ContainerCreateBody;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::engine::{Engine, lost};
use super::guest::Guest;
use super::owner;
use crate::{Deferred, SandboxError};

/// Containers that are being made at a time.
const MAX_MAKERS: usize = 2;
/// A container must be warm after this.
const MAX_START: Duration = Duration::from_secs(120);
/// Between two tries to make a container where the engine fails.
const PAUSE: Duration = Duration::from_secs(2);

/// What containers are made of.
pub(super) struct ContainerFactory {
    pub(super) engine: Arc<Engine>,
    pub(super) body: ContainerCreateBody,
    /// Bytes of memory of each.
    pub(super) memory: u64,
    /// What warms each.
    pub(super) source: String,
}

impl ContainerFactory {
    /// Makes a warm container that takes up `slot`.
    ///
    /// # Errors
    /// As [`Guest::start`].
    pub(super) async fn make(&self, slot: OwnedSemaphorePermit) -> Result<Guest, SandboxError> {
        let name = owner::name();
        let making = async {
            let id = self
                .engine
                .create(&name, self.body.clone())
                .await
                .map_err(|error| lost("a container was created", &error))?;
            Guest::start(
                Arc::clone(&self.engine),
                id,
                self.memory,
                &self.source,
                slot,
            )
            .await
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
            // A busy engine may yet create what was no longer waited for, and whose id nobody knows. What is left then is removed at the next start of a verifier.
            let engine = Arc::clone(&self.engine);
            tokio::spawn(async move {
                tokio::time::sleep(MAX_START).await;
                let _ = engine.remove(&name).await;
            });
        }
        made
    }
}

/// The pool.
pub(super) struct Pool {
    warm: Mutex<VecDeque<Guest>>,
    /// As many permits as there are warm guests.
    ready: Semaphore,
    /// The last failure to make one; `None` since one was made.
    failure: watch::Sender<Option<String>>,
}

impl Pool {
    /// A pool over `slots`: at most as many containers as these are there at a time, whether warm, in use, or being made or removed. It is filled until
    /// it is dropped.
    pub(super) fn new(factory: &Arc<ContainerFactory>, slots: &Arc<Semaphore>) -> Arc<Pool> {
        let pool = Arc::new(Pool {
            warm: Mutex::default(),
            ready: Semaphore::new(0),
            failure: watch::Sender::new(None),
        });
        for _ in 0..MAX_MAKERS {
            tokio::spawn(fill(
                Arc::downgrade(&pool),
                Arc::clone(factory),
                Arc::clone(slots),
            ));
        }
        pool
    }

    /// Lets all warm guests go and makes no more.
    pub(super) fn close(&self) {
        self.ready.close();
        self.warm
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }

    /// Puts a warm guest in.
    pub(super) fn put(&self, guest: Guest) {
        self.warm
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push_back(guest);
        self.ready.add_permits(1);
        self.failure.send_replace(None);
    }

    /// Takes `N` guests, all at once, so that two runs that need two each never wait for one another; who came first is served first.
    ///
    /// # Errors
    /// [`SandboxError::Deferred`] where the engine makes none.
    pub(super) async fn take<const N: usize>(&self) -> Result<[Guest; N], SandboxError> {
        loop {
            let mut failure = self.failure.subscribe();
            let count = u32::try_from(N).unwrap_or(u32::MAX);
            let permit = tokio::select! {
                permit = self.ready.acquire_many(count) => permit,
                why = next_failure(&mut failure) => return Err(SandboxError::Deferred(Deferred::Failed(why))),
            };
            let Ok(permit) = permit else {
                return Err(SandboxError::Deferred(Deferred::Failed(
                    "the sandbox is being closed".to_owned(),
                )));
            };
            permit.forget();
            let mut taken: Vec<Guest> = {
                let mut warm = self.warm.lock().unwrap_or_else(PoisonError::into_inner);
                let count = N.min(warm.len());
                warm.drain(..count).collect()
            };
            taken.retain_mut(Guest::stands);
            match <[Guest; N]>::try_from(taken) {
                Ok(guests) => return Ok(guests),
                // Some had fallen over: those that stand go back, and the makers replace the others.
                Err(standing) => standing.into_iter().for_each(|guest| self.put(guest)),
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
