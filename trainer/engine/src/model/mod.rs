//! A decoder on a backend: weights, forward and backward passes, and head.
//!
//! [`Model::infer`] is used for generation; `train::step` runs the same blocks forward and backward over packed sequences.

pub(crate) mod adapters;
pub(crate) mod backward;
pub(crate) mod forward;
mod head;
pub(crate) mod layout;
pub(crate) mod train_state;
mod weights;
pub(crate) mod workspace;

use self::adapters::Adapters;
pub use self::adapters::Lora;
pub(crate) use self::adapters::adapter_elements;
use self::forward::{Constants, Decoder};
use self::layout::{Layout, TensorLayout};
pub(crate) use self::train_state::TrainingBuffers;
pub use self::weights::TensorKind;
use self::workspace::{
    BackwardWorkspace, BlockActivations, PassSize, PerPurpose, Widths, Workspace,
};
use crate::backend::ranks::{Route, Sharing};
use crate::backend::{Backend, Buf, Purpose, TrainingDefaults};
use crate::batch::Batch;
use crate::config::ModelConfig;
use crate::error::EngineError;
use crate::load::TensorSource;
use crate::sample::{Draw, Sampled};

/// The KV cache of generated sequences: for each layer `rows` rows, each the keys and then the values of a token.
struct KvCache {
    all: Buf,
    rows: usize,
}

/// Number of elements of one row of the KV cache, over all layers.
pub(crate) fn kv_row_elements(config: &ModelConfig) -> u64 {
    (config.num_hidden_layers * 2 * config.num_key_value_heads * config.head_dim) as u64
}

/// A model on a device.
pub struct Model {
    config: ModelConfig,
    pub(crate) decoder: Decoder,
    work: Option<Workspace>,
    back: Option<BackwardWorkspace>,
    kv_cache: Option<KvCache>,
    /// Activations that training saves from the forward to the backward pass.
    saved: Option<PerPurpose<Buf>>,
    gradients: Vec<Buf>,
    pub(crate) optimiser: Option<TrainingBuffers>,
    pub(crate) updates: u64,
    /// Whether some weights may be old and others new: an update or a load of a state is changing them, or failed while it did.
    pub(crate) inconsistent: bool,
    pub(crate) sharing: Sharing,
    /// How it exchanges with other ranks; `None` until the first time.
    pub(crate) route: Option<Route>,
    /// Maximum number of tokens of a training pack, if it is set.
    pub(crate) pack_tokens: Option<usize>,
    saved_bytes: Option<u64>,
}

