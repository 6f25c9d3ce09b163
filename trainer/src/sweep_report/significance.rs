//! The comparisons of a sweep: every arm beside the reference, the effects of factors, and the slope of Pass@1 on log₂ H.

use std::collections::{BTreeMap, BTreeSet};

use super::arms::{ArmRuns, Ladder, at_point, by_point, ladders_at};
use super::runs::SweepRun;
use super::task_clusters::clusters_of;
use crate::run::data_dir_of;
use crate::statistics::{
    Comparison, Contrast, Corrected, Outcomes, Ratio, Slope, paired_ratio, verdicts,
};
use crate::sweep::{Compare, SweepFolder};

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
    /// Blocks with a run that is not made, so that none of their times are compared: seed and round.
    pub(super) untimed: BTreeSet<(u64, usize)>,
    /// What the comparisons are without, in sentences.
    pub(super) warnings: Vec<String>,
}

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
    /// The mean of the arms with it − the mean of all others.
    pub(super) effect: Contrast,
}

/// A slope and the arms that it is over.
#[derive(Debug)]
pub(super) struct Sloped<'a, 'r> {
    pub(super) ladder: Ladder<'a, 'r>,
    pub(super) slope: Slope,
}

/// The comparisons; none if the sweep file has no `[compare]`.
pub(super) fn run<'a, 'r>(folder: &'a SweepFolder, arms: &'r [ArmRuns<'a>]) -> Tests<'a, 'r> {
    let Some(compare) = &folder.file.compare else {
        return Tests::default();
    };
    let runs = arms.iter().flat_map(|arm| &arm.runs);
    let missing = runs.filter(|run| !run.state.has_ended());
    let mut tests = Tests {
        tested: compare.tests,
        margin: compare.margin,
        untimed: missing.map(|run| run.planned.block()).collect(),
        ..Tests::default()
    };
    let mut found = Vec::new();
    for point in by_point(arms) {
        let Some(at) = point.iter().position(|arm| arm.is_reference) else {
            continue;
        };
        let outcomes = outcomes(&point, &mut tests.warnings);
        for (number, arm) in point.iter().enumerate().filter(|(number, _)| *number != at) {
            let comparison = outcomes.as_ref();
            let comparison = comparison.map(|it| Comparison::of(it, number, at, compare.margin));
            found.push((*arm, point[at], comparison));
        }
        if let Some(outcomes) = &outcomes {
            let slopes = ladders_at(&point).into_iter().map(|ladder| {
                let number = |rung| point.iter().position(|arm| std::ptr::eq(*arm, rung));
                let rungs = ladder.rungs.iter();
                let rungs = rungs.filter_map(|rung| Some((number(*rung)?, rung.h())));
                let rungs: Vec<(usize, usize)> = rungs.collect();
                let slope = Slope::of(outcomes, &rungs, compare.margin);
                Sloped { ladder, slope }
            });
            tests.slopes.extend(slopes);
            tests.effects.extend(effects(&point, outcomes, compare));
        }
    }
    // The p-values of all points are corrected as one family.
    let family = found
        .iter()
        .filter_map(|(.., comparison)| comparison.clone());
    let mut verdicts = verdicts(&family.collect::<Vec<_>>(), compare.margin).into_iter();
    let compared = found
        .into_iter()
        .map(|(arm, reference, comparison)| Compared {
            arm,
            reference,
            accuracy: comparison.and_then(|comparison| Some((comparison, verdicts.next()?))),
            time: time(arm, reference, &tests.untimed),
        });
    tests.compared = compared.collect();
    tests
}

/// The effects of the factors of `[compare.effects]` at a point of the grid.
fn effects<'a, 'r>(
    point: &[&'r ArmRuns<'a>],
    outcomes: &Outcomes,
    compare: &'a Compare,
) -> Vec<Effect<'a, 'r>> {
    let effect = |(factor, with): (&'a String, &'a Vec<String>)| {
        let has = |arm: &ArmRuns<'_>| with.iter().any(|name| name == arm.arm);
        let having: Vec<bool> = point.iter().map(|arm| has(arm)).collect();
        Effect {
            factor,
            arms: point.iter().copied().filter(|arm| has(arm)).collect(),
            point: point.to_vec(),
            effect: Contrast::of(outcomes, &Contrast::with_and_without(&having)),
        }
    };
    compare.effects.iter().map(effect).collect()
}

/// Pass@1 in the seeds in which a run of every arm counts, on the tasks that all of them judged. What is left out is noted in the warnings.
fn outcomes(point: &[&ArmRuns<'_>], warnings: &mut Vec<String>) -> Option<Outcomes> {
    let counted: Vec<BTreeMap<u64, &SweepRun>> = point.iter().map(|arm| arm.counted()).collect();
    if counted.iter().all(BTreeMap::is_empty) {
        return None;
    }
    let planned = point.iter().flat_map(|arm| &arm.runs);
    let planned: BTreeSet<u64> = planned.map(|run| run.planned.seed).collect();
    let complete = |seed: &u64| counted.iter().all(|runs| runs.contains_key(seed));
    let (seeds, missing): (BTreeSet<u64>, BTreeSet<u64>) = planned.into_iter().partition(complete);
    let runs: Vec<Vec<&SweepRun>> = counted
        .iter()
        .map(|runs| seeds.iter().map(|seed| runs[seed]).collect())
        .collect();
    let evaluations = runs.iter().flatten().filter_map(|run| run.evaluation());
    let all: BTreeSet<&String> = evaluations.flat_map(|eval| eval.tasks.keys()).collect();
    let is_judged = |task: &&String| {
        let mut runs = runs.iter().flatten();
        runs.all(|run| run.task_pass(task).is_some())
    };
    let tasks: Vec<&String> = all.iter().copied().filter(is_judged).collect();
    let place = at_point("The comparisons of accuracy", point[0].point);
    if !missing.is_empty() {
        let s = if missing.len() == 1 { "" } else { "s" };
        let seeds: Vec<String> = missing.iter().map(u64::to_string).collect();
        warnings.push(format!(
            "{place} leave out the seed{s} {}, since a run of theirs does not count.",
            seeds.join(", ")
        ));
    }
    if tasks.len() < all.len() {
        let without = all.len() - tasks.len();
        warnings.push(format!(
            "{place} leave out {without} tasks of which a run has no verdict."
        ));
    }
    if tasks.is_empty() {
        return None;
    }
    let passes = |run: &&SweepRun| -> Vec<f64> {
        let passes = tasks.iter().filter_map(|task| run.task_pass(task));
        passes.collect()
    };
    let passes = |runs: &Vec<&SweepRun>| runs.iter().map(passes).collect();
    let values: Vec<Vec<Vec<f64>>> = runs.iter().map(passes).collect();
    Some(Outcomes::new(&values, &clusters(point, &tasks, warnings)))
}

/// The computations of the tasks, in the data set that the runs were evaluated on.
fn clusters(point: &[&ArmRuns<'_>], tasks: &[&String], warnings: &mut Vec<String>) -> Vec<usize> {
    let mut runs = point.iter().flat_map(|arm| &arm.runs);
    let data = runs.find_map(|run| run.data.as_ref());
    let data_dir = data.and_then(|data| data_dir_of(&data.folder).ok().flatten());
    let sets = crate::data::open(point[0].config, data_dir.as_deref());
    let eval = sets.map(|sets| sets.into_iter().flat_map(|set| set.tasks.eval).collect());
    let known = eval.unwrap_or_else(|error| {
        warnings.push(format!(
            "The data set cannot be read, so each task is taken for a computation of its own, and the bootstrap's intervals may be too narrow: {error}"
        ));
        Vec::new()
    });
    clusters_of(tasks, &known)
}

/// The ratio of the times of an arm and the reference, over the blocks that are whole.
fn time(
    arm: &ArmRuns<'_>,
    reference: &ArmRuns<'_>,
    untimed: &BTreeSet<(u64, usize)>,
) -> Option<Ratio> {
    let runs = arm.runs.iter();
    let runs = runs.filter(|run| !untimed.contains(&run.planned.block()));
    let pair = |run: &&SweepRun| {
        let mut others = reference.runs.iter();
        let other = others.find(|other| {
            other.planned.block() == run.planned.block() && other.processors == run.processors
        })?;
        Some((run.seconds_per_update()?, other.seconds_per_update()?))
    };
    let pairs = runs.filter_map(pair);
    let timed = pairs.filter(|(ours, theirs)| *ours > 0.0 && *theirs > 0.0);
    paired_ratio(&timed.collect::<Vec<(f64, f64)>>())
}
