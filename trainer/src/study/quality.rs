//! The measures of an estimator's quality, from inner products of its mean and the gradient.

use serde::{Serialize, Serializer};

/// Inner products of E ĝ = m with ∇J = g, and the trace of ĝ's variance for one group. They are exact, or estimates; an estimated square may be negative.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct InnerProducts {
    /// |g|².
    pub(super) gradient: f64,
    /// |m|².
    pub(super) mean: f64,
    /// ⟨m, g⟩.
    pub(super) cross: f64,
    /// |m − g|².
    pub(super) bias: f64,
    /// Trace of the variance.
    pub(super) variance: f64,
}

/// The quality of an estimator, relative to |∇J| or its square: the numbers of [`Quality::NAMES`], which [`super`] defines. Of an estimated square that is negative,
/// `bias` is 0 and `bias_squared` the estimate.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Quality(pub [f64; 7]);

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
    pub(super) fn of(p: &InnerProducts, ess: f64, groups: f64) -> Self {
        let bias_squared = ratio(p.bias, p.gradient);
        let variance = ratio(p.variance, p.gradient);
        Self([
            bias_squared.max(0.0).sqrt(),
            bias_squared,
            ratio(p.cross, (p.mean * p.gradient).max(0.0).sqrt()).clamp(-1.0, 1.0),
            ratio(p.cross, p.gradient),
            variance,
            (bias_squared + variance / groups).max(0.0).sqrt(),
            ess,
        ])
    }

    /// Standard errors, from the qualities without each block of samples.
    pub(super) fn errors(left_out: &[Quality]) -> Self {
        let values = |number: usize| left_out.iter().map(|it| it.0[number]).collect::<Vec<_>>();
        Self(std::array::from_fn(|number| jackknife(&values(number))))
    }

    /// The number with this name.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn get(&self, name: &str) -> f64 {
        let number = Self::NAMES.iter().position(|it| *it == name);
        self.0[number.expect("the name is one of NAMES")]
    }
}

impl Serialize for Quality {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(Self::NAMES.into_iter().zip(self.0.map(six_digits)))
    }
}

/// The standard error by the jackknife, from the values θ₋ᵦ without each of B blocks: √((B − 1)/B Σ (θ₋ᵦ − θ̄)²) (Efron & Stein 1981).
pub(super) fn jackknife(left_out: &[f64]) -> f64 {
    let blocks = left_out.len() as f64;
    let mean = left_out.iter().sum::<f64>() / blocks;
    let squares: f64 = left_out.iter().map(|x| (x - mean).powi(2)).sum();
    ((blocks - 1.0) / blocks * squares).sqrt()
}

/// a / b, or 0 if b is not positive.
pub(super) fn ratio(a: f64, b: f64) -> f64 {
    if b > 0.0 { a / b } else { 0.0 }
}

/// The number with six significant digits, which is more than the accuracy of any.
fn six_digits(number: f64) -> f64 {
    number_text(number).parse().unwrap_or(number)
}

/// Serialises with six significant digits.
pub(super) fn six<S: Serializer>(number: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(six_digits(*number))
}

/// A number with six significant digits.
pub(super) fn number_text(number: f64) -> String {
    let text = format!("{:.5e}", number + 0.0);
    match text.parse::<f64>() {
        Ok(rounded) if rounded == 0.0 || (1e-4..1e6).contains(&rounded.abs()) => {
            rounded.to_string()
        }
        _ => text,
    }
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
        let error = (0.0625_f64 + 0.5).sqrt();
        assert_eq!(quality.0, [0.25, 0.0625, 1.0, 0.75, 4.0, error, 1.0]);
    }

    #[test]
    fn a_zero_gradient_and_a_negative_estimate_give_finite_numbers() {
        let zero = Quality::of(&InnerProducts::default(), 0.0, 8.0);
        assert!(zero.0.iter().all(|x| x.is_finite()));
        let noise = InnerProducts {
            gradient: 1.0,
            bias: -0.1,
            ..InnerProducts::default()
        };
        let quality = Quality::of(&noise, 1.0, 8.0);
        assert_eq!(quality.0[..2], [0.0, -0.1]);
    }

    #[test]
    fn the_jackknife_of_a_mean_is_its_standard_error() {
        let values = [1.0, 2.0, 4.0, 9.0];
        let squares: f64 = values.iter().map(|x| (x - 4.0_f64).powi(2)).sum();
        let error = jackknife(&values.map(|x| (16.0 - x) / 3.0));
        assert!((error - (squares / 3.0 / 4.0).sqrt()).abs() < 1e-12);
    }

    #[test]
    fn numbers_have_six_significant_digits() {
        for (number, text) in [
            (0.0, "0"),
            (-0.0, "0"),
            (1.0, "1"),
            (0.25, "0.25"),
            (-1234.5678, "-1234.57"),
            (1.0 / 3.0, "0.333333"),
            (2e-7, "2.00000e-7"),
            (123_456_789.0, "1.23457e8"),
            (100_000.0, "100000"),
        ] {
            assert_eq!(number_text(number), text);
        }
    }
}
