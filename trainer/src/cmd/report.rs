//! `rapid report`: a page about one run, or about several side by side.

use std::path::PathBuf;

use trainer::report::{self, RunData};

/// Make a page with the figures, curves and samples of one run, or of several side by side
///
/// Writes report.html, which needs no network, and its numbers as CSV; prints the page's path. For several runs, the page also lists the differences of
/// their configurations and, where they were evaluated on the same tasks, by how much the first run is better or worse than each of the others.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  rapid report runs/quickstart                             into the run folder
  rapid report runs/rapid-paper runs/pg --out comparison   side by side, into a folder of its own")]
pub(crate) struct Args {
    /// Run folders of `rapid train` or `rapid quickstart`
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// Folder to write into [default: the run's own folder, or `report` for several runs]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let runs = RunData::read_all(&args.runs)?;
    let folder = match (&args.out, &args.runs[..]) {
        (Some(out), _) => out.clone(),
        (None, [run]) => run.clone(),
        (None, _) => PathBuf::from("report"),
    };
    let page = report::write(&runs, &folder)?;
    super::print(&format!("{}\n", page.display()))
}
