//! The runs of a sweep, in the order in which they are made.

use std::collections::BTreeMap;

use toml::Value;

use super::SweepError;
use super::file::{SweepFile, setting};
use crate::config::{self, Config};

/// The runs of a sweep, resolved and checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// One for each seed and round, in the file's order; the rounds of a seed follow each other.
    pub blocks: Vec<Block>,
}

/// All runs of one seed and round: what is compared within one machine and time.
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    /// The value of `run.seed`.
    pub seed: u64,
    /// The repetition, counted from 0.
    pub round: usize,
    /// Its runs, in order. Every second round is reversed (ABBA), so that a machine that gets slower or faster favours no arm. The arms of one point of the grid are
    /// beside each other.
    pub runs: Vec<PlannedRun>,
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
    #[must_use]
    pub fn block(&self) -> (u64, usize) {
        (self.seed, self.round)
    }
}

/// Maximum length of a run's name, which is a folder's.
const MAX_NAME: usize = 200;

/// What the arms of a block share if they see the same prompts in the same order.
const MATCHED: [&str; 6] = [
    "[data]",
    "algorithm.group_size",
    "algorithm.n_step",
    "algorithm.dynamic_sampling",
    "their epochs or updates",
    "the prompts that are dropped at the end of an epoch",
];

impl Plan {
    /// Plans a sweep.
    ///
    /// # Errors
    /// [`SweepError::Run`] if the settings of a run are refused; [`SweepError::File`] if two runs would be the same.
    pub fn new(file: &SweepFile) -> Result<Self, SweepError> {
        let points = combinations(&file.grid);
        let mut blocks = Vec::with_capacity(file.seeds.len() * file.rounds);
        for &seed in &file.seeds {
            let mut runs = Vec::new();
            for point in &points {
                for arm in &file.arms {
                    let name = format!("{}{}-seed-{seed}", arm.name, label(point));
                    let sets: Vec<String> = file
                        .set
                        .iter()
                        // A setting of the arm comes later, and overrides one of every run.
                        .chain(&arm.set)
                        .chain(point)
                        .map(|(key, value)| setting(key, value))
                        .chain([format!("run.seed={seed}")])
                        .collect();
                    let config =
                        config::load_as_written(&file.recipe, &sets).map_err(|source| {
                            SweepError::Run {
                                run: name.clone(),
                                source,
                            }
                        })?;
                    runs.push(PlannedRun {
                        name,
                        arm: arm.name.clone(),
                        grid: point.clone(),
                        seed,
                        round: 0,
                        config,
                    });
                }
            }
            check_distinct(&runs)?;
            blocks.extend(in_rounds(seed, runs, file.rounds));
        }
        Ok(Self { blocks })
    }

    /// Sets the date for chat templates of the runs that have none.
    pub(super) fn set_chat_date(&mut self, date: Option<&str>) {
        let runs = self.blocks.iter_mut().flat_map(|block| &mut block.runs);
        for data in runs.map(|run| &mut run.config.data) {
            if data.chat && data.chat_date.is_none() {
                data.chat_date = date.map(str::to_owned);
            }
        }
    }

    /// All runs, in order.
    pub fn runs(&self) -> impl Iterator<Item = &PlannedRun> {
        self.blocks.iter().flat_map(|block| &block.runs)
    }

    /// Where the arms of a point of the grid differ from its first arm in what makes their data equal; one sentence for each arm. It is the same for every seed, so
    /// the first block answers for all.
    #[must_use]
    pub fn unmatched(&self) -> Vec<String> {
        let runs = self.blocks.first().map_or(&[][..], |block| &block.runs);
        let mut sentences = Vec::new();
        for run in runs {
            let first = runs.iter().find(|first| first.grid == run.grid);
            let Some(first) = first else { continue };
            let differing = differing(&first.config, &run.config);
            if !differing.is_empty() {
                sentences.push(format!(
                    "{} does not see the same prompts in the same order as {}: they differ in {}",
                    run.name,
                    first.name,
                    differing.join(", ")
                ));
            }
        }
        sentences
    }
}

/// The names of what two runs should share and do not.
fn differing(one: &Config, other: &Config) -> Vec<&'static str> {
    let (a, b) = (&one.algorithm, &other.algorithm);
    let equal = [
        one.data == other.data,
        a.group_size == b.group_size,
        a.n_step == b.n_step,
        a.dynamic_sampling == b.dynamic_sampling,
        (one.run.epochs, one.run.updates) == (other.run.epochs, other.run.updates),
        // Those that do not fill a phase, of which H says the size.
        a.drop_last_phase == b.drop_last_phase && (!a.drop_last_phase || a.h == b.h),
    ];
    MATCHED
        .into_iter()
        .zip(equal)
        .filter_map(|(name, equal)| (!equal).then_some(name))
        .collect()
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
    let mut text = String::new();
    for (key, value) in point {
        let alone = point
            .keys()
            .filter(|other| short(other) == short(key))
            .count()
            == 1;
        let key = if alone { short(key) } else { key.clone() };
        let value = match value {
            Value::String(value) => value.clone(),
            value => value.to_string(),
        };
        text.push('-');
        text.push_str(&key);
        text.push('=');
        text.extend(value.chars().map(|letter| {
            let safe = letter.is_ascii_alphanumeric() || "._-+".contains(letter);
            if safe { letter } else { '_' }
        }));
    }
    text
}

/// Refuses runs with equal names or equal settings.
fn check_distinct(runs: &[PlannedRun]) -> Result<(), SweepError> {
    for (number, run) in runs.iter().enumerate() {
        if run.name.len() > MAX_NAME {
            return Err(SweepError::file(
                "the sweep",
                format!(
                    "the folder's name {} would be too long; give the grid shorter values, or make them arms",
                    run.name
                ),
            ));
        }
        let same_name = runs[..number].iter().find(|other| other.name == run.name);
        if same_name.is_some() {
            return Err(SweepError::file(
                "the sweep",
                format!(
                    "two runs would be named {}; give the arms other names",
                    run.name
                ),
            ));
        }
        if let Some(other) = runs[..number]
            .iter()
            .find(|other| other.config == run.config)
        {
            return Err(SweepError::file(
                "the sweep",
                format!(
                    "{} and {} have the same settings, so they would be the same run; `rounds` repeats runs",
                    other.name, run.name
                ),
            ));
        }
    }
    Ok(())
}

/// A block for each round, every second one in reverse order.
fn in_rounds(seed: u64, runs: Vec<PlannedRun>, rounds: usize) -> Vec<Block> {
    if rounds == 1 {
        return vec![Block {
            seed,
            round: 0,
            runs,
        }];
    }
    (0..rounds)
        .map(|round| {
            let mut runs: Vec<PlannedRun> = runs
                .iter()
                .map(|run| PlannedRun {
                    name: format!("{}-round-{round}", run.name),
                    round,
                    ..run.clone()
                })
                .collect();
            if round % 2 == 1 {
                runs.reverse();
            }
            Block { seed, round, runs }
        })
        .collect()
}
