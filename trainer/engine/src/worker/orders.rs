//! What rank 0 has the other ranks do. It alone has the trainer's state; they have the model, and compute their share of each command.

use std::path::PathBuf;
use std::sync::MutexGuard;

use serde::{Deserialize, Serialize};

use crate::api::{AdamW, EngineOptions, GenerateRequest};
use crate::backend::group::{Group as Ranks, Leader, LeaderState, next_order};
use crate::batch::Group;
use crate::error::EngineError;

/// What all ranks do. Models are named by the order in which they were opened.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Order {
    Open {
        model: PathBuf,
        options: EngineOptions,
    },
    Obey {
        model: usize,
        command: Command,
    },
    Close {
        model: usize,
    },
    /// Rank 0 has ended.
    End,
}

/// What a model does on all ranks.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Command {
    Generate {
        base: bool,
        requests: Vec<GenerateRequest>,
    },
    Score {
        base: bool,
        groups: Vec<Group>,
        temperature: f32,
    },
    Step {
        groups: Vec<Group>,
        temperature: f32,
        adamw: AdamW,
    },
    /// Rank 0 writes the file; the others send it their moments.
    SaveState,
    LoadState {
        file: PathBuf,
    },
}

impl Order {
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

    /// Begins what all ranks do.
    pub(super) fn begin<'a>(
        &self,
        leader: &'a Leader,
    ) -> Result<MutexGuard<'a, LeaderState>, EngineError> {
        let bytes = serde_json::to_vec(self)
            .map_err(|error| EngineError::Group(format!("an order cannot be written: {error}")))?;
        leader.begin(&bytes)
    }
}

/// A model of rank 0, as the other ranks know it.
#[derive(Clone)]
pub(super) struct Led {
    pub(super) leader: Leader,
    pub(super) model: usize,
}

impl Led {
    /// Begins a command to this model.
    pub(super) fn begin(
        &self,
        command: Command,
    ) -> Result<MutexGuard<'_, LeaderState>, EngineError> {
        let model = self.model;
        Order::Obey { model, command }.begin(&self.leader)
    }
}
