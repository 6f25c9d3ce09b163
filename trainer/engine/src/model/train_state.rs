//! The buffers of training, except the weights: gradient, moments, saved activations, workspace.

use std::ops::Range;

use super::Model;
use super::workspace::{BackwardWorkspace, PerPurpose};
use crate::backend::ranks::{Sharing, gradients};
use crate::backend::{Buf, Purpose};
use crate::error::EngineError;

/// Number of elements that are copied from the device at a time.
pub(crate) const PIECE: usize = 1 << 20;

/// Buffers that training needs and generation does not. Each rank has the moments of its shard.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TrainingBuffers {
    pub(crate) gradient: Buf,
    pub(crate) m: Buf,
    pub(crate) v: Buf,
}

impl Model {
    /// Bytes of weights, gradients and moments on the device.
    pub fn bytes(&self) -> u64 {
        match self.optimiser {
            Some(_) => self.training_bytes(),
            None => self.training_bytes() - self.optimiser_bytes(),
        }
    }

    /// Bytes of weights, gradients and moments during training.
    pub(crate) fn training_bytes(&self) -> u64 {
        let adapters = self.decoder.adapters.as_ref();
        let adapters = adapters.map_or(0, |adapters| adapters.layout.len);
        let weight = self.decoder.backend.element_bytes().weight;
        let resident = weight * (self.decoder.weights.len() + adapters);
        resident as u64 + self.optimiser_bytes()
    }

    /// Bytes of gradients and moments: the gradient, the partial sums of slices, and two moments of this rank's shard.
    fn optimiser_bytes(&self) -> u64 {
        let Sharing { ranks, slices } = &self.sharing;
        let gradients = gradients(*slices, ranks.size()) * self.trained().len();
        4 * (gradients + 2 * self.shard().len()) as u64
    }

    /// Releases the buffers that only a backward pass needs, for the generation phase. Gradients and moments remain.
    pub fn release_training(&mut self) {
        if let Some(back) = self.back.take() {
            back.all.release(self.decoder.backend.as_mut());
        }
        if let Some(saved) = self.saved.take() {
            saved.release(self.decoder.backend.as_mut());
        }
    }

    /// Buffers for a backward pass of `tokens` tokens.
    pub(crate) fn back(&mut self, tokens: usize) -> Result<BackwardWorkspace, EngineError> {
        if let Some(back) = self.back {
            if back.tokens >= tokens {
                return Ok(back);
            }
            self.back = None;
            back.all.release(self.decoder.backend.as_mut());
        }
        let widths = self.decoder.widths;
        let back = BackwardWorkspace::plan(self.decoder.backend.as_mut(), widths, tokens)?;
        self.back = Some(back);
        Ok(back)
    }

    /// Buffers of at least `len` elements for the activations that a step saves.
    pub(crate) fn saved_buffer(
        &mut self,
        len: PerPurpose<usize>,
    ) -> Result<PerPurpose<Buf>, EngineError> {
        if let Some(saved) = self.saved {
            if saved.holds(len) {
                return Ok(saved);
            }
            self.saved = None;
            saved.release(self.decoder.backend.as_mut());
        }
        let saved = PerPurpose::allocate(self.decoder.backend.as_mut(), len)?;
        self.saved = Some(saved);
        Ok(saved)
    }

    /// A gradient buffer for all trained weights, in their layout; allocated on the first call. Number 0 is that of the mini-batch, the others are for partial sums
    /// of slices.
    pub(crate) fn partial_gradient(&mut self, number: usize) -> Result<Buf, EngineError> {
        let len = self.trained().len();
        while self.gradients.len() <= number {
            let gradient = self.decoder.backend.allocate(Purpose::Optimiser, len)?;
            self.gradients.push(gradient);
        }
        Ok(self.gradients[number])
    }

    /// Sets the ranks that train the model, and the slices of its mini-batches. Allowed once, before the first update.
    pub(crate) fn share(&mut self, sharing: Sharing) -> Result<(), EngineError> {
        if self.optimiser.is_some() {
            return Err(EngineError::Request(
                "the ranks of a model are set once, before it is trained".into(),
            ));
        }
        self.sharing = sharing;
        Ok(())
    }

    /// The part of the trained weights that this rank updates. The rank has the moments of this part.
    pub(crate) fn shard(&self) -> Range<usize> {
        self.sharing.shard(self.trained().len())
    }

    /// Gradients and moments, allocated on the first call.
    pub(crate) fn optimiser(&mut self) -> Result<TrainingBuffers, EngineError> {
        if let Some(optimiser) = self.optimiser {
            return Ok(optimiser);
        }
        let gradient = self.partial_gradient(0)?;
        let len = self.shard().len();
        let backend = &mut self.decoder.backend;
        let m = backend.allocate(Purpose::Optimiser, len)?;
        let v = backend.allocate(Purpose::Optimiser, len)?;
        let optimiser = TrainingBuffers { gradient, m, v };
        self.optimiser = Some(optimiser);
        Ok(optimiser)
    }

    /// Rejects a model after a failed update or a failed load of a state that has changed part of the weights.
    pub(crate) fn check_consistent(&self) -> Result<(), EngineError> {
        if self.inconsistent {
            return Err(EngineError::Device(
                "an update or the loading of a state failed while it changed the weights, so they are neither the old nor the new ones; resume from the last checkpoint".into(),
            ));
        }
        Ok(())
    }

    /// Number of optimiser updates so far, which is AdamW's step count.
    pub fn updates(&self) -> u64 {
        self.updates
    }

    /// Whether moments exist: after the first update, or after one was set.
    pub fn has_moments(&self) -> bool {
        self.optimiser.is_some()
    }
}
