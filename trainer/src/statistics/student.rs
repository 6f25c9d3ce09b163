//! Student's t distribution, and intervals of a mean from it.

use datasets::passk::Interval;

use super::{MIN_SEEDS, Spread};

/// The interval of a mean at this level, such as 0.95, from values that are independent and about normal: mean ± t · sd / √n with n − 1 degrees of freedom. `None`
/// with fewer than [`MIN_SEEDS`] values, and if all are equal.
#[must_use]
pub fn interval(values: &[f64], level: f64) -> Option<Interval> {
    let (spread, error) = error_of_mean(values)?;
    let width = quantile(f64::midpoint(1.0, level), (values.len() - 1) as f64) * error;
    Some(Interval {
        low: spread.mean - width,
        high: spread.mean + width,
    })
}

/// The spread of values, and the standard error of their mean; `None` where [`interval`] is.
fn error_of_mean(values: &[f64]) -> Option<(Spread, f64)> {
    let spread = Spread::of(values)?;
    let largest = values
        .iter()
        .fold(0.0_f64, |most, value| most.max(value.abs()));
    // Sums of floating-point numbers differ in their last digits where the values do not.
    let sd = spread.sd.filter(|sd| *sd > (1e-9 * largest).max(1e-12))?;
    (values.len() >= MIN_SEEDS).then(|| (spread, sd / (values.len() as f64).sqrt()))
}

/// The p-value of a mean of 0, two-sided, from values that are independent and about normal. `None` where [`interval`] is.
#[must_use]
pub fn p_of_zero(values: &[f64]) -> Option<f64> {
    let (spread, error) = error_of_mean(values)?;
    let t = (spread.mean / error).abs();
    Some(2.0 * cumulative(-t, (values.len() - 1) as f64))
}

/// The value below which the distribution with this many degrees of freedom has probability `p`, which is between 0 and 1.
#[must_use]
pub fn quantile(p: f64, freedom: f64) -> f64 {
    if p < 0.5 {
        return -quantile(1.0 - p, freedom);
    }
    let mut high = 1.0;
    while cumulative(high, freedom) < p && high < 1e12 {
        high *= 2.0;
    }
    let mut low = 0.0;
    // Each halving gives a bit, and a double has 53.
    for _ in 0..80 {
        let middle = f64::midpoint(low, high);
        if cumulative(middle, freedom) < p {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

/// The probability of a value of at most `t`.
#[must_use]
pub fn cumulative(t: f64, freedom: f64) -> f64 {
    let tail = 0.5 * incomplete_beta(0.5 * freedom, 0.5, freedom / (freedom + t * t));
    if t > 0.0 { 1.0 - tail } else { tail }
}

/// The regularised incomplete beta function I_x(a, b), by its continued fraction (Abramowitz & Stegun 26.5.8), which Lentz's method evaluates.
fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return f64::from(x >= 1.0);
    }
    // The fraction converges fast on this side; the other follows from symmetry.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(b, a, 1.0 - x);
    }
    let front =
        (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (1.0 - x).ln()).exp() / a;
    let away_from_zero = |value: f64| {
        if value.abs() < 1e-300 { 1e-300 } else { value }
    };
    let mut c = 1.0;
    let mut d = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut fraction = d;
    for m in 1..500 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let before = fraction;
        for term in [even, odd] {
            d = 1.0 / away_from_zero(1.0 + term * d);
            c = away_from_zero(1.0 + term / c);
            fraction *= c * d;
        }
        if (fraction - before).abs() <= 1e-16 * fraction.abs() {
            break;
        }
    }
    front * fraction
}

/// ln Γ(x) for x > 0, by Lanczos' approximation with g = 7 and nine coefficients; its relative error is below 1e-14.
fn ln_gamma(x: f64) -> f64 {
    const COEFFICIENTS: [f64; 9] = [
        0.999_999_999_999_809_9,
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    if x < 0.5 {
        // Γ(x) Γ(1 − x) = π / sin πx
        return (std::f64::consts::PI / (std::f64::consts::PI * x).sin()).ln() - ln_gamma(1.0 - x);
    }
    let x = x - 1.0;
    let base = x + 7.5;
    let series = COEFFICIENTS[1..]
        .iter()
        .zip(1..)
        .fold(COEFFICIENTS[0], |sum, (coefficient, i)| {
            sum + coefficient / (x + f64::from(i))
        });
    0.5 * (2.0 * std::f64::consts::PI).ln() + (x + 0.5) * base.ln() - base + series.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_scipy() {
        // scipy.stats.t.ppf([0.95, 0.975], df)
        for (freedom, expected) in [
            (1.0, [6.313_751_514_675, 12.706_204_736_175]),
            (2.0, [2.919_985_580_354, 4.302_652_729_749]),
            (3.0, [2.353_363_434_802, 3.182_446_305_284]),
            (4.0, [2.131_846_786_327, 2.776_445_105_198]),
            (10.0, [1.812_461_122_812, 2.228_138_851_986]),
            (100.0, [1.660_234_326_085, 1.983_971_518_524]),
        ] {
            for (p, expected) in [0.95, 0.975].into_iter().zip(expected) {
                let found = quantile(p, freedom);
                assert!((found - expected).abs() < 1e-9, "{freedom} {p}: {found}");
                assert!((quantile(1.0 - p, freedom) + expected).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn probabilities_are_those_of_scipy() {
        for (t, freedom, expected) in [
            (1.0, 1.0, 0.75),
            (2.0, 4.0, 0.941_941_738_241_592),
            (-0.5, 3.0, 0.325_723_982_424_076),
            (3.2, 17.0, 0.997_376_221_640_615),
            (0.0, 5.0, 0.5),
        ] {
            let found = cumulative(t, freedom);
            assert!((found - expected).abs() < 1e-12, "{t} {freedom}: {found}");
        }
    }

    #[test]
    fn two_values_and_equal_values_have_no_interval() {
        let tenths = [0.1 + 0.2, 0.3, 0.3, 0.3];
        for values in [
            &[][..],
            &[1.0],
            &[1.0, 3.0],
            &[0.0125; 5],
            &[0.0; 3],
            &tenths,
        ] {
            assert_eq!(interval(values, 0.95), None, "{values:?}");
            assert_eq!(p_of_zero(values), None, "{values:?}");
        }
        // 2 ± t(0.975, 2) / √3
        let three = interval(&[1.0, 2.0, 3.0], 0.95).unwrap();
        let high = 2.0 + 4.302_652_729_749 / 3.0_f64.sqrt();
        assert!((three.high - high).abs() < 1e-9, "{three:?}");
    }
}
