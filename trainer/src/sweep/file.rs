//! The sweep file: which settings a sweep varies, and what its report compares.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use datasets::did_you_mean::nearest;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use super::SweepError;
use crate::config;
use crate::run::absolute;

/// Maximum number of rounds.
const MAX_ROUNDS: usize = 100;
const MAX_RUNS: usize = 10_000;

/// The seed's key, which the list of seeds sets.
const SEED: &str = "run.seed";

/// A sweep file, as it was read. Keys of recipes are whole, such as `algorithm.h`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SweepFile {
    /// The base recipe: a built-in name, or the full path of a file.
    pub recipe: String,
    /// The values of `run.seed`.
    pub seeds: Vec<u64>,
    /// How often each run is repeated.
    #[serde(default = "one")]
    pub rounds: usize,
    /// Whether a finished run keeps its checkpoints.
    #[serde(default = "yes")]
    pub keep_checkpoints: bool,
    /// Settings of every run.
    #[serde(default)]
    pub set: BTreeMap<String, Value>,
    /// The values that are combined with every arm, by their key.
    #[serde(default)]
    pub grid: BTreeMap<String, Vec<Value>>,
    /// Named settings, in the file's order; at least one.
    pub arms: Vec<Arm>,
    /// What the report compares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compare: Option<Compare>,
}

/// Settings that belong together. An arm's settings override those of every run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arm {
    /// Letters, digits, `.`, `_` and `-`: it is part of folder names.
    pub name: String,
    /// The arm's settings.
    #[serde(default)]
    pub set: BTreeMap<String, Value>,
}

/// What the report compares.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Compare {
    /// The arm that every other one is compared with.
    pub reference: String,
    /// A difference of Pass@1 within ± this counts as the same accuracy.
    pub margin: f64,
    /// Whether the differences are tested; else the report has estimates and intervals only.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub tests: bool,
    /// The Pass@1 to which each arm's time is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<f64>,
    /// The arms that have a factor, by its name. Its effect is their mean Pass@1 − that of all other arms.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub effects: BTreeMap<String, Vec<String>>,
}

fn one() -> usize {
    1
}

