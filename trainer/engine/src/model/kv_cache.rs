//! Keys and values of generated sequences.

use super::Model;
use crate::backend::{Buf, Purpose};
use crate::config::ModelConfig;
use crate::error::EngineError;

/// The KV cache of generated sequences: for each layer `rows` rows, each the keys and then the values of a token.
pub(super) struct KvCache {
    pub(super) all: Buf,
    pub(super) rows: usize,
}

/// Number of elements of one row of the KV cache, over all layers.
pub(crate) fn kv_row_elements(config: &ModelConfig) -> u64 {
    (config.num_hidden_layers * 2 * config.num_key_value_heads * config.head_dim) as u64
}

impl Model {
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
        // The work buffers are allocated after the KV cache, so that a device that alternates between phases finds keys and values at the same address each time.
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

    /// Releases the KV cache's memory, for the training phase. The work buffers are released too: they would lie where training's larger buffers were.
    pub fn release_kv(&mut self) {
        let Some(store) = self.kv_cache.take() else {
            return;
        };
        self.decoder.backend.release(store.all);
        self.release_work();
    }
}
