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

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::Serialize;

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
    let rows: Vec<(&str, Vec<(String, String)>)> = runs
        .iter()
        .flat_map(|run| {
            let timings = |step: usize| run.timings.iter().find(|timing| timing.step == step);
            run.steps.iter().map(move |step| {
                let mut fields = flat(step);
                if let Some(timing) = timings(step.step) {
                    fields.extend(
                        flat(timing)
                            .into_iter()
                            .filter(|(name, _)| name != "step")
                            .map(|(name, v)| (format!("time.{name}"), v)),
                    );
                }
                (run.name.as_str(), fields)
            })
        })
        .collect();
    let columns: BTreeSet<&str> = rows
        .iter()
        .flat_map(|(_, fields)| fields)
        .map(|(name, _)| name.as_str())
        .filter(|name| *name != "step")
        .collect();
    let mut out = String::from("run,step");
    for column in &columns {
        let _ = write!(out, ",{}", escape::csv(column));
    }
    out.push('\n');
    for (run, fields) in &rows {
        out.push_str(&escape::csv(run));
        for column in std::iter::once(&"step").chain(&columns) {
            let value = fields
                .iter()
                .find(|(name, _)| name == column)
                .map_or("", |(_, value)| value);
            let _ = write!(out, ",{}", escape::csv(value));
        }
        out.push('\n');
    }
    out
}

/// A record's numbers by name; those of a map are named `map.key`.
fn flat(record: &impl Serialize) -> Vec<(String, String)> {
    let text = |value: serde_json::Value| match value {
        serde_json::Value::String(text) => text,
        value => value.to_string(),
    };
    let mut fields = Vec::new();
    if let Ok(serde_json::Value::Object(object)) = serde_json::to_value(record) {
        for (name, value) in object {
            match value {
                serde_json::Value::Object(inner) => {
                    fields.extend(
                        inner
                            .into_iter()
                            .map(|(key, value)| (format!("{name}.{key}"), text(value))),
                    );
                }
                value => fields.push((name, text(value))),
            }
        }
    }
    fields
}

#[cfg(test)]
mod tests;
