//! Bias and variance from samples. The blocks are sampled independently, so products between different blocks do not contain the square of the noise.
//!
//! Every prompt is sampled in each of B blocks. x_b is the mean estimate of a block's off-policy groups, r_b the gradient from its on-policy completions; given the
//! prompts, all of them are independent. The squared length of a mean is overestimated because of its noise; the product of two independent means is not. So
//!
//! ```text
//! |m|² ≈ mean over b ≠ c of ⟨x_b, x_c⟩,   |g|² ≈ mean over b ≠ c of ⟨r_b, r_c⟩,   ⟨m, g⟩ ≈ mean over all b, c of ⟨x_b, r_c⟩,
//! |m − g|² = |m|² + |g|² − 2⟨m, g⟩
//! ```
//!
//! are unbiased (U-statistics, Hoeffding 1948) for the gradient over these prompts. An estimated square may be negative. Standard errors are those of the jackknife that
//! leaves out one block of both kinds.

use super::quality::{InnerProducts, Quality, jackknife, ratio};

/// The groups of a block, under one estimator.
#[derive(Debug, Clone, PartialEq, Default)]
struct Block {
    /// Sum of the groups' estimates.
    sum: Vec<f32>,
    /// Sum of their squared lengths.
    square: f64,
    /// Number of groups.
    groups: f64,
    /// Sum of the completions' factors.
    factor: f64,
    /// Sum of the squares of the factors.
    factor_squared: f64,
    /// Number of completions.
    completions: f64,
}

/// One estimator's estimates of the gradient, block by block.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Blocks(Vec<Block>);

impl Blocks {
    pub(super) fn new(blocks: usize, size: usize) -> Self {
        let block = Block {
            sum: vec![0.0; size],
            ..Block::default()
        };
        Self(vec![block; blocks])
    }

    /// Adds a group's estimate, a linear combination of gradients: `sum` has indices into `parts` and their coefficients. `factors` are those of its completions.
    pub(super) fn add(
        &mut self,
        block: usize,
        parts: &[Vec<f32>],
        sum: impl Iterator<Item = (usize, f32)>,
        factors: &[f64],
    ) {
        let block = &mut self.0[block];
        block.groups += 1.0;
        let mut estimate = vec![0.0; block.sum.len()];
        for (part, coefficient) in sum {
            for (x, g) in estimate.iter_mut().zip(&parts[part]) {
                *x += coefficient * g;
            }
        }
        block.square += dot(&estimate, &estimate);
        for (total, x) in block.sum.iter_mut().zip(&estimate) {
            *total += x;
        }
        for factor in factors {
            block.factor += factor;
            block.factor_squared += factor * factor;
            block.completions += 1.0;
        }
    }

    /// The estimator's quality against the reference, and its standard errors. `update` is the number of groups in an update.
    pub(super) fn quality(&self, reference: &Reference, update: f64) -> (Quality, Quality) {
        let mean_of = |block: &Block| -> Vec<f32> {
            let scale = 1.0 / block.groups.max(1.0) as f32;
            block.sum.iter().map(|x| x * scale).collect()
        };
        let means: Vec<Vec<f32>> = self.0.iter().map(mean_of).collect();
        let (means_products, cross) = (
            products(&means, &means),
            products(&means, &reference.blocks),
        );
        let quality = |without: Option<usize>| {
            let total = |of: fn(&Block) -> f64| -> f64 {
                let blocks = self.0.iter().enumerate();
                let blocks = blocks.filter(|(b, _)| Some(*b) != without);
                blocks.map(|(_, block)| of(block)).sum()
            };
            let mean = mean_product(&means_products, without, false);
            let gradient = mean_product(&reference.products, without, false);
            let cross = mean_product(&cross, without, true);
            let (factors, squares) = (total(|b| b.factor), total(|b| b.factor_squared));
            let products = InnerProducts {
                gradient,
                mean,
                cross,
                bias: mean + gradient - 2.0 * cross,
                variance: total(|b| b.square) / total(|b| b.groups).max(1.0) - mean,
            };
            let ess = ratio(factors * factors, squares) / total(|b| b.completions).max(1.0);
            Quality::of(&products, ess, update)
        };
        let left_out: Vec<Quality> = (0..self.0.len()).map(|b| quality(Some(b))).collect();
        (quality(None), Quality::errors(&left_out))
    }
}

/// The gradient in each block, estimated from on-policy completions.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Reference {
    blocks: Vec<Vec<f32>>,
    /// ⟨r_b, r_c⟩.
    products: Vec<Vec<f64>>,
}

impl Reference {
    pub(super) fn new(blocks: Vec<Vec<f32>>) -> Self {
        Self {
            products: products(&blocks, &blocks),
            blocks,
        }
    }

