//! The recipes of the paper's rows beside the values that its authors ran.

use std::collections::BTreeSet;

use serde::Deserialize;
use toml::{Table, Value};

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
    evidence: Evidence,
    source: String,
    /// Whether it departs from the paper, so that only the recipes `authors/…` have it.
    #[serde(default)]
    departs: bool,
    models: Option<Vec<String>>,
    datasets: Option<Vec<String>>,
    algorithms: Option<Vec<String>>,
}

/// How a value is known.
#[derive(Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Evidence {
    /// The paper states it.
    Paper,
    /// It was read in the file of the authors' code itself.
    Checked,
    /// A review of the files found it.
    Reported,
    /// Neither shows it.
    Assumed,
}

impl AuthorValue {
    /// Its row of the table in the README.
    fn in_table(&self) -> String {
        let lists = [&self.models, &self.datasets, &self.algorithms];
        let rows: Vec<String> = lists
            .into_iter()
            .flatten()
            .map(|names| names.join(", "))
            .collect();
        let rows = if rows.is_empty() {
            "all".to_owned()
        } else {
            rows.join("; ")
        };
        let only = if self.departs {
            " (`authors/` only)"
        } else {
            ""
        };
        let evidence = format!("{:?}", self.evidence).to_lowercase();
        format!(
            "| `{}` | `{}` | {rows}{only} | {evidence} | {} |\n",
            self.key,
            self.value.to_string().trim_matches('"'),
            self.source
        )
    }

    /// Whether it is for the row `MODEL-DATASET-ALGORITHM`.
    fn is_for(&self, row: &str, dataset: &str) -> bool {
        let (model, algorithm) = row.split_once(&format!("-{dataset}-")).unwrap();
        let has = |list: &Option<Vec<String>>, name: &str| {
            list.as_ref()
                .is_none_or(|list| list.iter().any(|listed| listed == name))
        };
        has(&self.models, model) && has(&self.datasets, dataset) && has(&self.algorithms, algorithm)
    }
}

fn authors() -> Authors {
    toml::from_str(include_str!("../../../recipes/paper/authors.toml")).unwrap()
}

/// The value of `section.key`.
fn value<'a>(config: &'a Table, key: &str) -> Option<&'a Value> {
    let (section, key) = key.split_once('.')?;
    config.get(section)?.get(key)
}

#[test]
fn the_recipe_of_every_row_has_the_values_that_the_authors_ran() {
    let authors = authors();
    let mut used = BTreeSet::new();
    let mut wrong = Vec::new();
    for name in built_in() {
        let Some((kind, row)) = name.split_once('/') else {
            continue;
        };
        let config = load(&name, &[]).unwrap();
        let table = config.to_table();
        let mut keys = BTreeSet::new();
        for (number, expected) in authors.values.iter().enumerate() {
            let departs = kind == "paper" && expected.departs;
            if departs || !expected.is_for(row, &config.data.dataset) {
                continue;
            }
            used.insert(number);
            assert!(
                keys.insert(&expected.key),
                "two values of {} for {row}",
                expected.key
            );
            let ours = value(&table, &expected.key);
            if ours != Some(&expected.value) {
                wrong.push(format!(
                    "{name}: {} is {ours:?}, not {} ({})",
                    expected.key, expected.value, expected.source
                ));
            }
        }
        for key in [
            "model.name",
            "algorithm.n_step",
            "algorithm.h",
            "optimiser.lr",
        ] {
            assert!(keys.contains(&key.to_owned()), "{row} has no {key}");
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert_eq!(used.len(), authors.values.len(), "a value is for no row");
}

#[test]
fn the_readme_has_the_table_of_the_authors_values() {
    const MARK: &str = "<!-- Written from authors.toml by trainer/src/config/tests/authors.rs: RAPID_TEST_WRITE=1 -->\n\n";
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/recipes/paper/README.md");
    let readme = std::fs::read_to_string(path).unwrap();
    let (before, _) = readme.split_once(MARK).unwrap();
    let mut expected = format!(
        "{before}{MARK}| setting | value | rows | evidence | source |\n| --- | --- | --- | --- | --- |\n"
    );
    for value in authors().values {
        expected.push_str(&value.in_table());
    }
    if std::env::var_os("RAPID_TEST_WRITE").is_some() {
        std::fs::write(path, &expected).unwrap();
    } else {
        assert_eq!(readme, expected);
    }
}
