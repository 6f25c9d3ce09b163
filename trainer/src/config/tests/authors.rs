//! The recipes of the paper's rows beside the values that its authors ran.

use std::collections::BTreeSet;

use serde::Deserialize;
use toml::Value;

use super::*;

/// `recipes/paper/authors.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Authors {
    values: Vec<AuthorValue>,
}

/// A value, where it is stated, and the rows that must have it. `None` stands for all.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AuthorValue {
    key: String,
    value: Value,
    /// The paper states it, it was read in the authors' code, a review of that code found it, or neither shows it.
    #[serde(rename = "evidence")]
    _evidence: String,
    source: String,
    /// Whether it departs from the paper, so that only the recipes `authors/…` have it.
    #[serde(default)]
    departs: bool,
    models: Option<Vec<String>>,
    datasets: Option<Vec<String>>,
    algorithms: Option<Vec<String>>,
}

impl AuthorValue {
    /// Whether it is for the row `MODEL-DATASET-ALGORITHM`.
    fn is_for(&self, row: &str, dataset: &str) -> bool {
        let (model, algorithm) = row.split_once(&format!("-{dataset}-")).unwrap();
        let has = |list: &Option<Vec<String>>, name: &str| {
            let list = list.as_ref();
            list.is_none_or(|list| list.iter().any(|listed| listed == name))
        };
        has(&self.models, model) && has(&self.datasets, dataset) && has(&self.algorithms, algorithm)
    }
}

#[test]
fn the_recipe_of_every_row_has_the_values_that_the_authors_ran() {
    let authors: Authors =
        toml::from_str(include_str!("../../../recipes/paper/authors.toml")).unwrap();
    let mut used = BTreeSet::new();
    let (mut wrong, mut rows) = (Vec::new(), 0);
    for name in built_in() {
        let Some((kind, row)) = name.split_once('/') else {
            continue;
        };
        let config = load(&name, &[]).unwrap();
        if kind == "paper" {
            let dataset = format!("-{}-", config.data.dataset);
            let (_, algorithm) = row.rsplit_once(&dataset).unwrap();
            let preset = match algorithm {
                "dapo" => Preset::DapoPaper,
                // `rapid-hN` is no preset.
                other => Preset::named(other).unwrap_or_default(),
            };
            assert_eq!(config.algorithm.preset, preset, "{name}");
            rows += 1;
        }
        let table = config.to_table();
        let mut keys = BTreeSet::new();
        for (number, expected) in authors.values.iter().enumerate() {
            let departs = kind == "paper" && expected.departs;
            if departs || !expected.is_for(row, &config.data.dataset) {
                continue;
            }
            used.insert(number);
            let (section, key) = expected.key.split_once('.').unwrap();
            assert!(keys.insert(&*expected.key), "{row} has {key} twice");
            let ours = table[section].get(key);
            if ours != Some(&expected.value) {
                wrong.push(format!(
                    "{name}: {} is {ours:?}, not {} ({})",
                    expected.key, expected.value, expected.source
                ));
            }
        }
        let mut required = "model.name algorithm.n_step algorithm.h optimiser.lr".split(' ');
        assert!(required.all(|key| keys.contains(key)), "{row}");
    }
    assert_eq!((wrong, rows), (Vec::<String>::new(), 39));
    assert_eq!(used.len(), authors.values.len(), "a value is for no row");
}
