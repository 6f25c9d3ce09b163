//! `rapid sweep --dry-run`: the runs, with the time, memory and disk space that they will take.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use serde::Serialize;
use trainer::plan::free_space;
use trainer::sweep::{PlannedRun, RunState, SweepFile, SweepFolder, estimate};

use super::sizes::Sizes;
use super::{Args, chosen};
use crate::cmd::count;

/// The dry run, as `--json` prints it.
#[derive(Default, Serialize)]
struct DryRun {
    runs: Vec<Row>,
    /// Arms that do not see the same data, in sentences.
    unmatched: Vec<String>,
    /// Seconds of the runs that are not finished; null if those of one are not known.
    seconds: Option<f64>,
    /// Bytes of disk space of the checkpoints at their largest: of all runs, or of one if the sweep does not keep them. null if the model of a run is not on this
    /// machine.
    disk: Option<u64>,
    /// The same for the unfinished runs, including what they have written already.
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
    state: RunState,
    updates: usize,
    completions: usize,
    seconds: Option<f64>,
    seconds_from: Option<&'static str>,
    memory: Option<u64>,
    disk: Option<u64>,
}

/// The largest of some sizes, 0 of none; `None` if one is not known.
fn largest(sizes: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    let all: Option<Vec<u64>> = sizes.collect();
    all.map(|all| all.into_iter().max().unwrap_or(0))
}

/// A duration for people to read, such as `2.5 h` or `12 min`.
fn duration(seconds: f64) -> String {
    match seconds {
        ..60.0 => format!("{} s", seconds.ceil()),
        ..5400.0 => format!("{} min", (seconds / 60.0).ceil()),
        _ => format!("{:.1} h", seconds / 3600.0),
    }
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
        // What is finished there tells how long the rest takes.
        let folder = SweepFolder::check(root, file)?;
        let (plan, manifest) = (&folder.plan, folder.manifest()?);
        let sizes = Sizes::of(plan, args.data_dir.as_deref())?;
        let finished = estimate::finished(plan, &manifest);
        let completions = |run: &PlannedRun| sizes.of_run(run).completions();
        let row = |run: &PlannedRun| {
            let estimated = estimate::seconds(run, &finished, completions, args.rate);
            let size = &sizes.of_run(run).plan;
            Row {
                run: run.name.clone(),
                arm: run.arm.clone(),
                seed: run.seed,
                round: run.round,
                grid: run.grid.clone(),
                state: folder.state(run, &manifest),
                updates: size.updates,
                completions: completions(run),
                seconds: estimated.map(|(seconds, _)| seconds),
                seconds_from: estimated.map(|(_, source)| source),
                memory: size.model.map(|model| model.peak()),
                disk: size
                    .model
                    .map(|model| model.checkpoint * size.checkpoints as u64),
            }
        };
        let runs: Vec<Row> = chosen(args, plan)?.into_iter().map(row).collect();
        let left = || runs.iter().filter(|row| !row.state.has_ended());
        let disk = |sizes: &mut dyn Iterator<Item = Option<u64>>| match file.keep_checkpoints {
            true => sizes.sum(),
            false => largest(sizes),
        };
        Ok(Self {
            unmatched: plan.unmatched(),
            seconds: left().map(|row| row.seconds).sum(),
            disk: disk(&mut runs.iter().map(|row| row.disk)),
            disk_left: disk(&mut left().map(|row| row.disk)),
            disk_free: free_space(root),
            memory: largest(runs.iter().map(|row| row.memory)),
            runs,
        })
    }

    fn text(&self) -> String {
        let unknown = || "?".to_owned();
        let size = |bytes: Option<u64>| {
            bytes.map_or_else(unknown, |bytes| format!("{:.1} GB", bytes as f64 / 1e9))
        };
        let time = |seconds: Option<f64>| seconds.map_or_else(unknown, duration);
        let names = self.runs.iter().map(|row| row.run.len());
        let width = names.fold(3, usize::max);
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
                row.state.name(),
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
        // Unknown sizes are not compared with the free space.
        let (left, free) = (self.disk_left, self.disk_free);
        if free.is_some() && left > free {
            let _ = writeln!(
                text,
                "warning: the checkpoints of the runs that are left take up to {} of disk space, including what those that have begun have written, and {} is free: free some, lower run.keep, or give --out on another disk",
                size(left),
                size(free)
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
        for (disk_left, disk_free, is_warned) in [
            (Some(2_500_000_000), Some(1_000_000_000), true),
            (Some(1), Some(1), false),
            (None, Some(1), false),
            (Some(1), None, false),
        ] {
            let report = DryRun {
                disk_left,
                disk_free,
                ..DryRun::default()
            };
            let text = report.text();
            let warning = "warning: the checkpoints of the runs that are left take up to 2.5 GB";
            assert_eq!(text.contains(warning), is_warned, "{text}");
        }
        assert_eq!(largest([Some(1), None].into_iter()), None);
        assert_eq!(largest(std::iter::empty()), Some(0));
    }
}
