//! `rapid sweep --dry-run`: the runs, with the time, memory and disk space that they will take.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use serde::Serialize;
use trainer::plan::free_space;
use trainer::sweep::{Plan, PlannedRun, RunState, SweepFile, SweepFolder, estimate};

use super::sizes::Sizes;
use super::{Args, chosen};
use crate::cmd::count;

/// The dry run, as `--json` prints it.
#[derive(Serialize)]
struct DryRun {
    runs: Vec<Row>,
    /// Arms that do not see the same data, in sentences.
    unmatched: Vec<String>,
    /// Seconds of the runs that are not finished; null if that of one is not known.
    seconds: Option<f64>,
    /// Bytes of disk space of the checkpoints at their largest, all of them or, if the sweep does not keep them, those of one run; null if the model of a run is not on
    /// this machine.
    disk: Option<u64>,
    /// The same for the runs that are not finished, including what those that have begun have written.
    disk_left: Option<u64>,
    /// Bytes of free disk space where the sweep is, or will be, written; null if the system does not report it.
    disk_free: Option<u64>,
    /// Bytes of memory of the largest run; null as `disk`.
    memory: Option<u64>,
}

#[derive(Serialize)]
struct Row {
    run: String,
    arm: String,
    seed: u64,
    round: usize,
    grid: BTreeMap<String, toml::Value>,
    state: &'static str,
    #[serde(skip)]
    has_ended: bool,
    updates: usize,
    completions: usize,
    seconds: Option<f64>,
    seconds_from: Option<&'static str>,
    memory: Option<u64>,
    disk: Option<u64>,
}

/// The largest of some numbers, 0 of none; `None` if one is not known.
fn largest(numbers: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    let all: Option<Vec<u64>> = numbers.collect();
    all.map(|all| all.into_iter().max().unwrap_or(0))
}

/// Bytes of disk space of these runs' checkpoints at their largest; `None` if that of one is not known.
fn disk<'a>(rows: impl Iterator<Item = &'a Row>, keep_checkpoints: bool) -> Option<u64> {
    let each = rows.map(|row| row.disk);
    if keep_checkpoints {
        each.sum()
    } else {
        largest(each)
    }
}

fn gb(bytes: u64) -> String {
    format!("{:.1} GB", bytes as f64 / 1e9)
}

pub(super) fn print(args: &Args, root: &Path, file: &SweepFile) -> anyhow::Result<()> {
    let report = DryRun::new(args, root, file)?;
    if args.json {
        return crate::cmd::print(&format!("{}\n", serde_json::to_string_pretty(&report)?));
    }
    crate::cmd::print(&report.text())
}

impl DryRun {
    fn new(args: &Args, root: &Path, file: &SweepFile) -> anyhow::Result<Self> {
        let plan = &Plan::new(file)?;
        let keep_checkpoints = file.keep_checkpoints;
        let chosen = chosen(args, plan)?;
        // A folder that has this sweep tells what is finished, and how long it took.
        let folder = match root.join("sweep.toml").is_file() {
            true => Some(SweepFolder::open(root)?),
            false => None,
        };
        let folder = folder.filter(|folder| folder.file().difference(file).is_none());
        let manifest = folder
            .as_ref()
            .map_or_else(|| Ok(Vec::new()), SweepFolder::manifest)?;
        let sizes = Sizes::of(plan, args.data_dir.as_deref())?;
        let size = |run: &PlannedRun| sizes.of_run(run);
        let completions = |run: &PlannedRun| sizes.completions(run);
        let finished = estimate::finished(plan, &manifest);
        let row = |run: &&PlannedRun| {
            let estimated = estimate::seconds(run, &finished, completions, args.rate);
            let state = folder
                .as_ref()
                .map_or(RunState::Absent, |folder| folder.state(run, &manifest));
            let model = size(run).model;
            Row {
                run: run.name.clone(),
                arm: run.arm.clone(),
                seed: run.seed,
                round: run.round,
                grid: run.grid.clone(),
                state: state.name(),
                has_ended: state.has_ended(),
                updates: size(run).updates,
                completions: completions(run),
                seconds: estimated.map(|(seconds, _)| seconds),
                seconds_from: estimated.map(|(_, source)| source.name()),
                memory: model.map(|model| model.peak()),
                disk: model.map(|model| model.checkpoint * size(run).checkpoints as u64),
            }
        };
        let runs: Vec<Row> = chosen.iter().map(row).collect();
        let to_do = || runs.iter().filter(|row| !row.has_ended);
        Ok(Self {
            unmatched: plan.unmatched(),
            seconds: to_do().map(|row| row.seconds).sum(),
            disk: disk(runs.iter(), keep_checkpoints),
            disk_left: disk(to_do(), keep_checkpoints),
            disk_free: free_space(root),
            memory: largest(runs.iter().map(|row| row.memory)),
            runs,
        })
    }

    fn text(&self) -> String {
        let size = |bytes: Option<u64>| bytes.map_or_else(|| "?".to_owned(), gb);
        let time = |seconds: Option<f64>| seconds.map_or_else(|| "?".to_owned(), estimate::hours);
        let width = self
            .runs
            .iter()
            .map(|row| row.run.len())
            .max()
            .unwrap_or(0)
            .max(3);
        let mut text = format!(
            "{:width$}  {:8}  {:>7}  {:>11}  {:>9}  {:>7}  {:>8}  time from\n",
            "run", "state", "updates", "completions", "time", "memory", "disk"
        );
        for row in &self.runs {
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "{:width$}  {:8}  {:>7}  {:>11}  {:>9}  {:>7}  {:>8}  {}",
                row.run,
                row.state,
                row.updates,
                row.completions,
                time(row.seconds),
                size(row.memory),
                size(row.disk),
                row.seconds_from
                    .unwrap_or("nothing yet: a finished run, or --rate"),
            );
        }
        let _ = writeln!(
            text,
            "\n{}: {} left, at most {} of memory at once and {} of disk space for checkpoints",
            count(self.runs.len(), "run"),
            time(self.seconds),
            size(self.memory),
            size(self.disk)
        );
        if let Some((needed, free)) = self.disk_left.zip(self.disk_free)
            && needed > free
        {
            let _ = writeln!(
                text,
                "warning: the checkpoints of the runs that are left take up to {} of disk space, including what those that have begun have written, and {} is free: free some, lower run.keep, or give --out on another disk",
                gb(needed),
                gb(free)
            );
        }
        for sentence in &self.unmatched {
            let _ = writeln!(text, "warning: {sentence}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_that_does_not_fit_on_the_disk_is_warned_of() {
        let text = |disk_left: Option<u64>, disk_free: Option<u64>| {
            let report = DryRun {
                runs: Vec::new(),
                unmatched: Vec::new(),
                seconds: None,
                disk: disk_left,
                disk_left,
                disk_free,
                memory: None,
            };
            report.text()
        };
        let warned = text(Some(2_500_000_000), Some(1_000_000_000));
        assert!(
            warned.contains(
                "warning: the checkpoints of the runs that are left take up to 2.5 GB of disk space, including what those that have begun have written, and 1.0 GB is free"
            ),
            "{warned}"
        );
        for (needed, free) in [(Some(1), Some(1)), (None, Some(1)), (Some(1), None)] {
            assert!(!text(needed, free).contains("warning"));
        }
    }

    #[test]
    fn a_sweep_that_is_finished_needs_no_disk_space() {
        for keep_checkpoints in [true, false] {
            assert_eq!(disk(std::iter::empty(), keep_checkpoints), Some(0));
        }
        assert_eq!(largest([Some(1), None].into_iter()), None);
    }
}
