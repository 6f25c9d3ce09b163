//! The comparisons of a sweep: every arm beside the reference, the effects of factors, and the slope of Pass@1 on log₂ H.

use std::collections::{BTreeMap, BTreeSet};

use super::arms::{ArmRuns, Ladder, by_point, ladders_at};
use super::computations::Computations;
use super::runs::{End, SweepRun};
use crate::run::data_dir_of;
use crate::statistics::{
    Comparison, Contrast, Corrected, Outcomes, Ratio, Resamples, Slope, paired_ratio, verdicts,
};
use crate::sweep::{Compare, SweepFolder};

/// The comparisons of a sweep.
#[derive(Debug, Default)]
pub(super) struct Tests<'a, 'r> {
    /// Whether differences are tested; else there are estimates and intervals only.
    pub(super) tested: bool,
    /// A difference of Pass@1 within ± this counts as none.
    pub(super) margin: f64,
    /// Every arm beside the reference at its point of the grid, in order.
    pub(super) compared: Vec<Compared<'a, 'r>>,
    /// The slope over each ladder.
    pub(super) slopes: Vec<Sloped<'a, 'r>>,
    /// The effects of the factors at each point of the grid.
    pub(super) effects: Vec<Effect<'a, 'r>>,
    /// What the comparisons at a point of the grid are without.
    pub(super) left_out: Vec<LeftOut<'a, 'r>>,
    /// Blocks of which no times are compared, since a run of theirs is not made: seed and round.
    pub(super) untimed: BTreeSet<(u64, usize)>,
    /// Why tasks with the same computation are not known.
    pub(super) unclustered: Option<String>,
}

/// An arm beside the reference.
#[derive(Debug)]
pub(super) struct Compared<'a, 'r> {
    pub(super) arm: &'r ArmRuns<'a>,
    pub(super) reference: &'r ArmRuns<'a>,
    /// Pass@1; `None` without an evaluation of both on the same tasks.
    pub(super) accuracy: Option<(Comparison, Corrected)>,
    /// Seconds per update over the reference's, paired by seed and round on one processor.
    pub(super) time: Option<Ratio>,
}

/// The effect of a factor on Pass@1.
#[derive(Debug)]
pub(super) struct Effect<'a, 'r> {
    pub(super) factor: &'a str,
    /// The arms that have it.
    pub(super) arms: Vec<&'r ArmRuns<'a>>,
    /// These and all others at the point of the grid.
    pub(super) point: Vec<&'r ArmRuns<'a>>,
    /// The mean of the arms that have it − that of all others.
    pub(super) effect: Contrast,
}

/// A slope and the arms that it is over.
#[derive(Debug)]
pub(super) struct Sloped<'a, 'r> {
    pub(super) ladder: Ladder<'a, 'r>,
    pub(super) slope: Slope,
}

/// What the comparisons at a point of the grid are without.
#[derive(Debug)]
pub(super) struct LeftOut<'a, 'r> {
    pub(super) arm: &'r ArmRuns<'a>,
    /// Seeds of which a run does not count.
    pub(super) seeds: BTreeSet<u64>,
    /// Number of tasks that a run has no verdict on.
    pub(super) tasks: usize,
}

/// Pass@1 of every task in the complete blocks of a point of the grid.
struct PointOutcomes {
    outcomes: Outcomes,
    resamples: Resamples,
}

