//! What rank 0 has the other ranks do. It alone has the trainer's state; they have the model, and compute their share of each command.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use crate::api::{AdamW, EngineOptions, GenerateRequest};
use crate::backend::group::{Group as Ranks, Sharing};
use crate::batch::Group;
use crate::error::EngineError;

/// A command for all ranks. Models are named by the order in which they were opened.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Order {
    Open {
        model: PathBuf,
        options: EngineOptions,
    },
    Generate {
        model: usize,
        base: bool,
        requests: Vec<GenerateRequest>,
    },
    Score {
        model: usize,
        base: bool,
        groups: Vec<Group>,
        temperature: f32,
    },
    Step {
        model: usize,
        groups: Vec<Group>,
        temperature: f32,
        adamw: AdamW,
    },
    /// Rank 0 writes the file; the others send it their moments.
    SaveState {
        model: usize,
    },
    LoadState {
        model: usize,
        file: PathBuf,
    },
    Close {
        model: usize,
    },
    /// Nothing for now.
    Wait,
    End,
}

impl Order {
    /// Sends an order from rank 0 to all.
    fn send(&self, ranks: &dyn Ranks) -> Result<(), EngineError> {
        let bytes = serde_json::to_vec(self)
            .map_err(|error| EngineError::Group(format!("an order cannot be written: {error}")))?;
        let nothing: &[u8] = &[];
        let mut parts = vec![bytes.as_slice(); ranks.size()];
        parts[0] = nothing;
        ranks.all_to_all(&parts).map(drop)
    }

    /// Receives the next order from rank 0.
    pub(super) fn receive(ranks: &dyn Ranks) -> Result<Self, EngineError> {
        let parts = vec![&[] as &[u8]; ranks.size()];
        let received = ranks.all_to_all(&parts)?;
        serde_json::from_slice(&received[0]).map_err(|error| {
            EngineError::Group(format!(
                "rank 0 sent an order that this version does not know ({error}); all ranks must run the same version"
            ))
        })
    }
}

/// Rank 0's side of the ranks that compute together. Clones are the same.
#[derive(Clone)]
pub struct Leader {
    ranks: Arc<dyn Ranks>,
    /// Number of models opened so far. Locked for the time of a command, in which ranks exchange what it needs.
    opened: Arc<Mutex<usize>>,
}

impl std::fmt::Debug for Leader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the first of {} ranks", self.ranks.size())
    }
}

impl PartialEq for Leader {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.opened, &other.opened)
    }
}

impl Leader {
    /// The leader of the ranks of which this process is number 0. The others [`follow`](super::follow).
    #[must_use]
    pub fn new(ranks: Arc<dyn Ranks>) -> Self {
        let opened = Arc::new(Mutex::new(0));
        Self { ranks, opened }
    }

    /// Number of ranks.
    #[must_use]
    pub fn size(&self) -> usize {
        self.ranks.size()
    }

    pub(super) fn sharing(&self, slices: usize) -> Result<Sharing, EngineError> {
        Sharing::new(self.ranks.clone(), slices)
    }

    /// Begins a command. Until the result is dropped, no other command begins.
    pub(super) fn begin(&self, order: &Order) -> Result<MutexGuard<'_, usize>, EngineError> {
        let turn = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        order.send(self.ranks.as_ref())?;
        Ok(turn)
    }

    /// Keeps the other ranks waiting, unless a command is running.
    pub(super) fn wait(&self) -> Result<(), EngineError> {
        match self.opened.try_lock() {
            Ok(_turn) => Order::Wait.send(self.ranks.as_ref()),
            Err(_) => Ok(()),
        }
    }

    /// Ends the other ranks' [`follow`](super::follow), and leaves the group.
    ///
    /// # Errors
    /// [`EngineError::Group`].
    pub fn end(&self) -> Result<(), EngineError> {
        drop(self.begin(&Order::End)?);
        self.ranks.finish();
        Ok(())
    }

    /// Ends the processes of all ranks after an error.
    pub fn abort(&self, code: i32) {
        self.ranks.abort(code);
    }
}

/// A model of rank 0, as the other ranks know it.
#[derive(Clone)]
pub(super) struct Led {
    pub(super) leader: Leader,
    pub(super) model: usize,
}

impl Led {
    /// Begins a command about this model.
    pub(super) fn begin(
        &self,
        order: impl FnOnce(usize) -> Order,
    ) -> Result<MutexGuard<'_, usize>, EngineError> {
        self.leader.begin(&order(self.model))
    }
}
