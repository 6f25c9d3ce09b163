//! The backward pass, the mirror of [`super::forward`].

use crate::backend::{Buf, Linear};
use crate::model::decoder::Decoder;
use crate::model::layout::Place;
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
        let dy = self.branch_backward(block.mlp_post_norm, tokens, inside.fed, back, gradient);
        self.gate(inside, tokens, work);
        self.linear_backward(
            back.dgated,
            block.down.of(gradient),
            dy,
            work.gated,
            block.down.of(weights),
            down_size,
        );
        let activation = self.activation();
        self.backend
            .gate_backward(inside.gate_up, back.dgated, tokens, inner, activation);
        self.norm_stream(work.normed, inside.middle, block.mlp_norm, tokens);
        self.linear_backward(
            back.dnormed,
            block.gate_up.of(gradient),
            inside.gate_up,
            work.normed,
            block.gate_up.of(weights),
            gate_up_size,
        );
        self.norm_backward(
            back.dx,
            back.dnormed,
            inside.middle,
            block.mlp_norm,
            tokens,
            gradient,
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
        let weights = self.weights;
        let (out_size, qkv_size) = (self.out_size(tokens), self.qkv_size(tokens));
        let norm = block.attention_post_norm;
        let dy = self.branch_backward(norm, tokens, inside.attended, back, gradient);
        self.linear_backward(
            back.dattention,
            block.out.of(gradient),
            dy,
            inside.attention,
            block.out.of(weights),
            out_size,
        );
        let (k, v) = (self.keys(inside.rotated), self.values(inside.qkv));
        let (dk, dv) = (self.keys(back.drotated), self.values(back.dqkv));
        let attention = self.attention(layer, inside.rotated, k, v);
        let turns = self.turns(layer, work);
        let b = &mut self.backend;
        b.zero(back.dqkv.at(0, tokens * w.qkv()));
        if block.qk_norm.is_some() {
            b.zero(back.drotated.buf.at(0, tokens * back.drotated.stride));
        }
        let dq = back.drotated;
        let dy = back.dattention.rows(0, w.q());
        let y = inside.attention.rows(0, w.q());
        b.attention_backward(dq, dk, dv, dy, y, inside.lse, &attention);
        b.rope(dq, turns, w.heads + w.kv_heads, w.head_dim, true);
        if let Some([q_norm, k_norm]) = block.qk_norm {
            let (x, dx) = (inside.qkv.rows(0, w.qkv()), back.dqkv.rows(0, w.qkv()));
            let (keys, dkeys) = (self.keys(x), self.keys(dx));
            for (dx, dy, x, place, heads) in [
                (dx, dq, x, q_norm, w.heads),
                (dkeys, dk, keys, k_norm, w.kv_heads),
            ] {
                let norm = self.head_norm(tokens, heads);
                let (dweight, weight) = (place.of(gradient), place.of(weights));
                self.backend
                    .rms_norm_backward(dx, dweight, dy, x, weight, norm);
            }
        }
        if let Some(bias) = block.qkv_bias {
            self.backend
                .bias_backward(bias.of(gradient), back.dqkv, tokens);
        }
        self.norm_stream(work.normed, input, block.attention_norm, tokens);
        self.linear_backward(
            back.dnormed,
            block.qkv.of(gradient),
            back.dqkv,
            work.normed,
            block.qkv.of(weights),
            qkv_size,
        );
        self.norm_backward(
            back.dx,
            back.dnormed,
            input,
            block.attention_norm,
            tokens,
            gradient,
        );
    }

    /// The gradient of what a part of a block adds to the residual stream before the norm that it may end in; `x` is that norm's input.
    fn branch_backward(
        &mut self,
        norm: Option<Place>,
        tokens: usize,
        x: Buf,
        back: &Back,
        gradient: Buf,
    ) -> Buf {
        let Some(norm) = norm else {
            return back.dx;
        };
        let len = tokens * self.widths.hidden;
        self.backend.zero(back.dbranch.at(0, len));
        self.norm_backward(back.dbranch, back.dx, x, norm, tokens, gradient);
        back.dbranch
    }

    /// Adds to `dx`, and to the weight's gradient, what `dy` of a norm's result gives; `x` is its input.
    pub(crate) fn norm_backward(
        &mut self,
        dx: Buf,
        dy: Buf,
        x: Buf,
        weight: Place,
        tokens: usize,
        gradient: Buf,
    ) {
        let [dx, dy, x] = [dx, dy, x].map(|x| self.stream(x));
        let norm = self.norm(tokens);
        let (dweight, weight) = (weight.of(gradient), weight.of(self.weights));
        self.backend
            .rms_norm_backward(dx, dweight, dy, x, weight, norm);
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
