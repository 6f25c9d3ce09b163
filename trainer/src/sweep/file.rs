//! The sweep file: which settings a sweep varies, and what its report compares.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use datasets::did_you_mean::nearest;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};
use toml::{Table, Value};

use super::SweepError;
use crate::run::absolute;

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
    #[serde(default, deserialize_with = "whole_keys")]
    pub set: BTreeMap<String, Value>,
    /// The values that are combined with every arm, by their key.
    #[serde(default, deserialize_with = "whole_keys")]
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
    #[serde(default, deserialize_with = "whole_keys")]
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
    #[serde(default = "yes")]
    pub tests: bool,
    /// The Pass@1 to which each arm's time is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<f64>,
    /// The arms that have a factor, by its name. Its effect is their mean Pass@1 − that of all other arms.
    #[serde(default)]
    pub effects: BTreeMap<String, Vec<String>>,
}

fn one() -> usize {
    1
}

fn yes() -> bool {
    true
}

impl SweepFile {
    /// Reads and checks a sweep file. The recipe's path is relative to the file. Paths in settings are relative to the working directory, as those of `--set`; all of
    /// them are made absolute.
    ///
    /// # Errors
    /// [`SweepError::Usage`] if it cannot be read, and for an unknown key or a value that makes no sense.
    pub fn read(path: &Path) -> Result<Self, SweepError> {
        let text = datasets::jsonl::read_text(path).map_err(|source| {
            SweepError::Usage(format!(
                "the sweep file {} cannot be read ({source}); give a TOML file, see `rapid sweep --help`",
                path.display()
            ))
        })?;
        let mut file = Self::parse(&path.display().to_string(), &text)?;
        let beside = path.parent().unwrap_or(Path::new("")).join(&file.recipe);
        if beside.is_file() {
            file.recipe = absolute(&beside).display().to_string();
        }
        let sets = file.arms.iter_mut().map(|arm| &mut arm.set);
        let settings = sets.chain([&mut file.set]).flatten();
        settings.for_each(|(key, value)| make_absolute(key, value));
        for (key, values) in &mut file.grid {
            values
                .iter_mut()
                .for_each(|value| make_absolute(key, value));
        }
        Ok(file)
    }

    /// Parses and checks the text of a sweep file; `origin` names it in errors. Paths stay as they are written.
    ///
    /// # Errors
    /// [`SweepError::Usage`].
    pub fn parse(origin: &str, text: &str) -> Result<Self, SweepError> {
        let usage = |reason: String| SweepError::Usage(format!("{origin}: {reason}"));
        let table: Table = text
            .parse()
            .map_err(|error: toml::de::Error| usage(error.to_string()))?;
        let file: Self = table.try_into().map_err(|error: toml::de::Error| {
            // The parser speaks of Rust's types.
            let types = [
                ("a sequence", "a list"),
                ("a map", "a table"),
                ("struct Arm", "a table with name and set"),
                ("u64", "a whole number"),
                ("usize", "a whole number"),
                ("f64", "a number"),
            ];
            let reason = error.to_string().replace('\n', " ");
            let reason = types.iter().fold(reason, |reason, (theirs, ours)| {
                reason.replace(&format!("expected {theirs}"), &format!("expected {ours}"))
            });
            let reason = reason.trim_end();
            usage(format!(
                "{reason}; `rapid sweep --help` shows the form of a sweep file"
            ))
        })?;
        file.check().map_err(usage)?;
        Ok(file)
    }

