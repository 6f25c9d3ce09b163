//! The report of a sweep: `report.html`, a CSV file for each table and an SVG file for each figure, in the form of the paper's Tables 1 to 4 and Figures 1 to 4, with
//! the paper's numbers beside ours.
//!
//! ```text
//! runs ──▶ arms ──▶ tests_of_arms ──▶ tables, test_tables ──▶ table ──┐
//!           │              ▲           time_to_target                  ├─▶ page
//!           │              │                 ▲                         │
//!           │        computations        paper_row                     │
//!           └────▶ figures ───────────────▶ report/chart ──────────────┘
//! ```
//!
//! A number is rounded once, in [`table`]: the page and the CSV files have the same digits.

mod arms;
mod computations;
mod figures;
mod page;
mod paper_row;
mod runs;
mod table;
mod tables;
mod test_tables;
mod tests_of_arms;
mod time_to_target;
mod warnings;

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::report::{WriteError, replace};
use crate::sweep::{SweepError, SweepFolder};
use table::Table;

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum SweepReportError {
    /// The folder is not that of a sweep, or its files are damaged.
    #[error(transparent)]
    Sweep(#[from] SweepError),
    /// A file cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Writes the report of a sweep into a folder, which is created if it does not exist; returns the page's path.
///
/// # Errors
/// [`SweepReportError`]; each file is either written whole or left as it was.
pub fn write(sweep: &Path, out: &Path) -> Result<PathBuf, SweepReportError> {
    let folder = SweepFolder::open(sweep)?;
    let runs = runs::read(&folder)?;
    let arms = arms::of(&folder, &runs);
    let tests = tests_of_arms::run(&folder, &arms);
    let tables = tables::all(&folder, &runs, &arms, &tests);
    let figures = figures::all(&arms);
    let warnings = warnings::all(&folder, &runs, &arms, &tests);
    std::fs::create_dir_all(out).map_err(|source| WriteError::new(out, source))?;
    let kept = tables
        .iter()
        .map(Table::file)
        .chain(figures.iter().map(|figure| figure.file.clone()));
    remove_others(out, &kept.collect())?;
    for table in &tables {
        replace(&out.join(table.file()), &table.csv())?;
    }
    for figure in &figures {
        replace(&out.join(&figure.file), &figure.svg)?;
    }
    let page = out.join("report.html");
    replace(&page, &page::render(&folder, &tables, &figures, &warnings))?;
    Ok(page)
}

/// Removes the tables and figures of an earlier report that this one has not.
fn remove_others(out: &Path, kept: &BTreeSet<String>) -> Result<(), WriteError> {
    let tables = tables::NAMES.map(|name| format!("{name}.csv"));
    let figures = figures::FILES.map(str::to_owned);
    let others = tables
        .into_iter()
        .chain(figures)
        .filter(|file| !kept.contains(file));
    for file in others {
        let path = out.join(file);
        match std::fs::remove_file(&path) {
            Err(source) if source.kind() != ErrorKind::NotFound => {
                return Err(WriteError::new(&path, source));
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
