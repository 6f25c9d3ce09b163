//! The measures of an estimator's quality, from inner products of its mean and the gradient.

use serde::Serialize;

use super::rows::six;

/// Inner products of E ĝ = m with ∇J = g, and the trace of ĝ's variance for one group. They are exact, or estimates; an estimated square may be negative.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct InnerProducts {
    /// |g|².
    pub gradient: f64,
    /// |m|².
    pub mean: f64,
    /// ⟨m, g⟩.
    pub cross: f64,
    /// |m − g|².
    pub bias: f64,
    /// Trace of the variance.
    pub variance: f64,
}

impl InnerProducts {
    /// Adds the products of another, independent part of the parameters.
    pub fn add(&mut self, other: &InnerProducts) {
        self.gradient += other.gradient;
        self.mean += other.mean;
        self.cross += other.cross;
        self.bias += other.bias;
        self.variance += other.variance;
    }
}

/// The quality of an estimator, relative to |∇J| or its square; see [`super`] for the definition of each number.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Quality {
    /// |E ĝ − ∇J|; 0 if the estimate of its square is negative.
    #[serde(serialize_with = "six")]
    pub bias: f64,
    /// The estimate of its square.
    #[serde(serialize_with = "six")]
    pub bias_squared: f64,
    /// Cosine of the angle between E ĝ and ∇J.
    #[serde(serialize_with = "six")]
    pub cosine: f64,
    /// ⟨E ĝ, ∇J⟩.
    #[serde(serialize_with = "six")]
    pub scale: f64,
    /// Trace of the variance of one group's estimate.
    #[serde(serialize_with = "six")]
    pub variance: f64,
    /// Error of an update.
    #[serde(serialize_with = "six")]
    pub update_error: f64,
    /// Effective sample size of the factor, as a fraction.
    #[serde(serialize_with = "six")]
    pub ess: f64,
}

impl Quality {
    /// The names of its numbers, in order: the columns of a table.
    pub const NAMES: [&str; 7] = [
        "bias",
        "bias_squared",
        "cosine",
        "scale",
        "variance",
        "update_error",
        "ess",
    ];

    /// The quality of an estimator; `groups` is the number of groups in an update. Undefined numbers (for a gradient of 0) are 0.
    #[must_use]
    pub fn of(p: &InnerProducts, ess: f64, groups: f64) -> Self {
        let bias_squared = ratio(p.bias, p.gradient);
        let variance = ratio(p.variance, p.gradient);
        Self {
            bias: bias_squared.max(0.0).sqrt(),
            bias_squared,
            cosine: ratio(p.cross, (p.mean * p.gradient).max(0.0).sqrt()).clamp(-1.0, 1.0),
            scale: ratio(p.cross, p.gradient),
            variance,
            update_error: (bias_squared + variance / groups).max(0.0).sqrt(),
            ess,
        }
    }

    /// Its numbers, in the order of [`Quality::NAMES`].
    #[must_use]
    pub fn numbers(&self) -> [f64; 7] {
        [
            self.bias,
            self.bias_squared,
            self.cosine,
            self.scale,
            self.variance,
            self.update_error,
            self.ess,
        ]
    }

    fn from_numbers(n: [f64; 7]) -> Self {
        Self {
            bias: n[0],
            bias_squared: n[1],
            cosine: n[2],
            scale: n[3],
            variance: n[4],
            update_error: n[5],
            ess: n[6],
        }
    }

    /// Standard errors by the jackknife, from the qualities without each block of samples: √((B − 1)/B Σ (θ₋ᵦ − θ̄)²) (Efron & Stein 1981).
    #[must_use]
    pub fn jackknife(left_out: &[Quality]) -> Self {
        let blocks = left_out.len() as f64;
        let mut errors = [0.0; 7];
        for (index, error) in errors.iter_mut().enumerate() {
            let values = || left_out.iter().map(|q| q.numbers()[index]);
            let mean = values().sum::<f64>() / blocks;
            let squares: f64 = values().map(|x| (x - mean).powi(2)).sum();
            *error = ((blocks - 1.0) / blocks * squares).sqrt();
        }
        Self::from_numbers(errors)
    }
}

/// a / b, or 0 if b is not positive.
fn ratio(a: f64, b: f64) -> f64 {
    if b > 0.0 { a / b } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shorter_mean_in_the_right_direction_has_a_bias_and_a_cosine_of_one() {
        // g = (2, 0), m = (1.5, 0).
        let products = InnerProducts {
            gradient: 4.0,
            mean: 2.25,
            cross: 3.0,
            bias: 0.25,
            variance: 16.0,
        };
        let quality = Quality::of(&products, 1.0, 8.0);
        assert_eq!(
            (quality.bias, quality.scale, quality.cosine),
            (0.25, 0.75, 1.0)
        );
        assert_eq!(quality.variance, 4.0);
        assert!((quality.update_error - (0.0625_f64 + 0.5).sqrt()).abs() < 1e-12);
    }

    #[test]
    fn a_zero_gradient_and_a_negative_estimate_give_finite_numbers() {
        let zero = Quality::of(&InnerProducts::default(), 0.0, 8.0);
        assert!(zero.numbers().iter().all(|x| x.is_finite()));
        let noise = InnerProducts {
            gradient: 1.0,
            bias: -0.1,
            ..InnerProducts::default()
        };
        let quality = Quality::of(&noise, 1.0, 8.0);
        assert_eq!((quality.bias, quality.bias_squared), (0.0, -0.1));
    }

    #[test]
    fn the_jackknife_of_a_mean_is_its_standard_error() {
        let values = [1.0, 2.0, 4.0, 9.0];
        let total: f64 = values.iter().sum();
        let left_out: Vec<Quality> = values
            .iter()
            .map(|x| Quality {
                scale: (total - x) / 3.0,
                ..Quality::default()
            })
            .collect();
        let variance: f64 = values
            .iter()
            .map(|x| (x - total / 4.0).powi(2))
            .sum::<f64>()
            / 3.0;
        let error = Quality::jackknife(&left_out).scale;
        assert!((error - (variance / 4.0).sqrt()).abs() < 1e-12);
    }
}
