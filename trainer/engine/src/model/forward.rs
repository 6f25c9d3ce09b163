//! The decoder, and its forward pass block by block.

use crate::backend::{Attention, Backend, Buf, Linear, Norm, Rows};
use crate::batch::Batch;
use crate::config::{Flags, ModelConfig};
use crate::error::EngineError;
use crate::model::adapters::Adapters;
use crate::model::layout::{Layout, Projection, Region};
use crate::model::workspace::{BlockActivations, Widths, Workspace};

/// State that every pass needs. A pass changes none of it but the backend.
pub(crate) struct Decoder {
    pub(crate) backend: Box<dyn Backend>,
    pub(crate) layout: Layout,
    pub(crate) widths: Widths,
    pub(crate) weights: Buf,
    pub(crate) adapters: Option<Adapters>,
    /// Rotary frequencies, `head_dim / 2` of them; then those of sliding-window layers, if these have their own.
    pub(crate) frequencies: [Option<Buf>; 2],
    pub(crate) constants: Constants,
}

/// The configuration's constants and flags, without sizes.
#[derive(Debug, Clone)]
pub(crate) struct Constants {
    pub(crate) flags: Flags,
    eps: f32,
    pub(crate) embedding_scale: f32,
    score_scale: f32,
    score_cap: Option<f32>,
    pub(crate) logit_cap: Option<f32>,
    window: Option<usize>,
    /// For each layer, whether it has a sliding window.
    slides: Vec<bool>,
}

impl Constants {
    pub(crate) fn new(config: &ModelConfig) -> Self {
        let sliding = config.sliding.as_ref();
        Self {
            flags: config.flags,
            eps: config.rms_norm_eps,
            embedding_scale: if config.flags.scaled_embedding {
                (config.hidden_size as f32).sqrt()
            } else {
                1.0
            },
            score_scale: 1.0 / config.query_pre_attn_scalar.sqrt(),
            score_cap: config.attn_logit_softcapping,
            logit_cap: config.final_logit_softcapping,
            window: sliding.map(|sliding| sliding.window),
            slides: match sliding {
                Some(sliding) => sliding.layers.clone(),
                None => vec![false; config.num_hidden_layers],
            },
        }
    }
}

impl Decoder {
    /// Attention of a layer. Keys lie beside queries in the rotated rows, or elsewhere (in the KV cache).
    pub(crate) fn attention(&self, layer: usize, q: Rows, k: Rows, v: Rows) -> Attention {
        let (w, c) = (self.widths, &self.constants);
        Attention {
            q,
            k,
            v,
            heads: w.heads,
            kv_heads: w.kv_heads,
            head_dim: w.head_dim,
            scale: c.score_scale,
            soft_cap: c.score_cap,
            window: c.window.filter(|_| c.slides[layer]),
        }
    }

    /// A norm of rows as wide as the residual stream.
    pub(crate) fn norm(&self, rows: usize) -> Norm {
        self.head_norm(rows, 1)
    }

    /// A norm of `heads` vectors in each row.
    pub(crate) fn head_norm(&self, rows: usize, heads: usize) -> Norm {
        let offset = self.constants.flags.unit_offset_norms;
        Norm {
            rows,
            heads,
            eps: self.constants.eps,
            offset: if offset { 1.0 } else { 0.0 },
        }
    }

    /// Cosines and sines of a layer's rotations.
    pub(crate) fn layer_rotations(&self, layer: usize, work: &Workspace) -> Buf {
        let own = self.constants.slides[layer] && self.frequencies[1].is_some();
        work.rope[usize::from(own)]
    }

    /// The residual stream, or a buffer of its shape, as rows.
    pub(crate) fn stream(&self, x: Buf) -> Rows {
        x.rows(0, self.widths.hidden)
    }

    /// The keys, which lie after the queries in the same rows.
    pub(crate) fn keys(&self, queries: Rows) -> Rows {
        queries.buf.rows(self.widths.q(), queries.stride)
    }

    /// The values in rows of queries, keys and values.
    pub(crate) fn values(&self, qkv: Buf) -> Rows {
        let w = self.widths;
        qkv.rows(w.q() + w.kv(), w.qkv())
    }

