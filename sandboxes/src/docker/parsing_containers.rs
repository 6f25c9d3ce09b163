//! Containers that read texts. No part of a text runs in one, so it stays for the next texts. A program's container is removed after its run.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::conversation::{prepare, report, talk};
use super::guest::Guest;
use super::pool::Pool;
use super::termination::Termination;
use crate::idle_parsers::IdleParsers;
use crate::protocol::ProgramConversation;
use crate::{End, Limits, Run, SandboxError};

/// A parsing container is removed after this time of reading, so that nothing accumulates in it.
const MAX_READING: Duration = Duration::from_secs(5);
/// Only one container in this many may be an idle parsing container. The others are for programs.
const CONTAINERS_PER_PARSER: usize = 4;

/// Parsing containers that wait for texts.
pub(super) struct ParsingContainers {
    pool: Arc<Pool>,
    idle: IdleParsers<ParsingContainer>,
}

/// A guest that reads one text after another.
struct ParsingContainer {
    guest: Guest,
    conversation: ProgramConversation,
    /// Its last request, which is still unanswered.
    request: &'static [u8],
    /// How long it has read in all.
    reading: Duration,
}

impl ParsingContainers {
    /// Parsing containers from `pool`, which has `containers` containers at a time.
    pub(super) fn new(pool: &Arc<Pool>, containers: usize) -> ParsingContainers {
        ParsingContainers {
            pool: Arc::clone(pool),
            idle: IdleParsers::new(containers / CONTAINERS_PER_PARSER),
        }
    }

    /// Removes all idle parsing containers.
    pub(super) fn close(&self) {
        self.idle.clear();
    }

    /// Has the harness's `outline` read `texts`.
    ///
    /// # Errors
    /// [`SandboxError::Deferred`] if the engine fails.
    pub(super) async fn read(&self, texts: &[String], limits: Limits) -> Result<Run, SandboxError> {
        if let Some(mut container) = self.idle.take(&limits)
            && container.guest.is_alive()
            && let Ok(run) = container.read(texts, limits).await
            // If reading broke off or was out of time, an earlier text may be the reason, so a fresh container reads again.
            && self.put_back(container, limits, &run)
        {
            return Ok(run);
        }
        let [mut guest] = self.pool.take().await?;
        prepare(&mut guest, &limits).await?;
        let mut container = ParsingContainer {
            guest,
            conversation: ProgramConversation::outlining(&limits),
            request: b"J",
            reading: Duration::ZERO,
        };
        let run = container.read(texts, limits).await?;
        self.put_back(container, limits, &run);
        Ok(run)
    }

    /// Puts a parsing container back after `run`, unless the run broke off or the container has read for long. False if the run broke off.
    fn put_back(&self, container: ParsingContainer, limits: Limits, run: &Run) -> bool {
        let counts = run.end == End::Completed;
        if counts && container.reading <= MAX_READING {
            self.idle.put_back(limits, container);
        }
        counts
    }
}

impl ParsingContainer {
    async fn read(&mut self, texts: &[String], limits: Limits) -> Result<Run, SandboxError> {
        self.conversation.set_calls(texts);
        let started = Instant::now();
        // The time of all its texts counts. If that is too much, a fresh parsing container reads these texts again.
        let meters = [self.guest.meter()];
        let (guest, conversation) = (&mut self.guest, &mut self.conversation);
        let outcome = talk(guest, conversation, self.request, &meters, limits).await;
        let end = self.conversation.end(outcome.err().map(Termination::end))?;
        let calls = self.conversation.take_results();
        self.request = b"N";
        self.reading += started.elapsed();
        Ok(report(&meters, calls, end, started, String::new()).await)
    }
}
