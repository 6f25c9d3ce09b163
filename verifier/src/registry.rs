//! The tasks that can be named in a request.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use datasets::did_you_mean::nearest;
use datasets::digest::of_tasks;
use datasets::{Dataset, Task, TaskSpec};
use verifier_api::DatasetInfo;

use crate::cache::{Key, KeyWriter};

/// A task with the digest of its content.
#[derive(Debug, Clone, PartialEq)]
pub struct RegisteredTask {
    /// What decides on a completion.
    pub spec: TaskSpec,
    /// Digest of `spec`.
    pub content: Key,
    /// A math task's question, which says what is counted; empty where it came with a request: then the prompt says so.
    pub question: String,
    /// Whether it came with a request, and not from a data set.
    pub inline: bool,
    /// Whether a completion is a whole program, which is run as it stands.
    pub whole: bool,
}

impl From<TaskSpec> for RegisteredTask {
    /// A task of a data set.
    fn from(spec: TaskSpec) -> RegisteredTask {
        RegisteredTask {
            content: spec.digest(),
            spec,
            question: String::new(),
            inline: false,
            whole: false,
        }
    }
}

impl From<Task> for RegisteredTask {
    /// The same, with what it asks.
    fn from(task: Task) -> RegisteredTask {
        let question = match &task.spec {
            TaskSpec::Math(_) => task.question,
            TaskSpec::Code(_) | TaskSpec::Lean(_) => String::new(),
        };
        RegisteredTask {
            question,
            ..RegisteredTask::from(task.spec)
        }
    }
}

impl RegisteredTask {
    /// A task that came with a request. What its own solution may use is less than a data set's may, so that where it has one,
    /// no verdict on it is waited for together with one on the same task of a data set.
    #[must_use]
    pub fn inline(spec: TaskSpec) -> RegisteredTask {
        let has_solution = matches!(&spec, TaskSpec::Code(task) if task.canonical.is_some());
        let known = RegisteredTask::from(spec);
        let content = if has_solution {
            KeyWriter::new()
                .field("brought")
                .field(known.content.0)
                .finish()
        } else {
            known.content
        };
        RegisteredTask {
            content,
            inline: true,
            ..known
        }
    }

    /// The same task for whole programs. The same text may get another verdict as a completion, in which a program is looked for, so that the verdict has
    /// another key.
    #[must_use]
    pub fn for_programs(&self) -> RegisteredTask {
        RegisteredTask {
            content: KeyWriter::new()
                .field("program")
                .field(self.content.0)
                .finish(),
            whole: true,
            ..self.clone()
        }
    }
}

/// Tasks by id.
#[derive(Debug, Default)]
pub struct Registry {
    tasks: HashMap<String, Arc<RegisteredTask>>,
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
        let tasks: Vec<(String, RegisteredTask)> = dataset
            .train
            .into_iter()
            .chain(dataset.eval)
            .map(|mut task| (std::mem::take(&mut task.id), RegisteredTask::from(task)))
            .collect();
        // That of the data set as its readers make it.
        let digest = of_tasks(tasks.iter().map(|(id, known)| (id.as_str(), known.content)));
        let mut graders: Vec<String> = Vec::new();
        for (id, known) in tasks {
            let grader = grader(&known.spec);
            if !graders.iter().any(|known| known == grader) {
                graders.push(grader.to_owned());
            }
            self.tasks.insert(id, Arc::new(known));
        }
        let info = DatasetInfo {
            name: dataset.name.clone(),
            graders,
            train,
            eval,
            digest: digest.to_string(),
        };
        self.datasets.insert(dataset.name, info);
    }

    /// The task of that id.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<Arc<RegisteredTask>> {
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
    spec.kind()
}

#[cfg(test)]
mod tests {
    use datasets::{CodeTask, Compare, MathTask};

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
    fn a_task_that_is_brought_is_that_of_a_data_set_but_for_its_own_solution() {
        let math = TaskSpec::Math(MathTask {
            answer: "2".to_owned(),
        });
        let code = |canonical: Option<&str>| {
            TaskSpec::Code(CodeTask {
                entry_point: "f".to_owned(),
                prefix: None,
                canonical: canonical.map(str::to_owned),
                imports: Vec::new(),
                example: None,
                tests: Vec::new(),
                asserts: vec!["assert f(1) == 2".to_owned()],
                atol: 0.0,
                compare: Compare::Equal,
            })
        };
        for (spec, same) in [
            (math, true),
            (code(None), true),
            (code(Some("def f(n): return 2")), false),
        ] {
            let (own, inline) = (
                RegisteredTask::from(spec.clone()),
                RegisteredTask::inline(spec),
            );
            assert_eq!(own.content == inline.content, same, "{own:?}");
            assert_eq!((own.inline, inline.inline), (false, true));
        }
    }

    #[test]
    fn the_digest_of_a_data_set_is_the_one_that_its_readers_make() {
        let dataset = datasets::open("starter-code", None).unwrap();
        let mut registry = Registry::default();
        let digest = dataset.digest().to_string();
        registry.add(dataset);
        assert_eq!(registry.datasets()[0].digest, digest);
    }
}
