//! The results of all parts of the study as rows of one table, in JSON and CSV.

use std::fmt::Write as _;

use serde::Serialize;

use super::grid::{Names, Setting};
use super::quality::Quality;
use crate::escape;

/// The distance of a behaviour policy from the policy.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Level {
    /// How the behaviour policy was made: `updates` or `drift` on the toy, else the behaviour model's name.
    pub course: String,
    /// Number of updates behind; if that is unknown, the behaviour model's position in the list, from 1.
    pub staleness: usize,
    /// KL(μ‖π) of a completion, in nats.
    #[serde(serialize_with = "six")]
    pub kl: f64,
    /// Mean |ℓ|.
    #[serde(serialize_with = "six")]
    pub abs_ell: f64,
    /// Effective sample size of the whole weights, as a fraction.
    #[serde(serialize_with = "six")]
    pub ess: f64,
}

impl Level {
    pub(super) fn new(course: &str, staleness: usize) -> Self {
        Self {
            course: course.to_owned(),
            staleness,
            kl: 0.0,
            abs_ell: 0.0,
            ess: 0.0,
        }
    }
}

/// One estimator at one staleness.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// `toy` or `model`.
    pub policy: &'static str,
    /// See [`Level::course`].
    pub course: String,
    /// See [`Level::staleness`].
    pub staleness: usize,
    /// Completions per group.
    pub group_size: usize,
    /// The estimator.
    #[serde(flatten)]
    pub names: Names,
    /// The measured quality.
    #[serde(flatten)]
    pub quality: Quality,
    /// Standard errors; absent for exact numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errors: Option<Quality>,
}

impl Row {
    pub(super) fn new(
        policy: &'static str,
        level: &Level,
        group_size: usize,
        setting: &Setting,
        quality: Quality,
        errors: Option<Quality>,
    ) -> Self {
        Self {
            policy,
            course: level.course.clone(),
            staleness: level.staleness,
            group_size,
            names: setting.names(),
            quality,
            errors,
        }
    }
}

/// Serialises with six significant digits, which is more than the accuracy of any of the numbers.
pub(super) fn six<S: serde::Serializer>(number: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(number_text(*number).parse().unwrap_or(*number))
}

/// All rows as CSV. A standard error is in the column `NAME_se`, which is empty for exact numbers.
pub(super) fn csv<'a>(rows: impl Iterator<Item = &'a Row>) -> String {
    let mut out = String::from("policy,course,staleness,group_size,factor,baseline,eta,preset");
    for name in Quality::NAMES {
        let _ = write!(out, ",{name},{name}_se");
    }
    out.push('\n');
    for row in rows {
        let names = row.names;
        let _ = write!(
            out,
            "{},{},{},{},{},{},{},{}",
            row.policy,
            escape::csv(&row.course),
            row.staleness,
            row.group_size,
            names.factor,
            names.baseline,
            names.eta.map(super::Eta::text).unwrap_or_default(),
            names.preset.unwrap_or_default()
        );
        let errors = row.errors.map(|errors| errors.numbers());
        for (index, number) in row.quality.numbers().into_iter().enumerate() {
            let error = errors.map(|e| number_text(e[index])).unwrap_or_default();
            let _ = write!(out, ",{},{error}", number_text(number));
        }
        out.push('\n');
    }
    out
}

/// A number with six significant digits.
fn number_text(number: f64) -> String {
    if number == 0.0 || (1e-4..1e6).contains(&number.abs()) {
        let digits = 5 - (number.abs().max(1e-300).log10().floor() as i32).clamp(-6, 5);
        let text = format!("{number:.*}", digits as usize);
        let text = if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.')
        } else {
            &text
        };
        return if text == "-0" {
            "0".into()
        } else {
            text.into()
        };
    }
    format!("{number:.5e}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::grid;

    #[test]
    fn numbers_have_six_significant_digits() {
        for (number, text) in [
            (0.0, "0"),
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

    #[test]
    fn every_row_of_the_csv_has_every_column() {
        let level = Level::new("a, \"b\"", 3);
        let all: Vec<Row> = grid()
            .iter()
            .map(|setting| Row::new("toy", &level, 4, setting, Quality::default(), None))
            .collect();
        let text = csv(all.iter());
        let columns = text.lines().next().unwrap().split(',').count();
        assert_eq!(columns, 8 + 14);
        for line in text.lines().skip(1) {
            // The name of the course contains a comma.
            assert_eq!(line.split(',').count(), columns + 1, "{line}");
        }
        assert!(
            serde_json::to_string(&all)
                .unwrap()
                .contains("\"eta\":\"inf\"")
        );
    }
}
