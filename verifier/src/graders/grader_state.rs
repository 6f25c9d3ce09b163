//! The state of a grader that takes time to prepare, and may not work on this machine.

use std::sync::{Arc, PoisonError, RwLock};

use sandboxes::Identity;
use verifier_api::{GraderInfo, GraderState};

use crate::grade::Grading;

/// Holds a grader once it is prepared, or the reason why it is unavailable.
pub(super) struct GraderCell<T> {
    state: RwLock<State<T>>,
    /// The name of the grader in messages.
    what: &'static str,
}

enum State<T> {
    Preparing,
    Ready(Arc<T>),
    Unavailable(String),
}

impl<T> GraderCell<T> {
    pub(super) fn new(what: &'static str) -> Self {
        Self {
            state: RwLock::new(State::Preparing),
            what,
        }
    }

    /// Sets the grader, or the reason why it is unavailable.
    pub(super) fn set(&self, prepared: Result<T, String>) {
        let state = match prepared {
            Ok(grader) => State::Ready(Arc::new(grader)),
            Err(reason) => State::Unavailable(reason),
        };
        *self.state.write().unwrap_or_else(PoisonError::into_inner) = state;
    }

    /// The grader, or an `unavailable` grading with the reason.
    pub(super) fn grader(&self) -> Result<Arc<T>, Box<Grading>> {
        match &*self.state.read().unwrap_or_else(PoisonError::into_inner) {
            State::Ready(grader) => Ok(Arc::clone(grader)),
            State::Preparing => {
                let reason = format!(
                    "{} is still being prepared; ask again when /readyz answers 200",
                    self.what
                );
                Err(Box::new(Grading::unavailable(&reason, true)))
            }
            State::Unavailable(reason) => Err(Box::new(Grading::unavailable(reason, false))),
        }
    }

    /// `blank`, with the grader's state and identity filled in.
    pub(super) fn info(&self, blank: GraderInfo, identity: impl Fn(&T) -> &Identity) -> GraderInfo {
        match &*self.state.read().unwrap_or_else(PoisonError::into_inner) {
            State::Preparing => GraderInfo {
                state: GraderState::Preparing,
                reason: Some(format!("{} is being prepared", self.what)),
                ..blank
            },
            State::Unavailable(reason) => GraderInfo {
                state: GraderState::Unavailable,
                reason: Some(reason.clone()),
                ..blank
            },
            State::Ready(grader) => {
                let Identity {
                    backend,
                    interpreter,
                    digest,
                } = identity(grader).clone();
                GraderInfo {
                    state: GraderState::Ready,
                    backend: Some(backend),
                    interpreter: Some(interpreter),
                    digest: Some(digest),
                    ..blank
                }
            }
        }
    }
}
