//! The count sketch: a short vector in place of a long one, which preserves inner products.

use crate::error::EngineError;
use crate::random::mix;

/// Elements that share one hash. They fall into neighbouring buckets, each with its own sign.
const BLOCK: usize = 64;

/// A random projection of gradients. Every element is added, with a random sign, to one of `size` buckets (the count sketch of Charikar, Chen & Farach-Colton
/// 2002; feature hashing, Weinberger et al. 2009). It takes one pass and no matrix.
///
/// The projection is linear. The inner product of two sketches with one seed is an unbiased estimate of that of the vectors. Its standard deviation is at most
/// √((|x|²|y|² + ⟨x, y⟩²) / size): 0.6% of |x|² for 65,536 buckets. Bucket and sign are functions of the seed and of the element's number, on every device.
/// Weights are numbered in the order of [`crate::config::ModelConfig::tensor_shapes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CountSketch {
    /// Number of buckets; at least 64.
    pub size: usize,
    /// Seed of buckets and signs.
    pub seed: u64,
}

impl CountSketch {
    /// Rejects a size that is too small for blocks of neighbouring buckets.
    pub(super) fn check(self) -> Result<(), EngineError> {
        if self.size < BLOCK {
            return Err(EngineError::Request(format!(
                "a sketch of {} numbers is too short to distinguish gradients; give at least {BLOCK}",
                self.size
            )));
        }
        Ok(())
    }

    /// Adds the sketch of `values`, the elements from number `first` on, to the `size` buckets.
    pub fn add(self, buckets: &mut [f32], first: usize, values: &[f32]) {
        let (mut number, mut rest) = (first, values);
        while !rest.is_empty() {
            let within = number % BLOCK;
            let (now, later) = rest.split_at(rest.len().min(BLOCK - within));
            let (start, signs) = self.block((number / BLOCK) as u64);
            let signs = signs >> within;
            let start = start + within;
            if let Some(buckets) = buckets.get_mut(start..start + now.len()) {
                for (j, (bucket, value)) in buckets.iter_mut().zip(now).enumerate() {
                    *bucket += signed(*value, signs >> j);
                }
            } else {
                for (j, value) in now.iter().enumerate() {
                    buckets[(start + j) % self.size] += signed(*value, signs >> j);
                }
            }
            (number, rest) = (number + now.len(), later);
        }
    }

    /// The bucket of a block's first element, and the signs of all its elements.
    fn block(self, block: u64) -> (usize, u64) {
        let hash = mix(mix(self.seed) ^ block);
        let bucket = (u128::from(hash) * self.size as u128) >> 64;
        (bucket as usize, mix(hash ^ 0xD6E8_FEB8_6659_FD93))
    }
}

/// The value, negated if the lowest bit is set.
fn signed(value: f32, bits: u64) -> f32 {
    f32::from_bits(value.to_bits() ^ ((bits as u32 & 1) << 31))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vector(seed: u64, n: usize) -> Vec<f32> {
        let number = |i: usize| (mix(seed ^ mix(i as u64)) >> 40) as f32 / (1 << 24) as f32 - 0.5;
        (0..n).map(number).collect()
    }

    fn sketch_of(sketch: CountSketch, values: &[f32]) -> Vec<f32> {
        let mut buckets = vec![0.0; sketch.size];
        sketch.add(&mut buckets, 0, values);
        buckets
    }

    fn dot(a: &[f32], b: &[f32]) -> f64 {
        let pairs = a.iter().zip(b);
        pairs.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
    }

    #[test]
    fn inner_products_are_unbiased_and_within_their_deviation() {
        let (x, noise) = (vector(1, 5000), vector(2, 5000));
        let y: Vec<f32> = x.iter().zip(&noise).map(|(x, n)| 0.3 * x + n).collect();
        let (xy, xx, yy) = (dot(&x, &y), dot(&x, &x), dot(&y, &y));
        let bound = ((xx * yy + xy * xy) / 256.0).sqrt();
        let errors: Vec<f64> = (0..400)
            .map(|seed| {
                let sketch = CountSketch { size: 256, seed };
                dot(&sketch_of(sketch, &x), &sketch_of(sketch, &y)) - xy
            })
            .collect();
        let mean = errors.iter().sum::<f64>() / 400.0;
        let deviation = (errors.iter().map(|e| e * e).sum::<f64>() / 400.0).sqrt();
        assert!(
            mean.abs() < 4.0 * bound / 20.0,
            "biased by {mean}, {bound} each"
        );
        assert!(deviation < 1.15 * bound, "{deviation} of {bound}");
    }
}