    pub(crate) fn head_size(&self, rows: usize) -> Linear {
        Linear {
            rows,
            outputs: self.widths.vocabulary,
            inputs: self.widths.hidden,
        }
    }

    /// Makes `batch` the current one, for passes of `tokens` tokens ([`Backend::begin`]).
    ///
    /// [`Backend::begin`]: crate::backend::Backend::begin
    pub(crate) fn begin(
        &mut self,
        batch: &Batch,
        tokens: usize,
        store_rows: usize,
    ) -> Result<(), EngineError> {
        let vocabulary = self.widths.vocabulary;
        if let Some(token) = batch.tokens.iter().find(|t| **t as usize >= vocabulary) {
            return Err(EngineError::Request(format!(
                "the token {token} is not one of the model's {vocabulary}; was the text encoded with another model's tokenizer?"
            )));
        }
        self.backend.begin(batch, tokens, store_rows)
    }

    /// Computes the rotations of the current batch's positions.
    pub(crate) fn rotations(&mut self, work: &Workspace) {
        for (table, frequencies) in work.rope.into_iter().zip(self.frequencies) {
            if let Some(frequencies) = frequencies {
                self.backend.rope_table(table, frequencies);
            }
        }
    }

    /// Writes the embeddings of the current batch's tokens into `x`.
    pub(crate) fn embed(&mut self, x: Buf, tokens: usize) {
        let (width, scale) = (self.widths.hidden, self.constants.embedding_scale);
        let table = self.layout.embedding.within(self.weights);
        self.backend
            .embed(x.at(0, tokens * width), table, width, scale);
    }

    /// One block over the current batch: residual stream `input` → `output`. `output` may be the same buffer as `input` and as `acts.middle`.
    ///
    /// `cache` is the layer's KV cache: each row has keys, then values. The batch's are written first. Without a cache, row i is the batch's token i.
    pub(crate) fn block(
        &mut self,
        layer: usize,
        tokens: usize,
        input: Buf,
        output: Buf,
        acts: &BlockActivations,
        cache: Option<Buf>,
        work: &Workspace,
    ) {
        self.block_inside(layer, tokens, input, acts, cache, work);
        match self.layout.blocks[layer].mlp_post_norm {
            Some(norm) => self.add_norm(output, acts.middle, acts.ffn_out, norm, tokens),
            None => {
                self.gate(acts, tokens, work);
                let down = (layer, Projection::Down);
                self.add_projected(output, acts.middle, work.gated, down, tokens, work);
            }
        }
    }

    /// Computes everything in a block that its backward pass needs: up to its gate and up projections, or up to its last norm if it ends in one.
    pub(crate) fn block_inside(
        &mut self,
        layer: usize,
        tokens: usize,
        input: Buf,
        acts: &BlockActivations,
        cache: Option<Buf>,
        work: &Workspace,
    ) {
        let w = self.widths;
        let block = self.layout.blocks[layer];
        let weights = self.weights;
        self.norm_stream(work.normed, input, block.attention_norm, tokens);
        let qkv = (layer, Projection::Qkv);
        self.project(acts.qkv, work.normed, qkv, tokens, work, false);
        let mut bias = block.qkv_bias.map(|bias| bias.within(weights));
        if let Some([q_norm, k_norm]) = block.qk_norm {
            // The norms read what the bias has been added to.
            if let Some(bias) = bias.take() {
                self.backend.add_bias(acts.qkv, bias, tokens);
            }
            let projected = acts.qkv.rows(0, w.qkv());
            let (projected_keys, rotated_keys) = (self.keys(projected), self.keys(acts.rotated));
            for (y, x, weight, heads) in [
                (acts.rotated, projected, q_norm, w.heads),
                (rotated_keys, projected_keys, k_norm, w.kv_heads),
            ] {
                let (weight, norm) = (weight.within(weights), self.head_norm(tokens, heads));
                self.backend.rms_norm(y, x, weight, norm, false);
            }
        }
        let rotations = self.layer_rotations(layer, work);
        let heads = w.heads + w.kv_heads;
        let (b, rotated) = (&mut self.backend, acts.rotated);
        match bias {
            Some(bias) => {
                b.add_bias_and_rope(rotated, bias, tokens, rotations, heads, w.head_dim);
            }
            None => b.rope(rotated, rotations, heads, w.head_dim, false),
        }
        let (mut k, mut v) = (self.keys(acts.rotated), self.values(acts.qkv));
        if let Some(cache) = cache {
            let stored = [0, w.kv()].map(|column| cache.rows(column, 2 * w.kv()));
            self.backend.write_kv(stored[0], k, w.kv_heads, w.head_dim);
            self.backend.write_kv(stored[1], v, w.kv_heads, w.head_dim);
            [k, v] = stored;
        }
        let attention = self.attention(layer, acts.rotated, k, v);
        let y = acts.attention.rows(0, w.q());
        self.backend.attention(y, acts.lse, &attention);
        let out = (layer, Projection::Out);
        match block.attention_post_norm {
            Some(norm) => {
                self.project(acts.attended, acts.attention, out, tokens, work, false);
                self.add_norm(acts.middle, input, acts.attended, norm, tokens);
            }
            None => {
                self.add_projected(acts.middle, input, acts.attention, out, tokens, work);
            }
        }
        self.norm_stream(work.normed, acts.middle, block.mlp_norm, tokens);
        let gate_up = (layer, Projection::GateUp);
        self.project(acts.gate_up, work.normed, gate_up, tokens, work, false);
        if block.mlp_post_norm.is_some() {
            self.gate(acts, tokens, work);
            let down = (layer, Projection::Down);
            self.project(acts.ffn_out, work.gated, down, tokens, work, false);
        }
    }

