//! The forward pass, block by block.

use crate::backend::{Buf, Linear};
use crate::batch::Batch;
use crate::error::EngineError;
use crate::model::decoder::Decoder;
use crate::model::work::{Inside, Work};

/// Where a block's keys and values are read from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Keys {
    /// The batch's own, row i of the store being token i.
    Own,
    /// One layer's store, rows of keys beside values; the batch's are written there first.
    Store(Buf),
}

impl Decoder {
    /// Makes `batch` the current one.
    pub(crate) fn begin(
        &mut self,
        batch: &Batch,
        store_rows: usize,
        work: &Work,
    ) -> Result<(), EngineError> {
        let vocabulary = self.widths.vocabulary;
        if let Some(token) = batch.tokens.iter().find(|t| **t as usize >= vocabulary) {
            return Err(EngineError::Request(format!(
                "the token {token} is not one of the model's {vocabulary}; was the text encoded with another model's tokenizer?"
            )));
        }
        self.backend.begin(batch, store_rows)?;
        self.backend.rope_table(work.rope, self.frequencies);
        Ok(())
    }

    /// The current batch's embedded tokens into `x`.
    pub(crate) fn embed(&mut self, x: Buf, tokens: usize) {
        let (table, width) = (self.layout.embedding.of(self.weights), self.widths.hidden);
        self.backend.embed(x.at(0, tokens * width), table, width);
    }

    /// One block over the current batch: residual stream `input` → `output`, which may be the same buffer as `inside.middle` and as each other.
    pub(crate) fn block(
        &mut self,
        layer: usize,
        tokens: usize,
        input: Buf,
        output: Buf,
        inside: &Inside,
        keys: Keys,
        work: &Work,
    ) {
        self.block_inside(layer, tokens, input, inside, keys, work);
        let down = self.layout.blocks[layer].down.of(self.weights);
        self.backend
            .gate(work.gated, inside.gate_up, tokens, self.widths.inner);
        let size = self.down_size(tokens);
        self.add_linear(output, inside.middle, work.gated, down, size);
    }

    /// A block up to its gate and up projections: everything that its backward pass needs.
    pub(crate) fn block_inside(
        &mut self,
        layer: usize,
        tokens: usize,
        input: Buf,
        inside: &Inside,
        keys: Keys,
        work: &Work,
    ) {
        let w = self.widths;
        let block = self.layout.blocks[layer];
        let weights = self.weights;
        let b = &mut self.backend;
        b.rms_norm(
            work.normed,
            input,
            block.attention_norm.of(weights),
            self.eps,
            tokens,
        );
        let size = self.qkv_size(tokens);
        let b = &mut self.backend;
        b.linear(inside.qkv, work.normed, block.qkv.of(weights), size, false);
        if let Some(bias) = block.qkv_bias {
            b.add_bias(inside.qkv, bias.of(weights), tokens);
        }
        let heads = inside.qkv.rows(0, w.qkv());
        b.rope(heads, work.rope, w.heads + w.kv_heads, w.head_dim, false);
        let (k, v) = match keys {
            Keys::Own => self.own_keys(inside.qkv),
            Keys::Store(store) => {
                let new = inside.qkv.rows(w.q(), w.qkv());
                b.store(store.rows(0, 2 * w.kv()), new, 2 * w.kv());
                (store.rows(0, 2 * w.kv()), store.rows(w.kv(), 2 * w.kv()))
            }
        };
        let attention = self.attention(inside.qkv, k, v);
        let y = inside.attention.rows(0, w.q());
        self.backend.attention(y, inside.lse, &attention);
        let (out, size) = (block.out.of(weights), self.out_size(tokens));
        self.add_linear(inside.middle, input, inside.attention, out, size);
        let b = &mut self.backend;
        b.rms_norm(
            work.normed,
            inside.middle,
            block.mlp_norm.of(weights),
            self.eps,
            tokens,
        );
        let size = self.gate_up_size(tokens);
        let gate_up = block.gate_up.of(weights);
        self.backend
            .linear(inside.gate_up, work.normed, gate_up, size, false);
    }

    /// `y = residual + x · Wᵀ`.
    fn add_linear(&mut self, y: Buf, residual: Buf, x: Buf, weight: Buf, size: Linear) {
        let len = size.rows * size.outputs;
        if y != residual {
            self.backend.copy(y.at(0, len), residual.at(0, len));
        }
        self.backend.linear(y, x, weight, size, true);
    }
}