    /// |∇J|, its standard error, and the length of the remaining noise relative to |∇J|.
    pub(super) fn norm(&self) -> (f64, f64, f64) {
        let blocks = self.blocks.len();
        let root = |square: f64| square.max(0.0).sqrt();
        let square = |without| mean_product(&self.products, without, false);
        let left_out: Vec<f64> = (0..blocks).map(|b| root(square(Some(b)))).collect();
        let own: f64 = (0..blocks).map(|b| self.products[b][b]).sum();
        let noise = root((own / blocks as f64 - square(None)) / blocks as f64);
        let norm = root(square(None));
        (norm, jackknife(&left_out), ratio(noise, norm))
    }
}

/// ⟨a_b, c_d⟩ for all pairs of blocks.
fn products(a: &[Vec<f32>], c: &[Vec<f32>]) -> Vec<Vec<f64>> {
    a.iter()
        .map(|a| c.iter().map(|c| dot(a, c)).collect())
        .collect()
}

/// The mean over pairs of blocks, without one block of both kinds. Pairs of the same block count only with `same`.
fn mean_product(products: &[Vec<f64>], without: Option<usize>, same: bool) -> f64 {
    let (mut total, mut pairs) = (0.0, 0usize);
    for (b, row) in products.iter().enumerate() {
        for (c, product) in row.iter().enumerate() {
            if (same || b != c) && Some(b) != without && Some(c) != without {
                total += product;
                pairs += 1;
            }
        }
    }
    total / pairs.max(1) as f64
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    // Chunks are summed in single precision, which the compiler vectorises, and their sums are added in double precision.
    a.chunks(256)
        .zip(b.chunks(256))
        .map(|(a, b)| {
            let mut lanes = [0.0_f32; 8];
            let (a, b) = (a.chunks(8), b.chunks(8));
            for (a, b) in a.zip(b) {
                for ((lane, a), b) in lanes.iter_mut().zip(a).zip(b) {
                    *lane += a * b;
                }
            }
            f64::from(lanes.iter().sum::<f32>())
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed;

    /// Estimates g·scale + noise, and references g + noise, in a few dimensions.
    fn estimated(seed: u64, scale: f64, noise: f64) -> (Quality, Quality) {
        let (blocks, groups, size) = (16, 4, 12);
        let mut numbers = seed::normals(seed, "blocks", blocks * (groups + 1) * size).into_iter();
        let gradient = |i: usize| 1.0 + i as f64 / 10.0;
        let mut sample = |scale: f64, noise: f64| -> Vec<f32> {
            let vector = (0..size).map(|i| scale * gradient(i) + noise * numbers.next().unwrap());
            vector.map(|x| x as f32).collect()
        };
        let reference = Reference::new((0..blocks).map(|_| sample(1.0, noise / 2.0)).collect());
        let mut estimates = Blocks::new(blocks, size);
        for block in 0..blocks {
            for _ in 0..groups {
                let estimate = sample(scale, noise);
                estimates.add(block, &[estimate], [(0, 1.0)].into_iter(), &[1.0]);
            }
        }
        estimates.quality(&reference, 8.0)
    }

    #[test]
    fn without_noise_everything_is_exact() {
        let (quality, errors) = estimated(0, 0.75, 0.0);
        assert!(
            (quality.get("bias") - 0.25).abs() < 1e-6 && (quality.get("scale") - 0.75).abs() < 1e-6
        );
        assert!((quality.get("cosine") - 1.0).abs() < 1e-6 && quality.get("variance").abs() < 1e-6);
        assert!(quality.get("ess") == 1.0 && errors.get("bias") < 1e-6);
    }

    #[test]
    fn squares_are_unbiased_under_noise_and_the_standard_errors_match_the_spread() {
        let all: Vec<_> = (0..300).map(|seed| estimated(seed, 0.75, 5.0)).collect();
        let gradient: f64 = (0..12).map(|i| (1.0 + f64::from(i) / 10.0).powi(2)).sum();
        let mean =
            |value: &dyn Fn(&(Quality, Quality)) -> f64| all.iter().map(value).sum::<f64>() / 300.0;
        let bias = mean(&|(q, _)| q.get("bias_squared"));
        let spread = mean(&|(q, _)| (q.get("bias_squared") - bias).powi(2)).sqrt();
        assert!(
            (bias - 0.0625).abs() < 4.0 * spread / 300.0_f64.sqrt(),
            "{bias} ± {spread}"
        );
        let error = mean(&|(_, e)| e.get("bias_squared"));
        assert!(
            (0.7..1.5).contains(&(error / spread)),
            "{error} for {spread}"
        );
        let variance = mean(&|(q, _)| q.get("variance")) * gradient / (25.0 * 12.0);
        assert!((variance - 1.0).abs() < 0.1, "{variance}");
    }
}
