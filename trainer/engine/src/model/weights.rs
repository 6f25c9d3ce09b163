//! Weights by name: reading, writing, and merging adapters.

use super::Model;
use super::adapters;
use super::layout::{Region, TensorLayout};
use super::train_state::TrainingBuffers;
use crate::backend::Buf;
use crate::error::EngineError;

/// A weight, or a number that training stores for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TensorKind {
    /// The weight itself.
    Weight,
    /// AdamW's first moment.
    Moment1,
    /// AdamW's second moment.
    Moment2,
    /// The gradient of the last update, before clipping.
    Gradient,
}

impl Model {
    /// Reads a weight, its moment or its gradient, by its name in [`crate::config::ModelConfig::tensor_shapes`] or [`Model::trained_shapes`]. Moments and
    /// gradients are an error before the first update, and for weights that are not trained.
    pub fn tensor(&mut self, name: &str, kind: TensorKind) -> Result<Vec<f32>, EngineError> {
        let buf = self.buffer(name, kind)?;
        let mut values = vec![0.0; buf.len()];
        self.decoder.backend.download(buf, &mut values)?;
        Ok(values)
    }

    /// Reads a weight by its Hugging Face name, with its adapter merged in. A model with the merged weights and no adapters computes the same function.
    pub fn merged(&mut self, name: &str) -> Result<Vec<f32>, EngineError> {
        let mut values = self.tensor(name, TensorKind::Weight)?;
        let region = self.region(name)?;
        let (Some(adapters), Some((layer, which, elements))) =
            (&self.decoder.adapters, self.decoder.layout.rows_of(region))
        else {
            return Ok(values);
        };
        let adapter = adapters.adapter(layer, which);
        let [a, b] = [adapter.a, adapter.b].map(|region| region.within(adapters.weights));
        let (rank, scale) = (adapters.rank, adapters.scale);
        let inputs = a.len() / rank;
        let rows = elements.start / inputs..elements.end / inputs;
        let b = b.at(rows.start * rank, rows.len() * rank);
        let (mut a_values, mut b_values) = (vec![0.0; a.len()], vec![0.0; b.len()]);
        self.decoder.backend.download(a, &mut a_values)?;
        self.decoder.backend.download(b, &mut b_values)?;
        adapters::merge(&mut values, &a_values, &b_values, rank, scale);
        Ok(values)
    }

    /// Replaces the values that [`Model::tensor`] returns. Setting a moment allocates all moments.
    pub fn set_tensor(
        &mut self,
        name: &str,
        kind: TensorKind,
        values: &[f32],
    ) -> Result<(), EngineError> {
        if kind != TensorKind::Weight {
            self.optimiser()?;
        }
        let buf = self.buffer(name, kind)?;
        if values.len() != buf.len() {
            return Err(EngineError::Request(format!(
                "`{name}` has {} values in this model, but {} were given; they belong to another model",
                buf.len(),
                values.len()
            )));
        }
        self.decoder.backend.upload(buf, values);
        Ok(())
    }

    fn buffer(&self, name: &str, kind: TensorKind) -> Result<Buf, EngineError> {
        let optimiser_buffer = |part: fn(TrainingBuffers) -> Buf| {
            let optimiser = self.optimiser.ok_or_else(|| {
                EngineError::Request(
                    "the model has no moments yet: it has not been trained since it was loaded"
                        .into(),
                )
            })?;
            Ok(self.trained_region(name)?.within(part(optimiser)))
        };
        match kind {
            TensorKind::Weight => self.weight(name),
            TensorKind::Moment1 => optimiser_buffer(|optimiser| optimiser.m),
            TensorKind::Moment2 => optimiser_buffer(|optimiser| optimiser.v),
            TensorKind::Gradient => optimiser_buffer(|optimiser| optimiser.gradient),
        }
    }

    /// The buffer of a weight, the model's or an adapter's.
    fn weight(&self, name: &str) -> Result<Buf, EngineError> {
        match &self.decoder.adapters {
            Some(adapters) if adapters.layout().tensor(name).is_some() => {
                Ok(self.trained_region(name)?.within(adapters.weights))
            }
            _ => Ok(self.region(name)?.within(self.decoder.weights)),
        }
    }

    pub(super) fn region(&self, name: &str) -> Result<Region, EngineError> {
        region_of(&self.decoder.layout.tensors, name)
    }

    pub(super) fn trained_region(&self, name: &str) -> Result<Region, EngineError> {
        region_of(self.trained_layout(), name)
    }
}

fn region_of(layout: &TensorLayout, name: &str) -> Result<Region, EngineError> {
    let tensor = layout.tensor(name);
    let (region, _) = tensor.ok_or_else(|| {
        EngineError::Request(format!(
            "the model has no weight `{name}`; it belongs to another model"
        ))
    })?;
    Ok(region)
}
