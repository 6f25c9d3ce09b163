//! The tables of the report.

use std::collections::BTreeSet;

use super::arms::{ArmRuns, ladders};
use super::paper_row;
use super::runs::SweepRun;
use super::test_tables::{comparisons, effects, slopes, time_ratios};
use super::tests_of_arms::Tests;
use super::time_to_target::times_to_target;
use crate::paper::{Measured, PaperResult};
use crate::record::Activity;
use crate::report::table::{Cell, Column, Form, POINTS, Table};
use crate::statistics::{Correlation, pearson};
use crate::sweep::SweepFolder;

/// All tables that the sweep has data for.
pub(super) fn all(
    folder: &SweepFolder,
    runs: &[SweepRun],
    arms: &[ArmRuns<'_>],
    tests: &Tests<'_, '_>,
) -> Vec<Table> {
    let compare = folder.file().compare.as_ref();
    let target = compare.and_then(|compare| compare.target);
    let tables = [
        slopes(tests),
        comparisons(tests),
        effects(tests),
        time_ratios(tests),
        times_to_target(arms, target),
        algorithms(arms),
        by_h(arms),
        correlations(arms),
        times(arms),
        figures(arms),
        every_run(runs),
    ];
    tables
        .into_iter()
        .filter(|table| !table.rows.is_empty())
        .collect()
}

fn ks(arms: &[ArmRuns<'_>]) -> BTreeSet<usize> {
    arms.iter().flat_map(ArmRuns::ks).collect()
}

fn passes(arm: &ArmRuns<'_>, k: usize) -> Vec<f64> {
    let counted = arm.counted();
    counted.values().filter_map(|run| run.pass_at(k)).collect()
}

fn pass_columns(ks: &BTreeSet<usize>) -> impl Iterator<Item = Column> {
    ks.iter().map(|k| {
        Column::new(
            format!("Pass@{k}, %"),
            format!("pass_at_{k}_percent"),
            Form::Spread(1),
        )
    })
}

fn paper_columns() -> [Column; 3] {
    [
        Column::paper("Pass@1, %", "pass_at_1_percent", Form::Spread(1)),
        Column::paper("Pass@8, %", "pass_at_8_percent", Form::Spread(1)),
        Column::paper("minutes", "minutes", Form::Spread(1)),
    ]
}

fn measured(value: Option<Measured>) -> Cell {
    value.map_or(Cell::None, |value| Cell::Spread(value.mean, value.sd))
}

fn paper_cells(row: Option<&PaperResult>) -> [Cell; 3] {
    [
        measured(row.map(|row| row.pass_at_1)),
        measured(row.and_then(|row| row.pass_at_8)),
        measured(row.and_then(|row| row.minutes)),
    ]
}

/// Whose numbers the paper's columns have.
fn paper_note(arms: &[ArmRuns<'_>]) -> String {
    let mut whose = Vec::new();
    let mut same = true;
    for config in arms.iter().map(|arm| arm.config) {
        let Some(dataset) = paper_row::dataset(config) else {
            continue;
        };
        let model = paper_row::model(config, dataset);
        same &= config.model.name.as_deref() == Some(model) && config.data.dataset == dataset;
        let name = format!("{model} on {}", paper_row::title(dataset));
        if !whose.contains(&name) {
            whose.push(name);
        }
    }
    if whose.is_empty() {
        return String::new();
    }
    let other = if same {
        ""
    } else {
        " Models or tasks are others than here."
    };
    format!(
        " The paper's columns are of {}, on four A6000 GPUs: means of three runs, or single runs of models other than qwen2.5-0.5b.{other}",
        whose.join(" and ")
    )
}

/// Accuracy and time by algorithm, as in Tables 1 and 2.
fn algorithms(arms: &[ArmRuns<'_>]) -> Table {
    let ks = ks(arms);
    let mut columns = vec![
        Column::new("arm", "arm", Form::Text),
        Column::new("seeds", "seeds", Form::Number(0)),
    ];
    columns.extend(pass_columns(&ks));
    columns.extend([
        Column::new("timed runs", "timed_runs", Form::Number(0)),
        Column::new("minutes of training", "minutes", Form::Spread(2)),
        Column::paper("row", "row", Form::Text),
    ]);
    columns.extend(paper_columns());
    let bases = bases(arms, &ks);
    let of_arms = arms.iter().map(|arm| {
        let row = paper_row::of(arm);
        let minutes = arm.times(SweepRun::minutes);
        let mut cells = vec![
            Cell::text(arm.label()),
            Cell::Number(arm.counted().len() as f64),
        ];
        cells.extend(ks.iter().map(|k| Cell::spread(&passes(arm, *k), POINTS)));
        cells.extend([
            Cell::Number(minutes.len() as f64),
            Cell::spread(&minutes, 1.0),
            row_name(row),
        ]);
        cells.extend(paper_cells(row));
        cells
    });
    Table {
        name: "table-1",
        title: "Accuracy and time by algorithm".into(),
        note: format!(
            "The form of the paper's Tables 1 and 2: mean ± standard deviation over seeds, after the last update. A run that diverged counts with its last evaluation after an update, or with 0. Minutes are those of training, without start and evaluations, over all runs.{}",
            paper_note(arms)
        ),
        columns,
        rows: bases.into_iter().chain(of_arms).collect(),
    }
}

fn row_name(row: Option<&PaperResult>) -> Cell {
    row.map_or(Cell::None, |row| {
        Cell::text(format!("Table {}, {}", row.table, row.algorithm))
    })
}

/// A row for each model and data set: the model before training. Their arms begin with the same evaluation, so those of the first arm are enough.
fn bases(arms: &[ArmRuns<'_>], ks: &BTreeSet<usize>) -> Vec<Vec<Cell>> {
    let begin = |arm: &ArmRuns<'_>| (arm.config.model.clone(), arm.config.data.dataset.clone());
    let mut firsts: Vec<&ArmRuns<'_>> = Vec::new();
    for arm in arms {
        if firsts.iter().all(|first| begin(first) != begin(arm)) {
            firsts.push(arm);
        }
    }
    let label = |arm: &ArmRuns<'_>| match firsts.len() {
        1 => "before training".to_owned(),
        _ => format!("{}, before training", arm.label()),
    };
    let rows = firsts.iter().map(|arm| base(arm, label(arm), ks));
    rows.flatten().collect()
}

/// The row of the model before training; `None` if it was not evaluated.
fn base(arm: &ArmRuns<'_>, label: String, ks: &BTreeSet<usize>) -> Option<Vec<Cell>> {
    let bases = || arm.runs.iter().filter(|run| run.planned.round == 0);
    let values = |k: usize| -> Vec<f64> {
        let evals = bases().filter_map(|run| run.base());
        evals
            .filter_map(|eval| Some(eval.pass_at.get(&k)?.mean))
            .collect()
    };
    let seeds = bases().filter(|run| run.base().is_some()).count();
    let row = paper_row::row(arm.config, "base");
    let mut cells = vec![Cell::text(label), Cell::Number(seeds as f64)];
    cells.extend(ks.iter().map(|k| Cell::spread(&values(*k), POINTS)));
    cells.extend([Cell::None, Cell::None, row_name(row)]);
    cells.extend(paper_cells(row));
    (seeds > 0).then_some(cells)
}

/// Accuracy, time and staleness by H, as in Table 3.
fn by_h(arms: &[ArmRuns<'_>]) -> Table {
    let ks = ks(arms);
    let mut columns = vec![
        Column::new("H", "h", Form::Number(0)),
        Column::new("arm", "arm", Form::Text),
    ];
    columns.extend(pass_columns(&ks));
    columns.extend([
        Column::new("minutes of training", "minutes", Form::Spread(2)),
        Column::new("staleness, nats", "staleness", Form::Spread(3)),
        Column::new("of a quarter", "staleness_quarter", Form::Spread(3)),
    ]);
    columns.extend(paper_columns());
    columns.push(Column::paper(
        "staleness, nats",
        "staleness",
        Form::Spread(2),
    ));
    let mut rows = Vec::new();
    for ladder in ladders(arms) {
        for rung in &ladder.rungs {
            let row = paper_row::by_h(rung);
            let mut cells = vec![Cell::Number(rung.h() as f64), Cell::text(rung.label())];
            cells.extend(ks.iter().map(|k| Cell::spread(&passes(rung, *k), POINTS)));
            cells.extend([
                Cell::spread(&rung.times(SweepRun::minutes), 1.0),
                Cell::spread(&rung.values(SweepRun::staleness), 1.0),
                Cell::spread(&rung.values(SweepRun::staleness_of_a_quarter), 1.0),
            ]);
            cells.extend(paper_cells(row));
            cells.push(measured(row.and_then(|row| row.staleness)));
            rows.push(cells);
        }
    }
    Table {
        name: "table-3",
        title: "Accuracy, time and staleness by H".into(),
        note: "The form of the paper's Table 3, whose H = 1 is the policy gradient of Table 1. Staleness is |log of the mean of the capped weights|, averaged over the updates. The authors compute theirs on the samples of one of four GPUs, a quarter of a mini-batch: compare the paper's column with that.".into(),
        columns,
        rows,
    }
}

/// Pearson's r between H and accuracy, time and staleness, as in Table 4.
fn correlations(arms: &[ArmRuns<'_>]) -> Table {
    let mut rows = Vec::new();
    for ladder in ladders(arms) {
        let rungs = ladder.of_one_estimator();
        let of = |values: &dyn Fn(&ArmRuns<'_>) -> Vec<f64>| {
            let pairs: Vec<(f64, f64)> = rungs
                .iter()
                .flat_map(|rung| {
                    let h = rung.h() as f64;
                    values(rung).into_iter().map(move |value| (h, value))
                })
                .collect();
            pearson(&pairs)
        };
        let cell = |correlation: Option<Correlation>| {
            correlation.map_or(Cell::None, |found| Cell::Interval(found.r, found.interval))
        };
        let time = of(&|rung| rung.times(SweepRun::minutes));
        let stale = of(&|rung| rung.values(SweepRun::staleness));
        let accuracies = ks(arms).into_iter().map(|k| {
            let found = of(&|rung| rung.values(|run| run.pass_at(k)));
            (format!("Pass@{k}"), found)
        });
        let metrics: Vec<(String, Option<Correlation>)> = accuracies.collect();
        let metrics = if metrics.is_empty() {
            vec![("none".to_owned(), None)]
        } else {
            metrics
        };
        for (metric, accuracy) in metrics {
            let all = [accuracy, time, stale];
            let runs = all.iter().flatten().map(|found| found.pairs).max();
            let Some(runs) = runs else { continue };
            let paper = paper_row::correlation(rungs, &metric);
            let mut cells = vec![
                Cell::text(ladder.label()),
                Cell::text(metric),
                Cell::Number(runs as f64),
            ];
            cells.extend(all.map(cell));
            cells.extend([
                Cell::number(paper.map(|row| row.accuracy)),
                Cell::number(paper.map(|row| row.time)),
                Cell::number(paper.map(|row| row.staleness)),
            ]);
            rows.push(cells);
        }
    }
    let quantities = [
        ("accuracy", "accuracy"),
        ("time", "time"),
        ("staleness", "staleness"),
    ];
    let ours = quantities.map(|(heading, name)| {
        Column::new(
            format!("r(H, {heading})"),
            format!("r_{name}"),
            Form::Interval(3),
        )
    });
    let papers = quantities.map(|(heading, name)| {
        Column::paper(
            format!("r(H, {heading})"),
            &format!("r_{name}"),
            Form::Number(3),
        )
    });
    Table {
        name: "table-4",
        title: "Correlations with H".into(),
        note: "The form of the paper's Table 4: Pearson's r over the runs of one estimator, each run a pair. The intervals are Fisher's, which take runs as independent; those of one seed are not. Times are those of all runs, whatever they ran on.".into(),
        columns: [
            Column::new("estimator", "estimator", Form::Text),
            Column::new("metric", "metric", Form::Text),
            Column::new("runs", "runs", Form::Number(0)),
        ]
        .into_iter()
        .chain(ours)
        .chain(papers)
        .collect(),
        rows,
    }
}

/// Seconds by activity: the numbers of Figure 1.
fn times(arms: &[ArmRuns<'_>]) -> Table {
    let has = |activity: Activity| {
        let mut runs = arms.iter().flat_map(|arm| &arm.runs);
        runs.any(|run| {
            run.times()
                .is_some_and(|times| times.seconds.contains_key(&activity))
        })
    };
    let activities: Vec<Activity> = Activity::ALL.into_iter().filter(|one| has(*one)).collect();
    let mut columns = vec![Column::new("arm", "arm", Form::Text)];
    columns.extend(activities.iter().map(|activity| {
        Column::new(
            activity.name(),
            format!("{}_seconds", activity.name()),
            Form::Number(1),
        )
    }));
    columns.extend([
        Column::new("training", "training_seconds", Form::Spread(1)),
        Column::new("in all", "wall_seconds", Form::Number(1)),
    ]);
    let rows = arms.iter().filter_map(|arm| {
        let mean = |of: &dyn Fn(&SweepRun) -> Option<f64>| {
            let values = arm.times(of);
            Cell::number(
                (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64),
            )
        };
        let training = arm.times(|run| Some(60.0 * run.minutes()?));
        let mut cells = vec![Cell::text(arm.label())];
        cells.extend(
            activities
                .iter()
                .map(|activity| mean(&|run| Some(run.times()?.of_activity(*activity)))),
        );
        cells.extend([
            Cell::spread(&training, 1.0),
            mean(&|run| Some(run.times()?.wall())),
        ]);
        (!training.is_empty()).then_some(cells)
    });
    Table {
        name: "figure-1",
        title: "Where the time went".into(),
        note: "Seconds of a run by activity, mean over the finished runs. Training is all but start, evaluation and lost work.".into(),
        columns,
        rows: rows.collect(),
    }
}

/// The numbers of Figures 2 and 4.
fn figures(arms: &[ArmRuns<'_>]) -> Table {
    let rows = ladders(arms).into_iter().flat_map(|ladder| {
        let rung = |rung: &&ArmRuns<'_>| {
            let of = |activity| rung.times(|run| Some(run.times()?.of_activity(activity) / 60.0));
            vec![
                Cell::Number(rung.h() as f64),
                Cell::text(rung.label()),
                Cell::spread(
                    &rung.values(|run| run.mean_of(|step| step.length_mean)),
                    1.0,
                ),
                Cell::spread(&of(Activity::Inference), 1.0),
                Cell::spread(
                    &rung.values(|run| run.mean_of(|step| step.algo.clip_share)),
                    POINTS,
                ),
            ]
        };
        ladder.rungs.iter().map(rung).collect::<Vec<_>>()
    });
    Table {
        name: "figures-2-and-4",
        title: "Length, inference and clipped weights by H".into(),
        note: "The numbers of Figures 2 and 4: the mean tokens of a completion in training, the minutes of inference, and the share of importance weights above η.".into(),
        columns: vec![
            Column::new("H", "h", Form::Number(0)),
            Column::new("arm", "arm", Form::Text),
            Column::new("tokens", "tokens", Form::Spread(1)),
            Column::new("minutes of inference", "inference_minutes", Form::Spread(2)),
            Column::new("weights clipped, %", "clipped_percent", Form::Spread(2)),
        ],
        rows: rows.collect(),
    }
}

/// Every planned run.
fn every_run(runs: &[SweepRun]) -> Table {
    let joined = |of: &BTreeSet<String>, length: usize| {
        let short = of
            .iter()
            .map(|one| one.chars().take(length).collect::<String>());
        Cell::text(short.collect::<Vec<_>>().join(", "))
    };
    let rows = runs.iter().map(|run| {
        vec![
            Cell::text(&run.planned.name),
            Cell::text(run.end.name()),
            Cell::Number(run.steps().len() as f64),
            Cell::number(run.pass_at(1).map(|pass| POINTS * pass)),
            Cell::number(run.minutes()),
            joined(&run.processors, usize::MAX),
            joined(&run.binaries, 12),
            run.end.reason().map_or(Cell::None, Cell::text),
        ]
    });
    Table {
        name: "runs",
        title: "Every planned run".into(),
        note: "Runs that are not finished are in no table above, except those that diverged: these count with their last evaluation, or with 0 if there is none after an update.".into(),
        columns: vec![
            Column::new("run", "run", Form::Text),
            Column::new("state", "state", Form::Text),
            Column::new("updates", "updates", Form::Number(0)),
            Column::new("Pass@1, %", "pass_at_1_percent", Form::Number(1)),
            Column::new("minutes of training", "minutes", Form::Number(2)),
            Column::new("processor", "processor", Form::Text),
            Column::new("program, SHA-256", "program", Form::Text),
            Column::new("why not", "reason", Form::Text),
        ],
        rows: rows.collect(),
    }
}