    /// The file as TOML, which [`SweepFile::read`] reads from any folder.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a sweep file consists of strings, numbers and lists")
    }

    /// The first difference from another sweep file that affects this one's runs, in words; `None` without any. `[compare]` affects none, and neither do further
    /// seeds after this one's.
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
        let [its, here] = [&ours, &theirs].map(|table| {
            let value = table.get(differing);
            value.map_or_else(|| "nothing".to_owned(), Value::to_string)
        });
        Some(format!("its `{differing}` is {its}, and here {here}"))
    }

    fn check(&self) -> Result<(), String> {
        let arms: Vec<&str> = self.arms.iter().map(|arm| arm.name.as_str()).collect();
        let (seeds, rounds) = (self.seeds.len(), self.rounds);
        let grid = self.grid.iter().map(|(key, values)| (&**key, values.len()));
        let mut counts = vec![("seeds", seeds), ("rounds", rounds), ("arms", arms.len())];
        counts.extend(grid);
        if let Some((key, _)) = counts.iter().find(|(_, count)| *count == 0) {
            return Err(format!("`{key}` makes no runs; give at least one"));
        }
        let counts = counts.iter().map(|(_, count)| *count);
        let runs = counts.fold(1, usize::saturating_mul);
        if runs > MAX_RUNS {
            return Err(format!(
                "it has {runs} runs, the product of its seeds, rounds, arms and the grid's values; at most {MAX_RUNS} are possible. Give the grid fewer values"
            ));
        }
        if let Some(seed) = repeated(&self.seeds) {
            return Err(format!(
                "`seeds` has {seed} twice; `rounds` repeats runs of the same seed"
            ));
        }
        if let Some(name) = repeated(&arms) {
            return Err(format!("two arms are named {name}; give each its own name"));
        }
        if let Some(name) = arms.iter().find(|name| !is_folder_name(name)) {
            return Err(format!(
                "the arm's name `{name}` is part of a folder's name; give 1 to 60 letters, digits, dots, hyphens and underscores, a letter or digit first"
            ));
        }
        let mut settings = self.arms.iter().map(|arm| &arm.set).chain([&self.set]);
        if settings.any(|set| set.contains_key(SEED)) || self.grid.contains_key(SEED) {
            return Err(format!(
                "`{SEED}` is set by `seeds`; leave it out elsewhere"
            ));
        }
        for (key, values) in &self.grid {
            self.check_grid(key, values)
                .map_err(|reason| format!("[grid]: {reason}"))?;
        }
        if let Some(compare) = &self.compare {
            compare
                .check(&arms)
                .map_err(|reason| format!("[compare{reason}"))?;
        }
        Ok(())
    }

    fn check_grid(&self, key: &str, values: &[Value]) -> Result<(), String> {
        let written: Vec<String> = values.iter().map(Value::to_string).collect();
        if let Some(value) = repeated(&written) {
            return Err(format!("`{key}` has {value} twice"));
        }
        let arms = self.arms.iter().map(|arm| (&*arm.name, &arm.set));
        let set = ("[set]", &self.set);
        let found = arms.chain([set]).find(|(_, set)| set.contains_key(key));
        found.map_or(Ok(()), |(place, _)| {
            Err(format!(
                "`{key}` is in {place} too; leave it out of one of the two"
            ))
        })
    }
}

impl Compare {
    /// Checks it against the names of the arms. An error is what follows `[compare` in the message.
    fn check(&self, arms: &[&str]) -> Result<(), String> {
        let known = |name: &String| {
            if arms.contains(&name.as_str()) {
                return Ok(());
            }
            let hint = nearest(name, arms.iter().copied())
                .map_or_else(String::new, |near| format!(" (did you mean {near}?)"));
            let arms = arms.join(", ");
            Err(format!(
                "{name}, which is not an arm{hint}; the arms are {arms}"
            ))
        };
        known(&self.reference).map_err(|reason| format!("]: `reference` is {reason}"))?;
        for (key, share) in [("margin", Some(self.margin)), ("target", self.target)] {
            if let Some(share) = share.filter(|share| !(*share > 0.0 && *share < 1.0)) {
                return Err(format!(
                    "]: `{key}` is {share}; give a share of the samples above 0 and below 1, such as 0.02"
                ));
            }
        }
        for (factor, with) in &self.effects {
            let inside = |reason: String| format!(".effects]: `{factor}` {reason}");
            for arm in with {
                known(arm).map_err(|reason| inside(format!("has {reason}")))?;
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
    let is_safe = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    name.len() <= 60
        && name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && name.chars().all(is_safe)
}

/// Reads settings with the keys of inner tables written whole: `algorithm.h = 2` without quotes is a table of tables. A key that is there in both forms is an error.
fn whole_keys<'de, D: Deserializer<'de>, V: DeserializeOwned>(
    source: D,
) -> Result<BTreeMap<String, V>, D::Error> {
    let mut whole = BTreeMap::new();
    let mut tables = vec![(String::new(), Table::deserialize(source)?)];
    while let Some((outer, table)) = tables.pop() {
        for (key, value) in table {
            let key = format!("{outer}{key}");
            if let Value::Table(inner) = value {
                tables.push((format!("{key}."), inner));
                continue;
            }
            let value = value.try_into().map_err(|error: toml::de::Error| {
                D::Error::custom(format!("{} in `{key}`", error.message()))
            })?;
            if whole.contains_key(&key) {
                let reason = format!("`{key}` is there twice; leave one out");
                return Err(D::Error::custom(reason));
            }
            whole.insert(key, value);
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
        _ if key.ends_with(".dataset") => datasets::is_user_file(text),
        _ if key.ends_with(".template") => path.is_file(),
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
