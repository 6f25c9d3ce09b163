//! Elementwise functions: the feed-forward block's gate, and soft caps.

use super::simd::{LANES, Lanes, at_level};
use crate::config::Activation;

/// Constants of GELU's approximation: σ(2u) with u = √(2/π) · (a + 0.044715 a³).
const GELU_CUBIC: f32 = 0.044_715;
const GELU_SCALE: f32 = 2.0 * std::f32::consts::FRAC_2_SQRT_PI * std::f32::consts::FRAC_1_SQRT_2;

#[inline(always)]
fn sigmoid<L: Lanes>(a: L) -> L {
    let one = L::splat(1.0);
    one.div(one.add(L::splat(0.0).sub(a).exp()))
}

/// An activation function, which returns `(slope, value)` at `a`.
trait Curve {
    fn at<L: Lanes>(a: L) -> (L, L);
}

struct Silu;
struct GeluTanh;

impl Curve for Silu {
    #[inline(always)]
    fn at<L: Lanes>(a: L) -> (L, L) {
        let one = L::splat(1.0);
        let sigmoid = sigmoid(a);
        let slope = sigmoid.mul(a.fma(one.sub(sigmoid), one));
        (slope, a.mul(sigmoid))
    }
}

impl Curve for GeluTanh {
    /// Uses ½ (1 + tanh u) = σ(2u), which loses no digits where tanh is near -1.
    #[inline(always)]
    fn at<L: Lanes>(a: L) -> (L, L) {
        let (one, scale) = (L::splat(1.0), L::splat(GELU_SCALE));
        let square = a.mul(a);
        let inner = square.fma(L::splat(GELU_CUBIC), one).mul(a).mul(scale);
        let inner_slope = square.fma(L::splat(3.0 * GELU_CUBIC), one).mul(scale);
        let sigmoid = sigmoid(inner);
        let bend = a.mul(inner_slope).mul(one.sub(sigmoid));
        (sigmoid.mul(bend.add(one)), a.mul(sigmoid))
    }
}

#[inline(always)]
fn forward_body<L: Lanes>(y: &mut [f32], x: &[f32], width: usize, activation: Activation) {
    match activation {
        Activation::Silu => forward_of::<L, Silu>(y, x, width),
        Activation::GeluTanh => forward_of::<L, GeluTanh>(y, x, width),
    }
}
at_level! {
    /// See [`crate::backend::Backend::gate`].
    fn forward(y: &mut [f32], x: &[f32], width: usize, activation: Activation) = forward_body
}

#[inline(always)]
fn forward_of<L: Lanes, C: Curve>(y: &mut [f32], x: &[f32], width: usize) {
    for (y, x) in y.chunks_exact_mut(width).zip(x.chunks_exact(2 * width)) {
        let (a, b) = x.split_at(width);
        let (ys, y_rest) = y.as_chunks_mut::<LANES>();
        let (a, a_rest) = a.as_chunks::<LANES>();
        let (b, b_rest) = b.as_chunks::<LANES>();
        for ((y, a), b) in ys.iter_mut().zip(a).zip(b) {
            C::at(L::get(a)).1.mul(L::get(b)).put(y);
        }
        for ((y, a), b) in y_rest.iter_mut().zip(a_rest).zip(b_rest) {
            *y = C::at(L::splat(*a)).1.mul(L::splat(*b)).array()[0];
        }
    }
}

#[inline(always)]
fn backward_body<L: Lanes>(x: &mut [f32], dy: &[f32], width: usize, activation: Activation) {
    match activation {
        Activation::Silu => backward_of::<L, Silu>(x, dy, width),
        Activation::GeluTanh => backward_of::<L, GeluTanh>(x, dy, width),
    }
}
at_level! {
    /// See [`crate::backend::Backend::gate_backward`].
    fn backward(x: &mut [f32], dy: &[f32], width: usize, activation: Activation) = backward_body
}

/// d/da and d/db of activation(a) · b, times dy.
#[inline(always)]
fn gradients<L: Lanes, C: Curve>(a: L, b: L, dy: L) -> (L, L) {
    let (slope, value) = C::at(a);
    (dy.mul(b).mul(slope), dy.mul(value))
}

#[inline(always)]
fn backward_of<L: Lanes, C: Curve>(x: &mut [f32], dy: &[f32], width: usize) {
    for (x, dy) in x.chunks_exact_mut(2 * width).zip(dy.chunks_exact(width)) {
        let (a, b) = x.split_at_mut(width);
        let (a, a_rest) = a.as_chunks_mut::<LANES>();
        let (b, b_rest) = b.as_chunks_mut::<LANES>();
        let (dy, dy_rest) = dy.as_chunks::<LANES>();
        for ((a, b), dy) in a.iter_mut().zip(b).zip(dy) {
            let (da, db) = gradients::<L, C>(L::get(a), L::get(b), L::get(dy));
            da.put(a);
            db.put(b);
        }
        for ((a, b), dy) in a_rest.iter_mut().zip(b_rest).zip(dy_rest) {
            let (da, db) = gradients::<L, C>(L::splat(*a), L::splat(*b), L::splat(*dy));
            *a = da.array()[0];
            *b = db.array()[0];
        }
    }
}

