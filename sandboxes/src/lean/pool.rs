//! REPL processes that are kept: reading Mathlib's header takes much longer than reading a proof.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::repl::Repl;
use super::{Bounds, Lean, LeanError, Program, Said, Severity};

/// What a pool keeps, and for how long.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What starts a REPL.
    pub program: Program,
    /// What a process may cost.
    pub bounds: Bounds,
    /// Processes at a time.
    pub processes: usize,
    /// Bodies that a process reads before another takes its place.
    pub uses: u32,
    /// Headers whose processes are kept for the next body. Another header's process reads one body and ends.
    pub headers: Vec<String>,
}

/// A pool of REPL processes.
pub struct Pool {
    settings: Settings,
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Default)]
struct State {
    /// The one used last comes last.
    idle: Vec<Repl>,
    /// Processes, idle ones included.
    live: usize,
}

/// Part of the memory's bound, in quarters, from which on a process is not kept.
const WORN: u64 = 3;

impl Pool {
    /// Starts nothing yet.
    #[must_use]
    pub fn new(mut settings: Settings) -> Self {
        settings.processes = settings.processes.max(1);
        for header in &mut settings.headers {
            *header = header.trim_end().to_owned();
        }
        Self {
            settings,
            state: Mutex::default(),
            freed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A kept process that has read `header`, or the right to start one.
    fn take(&self, header: &str, fresh: bool) -> (Place<'_>, Option<Repl>) {
        let mut state = self.lock();
        loop {
            let known = |repl: &Repl| !fresh && repl.header == header;
            if let Some(at) = state.idle.iter().rposition(known) {
                return (Place(self), Some(state.idle.remove(at)));
            }
            if state.live < self.settings.processes {
                state.live += 1;
                return (Place(self), None);
            }
            if !state.idle.is_empty() {
                // Another header's, or an old one: its place is taken.
                let old = state.idle.remove(0);
                drop(state);
                drop(old);
                return (Place(self), None);
            }
            state = self
                .freed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn keep(&self, repl: Repl, place: Place<'_>) {
        let Settings {
            bounds,
            uses,
            headers,
            ..
        } = &self.settings;
        let worn = repl.uses >= *uses || repl.memory_mib() > bounds.memory_mib / 4 * WORN;
        if worn || !headers.contains(&repl.header) {
            return;
        }
        self.lock().idle.push(repl);
        // The process keeps its place.
        std::mem::forget(place);
        self.freed.notify_one();
    }

    /// Reads a body, in a kept process or a fresh one; says whether it was a kept one.
    fn read(&self, header: &str, body: &str, fresh: bool) -> (bool, Result<Said, LeanError>) {
        let (place, kept) = self.take(header, fresh);
        let reused = kept.is_some();
        let said = (|| {
            let (mut repl, messages) = match kept {
                Some(repl) => (repl, Vec::new()),
                None => Repl::start(&self.settings.program, &self.settings.bounds, header)?,
            };
            let refused = messages
                .iter()
                .any(|message| message.severity == Severity::Error);
            if refused {
                return Ok(Said {
                    header: messages,
                    body: Vec::new(),
                });
            }
            let body = repl.read(body, &self.settings.bounds)?;
            self.keep(repl, place);
            Ok(Said {
                header: messages,
                body,
            })
        })();
        (reused, said)
    }
}

impl Lean for Pool {
    fn run(&self, header: &str, body: &str) -> Result<Said, LeanError> {
        let header = header.trim_end();
        let (reused, said) = self.read(header, body, false);
        // What earlier bodies left in a process must not decide about this one.
        if reused && matches!(said, Err(LeanError::Crashed(_) | LeanError::Memory(_))) {
            return self.read(header, body, true).1;
        }
        said
    }
}

/// The right to one process; given back when it is dropped.
struct Place<'a>(&'a Pool);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.lock().live -= 1;
        self.0.freed.notify_one();
    }
}
