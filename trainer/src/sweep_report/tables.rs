//! The tables of the report: the paper's, and every run.

use std::collections::{BTreeMap, BTreeSet};

use super::arms::{ArmRuns, grouped, ladders};
use super::paper_row;
use super::runs::SweepRun;
use super::significance::Tests;
use super::significance_tables::{comparisons, effects, slopes, time_ratios};
use super::time_to_target::times_to_target;
use crate::paper::{Measured, PaperCorrelation, PaperResult};
use crate::record::{Activity, RunTimes};
use crate::report::table::{Cell, Columns, Form, POINTS, Table};
use crate::statistics::{Correlation, Spread, pearson};
use crate::sweep::SweepFolder;

/// All tables that the sweep has data for.
pub(super) fn all(
    folder: &SweepFolder,
    runs: &[SweepRun],
    arms: &[ArmRuns<'_>],
    tests: &Tests<'_, '_>,
) -> Vec<Table> {
    let compare = folder.file.compare.as_ref();
    let target = compare.and_then(|compare| compare.target);
    let mut tables = vec![
        slopes(tests),
        comparisons(tests),
        effects(tests),
        time_ratios(tests),
    ];
    tables.extend(target.map(|target| times_to_target(arms, target)));
    tables.extend([
        algorithms(arms),
        by_h(arms),
        correlations(arms),
        times(arms),
        figures(arms),
        every_run(runs),
    ]);
    tables.retain(|table| table.rows() > 0);
    tables
}

fn ks(arms: &[ArmRuns<'_>]) -> BTreeSet<usize> {
    arms.iter().flat_map(ArmRuns::ks).collect()
}

/// A column of each Pass@k, of the values of the seeds.
fn pass_columns<R>(
    columns: &mut Columns<'_, R>,
    ks: &BTreeSet<usize>,
    passes: impl Fn(&R, usize) -> Vec<f64>,
) {
    for &k in ks {
        let (heading, name) = (format!("Pass@{k}, %"), format!("pass_at_{k}_percent"));
        columns.add(&heading, &name, Form::Spread(1), |row| {
            Cell::spread(&passes(row, k), POINTS)
        });
    }
}

fn paper_columns<R>(
    columns: &mut Columns<'_, R>,
    row: impl Fn(&R) -> Option<&'static PaperResult>,
) {
    let mut add = |heading, name, of: fn(&PaperResult) -> Option<Measured>| {
        let cell = |it: &R| measured(row(it).and_then(of));
        columns.add(heading, name, Form::Spread(1), cell).of_paper();
    };
    add("Pass@1, %", "pass_at_1_percent", |row| Some(row.pass_at_1));
    add("Pass@8, %", "pass_at_8_percent", |row| row.pass_at_8);
    add("minutes", "minutes", |row| row.minutes);
}

fn measured(value: Option<Measured>) -> Cell {
    Cell::Numbers([value.map(|it| it.mean), value.and_then(|it| it.sd), None])
}

/// A row of Table 1: an arm, or a model before training.
struct Accuracy {
    label: String,
    seeds: usize,
    /// Each Pass@k of the seeds.
    passes: BTreeMap<usize, Vec<f64>>,
    /// Minutes of the timed runs; `None` before training.
    minutes: Option<Vec<f64>>,
    paper: Option<&'static PaperResult>,
}

/// Accuracy and time by algorithm, as in Tables 1 and 2.
fn algorithms(arms: &[ArmRuns<'_>]) -> Table {
    let ks = ks(arms);
    let of_arms = arms.iter().map(|arm| Accuracy {
        label: arm.label(),
        seeds: arm.counted().len(),
        passes: of_each(&ks, |k| arm.values(|run| run.pass_at(k))),
        minutes: Some(arm.times(SweepRun::minutes)),
        paper: paper_row::of(arm),
    });
    let rows: Vec<Accuracy> = bases(arms, &ks).into_iter().chain(of_arms).collect();
    let mut columns = Columns::of(&rows);
    columns.text("arm", "arm", |row| row.label.clone());
    columns.count("seeds", "seeds", |row| row.seeds);
    pass_columns(&mut columns, &ks, |row, k| row.passes[&k].clone());
    columns.number("timed runs", "timed_runs", 0, |row| {
        Some(row.minutes.as_ref()?.len() as f64)
    });
    columns.spread("minutes of training", "minutes", 2, |row| {
        row.minutes.clone().unwrap_or_default()
    });
    let paper = |row: &Accuracy| {
        let row = row.paper?;
        Some(format!("Table {}, {}", row.table, row.algorithm))
    };
    let cell = |row: &Accuracy| Cell::some_text(paper(row));
    columns.add("row", "row", Form::Text, cell).of_paper();
    paper_columns(&mut columns, |row| row.paper);
    let note = "The form of the paper's Tables 1 and 2: mean ± standard deviation over seeds, after the last update. A run that diverged counts with its last evaluation after an update, or with 0. Minutes are those of training, without start and evaluations, over all runs. The paper's columns are of its data set of the same kind, and of the model here if it has that, else of qwen2.5-0.5b: on four A6000 GPUs, means of three runs, or single runs of models other than qwen2.5-0.5b.";
    columns.table("table-1", "Accuracy and time by algorithm", note)
}

fn of_each(ks: &BTreeSet<usize>, of: impl Fn(usize) -> Vec<f64>) -> BTreeMap<usize, Vec<f64>> {
    ks.iter().map(|k| (*k, of(*k))).collect()
}

/// A row for each model and data set that was evaluated before training. Their arms begin with the same evaluation, so those of the first arm are enough.
fn bases(arms: &[ArmRuns<'_>], ks: &BTreeSet<usize>) -> Vec<Accuracy> {
    let models = grouped(arms, |arm| (&arm.config.model, arm.config.data.name()));
    let base = |arm: &ArmRuns<'_>| {
        let label = match models.len() {
            1 => "before training".to_owned(),
            _ => format!("{}, before training", arm.label()),
        };
        let first_rounds = arm.runs.iter().filter(|run| run.planned.round == 0);
        let evals: Vec<_> = first_rounds.filter_map(|run| run.base()).collect();
        let pass_at = |k: usize| {
            let passes = evals.iter().filter_map(|eval| eval.pass_at.get(&k));
            passes.map(|pass| pass.mean).collect()
        };
        (!evals.is_empty()).then(|| Accuracy {
            label,
            seeds: evals.len(),
            passes: of_each(ks, pass_at),
            minutes: None,
            paper: paper_row::row(arm.config, "base"),
        })
    };
    let firsts = models.iter().map(|(_, arms)| arms[0]);
    firsts.filter_map(base).collect()
}

fn rungs<'a, 'r>(arms: &'r [ArmRuns<'a>]) -> Vec<&'r ArmRuns<'a>> {
    let ladders = ladders(arms).into_iter();
    ladders.flat_map(|ladder| ladder.rungs).collect()
}

/// A table by H begins with these columns.
fn rung_columns<'r, 'a>(rungs: &'r [&'r ArmRuns<'a>]) -> Columns<'r, &'r ArmRuns<'a>> {
    let mut columns = Columns::of(rungs);
    columns.text("H", "h", |rung| rung.h().to_string());
    columns.text("arm", "arm", |rung| rung.label());
    columns
}

/// Accuracy, time and staleness by H, as in Table 3.
fn by_h(arms: &[ArmRuns<'_>]) -> Table {
    let rungs = rungs(arms);
    let mut columns = rung_columns(&rungs);
    pass_columns(&mut columns, &ks(arms), |rung, k| {
        rung.values(|run| run.pass_at(k))
    });
    columns.spread("minutes of training", "minutes", 2, |rung| {
        rung.times(SweepRun::minutes)
    });
    columns.spread("staleness, nats", "staleness", 3, |rung| {
        rung.values(SweepRun::staleness)
    });
    columns.spread("of a quarter", "staleness_quarter", 3, |rung| {
        rung.values(SweepRun::staleness_of_a_quarter)
    });
    paper_columns(&mut columns, |rung| paper_row::by_h(rung));
    let (heading, name) = ("staleness, nats", "staleness");
    let staleness = columns.add(heading, name, Form::Spread(2), |rung| {
        measured(paper_row::by_h(rung).and_then(|row| row.staleness))
    });
    staleness.of_paper();
    let note = "The form of the paper's Table 3, whose H = 1 is the policy gradient of Table 1. Staleness is |log of the mean of the capped weights|, averaged over the updates. The authors compute theirs on the samples of one of four GPUs, a quarter of a mini-batch: compare the paper's column with that. Runs with `run.metrics = \"trained\"` have it of completions with a gradient alone.";
    let title = "Accuracy, time and staleness by H";
    columns.table("table-3", title, note)
}

/// A row of Table 4: Pearson's r over the runs of an estimator.
struct Correlated {
    estimator: String,
    metric: String,
    /// Between H and the accuracy, the time and the staleness.
    ours: [Option<Correlation>; 3],
    paper: Option<&'static PaperCorrelation>,
}

impl Correlated {
    fn runs(&self) -> usize {
        let pairs = self.ours.iter().flatten().map(|found| found.pairs);
        pairs.max().unwrap_or(0)
    }
}

/// Pearson's r between H and accuracy, time and staleness, as in Table 4.
fn correlations(arms: &[ArmRuns<'_>]) -> Table {
    let mut rows = Vec::new();
    for ladder in ladders(arms) {
        let rungs = ladder.of_one_estimator();
        let with_h = |values: &dyn Fn(&ArmRuns<'_>) -> Vec<f64>| {
            let pairs = |rung: &&ArmRuns<'_>| {
                let h = rung.h() as f64;
                let values = values(rung).into_iter();
                values.map(move |value| (h, value)).collect::<Vec<_>>()
            };
            pearson(&rungs.iter().flat_map(pairs).collect::<Vec<_>>())
        };
        let time = with_h(&|rung| rung.times(SweepRun::minutes));
        let staleness = with_h(&|rung| rung.values(SweepRun::staleness));
        let accuracy = |k: usize| with_h(&|rung| rung.values(|run| run.pass_at(k)));
        let accuracies = ks(arms).into_iter();
        let mut metrics: Vec<(String, Option<Correlation>)> = accuracies
            .map(|k| (format!("Pass@{k}"), accuracy(k)))
            .collect();
        if metrics.is_empty() {
            metrics.push(("none".to_owned(), None));
        }
        rows.extend(metrics.into_iter().map(|(metric, accuracy)| Correlated {
            estimator: ladder.label(),
            paper: paper_row::correlation(rungs, &metric),
            metric,
            ours: [accuracy, time, staleness],
        }));
    }
    rows.retain(|row| row.runs() > 0);
    let mut columns = Columns::of(&rows);
    columns.text("estimator", "estimator", |row| row.estimator.clone());
    columns.text("metric", "metric", |row| row.metric.clone());
    columns.count("runs", "runs", Correlated::runs);
    let quantities = ["accuracy", "time", "staleness"];
    let names = quantities.map(|name| (format!("r(H, {name})"), format!("r_{name}")));
    for (number, (heading, name)) in names.iter().enumerate() {
        columns.add(heading, name, Form::Interval(3), |row| {
            let found = row.ours[number];
            found.map_or(Cell::NONE, |it| Cell::interval(it.r, it.interval, 1.0))
        });
    }
    for (number, (heading, name)) in names.iter().enumerate() {
        let paper = columns.number(heading, name, 3, |row| {
            let paper = row.paper?;
            Some([paper.accuracy, paper.time, paper.staleness][number])
        });
        paper.of_paper();
    }
    let note = "The form of the paper's Table 4: Pearson's r over the runs of one estimator, each run a pair. The intervals are Fisher's, which take runs as independent; those of one seed are not. Times are those of all runs, whatever they ran on.";
    columns.table("table-4", "Correlations with H", note)
}

/// Seconds by activity: the numbers of Figure 1.
fn times(arms: &[ArmRuns<'_>]) -> Table {
    let is_timed = |arm: &&ArmRuns<'_>| !arm.times(SweepRun::minutes).is_empty();
    let timed: Vec<&ArmRuns<'_>> = arms.iter().filter(is_timed).collect();
    let mean = |arm: &ArmRuns<'_>, of: &dyn Fn(&RunTimes) -> f64| {
        let values = arm.times(|run| Some(of(&run.times()?)));
        Spread::of(&values).map(|spread| spread.mean)
    };
    let mut columns = Columns::of(&timed);
    columns.text("arm", "arm", |arm| arm.label());
    for activity in Activity::ALL {
        let has = |run: &SweepRun| run.times()?.seconds.get(&activity).copied();
        if timed.iter().any(|arm| !arm.times(has).is_empty()) {
            let name = format!("{}_seconds", activity.name());
            columns.number(activity.name(), &name, 1, |arm| {
                mean(arm, &|times| times.of_activity(activity))
            });
        }
    }
    columns.spread("training", "training_seconds", 1, |arm| {
        arm.times(|run| Some(60.0 * run.minutes()?))
    });
    columns.number("in all", "wall_seconds", 1, |arm| {
        mean(arm, &RunTimes::wall)
    });
    let note = "Seconds of a run by activity, mean over the finished runs. Training is all but start, evaluation and lost work.";
    columns.table("figure-1", "Where the time went", note)
}

/// The numbers of Figures 2 and 4.
fn figures(arms: &[ArmRuns<'_>]) -> Table {
    let rungs = rungs(arms);
    let mut columns = rung_columns(&rungs);
    columns.spread("tokens", "tokens", 1, |rung| {
        rung.values(|run| run.mean_of(|step| Some(step.length_mean)))
    });
    columns.spread("minutes of inference", "inference_minutes", 2, |rung| {
        rung.times(|run| Some(run.times()?.of_activity(Activity::Inference) / 60.0))
    });
    let (heading, name) = ("weights clipped, %", "clipped_percent");
    columns.add(heading, name, Form::Spread(2), |rung| {
        let shares =
            rung.values(|run| run.mean_of(|step| step.algo.of_measured(|it| it.clip_share)));
        Cell::spread(&shares, POINTS)
    });
    let title = "Length, inference and clipped weights by H";
    let note = "The numbers of Figures 2 and 4: the mean tokens of a completion in training, the minutes of inference, and the share of importance weights above η.";
    columns.table("figures-2-and-4", title, note)
}

fn every_run(runs: &[SweepRun]) -> Table {
    let joined = |of: &BTreeSet<String>| Vec::from_iter(of.iter().map(String::as_str)).join(", ");
    let short = |digest: &String| digest.chars().take(12).collect();
    let mut columns = Columns::of(runs);
    columns.text("run", "run", |run| run.planned.name.clone());
    columns.text("state", "state", |run| run.state.name().to_owned());
    columns.count("updates", "updates", |run| run.steps().len());
    columns.number("Pass@1, %", "pass_at_1_percent", 1, |run| {
        Some(POINTS * run.pass_at(1)?)
    });
    columns.number("minutes of training", "minutes", 2, SweepRun::minutes);
    columns.text("processor", "processor", |run| joined(&run.processors));
    columns.text("program, SHA-256", "program", |run| {
        joined(&run.binaries.iter().map(short).collect())
    });
    columns.add("why not", "reason", Form::Text, |run| {
        Cell::some_text(run.reason.as_ref())
    });
    let note = "Runs that are not finished are in no table above, except those that diverged: these count with their last evaluation, or with 0 if there is none after an update.";
    columns.table("runs", "Every planned run", note)
}
