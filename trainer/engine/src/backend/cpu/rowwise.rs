//! Loops over rows: norms, rotations, sums, the optimiser. Each call processes one thread's chunk of rows.

use super::simd::{LANES, Lanes, at_level};
use crate::backend::{AdamWStep, Norm};

/// Σ a·b over two rows of equal length.
#[inline(always)]
pub(super) fn dot<L: Lanes>(a: &[f32], b: &[f32]) -> f32 {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    let mut sums = [L::splat(0.0); 4];
    let (a4, a_last) = a.as_chunks::<4>();
    let (b4, b_last) = b.as_chunks::<4>();
    for (a, b) in a4.iter().zip(b4) {
        for i in 0..4 {
            sums[i] = L::get(&a[i]).fma(L::get(&b[i]), sums[i]);
        }
    }
    for (a, b) in a_last.iter().zip(b_last) {
        sums[0] = L::get(a).fma(L::get(b), sums[0]);
    }
    let mut rest = 0.0;
    for (a, b) in a_rest.iter().zip(b_rest) {
        rest += a * b;
    }
    sums[0].add(sums[1]).add(sums[2].add(sums[3])).sum() + rest
}

#[inline(always)]
fn inverse_rms<L: Lanes>(x: &[f32], eps: f32) -> f32 {
    1.0 / (dot::<L>(x, x) / x.len() as f32 + eps).sqrt()
}

/// The vectors of rows that begin `stride` elements apart.
fn vectors(x: &[f32], stride: usize, width: usize, heads: usize) -> impl Iterator<Item = &[f32]> {
    x.chunks(stride)
        .flat_map(move |row| row[..heads * width].chunks_exact(width))
}

/// Like [`vectors`], for mutable rows.
fn vectors_mut(
    x: &mut [f32],
    stride: usize,
    width: usize,
    heads: usize,
) -> impl Iterator<Item = &mut [f32]> {
    x.chunks_mut(stride)
        .flat_map(move |row| row[..heads * width].chunks_exact_mut(width))
}

#[inline(always)]
fn rms_norm_body<L: Lanes>(
    y: &mut [f32],
    y_stride: usize,
    x: &[f32],
    x_stride: usize,
    weight: &[f32],
    norm: Norm,
    accumulate: bool,
) {
    let width = weight.len();
    let offsets = L::splat(norm.offset);
    let ys = vectors_mut(y, y_stride, width, norm.heads);
    for (y, x) in ys.zip(vectors(x, x_stride, width, norm.heads)) {
        let scale = inverse_rms::<L>(x, norm.eps);
        let (ys, y_rest) = y.as_chunks_mut::<LANES>();
        let (xs, x_rest) = x.as_chunks::<LANES>();
        let (ws, w_rest) = weight.as_chunks::<LANES>();
        for ((y, x), w) in ys.iter_mut().zip(xs).zip(ws) {
            let normed = L::get(x).mul(L::splat(scale)).mul(L::get(w).add(offsets));
            if accumulate {
                normed.add(L::get(y)).put(y);
            } else {
                normed.put(y);
            }
        }
        for ((y, x), w) in y_rest.iter_mut().zip(x_rest).zip(w_rest) {
            let normed = x * scale * (w + norm.offset);
            *y = if accumulate { *y + normed } else { normed };
        }
    }
}
at_level! {
    /// See [`crate::backend::Backend::rms_norm`].
    fn rms_norm(y: &mut [f32], y_stride: usize, x: &[f32], x_stride: usize, weight: &[f32], norm: Norm, accumulate: bool) = rms_norm_body
}

#[inline(always)]
fn rms_norm_backward_body<L: Lanes>(
    dx: &mut [f32],
    dweight: &mut [f32],
    dy: &[f32],
    x: &[f32],
    strides: [usize; 3],
    weight: &[f32],
    norm: Norm,
) {
    let (width, heads) = (weight.len(), norm.heads);
    let [dx_stride, dy_stride, x_stride] = strides;
    let offsets = L::splat(norm.offset);
    let dxs = vectors_mut(dx, dx_stride, width, heads);
    let dys = vectors(dy, dy_stride, width, heads);
    let xs = vectors(x, x_stride, width, heads);
    for ((dx, dy), x) in dxs.zip(dys).zip(xs) {
        let scale = inverse_rms::<L>(x, norm.eps);
        let (dxs, dx_rest) = dx.as_chunks_mut::<LANES>();
        let (dws, dw_rest) = dweight.as_chunks_mut::<LANES>();
        let (dys, dy_rest) = dy.as_chunks::<LANES>();
        let (xs, x_rest) = x.as_chunks::<LANES>();
        let (ws, w_rest) = weight.as_chunks::<LANES>();
        let mut along = L::splat(0.0);
        for (((dy, x), w), dw) in dys.iter().zip(xs).zip(ws).zip(dws.iter_mut()) {
            let (dy, x, w) = (L::get(dy), L::get(x), L::get(w).add(offsets));
            along = dy.mul(w).fma(x, along);
            dy.mul(x.mul(L::splat(scale))).add(L::get(dw)).put(dw);
        }
        let mut along_rest = 0.0;
        for (((dy, x), w), dw) in dy_rest.iter().zip(x_rest).zip(w_rest).zip(dw_rest) {
            along_rest += dy * (w + norm.offset) * x;
            *dw += dy * (x * scale);
        }
        let pull = (along.sum() + along_rest) * scale * scale * scale / width as f32;
        for (((dx, dy), x), w) in dxs.iter_mut().zip(dys).zip(xs).zip(ws) {
            let w = L::get(w).add(offsets);
            let direct = L::get(dy).mul(w).mul(L::splat(scale));
            let change = L::get(x).fma(L::splat(-pull), direct);
            L::get(dx).add(change).put(dx);
        }
        for (((dx, dy), x), w) in dx_rest.iter_mut().zip(dy_rest).zip(x_rest).zip(w_rest) {
            *dx += dy * (w + norm.offset) * scale - x * pull;
        }
    }
}
at_level! {
    /// See [`crate::backend::Backend::rms_norm_backward`]; `strides` are those of `dx`, `dy` and `x`.
    fn rms_norm_backward(dx: &mut [f32], dweight: &mut [f32], dy: &[f32], x: &[f32], strides: [usize; 3], weight: &[f32], norm: Norm) = rms_norm_backward_body
}

