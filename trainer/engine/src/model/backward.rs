//! The backward pass, the mirror of [`super::forward`].

use crate::backend::Buf;
use crate::model::forward::Decoder;
use crate::model::layout::{Projection, Region};
use crate::model::workspace::{BackwardWorkspace, BlockActivations, Workspace};

/// A backward pass over the current batch: its number of tokens, its buffers, and the gradient that it adds to. This is the gradient of all weights, or, if
/// there are adapters, of these alone, in their layout.
#[derive(Clone, Copy)]
pub(crate) struct BackwardPass<'a> {
    pub(crate) tokens: usize,
    pub(crate) work: &'a Workspace,
    pub(crate) back: &'a BackwardWorkspace,
    pub(crate) gradient: Buf,
}

impl Decoder {
    /// Gradients of one block over the current batch, with the batch's own keys.
    ///
    /// `back.dx` holds the gradient of the block's output and receives that of its input. Weights' gradients are added to `gradient`. `acts` are the forward
    /// pass's activations, which are overwritten.
    pub(crate) fn block_backward(
        &mut self,
        layer: usize,
        input: Buf,
        acts: &BlockActivations,
        pass: BackwardPass<'_>,
    ) {
        self.mlp_backward(layer, acts, pass);
        self.attention_backward(layer, input, acts, pass);
    }

    fn mlp_backward(&mut self, layer: usize, acts: &BlockActivations, pass: BackwardPass<'_>) {
        let BackwardPass {
            tokens, work, back, ..
        } = pass;
        let block = self.layout.blocks[layer];
        let (down, gate_up) = ((layer, Projection::Down), (layer, Projection::GateUp));
        let dy = self.branch_backward(block.mlp_post_norm, acts.ffn_out, pass);
        self.gate(acts, tokens, work);
        self.project_backward(back.dgated, dy, work.gated, down, pass);
        let (inner, activation) = (self.widths.inner, self.constants.flags.activation);
        self.backend
            .gate_backward(acts.gate_up, back.dgated, tokens, inner, activation);
        self.norm_stream(work.normed, acts.middle, block.mlp_norm, tokens);
        self.project_backward(back.dnormed, acts.gate_up, work.normed, gate_up, pass);
        self.norm_backward(back.dx, back.dnormed, acts.middle, block.mlp_norm, pass);
    }

    fn attention_backward(
        &mut self,
        layer: usize,
        input: Buf,
        acts: &BlockActivations,
        pass: BackwardPass<'_>,
    ) {
        let BackwardPass {
            tokens, work, back, ..
        } = pass;
        let w = self.widths;
        let block = self.layout.blocks[layer];
        let weights = self.weights;
        let (out, qkv) = ((layer, Projection::Out), (layer, Projection::Qkv));
        let dy = self.branch_backward(block.attention_post_norm, acts.attended, pass);
        self.project_backward(back.dattention, dy, acts.attention, out, pass);
        let (k, v) = (self.keys(acts.rotated), self.values(acts.qkv));
        let (dk, dv) = (self.keys(back.drotated), self.values(back.dqkv));
        let attention = self.attention(layer, acts.rotated, k, v);
        let rotations = self.layer_rotations(layer, work);
        let b = &mut self.backend;
        b.zero(back.dqkv.at(0, tokens * w.qkv()));
        if block.qk_norm.is_some() {
            b.zero(back.drotated.buf.at(0, tokens * back.drotated.stride));
        }
        let dq = back.drotated;
        let dy = back.dattention.rows(0, w.q());
        let y = acts.attention.rows(0, w.q());
        b.attention_backward(dq, dk, dv, dy, y, acts.lse, &attention);
        b.rope(dq, rotations, w.heads + w.kv_heads, w.head_dim, true);
        if let Some([q_norm, k_norm]) = block.qk_norm {
            let (x, dx) = (acts.qkv.rows(0, w.qkv()), back.dqkv.rows(0, w.qkv()));
            let (keys, dkeys) = (self.keys(x), self.keys(dx));
            for (dx, dy, x, region, heads) in [
                (dx, dq, x, q_norm, w.heads),
                (dkeys, dk, keys, k_norm, w.kv_heads),
            ] {
                let norm = self.head_norm(tokens, heads);
                let (dweight, weight) = (self.norm_gradient(region, pass), region.within(weights));
                self.backend
                    .rms_norm_backward(dx, dweight, dy, x, weight, norm);
            }
        }
        if let (Some(bias), None) = (block.qkv_bias, &self.adapters) {
            let dbias = bias.within(pass.gradient);
            self.backend.bias_backward(dbias, back.dqkv, tokens);
        }
        self.norm_stream(work.normed, input, block.attention_norm, tokens);
        self.project_backward(back.dnormed, back.dqkv, work.normed, qkv, pass);
        self.norm_backward(back.dx, back.dnormed, input, block.attention_norm, pass);
    }

