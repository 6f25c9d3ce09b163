//! The tables of the report: the paper's, and every run.

use std::collections::{BTreeMap, BTreeSet};

use super::arms::{ArmRuns, grouped, ladders};
use super::columns::Columns;
use super::paper_row;
use super::runs::SweepRun;
use super::test_tables::{comparisons, effects, slopes, time_ratios};
use super::tests_of_arms::Tests;
use super::time_to_target::times_to_target;
use crate::paper::{Measured, PaperCorrelation, PaperResult};
use crate::record::Activity;
use crate::report::table::{Cell, Form, POINTS, Table};
use crate::statistics::{Correlation, Spread, pearson};
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
    tables.retain(|table| !table.rows.is_empty());
    tables
}

fn ks(arms: &[ArmRuns<'_>]) -> BTreeSet<usize> {
    arms.iter().flat_map(ArmRuns::ks).collect()
}

/// A column of each Pass@k, of the values of the seeds.
fn pass_columns<'a, R>(
    columns: &mut Columns<'a, R>,
    ks: &BTreeSet<usize>,
    passes: impl Fn(&R, usize) -> Vec<f64> + Copy + 'a,
) {
    for &k in ks {
        let (heading, name) = (format!("Pass@{k}, %"), format!("pass_at_{k}_percent"));
        columns.ours(&heading, &name, Form::Spread(1), move |row| {
            Cell::spread(&passes(row, k), POINTS)
        });
    }
}

/// The paper's accuracies and times.
fn paper_columns<'a, R>(
    columns: &mut Columns<'a, R>,
    row: impl Fn(&R) -> Option<&'static PaperResult> + Copy + 'a,
) {
    let mut add = |heading, name, of: fn(&PaperResult) -> Option<Measured>| {
        columns.papers(heading, name, Form::Spread(1), move |it| {
            measured(row(it).and_then(of))
        });
    };
    add("Pass@1, %", "pass_at_1_percent", |row| Some(row.pass_at_1));
    add("Pass@8, %", "pass_at_8_percent", |row| row.pass_at_8);
    add("minutes", "minutes", |row| row.minutes);
}

fn measured(value: Option<Measured>) -> Cell {
    value.map_or(Cell::None, |value| Cell::Spread(value.mean, value.sd))
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
    let mut columns = Columns::of("arm", "arm", |row: &Accuracy| row.label.clone());
    columns.count("seeds", "seeds", |row| row.seeds);
    pass_columns(&mut columns, &ks, |row, k| row.passes[&k].clone());
    columns.ours("timed runs", "timed_runs", Form::Number(0), |row| {
        Cell::number(row.minutes.as_ref().map(|minutes| minutes.len() as f64))
    });
    columns.ours("minutes of training", "minutes", Form::Spread(2), |row| {
        Cell::spread(row.minutes.as_deref().unwrap_or_default(), 1.0)
    });
    columns.papers("row", "row", Form::Text, |row| {
        let name = |row: &PaperResult| format!("Table {}, {}", row.table, row.algorithm);
        row.paper.map_or(Cell::None, |row| Cell::text(name(row)))
    });
    paper_columns(&mut columns, |row| row.paper);
    let of_arms = arms.iter().map(|arm| Accuracy {
        label: arm.label(),
        seeds: arm.counted().len(),
        passes: of_each(&ks, |k| arm.values(|run| run.pass_at(k))),
        minutes: Some(arm.times(SweepRun::minutes)),
        paper: paper_row::of(arm),
    });
    let rows = bases(arms, &ks).into_iter().chain(of_arms);
    let note = "The form of the paper's Tables 1 and 2: mean ± standard deviation over seeds, after the last update. A run that diverged counts with its last evaluation after an update, or with 0. Minutes are those of training, without start and evaluations, over all runs. The paper's columns are of its data set of the same kind, and of the model here if it has that, else of qwen2.5-0.5b: on four A6000 GPUs, means of three runs, or single runs of models other than qwen2.5-0.5b.";
    columns.table("table-1", "Accuracy and time by algorithm", note, rows)
}