/// tanh within a few units in the last place. Its series is used where 1 − e⁻²ˣ would lose digits.
#[inline(always)]
fn tanh<L: Lanes>(x: L) -> L {
    let s = L::splat;
    let size = x.max(s(0.0).sub(x));
    let e = size.mul(s(-2.0)).exp();
    let large = s(1.0).sub(e).div(s(1.0).add(e));
    let square = x.mul(x);
    let series = s(-17.0 / 315.0)
        .fma(square, s(2.0 / 15.0))
        .fma(square, s(-1.0 / 3.0))
        .fma(square.mul(x), x);
    let signed = x.select_lt(s(0.0), s(0.0).sub(large), large);
    size.select_lt(s(0.15), series, signed)
}

/// `cap · tanh(x / cap)` on lanes.
#[inline(always)]
pub(super) fn capped<L: Lanes>(x: L, cap: f32) -> L {
    tanh(x.mul(L::splat(1.0 / cap))).mul(L::splat(cap))
}

/// The slope of [`capped`], given its result `y`; 0 if `y` is −∞, a masked score.
#[inline(always)]
pub(super) fn capped_slope<L: Lanes>(y: L, cap: f32) -> L {
    let share = L::splat(-1.0).max(y.mul(L::splat(1.0 / cap)));
    L::splat(1.0).sub(share.mul(share))
}

#[inline(always)]
fn soft_cap_body<L: Lanes>(x: &mut [f32], cap: f32) {
    let (xs, rest) = x.as_chunks_mut::<LANES>();
    for x in xs {
        capped(L::get(x), cap).put(x);
    }
    for x in rest {
        *x = capped(L::splat(*x), cap).array()[0];
    }
}
at_level! {
    /// See [`crate::backend::Backend::soft_cap`].
    fn soft_cap(x: &mut [f32], cap: f32) = soft_cap_body
}

#[cfg(test)]
mod tests {
    use super::super::simd::{SimdLevel, levels};
    use super::{backward, forward, soft_cap};
    use crate::config::Activation;

    /// The activation in f64, by its definition.
    fn value(activation: Activation, a: f64) -> f64 {
        match activation {
            Activation::Silu => a / (1.0 + (-a).exp()),
            Activation::GeluTanh => {
                let u = (2.0 / std::f64::consts::PI).sqrt() * (a + 0.044_715 * a.powi(3));
                0.5 * a * (1.0 + u.tanh())
            }
        }
    }

    #[test]
    fn activations_and_their_slopes_match_their_definitions() {
        for level in levels() {
            for activation in [Activation::Silu, Activation::GeluTanh] {
                for i in -400..=400 {
                    let a = i as f32 * 0.05;
                    let mut y = [0.0];
                    forward(level, &mut y, &[a, 2.0], 1, activation);
                    let expected = 2.0 * value(activation, a.into());
                    let close = |actual: f32, expected: f64| {
                        (f64::from(actual) - expected).abs() <= 2e-6 * expected.abs().max(0.05)
                    };
                    assert!(close(y[0], expected), "{activation:?}({a}): {}", y[0]);
                    let mut x = [a, 2.0];
                    backward(level, &mut x, &[1.0], 1, activation);
                    let (above, below) = (f64::from(a) + 1e-5, f64::from(a) - 1e-5);
                    let slope = (value(activation, above) - value(activation, below)) / 2e-5;
                    assert!(close(x[0], 2.0 * slope), "{activation:?}'({a}): {}", x[0]);
                    assert!(close(x[1], value(activation, a.into())));
                }
            }
        }
    }

    #[test]
    fn soft_caps_match_tanh_over_its_whole_range() {
        for cap in [0.5f32, 30.0] {
            for i in -2000..=2000 {
                let x = i as f32 * 0.003 * cap;
                let mut y = [x];
                soft_cap(SimdLevel::detect(), &mut y, cap);
                let expected = f64::from(cap) * (f64::from(x) / f64::from(cap)).tanh();
                let error = (f64::from(y[0]) - expected).abs();
                assert!(error <= 1e-6 * expected.abs(), "{cap} {x}: {}", y[0]);
            }
        }
        let mut ends = [f32::INFINITY, -1e30, 0.0];
        soft_cap(SimdLevel::detect(), &mut ends, 30.0);
        assert_eq!(ends, [30.0, -30.0, 0.0]);
    }
}
