//! Weights by name: reading, writing, and merging adapters.

use std::ops::Range;

use super::Model;
use super::adapters;
use super::layout::Region;
use super::train_state::PIECE;
use crate::backend::Buf;
use crate::backend::ranks::{agree, bucket_elements, places, shards};
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

impl TensorKind {
    fn is_moment(self) -> bool {
        matches!(self, Self::Moment1 | Self::Moment2)
    }
}

impl Model {
    /// Reads a weight, its moment or its gradient, by its name in [`crate::config::ModelConfig::tensor_shapes`] or [`Model::trained_shapes`]. Moments and
    /// gradients are an error before the first update, and for weights that are not trained.
    ///
    /// All ranks read a moment together, since each has a part of it. The gradient is that of this rank's shard; elsewhere it is a partial sum.
    pub fn tensor(&mut self, name: &str, kind: TensorKind) -> Result<Vec<f32>, EngineError> {
        let buf = self.buffer(name, kind)?;
        if kind.is_moment() && self.sharing.ranks.size() > 1 {
            let region = self.trained_layout().region(name)?;
            return self.gathered(buf, region);
        }
        self.download(buf)
    }

    /// Gathers the values of a region from the shards of all ranks; `own` is this rank's.
    fn gathered(&mut self, own: Buf, region: Region) -> Result<Vec<f32>, EngineError> {
        let ranks = self.sharing.ranks.clone();
        let size = ranks.size();
        let parts: Vec<Range<usize>> = shards(self.trained().len(), size)
            .iter()
            .map(|shard| {
                let (start, part) = region.in_shard(shard);
                start..start + part.len()
            })
            .collect();
        let bucket = bucket_elements(size);
        let piece = |len: usize, at: usize| at.min(len)..(at + bucket).min(len);
        let [mut values, mut sent, mut received] =
            [region.len(), bucket, size * bucket].map(|len| vec![0.0; len]);
        let longest = parts.iter().map(Range::len).max().unwrap_or(0);
        for at in (0..longest).step_by(bucket) {
            let mine = piece(own.len(), at);
            let part = own.at(mine.start, mine.len());
            let backend = &mut self.decoder.backend;
            let downloaded = backend.download(part, &mut sent[..mine.len()]);
            // All ranks get an error of one, so that none waits for the others.
            agree(ranks.as_ref(), downloaded.map(|()| Vec::new()))?;
            let places = places(parts.iter().map(|part| piece(part.len(), at).len()), bucket);
            [sent, received] =
                ranks.exchange(sent, &vec![0..mine.len(); size], received, &places)?;
            for (part, place) in parts.iter().zip(places) {
                values[part.start + at.min(part.len())..][..place.len()]
                    .copy_from_slice(&received[place]);
            }
        }
        Ok(values)
    }

    pub(crate) fn download(&mut self, buf: Buf) -> Result<Vec<f32>, EngineError> {
        let mut values = vec![0.0; buf.len()];
        self.decoder.backend.download(buf, &mut values)?;
        Ok(values)
    }

    /// The BLAKE3 digest of all weights, adapters included, and of how the device computes.
    pub(crate) fn digest(&mut self) -> Result<Vec<u8>, EngineError> {
        let mut hasher = blake3::Hasher::new();
        hasher.update(self.decoder.backend.arithmetic().as_bytes());
        let decoder = &self.decoder;
        let adapters = decoder.adapters.as_ref().map(|it| it.weights);
        for buf in std::iter::once(decoder.weights).chain(adapters) {
            for start in (0..buf.len()).step_by(PIECE) {
                let piece = self.download(buf.at(start, PIECE.min(buf.len() - start)))?;
                hasher.update(bytemuck::cast_slice(&piece));
            }
        }
        Ok(hasher.finalize().as_bytes().to_vec())
    }

    /// Reads a weight by its Hugging Face name, with its adapter merged in. A model with the merged weights and no adapters computes the same function.
    pub fn merged(&mut self, name: &str) -> Result<Vec<f32>, EngineError> {
        let mut values = self.tensor(name, TensorKind::Weight)?;
        let region = self.decoder.layout.tensors.region(name)?;
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
        let (a, b) = (self.download(a)?, self.download(b)?);
        adapters::merge(&mut values, &a, &b, rank, scale);
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
        let (start, len) = if kind.is_moment() {
            let region = self.trained_layout().region(name)?;
            (region.in_shard(&self.shard()).0, region.len())
        } else {
            (0, buf.len())
        };
        if values.len() != len {
            return Err(EngineError::Request(format!(
                "`{name}` has {len} values in this model, but {} were given; they belong to another model",
                values.len()
            )));
        }
        let own = &values[start..start + buf.len()];
        self.decoder.backend.upload(buf, own);
        Ok(())
    }

    /// The buffer of a weight or a gradient, or this rank's part of a moment.
    fn buffer(&self, name: &str, kind: TensorKind) -> Result<Buf, EngineError> {
        if kind == TensorKind::Weight {
            return self.weight(name);
        }
        let optimiser = self.optimiser.ok_or_else(|| {
            EngineError::Request(
                "the model has no moments yet: it has not been trained since it was loaded".into(),
            )
        })?;
        let region = self.trained_layout().region(name)?;
        let (_, own) = region.in_shard(&self.shard());
        Ok(match kind {
            TensorKind::Moment1 => own.within(optimiser.m),
            TensorKind::Moment2 => own.within(optimiser.v),
            _ => region.within(optimiser.gradient),
        })
    }

    /// The buffer of a weight, the model's or an adapter's.
    fn weight(&self, name: &str) -> Result<Buf, EngineError> {
        if let Some(adapters) = &self.decoder.adapters
            && let Ok(region) = adapters.layout.region(name)
        {
            return Ok(region.within(adapters.weights));
        }
        let region = self.decoder.layout.tensors.region(name)?;
        Ok(region.within(self.decoder.weights))
    }
}
