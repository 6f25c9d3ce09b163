//! Student's t distribution, and intervals of a mean from it.

use datasets::passk::Interval;

use super::{MIN_SEEDS, Spread};

/// The interval of a mean at this level, such as 0.95, from values that are independent and about normal: mean ± t · sd / √n with n − 1 degrees of freedom. `None`
/// with fewer than [`MIN_SEEDS`] values, and if all are equal.
pub(crate) fn interval(values: &[f64], level: f64) -> Option<Interval> {
    let (spread, error) = error_of_mean(values)?;
    let width = quantile(level, values.len() - 1) * error;
    Some(Interval {
        low: spread.mean - width,
        high: spread.mean + width,
    })
}

/// The spread of values, and the standard error of their mean; `None` where [`interval`] is.
fn error_of_mean(values: &[f64]) -> Option<(Spread, f64)> {
    let spread = Spread::of(values)?;
    let largest = values.iter().copied().map(f64::abs).fold(0.0, f64::max);
    // Sums of floating-point numbers differ in their last digits where the values do not.
    let sd = spread.sd.filter(|sd| *sd > (1e-9 * largest).max(1e-12))?;
    (values.len() >= MIN_SEEDS).then(|| (spread, sd / (values.len() as f64).sqrt()))
}

/// The two-sided p-value of the hypothesis that the mean is 0, from values that are independent and about normal. `None` where [`interval`] is.
pub(crate) fn p_of_zero(values: &[f64]) -> Option<f64> {
    let (spread, error) = error_of_mean(values)?;
    // The difference resolves nothing smaller, and no p-value is 0.
    let p = 1.0 - within((spread.mean / error).abs(), values.len() - 1);
    Some(p.max(f64::EPSILON))
}

/// The t with a probability of `p` between −t and t, with this many degrees of freedom.
fn quantile(p: f64, freedom: usize) -> f64 {
    let mut high = 1.0;
    while within(high, freedom) < p && high < 1e12 {
        high *= 2.0;
    }
    let mut low = 0.0;
    // Each halving gives a bit, and a double has 53.
    for _ in 0..80 {
        let middle = f64::midpoint(low, high);
        if within(middle, freedom) < p {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

/// The probability of a value between −t and t (Abramowitz & Stegun 26.7.3 and 26.7.4).
fn within(t: f64, freedom: usize) -> f64 {
    let angle = (t / (freedom as f64).sqrt()).atan();
    let (sin, cos) = angle.sin_cos();
    let is_odd = freedom % 2 == 1;
    let (mut sum, mut term) = (0.0, if is_odd { cos } else { 1.0 });
    for power in (freedom % 2..freedom.saturating_sub(1)).step_by(2) {
        sum += term;
        term *= cos * cos * (power + 1) as f64 / (power + 2) as f64;
    }
    if is_odd {
        std::f64::consts::FRAC_2_PI * (angle + sin * sum)
    } else {
        sin * sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_and_probabilities_are_those_of_scipy() {
        // scipy.stats.t.ppf([0.95, 0.975], df)
        for (freedom, expected) in [
            (1, [6.313_751_514_675, 12.706_204_736_175]),
            (2, [2.919_985_580_354, 4.302_652_729_749]),
            (3, [2.353_363_434_802, 3.182_446_305_284]),
            (4, [2.131_846_786_327, 2.776_445_105_198]),
            (10, [1.812_461_122_812, 2.228_138_851_986]),
            (100, [1.660_234_326_085, 1.983_971_518_524]),
        ] {
            for (p, expected) in [0.90, 0.95].into_iter().zip(expected) {
                let found = quantile(p, freedom);
                assert!((found - expected).abs() < 1e-9, "{freedom} {p}: {found}");
            }
        }
        // 2 * scipy.stats.t.cdf(t, df) - 1
        for (t, freedom, expected) in [
            (1.0, 1, 0.5),
            (2.0, 4, 0.883_883_476_483_184),
            (0.5, 3, 0.348_552_035_151_848),
            (3.2, 17, 0.994_752_443_281_23),
            (0.0, 5, 0.0),
        ] {
            let found = within(t, freedom);
            assert!((found - expected).abs() < 1e-12, "{t} {freedom}: {found}");
        }
    }

    #[test]
    fn two_values_and_equal_values_have_no_interval() {
        let tenths = [0.1 + 0.2, 0.3, 0.3, 0.3];
        let few = [&[][..], &[1.0], &[1.0, 3.0]];
        let equal = [&[0.0125; 5][..], &[0.0; 3], &tenths];
        for values in few.into_iter().chain(equal) {
            assert_eq!(interval(values, 0.95), None, "{values:?}");
            assert_eq!(p_of_zero(values), None, "{values:?}");
        }
        // 2 ± t(0.975, 2) / √3
        let three = interval(&[1.0, 2.0, 3.0], 0.95).unwrap();
        let high = 2.0 + 4.302_652_729_749 / 3.0_f64.sqrt();
        assert!((three.high - high).abs() < 1e-9, "{three:?}");
    }
}
