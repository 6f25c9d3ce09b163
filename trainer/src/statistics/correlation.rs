//! Pearson's correlation.

use datasets::passk::Interval;

/// A correlation over runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Correlation {
    /// Pearson's r.
    pub(crate) r: f64,
    /// Its 95% interval by Fisher's z, for pairs that are independent and about normal: tanh(atanh r ± 1.96 / √(n − 3)); `None` with fewer than four pairs, and on a
    /// line.
    pub(crate) interval: Option<Interval>,
    pub(crate) pairs: usize,
}

/// The correlation of pairs; `None` if one of the two quantities is the same in all of them.
pub(crate) fn pearson(pairs: &[(f64, f64)]) -> Option<Correlation> {
    let n = pairs.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>() / n;
    let (x, y) = (mean(|pair| pair.0), mean(|pair| pair.1));
    let (mut xx, mut yy, mut xy) = (0.0, 0.0, 0.0);
    for (a, b) in pairs {
        xx += (a - x).powi(2);
        yy += (b - y).powi(2);
        xy += (a - x) * (b - y);
    }
    // Sums of floating-point numbers differ in their last digits where the quantity does not.
    let varies = |squares: f64, mean: f64| squares > n * (1e-12 * mean).powi(2);
    if !(varies(xx, x) && varies(yy, y)) {
        return None;
    }
    let r = (xy / (xx * yy).sqrt()).clamp(-1.0, 1.0);
    let interval = (pairs.len() > 3 && r.abs() < 1.0 - 1e-12).then(|| {
        let width = 1.959_963_984_540_054 / (n - 3.0).sqrt();
        let [low, high] = [-width, width].map(|width| (r.atanh() + width).tanh());
        Interval { low, high }
    });
    let pairs = pairs.len();
    Some(Correlation { r, interval, pairs })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r_and_its_interval_are_those_of_scipy_if_there_are_any() {
        // scipy.stats.pearsonr(x, y).confidence_interval(0.95)
        let x = [2.0, 4.0, 8.0, 16.0, 2.0, 4.0, 8.0, 16.0];
        let y = [10.2, 9.9, 11.1, 11.4, 9.0, 12.5, 11.0, 10.1];
        let pairs: Vec<(f64, f64)> = x.into_iter().zip(y).collect();
        let found = pearson(&pairs).unwrap();
        let Interval { low, high } = found.interval.unwrap();
        assert!((found.r - 0.227_049_028_639_926).abs() < 1e-12, "{found:?}");
        assert!((low + 0.568_596_701_922).abs() < 1e-9, "{low}");
        assert!((high - 0.803_211_835_371).abs() < 1e-9, "{high}");
        // A line has no interval, and a constant no correlation.
        let line: Vec<(f64, f64)> = (0..5).map(|i| (f64::from(i), f64::from(-2 * i))).collect();
        assert_eq!(pearson(&line).unwrap().r, -1.0);
        assert_eq!(pearson(&line).unwrap().interval, None);
        assert_eq!(pearson(&[(1.0, 2.0), (2.0, 2.0)]), None);
        // 0.1 + 0.2 is not 0.3.
        assert_eq!(pearson(&[(1.0, 0.1 + 0.2), (2.0, 0.3), (4.0, 0.3)]), None);
        assert_eq!(pearson(&[]), None);
    }
}