fn of_each(ks: &BTreeSet<usize>, of: impl Fn(usize) -> Vec<f64>) -> BTreeMap<usize, Vec<f64>> {
    ks.iter().map(|k| (*k, of(*k))).collect()
}

/// A row for each model and data set that was evaluated before training. Their arms begin with the same evaluation, so those of the first arm are enough.
fn bases(arms: &[ArmRuns<'_>], ks: &BTreeSet<usize>) -> Vec<Accuracy> {
    let models = grouped(arms, |arm| (&arm.config.model, &arm.config.data.dataset));
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

/// The rungs of all ladders.
fn rungs<'a, 'r>(arms: &'r [ArmRuns<'a>]) -> impl Iterator<Item = &'r ArmRuns<'a>> {
    ladders(arms).into_iter().flat_map(|ladder| ladder.rungs)
}

/// A table by H begins with these columns.
fn rung_columns<'a>() -> Columns<'a, &'a ArmRuns<'a>> {
    let mut columns = Columns::of("H", "h", |rung: &&ArmRuns<'_>| rung.h().to_string());
    columns.text("arm", "arm", |rung| rung.label());
    columns
}

/// Accuracy, time and staleness by H, as in Table 3.
fn by_h(arms: &[ArmRuns<'_>]) -> Table {
    let mut columns = rung_columns();
    pass_columns(&mut columns, &ks(arms), |rung, k| {
        rung.values(|run| run.pass_at(k))
    });
    columns.ours("minutes of training", "minutes", Form::Spread(2), |rung| {
        Cell::spread(&rung.times(SweepRun::minutes), 1.0)
    });
    columns.ours("staleness, nats", "staleness", Form::Spread(3), |rung| {
        Cell::spread(&rung.values(SweepRun::staleness), 1.0)
    });
    columns.ours("of a quarter", "staleness_quarter", Form::Spread(3), |it| {
        Cell::spread(&it.values(SweepRun::staleness_of_a_quarter), 1.0)
    });
    paper_columns(&mut columns, |rung| paper_row::by_h(rung));
    columns.papers("staleness, nats", "staleness", Form::Spread(2), |rung| {
        measured(paper_row::by_h(rung).and_then(|row| row.staleness))
    });
    let note = "The form of the paper's Table 3, whose H = 1 is the policy gradient of Table 1. Staleness is |log of the mean of the capped weights|, averaged over the updates. The authors compute theirs on the samples of one of four GPUs, a quarter of a mini-batch: compare the paper's column with that.";
    let title = "Accuracy, time and staleness by H";
    columns.table("table-3", title, note, rungs(arms))
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
    let mut columns = Columns::of("estimator", "estimator", |row: &Correlated| {
        row.estimator.clone()
    });
    columns.text("metric", "metric", |row| row.metric.clone());
    columns.count("runs", "runs", Correlated::runs);
    let quantities = ["accuracy", "time", "staleness"];
    let names = quantities.map(|name| (format!("r(H, {name})"), format!("r_{name}")));
    for (number, (heading, name)) in names.iter().enumerate() {
        columns.ours(heading, name, Form::Interval(3), move |row| {
            let found = row.ours[number];
            found.map_or(Cell::None, |found| Cell::Interval(found.r, found.interval))
        });
    }
    for (number, (heading, name)) in names.iter().enumerate() {
        columns.papers(heading, name, Form::Number(3), move |row| {
            let paper = row.paper.map(|row| [row.accuracy, row.time, row.staleness]);
            Cell::number(paper.map(|paper| paper[number]))
        });
    }
    let note = "The form of the paper's Table 4: Pearson's r over the runs of one estimator, each run a pair. The intervals are Fisher's, which take runs as independent; those of one seed are not. Times are those of all runs, whatever they ran on.";
    rows.retain(|row| row.runs() > 0);
    columns.table("table-4", "Correlations with H", note, rows)
}

/// Seconds by activity: the numbers of Figure 1.
fn times(arms: &[ArmRuns<'_>]) -> Table {
    fn mean(arm: &ArmRuns<'_>, of: impl Fn(&SweepRun) -> Option<f64>) -> Cell {
        Cell::number(Spread::of(&arm.times(of)).map(|spread| spread.mean))
    }
    let is_timed = |arm: &&ArmRuns<'_>| !arm.times(SweepRun::minutes).is_empty();
    let timed: Vec<&ArmRuns<'_>> = arms.iter().filter(is_timed).collect();
    let mut columns = Columns::of("arm", "arm", |arm: &&ArmRuns<'_>| arm.label());
    for activity in Activity::ALL {
        let has = |run: &SweepRun| run.times()?.seconds.get(&activity).copied();
        if timed.iter().all(|arm| arm.times(has).is_empty()) {
            continue;
        }
        let name = format!("{}_seconds", activity.name());
        columns.ours(activity.name(), &name, Form::Number(1), move |arm| {
            mean(arm, |run| Some(run.times()?.of_activity(activity)))
        });
    }
    columns.ours("training", "training_seconds", Form::Spread(1), |arm| {
        Cell::spread(&arm.times(|run| Some(60.0 * run.minutes()?)), 1.0)
    });
    columns.ours("in all", "wall_seconds", Form::Number(1), |arm| {
        mean(arm, |run| Some(run.times()?.wall()))
    });
    let note = "Seconds of a run by activity, mean over the finished runs. Training is all but start, evaluation and lost work.";
    columns.table("figure-1", "Where the time went", note, timed)
}

/// The numbers of Figures 2 and 4.
fn figures(arms: &[ArmRuns<'_>]) -> Table {
    let mut columns = rung_columns();
    columns.ours("tokens", "tokens", Form::Spread(1), |rung| {
        let tokens = rung.values(|run| run.mean_of(|step| step.length_mean));
        Cell::spread(&tokens, 1.0)
    });
    let (heading, name) = ("minutes of inference", "inference_minutes");
    columns.ours(heading, name, Form::Spread(2), |rung| {
        let inference =
            rung.times(|run| Some(run.times()?.of_activity(Activity::Inference) / 60.0));
        Cell::spread(&inference, 1.0)
    });
    let (heading, name) = ("weights clipped, %", "clipped_percent");
    columns.ours(heading, name, Form::Spread(2), |rung| {
        let clipped = rung.values(|run| run.mean_of(|step| step.algo.clip_share));
        Cell::spread(&clipped, POINTS)
    });
    let title = "Length, inference and clipped weights by H";
    let note = "The numbers of Figures 2 and 4: the mean tokens of a completion in training, the minutes of inference, and the share of importance weights above η.";
    columns.table("figures-2-and-4", title, note, rungs(arms))
}

/// Every planned run.
fn every_run(runs: &[SweepRun]) -> Table {
    let joined = |of: &BTreeSet<String>| Vec::from_iter(of.iter().map(String::as_str)).join(", ");
    let mut columns = Columns::of("run", "run", |run: &&SweepRun| run.planned.name.clone());
    columns.text("state", "state", |run| run.state.name().to_owned());
    columns.count("updates", "updates", |run| run.steps().len());
    columns.ours("Pass@1, %", "pass_at_1_percent", Form::Number(1), |run| {
        Cell::number(run.pass_at(1).map(|pass| POINTS * pass))
    });
    columns.ours("minutes of training", "minutes", Form::Number(2), |run| {
        Cell::number(run.minutes())
    });
    columns.text("processor", "processor", move |run| joined(&run.processors));
    columns.text("program, SHA-256", "program", move |run| {
        let short = |digest: &String| digest.chars().take(12).collect();
        joined(&run.binaries.iter().map(short).collect())
    });
    columns.ours("why not", "reason", Form::Text, |run| {
        run.reason.as_ref().map_or(Cell::None, Cell::text)
    });
    let note = "Runs that are not finished are in no table above, except those that diverged: these count with their last evaluation, or with 0 if there is none after an update.";
    columns.table("runs", "Every planned run", note, runs)
}
