//! Weights by name: reading, writing, and merging adapters.

use super::Model;
use super::adapters;
use super::layout::{Place, Places};
use super::train_state::Optimiser;
use crate::backend::Buf;
use crate::error::EngineError;

/// A weight, or a number that training holds for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The weight itself.
    Weight,
    /// AdamW's first moment.
    Moment1,
    /// AdamW's second moment.
    Moment2,
    /// The gradient that the last update used, before clipping.
    Gradient,
}

impl Model {
    /// A weight, its moment or its gradient, by its name in [`crate::config::ModelConfig::tensor_shapes`] or [`Model::trained_shapes`]. Moments and gradients are an error before the first
    /// update, and for what is not trained.
    pub fn tensor(&mut self, name: &str, part: Part) -> Result<Vec<f32>, EngineError> {
        let buf = self.buffer(name, part)?;
        let mut values = vec![0.0; buf.len()];
        self.decoder.backend.download(buf, &mut values)?;
        Ok(values)
    }

    /// A weight by its Hugging Face name, with what its adapter adds: what makes a model without adapters the same function.
    pub fn merged(&mut self, name: &str) -> Result<Vec<f32>, EngineError> {
        let mut values = self.tensor(name, Part::Weight)?;
        let place = self.place(name)?;
        let (Some(adapters), Some((layer, which, elements))) =
            (&self.decoder.adapters, self.decoder.layout.rows_of(place))
        else {
            return Ok(values);
        };
        let adapter = adapters.of(layer, which);
        let [a, b] = [adapter.a, adapter.b].map(|place| place.of(adapters.weights));
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

    /// Replaces what [`Model::tensor`] returns; setting a moment makes room for all of them.
    pub fn set_tensor(
        &mut self,
        name: &str,
        part: Part,
        values: &[f32],
    ) -> Result<(), EngineError> {
        if part != Part::Weight {
            self.optimiser()?;
        }
        let buf = self.buffer(name, part)?;
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

    fn buffer(&self, name: &str, part: Part) -> Result<Buf, EngineError> {
        let of_optimiser = |of: fn(Optimiser) -> Buf| {
            let optimiser = self.optimiser.ok_or_else(|| {
                EngineError::Request(
                    "the model has no moments yet: it has not been trained since it was loaded"
                        .into(),
                )
            })?;
            Ok(self.trained_place(name)?.of(of(optimiser)))
        };
        match part {
            Part::Weight => self.weight(name),
            Part::Moment1 => of_optimiser(|optimiser| optimiser.m),
            Part::Moment2 => of_optimiser(|optimiser| optimiser.v),
            Part::Gradient => of_optimiser(|optimiser| optimiser.gradient),
        }
    }

    /// The buffer of a weight: the model's, or an adapter's.
    fn weight(&self, name: &str) -> Result<Buf, EngineError> {
        match &self.decoder.adapters {
            Some(adapters) if adapters.places().tensor(name).is_some() => {
                Ok(self.trained_place(name)?.of(adapters.weights))
            }
            _ => Ok(self.place(name)?.of(self.decoder.weights)),
        }
    }

    pub(super) fn place(&self, name: &str) -> Result<Place, EngineError> {
        named(&self.decoder.layout.places, name)
    }

    pub(super) fn trained_place(&self, name: &str) -> Result<Place, EngineError> {
        named(self.trained_places(), name)
    }
}

fn named(places: &Places, name: &str) -> Result<Place, EngineError> {
    let found = places.tensor(name);
    let (place, _) = found.ok_or_else(|| {
        EngineError::Request(format!(
            "the model has no weight `{name}`; it belongs to another model"
        ))
    })?;
    Ok(place)
}
