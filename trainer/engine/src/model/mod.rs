//! A decoder on a backend: weights, forward and backward passes, head.
//!
//! [`Model::infer`] serves generation; `train::step` drives the same blocks forward and backward over packed sequences.

pub(crate) mod adapters;
pub(crate) mod backward;
pub(crate) mod decoder;
pub(crate) mod forward;
mod head;
pub(crate) mod layout;
pub(crate) mod work;

use self::adapters::Adapters;
pub use self::adapters::Lora;
pub(crate) use self::adapters::adapter_elements;
use self::backward::Gradient;
use self::decoder::{Constants, Decoder};
use self::forward::Keys;
use self::layout::{Layout, Place, Places};
use self::work::{Back, Both, Inside, Widths, Work};
use crate::backend::{Backend, Buf, Purpose};
use crate::batch::Batch;
use crate::config::ModelConfig;
use crate::error::EngineError;
use crate::load::TensorSource;
use crate::sample::{Draw, Sampled};

/// Tokens of a training pack unless set otherwise.
pub(crate) const PACK_TOKENS: usize = 2048;

/// Elements that are read from the device at a time.
const PIECE: usize = 1 << 20;

/// One of the numbers kept for every weight.
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

/// Keys and values of generated sequences: for each layer `rows` rows of keys beside values.
struct Store {
    all: Buf,
    rows: usize,
}

/// What training needs and generating does not.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Optimiser {
    pub(crate) gradient: Buf,
    pub(crate) m: Buf,
    pub(crate) v: Buf,
}

/// A model on a device.
pub struct Model {
    config: ModelConfig,
    pub(crate) decoder: Decoder,
    work: Option<Work>,
    back: Option<Back>,
    store: Option<Store>,
    /// Activations that training keeps from the forward to the backward pass.
    kept: Option<Both<Buf>>,
    gradient: Option<Buf>,
    pub(crate) optimiser: Option<Optimiser>,
    pub(crate) updates: u64,
    pub(crate) pack_tokens: usize,
    pub(crate) kept_bytes: Option<u64>,
}

impl Model {
    /// Moves the weights (named and shaped as [`ModelConfig::tensor_shapes`] says) to the device.
    pub fn new(
        config: ModelConfig,
        mut weights: impl TensorSource,
        mut backend: Box<dyn Backend>,
    ) -> Result<Self, EngineError> {
        let layout = Layout::new(&config);
        let all = backend.allocate(Purpose::Weights, layout.len())?;
        for (name, place, shape) in layout.places.tensors() {
            backend.upload(place.of(all), &weights.take(name, shape)?);
        }
        let mut frequencies = [None; 2];
        let values = [
            Some(config.rope_frequencies()),
            config.sliding_rope_frequencies(),
        ];
        for (place, values) in frequencies.iter_mut().zip(values) {
            if let Some(values) = values {
                let table = backend.allocate(Purpose::Sums, values.len())?;
                backend.upload(table, &values);
                *place = Some(table);
            }
        }
        let decoder = Decoder {
            backend,
            widths: Widths::new(&config),
            layout,
            weights: all,
            adapters: None,
            frequencies,
            constants: Constants::new(&config),
        };
        Ok(Self {
            config,
            decoder,
            work: None,
            back: None,
            store: None,
            kept: None,
            gradient: None,
            optimiser: None,
            updates: 0,
            pack_tokens: PACK_TOKENS,
            kept_bytes: None,
        })
    }

    /// Sizes and flags.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// The device in words.
    pub fn device(&self) -> String {
        self.decoder.backend.name()
    }

    /// Whether it has to be dropped before the process ends.
    pub(crate) fn ends_first(&self) -> bool {
        self.decoder.backend.ends_first()
    }

    /// Adds adapters, which are then what is trained. Before the first update, and once.
    pub fn attach(&mut self, lora: Lora) -> Result<(), EngineError> {
        if self.optimiser.is_some() || self.decoder.adapters.is_some() {
            return Err(EngineError::Request(
                "adapters are added to a model once, before it is trained".into(),
            ));
        }
        let adapters = Adapters::new(self.decoder.backend.as_mut(), &self.config, lora)?;
        self.decoder.widths.rank = adapters.rank;
        self.decoder.adapters = Some(adapters);
        if let Some(work) = self.work.take() {
            work.release(self.decoder.backend.as_mut());
        }
        self.release_training();
        Ok(())
    }