/// The comparisons; none if the sweep file has no `[compare]`.
pub(super) fn run<'a, 'r>(folder: &'a SweepFolder, arms: &'r [ArmRuns<'a>]) -> Tests<'a, 'r> {
    let Some(compare) = &folder.file().compare else {
        return Tests::default();
    };
    let mut tests = Tests {
        tested: compare.tests,
        margin: compare.margin,
        untimed: incomplete_blocks(arms),
        ..Tests::default()
    };
    let mut comparisons = Vec::new();
    for point in by_point(arms) {
        let Some(at) = point.iter().position(|arm| arm.is_reference) else {
            continue;
        };
        let outcomes = outcomes(&point, &mut tests);
        for (number, arm) in point.iter().enumerate().filter(|(number, _)| *number != at) {
            let comparison = outcomes
                .as_ref()
                .map(|of| Comparison::of(&of.outcomes, &of.resamples, number, at, compare.margin));
            comparisons.push((*arm, point[at], comparison));
        }
        if let Some(of) = &outcomes {
            let ladders = ladders_at(&point).into_iter();
            tests
                .slopes
                .extend(ladders.map(|ladder| slope(ladder, &point, of, compare)));
            tests.effects.extend(effects(&point, of, compare));
        }
    }
    tests.compared = corrected(comparisons, compare.margin, &tests.untimed);
    tests
}

/// The blocks with a run that neither finished nor diverged: seed and round.
fn incomplete_blocks(arms: &[ArmRuns<'_>]) -> BTreeSet<(u64, usize)> {
    let runs = arms.iter().flat_map(|arm| &arm.runs);
    runs.filter(|run| !matches!(run.end, End::Finished | End::Diverged(_)))
        .map(|run| run.planned.block())
        .collect()
}

/// The effects of the factors of `[compare.effects]` at a point of the grid.
fn effects<'a, 'r>(
    point: &[&'r ArmRuns<'a>],
    of: &PointOutcomes,
    compare: &'a Compare,
) -> Vec<Effect<'a, 'r>> {
    let effect = |(factor, with): (&'a String, &'a Vec<String>)| {
        let has: Vec<bool> = point
            .iter()
            .map(|arm| with.iter().any(|name| name == arm.arm))
            .collect();
        let weights = Contrast::with_and_without(&has)?;
        Some(Effect {
            factor,
            arms: kept(point.iter().copied(), &has),
            point: point.to_vec(),
            effect: Contrast::of(&of.outcomes, &of.resamples, &weights),
        })
    };
    compare.effects.iter().filter_map(effect).collect()
}

fn slope<'a, 'r>(
    ladder: Ladder<'a, 'r>,
    point: &[&'r ArmRuns<'a>],
    of: &PointOutcomes,
    compare: &Compare,
) -> Sloped<'a, 'r> {
    let rungs: Vec<(usize, usize)> = ladder
        .rungs
        .iter()
        .filter_map(|rung| {
            let number = point.iter().position(|arm| std::ptr::eq(*arm, *rung))?;
            Some((number, rung.h()))
        })
        .collect();
    let slope = Slope::of(&of.outcomes, &of.resamples, &rungs, compare.margin);
    Sloped { ladder, slope }
}

/// The comparisons of all points with p-values that are corrected as one family.
fn corrected<'a, 'r>(
    comparisons: Vec<(&'r ArmRuns<'a>, &'r ArmRuns<'a>, Option<Comparison>)>,
    margin: f64,
    untimed: &BTreeSet<(u64, usize)>,
) -> Vec<Compared<'a, 'r>> {
    let family: Vec<Comparison> = comparisons
        .iter()
        .filter_map(|(_, _, comparison)| comparison.clone())
        .collect();
    let mut verdicts = verdicts(&family, margin).into_iter();
    comparisons
        .into_iter()
        .map(|(arm, reference, comparison)| Compared {
            arm,
            reference,
            accuracy: comparison.and_then(|comparison| Some((comparison, verdicts.next()?))),
            time: time(arm, reference, untimed),
        })
        .collect()
}

/// The outcomes of the seeds in which a run of every arm counts, on the tasks that all of them judged. Notes in `tests` what is left out.
fn outcomes<'a, 'r>(point: &[&'r ArmRuns<'a>], tests: &mut Tests<'a, 'r>) -> Option<PointOutcomes> {
    let counted: Vec<BTreeMap<u64, &SweepRun>> = point.iter().map(|arm| arm.counted()).collect();
    if counted.iter().all(BTreeMap::is_empty) {
        return None;
    }
    let planned = point.iter().flat_map(|arm| &arm.runs);
    let planned: BTreeSet<u64> = planned.map(|run| run.planned.seed).collect();
    let complete = |seed: &u64| counted.iter().all(|runs| runs.contains_key(seed));
    let (seeds, missing): (BTreeSet<u64>, BTreeSet<u64>) = planned.into_iter().partition(complete);
    let runs = || {
        counted
            .iter()
            .flat_map(|runs| seeds.iter().map(|seed| runs[seed]))
    };
    let tasks: BTreeSet<&String> = runs()
        .filter_map(|run| run.evaluation())
        .flat_map(|eval| eval.tasks.keys())
        .collect();
    let passes: Vec<Vec<Option<f64>>> = runs()
        .map(|run| {
            run.task_passes(tasks.iter().copied(), 1)
                .unwrap_or_default()
        })
        .collect();
    let judged: Vec<bool> = (0..tasks.len())
        .map(|task| passes.iter().all(|run| run[task].is_some()))
        .collect();
    let unjudged = judged.iter().filter(|judged| !**judged).count();
    if !missing.is_empty() || unjudged > 0 {
        tests.left_out.push(LeftOut {
            arm: point[0],
            seeds: missing,
            tasks: unjudged,
        });
    }
    let tasks: Vec<&String> = kept(tasks, &judged);
    if tasks.is_empty() {
        return None;
    }
    let passes: Vec<Vec<f64>> = passes
        .into_iter()
        .map(|run| kept(run, &judged).into_iter().flatten().collect())
        .collect();
    let values: Vec<Vec<Vec<f64>>> = passes.chunks(seeds.len()).map(<[_]>::to_vec).collect();
    let computations = computations(point).unwrap_or_else(|error| {
        tests.unclustered = Some(error);
        Computations::default()
    });
    let clusters = computations.clusters(tasks.into_iter());
    let outcomes = Outcomes::new(&values, &clusters);
    Some(PointOutcomes {
        resamples: outcomes.resample(),
        outcomes,
    })
}

/// The computations of the tasks that the runs were evaluated on.
fn computations(point: &[&ArmRuns<'_>]) -> Result<Computations, String> {
    let runs = point.iter().flat_map(|arm| &arm.runs);
    let folder = runs
        .filter_map(|run| run.data.as_ref())
        .map(|data| &data.folder)
        .next();
    let data_dir = folder.and_then(|folder| data_dir_of(folder).ok().flatten());
    Computations::of(point[0].config, data_dir.as_deref())
}

fn kept<T>(items: impl IntoIterator<Item = T>, keep: &[bool]) -> Vec<T> {
    let kept = items.into_iter().zip(keep).filter(|(_, keep)| **keep);
    kept.map(|(item, _)| item).collect()
}

/// The ratio of the times of an arm and the reference, over the blocks that are whole.
fn time(
    arm: &ArmRuns<'_>,
    reference: &ArmRuns<'_>,
    untimed: &BTreeSet<(u64, usize)>,
) -> Option<Ratio> {
    let pairs: Vec<(f64, f64)> = arm
        .runs
        .iter()
        .filter(|run| !untimed.contains(&run.planned.block()))
        .filter_map(|run| {
            let other = reference.runs.iter().find(|other| {
                other.planned.block() == run.planned.block() && other.processors == run.processors
            })?;
            Some((run.seconds_per_update()?, other.seconds_per_update()?))
        })
        .filter(|(ours, theirs)| *ours > 0.0 && *theirs > 0.0)
        .collect();
    paired_ratio(&pairs)
}
