//! The mean and standard deviation over runs.

/// A mean over runs with its standard deviation, as the paper's tables have them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    pub(crate) mean: f64,
    /// The sample standard deviation, over n − 1; `None` for a single value.
    pub(crate) sd: Option<f64>,
}

impl Spread {
    /// The spread of these values; `None` without any.
    pub(crate) fn of(values: &[f64]) -> Option<Self> {
        let runs = values.len();
        let mean = (runs > 0).then(|| values.iter().sum::<f64>() / runs as f64)?;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Some(Self {
            mean,
            sd: (runs > 1).then(|| (squares / (runs - 1) as f64).sqrt()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deviation_is_over_one_value_less_and_a_single_value_has_none() {
        let of_three = Spread::of(&[1.0, 2.0, 3.0]).unwrap();
        assert_eq!((of_three.mean, of_three.sd), (2.0, Some(1.0)));
        assert_eq!(Spread::of(&[4.0]).unwrap().sd, None);
        assert_eq!(Spread::of(&[]), None);
    }
}
