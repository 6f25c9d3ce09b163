//! Log-probabilities over the vocabulary: statistics of a row of logits, and the row's gradient.

use super::simd::{LANES, Lanes, SimdLevel, at_level};
use crate::sample::{self, Draw, NotFinite, Sampled};

/// Statistics of a row's softmax, where z = (logit − max) · inverse_temperature is at most 0.
///
/// The difference is taken before the product. A rounded product of the maximum would be off by up to half a unit in its last place, which exceeds 1 at low
/// temperatures.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RowStats {
    pub(super) max: f32,
    /// Σ exp(z).
    pub(super) sum: f64,
    /// Σ exp(z)·z.
    pub(super) weighted: f64,
}

impl RowStats {
    /// Natural logarithm of the probability of a logit.
    pub(super) fn logp(&self, logit: f32, inverse_temperature: f32) -> f32 {
        let z = (logit - self.max) * inverse_temperature;
        (f64::from(z) - self.sum.ln()) as f32
    }

    /// Entropy in nats.
    pub(super) fn entropy(&self) -> f32 {
        (self.sum.ln() - self.weighted / self.sum) as f32
    }
}

/// Numbers that are summed in f32 before their sum is added in f64.
const BLOCK: usize = 64 * LANES;

/// z of some logits.
#[inline(always)]
fn scaled<L: Lanes>(x: L, shift: L, scale: L) -> L {
    x.sub(shift).mul(scale)
}

/// Adds exp(z) and exp(z)·z of some logits to two sums.
#[inline(always)]
fn add_logits<L: Lanes>(x: L, shift: L, scale: L, sum: L, weighted: L) -> (L, L) {
    let z = scaled(x, shift, scale);
    let e = z.exp();
    // A logit of −∞ has probability 0 and adds nothing.
    (sum.add(e), e.fma(L::splat(-1e4).max(z), weighted))
}

#[inline(always)]
fn row_stats_body<L: Lanes>(row: &[f32], inverse_temperature: f32, blocks: &mut [f64]) -> RowStats {
    let (chunks, rest) = row.as_chunks::<LANES>();
    let mut largest = L::splat(f32::NEG_INFINITY);
    for x in chunks {
        largest = L::get(x).max(largest);
    }
    let max = rest.iter().fold(largest.largest(), |a, b| a.max(*b));
    let (shift, scale) = (L::splat(max), L::splat(inverse_temperature));
    let (mut sum, mut weighted) = (0.0, 0.0);
    for (number, block) in row.chunks(BLOCK).enumerate() {
        let (chunks, rest) = block.as_chunks::<LANES>();
        let (mut s, mut w) = (L::splat(0.0), L::splat(0.0));
        for x in chunks {
            (s, w) = add_logits(L::get(x), shift, scale, s, w);
        }
        if !rest.is_empty() {
            let mut last = [f32::NEG_INFINITY; LANES];
            last[..rest.len()].copy_from_slice(rest);
            (s, w) = add_logits(L::get(&last), shift, scale, s, w);
        }
        let block_sum = f64::from(s.sum());
        if let Some(to) = blocks.get_mut(number) {
            *to = block_sum;
        }
        sum += block_sum;
        weighted += f64::from(w.sum());
    }
    RowStats { max, sum, weighted }
}
at_level! {
    /// Statistics of one row of logits. Also writes the sums over [`BLOCK`] logits to `blocks`, as many as fit.
    fn row_stats(row: &[f32], inverse_temperature: f32, blocks: &mut [f64]) -> RowStats = row_stats_body
}

#[inline(always)]
fn weights_body<L: Lanes>(
    weights: &mut [f32; BLOCK],
    block: &[f32],
    inverse_temperature: f32,
    max: f32,
) {
    weights.fill(f32::NEG_INFINITY);
    weights[..block.len()].copy_from_slice(block);
    let (shift, scale) = (L::splat(max), L::splat(inverse_temperature));
    for x in weights.as_chunks_mut::<LANES>().0 {
        scaled(L::get(x), shift, scale).exp().put(x);
    }
}
at_level! {
    /// `exp(z)` of up to [`BLOCK`] logits, and 0 beyond them.
    fn weights(weights: &mut [f32; BLOCK], block: &[f32], inverse_temperature: f32, max: f32) = weights_body
}

