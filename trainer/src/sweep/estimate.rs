//! How long a run of a sweep will take.

use super::manifest::{Event, ManifestLine};
use super::plan::{Plan, PlannedRun};

/// The finished runs with a known wall time, with the seconds of all their processes. A run with a process that was killed is left out, since nobody saw how long
/// that took.
pub fn finished<'a>(plan: &'a Plan, manifest: &[ManifestLine]) -> Vec<(&'a PlannedRun, f64)> {
    let seconds = |run: &PlannedRun| {
        let lines = || manifest.iter().filter(|line| line.run == run.name);
        let begun = lines().filter(|line| matches!(line.event, Event::Start | Event::Resume));
        let ends: Vec<f64> = lines().filter_map(|line| line.seconds).collect();
        let is_known =
            lines().any(|line| line.event == Event::Finish) && begun.count() == ends.len();
        is_known.then(|| ends.iter().sum())
    };
    plan.runs()
        .filter_map(|run| Some((run, seconds(run)?)))
        .collect()
}

/// Estimated seconds of a run, and what they are based on, in words; `None` if nothing is known. They are the mean of the finished runs of the same arm and point of
/// the grid. Without any, they come from the time per completion of other finished runs, or else from `rate`, the completions per second measured elsewhere.
/// `completions` is the number of completions of a run, those of evaluations included.
pub fn seconds(
    run: &PlannedRun,
    finished: &[(&PlannedRun, f64)],
    completions: impl Fn(&PlannedRun) -> usize,
    rate: Option<f64>,
) -> Option<(f64, &'static str)> {
    let same = finished
        .iter()
        .filter(|(other, _)| other.arm == run.arm && other.grid == run.grid);
    let same: Vec<f64> = same.map(|(_, seconds)| *seconds).collect();
    if !same.is_empty() {
        let mean = same.iter().sum::<f64>() / same.len() as f64;
        return Some((mean, "finished runs of these settings"));
    }
    let own = completions(run) as f64;
    let total: usize = finished.iter().map(|(other, _)| completions(other)).sum();
    if total > 0 {
        let all: f64 = finished.iter().map(|(_, seconds)| seconds).sum();
        return Some((own * all / total as f64, "completions of other runs"));
    }
    rate.map(|rate| (own / rate, "--rate"))
}