    /// The gradient of a block's part before the norm that it may end in. `dx` is the gradient after the norm; `x` is the norm's input.
    fn branch_backward(&mut self, norm: Option<Region>, x: Buf, pass: BackwardPass<'_>) -> Buf {
        let back = pass.back;
        let Some(norm) = norm else {
            return back.dx;
        };
        let len = pass.tokens * self.widths.hidden;
        self.backend.zero(back.dbranch.at(0, len));
        self.norm_backward(back.dbranch, back.dx, x, norm, pass);
        back.dbranch
    }

    /// Backward pass of a norm: adds to `dx` and to the weight's gradient. `dy` is the gradient of its result, and `x` is its input.
    pub(crate) fn norm_backward(
        &mut self,
        dx: Buf,
        dy: Buf,
        x: Buf,
        weight: Region,
        pass: BackwardPass<'_>,
    ) {
        let [dx, dy, x] = [dx, dy, x].map(|x| self.stream(x));
        let norm = self.norm(pass.tokens);
        let dweight = self.norm_gradient(weight, pass);
        self.backend
            .rms_norm_backward(dx, dweight, dy, x, weight.within(self.weights), norm);
    }

    /// The buffer for the gradient of a norm's weight, which is discarded if adapters are trained instead.
    fn norm_gradient(&self, weight: Region, pass: BackwardPass<'_>) -> Buf {
        match self.adapters {
            None => weight.within(pass.gradient),
            Some(_) => pass.back.unread.at(0, weight.len()),
        }
    }

    /// Backward pass of a block's product with `x`: writes `dx`, and adds to the gradient of the matrix or of its adapter.
    fn project_backward(
        &mut self,
        dx: Buf,
        dy: Buf,
        x: Buf,
        (layer, which): (usize, Projection),
        pass: BackwardPass<'_>,
    ) {
        let BackwardPass {
            tokens,
            work,
            back,
            gradient,
        } = pass;
        let size = self.widths.projection(which, tokens);
        let region = self.layout.blocks[layer].matrix(which);
        let weight = region.within(self.weights);
        let backend = &mut self.backend;
        if self.adapters.is_none() {
            backend.linear_backward_weight(region.within(gradient), dy, x, size);
        }
        backend.linear_backward_input(dx, dy, weight, size, false);
        if let Some(adapters) = &self.adapters {
            let adapter = adapters.adapter(layer, which);
            let [a, b] = [adapter.a, adapter.b].map(|region| region.within(adapters.weights));
            let [da, db] = [adapter.a, adapter.b].map(|region| region.within(gradient));
            let [low, dlow] = [work.low, back.dlow].map(|x| x.at(0, tokens * adapters.rank));
            let (down, up) = (adapters.down(size), adapters.up(size));
            backend.linear(low, x, a, down, false);
            backend.scale(low, adapters.scale);
            backend.linear_backward_weight(db, dy, low, up);
            backend.linear_backward_input(dlow, dy, b, up, false);
            backend.scale(dlow, adapters.scale);
            backend.linear_backward_weight(da, dlow, x, down);
            backend.linear_backward_input(dx, dlow, a, down, true);
        }
    }
}
