//! The figures of the report: the estimates and intervals of the tests as forest plots, and the paper's.

use super::arms::{ArmRuns, at_point, ladders};
use super::runs::SweepRun;
use super::significance::Tests;
use crate::paper::PAPER;
use crate::record::{Activity, StepRecord};
use crate::report::axis::{ValueFormat, format_value};
use crate::report::figure::Figure;
use crate::report::line_chart::{LineChart, Series};
use crate::report::row_chart::RowChart;
use crate::report::table::points_as_given;
use crate::report::time_chart::{Bar, stacked};
use crate::statistics::{Spread, student};

/// A figure, on the page and as a file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SweepFigure {
    pub(super) file: &'static str,
    /// The name of the table above it on the page.
    pub(super) below: &'static str,
    pub(super) figure: Figure,
}

/// A quantity of a run, drawn over H.
struct ByH {
    file: &'static str,
    /// The table with its numbers.
    table: &'static str,
    title: &'static str,
    note: &'static str,
    unit: ValueFormat,
    of: fn(&SweepRun) -> Option<f64>,
}

const BY_H: [ByH; 5] = [
    ByH {
        file: "figure-2-length.svg",
        table: "figures-2-and-4",
        title: "Figure 2: completion length by H",
        note: "mean tokens of a completion in training; ",
        unit: ValueFormat::Number,
        of: |run| run.mean_of(|step| Some(step.length_mean)),
    },
    ByH {
        file: "figure-2-inference.svg",
        table: "figures-2-and-4",
        title: "Figure 2: time of inference by H",
        note: "per run; ",
        unit: ValueFormat::Seconds,
        of: |run| Some(run.times()?.of_activity(Activity::Inference)),
    },
    ByH {
        file: "table-3-pass-at-1.svg",
        table: "table-3",
        title: "Pass@1 by H",
        note: "after the last update, mean over seeds; ",
        unit: ValueFormat::Share,
        of: |run| run.pass_at(1),
    },
    ByH {
        file: "table-3-time.svg",
        table: "table-3",
        title: "Time of training by H",
        note: "per run; ",
        unit: ValueFormat::Seconds,
        of: |run| Some(60.0 * run.minutes()?),
    },
    ByH {
        file: "table-3-staleness.svg",
        table: "table-3",
        title: "Staleness by H",
        note: "|log of the mean capped weight|, averaged over the updates; ",
        unit: ValueFormat::Number,
        of: SweepRun::staleness,
    },
];

