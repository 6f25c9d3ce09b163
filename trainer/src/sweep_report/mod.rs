//! The report of a sweep: `report.html`, a CSV file for each table and an SVG file for each figure, in the form of the paper's Tables 1 to 4 and Figures 1 to 4, with
//! the paper's numbers beside ours.
//!
//! ```text
//! runs ──▶ arms ──▶ tests_of_arms ──▶ tables, test_tables ─────────────┐
//!           │              ▲   │       time_to_target                    │
//!           │        computations            ▲                           ├─▶ page
//!           │                  │         paper_row                       │
//!           └──────────────────┴─▶ figures ──▶ report/chart, rows ───────┘
//! ```
//!
//! A number is rounded once, in [`crate::report::table`]: the page and the CSV files have the same digits. The tooltips of forest plots have them too.

mod arms;
mod computations;
mod figures;
mod page;
mod paper_row;
mod runs;
mod tables;
mod test_tables;
mod tests_of_arms;
mod time_to_target;
mod warnings;

use std::path::{Path, PathBuf};

use crate::report::{WriteError, write_files};
use crate::sweep::{SweepError, SweepFolder};

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

/// Writes the report of a sweep into a folder, which is created if it does not exist; returns the page's path. What an earlier report left there is removed. Without
/// `times` it has nothing that is measured in seconds.
///
/// # Errors
/// [`SweepReportError`]; each file is either written whole or left as it was.
pub fn write(sweep: &Path, out: &Path, times: bool) -> Result<PathBuf, SweepReportError> {
    let folder = SweepFolder::open(sweep)?;
    let runs = runs::read(&folder, times)?;
    let arms = arms::of(&folder, &runs);
    let tests = tests_of_arms::run(&folder, &arms);
    let tables = tables::all(&folder, &runs, &arms, &tests);
    let figures = figures::all(&arms, &tests);
    let warnings = warnings::all(&folder, &runs, &tests, times);
    let drawings = figures.iter();
    let drawings = drawings.map(|it| (it.file.to_owned(), it.figure.file()));
    let files = tables.iter().map(|table| (table.file(), table.csv()));
    let files: Vec<(String, String)> = files.chain(drawings).collect();
    let page = page::render(&folder, &tables, &figures, &warnings);
    Ok(write_files(out, &files, &page)?)
}

#[cfg(test)]
mod tests;
