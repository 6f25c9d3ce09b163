//! The figures of the report: the paper's.

use super::arms::{ArmRuns, ladders};
use super::runs::SweepRun;
use crate::paper::PAPER;
use crate::record::{Activity, StepRecord};
use crate::report::axis::{ValueFormat, format_value};
use crate::report::chart::{Chart, Series};
use crate::report::stacked_bars::{Bar, Stack};
use crate::statistics::{Spread, student};

/// A figure, on the page and as a file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Figure {
    /// The name of its file.
    pub(super) file: String,
    /// The figure element of the page.
    pub(super) html: String,
    /// The file.
    pub(super) svg: String,
    /// Where the page has it.
    pub(super) place: Place,
}

/// Where the page has a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Below the table with this name.
    Below(&'static str),
    /// Below all tables, as wide as the page.
    Wide,
    /// Below all tables, beside others.
    Narrow,
}

type Ticks = Vec<(f64, String)>;

/// All of the paper's figures that the sweep has data for.
pub(super) fn all(arms: &[ArmRuns<'_>]) -> Vec<Figure> {
    let mut figures: Vec<Figure> = time_of_arms(arms).into_iter().collect();
    let charts = [
        (
            "figure-2-length.svg",
            chart(
                "Figure 2: completion length by H",
                "mean tokens of a completion in training; ",
                2,
                ValueFormat::Number,
                arms,
                &|run| run.mean_of(|step| step.length_mean),
            ),
        ),
        (
            "figure-2-inference.svg",
            chart(
                "Figure 2: time of inference by H",
                "per run; ",
                2,
                ValueFormat::Seconds,
                arms,
                &|run| Some(run.times()?.of_activity(Activity::Inference)),
            ),
        ),
        (
            "table-3-pass-at-1.svg",
            chart(
                "Pass@1 by H",
                "after the last update, mean over seeds; ",
                0,
                ValueFormat::Share,
                arms,
                &|run| run.pass_at(1),
            ),
        ),
        (
            "table-3-time.svg",
            chart(
                "Time of training by H",
                "per run; ",
                0,
                ValueFormat::Seconds,
                arms,
                &|run| Some(60.0 * run.minutes()?),
            ),
        ),
        (
            "table-3-staleness.svg",
            chart(
                "Staleness by H",
                "|log of the mean capped weight|, averaged over the updates; ",
                0,
                ValueFormat::Number,
                arms,
                &SweepRun::staleness,
            ),
        ),
    ];
    figures.extend(
        charts
            .into_iter()
            .filter_map(|(file, (chart, ticks))| figure(file, &chart, &ticks)),
    );
    figures.extend(token_weights(arms).and_then(|chart| figure("figure-3.svg", &chart, &[])));
    figures.extend(figure("figure-4.svg", &clipped(arms), &[]));
    figures
}

fn figure(file: &str, chart: &Chart, ticks: &[(f64, String)]) -> Option<Figure> {
    (!chart.is_empty()).then(|| Figure {
        file: file.to_owned(),
        html: chart.render_over(ticks),
        svg: chart.file(ticks),
        place: Place::Narrow,
    })
}

/// What the paper says of its figure.
fn claim(number: u32) -> String {
    let figure = PAPER.figures.get(&number.to_string());
    figure.map_or_else(String::new, |figure| {
        format!("the paper, page {}: {}", figure.page, figure.claim)
    })
}

/// A chart by H, over the paper's figure of this number; 0 for none.
fn chart(
    title: &str,
    note: &str,
    number: u32,
    unit: ValueFormat,
    arms: &[ArmRuns<'_>],
    of: &dyn Fn(&SweepRun) -> Option<f64>,
) -> (Chart, Ticks) {
    let (series, ticks) = by_h(arms, unit, of);
    let intervals = series.iter().any(|series| !series.intervals.is_empty());
    let about = if intervals {
        "with the 95% t interval over runs"
    } else if arms.iter().all(|arm| arm.values(of).len() < 2) {
        "one run each"
    } else {
        "with no interval: it takes three runs that differ"
    };
    let claim = claim(number);
    let note = match claim.as_str() {
        "" => format!("{note}{about}"),
        claim => format!("{note}{about}; {claim}"),
    };
    let chart = Chart {
        title: title.into(),
        note,
        unit,
        series,
        marks: true,
    };
    (chart, ticks)
}

/// A line for each ladder over log₂ H, with ticks at its H.
fn by_h(
    arms: &[ArmRuns<'_>],
    unit: ValueFormat,
    of: &dyn Fn(&SweepRun) -> Option<f64>,
) -> (Vec<Series>, Ticks) {
    let mut ticks: Ticks = Vec::new();
    let mut all = Vec::new();
    for ladder in ladders(arms) {
        let mut series = Series {
            name: ladder.label(),
            points: Vec::new(),
            intervals: Vec::new(),
        };
        for rung in &ladder.rungs {
            let x = (rung.h() as f64).log2();
            // Rounds repeat a computation, but not its time.
            let values = match unit {
                ValueFormat::Seconds => rung.times(of),
                _ => rung.values(of),
            };
            let Some(spread) = Spread::of(&values) else {
                continue;
            };
            series.points.push((x, spread.mean));
            if let Some(interval) = student::interval(&values, 0.95) {
                series.intervals.push((x, interval.low, interval.high));
            }
            if ticks.iter().all(|(tick, _)| *tick != x) {
                ticks.push((x, format!("H = {}", rung.h())));
            }
        }
        all.push(series);
    }
    ticks.sort_by(|a, b| a.0.total_cmp(&b.0));
    (all, ticks)
}

/// Figure 1: the seconds of training by activity, a bar for each arm.
fn time_of_arms(arms: &[ArmRuns<'_>]) -> Option<Figure> {
    let seconds = |arm: &ArmRuns<'_>, activity: Activity| -> f64 {
        let values = arm.times(|run| Some(run.times()?.of_activity(activity)));
        Spread::of(&values).map_or(0.0, |spread| spread.mean)
    };
    let timed: Vec<&ArmRuns<'_>> = arms
        .iter()
        .filter(|arm| !arm.times(SweepRun::minutes).is_empty())
        .collect();
    let parts: Vec<Activity> = Activity::ALL
        .into_iter()
        .filter(|activity| activity.is_training())
        .filter(|activity| timed.iter().any(|arm| seconds(arm, *activity) > 0.0))
        .collect();
    let bars: Vec<Bar> = timed
        .iter()
        .map(|arm| {
            let values: Vec<f64> = parts.iter().map(|part| seconds(arm, *part)).collect();
            Bar {
                label: arm.label(),
                total: format_value(values.iter().sum(), ValueFormat::Seconds),
                remarks: vec![None; values.len()],
                values,
            }
        })
        .collect();
    let stack = Stack {
        title: "Figure 1: time of training by arm".into(),
        note: format!("mean over the finished runs; {}", claim(1)),
        parts: parts.iter().map(|part| part.name().to_owned()).collect(),
        bars,
    };
    (!stack.bars.is_empty()).then(|| Figure {
        file: "figure-1.svg".into(),
        html: stack.render(),
        svg: stack.file(),
        place: Place::Wide,
    })
}

/// Figure 3: the token-level weights of the last recorded completion of a run with the largest H, which an arm that chooses H has chosen for that completion's phase.
fn token_weights(arms: &[ArmRuns<'_>]) -> Option<Chart> {
    let recorded = arms.iter().filter_map(|arm| {
        let runs = arm.runs.iter().filter(|run| run.finished());
        let mut last = runs.filter_map(|run| Some((run, run.data.as_ref()?.weights.last()?)));
        let (run, weights) = last.next()?;
        let chosen = weights.update + 1;
        let h = if arm.config.algorithm.auto_h > 0.0 {
            chosen
        } else {
            arm.h()
        };
        Some((h, (run, weights)))
    });
    // Of equal H, the first arm's.
    let (_, (run, weights)) =
        recorded.reduce(|best, next| if next.0 > best.0 { next } else { best })?;
    let points = (1..).zip(weights.log_ratios());
    Some(Chart {
        title: "Figure 3: token-level importance weights".into(),
        note: format!(
            "log π/μ of each token of one completion: {}, phase {}, its last update ({} after sampling), task {}, reward {}; {}",
            run.planned.name,
            weights.phase + 1,
            weights.update,
            weights.task,
            weights.reward,
            claim(3)
        ),
        unit: ValueFormat::Number,
        series: vec![Series {
            name: run.planned.name.clone(),
            points: points
                .map(|(token, ratio)| (f64::from(token), ratio))
                .collect(),
            intervals: Vec::new(),
        }],
        marks: false,
    })
}

/// Figure 4: the share of weights above η over the updates, mean over the runs, with a line for each H of the ladders above 1.
fn clipped(arms: &[ArmRuns<'_>]) -> Chart {
    let rungs = ladders(arms)
        .into_iter()
        .flat_map(|ladder| ladder.rungs)
        .filter(|rung| rung.h() > 1);
    let series = rungs.map(|rung| Series {
        name: rung.label(),
        points: mean_by_update(rung, |step| step.algo.clip_share),
        intervals: Vec::new(),
    });
    Chart {
        title: "Figure 4: clipped weights".into(),
        note: format!(
            "share of importance weights above η, by update, mean over runs; {}",
            claim(4)
        ),
        unit: ValueFormat::Share,
        series: series.collect(),
        marks: false,
    }
}

/// The mean of a quantity over the finished runs, for each update that all of them have.
fn mean_by_update(arm: &ArmRuns<'_>, quantity: fn(&StepRecord) -> f64) -> Vec<(f64, f64)> {
    let runs: Vec<&[StepRecord]> = arm
        .runs
        .iter()
        .filter(|run| run.finished())
        .map(|run| run.steps())
        .collect();
    let updates = runs.iter().map(|steps| steps.len()).min().unwrap_or(0);
    (0..updates)
        .map(|update| {
            let sum: f64 = runs.iter().map(|steps| quantity(&steps[update])).sum();
            (runs[0][update].step as f64, sum / runs.len() as f64)
        })
        .collect()
}