/// All figures that the sweep has data for: those of the tests, then the paper's.
pub(super) fn all(arms: &[ArmRuns<'_>], tests: &Tests<'_, '_>) -> Vec<SweepFigure> {
    let mut all = Vec::new();
    let mut add = |file, below, figure: Option<Figure>| {
        let figure = figure.map(|figure| SweepFigure {
            file,
            below,
            figure,
        });
        all.extend(figure);
    };
    let differences = comparisons(tests).figure();
    add("comparisons.svg", "comparisons", differences);
    add("effects.svg", "effects", effects(tests).figure());
    add("figure-1.svg", "figure-1", time_of_arms(arms).figure());
    for quantity in &BY_H {
        add(quantity.file, quantity.table, quantity.chart(arms).figure());
    }
    let weights = token_weights(arms).and_then(|chart| chart.figure());
    add("figure-3.svg", "runs", weights);
    add("figure-4.svg", "figures-2-and-4", clipped(arms).figure());
    all
}

/// The difference of every arm from the reference.
fn comparisons(tests: &Tests<'_, '_>) -> RowChart {
    let reference = tests.compared.first().map_or("", |it| it.reference.arm);
    let margin = tests.tested.then_some(tests.margin);
    let of_margin = margin.map(points_as_given).map_or_else(String::new, |it| {
        format!("; the equivalence margin is ±\u{a0}{it}")
    });
    let rows = tests.compared.iter().filter_map(|compared| {
        let (found, _) = compared.accuracy.as_ref()?;
        Some((compared.arm.label(), &found.difference))
    });
    let note = format!("Pass@1 of each arm − that of {reference}, in points{of_margin}");
    let title = format!("Accuracy beside {reference}");
    RowChart::forest(title, &note, margin, rows)
}

fn effects(tests: &Tests<'_, '_>) -> RowChart {
    let rows = tests.effects.iter().filter_map(|effect| {
        let point = effect.arms.first()?.point;
        Some((at_point(effect.factor, point), &effect.effect))
    });
    let note = "mean Pass@1 of the arms that have the factor − that of all others, in points";
    let title = "Effects of factors on accuracy".to_owned();
    RowChart::forest(title, note, None, rows)
}

/// What the paper says of its figure.
fn claim(number: u32) -> String {
    let figure = PAPER.figures.get(&number.to_string());
    figure.map_or_else(String::new, |figure| {
        format!("the paper, page {}: {}", figure.page, figure.claim)
    })
}

impl ByH {
    fn chart(&self, arms: &[ArmRuns<'_>]) -> LineChart {
        let (series, ticks) = self.lines(arms);
        let about = "with the 95% t interval over runs, where three of them differ";
        let mut note = format!("{}{about}", self.note);
        if self.table == "figures-2-and-4" {
            note = format!("{note}; {}", claim(2));
        }
        LineChart {
            title: self.title.into(),
            note,
            unit: self.unit,
            series,
            ticks,
        }
    }

    /// A line for each ladder over log₂ H, with ticks at its H.
    fn lines(&self, arms: &[ArmRuns<'_>]) -> (Vec<Series>, Vec<(f64, String)>) {
        let (mut all, mut ticks) = (Vec::new(), Vec::new());
        for ladder in ladders(arms) {
            let mut series = Series::new(ladder.label(), Vec::new());
            for rung in &ladder.rungs {
                let x = (rung.h() as f64).log2();
                // Rounds repeat a computation, but not its time.
                let values = match self.unit {
                    ValueFormat::Seconds => rung.times(self.of),
                    _ => rung.values(self.of),
                };
                let Some(spread) = Spread::of(&values) else {
                    continue;
                };
                series.points.push((x, spread.mean));
                let interval = student::interval(&values, 0.95);
                let interval = interval.map(|it| (x, it.low, it.high));
                series.intervals.extend(interval);
                ticks.push((x, format!("H = {}", rung.h())));
            }
            all.push(series);
        }
        ticks.sort_by(|a, b| a.0.total_cmp(&b.0));
        ticks.dedup();
        (all, ticks)
    }
}

/// Figure 1: the seconds of training by activity, a bar for each arm.
fn time_of_arms(arms: &[ArmRuns<'_>]) -> RowChart {
    let seconds = |arm: &ArmRuns<'_>, activity: Activity| -> f64 {
        let values = arm.times(|run| Some(run.times()?.of_activity(activity)));
        Spread::of(&values).map_or(0.0, |spread| spread.mean)
    };
    let is_timed = |arm: &&ArmRuns<'_>| !arm.times(SweepRun::minutes).is_empty();
    let timed: Vec<&ArmRuns<'_>> = arms.iter().filter(is_timed).collect();
    let mut parts = Vec::from(Activity::ALL);
    parts.retain(|part| part.is_training() && timed.iter().any(|arm| seconds(arm, *part) > 0.0));
    let bar = |arm: &&ArmRuns<'_>| -> Bar {
        let values: Vec<f64> = parts.iter().map(|part| seconds(arm, *part)).collect();
        let total = format_value(values.iter().sum(), ValueFormat::Seconds);
        let values = values.into_iter().map(|value| (value, None));
        (arm.label(), total, values.collect())
    };
    stacked(
        "Figure 1: time of training by arm",
        format!("mean over the finished runs; {}", claim(1)),
        &parts,
        timed.iter().map(bar).collect(),
    )
}

/// Figure 3: the token-level weights of the last recorded completion of a run with the largest H. If an arm chooses H, it is the H of that completion's phase.
fn token_weights(arms: &[ArmRuns<'_>]) -> Option<LineChart> {
    let recorded = arms.iter().filter_map(|arm| {
        let runs = arm.runs.iter().filter(|run| run.finished());
        let mut last = runs.filter_map(|run| Some((run, run.data.as_ref()?.weights.last()?)));
        let (run, weights) = last.next()?;
        let chosen = weights.update + 1;
        let chooses = arm.config.algorithm.auto_h > 0.0;
        Some((if chooses { chosen } else { arm.h() }, run, weights))
    });
    // If several arms have this H, the first arm's.
    let (_, run, weights) =
        recorded.reduce(|best, next| if next.0 > best.0 { next } else { best })?;
    let points = (1..).zip(weights.log_ratios());
    let points = points.map(|(token, ratio)| (f64::from(token), ratio));
    Some(LineChart {
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
        series: vec![Series::new(&run.planned.name, points.collect())],
        ..LineChart::default()
    })
}

/// Figure 4: the share of weights above η over the updates, mean over the runs, with a line for each H of the ladders above 1.
fn clipped(arms: &[ArmRuns<'_>]) -> LineChart {
    let rungs = ladders(arms).into_iter().flat_map(|ladder| ladder.rungs);
    let rungs = rungs.filter(|rung| rung.h() > 1);
    let series = rungs.map(|rung| {
        let share = |step: &StepRecord| step.algo.of_measured(|it| it.clip_share);
        Series::new(rung.label(), mean_by_update(rung, share))
    });
    LineChart {
        title: "Figure 4: clipped weights".into(),
        note: format!(
            "share of importance weights above η, by update, mean over runs; {}",
            claim(4)
        ),
        unit: ValueFormat::Share,
        series: series.collect(),
        ..LineChart::default()
    }
}

/// The mean of a quantity over the finished runs with it, for each update that all of these have.
fn mean_by_update(arm: &ArmRuns<'_>, quantity: fn(&StepRecord) -> Option<f64>) -> Vec<(f64, f64)> {
    let finished = arm.runs.iter().filter(|run| run.finished());
    let runs: Vec<&[StepRecord]> = finished.map(|run| run.steps()).collect();
    let updates = runs.iter().map(|steps| steps.len()).min().unwrap_or(0);
    let mean = |update: usize| {
        let values = runs.iter().filter_map(|steps| quantity(&steps[update]));
        let values: Vec<f64> = values.collect();
        let step = runs[0][update].step as f64;
        (!values.is_empty()).then(|| (step, values.iter().sum::<f64>() / values.len() as f64))
    };
    (0..updates).filter_map(mean).collect()
}
