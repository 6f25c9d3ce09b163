//! Where a data set comes from, and how its records are read.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::rows::Format;
use crate::{DatasetError, is_grader_name, unknown_kind};

/// Where a data set comes from, and how its records are read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Source {
    /// One of [`NAMES`](super::NAMES), the path of a user's file, or `owner/name` of the Hugging Face hub.
    pub dataset: String,
    /// A subset of a data set of the hub, which the hub calls a configuration: `main`.
    pub subset: Option<String>,
    /// A branch, tag or commit of the hub; otherwise `main`.
    pub revision: Option<String>,
    /// The split of a data set of the hub to train on; otherwise `train`.
    pub train_split: Option<String>,
    /// The split of a data set of the hub to evaluate on; otherwise the first of `test`, `validation`, `eval`, `dev`, `valid` and `val` that exists.
    pub eval_split: Option<String>,
    /// The names of the columns that have the fields of a task, by field: `answer = "solution"`.
    pub columns: BTreeMap<String, String>,
    /// The kind of all tasks: `math`, `code`, `program`, `lean`, or the name of an operator's own grader. Otherwise the records tell it.
    pub grader: Option<String>,
}

impl Source {
    /// The data set with this name, or in this file.
    #[must_use]
    pub fn named(dataset: &str) -> Source {
        Source {
            dataset: dataset.to_owned(),
            ..Source::default()
        }
    }

    /// Whether it is a data set of the hub: `owner/name`, which is neither a file with records nor any other path.
    pub(super) fn is_of_hub(&self) -> bool {
        let is_part = |part: &str| {
            !matches!(part, "" | "." | "..")
                && part
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
        };
        let parts = self.dataset.split_once('/');
        !is_user_file(&self.dataset)
            && parts.is_some_and(|(owner, name)| is_part(owner) && is_part(name))
            && !Path::new(&self.dataset).exists()
    }

    /// The name under which it is fetched: `owner/name`, or `owner/name@revision`.
    pub(super) fn hub_name(&self) -> String {
        match &self.revision {
            Some(revision) => format!("{}@{revision}", self.dataset),
            None => self.dataset.clone(),
        }
    }

    /// An error of its settings.
    pub(super) fn wrong(&self, reason: impl Into<String>) -> DatasetError {
        DatasetError::Source {
            dataset: self.dataset.clone(),
            reason: reason.into(),
        }
    }

    /// Refuses settings that this kind of data set does not have, and a kind of task that does not exist.
    pub(super) fn check(&self) -> Result<(), DatasetError> {
        let of_hub = [
            ("subset", &self.subset),
            ("revision", &self.revision),
            ("train_split", &self.train_split),
            ("eval_split", &self.eval_split),
        ];
        let given = of_hub.iter().find(|(_, value)| value.is_some());
        if let Some((key, _)) = given.filter(|_| !self.is_of_hub()) {
            let reason = format!(
                "`{key}` is for a data set of the hub (owner/name); a record of a file has its split in the column `split`"
            );
            return Err(self.wrong(reason));
        }
        let is_built_in = !self.is_of_hub() && !is_user_file(&self.dataset);
        if is_built_in && (!self.columns.is_empty() || self.grader.is_some()) {
            return Err(self.wrong(
                "`columns` and `grader` are for files of your own and data sets of the hub; this one has its form",
            ));
        }
        match self.grader.as_deref() {
            Some("math" | "code" | "program" | "lean") | None => Ok(()),
            Some(grader) if is_grader_name(grader) => Ok(()),
            Some(other) => Err(self.wrong(format!("`grader`: {}", unknown_kind(other, &[])))),
        }
    }
}

/// Whether the name of a data set is the path of a user's file: it ends in `.jsonl`, `.json`, `.csv` or `.parquet`, and the texts may be packed (`.gz`, `.zst`).
#[must_use]
pub fn is_user_file(name: &str) -> bool {
    Format::of(name).is_some()
}
