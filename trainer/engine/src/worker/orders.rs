//! What rank 0 has the other ranks do. It alone has the trainer's state; they have the model, and compute their share of each command.

use std::path::PathBuf;
use std::sync::MutexGuard;

use serde::{Deserialize, Serialize};

use crate::api::{AdamW, EngineOptions, GenerateRequest};
use crate::backend::group::{Group as Ranks, Leader, LeaderState, next_order};
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
    /// Rank 0 has ended.
    End,
}

impl Order {
    fn bytes(&self) -> Result<Vec<u8>, EngineError> {
        serde_json::to_vec(self)
            .map_err(|error| EngineError::Group(format!("an order cannot be written: {error}")))
    }

    /// Receives the next order from rank 0.
    pub(super) fn receive(ranks: &dyn Ranks) -> Result<Self, EngineError> {
        let bytes = next_order(ranks)?;
        if bytes.is_empty() {
            return Ok(Self::End);
        }
        serde_json::from_slice(&bytes).map_err(|error| {
            EngineError::Group(format!(
                "rank 0 sent an order that this version does not know ({error}); all ranks must run the same version"
            ))
        })
    }

    /// Begins a command of all ranks.
    pub(super) fn begin<'a>(
        &self,
        leader: &'a Leader,
    ) -> Result<MutexGuard<'a, LeaderState>, EngineError> {
        leader.begin(&self.bytes()?)
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
    ) -> Result<MutexGuard<'_, LeaderState>, EngineError> {
        order(self.model).begin(&self.leader)
    }
}
