//! Axes with round numbers, and the format of values.

use datasets::passk::percent;

/// The unit of values on the axis and in tooltips.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum ValueFormat {
    #[default]
    Number,
    /// A fraction, written in per cent.
    Share,
    /// A difference of fractions, written in points.
    Points,
    Seconds,
}

/// Bounds around the data, and the distance between ticks.
pub(super) struct Axis {
    low: f64,
    high: f64,
    pub(super) step: f64,
    /// The axis ends at the data instead of at a tick, and ticks past the last value are left out.
    tight: bool,
}

impl Axis {
    /// The axis over the values. With `tight` it ends at the data and has whole steps; else it ends at the next round numbers.
    pub(super) fn over(values: impl Iterator<Item = f64>, ticks: usize, tight: bool) -> Self {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(|value| value.is_finite()) {
            (low, high) = (low.min(value), high.max(value));
        }
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        // A constant has no span, so its axis begins or ends at zero.
        if !tight && high - low <= 1e-6 * high.abs().max(low.abs()) {
            (low, high) = (low.min(0.0), high.max(0.0));
        }
        // Most of these quantities are meaningful relative to zero, so a near zero is included.
        if !tight && low > 0.0 && low < 0.6 * high {
            low = 0.0;
        }
        let span = (high - low).max(high.abs().max(low.abs()) * 1e-9);
        let span = if span > 0.0 { span } else { 1.0 };
        let mut step = round_up(span / ticks as f64);
        if tight {
            step = step.max(1.0).round();
            high = if high > low { high } else { low + 1.0 };
        } else {
            low = (low / step).floor() * step;
            high = ((high / step).ceil() * step).max(low + step);
        }
        Self {
            low,
            high,
            step,
            tight,
        }
    }

    /// The position of a value between the bounds, from 0 to 1.
    pub(super) fn position(&self, value: f64) -> f64 {
        (value - self.low) / (self.high - self.low)
    }

    pub(super) fn ticks(&self) -> impl Iterator<Item = f64> + use<> {
        let first = (self.low / self.step).ceil() as i64;
        let beyond = if self.tight { 0.0 } else { self.step * 0.01 };
        let last = ((self.high + beyond) / self.step).floor() as i64;
        let step = self.step;
        // There are only a handful by construction; the bound guards against a step that rounding made too small.
        (first..=last.min(first.saturating_add(20))).map(move |i| i as f64 * step)
    }
}

/// 1, 2 or 5 times a power of ten, at least `raw`.
fn round_up(raw: f64) -> f64 {
    let magnitude = 10f64.powf(raw.log10().floor());
    let lead = raw / magnitude;
    let mut round = [1.0, 2.0, 5.0].into_iter();
    round.find(|m| lead <= *m + 1e-9).unwrap_or(10.0) * magnitude
}

/// A tick's label, with as many decimals as the step needs.
pub(super) fn format_tick(value: f64, step: f64, unit: ValueFormat) -> String {
    let is_share = matches!(unit, ValueFormat::Share | ValueFormat::Points);
    let scale = if is_share { 100.0 } else { 1.0 };
    let (value, step) = (value * scale, step * scale);
    let is_zero = value.abs() < step * 1e-6;
    let decimals = (-step.log10().floor()).max(0.0) as usize;
    let text = match (is_zero, decimals > 4) {
        (true, true) => "0".to_owned(),
        (true, false) => rounded(0.0, decimals),
        (false, small) if small || value.abs() >= 1e5 => {
            // As many digits as distinguish neighbouring ticks.
            let digits = (value.abs().log10().floor() - step.log10().floor()).max(0.0) as usize;
            format!("{value:.digits$e}")
        }
        _ => format!("{value:.decimals$}"),
    };
    let unit = match unit {
        ValueFormat::Number | ValueFormat::Points => "",
        ValueFormat::Share => "%",
        ValueFormat::Seconds => " s",
    };
    text.replace('-', "\u{2212}") + unit
}

/// A value in the format of a sentence or a table.
pub(crate) fn format_value(value: f64, unit: ValueFormat) -> String {
    let text = match unit {
        ValueFormat::Share => percent(value),
        ValueFormat::Points => rounded(100.0 * value, 2),
        ValueFormat::Seconds if value >= 7200.0 => format!("{:.1} h", value / 3600.0),
        ValueFormat::Seconds if value >= 120.0 => {
            let whole = value.round() as u64;
            format!("{} min {:02} s", whole / 60, whole % 60)
        }
        ValueFormat::Seconds if value >= 10.0 => format!("{value:.0} s"),
        ValueFormat::Seconds => format!("{value:.1} s"),
        ValueFormat::Number if value == 0.0 => "0".into(),
        ValueFormat::Number if value.abs() >= 1e5 || value.abs() < 1e-3 => format!("{value:.2e}"),
        ValueFormat::Number if value.abs() >= 100.0 => format!("{value:.0}"),
        ValueFormat::Number => format!("{value:.3}"),
    };
    text.replace('-', "\u{2212}")
}

/// A number with this many decimals; 0 has no sign.
pub(crate) fn rounded(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    let is_zero = text.chars().all(|letter| "-0.".contains(letter));
    text.trim_start_matches(if is_zero { "-" } else { "" })
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_numbers_that_cover_the_data_and_have_distinct_labels() {
        use ValueFormat::{Number, Share};
        for (values, unit, expected) in [
            (&[1.5, 1.5][..], Number, "0.0 0.5 1.0 1.5"),
            (&[-123_456.0], Number, "−1.5e5 −1.0e5 −50000 0"),
            (&[3e-9, 1e-7], Number, "0 5e−8 1.0e−7"),
            (&[0.13, 0.87], Share, "0% 50% 100%"),
        ] {
            let axis = Axis::over(values.iter().copied(), 4, false);
            let labels = axis.ticks().map(|tick| format_tick(tick, axis.step, unit));
            assert_eq!(labels.collect::<Vec<_>>().join(" "), expected);
        }
        assert_eq!(format_tick(-0.05, 0.05, ValueFormat::Points), "−5");
    }

    #[test]
    fn values_have_the_format_of_a_sentence() {
        for (value, unit, expected) in [
            (0.1875, ValueFormat::Share, "18.8%"),
            (-0.25, ValueFormat::Number, "−0.250"),
            (179.7, ValueFormat::Seconds, "3 min 00 s"),
            (9000.0, ValueFormat::Seconds, "2.5 h"),
            (-0.0125, ValueFormat::Points, "−1.25"),
            (-1e-9, ValueFormat::Points, "0.00"),
        ] {
            assert_eq!(format_value(value, unit), expected);
        }
    }
}
