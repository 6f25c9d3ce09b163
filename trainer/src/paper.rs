//! What the paper reports, from `recipes/paper/results.toml`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::LazyLock;

use serde::Deserialize;

/// The paper's numbers.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Paper {
    pub(crate) title: String,
    pub(crate) results: Vec<PaperResult>,
    pub(crate) correlations: Vec<PaperCorrelation>,
    /// What it says of its figures, by their number.
    pub(crate) figures: BTreeMap<String, Figure>,
}

/// A row of Tables 1 to 3 for one data set. Names are those of the recipes.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct PaperResult {
    pub(crate) table: u32,
    pub(crate) model: String,
    pub(crate) dataset: String,
    /// Or `base`.
    pub(crate) algorithm: String,
    /// In per cent.
    pub(crate) pass_at_1: Measured,
    /// In per cent; on MBPP+ only.
    pub(crate) pass_at_8: Option<Measured>,
    /// Training time; `None` for the base model.
    pub(crate) minutes: Option<Measured>,
    /// In nats; in Table 3 only.
    pub(crate) staleness: Option<Measured>,
}

/// A row of Table 4: Pearson's r between H and three quantities.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct PaperCorrelation {
    /// As the recipes name it.
    pub(crate) dataset: String,
    /// `Pass@1` or `Pass@8`.
    pub(crate) metric: String,
    /// Between H and the metric.
    pub(crate) accuracy: f64,
    /// Between H and the training time.
    pub(crate) time: f64,
    /// Between H and the staleness.
    pub(crate) staleness: f64,
}

/// What the paper says of a figure.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Figure {
    /// The page of the PDF.
    pub(crate) page: u32,
    /// In our words.
    pub(crate) claim: String,
}

/// A number as the paper prints it.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(try_from = "Vec<f64>")]
pub(crate) struct Measured {
    /// The mean over three runs, or the value of one.
    pub(crate) mean: f64,
    /// The standard deviation over the runs; `None` for one run.
    pub(crate) sd: Option<f64>,
}

impl TryFrom<Vec<f64>> for Measured {
    type Error = &'static str;

    fn try_from(numbers: Vec<f64>) -> Result<Self, Self::Error> {
        match numbers[..] {
            [mean] => Ok(Self { mean, sd: None }),
            [mean, sd] => Ok(Self { mean, sd: Some(sd) }),
            _ => Err("a number is [mean] or [mean, standard deviation]"),
        }
    }
}

pub(crate) static PAPER: LazyLock<Paper> = LazyLock::new(|| {
    let text = include_str!("../recipes/paper/results.toml");
    toml::from_str(text).expect("a test reads the file")
});

impl Paper {
    /// The first row of this model, data set and algorithm; in Tables 1 to 3, those of Table 1 are first.
    pub(crate) fn row(&self, model: &str, dataset: &str, algorithm: &str) -> Option<&PaperResult> {
        let is_it = |row: &&PaperResult| {
            row.model == model && row.dataset == dataset && row.algorithm == algorithm
        };
        self.results.iter().find(is_it)
    }

    /// The row of Table 3 of this data set and H.
    pub(crate) fn by_h(&self, dataset: &str, h: usize) -> Option<&PaperResult> {
        let algorithm = format!("rapid-h{h}");
        let mut rows = self.results.iter().filter(|row| row.table == 3);
        rows.find(|row| row.dataset == dataset && row.algorithm == algorithm)
    }

    /// The row of Table 4 of this data set and metric.
    pub(crate) fn correlation(&self, dataset: &str, metric: &str) -> Option<&PaperCorrelation> {
        let mut rows = self.correlations.iter();
        rows.find(|row| row.dataset == dataset && row.metric == metric)
    }
}

impl PaperResult {
    /// The name of its recipe, `MODEL-DATASET-ALGORITHM`; `None` for the base model, which is not trained.
    pub(crate) fn recipe(&self) -> Option<String> {
        (self.algorithm != "base")
            .then(|| format!("{}-{}-{}", self.model, self.dataset, self.algorithm))
    }

    pub(crate) fn line(&self) -> String {
        let mut line = format!("Table {}: Pass@1 {} %", self.table, self.pass_at_1.text());
        if let Some(pass) = self.pass_at_8 {
            let _ = write!(line, ", Pass@8 {} %", pass.text());
        }
        if let Some(minutes) = self.minutes {
            let _ = write!(line, ", {}", duration(minutes.mean));
        }
        if let Some(staleness) = self.staleness {
            let _ = write!(line, ", staleness {:.2}", staleness.mean);
        }
        line
    }
}

impl Measured {
    fn text(self) -> String {
        match self.sd {
            Some(sd) => format!("{:.1} ± {sd:.1}", self.mean),
            None => format!("{:.1}", self.mean),
        }
    }
}

/// Minutes in the units in which the paper prints them.
fn duration(minutes: f64) -> String {
    if minutes < 120.0 {
        format!("{minutes:.1} min")
    } else {
        format!("{} h {} min", minutes as u64 / 60, minutes as u64 % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_have_the_rows_that_the_paper_prints() {
        let rows = |table| PAPER.results.iter().filter(move |row| row.table == table);
        assert_eq!([1, 2, 3].map(|table| rows(table).count()), [21, 18, 12]);
        assert!(rows(1).all(|row| row.pass_at_1.sd.is_some()));
        assert!(rows(2).all(|row| row.pass_at_1.sd.is_none()));
        assert!(rows(3).all(|row| row.staleness.is_some()));
        for row in &PAPER.results {
            assert_eq!(row.pass_at_8.is_some(), row.dataset == "mbppplus");
            assert_eq!(row.minutes.is_some(), row.algorithm != "base");
        }
        assert_eq!(PAPER.figures.len(), 4);
        let line = |dataset, algorithm| {
            let row = PAPER.row("qwen2.5-0.5b", dataset, algorithm);
            row.unwrap().line()
        };
        let sft = "Table 1: Pass@1 5.6 ± 2.8 %, Pass@8 35.4 ± 1.3 %, 2.0 min";
        assert_eq!(line("mbppplus", "sft"), sft);
        let rapid = "Table 3: Pass@1 28.3 ± 0.8 %, 4 h 8 min, staleness 0.07";
        assert_eq!(line("math", "rapid-h16"), rapid);
    }
}
