//! The runs of a sweep, in the order in which they are made.

use std::collections::BTreeMap;

use toml::Value;

use super::SweepError;
use super::file::{Arm, SweepFile};
use crate::config::{self, Config};

/// The runs of a sweep, resolved and checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The blocks, each with all runs of one seed and round: runs of a block are compared, since one machine makes them at about the same time. The rounds of a seed
    /// follow each other, and every second one is reversed (ABBA), so that a machine that gets slower or faster favours no arm. The arms of one point of the grid
    /// are beside each other.
    pub blocks: Vec<Vec<PlannedRun>>,
}

/// One run of a sweep.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedRun {
    /// The name of its folder, such as `pg-n_step=8-seed-0`.
    pub name: String,
    /// The name of its arm.
    pub arm: String,
    /// Its values of the grid's keys.
    pub grid: BTreeMap<String, Value>,
    /// The value of `run.seed`.
    pub seed: u64,
    /// The repetition, counted from 0.
    pub round: usize,
    /// The resolved settings.
    pub config: Config,
}

impl PlannedRun {
    /// The seed and round of its block.
    pub fn block(&self) -> (u64, usize) {
        (self.seed, self.round)
    }
}

/// Maximum length of a run's name, which is a folder's.
const MAX_NAME: usize = 200;

impl Plan {
    /// Plans a sweep.
    ///
    /// # Errors
    /// [`SweepError::Usage`] if the settings of a run are refused, or if two runs would be the same.
    pub fn new(file: &SweepFile) -> Result<Self, SweepError> {
        let points = combinations(&file.grid);
        let mut blocks = Vec::with_capacity(file.seeds.len() * file.rounds);
        for &seed in &file.seeds {
            let mut runs = Vec::new();
            for point in &points {
                for arm in &file.arms {
                    let run = planned(file, arm, point, seed)?;
                    check_distinct(&runs, &run)?;
                    runs.push(run);
                }
            }
            for round in 0..file.rounds {
                let mut runs = runs.clone();
                for run in runs.iter_mut().filter(|_| file.rounds > 1) {
                    run.round = round;
                    run.name.push_str(&format!("-round-{round}"));
                }
                if round % 2 == 1 {
                    runs.reverse();
                }
                blocks.push(runs);
            }
        }
        Ok(Self { blocks })
    }

    /// Sets the date for chat templates of the runs that have none.
    pub(super) fn set_chat_date(&mut self, date: Option<&str>) {
        for run in self.blocks.iter_mut().flatten() {
            let data = &mut run.config.data;
            if data.chat && data.chat_date.is_none() {
                data.chat_date = date.map(str::to_owned);
            }
        }
    }

    /// All runs, in order.
    pub fn runs(&self) -> impl Iterator<Item = &PlannedRun> {
        self.blocks.iter().flatten()
    }

    /// A sentence for each arm that does not see, or may not see, the same prompts as the first arm of its point of the grid. They are the same for every seed, so
    /// the first block answers for all.
    pub fn unmatched(&self) -> Vec<String> {
        let runs = self.blocks.first().map_or(&[][..], Vec::as_slice);
        let sentence = |run: &PlannedRun| {
            let first = runs.iter().find(|first| first.grid == run.grid)?;
            let (certain, possible) = differing(&first.config, &run.config);
            let (sees, differing) = match certain.is_empty() {
                true => ("may not see", possible),
                false => ("does not see", certain),
            };
            (!differing.is_empty()).then(|| {
                format!(
                    "{} {sees} the same prompts in the same order as {}: they differ in {}",
                    run.name,
                    first.name,
                    differing.join(", ")
                )
            })
        };
        runs.iter().filter_map(sentence).collect()
    }
}