/// Samples from a row like [`crate::sample::draw`]. The weights are summed in another order, so in rare cases a neighbouring token is sampled. Overwrites the logits of
/// suppressed tokens.
pub(super) fn draw_row(
    level: SimdLevel,
    row: &mut [f32],
    draw: &Draw,
) -> Result<Sampled, NotFinite> {
    if draw.sampling.has_cutoff() && draw.sampling.temperature > 0.0 {
        return sample::draw(row, draw);
    }
    let greedy = draw.sampling.temperature == 0.0;
    let inverse = if greedy {
        1.0
    } else {
        1.0 / draw.sampling.temperature
    };
    let mut blocks = vec![0.0; row.len().div_ceil(BLOCK)];
    let mut finite_stats = |row: &[f32]| {
        let stats = row_stats(level, row, inverse, &mut blocks);
        let finite = stats.max.is_finite() && stats.sum.is_finite();
        finite.then_some(stats).ok_or(NotFinite)
    };
    let all = finite_stats(row)?;
    let allowed = if draw.suppressed.is_empty() {
        all
    } else {
        sample::suppress(row, &draw.suppressed);
        finite_stats(row)?
    };
    let index = if greedy {
        row.iter().position(|logit| *logit == allowed.max)
    } else {
        let target = sample::uniform(draw.seed, draw.index) * allowed.sum;
        pick(level, row, inverse, allowed.max, &blocks, target)
    };
    let token = index.ok_or(NotFinite)?;
    Ok(Sampled {
        token: token as u32,
        logp: all.logp(row[token], inverse),
    })
}

/// The first token at which the cumulative weight exceeds the target. If rounding leaves none in the block that should contain it, the block's last token with
/// a positive weight.
fn pick(
    level: SimdLevel,
    row: &[f32],
    inverse_temperature: f32,
    max: f32,
    blocks: &[f64],
    target: f64,
) -> Option<usize> {
    let mut below = 0.0;
    let mut chosen = None;
    for (number, sum) in blocks.iter().enumerate() {
        if *sum > 0.0 {
            chosen = Some((number, below));
        }
        below += sum;
        if below > target {
            break;
        }
    }
    let (number, mut cumulated) = chosen?;
    let from = number * BLOCK;
    let block = &row[from..row.len().min(from + BLOCK)];
    let mut exps = [0.0; BLOCK];
    weights(level, &mut exps, block, inverse_temperature, max);
    let mut last = None;
    for (i, weight) in exps.iter().enumerate().filter(|(_, w)| **w > 0.0) {
        cumulated += f64::from(*weight);
        last = Some(from + i);
        if cumulated > target {
            break;
        }
    }
    last
}

#[inline(always)]
fn row_gradient_body<L: Lanes>(
    row: &mut [f32],
    inverse_temperature: f32,
    max: f32,
    factor: f32,
    soft_cap: Option<f32>,
) {
    let inverse_cap = soft_cap.map_or(0.0, |cap| 1.0 / cap);
    let numbers = [max, inverse_temperature, factor, inverse_cap];
    let (chunks, rest) = row.as_chunks_mut::<LANES>();
    for x in chunks {
        gradient(L::get(x), numbers).put(x);
    }
    for x in rest {
        *x = gradient(L::splat(*x), numbers).array()[0];
    }
}

// This is a function because a closure would not be compiled for the processor's instructions.
#[inline(always)]
fn gradient<L: Lanes>(x: L, [shift, scale, factor, inverse_cap]: [f32; 4]) -> L {
    let weight = scaled(x, L::splat(shift), L::splat(scale)).exp();
    let share = x.mul(L::splat(inverse_cap));
    let slope = L::splat(1.0).sub(share.mul(share));
    weight.mul(L::splat(factor)).mul(slope)
}

at_level! {
    /// Replaces logits by `factor · exp(z)`, times the slope of the soft cap if they are capped.
    fn row_gradient(row: &mut [f32], inverse_temperature: f32, max: f32, factor: f32, soft_cap: Option<f32>) = row_gradient_body
}
