//! The tasks that can be named in a request.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use datasets::{Dataset, Task, TaskSpec, Value};
use verifier_api::DatasetInfo;

use crate::cache::{Key, KeyWriter};

/// A task with the digest of its content.
#[derive(Debug, Clone, PartialEq)]
pub struct Known {
    /// What decides on a completion.
    pub spec: TaskSpec,
    /// Digest of `spec`.
    pub content: Key,
}

impl From<TaskSpec> for Known {
    fn from(spec: TaskSpec) -> Known {
        Known {
            content: content(&spec),
            spec,
        }
    }
}

/// Tasks by id.
#[derive(Debug, Default)]
pub struct Registry {
    tasks: HashMap<String, Arc<Known>>,
    datasets: BTreeMap<String, DatasetInfo>,
}

impl Registry {
    /// The data sets of `names`, or, where there are none, all of [`datasets::NAMES`] that are there: the starter sets always, the others from `data_dir` or the cache folder.
    ///
    /// # Errors
    /// Where one of `names` cannot be read.
    pub fn open(
        names: &[String],
        data_dir: Option<&Path>,
    ) -> Result<Registry, datasets::DatasetError> {
        let mut registry = Registry::default();
        for name in names {
            registry.add(datasets::open(name, data_dir)?);
        }
        if names.is_empty() {
            for name in datasets::NAMES {
                match datasets::open(name, data_dir) {
                    Ok(dataset) => registry.add(dataset),
                    Err(error @ datasets::DatasetError::Missing { .. }) => {
                        tracing::debug!("{error}");
                    }
                    Err(error) => tracing::warn!("{error}"),
                }
            }
        }
        Ok(registry)
    }

    /// Adds a data set's tasks; a task whose id is there already replaces the older.
    pub fn add(&mut self, dataset: Dataset) {
        let (train, eval) = (dataset.train.len(), dataset.eval.len());
        let mut digest = KeyWriter::new();
        let mut graders: Vec<String> = Vec::new();
        for Task { id, spec, .. } in dataset.train.into_iter().chain(dataset.eval) {
            let grader = grader(&spec);
            if !graders.iter().any(|known| known == grader) {
                graders.push(grader.to_owned());
            }
            let known = Known::from(spec);
            digest = digest.field(&id).field(known.content.0);
            self.tasks.insert(id, Arc::new(known));
        }
        let info = DatasetInfo {
            name: dataset.name.clone(),
            graders,
            train,
            eval,
            digest: digest.finish().to_string(),
        };
        self.datasets.insert(dataset.name, info);
    }

    /// The task of that id.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<Arc<Known>> {
        self.tasks.get(id).cloned()
    }

    /// The data sets, by name.
    #[must_use]
    pub fn datasets(&self) -> Vec<DatasetInfo> {
        self.datasets.values().cloned().collect()
    }

    /// The remedy where a task is not there.
    #[must_use]
    pub fn missing(&self, id: &str) -> String {
        let set = id.split('/').next().unwrap_or_default();
        if self.datasets.contains_key(set) {
            return format!("the data set `{set}` has no task `{id}`");
        }
        let names: Vec<&str> = self.datasets.keys().map(String::as_str).collect();
        let near = nearest(set, names.iter().copied())
            .map(|name| format!(" Did you mean `{name}/…`?"))
            .unwrap_or_default();
        format!(
            "this server has no data set `{set}`, only {}.{near} Start it with --data-dir DIR where DIR holds {set}/, or fetch the data set",
            names.join(", ")
        )
    }
}

/// The grader that a task needs.
#[must_use]
pub fn grader(spec: &TaskSpec) -> &'static str {
    match spec {
        TaskSpec::Math(_) => "math",
        TaskSpec::Code(_) => "code",
        TaskSpec::Lean(_) => "lean",
    }
}

/// The known name that `name` was probably meant to be.
pub(crate) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known
        .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate))
        .filter(|(likeness, _)| *likeness > 0.7)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, candidate)| candidate)
}

fn content(spec: &TaskSpec) -> Key {
    let writer = KeyWriter::new().field(grader(spec));
    match spec {
        TaskSpec::Math(task) => writer.field(&task.answer),
        TaskSpec::Lean(task) => writer.field(&task.header).field(&task.statement),
        TaskSpec::Code(task) => {
            let text = |value: &Value| value.to_json().to_string();
            let mut writer = writer
                .field(&task.entry_point)
                .fields(task.prefix.iter())
                .fields(task.canonical.iter())
                .fields(task.imports.iter())
                .fields(task.asserts.iter())
                .field(task.atol.to_bits().to_le_bytes())
                .field(format!("{:?}", task.compare))
                .field((task.tests.len() as u64).to_le_bytes());
            for test in &task.tests {
                writer = writer
                    .fields(test.args.iter().map(text))
                    .fields(test.expected.iter().map(text));
            }
            writer
        }
    }
    .finish()
}

#[cfg(test)]
mod tests {
    use datasets::MathTask;

    use super::*;

    fn registry() -> Registry {
        let task = |id: &str, answer: &str| Task {
            id: id.to_owned(),
            question: "?".to_owned(),
            spec: TaskSpec::Math(MathTask {
                answer: answer.to_owned(),
            }),
        };
        let mut registry = Registry::default();
        registry.add(Dataset {
            name: "sums".to_owned(),
            train: vec![task("sums/1", "2")],
            eval: vec![task("sums/2", "4")],
        });
        registry
    }

    #[test]
    fn a_task_is_found_by_its_id() {
        let registry = registry();
        assert!(registry.get("sums/2").is_some());
        assert!(registry.get("sums/3").is_none());
        assert_eq!(registry.datasets()[0].graders, ["math"]);
        assert_eq!(
            (registry.datasets()[0].train, registry.datasets()[0].eval),
            (1, 1)
        );
    }

    #[test]
    fn a_missing_task_comes_with_a_remedy() {
        let registry = registry();
        assert!(registry.missing("sums/9").contains("no task `sums/9`"));
        let unknown = registry.missing("sum/1");
        assert!(
            unknown.contains("Did you mean `sums/…`?") && unknown.contains("--data-dir"),
            "{unknown}"
        );
    }

    #[test]
    fn tasks_of_other_content_have_other_digests() {
        let math = |answer: &str| {
            Known::from(TaskSpec::Math(MathTask {
                answer: answer.to_owned(),
            }))
            .content
        };
        assert_ne!(math("1"), math("2"));
        assert_eq!(math("1"), math("1"));
    }
}
