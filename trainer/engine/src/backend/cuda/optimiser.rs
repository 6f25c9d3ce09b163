//! The gradient's norm, and AdamW.

use super::driver::Arg;
use super::launch::{blocks, packs, size};
use super::scratch::Use;
use super::{BLOCK, Cuda};
use crate::backend::{AdamWStep, Buf};
use crate::error::EngineError;

/// Number of parts of a sum over all elements.
const SUM_PARTS: usize = 1024;

impl Cuda {
    /// See [`crate::backend::Backend::sum_squares`].
    pub(super) fn sum_of_squares(&mut self, x: Buf) -> Result<Vec<f64>, EngineError> {
        self.check()?;
        let partial = self.scratch(Use::Partial, 8 * SUM_PARTS);
        let partial = partial.unwrap_or_default();
        let args = [Arg::Address(partial), self.at(x), size(x.len())];
        self.launch("sum_squares", blocks([SUM_PARTS, 1, 1], BLOCK), &args);
        let mut bytes = vec![0; 8 * SUM_PARTS];
        self.read(partial, &mut bytes)?;
        let parts = bytes.as_chunks().0.iter();
        Ok(parts.map(|part| f64::from_le_bytes(*part)).collect())
    }

    /// See [`crate::backend::Backend::adamw`].
    pub(super) fn update_weights(
        &mut self,
        weights: Buf,
        gradient: Buf,
        m: Buf,
        v: Buf,
        step: &AdamWStep,
    ) {
        let n = weights.len();
        let args = [
            self.at(weights),
            Arg::Address(self.arena.bf16_copy(weights).unwrap_or(0)),
            self.at(gradient),
            self.at(m),
            self.at(v),
            size(n),
            Arg::Float(step.lr),
            Arg::Float(step.beta1),
            Arg::Float(step.beta2),
            Arg::Float(step.eps),
            Arg::Float(step.decay),
            Arg::Float(step.bias1),
            Arg::Float(step.bias2),
            Arg::Float(step.grad_scale),
        ];
        self.launch("adamw", packs(n), &args);
    }
}
