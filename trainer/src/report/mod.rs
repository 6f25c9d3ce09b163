//! `report.html` and its CSV files, for one run or several side by side.
//!
//! ```text
//! run_data ──▶ before_after ──▶ outcome ───────────────────────────┐
//!        ├───▶ settings ──▶ heading, run_comparison ───────────────┤
//!        ├───▶ curves, time_chart ──▶ chart, rows ──▶ figure ──────┼─▶ run_page ──▶ page
//!        └───▶ samples, alarms ────────────────────────────────────┘
//! ```
//!
//! `files` writes the page and the CSV files into the report's folder.
//!
//! [`page`] and [`table`](mod@table) are those of sweeps and studies too. A page is self-contained. A model's output is in it as escaped text only ([`escape`]).

mod alarms;

pub(crate) mod axis;
pub mod before_after;
pub(crate) mod chart;
mod curves;
pub(crate) mod figure;
mod files;
mod heading;
mod outcome;
pub(crate) mod page;
pub(crate) mod rows;
mod run_comparison;
pub mod run_data;
mod run_labels;
mod run_page;
mod samples;
pub(crate) mod settings;
pub(crate) mod table;
pub(crate) mod time_chart;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;

use crate::escape;

pub use before_after::Comparison;
pub use files::WriteError;
pub(crate) use files::{replace, write_files};
pub use run_data::{RunData, RunError};

/// The style sheet of every page.
pub(crate) const STYLE: &str = include_str!("style.css");

/// Writes `report.html`, `report-before-after.csv`, `report-metrics.csv` and, for several runs, `report-differences.csv` into a folder, which is created if it does
/// not exist; returns the page's path. What an earlier report left there is removed.
///
/// # Errors
/// [`WriteError`]; each file is either written whole or left as it was.
pub fn write(runs: &[RunData], folder: &Path) -> Result<PathBuf, WriteError> {
    let compared: Vec<(&str, Comparison)> = runs
        .iter()
        .filter_map(|run| Some((run.name.as_str(), Comparison::of(run)?)))
        .collect();
    let mut tables = vec![(
        "report-before-after.csv".to_owned(),
        before_after::csv_table(&compared),
    )];
    if runs.len() > 1 {
        tables.push((
            "report-differences.csv".to_owned(),
            run_comparison::csv_table(runs),
        ));
    }
    tables.push(("report-metrics.csv".to_owned(), metrics_csv(runs)));
    let names: Vec<String> = tables.iter().map(|(name, _)| name.clone()).collect();
    write_files(folder, &tables, &run_page::render(runs, &names))
}

/// Every number of every update, as CSV: a row for each update, a column for each quantity.
fn metrics_csv(runs: &[RunData]) -> String {
    let mut rows: Vec<(&str, BTreeMap<String, String>)> = Vec::new();
    for run in runs {
        for step in &run.steps {
            let mut fields = flat(step, "");
            let mut timings = run.timings.iter();
            let timing = timings.find(|timing| timing.step == step.step);
            fields.extend(timing.into_iter().flat_map(|timing| flat(timing, "time.")));
            fields.remove("time.step");
            rows.push((&run.name, fields));
        }
    }
    let names = rows.iter().flat_map(|(_, fields)| fields.keys());
    let columns: BTreeSet<&String> = names.filter(|name| *name != "step").collect();
    let columns: Vec<&str> = ["step"]
        .into_iter()
        .chain(columns.into_iter().map(String::as_str))
        .collect();
    let mut out = String::from("run");
    for column in &columns {
        let _ = write!(out, ",{}", escape::csv(column));
    }
    for (run, fields) in &rows {
        let _ = write!(out, "\n{}", escape::csv(run));
        for column in &columns {
            let value = fields.get(*column).map_or("", String::as_str);
            let _ = write!(out, ",{}", escape::csv(value));
        }
    }
    out.push('\n');
    out
}

/// A record's numbers by name, after a prefix; those of a map are named `map.key`.
fn flat(record: &impl Serialize, prefix: &str) -> BTreeMap<String, String> {
    let mut fields = BTreeMap::new();
    let Ok(Value::Object(object)) = serde_json::to_value(record) else {
        return fields;
    };
    for (name, value) in object {
        match value {
            Value::Object(_) => fields.extend(flat(&value, &format!("{prefix}{name}."))),
            Value::String(text) => {
                fields.insert(format!("{prefix}{name}"), text);
            }
            value => {
                fields.insert(format!("{prefix}{name}"), value.to_string());
            }
        }
    }
    fields
}

#[cfg(test)]
mod tests;