fn yes() -> bool {
    true
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_yes(value: &bool) -> bool {
    *value
}

impl SweepFile {
    /// Reads and checks a sweep file. The recipe's path is relative to the file. Paths in settings are relative to the working directory, as those of `--set`; all of
    /// them are made absolute.
    ///
    /// # Errors
    /// [`SweepError::Unreadable`]; [`SweepError::File`] for an unknown key, or a value that makes no sense.
    pub fn read(path: &Path) -> Result<Self, SweepError> {
        let text = datasets::jsonl::read_text(path).map_err(|source| SweepError::Unreadable {
            path: path.to_owned(),
            source,
        })?;
        let mut file = Self::parse(&path.display().to_string(), &text)?;
        let beside = path.parent().unwrap_or(Path::new("")).join(&file.recipe);
        if beside.is_file() {
            file.recipe = absolute(&beside).display().to_string();
        }
        let arms = file.arms.iter_mut().map(|arm| &mut arm.set);
        for settings in arms.chain([&mut file.set]) {
            for (key, value) in settings {
                make_absolute(key, value);
            }
        }
        for (key, values) in &mut file.grid {
            for value in values {
                make_absolute(key, value);
            }
        }
        Ok(file)
    }

    /// Parses and checks the text of a sweep file; `origin` names it in errors. Paths stay as they are written.
    ///
    /// # Errors
    /// [`SweepError::File`].
    pub fn parse(origin: &str, text: &str) -> Result<Self, SweepError> {
        let syntax = |error: toml::de::Error| SweepError::file(origin, error.to_string());
        let mut table: Table = text.parse().map_err(syntax)?;
        let twice = |place: &str, key: &str| {
            SweepError::file(origin, format!("{place} has `{key}` twice; leave one out"))
        };
        for section in ["set", "grid"] {
            if let Some(Value::Table(settings)) = table.get_mut(section) {
                *settings = whole_keys(std::mem::take(settings))
                    .map_err(|key| twice(&format!("[{section}]"), &key))?;
            }
        }
        if let Some(Value::Array(arms)) = table.get_mut("arms") {
            for arm in arms {
                if let Some(Value::Table(settings)) = arm.get_mut("set") {
                    *settings = whole_keys(std::mem::take(settings))
                        .map_err(|key| twice("an arm", &key))?;
                }
            }
        }
        let form = |error: toml::de::Error| {
            // The parser speaks of Rust's types.
            let reason = [
                ("a sequence", "a list"),
                ("a map", "a table"),
                ("struct Arm", "a table with name and set"),
                ("u64", "a whole number"),
                ("usize", "a whole number"),
                ("f64", "a number"),
            ]
            .iter()
            .fold(
                error.to_string().replace('\n', " "),
                |reason, (theirs, ours)| {
                    reason.replace(&format!("expected {theirs}"), &format!("expected {ours}"))
                },
            );
            let hint = "`rapid sweep --help` shows the form of a sweep file";
            SweepError::file(origin, format!("{}; {hint}", reason.trim_end()))
        };
        let file: Self = table.try_into().map_err(form)?;
        file.check()
            .map_err(|reason| SweepError::file(origin, reason))?;
        Ok(file)
    }

    /// The file as TOML, which [`SweepFile::read`] reads from any folder.
    #[must_use]
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a sweep file consists of strings, numbers and lists")
    }

    /// The first difference from another sweep file that concerns this one's runs, in words; `None` if there is none. What is compared concerns none, and neither do
    /// further seeds after this one's.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Option<String> {
        let table =
            |file: &Self| Table::try_from(file).expect("a sweep file has the form of a table");
        let (ours, theirs) = (table(self), table(other));
        let differing = ours
            .keys()
            .chain(theirs.keys())
            .filter(|key| *key != "compare")
            .filter(|key| *key != "seeds" || !other.seeds.starts_with(&self.seeds))
            .find(|key| ours.get(*key) != theirs.get(*key))?;
        let written = |table: &Table| {
            table
                .get(differing)
                .map_or_else(|| "nothing".to_owned(), Value::to_string)
        };
        Some(format!(
            "its `{differing}` is {}, and here {}",
            written(&ours),
            written(&theirs)
        ))
    }

    fn check(&self) -> Result<(), String> {
        if self.seeds.is_empty() {
            return Err("`seeds` is empty; give at least one, such as [0]".into());
        }
        if let Some(seed) = repeated(&self.seeds) {
            return Err(format!(
                "`seeds` has {seed} twice; `rounds` repeats runs of the same seed"
            ));
        }
        if !(1..=MAX_ROUNDS).contains(&self.rounds) {
            return Err(format!(
                "`rounds` is {}; give a whole number from 1 to {MAX_ROUNDS}",
                self.rounds
            ));
        }
        if self.arms.is_empty() {
            return Err("`arms` is empty; give at least one, as [[arms]] with a name".into());
        }
        let names: Vec<&str> = self.arms.iter().map(|arm| arm.name.as_str()).collect();
        if let Some(name) = repeated(&names) {
            return Err(format!("two arms are named {name}; give each its own name"));
        }
        for arm in &self.arms {
            if !is_folder_name(&arm.name) {
                return Err(format!(
                    "the arm's name `{}` is part of a folder's name; give 1 to 60 letters, digits, dots, hyphens and underscores, a letter or digit first",
                    arm.name
                ));
            }
            for (key, value) in &arm.set {
                check_setting(key, value)
                    .map_err(|reason| format!("arm {}: {reason}", arm.name))?;
            }
        }
        for (key, value) in &self.set {
            check_setting(key, value).map_err(|reason| format!("[set]: {reason}"))?;
        }
        for (key, values) in &self.grid {
            self.check_grid(key, values)
                .map_err(|reason| format!("[grid]: {reason}"))?;
        }
        self.check_compare(&names)?;
        let points = self.grid.values().map(Vec::len);
        let runs = points
            .chain([self.seeds.len(), self.rounds, names.len()])
            .fold(1, usize::saturating_mul);
        if runs > MAX_RUNS {
            return Err(format!(
                "it has {runs} runs, the product of its seeds, rounds, arms and the grid's values; at most {MAX_RUNS} are possible. Give the grid fewer values"
            ));
        }
        Ok(())
    }

    fn check_grid(&self, key: &str, values: &[Value]) -> Result<(), String> {
        if values.is_empty() {
            return Err(format!(
                "`{key}` has no values; give some, or leave the key out"
            ));
        }
        for value in values {
            check_setting(key, value)?;
        }
        let written: Vec<String> = values.iter().map(Value::to_string).collect();
        if let Some(value) = repeated(&written) {
            return Err(format!("`{key}` has {value} twice"));
        }
        if self.set.contains_key(key) {
            return Err(format!(
                "`{key}` is in [set] too; leave it out of one of the two"
            ));
        }
        match self.arms.iter().find(|arm| arm.set.contains_key(key)) {
            Some(arm) => Err(format!(
                "`{key}` is set by the arm {} too; leave it out of one of the two",
                arm.name
            )),
            None => Ok(()),
        }
    }

    fn check_compare(&self, arms: &[&str]) -> Result<(), String> {
        let Some(compare) = &self.compare else {
            return Ok(());
        };
        if !arms.contains(&compare.reference.as_str()) {
            return Err(format!(
                "[compare]: `reference` is {}, which is not an arm{}; the arms are {}",
                compare.reference,
                hint(&compare.reference, arms),
                arms.join(", ")
            ));
        }
        if !(compare.margin > 0.0 && compare.margin < 1.0) {
            return Err(format!(
                "[compare]: `margin` is {}; give a difference of Pass@1 above 0 and below 1, such as 0.02",
                compare.margin
            ));
        }
        if let Some(target) = compare.target.filter(|it| !(*it > 0.0 && *it < 1.0)) {
            return Err(format!(
                "[compare]: `target` is {target}; give a Pass@1 above 0 and below 1, such as 0.5"
            ));
        }
        for (factor, with) in &compare.effects {
            let inside = |reason: String| format!("[compare.effects]: `{factor}` {reason}");
            if let Some(unknown) = with.iter().find(|arm| !arms.contains(&arm.as_str())) {
                return Err(inside(format!(
                    "has {unknown}, which is not an arm{}; the arms are {}",
                    hint(unknown, arms),
                    arms.join(", ")
                )));
            }
            if let Some(twice) = repeated(with) {
                return Err(inside(format!("has {twice} twice")));
            }
            if with.is_empty() || with.len() == arms.len() {
                return Err(inside(
                    "needs arms with the factor and arms without it".into(),
                ));
            }
        }
        Ok(())
    }
}

