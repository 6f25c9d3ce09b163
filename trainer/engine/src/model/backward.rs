//! The backward pass, the mirror of [`super::forward`].

use crate::backend::{Buf, Linear};
use crate::model::decoder::Decoder;
use crate::model::work::{Back, Inside, Work};

impl Decoder {
    /// Gradients of one block over the current batch, keys being its own.
    ///
    /// `back.dx` holds the gradient of the block's output and gets that of its input; weights' gradients are added to `gradient`. `inside` is the forward's and is
    /// used up.
    pub(crate) fn block_backward(
        &mut self,
        layer: usize,
        tokens: usize,
        input: Buf,
        inside: &Inside,
        work: &Work,
        back: &Back,
        gradient: Buf,
    ) {
        self.feed_forward_backward(layer, tokens, inside, work, back, gradient);
        self.attention_block_backward(layer, tokens, input, inside, work, back, gradient);
    }

    fn feed_forward_backward(
        &mut self,
        layer: usize,
        tokens: usize,
        inside: &Inside,
        work: &Work,
        back: &Back,
        gradient: Buf,
    ) {
        let block = self.layout.blocks[layer];
        let (weights, inner) = (self.weights, self.widths.inner);
        let (down_size, gate_up_size) = (self.down_size(tokens), self.gate_up_size(tokens));
        let eps = self.eps;
        let b = &mut self.backend;
        b.gate(work.gated, inside.gate_up, tokens, inner);
        b.linear_backward_weight(block.down.of(gradient), back.dx, work.gated, down_size);
        b.linear_backward_input(
            back.dgated,
            back.dx,
            block.down.of(weights),
            down_size,
            false,
        );
        b.gate_backward(inside.gate_up, back.dgated, tokens, inner);
        let norm = block.mlp_norm;
        b.rms_norm(work.normed, inside.middle, norm.of(weights), eps, tokens);
        self.linear_backward(
            back.dnormed,
            block.gate_up.of(gradient),
            inside.gate_up,
            work.normed,
            block.gate_up.of(weights),
            gate_up_size,
        );
        self.backend.rms_norm_backward(
            back.dx,
            norm.of(gradient),
            back.dnormed,
            inside.middle,
            norm.of(weights),
            eps,
            tokens,
        );
    }

    fn attention_block_backward(
        &mut self,
        layer: usize,
        tokens: usize,
        input: Buf,
        inside: &Inside,
        work: &Work,
        back: &Back,
        gradient: Buf,
    ) {
        let w = self.widths;
        let block = self.layout.blocks[layer];
        let (weights, eps) = (self.weights, self.eps);
        let (out_size, qkv_size) = (self.out_size(tokens), self.qkv_size(tokens));
        self.linear_backward(
            back.dattention,
            block.out.of(gradient),
            back.dx,
            inside.attention,
            block.out.of(weights),
            out_size,
        );
        let (k, v) = self.own_keys(inside.qkv);
        let (dk, dv) = self.own_keys(back.dqkv);
        let attention = self.attention(inside.qkv, k, v);
        let b = &mut self.backend;
        b.zero(back.dqkv.at(0, tokens * w.qkv()));
        let dq = back.dqkv.rows(0, w.qkv());
        let dy = back.dattention.rows(0, w.q());
        let y = inside.attention.rows(0, w.q());
        b.attention_backward(dq, dk, dv, dy, y, inside.lse, &attention);
        b.rope(dq, work.rope, w.heads + w.kv_heads, w.head_dim, true);
        if let Some(bias) = block.qkv_bias {
            b.bias_backward(bias.of(gradient), back.dqkv, tokens);
        }
        let norm = block.attention_norm;
        b.rms_norm(work.normed, input, norm.of(weights), eps, tokens);
        self.linear_backward(
            back.dnormed,
            block.qkv.of(gradient),
            back.dqkv,
            work.normed,
            block.qkv.of(weights),
            qkv_size,
        );
        self.backend.rms_norm_backward(
            back.dx,
            norm.of(gradient),
            back.dnormed,
            input,
            norm.of(weights),
            eps,
            tokens,
        );
    }

    /// `dx = dy · W`, `dW += dyᵀ · x`.
    pub(crate) fn linear_backward(
        &mut self,
        dx: Buf,
        dweight: Buf,
        dy: Buf,
        x: Buf,
        weight: Buf,
        size: Linear,
    ) {
        self.backend.linear_backward_weight(dweight, dy, x, size);
        self.backend
            .linear_backward_input(dx, dy, weight, size, false);
    }
}
