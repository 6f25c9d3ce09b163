//! The built-in recipes, and the search for a recipe by its name or path.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

use datasets::did_you_mean::nearest;
use datasets::settings::SettingError;
use serde::Deserialize;
use toml::{Table, Value};

use crate::paper;

/// Names and texts of recipes, from the files of the recipes folder.
macro_rules! built_in {
    ($($name:literal,)*) => {
        &[$(($name, include_str!(concat!("../../recipes/", $name, ".toml"))),)*]
    };
}

/// Names and texts of the recipes for a CPU.
const FOR_CPU: &[(&str, &str)] = built_in![
    "quickstart",
    "smollm2-gsm8k",
    "smollm2-mbppplus",
    "smollm2-sft",
];

/// The prefix of the names of recipes for the paper's rows, as the paper describes them.
const PAPER: &str = "paper/";
/// The prefix of the names of recipes for the same rows, as the authors' public code ran them.
const AUTHORS: &str = "authors/";

/// The rows of the paper's tables. The recipe of each row combines the settings of its data set, its model and its algorithm.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rows {
    models: Table,
    datasets: Table,
    algorithms: Table,
    /// The authors' departures from the paper: those of `all` rows, then by algorithm, without its H, and by `DATASET-ALGORITHM`.
    authors: Table,
}

static ROWS: LazyLock<Rows> = LazyLock::new(|| {
    let text = include_str!("../../recipes/paper/rows.toml");
    toml::from_str(text).expect("a test reads every row")
});

/// The paper's result of each row, by `MODEL-DATASET-ALGORITHM`; the first one if two tables have it.
static RESULTS: LazyLock<BTreeMap<String, String>> = LazyLock::new(|| {
    let rows = paper::PAPER.results.iter().rev();
    rows.filter_map(|row| Some((row.recipe()?, row.line())))
        .collect()
});

impl Rows {
    /// The recipe of a row, `None` if the paper has no such row.
    fn recipe(&self, row: &str, as_authors: bool) -> Option<String> {
        let result = RESULTS.get(row)?;
        let (model, rest) = split_name(&self.models, row)?;
        let (dataset, algorithm) = split_name(&self.datasets, rest)?;
        let mut recipe = Table::new();
        lay_over(&mut recipe, dataset);
        lay_over(&mut recipe, model);
        lay_over(&mut recipe, self.algorithms.get(algorithm)?.as_table()?);
        if as_authors {
            let without_h = algorithm.split_once("-h");
            let algorithm = without_h.map_or(algorithm, |(name, _)| name);
            let dataset = rest.split_once('-')?.0;
            for departures in ["all", algorithm, &format!("{dataset}-{algorithm}")] {
                if let Some(settings) = self.authors.get(departures) {
                    lay_over(&mut recipe, settings.as_table()?);
                }
            }
        }
        Some(format!("# The paper's {result}.\n{recipe}"))
    }
}

/// The settings named by the start of `name`, and the rest of `name` after a hyphen.
fn split_name<'a, 'n>(settings: &'a Table, name: &'n str) -> Option<(&'a Table, &'n str)> {
    settings.iter().find_map(|(known, settings)| {
        let rest = name.strip_prefix(known.as_str())?.strip_prefix('-')?;
        Some((settings.as_table()?, rest))
    })
}

/// Sets the keys of `settings` in `recipe`, section by section.
fn lay_over(recipe: &mut Table, settings: &Table) {
    for (section, keys) in settings {
        let entry = recipe
            .entry(section)
            .or_insert_with(|| Value::Table(Table::new()));
        if let (Value::Table(to), Value::Table(from)) = (entry, keys) {
            to.extend(from.clone());
        }
    }
}

/// The names of the built-in recipes: those for a CPU, then two for each row of the paper's tables.
pub fn names() -> impl Iterator<Item = String> {
    let of = |prefix| RESULTS.keys().map(move |row| format!("{prefix}{row}"));
    let for_cpu = FOR_CPU.iter().map(|(name, _)| (*name).to_owned());
    for_cpu.chain([PAPER, AUTHORS].into_iter().flat_map(of))
}

fn source(name: &str) -> Option<Cow<'static, str>> {
    for (prefix, as_authors) in [(PAPER, false), (AUTHORS, true)] {
        if let Some(row) = name.strip_prefix(prefix) {
            return ROWS.recipe(row, as_authors).map(Cow::Owned);
        }
    }
    let found = FOR_CPU.iter().find(|(known, _)| *known == name);
    found.map(|(_, text)| Cow::Borrowed(*text))
}

/// The names of the built-in recipes in one line; those of the paper's rows as a pattern.
fn listed() -> String {
    let short: Vec<&str> = FOR_CPU.iter().map(|(name, _)| *name).collect();
    short.join(", ")
        + ", and paper/MODEL-DATASET-ALGORITHM for each row of the paper's tables, such as paper/qwen2.5-0.5b-mbppplus-rapid-h4; authors/ in place of paper/ is the row as its authors' code ran it"
}

/// The origin of a recipe, for errors, and its text. A file has precedence over a built-in recipe of the same name.
pub(super) fn find(recipe: &str) -> Result<(String, String), SettingError> {
    let path = Path::new(recipe);
    if !path.is_file()
        && let Some(text) = source(recipe)
    {
        return Ok((format!("the built-in recipe {recipe}"), text.into_owned()));
    }
    datasets::jsonl::read_text(path)
        .map(|text| (recipe.to_owned(), text))
        .map_err(|error| {
            let names: Vec<String> = names().collect();
            let suggestion = nearest(recipe, names.iter().map(String::as_str))
                .map(|name| format!(" (did you mean {name}?)"))
                .unwrap_or_default();
            SettingError::Refused(format!(
                "the recipe {recipe} cannot be read ({error}); give a TOML file, or one of the built-in recipes: {}{suggestion}",
                listed()
            ))
        })
}
