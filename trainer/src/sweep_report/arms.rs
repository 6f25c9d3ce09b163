//! The runs by what they share: an arm at a point of the grid, with all its seeds and rounds.

use std::collections::{BTreeMap, BTreeSet};

use toml::Value;

use super::runs::SweepRun;
use crate::config::Config;
use crate::sweep::SweepFolder;

/// The runs of an arm at a point of the grid.
#[derive(Debug)]
pub(super) struct ArmRuns<'a> {
    /// The arm's name.
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

/// Arms with the same settings but for H, at one point of the grid: the rungs over which Pass@1 is a function of H.
#[derive(Debug)]
pub(super) struct Ladder<'a, 'r> {
    /// In ascending order of H.
    pub(super) rungs: Vec<&'r ArmRuns<'a>>,
    /// Whether the lowest rung is the reference, which has another estimator and H = 1: on policy, weights are 1.
    begins_with_reference: bool,
}

/// The arms at each point of the grid, in the order of the plan's first block.
pub(super) fn of<'a>(folder: &'a SweepFolder, runs: &'a [SweepRun]) -> Vec<ArmRuns<'a>> {
    let compare = folder.file().compare.as_ref();
    let reference = compare.map(|compare| &compare.reference);
    let mut arms: Vec<ArmRuns<'a>> = Vec::new();
    for run in runs {
        let planned = &run.planned;
        let known = arms
            .iter_mut()
            .find(|arm| arm.arm == planned.arm && *arm.point == planned.grid);
        match known {
            Some(arm) => arm.runs.push(run),
            None => arms.push(ArmRuns {
                arm: &planned.arm,
                point: &planned.grid,
                config: &planned.config,
                runs: vec![run],
                is_reference: Some(&planned.arm) == reference,
            }),
        }
    }
    arms
}

/// The arms of each point of the grid, in order.
pub(super) fn by_point<'a, 'r>(arms: &'r [ArmRuns<'a>]) -> Vec<Vec<&'r ArmRuns<'a>>> {
    let mut points: Vec<Vec<&ArmRuns<'a>>> = Vec::new();
    for arm in arms {
        match points.iter_mut().find(|point| point[0].point == arm.point) {
            Some(point) => point.push(arm),
            None => points.push(vec![arm]),
        }
    }
    points
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

    /// The runs whose accuracy counts, one for each seed: its rounds are repetitions of the same computation.
    pub(super) fn counted(&self) -> BTreeMap<u64, &'a SweepRun> {
        let mut by_seed = BTreeMap::new();
        for run in &self.runs {
            if run.pass_at(1).is_some() {
                by_seed.entry(run.planned.seed).or_insert(*run);
            }
        }
        by_seed
    }

    /// The value of each seed, from its first run that has one: its rounds are repetitions of the same computation.
    pub(super) fn values(&self, of: impl Fn(&SweepRun) -> Option<f64>) -> Vec<f64> {
        let mut by_seed = BTreeMap::new();
        for run in &self.runs {
            if let Some(value) = of(run) {
                by_seed.entry(run.planned.seed).or_insert(value);
            }
        }
        by_seed.into_values().collect()
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

/// The ladders of a point of the grid, in the order of their first arms. Each has arms whose settings differ in nothing but H, with at least two values of it, and below
/// them the reference if that has H = 1, none of them has, and it differs from them in its algorithm alone. Arms that choose H during the run (`algorithm.auto_h`) are no
/// rungs. A ladder has at least three rungs.
pub(super) fn ladders_at<'a, 'r>(point: &[&'r ArmRuns<'a>]) -> Vec<Ladder<'a, 'r>> {
    let point = point.iter().copied();
    let point: Vec<&ArmRuns<'a>> = point
        .filter(|arm| arm.config.algorithm.auto_h == 0.0)
        .collect();
    let reference = point.iter().find(|arm| arm.is_reference && arm.h() == 1);
    let mut by_settings: Vec<(Config, BTreeMap<usize, &ArmRuns<'a>>)> = Vec::new();
    for arm in &point {
        let mut settings = arm.config.clone();
        settings.algorithm.h = 1;
        let known = by_settings.iter().position(|(known, _)| *known == settings);
        let place = known.unwrap_or_else(|| {
            by_settings.push((settings, BTreeMap::new()));
            by_settings.len() - 1
        });
        by_settings[place].1.entry(arm.h()).or_insert(arm);
    }
    let ladder = |(settings, by_h): (Config, BTreeMap<usize, &'r ArmRuns<'a>>)| {
        let mut rungs: Vec<&ArmRuns<'a>> = by_h.into_values().collect();
        let is_below = |reference: &&ArmRuns<'a>| {
            let algorithm = reference.config.algorithm.clone();
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
