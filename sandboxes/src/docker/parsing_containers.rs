//! Containers that read texts. No part of a text runs in such a container, so it stays for the next texts, whereas a program's container is removed after its run.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::clock::overrun;
use super::conversation::{converse, prepare, report};
use super::guest::Guest;
use super::pool::Pool;
use super::termination::Termination;
use crate::protocol::Candidate;
use crate::{End, Limits, Run, SandboxError};

/// Time of reading after which a parsing container is removed, so that nothing accumulates in it.
const MAX_READING: Duration = Duration::from_secs(5);
/// One container in this many may be an idle parsing container. The others are for programs.
const CONTAINERS_PER_READER: usize = 4;

/// Parsing containers that wait for texts.
pub(super) struct ParsingContainers {
    pool: Arc<Pool>,
    idle: Mutex<Vec<ParsingContainer>>,
    /// Parsing containers that may wait at a time.
    max_idle: usize,
}

/// A guest that reads one text after another.
struct ParsingContainer {
    guest: Guest,
    candidate: Candidate,
    limits: Limits,
    /// Its last request, which is not answered yet.
    request: &'static [u8],
    /// How long it has read in all.
    reading: Duration,
}

impl ParsingContainers {
    /// Parsing containers from `pool`, which has `containers` containers at a time.
    pub(super) fn new(pool: &Arc<Pool>, containers: usize) -> ParsingContainers {
        ParsingContainers {
            pool: Arc::clone(pool),
            idle: Mutex::default(),
            max_idle: containers / CONTAINERS_PER_READER,
        }
    }

    /// Removes all idle parsing containers.
    pub(super) fn close(&self) {
        self.idle().clear();
    }

    /// Has the harness's `outline` read `texts`.
    ///
    /// # Errors
    /// [`SandboxError::Deferred`] if the engine fails.
    pub(super) async fn read(&self, texts: &[String], limits: Limits) -> Result<Run, SandboxError> {
        if let Some(mut container) = self.take(limits)
            && let Ok(run) = container.read(texts).await
            // If it broke off or was out of time, an earlier text may be the reason, so a fresh one reads again.
            && run.end == End::Completed
        {
            self.put_back(container, &run);
            return Ok(run);
        }
        let [guest] = self.pool.take().await?;
        let mut container = ParsingContainer::new(guest, limits).await?;
        let run = container.read(texts).await?;
        self.put_back(container, &run);
        Ok(run)
    }

    fn idle(&self) -> MutexGuard<'_, Vec<ParsingContainer>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes an idle parsing container with these limits.
    fn take(&self, limits: Limits) -> Option<ParsingContainer> {
        let mut idle = self.idle();
        let at = idle
            .iter()
            .position(|container| container.limits == limits)?;
        let mut container = idle.swap_remove(at);
        container.guest.is_alive().then_some(container)
    }

    fn put_back(&self, container: ParsingContainer, run: &Run) {
        let mut idle = self.idle();
        if run.end != End::Completed || container.reading > MAX_READING || self.max_idle == 0 {
            return;
        }
        if idle.len() == self.max_idle {
            // The oldest may have limits that are no longer requested.
            idle.remove(0);
        }
        idle.push(container);
    }
}

impl ParsingContainer {
    async fn new(mut guest: Guest, limits: Limits) -> Result<ParsingContainer, SandboxError> {
        prepare(&mut guest, &limits).await?;
        Ok(ParsingContainer {
            guest,
            candidate: Candidate::outlining(&limits),
            limits,
            request: b"J",
            reading: Duration::ZERO,
        })
    }

    async fn read(&mut self, texts: &[String]) -> Result<Run, SandboxError> {
        self.candidate.set_calls(texts);
        let started = Instant::now();
        // The time of all its texts counts. If that is too much, a fresh parsing container reads these texts again.
        let meters = [self.guest.meter()];
        let outcome = tokio::select! {
            outcome = converse(&mut self.guest, &mut self.candidate, self.request) => outcome,
            stop = overrun(&meters, self.limits) => Err(stop),
        };
        let end = self.candidate.end(outcome.err().map(Termination::end))?;
        let calls = self.candidate.take_results();
        self.request = b"N";
        self.reading += started.elapsed();
        Ok(report(&meters, calls, end, started, String::new()).await)
    }
}