    /// `y` = `x` through a block's matrix and its adapter; added to `y` if `accumulate`.
    fn project(
        &mut self,
        y: Buf,
        x: Buf,
        (layer, which): (usize, Projection),
        tokens: usize,
        work: &Workspace,
        accumulate: bool,
    ) {
        let size = self.widths.projection(which, tokens);
        let weight = self.layout.blocks[layer].matrix(which).within(self.weights);
        let b = &mut self.backend;
        b.linear(y, x, weight, size, accumulate);
        if let Some(adapters) = self.adapters.as_ref().filter(|adapters| adapters.active) {
            let adapter = adapters.adapter(layer, which);
            let low = work.low.at(0, tokens * adapters.rank);
            let [a, b_] = [adapter.a, adapter.b].map(|region| region.within(adapters.weights));
            b.linear(low, x, a, adapters.down(size), false);
            b.scale(low, adapters.scale);
            b.linear(y, low, b_, adapters.up(size), true);
        }
    }

    /// Writes the gated activations into `work.gated`.
    pub(crate) fn gate(&mut self, acts: &BlockActivations, tokens: usize, work: &Workspace) {
        let (inner, activation) = (self.widths.inner, self.constants.flags.activation);
        self.backend
            .gate(work.gated, acts.gate_up, tokens, inner, activation);
    }

    /// `y` = norm of the residual stream `x`.
    pub(crate) fn norm_stream(&mut self, y: Buf, x: Buf, weight: Region, tokens: usize) {
        let (y, x, norm) = (self.stream(y), self.stream(x), self.norm(tokens));
        self.backend
            .rms_norm(y, x, weight.within(self.weights), norm, false);
    }

    /// `y = residual + norm(x)`.
    fn add_norm(&mut self, y: Buf, residual: Buf, x: Buf, weight: Region, tokens: usize) {
        let len = tokens * self.widths.hidden;
        if y != residual {
            self.backend.copy(y.at(0, len), residual.at(0, len));
        }
        let (y, x, norm) = (self.stream(y), self.stream(x), self.norm(tokens));
        self.backend
            .rms_norm(y, x, weight.within(self.weights), norm, true);
    }

    /// `y = residual +` `x` through a block's matrix and its adapter.
    fn add_projected(
        &mut self,
        y: Buf,
        residual: Buf,
        x: Buf,
        which: (usize, Projection),
        tokens: usize,
        work: &Workspace,
    ) {
        let len = tokens * self.widths.hidden;
        if y != residual {
            self.backend.copy(y.at(0, len), residual.at(0, len));
        }
        self.project(y, x, which, tokens, work, true);
    }
}
