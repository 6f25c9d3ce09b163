//! `rapid report`: a page about one run, about several side by side, or about a sweep.

use std::path::PathBuf;

use anyhow::bail;
use trainer::report::{self, RunData};
use trainer::{sweep, sweep_report};

use super::Usage;

/// Make a page with the figures, curves and samples of one run, of several side by side, or of a sweep
///
/// Writes report.html, which needs no network, and its numbers as CSV; prints the page's path. For several runs, the page also lists the differences of their
/// configurations. Where they were evaluated on the same tasks, it says by how much the first run is better or worse than each of the others.
///
/// For the folder of a sweep, the page has the tables and figures of the paper with the paper's numbers beside ours. It also has the tests that the section compare
/// of the sweep file asks for. Each table is a CSV file too, and each figure an SVG file.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  rapid report runs/quickstart                             into the run folder
  rapid report runs/rapid-paper runs/pg --out comparison   side by side, into a folder of its own
  rapid report sweeps/main                                 all runs of a sweep, into its folder")]
pub(crate) struct Args {
    /// Run folders of `rapid train` or `rapid quickstart`, or one folder of `rapid sweep`
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// Folder to write into [default: the run's or the sweep's own folder, or `report` for several runs]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Leave out all times, which mean nothing if other programs ran beside the runs of a sweep
    #[arg(long)]
    no_times: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let first_sweep = args.runs.iter().find(|run| sweep::is_sweep(run));
    let page = match (&args.runs[..], first_sweep) {
        ([folder], Some(_)) => {
            let out = args.out.as_ref().unwrap_or(folder);
            sweep_report::write(folder, out, !args.no_times)?
        }
        (_, Some(folder)) => {
            bail!(Usage(format!(
                "{} is the folder of a sweep; give it alone, or the folders of its runs",
                folder.display()
            )));
        }
        (_, None) if args.no_times => {
            bail!(Usage("--no-times is for the folder of a sweep".to_owned()))
        }
        (folders, None) => {
            let runs = RunData::read_all(folders)?;
            let folder = match (&args.out, &runs[..]) {
                (Some(out), _) => out.clone(),
                (None, [run]) => run.folder.clone(),
                (None, _) => PathBuf::from("report"),
            };
            report::write(&runs, &folder)?
        }
    };
    super::print(&format!("{}\n", page.display()))
}