impl Model {
    /// Copies the weights (with the names and shapes of [`ModelConfig::tensor_shapes`]) to the device.
    pub fn new(
        config: ModelConfig,
        mut weights: impl TensorSource,
        mut backend: Box<dyn Backend>,
    ) -> Result<Self, EngineError> {
        let layout = Layout::new(&config);
        let all = backend.allocate(Purpose::Weights, layout.tensors.len)?;
        for (name, region, shape) in layout.tensors.iter() {
            backend.upload(region.within(all), &weights.take(name, shape)?);
        }
        let mut frequencies = [None; 2];
        let values = [
            Some(config.rope_frequencies()),
            config.sliding_rope_frequencies(),
        ];
        for (buffer, values) in frequencies.iter_mut().zip(values) {
            if let Some(values) = values {
                let table = backend.allocate(Purpose::Sums, values.len())?;
                backend.upload(table, &values);
                *buffer = Some(table);
            }
        }
        let head_rows = backend.logits_rows(config.vocab_size);
        let decoder = Decoder {
            backend,
            widths: Widths::new(&config, head_rows),
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
            kv_cache: None,
            saved: None,
            gradients: Vec::new(),
            optimiser: None,
            updates: 0,
            inconsistent: false,
            sharing: Sharing::default(),
            route: None,
            pack_tokens: None,
            saved_bytes: None,
        })
    }

    /// Sizes and flags.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// Adds adapters, which are then trained instead of the weights. Allowed once, before the first update.
    pub fn attach(&mut self, lora: Lora) -> Result<(), EngineError> {
        if self.optimiser.is_some() || self.decoder.adapters.is_some() {
            return Err(EngineError::Request(
                "adapters are added to a model once, before it is trained".into(),
            ));
        }
        let adapters = Adapters::new(self.decoder.backend.as_mut(), &self.config, lora)?;
        self.decoder.widths.rank = adapters.rank;
        self.decoder.adapters = Some(adapters);
        self.release_work();
        self.release_training();
        Ok(())
    }

    /// Runs `work` with the adapters active, or with the model as it was loaded.
    pub fn with_adapters<T>(&mut self, active: bool, work: impl FnOnce(&mut Self) -> T) -> T {
        let set = |model: &mut Self, active| {
            if let Some(adapters) = &mut model.decoder.adapters {
                adapters.active = active;
            }
        };
        set(self, active);
        let result = work(self);
        set(self, true);
        result
    }

    /// The weights that an update changes: all of the model's, or the adapters'.
    pub(crate) fn trained(&self) -> Buf {
        let adapters = self.decoder.adapters.as_ref();
        adapters.map_or(self.decoder.weights, |adapters| adapters.weights)
    }

    /// Layout of the weights that an update changes.
    pub(crate) fn trained_layout(&self) -> &TensorLayout {
        let adapters = self.decoder.adapters.as_ref();
        adapters.map_or(&self.decoder.layout.tensors, |adapters| &adapters.layout)
    }

    /// Names and shapes of the weights that an update changes: all weights, in the order of [`ModelConfig::tensor_shapes`], or the adapters.
    pub fn trained_shapes(&self) -> Vec<(String, Vec<usize>)> {
        match &self.decoder.adapters {
            None => self.config.tensor_shapes(),
            Some(adapters) => {
                let tensors = adapters.layout.iter();
                let owned = tensors.map(|(name, _, shape)| (name.to_owned(), shape.to_vec()));
                owned.collect()
            }
        }
    }

    /// Maximum number of tokens of one training pack; a longer completion is a pack of its own. Unless this is called, the device determines it.
    pub fn set_pack_tokens(&mut self, tokens: usize) {
        self.pack_tokens = Some(tokens.max(1));
    }

    /// What the device determines for training, unless it is set.
    pub(crate) fn training_defaults(&self) -> TrainingDefaults {
        let resident = self.training_bytes();
        self.decoder.backend.training_defaults(resident)
    }

    /// Bytes of activations that training may save from the forward to the backward pass instead of recomputing them. `None` takes what the device determines
    /// ([`crate::backend::TrainingDefaults`]). Results are the same to the bit.
    pub fn set_saved_bytes(&mut self, bytes: Option<u64>) {
        self.saved_bytes = bytes;
    }

    /// Bytes of activations that training may save.
    pub(crate) fn saved_bytes(&self) -> u64 {
        self.saved_bytes
            .unwrap_or_else(|| self.training_defaults().activation_bytes)
    }

    /// Bytes of one row of the KV cache, over all layers.
    pub fn kv_row_bytes(&self) -> u64 {
        kv_row_elements(&self.config) * self.decoder.backend.element_bytes().cache as u64
    }

    /// Resizes the KV cache to `rows` rows (one token each). Its content is lost unless the size stays the same.
    pub fn reserve_kv(&mut self, rows: usize) -> Result<(), EngineError> {
        if self
            .kv_cache
            .as_ref()
            .is_some_and(|cache| cache.rows == rows)
        {
            return Ok(());
        }
        let layers = self.config.num_hidden_layers;
        let len = rows
            .checked_mul(layers * 2 * self.decoder.widths.kv())
            .ok_or_else(|| {
                EngineError::Request(format!(
                    "a KV cache of {rows} tokens is larger than any memory; lower it"
                ))
            })?;
        // The work buffers are allocated after the KV cache. So a device that alternates between phases finds keys and values at the same address each time.
        let size = self.work.map(|work| work.size);
        self.release_kv();
        self.release_work();
        let all = self.decoder.backend.allocate(Purpose::Cache, len)?;
        self.kv_cache = Some(KvCache { all, rows });
        if let Some(size) = size {
            self.workspace(size)?;
        }
        Ok(())
    }

    /// Number of rows of the KV cache.
    pub fn kv_rows(&self) -> usize {
        self.kv_cache.as_ref().map_or(0, |cache| cache.rows)
    }

    /// Releases the KV cache's memory, for the training phase. The work buffers are released too: they would take the place of training's larger buffers.
    pub fn release_kv(&mut self) {
        let Some(store) = self.kv_cache.take() else {
            return;
        };
        self.decoder.backend.release(store.all);
        self.release_work();
    }

    /// Runs a forward pass that writes keys and values into the rows of the KV cache named by the batch. Then, for each `i`, samples the token after the batch's token
    /// `rows[i]` with `draws[i]`. `rows` may be empty (a chunk of a prompt) and may name a token several times (the samples of one prompt).
    pub fn infer(
        &mut self,
        batch: &Batch,
        rows: &[usize],
        draws: &[Draw],
    ) -> Result<Vec<Sampled>, EngineError> {
        self.begin_infer(batch, rows, draws)?;
        self.end_infer()
    }

    /// Starts [`Model::infer`]. The device may still be computing when this returns.
    pub(crate) fn begin_infer(
        &mut self,
        batch: &Batch,
        rows: &[usize],
        draws: &[Draw],
    ) -> Result<(), EngineError> {
        if rows.len() != draws.len() {
            return Err(EngineError::Request(format!(
                "{} rows have {} draws; each row needs one",
                rows.len(),
                draws.len()
            )));
        }
        let own = batch.tokens.len();
        // A pass that adds one token to every sequence. Such passes of one size are alike, so a backend can record and replay them.
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
        let logit_rows = if decodes { tokens } else { rows.len() };
        let work = self.begin_stored(batch, tokens, rows, logit_rows)?;
        self.decoder.backend.draws(draws);
        if !decodes {
            self.forward_stored(&work, tokens);
            self.decoder.sample(&work, work.x, Some(rows), draws.len());
        } else {
            while !self.replayed(&work, tokens) {
                self.forward_stored(&work, tokens);
                self.decoder.sample(&work, work.x, None, tokens);
                if self.decoder.backend.end_pass() {
                    break;
                }
            }
        }
        Ok(())
    }

    /// The tokens that were sampled since [`Model::begin_infer`].
    pub(crate) fn end_infer(&mut self) -> Result<Vec<Sampled>, EngineError> {
        self.decoder.backend.sampled()
    }

    /// Like [`Model::infer`], but returns the logits of the tokens `rows[i]`, one row of the vocabulary's width each. For tests and parity checks.
    pub fn logits(&mut self, batch: &Batch, rows: &[usize]) -> Result<Vec<f32>, EngineError> {
        let tokens = batch.tokens.len();
        let work = self.begin_stored(batch, tokens, rows, rows.len())?;
        self.forward_stored(&work, tokens);
        self.decoder.logits(&work, work.x, rows)
    }

    /// Makes `batch` the current one, for a pass with keys and values in the KV cache. It has `tokens` tokens and computes `logit_rows` rows of logits.
    fn begin_stored(
        &mut self,
        batch: &Batch,
        tokens: usize,
        rows: &[usize],
        logit_rows: usize,
    ) -> Result<Workspace, EngineError> {
        let own = batch.tokens.len();
        if let Some(row) = rows.iter().find(|row| **row >= own) {
            return Err(EngineError::Request(format!(
                "the logits of token {row} were requested from a batch of {own} tokens"
            )));
        }
        let work = self.workspace(PassSize {
            tokens,
            logit_rows,
            targets: 0,
        })?;
        self.decoder.begin(batch, tokens, self.kv_rows())?;
        Ok(work)
    }

    /// Whether the device had a recording of such a pass and replayed it.
    fn replayed(&mut self, work: &Workspace, tokens: usize) -> bool {
        let mut buffers = vec![work.x, work.logits, work.normed, work.picked_normed];
        buffers.extend(self.kv_cache.as_ref().map(|store| store.all));
        // Passes with and without adapters are recorded separately.
        let adapters = self.decoder.adapters.as_ref();
        buffers.extend(adapters.filter(|a| a.active).map(|a| a.weights));
        self.decoder.backend.replay(&buffers, tokens)
    }

    /// Runs a forward pass over the current batch with keys and values in the KV cache; the residual stream ends in `work.x`.
    fn forward_stored(&mut self, work: &Workspace, tokens: usize) {
        let store = self.kv_cache.as_ref();
        let (all, store_rows) = store.map_or((work.x.at(0, 0), 0), |s| (s.all, s.rows));
        let layer_len = store_rows * 2 * self.decoder.widths.kv();
        let decoder = &mut self.decoder;
        decoder.rotations(work);
        decoder.embed(work.x, tokens);
        let acts = BlockActivations {
            middle: work.x,
            ..work.acts
        };
        for layer in 0..self.config.num_hidden_layers {
            let cache = Some(all.at(layer * layer_len, layer_len));
            decoder.block(layer, tokens, work.x, work.x, &acts, cache, work);
        }
    }
}
