//! The report of a sweep: `report.html`, a CSV file for each table and an SVG file for each figure. They have the form of the paper's Tables 1 to 4 and Figures 1 to
//! 4, and the paper's numbers beside ours.
//!
//! ```text
//! runs ──▶ arms ──▶ significance ──▶ tables, significance_tables ──────────────┐
//!           │              ▲   │       time_to_target                          │
//!           │       task_clusters      paper_row                               ├─▶ page
//!           └──────────────────┴─▶ figures ──▶ report: line_chart, row_chart ──┘
//! ```
//!
//! A number is rounded once, in [`crate::report::table`]: the page and the CSV files have the same digits.

mod arms;
mod figures;
mod page;
mod paper_row;
mod runs;
mod significance;
mod significance_tables;
mod tables;
mod task_clusters;
mod time_to_target;
mod warnings;

use std::path::{Path, PathBuf};

use crate::report::write_files;
use crate::sweep::{SweepError, SweepFolder};

/// Writes the report of a sweep into a folder, which is created if it does not exist; returns the page's path. What an earlier report left there is removed. Without
/// `times` it has nothing that is measured in seconds.
///
/// # Errors
/// [`SweepError`]; each file is either written whole or left as it was.
pub fn write(sweep: &Path, out: &Path, times: bool) -> Result<PathBuf, SweepError> {
    let folder = SweepFolder::open(sweep)?;
    let runs = runs::read(&folder, times)?;
    let arms = arms::of(&folder, &runs);
    let tests = significance::run(&folder, &arms);
    let tables = tables::all(&folder, &runs, &arms, &tests);
    let figures = figures::all(&arms, &tests);
    let warnings = warnings::all(&folder, &runs, &tests, times);
    let drawings = figures.iter();
    let drawings = drawings.map(|it| (it.file.to_owned(), it.figure.file()));
    let files = tables.iter().map(|table| (table.file(), table.csv()));
    let files: Vec<(String, String)> = files.chain(drawings).collect();
    let page = page::render(&folder, &tables, &figures, &warnings);
    write_files(out, &files, &page).map_err(|error| SweepError::File(error.to_string()))
}

#[cfg(test)]
mod tests;
