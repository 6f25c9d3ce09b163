//! Rank 0's side of ranks that compute together: it sends orders, and one command runs at a time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use super::Group;
use crate::error::EngineError;

/// Rank 0 of ranks that compute together. Clones are the same. An order is some bytes, whose meaning is the worker's; one without bytes ends the other ranks.
#[derive(Clone)]
pub struct Leader {
    pub(crate) ranks: Arc<dyn Group>,
    /// Locked for the time of a command, in which ranks exchange what it needs.
    state: Arc<Mutex<LeaderState>>,
}

/// What rank 0 knows of the others.
#[derive(Default)]
pub(crate) struct LeaderState {
    /// Number of models opened so far.
    pub(crate) opened: usize,
    ended: bool,
}

impl std::fmt::Debug for Leader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the first of {} ranks", self.ranks.size())
    }
}

impl PartialEq for Leader {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.state, &other.state)
    }
}

impl Leader {
    /// The leader of the ranks of which this process is number 0. The others [`follow`](crate::follow).
    #[must_use]
    pub fn new(ranks: Arc<dyn Group>) -> Self {
        let state = Arc::default();
        Self { ranks, state }
    }

    /// Number of ranks.
    #[must_use]
    pub fn size(&self) -> usize {
        self.ranks.size()
    }

    /// Begins a command. Until the result is dropped, no other command begins.
    pub(crate) fn begin(&self, order: &[u8]) -> Result<MutexGuard<'_, LeaderState>, EngineError> {
        let turn = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.send(&turn, order)?;
        Ok(turn)
    }

    /// Sends an order unless a command is running.
    pub(crate) fn try_send(&self, order: &[u8]) -> Result<(), EngineError> {
        match self.state.try_lock() {
            Ok(turn) => self.send(&turn, order),
            Err(TryLockError::Poisoned(turn)) => self.send(&turn.into_inner(), order),
            Err(TryLockError::WouldBlock) => Ok(()),
        }
    }

    fn send(&self, state: &LeaderState, order: &[u8]) -> Result<(), EngineError> {
        if state.ended {
            return Err(EngineError::Stopped);
        }
        let nothing: &[u8] = &[];
        let mut parts = vec![order; self.ranks.size()];
        parts[0] = nothing;
        self.ranks.all_to_all(&parts).map(drop)
    }

    /// Ends the other ranks' [`follow`](crate::follow), and leaves the group. Later commands are errors.
    ///
    /// # Errors
    /// [`EngineError::Group`].
    pub fn end(&self) -> Result<(), EngineError> {
        let mut turn = self.begin(&[])?;
        turn.ended = true;
        self.ranks.finish();
        Ok(())
    }

    /// Ends the processes of all ranks after an error.
    pub fn abort(&self, code: i32) {
        self.ranks.abort(code);
    }
}

/// The next order of rank 0; it is empty when rank 0 ends.
pub(crate) fn next_order(ranks: &dyn Group) -> Result<Vec<u8>, EngineError> {
    let parts = vec![&[] as &[u8]; ranks.size()];
    let mut received = ranks.all_to_all(&parts)?;
    Ok(std::mem::take(&mut received[0]))
}
