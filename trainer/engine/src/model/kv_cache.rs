//! Keys and values of generated sequences.

use super::Model;
use super::workspace::Widths;
use crate::backend::{Buf, Purpose};
use crate::config::ModelConfig;
use crate::error::EngineError;

/// The key/value store of generated sequences: for each layer `rows` rows, each the keys and then the values of a token.
pub(super) struct Store {
    pub(super) all: Buf,
    pub(super) rows: usize,
}

/// Number of elements of one row of the key/value store, over all layers.
pub(crate) fn kv_row_elements(config: &ModelConfig) -> u64 {
    (config.num_hidden_layers * 2 * Widths::new(config).kv()) as u64
}

impl Model {
    /// Bytes of one row of the key/value store, over all layers.
    pub fn kv_row_bytes(&self) -> u64 {
        kv_row_elements(&self.config) * self.decoder.backend.element_bytes().cache as u64
    }

    /// Resizes the key/value store to `rows` rows (one token each). Its content is lost unless the size stays the same.
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
                    "a key/value cache of {rows} tokens is larger than any memory; lower it"
                ))
            })?;
        // The work buffers are allocated after the store, so that a device that alternates between phases finds keys and values at the same address each time.
        let work = self.work.take();
        if let Some(work) = work {
            work.release(self.decoder.backend.as_mut());
        }
        let all = self.decoder.backend.allocate(Purpose::Cache, len)?;
        self.store = Some(Store { all, rows });
        if let Some(work) = work {
            self.workspace(work.tokens, work.targets())?;
        }
        Ok(())
    }

    /// Number of rows of the key/value store.
    pub fn kv_rows(&self) -> usize {
        self.store.as_ref().map_or(0, |store| store.rows)
    }

    /// Releases the key/value store's memory, for the training phase.
    pub fn release_kv(&mut self) {
        if let Some(store) = self.store.take() {
            self.decoder.backend.release(store.all);
        }
    }
}
