//! The state of a grader that takes time to prepare, and may not work on this machine.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use sandboxes::Identity;
use verifier_api::{GraderInfo, GraderState};

use crate::grade::Grading;

/// Holds a grader once it is prepared, or the reason why it is unavailable.
pub(super) struct GraderCell<T> {
    state: RwLock<State<T>>,
    /// The name of the grader in messages.
    what: String,
}

enum State<T> {
    Preparing,
    Ready(Arc<T>),
    Unavailable(String),
}

impl<T> GraderCell<T> {
    pub(super) fn new(what: impl Into<String>) -> Self {
        Self {
            state: RwLock::new(State::Preparing),
            what: what.into(),
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
        match &*self.read() {
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

    /// `blank`, with the grader's state filled in, and its identity if it has one.
    pub(super) fn info(
        &self,
        blank: GraderInfo,
        identity: impl Fn(&T) -> Option<&Identity>,
    ) -> GraderInfo {
        let (state, reason, identity) = match &*self.read() {
            State::Preparing => {
                let reason = format!("{} is being prepared", self.what);
                (GraderState::Preparing, Some(reason), None)
            }
            State::Unavailable(reason) => (GraderState::Unavailable, Some(reason.clone()), None),
            State::Ready(grader) => (GraderState::Ready, None, identity(grader).cloned()),
        };
        let part = |of: fn(&Identity) -> &String| identity.as_ref().map(|known| of(known).clone());
        GraderInfo {
            state,
            reason,
            backend: part(|identity| &identity.backend),
            interpreter: part(|identity| &identity.interpreter),
            digest: part(|identity| &identity.digest),
            ..blank
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, State<T>> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }
}