#[inline(always)]
fn rope_body<L: Lanes>(x: &mut [f32], table: &[f32], heads: usize, head_dim: usize, turn: f32) {
    let half = head_dim / 2;
    let (cos, sin) = table.split_at(half);
    for head in x[..heads * head_dim].chunks_exact_mut(head_dim) {
        let (a, b) = head.split_at_mut(half);
        let (a, a_rest) = a.as_chunks_mut::<LANES>();
        let (b, b_rest) = b.as_chunks_mut::<LANES>();
        let (cos, cos_rest) = cos.as_chunks::<LANES>();
        let (sin, sin_rest) = sin.as_chunks::<LANES>();
        for (((a, b), cos), sin) in a.iter_mut().zip(b).zip(cos).zip(sin) {
            let (x, y) = (L::get(a), L::get(b));
            let (cos, sin) = (L::get(cos), L::get(sin).mul(L::splat(turn)));
            x.mul(cos).sub(y.mul(sin)).put(a);
            y.mul(cos).add(x.mul(sin)).put(b);
        }
        let rest = a_rest.iter_mut().zip(b_rest).zip(cos_rest).zip(sin_rest);
        for (((a, b), cos), sin) in rest {
            let (x, y, sin) = (*a, *b, sin * turn);
            *a = x * cos - y * sin;
            *b = y * cos + x * sin;
        }
    }
}
at_level! {
    /// Rotates the heads of one row. `table` contains the token's cosines and sines; `turn` is 1 to rotate forwards and -1 to rotate back.
    fn rope(x: &mut [f32], table: &[f32], heads: usize, head_dim: usize, turn: f32) = rope_body
}

#[inline(always)]
fn add_body<L: Lanes>(y: &mut [f32], x: &[f32]) {
    let (ys, y_rest) = y.as_chunks_mut::<LANES>();
    let (xs, x_rest) = x.as_chunks::<LANES>();
    for (y, x) in ys.iter_mut().zip(xs) {
        L::get(y).add(L::get(x)).put(y);
    }
    for (y, x) in y_rest.iter_mut().zip(x_rest) {
        *y += x;
    }
}
at_level! {
    /// `y += x`.
    fn add(y: &mut [f32], x: &[f32]) = add_body
}

#[inline(always)]
fn sum_squares_body<L: Lanes>(x: &[f32]) -> f64 {
    // Sums 1,024 numbers in f32, and these sums in f64.
    x.chunks(1024).map(|x| f64::from(dot::<L>(x, x))).sum()
}
at_level! {
    fn sum_squares(x: &[f32]) -> f64 = sum_squares_body
}

#[inline(always)]
fn adamw_lanes<L: Lanes>(w: L, g: L, m: L, v: L, step: &AdamWStep) -> (L, L, L) {
    let s = L::splat;
    let g = g.mul(s(step.grad_scale));
    let m = m.mul(s(step.beta1)).add(g.mul(s(1.0 - step.beta1)));
    let v = v.mul(s(step.beta2)).add(g.mul(g).mul(s(1.0 - step.beta2)));
    let size = v.div(s(step.bias2)).sqrt().add(s(step.eps));
    let direction = m.div(s(step.bias1)).div(size);
    let decayed = w.sub(w.mul(s(step.lr * step.decay)));
    (decayed.sub(direction.mul(s(step.lr))), m, v)
}

#[inline(always)]
fn adamw_body<L: Lanes>(w: &mut [f32], g: &[f32], m: &mut [f32], v: &mut [f32], step: &AdamWStep) {
    let (ws, w_rest) = w.as_chunks_mut::<LANES>();
    let (gs, g_rest) = g.as_chunks::<LANES>();
    let (ms, m_rest) = m.as_chunks_mut::<LANES>();
    let (vs, v_rest) = v.as_chunks_mut::<LANES>();
    for (((w, g), m), v) in ws.iter_mut().zip(gs).zip(ms).zip(vs) {
        let (new_w, new_m, new_v) = adamw_lanes(L::get(w), L::get(g), L::get(m), L::get(v), step);
        new_w.put(w);
        new_m.put(m);
        new_v.put(v);
    }
    for (((w, g), m), v) in w_rest.iter_mut().zip(g_rest).zip(m_rest).zip(v_rest) {
        let s = L::splat;
        let (new_w, new_m, new_v) = adamw_lanes(s(*w), s(*g), s(*m), s(*v), step);
        *w = new_w.array()[0];
        *m = new_m.array()[0];
        *v = new_v.array()[0];
    }
}
at_level! {
    /// See [`AdamWStep`].
    fn adamw(w: &mut [f32], g: &[f32], m: &mut [f32], v: &mut [f32], step: &AdamWStep) = adamw_body
}
