//! The runs by what they share: an arm at a point of the grid, with all its seeds and rounds.

use std::collections::{BTreeMap, BTreeSet};

use toml::Value;

use super::runs::SweepRun;
use crate::config::Config;
use crate::sweep::SweepFolder;

/// The runs of an arm at a point of the grid.
#[derive(Debug)]
pub(super) struct ArmRuns<'a> {
    pub(super) arm: &'a str,
    /// Its values of the grid's keys.
    pub(super) point: &'a BTreeMap<String, Value>,
    /// The settings, which its runs share but for the seed.
    pub(super) config: &'a Config,
    /// Its runs, in the order of the plan.
    pub(super) runs: Vec<&'a SweepRun>,
    /// Whether it is the arm that others are compared with.
    pub(super) is_reference: bool,
}

/// Arms at one point of the grid that differ only in H: its rungs.
#[derive(Debug)]
pub(super) struct Ladder<'a, 'r> {
    /// In ascending order of H.
    pub(super) rungs: Vec<&'r ArmRuns<'a>>,
    /// Whether the lowest rung is the reference, which has another estimator and H = 1: on policy, weights are 1.
    begins_with_reference: bool,
}

/// The items grouped by key, in the order in which the keys first appear.
pub(super) fn grouped<T, K: PartialEq>(
    items: impl IntoIterator<Item = T>,
    key: impl Fn(&T) -> K,
) -> Vec<(K, Vec<T>)> {
    let mut groups: Vec<(K, Vec<T>)> = Vec::new();
    for item in items {
        let key = key(&item);
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, group)) => group.push(item),
            None => groups.push((key, vec![item])),
        }
    }
    groups
}

/// The arms at each point of the grid, in the order of the plan's first block.
pub(super) fn of<'a>(folder: &'a SweepFolder, runs: &'a [SweepRun]) -> Vec<ArmRuns<'a>> {
    let compare = folder.file.compare.as_ref();
    let reference = compare.map(|compare| &compare.reference);
    let arms = grouped(runs, |run| (&run.planned.arm, &run.planned.grid)).into_iter();
    arms.map(|((arm, point), runs)| ArmRuns {
        arm,
        point,
        config: &runs[0].planned.config,
        runs,
        is_reference: Some(arm) == reference,
    })
    .collect()
}

/// The arms of each point of the grid, in order.
pub(super) fn by_point<'a, 'r>(arms: &'r [ArmRuns<'a>]) -> Vec<Vec<&'r ArmRuns<'a>>> {
    let points = grouped(arms, |arm| arm.point).into_iter();
    points.map(|(_, arms)| arms).collect()
}

impl<'a> ArmRuns<'a> {
    /// The arm's name, with its point of the grid.
    pub(super) fn label(&self) -> String {
        at_point(self.arm, self.point)
    }

    /// Updates per inference phase; the most that there can be, if their number is chosen during the run.
    pub(super) fn h(&self) -> usize {
        self.config.algorithm.h
    }

    /// The value of each seed, from its first run that has one: rounds repeat the same computation.
    fn by_seed<T>(&self, of: impl Fn(&'a SweepRun) -> Option<T>) -> BTreeMap<u64, T> {
        let mut by_seed = BTreeMap::new();
        for run in &self.runs {
            if let Some(value) = of(run) {
                by_seed.entry(run.planned.seed).or_insert(value);
            }
        }
        by_seed
    }

    /// The runs with an accuracy that counts, one for each seed.
    pub(super) fn counted(&self) -> BTreeMap<u64, &'a SweepRun> {
        self.by_seed(|run| run.pass_at(1).map(|_| run))
    }

    /// The value of each seed that has one.
    pub(super) fn values(&self, of: impl Fn(&SweepRun) -> Option<f64>) -> Vec<f64> {
        self.by_seed(of).into_values().collect()
    }

    /// The times of all runs that have one: those of repetitions differ.
    pub(super) fn times(&self, of: impl Fn(&SweepRun) -> Option<f64>) -> Vec<f64> {
        self.runs.iter().filter_map(|run| of(run)).collect()
    }

    /// The k of each Pass@k that its evaluations have.
    pub(super) fn ks(&self) -> BTreeSet<usize> {
        let evals = self.runs.iter().filter_map(|run| run.evaluation());
        evals
            .flat_map(|eval| eval.pass_at.keys().copied())
            .collect()
    }
}

/// A name with its point of the grid, if there is a grid: `pg, n_step = 8`.
pub(super) fn at_point(name: &str, point: &BTreeMap<String, Value>) -> String {
    let part = |(key, value): (&String, &Value)| {
        let key = key.rsplit('.').next().unwrap_or(key);
        match value {
            Value::String(value) => format!(", {key} = {value}"),
            value => format!(", {key} = {value}"),
        }
    };
    name.to_owned() + &point.iter().map(part).collect::<String>()
}

/// The ladders of all points of the grid.
pub(super) fn ladders<'a, 'r>(arms: &'r [ArmRuns<'a>]) -> Vec<Ladder<'a, 'r>> {
    let points = by_point(arms);
    points.iter().flat_map(|point| ladders_at(point)).collect()
}

/// The ladders of a point of the grid, in the order of their first arms. A ladder has at least three rungs. The reference becomes the lowest rung if it has H = 1,
/// none of the arms has, and it differs from them in its algorithm alone. Arms that choose H during the run (`algorithm.auto_h`) are no rungs.
pub(super) fn ladders_at<'a, 'r>(point: &[&'r ArmRuns<'a>]) -> Vec<Ladder<'a, 'r>> {
    let point = point.iter().copied();
    let point: Vec<&ArmRuns<'a>> = point
        .filter(|arm| arm.config.algorithm.auto_h == 0.0)
        .collect();
    let reference = point.iter().find(|arm| arm.is_reference && arm.h() == 1);
    let by_settings = grouped(point.iter().copied(), |arm| {
        let mut settings = arm.config.clone();
        settings.algorithm.h = 1;
        settings
    });
    let ladder = |(settings, mut rungs): (Config, Vec<&'r ArmRuns<'a>>)| {
        rungs.sort_by_key(|rung| rung.h());
        rungs.dedup_by_key(|rung| rung.h());
        let is_below = |reference: &&ArmRuns<'a>| {
            let algorithm = reference.config.algorithm;
            let alike = Config {
                algorithm,
                ..settings
            };
            rungs.len() > 1 && rungs[0].h() > 1 && alike == *reference.config
        };
        let below = reference.copied().filter(is_below);
        rungs.splice(0..0, below);
        (rungs.len() > 2).then_some(Ladder {
            rungs,
            begins_with_reference: below.is_some(),
        })
    };
    by_settings.into_iter().filter_map(ladder).collect()
}

impl<'a, 'r> Ladder<'a, 'r> {
    /// What it is a ladder of: its preset, at its point of the grid.
    pub(super) fn label(&self) -> String {
        let rung = self.of_one_estimator()[0];
        at_point(rung.config.algorithm.preset.name(), rung.point)
    }

    /// The rungs with the same estimator, as in the paper's Tables 3 and 4.
    pub(super) fn of_one_estimator(&self) -> &[&'r ArmRuns<'a>] {
        &self.rungs[usize::from(self.begins_with_reference)..]
    }
}
