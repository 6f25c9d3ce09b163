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

use super::quality::{InnerProducts, Quality};

/// One estimator's estimates of the gradient, block by block.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Blocks {
    /// Sum of the estimates of each block's groups.
    sums: Vec<Vec<f32>>,
    /// Sum of their squared lengths.
    squares: Vec<f64>,
    /// Number of each block's groups.
    groups: Vec<usize>,
    /// Sum of the completions' factors, sum of their squares, and their number, for each block.
    factors: Vec<(f64, f64, usize)>,
}

impl Blocks {
    pub(super) fn new(blocks: usize, size: usize) -> Self {
        Self {
            sums: vec![vec![0.0; size]; blocks],
            squares: vec![0.0; blocks],
            groups: vec![0; blocks],
            factors: vec![(0.0, 0.0, 0); blocks],
        }
    }

    /// Adds a group's estimate, a linear combination of gradients: `sum` has indices into `parts` and their coefficients.
    pub(super) fn add(&mut self, block: usize, parts: &[Vec<f32>], sum: &[(usize, f32)]) {
        self.groups[block] += 1;
        if sum.is_empty() {
            return;
        }
        let mut estimate = vec![0.0; self.sums[block].len()];
        for (part, coefficient) in sum {
            for (x, g) in estimate.iter_mut().zip(&parts[*part]) {
                *x += coefficient * g;
            }
        }
        self.squares[block] += dot(&estimate, &estimate);
        for (total, x) in self.sums[block].iter_mut().zip(&estimate) {
            *total += x;
        }
    }

    /// Adds a completion's factor.
    pub(super) fn add_factor(&mut self, block: usize, factor: f64) {
        let (sum, squares, count) = &mut self.factors[block];
        *sum += factor;
        *squares += factor * factor;
        *count += 1;
    }

    /// The estimator's quality against the reference, and its standard errors. `update` is the number of groups in an update.
    pub(super) fn quality(&self, reference: &Reference, update: f64) -> (Quality, Quality) {
        let means: Vec<Vec<f32>> = self
            .sums
            .iter()
            .zip(&self.groups)
            .map(|(sum, groups)| {
                let scale = 1.0 / (*groups).max(1) as f32;
                sum.iter().map(|x| x * scale).collect()
            })
            .collect();
        let mean = products(&means, &means);
        let cross = products(&means, &reference.blocks);
        let quality = |without: Option<usize>| {
            let included = |b: &usize| Some(*b) != without;
            let sum = |term: &dyn Fn(usize) -> f64| -> f64 {
                (0..self.groups.len()).filter(included).map(term).sum()
            };
            let mean = between(&mean, without);
            let gradient = between(&reference.products, without);
            let cross = over_all(&cross, without);
            let groups = sum(&|b| self.groups[b] as f64).max(1.0);
            let (factors, squares) = (sum(&|b| self.factors[b].0), sum(&|b| self.factors[b].1));
            let completions = sum(&|b| self.factors[b].2 as f64).max(1.0);
            let products = InnerProducts {
                gradient,
                mean,
                cross,
                bias: mean + gradient - 2.0 * cross,
                variance: sum(&|b| self.squares[b]) / groups - mean,
            };
            let ess = if squares > 0.0 {
                factors * factors / squares / completions
            } else {
                0.0
            };
            Quality::of(&products, ess, update)
        };
        let left_out: Vec<Quality> = (0..self.groups.len()).map(|b| quality(Some(b))).collect();
        (quality(None), Quality::jackknife(&left_out))
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
        let blocks = self.blocks.len() as f64;
        let root = |square: f64| square.max(0.0).sqrt();
        let square = between(&self.products, None);
        let left_out: Vec<f64> = (0..self.blocks.len())
            .map(|b| root(between(&self.products, Some(b))))
            .collect();
        let mean = left_out.iter().sum::<f64>() / blocks;
        let spread: f64 = left_out.iter().map(|x| (x - mean).powi(2)).sum();
        let mean_square: f64 = (0..self.blocks.len())
            .map(|b| self.products[b][b])
            .sum::<f64>()
            / blocks;
        let noise = root((mean_square - square) / blocks);
        let norm = root(square);
        let relative_noise = if norm > 0.0 { noise / norm } else { 0.0 };
        (
            norm,
            ((blocks - 1.0) / blocks * spread).sqrt(),
            relative_noise,
        )
    }
}

/// ⟨a_b, c_d⟩ for all pairs of blocks.
fn products(a: &[Vec<f32>], c: &[Vec<f32>]) -> Vec<Vec<f64>> {
    a.iter()
        .map(|a| c.iter().map(|c| dot(a, c)).collect())
        .collect()
}

/// The mean over pairs of different blocks, without one block.
fn between(products: &[Vec<f64>], without: Option<usize>) -> f64 {
    mean_of(products, |b, c| {
        b != c && Some(b) != without && Some(c) != without
    })
}

/// The mean over all pairs, without one block of both kinds.
fn over_all(products: &[Vec<f64>], without: Option<usize>) -> f64 {
    mean_of(products, |b, c| Some(b) != without && Some(c) != without)
}

fn mean_of(products: &[Vec<f64>], includes: impl Fn(usize, usize) -> bool) -> f64 {
    let (mut total, mut pairs) = (0.0, 0usize);
    for (b, row) in products.iter().enumerate() {
        for (c, product) in row.iter().enumerate() {
            if includes(b, c) {
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
                estimates.add(block, &[estimate], &[(0, 1.0)]);
                estimates.add_factor(block, 1.0);
            }
        }
        estimates.quality(&reference, 8.0)
    }

    #[test]
    fn without_noise_everything_is_exact() {
        let (quality, errors) = estimated(0, 0.75, 0.0);
        assert!((quality.bias - 0.25).abs() < 1e-6 && (quality.scale - 0.75).abs() < 1e-6);
        assert!((quality.cosine - 1.0).abs() < 1e-6 && quality.variance.abs() < 1e-6);
        assert!(quality.ess == 1.0 && errors.bias < 1e-6);
    }

    #[test]
    fn squares_are_unbiased_under_noise_and_the_standard_errors_match_the_spread() {
        let all: Vec<_> = (0..300).map(|seed| estimated(seed, 0.75, 5.0)).collect();
        let gradient: f64 = (0..12).map(|i| (1.0 + f64::from(i) / 10.0).powi(2)).sum();
        let mean =
            |value: &dyn Fn(&(Quality, Quality)) -> f64| all.iter().map(value).sum::<f64>() / 300.0;
        let bias = mean(&|(q, _)| q.bias_squared);
        let spread = mean(&|(q, _)| (q.bias_squared - bias).powi(2)).sqrt();
        assert!(
            (bias - 0.0625).abs() < 4.0 * spread / 300.0_f64.sqrt(),
            "{bias} ± {spread}"
        );
        let error = mean(&|(_, e)| e.bias_squared);
        assert!(
            (0.7..1.5).contains(&(error / spread)),
            "{error} for {spread}"
        );
        let variance = mean(&|(q, _)| q.variance) * gradient / (25.0 * 12.0);
        assert!((variance - 1.0).abs() < 0.1, "{variance}");
    }
}