    /// Does something with the model as it was loaded, its adapters set aside.
    pub fn without_adapters<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let set = |model: &mut Self, active| {
            if let Some(adapters) = &mut model.decoder.adapters {
                adapters.active = active;
            }
        };
        set(self, false);
        let result = work(self);
        set(self, true);
        result
    }

    /// Bytes of weights, gradients and moments that the device holds.
    pub fn bytes(&self) -> u64 {
        match self.optimiser {
            Some(_) => self.training_bytes(),
            None => self.training_bytes() - 3 * 4 * self.trained().len() as u64,
        }
    }

    /// Bytes of weights, gradients and moments in training.
    pub(crate) fn training_bytes(&self) -> u64 {
        let adapters = self.decoder.adapters.as_ref().map_or(0, Adapters::len);
        let weight = self.decoder.backend.element_bytes().weight;
        let held = weight * (self.decoder.weights.len() + adapters);
        (held + 3 * 4 * self.trained().len()) as u64
    }

    /// What an update changes: all weights, or the adapters.
    pub(crate) fn trained(&self) -> Buf {
        let adapters = self.decoder.adapters.as_ref();
        adapters.map_or(self.decoder.weights, |adapters| adapters.weights)
    }

    /// Names and places of what an update changes.
    fn trained_places(&self) -> &Places {
        let adapters = self.decoder.adapters.as_ref();
        adapters.map_or(&self.decoder.layout.places, Adapters::places)
    }

    /// Names and shapes of what an update changes: all weights, in the order of [`ModelConfig::tensor_shapes`], or the adapters.
    pub fn trained_shapes(&self) -> Vec<(String, Vec<usize>)> {
        match &self.decoder.adapters {
            None => self.config.tensor_shapes(),
            Some(adapters) => {
                let tensors = adapters.places().tensors();
                let owned = tensors.map(|(name, _, shape)| (name.to_owned(), shape.to_vec()));
                owned.collect()
            }
        }
    }

    /// Bytes of one row of the key/value store, over all layers.
    pub fn kv_row_bytes(&self) -> u64 {
        kv_row_elements(&self.config) * self.decoder.backend.element_bytes().cache as u64
    }

    /// Bytes of the device's memory, where it is known.
    pub(crate) fn memory(&self) -> Option<u64> {
        self.decoder.backend.memory()
    }

    /// Makes the key/value store hold `rows` rows (one token each). What it held is lost unless the size stays.
    pub fn reserve_kv(&mut self, rows: usize) -> Result<(), EngineError> {
        if self.store.as_ref().is_some_and(|store| store.rows == rows) {
            return Ok(());
        }
        self.release_kv();
        let layers = self.config.num_hidden_layers;
        let len = rows
            .checked_mul(layers * 2 * self.decoder.widths.kv())
            .ok_or_else(|| {
                EngineError::Request(format!(
                    "a key/value cache of {rows} tokens is beyond any memory; lower it"
                ))
            })?;
        // A device whose phases take turns in its memory finds keys and values the same place in each: the work buffers move behind them.
        let work = self.work.take();
        if let Some(work) = work {
            work.release(self.decoder.backend.as_mut());
        }
        let all = self.decoder.backend.allocate(Purpose::Cache, len)?;
        self.store = Some(Store { all, rows });
        if let Some(work) = work {
            self.work(work.tokens, work.targets())?;
        }
        Ok(())
    }

    /// Rows of the key/value store.
    pub fn kv_rows(&self) -> usize {
        self.store.as_ref().map_or(0, |store| store.rows)
    }

    /// Gives the key/value store's memory back, for the training phase.
    pub fn release_kv(&mut self) {
        if let Some(store) = self.store.take() {
            self.decoder.backend.release(store.all);
        }
    }

    /// Gives back what only a backward pass needs, for the generation phase; gradients and moments stay.
    pub fn release_training(&mut self) {
        if let Some(back) = self.back.take() {
            back.release(self.decoder.backend.as_mut());
        }
        if let Some(kept) = self.kept.take() {
            kept.release(self.decoder.backend.as_mut());
        }
    }

    /// Most tokens of one training pack; a longer completion is a pack of its own.
    pub fn set_pack_tokens(&mut self, tokens: usize) {
        self.pack_tokens = tokens.max(1);
    }

    /// Bytes of activations that training may keep from the forward to the backward pass, instead of computing them again; `None` takes a third of
    /// the memory that weights, gradients and moments leave. Results are the same to the bit.
    pub fn set_kept_bytes(&mut self, bytes: Option<u64>) {
        self.kept_bytes = bytes;
    }

    /// Forward pass that writes keys and values into the store rows that the batch names, then draws the token after each of the batch's tokens `rows[i]` as
    /// `draws[i]` says. `rows` may be empty (a chunk of a prompt) and may name a token several times (the samples of one prompt).
    pub fn infer(
        &mut self,
        batch: &Batch,
        rows: &[usize],
        draws: &[Draw],
    ) -> Result<Vec<Sampled>, EngineError> {
        if rows.len() != draws.len() {
            return Err(EngineError::Request(format!(
                "{} tokens are to be followed by {} draws",
                rows.len(),
                draws.len()
            )));
        }
        let own = batch.tokens.len();
        // A pass that goes on with every sequence by one token, and so is like others of its size.
        let decodes = own > 0 && rows.iter().copied().eq(0..own);
        let tokens = if decodes {
            self.decoder.backend.padded(batch)
        } else {
            own
        };
        let span = if decodes {
            tracing::info_span!("decode")
        } else {
            tracing::info_span!("prefill")
        };
        let _entered = span.enter();
        let work = self.begin_stored(batch, tokens, rows)?;
        self.decoder.backend.draws(draws);
        if !decodes {
            self.forward_stored(&work, tokens);
            self.decoder.sample(&work, work.x, Some(rows), draws.len());
        } else {
            while !self.replayed(&work, tokens) {
                self.forward_stored(&work, tokens);
                self.decoder.sample(&work, work.x, None, tokens);
                if self.decoder.backend.recorded() {
                    break;
                }
            }
        }
        self.decoder.backend.sampled()
    }

    /// As [`Model::infer`], but returns the logits of the tokens `rows[i]`, one row of the vocabulary's width each: for tests and parity checks.
    pub fn logits(&mut self, batch: &Batch, rows: &[usize]) -> Result<Vec<f32>, EngineError> {
        let tokens = batch.tokens.len();
        let work = self.begin_stored(batch, tokens, rows)?;
        self.forward_stored(&work, tokens);
        self.decoder.logits(&work, work.x, rows)
    }

    /// Makes a batch the current one for a pass of `tokens` tokens with keys and values in the store.
    fn begin_stored(
        &mut self,
        batch: &Batch,
        tokens: usize,
        rows: &[usize],
    ) -> Result<Work, EngineError> {
        let own = batch.tokens.len();
        if let Some(row) = rows.iter().find(|row| **row >= own) {
            return Err(EngineError::Request(format!(
                "the logits of token {row} are wanted of a batch of {own}"
            )));
        }
        let work = self.work(tokens, 0)?;
        self.decoder.begin(batch, tokens, self.kv_rows())?;
        Ok(work)
    }

    /// Whether the device had a pass like this, and has made it.
    fn replayed(&mut self, work: &Work, tokens: usize) -> bool {
        let mut buffers = vec![work.x, work.logits, work.normed, work.picked_normed];
        buffers.extend(self.store.as_ref().map(|store| store.all));
        // With and without adapters are two passes.
        let adapters = self.decoder.adapters.as_ref();
        buffers.extend(adapters.filter(|a| a.active).map(|a| a.weights));
        self.decoder.backend.replay(&buffers, tokens)
    }

    /// Forward pass over the current batch with keys and values in the store; the residual stream ends in `work.x`.
    fn forward_stored(&mut self, work: &Work, tokens: usize) {
        let store = self.store.as_ref();
        let (all, store_rows) = store.map_or((work.x.at(0, 0), 0), |s| (s.all, s.rows));
        let layer_len = store_rows * 2 * self.decoder.widths.kv();
        let decoder = &mut self.decoder;
        decoder.rotations(work);
        decoder.embed(work.x, tokens);
        let inside = Inside {
            middle: work.x,
            ..work.inside
        };
        for layer in 0..self.config.num_hidden_layers {
            let keys = Keys::Store(all.at(layer * layer_len, layer_len));
            decoder.block(layer, tokens, work.x, work.x, &inside, keys, work);
        }
    }

    /// Buffers for a forward pass of so many tokens and targets.
    pub(crate) fn work(&mut self, tokens: usize, targets: usize) -> Result<Work, EngineError> {
        let (mut most_tokens, mut most_targets) = (tokens, targets);
        if let Some(work) = self.work {
            if work.tokens >= tokens && work.targets() >= targets {
                return Ok(work);
            }
            (most_tokens, most_targets) = (tokens.max(work.tokens), targets.max(work.targets()));
            self.work = None;
            work.release(self.decoder.backend.as_mut());
        }
        let widths = self.decoder.widths;
        let backend = self.decoder.backend.as_mut();
        let work = Work::plan(backend, widths, most_tokens, most_targets)?;
        self.work = Some(work);
        Ok(work)
    }

    /// Buffers for a backward pass of so many tokens.
    pub(crate) fn back(&mut self, tokens: usize) -> Result<Back, EngineError> {
        if let Some(back) = self.back {
            if back.tokens >= tokens {
                return Ok(back);
            }
            self.back = None;
            back.release(self.decoder.backend.as_mut());
        }
        let widths = self.decoder.widths;
        let back = Back::plan(self.decoder.backend.as_mut(), widths, tokens)?;
        self.back = Some(back);
        Ok(back)
    }

    /// Buffers of at least `len` elements for what a step keeps.
    pub(crate) fn kept(&mut self, len: Both<usize>) -> Result<Both<Buf>, EngineError> {
        if let Some(kept) = self.kept {
            if kept.holds(len) {
                return Ok(kept);
            }
            self.kept = None;
            kept.release(self.decoder.backend.as_mut());
        }
        let kept = Both::allocate(self.decoder.backend.as_mut(), len)?;
        self.kept = Some(kept);
        Ok(kept)
    }

    /// A gradient for everything that is trained, laid out alike, allocated when first asked for.
    pub(crate) fn gradient(&mut self) -> Result<Buf, EngineError> {
        if let Some(gradient) = self.gradient {
            return Ok(gradient);
        }
        let len = self.trained().len();
        let gradient = self.decoder.backend.allocate(Purpose::Optimiser, len)?;
        self.gradient = Some(gradient);
        Ok(gradient)
    }

    /// The gradient that training wants, and where.
    pub(crate) fn wanted_gradient(&mut self) -> Result<Gradient, EngineError> {
        let gradient = self.gradient()?;
        Ok(match self.decoder.adapters {
            None => Gradient::Weights(gradient),
            Some(_) => Gradient::Adapters(gradient),
        })
    }

    /// Calls `each` with all of the gradient, piece by piece, in the order of [`Model::trained_shapes`].
    pub(crate) fn read_gradient(
        &mut self,
        each: &mut dyn FnMut(&[f32]),
    ) -> Result<(), EngineError> {
        let gradient = self.gradient()?;
        let mut piece = Vec::new();
        for (name, _) in self.trained_shapes() {
            let buf = self.trained_place(&name)?.of(gradient);
            for start in (0..buf.len()).step_by(PIECE) {
                piece.resize(PIECE.min(buf.len() - start), 0.0);
                let part = buf.at(start, piece.len());
                self.decoder.backend.download(part, &mut piece)?;
                each(&piece);
            }
        }
        Ok(())
    }

    /// Gradients and moments, allocated when first asked for.
    pub(crate) fn optimiser(&mut self) -> Result<Optimiser, EngineError> {
        if let Some(optimiser) = self.optimiser {
            return Ok(optimiser);
        }
        let gradient = self.gradient()?;
        let len = self.trained().len();
        let backend = &mut self.decoder.backend;
        let m = backend.allocate(Purpose::Optimiser, len)?;
        let v = backend.allocate(Purpose::Optimiser, len)?;
        let optimiser = Optimiser { gradient, m, v };
        self.optimiser = Some(optimiser);
        Ok(optimiser)
    }

    /// A weight, or what is kept for it, by its name in [`ModelConfig::tensor_shapes`] or [`Model::trained_shapes`]. Moments and gradients are an error before the first
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
        let kept = |of: fn(Optimiser) -> Buf| {
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
            Part::Moment1 => kept(|optimiser| optimiser.m),
            Part::Moment2 => kept(|optimiser| optimiser.v),
            Part::Gradient => kept(|optimiser| optimiser.gradient),
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

    fn place(&self, name: &str) -> Result<Place, EngineError> {
        named(&self.decoder.layout.places, name)
    }

    fn trained_place(&self, name: &str) -> Result<Place, EngineError> {
        named(self.trained_places(), name)
    }

    /// Optimiser updates so far: AdamW's step count.
    pub fn updates(&self) -> u64 {
        self.updates
    }

    /// Takes up a count of updates, with moments set by [`Model::set_tensor`].
    pub fn set_updates(&mut self, updates: u64) {
        self.updates = updates;
    }

    /// Whether there are moments: after the first update, or after one was set.
    pub fn has_moments(&self) -> bool {
        self.optimiser.is_some()
    }
}

/// Elements of one row of the key/value store, over all layers.
pub(crate) fn kv_row_elements(config: &ModelConfig) -> u64 {
    (config.num_hidden_layers * 2 * Widths::new(config).kv()) as u64
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
