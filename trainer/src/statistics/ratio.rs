//! Ratios of times.

use datasets::passk::Interval;

use super::{Spread, student};

/// How much longer something takes than a reference that was measured beside it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ratio {
    /// The geometric mean of the pairs' ratios.
    pub(crate) ratio: f64,
    /// Its 95% interval: the t interval of the mean log ratio; `None` for fewer than three pairs, or equal ones.
    pub(crate) interval: Option<Interval>,
    /// The ratio of each pair.
    pub(crate) pairs: Vec<f64>,
    /// The two-sided p-value of the hypothesis that the ratio is 1, by the t test of the mean log ratio; `None` like the interval.
    pub(crate) p: Option<f64>,
}

/// The ratio of the first to the second of each pair. A pair is measured under equal conditions, so what slows both down cancels. `None` without a pair; values are
/// above 0.
pub(crate) fn paired_ratio(pairs: &[(f64, f64)]) -> Option<Ratio> {
    let logs: Vec<f64> = pairs.iter().map(|(a, b)| (a / b).ln()).collect();
    let mean = Spread::of(&logs)?.mean;
    Some(Ratio {
        ratio: mean.exp(),
        interval: student::interval(&logs, 0.95).map(|interval| Interval {
            low: interval.low.exp(),
            high: interval.high.exp(),
        }),
        pairs: logs.iter().map(|log| log.exp()).collect(),
        p: student::p_of_zero(&logs),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_that_of_scipy_on_logarithms() {
        // scipy.stats.t.interval(0.95, 3, loc=a.mean(), scale=sem(a)) with a = log(first / second)
        let (ours, theirs) = ([101.0, 118.0, 97.0, 109.0], [120.0, 131.0, 125.0, 117.0]);
        let pairs: Vec<(f64, f64)> = ours.into_iter().zip(theirs).collect();
        let ratio = paired_ratio(&pairs).unwrap();
        let Interval { low, high } = ratio.interval.unwrap();
        assert!((ratio.ratio - 0.860_425_552_175).abs() < 1e-9, "{ratio:?}");
        assert!((low - 0.756_652_92).abs() < 1e-7, "{low}");
        assert!((high - 0.978_430_29).abs() < 1e-7, "{high}");
        // scipy.stats.ttest_1samp(a, 0).pvalue
        assert!((ratio.p.unwrap() - 0.033_751_31).abs() < 1e-7, "{ratio:?}");
        assert_eq!(ratio.pairs.len(), 4);
        // What slows both of a pair down cancels.
        let pairs = [(50.0, 100.0), (500.0, 1000.0), (1.0, 2.0)];
        let ratio = paired_ratio(&pairs).unwrap();
        assert!((ratio.ratio - 0.5).abs() < 1e-12);
        assert_eq!((ratio.interval, ratio.p), (None, None));
        assert_eq!(paired_ratio(&pairs[..1]).unwrap().interval, None);
        assert_eq!(paired_ratio(&[]), None);
    }
}
