//! `report.html` and its CSV files, for one run or several side by side.
//!
//! ```text
//! run_data ──▶ before_after ──▶ outcome ───────────────────────────────┐
//!        ├───▶ config_diff ──▶ heading, run_comparison ────────────────┤
//!        ├───▶ curves, time_chart ──▶ line_chart, row_chart ──▶ figure ┼─▶ run_page ──▶ page
//!        └───▶ samples, alarms ────────────────────────────────────────┘
//! ```
//!
//! `files` writes the page and the CSV files into the report's folder.
//!
//! [`page`] and [`table`](mod@table) are those of sweeps and studies too. A page is self-contained. A model's output is in it as escaped text only ([`escape`]).

mod alarms;

pub(crate) mod axis;
pub mod before_after;
pub(crate) mod config_diff;
mod curves;
pub(crate) mod figure;
mod files;
mod heading;
pub(crate) mod line_chart;
mod model_card;
mod outcome;
pub(crate) mod page;
pub(crate) mod row_chart;
mod run_comparison;
pub mod run_data;
mod run_labels;
mod run_page;
mod samples;
pub(crate) mod table;
pub(crate) mod time_chart;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;

use crate::escape;

use table::{Cell, Columns, Form, Table};

pub use before_after::Comparison;
pub use files::WriteError;
pub(crate) use files::{replace, write_files};
pub use model_card::model_card;
pub use outcome::count;
pub use run_data::{RunData, RunError};

/// The style sheet of every page.
pub(crate) const STYLE: &str = include_str!("style.css");

/// Writes `report.html`, `report-before-after.csv`, `report-metrics.csv` and, for several runs, `report-differences.csv` into a folder, which is created if it does
/// not exist; returns the page's path. What an earlier report left there is removed.
///
/// # Errors
/// [`WriteError`]; each file is either written whole or left as it was.
pub fn write(runs: &[RunData], folder: &Path) -> Result<PathBuf, WriteError> {
    let mut tables = vec![before_after::csv_table(runs)];
    if runs.len() > 1 {
        tables.push(run_comparison::csv_table(runs));
    }
    tables.push(metrics(runs));
    let files: Vec<(String, String)> = tables.iter().map(|it| (it.file(), it.csv())).collect();
    let names: Vec<String> = tables.iter().map(Table::file).collect();
    write_files(folder, &files, &run_page::render(runs, &names))
}

/// Every number of every update: a row for each update, a column for each quantity.
fn metrics(runs: &[RunData]) -> Table {
    let mut rows: Vec<BTreeMap<String, String>> = Vec::new();
    for run in runs {
        for step in &run.steps {
            let mut timings = run.timings.iter();
            let timing = timings.find(|timing| timing.step == step.step);
            let times = timing.into_iter().flat_map(|timing| flat(timing, "time."));
            let mut fields: BTreeMap<_, _> = flat(step, "").into_iter().chain(times).collect();
            fields.remove("time.step");
            fields.insert("run".to_owned(), run.name.clone());
            rows.push(fields);
        }
    }
    let names = rows.iter().flat_map(BTreeMap::keys);
    let names: BTreeSet<&str> = names.map(String::as_str).collect();
    let first = ["run", "step"];
    let others = names.into_iter().filter(|name| !first.contains(name));
    let mut columns = Columns::of(&rows);
    for name in first.into_iter().chain(others) {
        columns.add("", name, Form::Text, |fields| {
            Cell::some_text(fields.get(name).cloned())
        });
    }
    columns.table("report-metrics", "", "")
}

/// A record's numbers by name, after a prefix; those of a map are named `map.key`.
fn flat(record: &impl Serialize, prefix: &str) -> BTreeMap<String, String> {
    let mut fields = BTreeMap::new();
    let Ok(Value::Object(object)) = serde_json::to_value(record) else {
        return fields;
    };
    for (name, value) in object {
        let name = format!("{prefix}{name}");
        let text = match value {
            Value::Object(_) => {
                fields.extend(flat(&value, &format!("{name}.")));
                continue;
            }
            Value::String(text) => text,
            value => value.to_string(),
        };
        fields.insert(name, text);
    }
    fields
}

#[cfg(test)]
mod tests;