/// What two runs must have in common to see the same prompts in the same order, and these do not: what makes their prompts differ, then what may.
fn differing(one: &Config, other: &Config) -> (Vec<&'static str>, Vec<&'static str>) {
    let (a, b) = (&one.algorithm, &other.algorithm);
    // Prompts that do not fill a phase. H says the size of a phase.
    let dropped = a.drop_last_phase == b.drop_last_phase && (!a.drop_last_phase || a.h == b.h);
    let sampling = a.dynamic_sampling == b.dynamic_sampling;
    let length = (one.run.epochs, one.run.updates) == (other.run.epochs, other.run.updates);
    // How many are replaced depends on the samples.
    let replaced = a.dynamic_sampling == 0 || one == other;
    let too_long = |config: &Config| (config.model.clone(), config.sampling.max_tokens);
    let certain = [
        ("[data]", one.data == other.data),
        ("algorithm.group_size", a.group_size == b.group_size),
        ("algorithm.n_step", a.n_step == b.n_step),
        ("algorithm.dynamic_sampling", sampling),
        ("their epochs or updates", length),
        (
            "the prompts that are dropped at the end of an epoch",
            dropped,
        ),
    ];
    let possible = [
        ("the prompts that replace discarded groups", replaced),
        (
            "the prompts that are left out as too long for the model",
            too_long(one) == too_long(other),
        ),
    ];
    let differing = |shared: &[(&'static str, bool)]| {
        let differing = shared.iter().filter(|(_, is_equal)| !is_equal);
        differing.map(|(name, _)| *name).collect()
    };
    (differing(&certain), differing(&possible))
}

/// Every combination of the grid's values, the last key varying fastest; one empty point for an empty grid.
fn combinations(grid: &BTreeMap<String, Vec<Value>>) -> Vec<BTreeMap<String, Value>> {
    let mut points = vec![BTreeMap::new()];
    for (key, values) in grid {
        points = points
            .iter()
            .flat_map(|point| {
                values.iter().map(move |value| {
                    let mut point = point.clone();
                    point.insert(key.clone(), value.clone());
                    point
                })
            })
            .collect();
    }
    points
}

/// The part of a run's name that says its point of the grid: `-n_step=8`.
fn label(point: &BTreeMap<String, Value>) -> String {
    let short = |key: &str| key.rsplit('.').next().unwrap_or_default().to_owned();
    let part = |(key, value): (&String, &Value)| {
        let namesakes = point.keys().filter(|other| short(other) == short(key));
        let key = match namesakes.count() {
            1 => short(key),
            _ => key.clone(),
        };
        let text = value.as_str().map(str::to_owned);
        let value = text.unwrap_or_else(|| value.to_string());
        let is_unsafe = |letter: char| !letter.is_ascii_alphanumeric() && !"._-+".contains(letter);
        format!("-{key}={}", value.replace(is_unsafe, "_"))
    };
    point.iter().map(part).collect()
}

/// The run of an arm at a point of the grid.
fn planned(
    file: &SweepFile,
    arm: &Arm,
    point: &BTreeMap<String, Value>,
    seed: u64,
) -> Result<PlannedRun, SweepError> {
    let name = format!("{}{}-seed-{seed}", arm.name, label(point));
    // A setting of the arm comes later, and overrides one of every run.
    let settings = file.set.iter().chain(&arm.set).chain(point);
    let sets: Vec<String> = settings
        .map(|(key, value)| format!("{key}={value}"))
        .chain([format!("run.seed={seed}")])
        .collect();
    let config = config::load_as_written(&file.recipe, &sets).map_err(|error| {
        // A sweep file has no flags.
        let reason = error.to_string().replace("--set ", "");
        SweepError::Usage(format!("the run {name}: {reason}"))
    })?;
    Ok(PlannedRun {
        name,
        arm: arm.name.clone(),
        grid: point.clone(),
        seed,
        round: 0,
        config,
    })
}

/// Refuses a run with a name that is too long, or with the name or the settings of an earlier one.
fn check_distinct(earlier: &[PlannedRun], run: &PlannedRun) -> Result<(), SweepError> {
    let name = &run.name;
    let reason = if name.len() > MAX_NAME {
        format!(
            "the folder's name {name} would be too long; give the grid shorter values, or make them arms"
        )
    } else if earlier.iter().any(|other| other.name == *name) {
        format!("two runs would be named {name}; give the arms other names")
    } else if let Some(other) = earlier.iter().find(|other| other.config == run.config) {
        format!(
            "{} and {name} have the same settings, so they would be the same run; `rounds` repeats runs",
            other.name
        )
    } else {
        return Ok(());
    };
    Err(SweepError::Usage(format!("the sweep: {reason}")))
}
