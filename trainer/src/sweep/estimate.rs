//! How long a run of a sweep will take.

use super::manifest::{Event, ManifestLine};
use super::plan::{Plan, PlannedRun};

/// What an estimate of time is based on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Finished runs of the same arm and point of the grid.
    SameSettings,
    /// The time per completion of other finished runs of the sweep. A run whose updates cost more than theirs takes longer.
    OtherRuns,
    /// The rate that the user gave.
    Rate,
}

impl Source {
    /// The source in words.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::SameSettings => "finished runs of these settings",
            Self::OtherRuns => "completions of other runs",
            Self::Rate => "--rate",
        }
    }
}

/// A finished run and its wall time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Finished<'a> {
    /// The run.
    pub run: &'a PlannedRun,
    /// Seconds of all its processes.
    pub seconds: f64,
}

/// The finished runs whose time is known: a run with a process that was killed is left out, since nobody saw how long that took.
#[must_use]
pub fn finished<'a>(plan: &'a Plan, manifest: &[ManifestLine]) -> Vec<Finished<'a>> {
    plan.runs()
        .filter_map(|run| {
            let lines = || manifest.iter().filter(|line| line.run == run.name);
            let begun = lines()
                .filter(|line| matches!(line.event, Event::Start | Event::Resume))
                .count();
            let ends: Vec<f64> = lines().filter_map(|line| line.seconds).collect();
            let done = lines().any(|line| line.event == Event::Finish);
            (done && begun == ends.len()).then(|| Finished {
                run,
                seconds: ends.iter().sum(),
            })
        })
        .collect()
}

/// Estimated seconds of a run, and what they are based on; `None` if nothing is known. `completions` is the number of completions of a run, those of evaluations
/// included, and `rate` a number of them per second that was measured elsewhere.
pub fn seconds(
    run: &PlannedRun,
    finished: &[Finished<'_>],
    completions: impl Fn(&PlannedRun) -> usize,
    rate: Option<f64>,
) -> Option<(f64, Source)> {
    let same: Vec<f64> = finished
        .iter()
        .filter(|other| other.run.arm == run.arm && other.run.grid == run.grid)
        .map(|other| other.seconds)
        .collect();
    if !same.is_empty() {
        let mean = same.iter().sum::<f64>() / same.len() as f64;
        return Some((mean, Source::SameSettings));
    }
    let own = completions(run) as f64;
    let total: usize = finished.iter().map(|other| completions(other.run)).sum();
    if total > 0 {
        let all: f64 = finished.iter().map(|other| other.seconds).sum();
        return Some((own * all / total as f64, Source::OtherRuns));
    }
    rate.map(|rate| (own / rate, Source::Rate))
}

/// A duration for people to read, such as `2.5 h` or `12 min`.
#[must_use]
pub fn hours(seconds: f64) -> String {
    if seconds < 60.0 {
        format!("{} s", seconds.ceil() as u64)
    } else if seconds < 5400.0 {
        format!("{:.0} min", (seconds / 60.0).ceil())
    } else {
        format!("{:.1} h", seconds / 3600.0)
    }
}