/// Whether a text is safe as a folder's name, with others appended to it.
fn is_folder_name(name: &str) -> bool {
    name.len() <= 60
        && name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && name
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || "._-".contains(letter))
}

fn hint(word: &str, known: &[&str]) -> String {
    nearest(word, known.iter().copied())
        .map(|name| format!(" (did you mean {name}?)"))
        .unwrap_or_default()
}

/// Checks a key of a recipe and its value, as `--set` does.
fn check_setting(key: &str, value: &Value) -> Result<(), String> {
    if key == SEED {
        return Err(format!("`{SEED}` is set by `seeds`; leave it out here"));
    }
    config::parse_set(&setting(key, value))
        .map(|_| ())
        // A sweep file has no flags.
        .map_err(|error| error.to_string().trim_start_matches("--set ").to_owned())
}

/// A setting in the form that `--set` takes.
pub(super) fn setting(key: &str, value: &Value) -> String {
    format!("{key}={value}")
}

/// The table with the keys of inner tables written whole: `algorithm.h = 2` without quotes is a table of tables. A key that is there in both forms is an error.
fn whole_keys(table: Table) -> Result<Table, String> {
    let mut whole = Table::new();
    for (key, value) in table {
        let settings = match value {
            Value::Table(inner) => whole_keys(inner)?
                .into_iter()
                .map(|(rest, value)| (format!("{key}.{rest}"), value))
                .collect(),
            value => vec![(key, value)],
        };
        for (key, value) in settings {
            if whole.insert(key.clone(), value).is_some() {
                return Err(key);
            }
        }
    }
    Ok(whole)
}

/// Makes the value absolute if the key's value is a path.
fn make_absolute(key: &str, value: &mut Value) {
    let Value::String(text) = value else {
        return;
    };
    let path = PathBuf::from(&*text);
    let is_path = match key {
        "model.path" | "data.teacher" => true,
        "data.dataset" => datasets::is_user_file(text),
        "data.template" => path.is_file(),
        _ => false,
    };
    if is_path {
        *text = absolute(&path).display().to_string();
    }
}

/// The first item that an earlier one equals.
fn repeated<T: Ord>(items: &[T]) -> Option<&T> {
    let mut seen = BTreeSet::new();
    items.iter().find(|item| !seen.insert(*item))
}
