//! The tasks that a request can name by id.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use datasets::did_you_mean::nearest;
use datasets::digest::of_tasks;
use datasets::excerpt::excerpt;
use datasets::fields::FieldError;
use datasets::{Dataset, LeanTask, Task, TaskSpec, unknown_kind};
use verifier_api::DatasetInfo;

use crate::cache::{Key, KeyWriter};

/// A task with the digest of its content.
#[derive(Debug, Clone, PartialEq)]
pub struct RegisteredTask {
    /// The data that decides on a completion.
    pub spec: TaskSpec,
    /// Digest of `spec`.
    pub content: Key,
    /// A math task's question, which says what is counted. An inline task has it in its prompt, so it is empty then.
    pub question: String,
    /// Whether the task is inline.
    pub inline: bool,
    /// Whether a completion is a whole program. It runs unchanged.
    pub is_whole_program: bool,
    /// The seconds that a completion may take if it is a snippet of Lean. The snippet runs unchanged.
    pub snippet_seconds: Option<u64>,
}

impl From<TaskSpec> for RegisteredTask {
    /// A task of a data set.
    fn from(spec: TaskSpec) -> RegisteredTask {
        RegisteredTask {
            content: spec.digest(),
            spec,
            question: String::new(),
            inline: false,
            is_whole_program: false,
            snippet_seconds: None,
        }
    }
}

impl From<Task> for RegisteredTask {
    /// A task of a data set, with its question if it is a math task.
    fn from(task: Task) -> RegisteredTask {
        let question = match &task.spec {
            TaskSpec::Math(_) => task.question,
            _ => String::new(),
        };
        RegisteredTask {
            question,
            ..RegisteredTask::from(task.spec)
        }
    }
}

impl RegisteredTask {
    /// An inline task. If it has a canonical solution, its digest differs from that of the same task of a data set, so their verdicts have different keys and are judged
    /// separately. The solution gets the same fuel in both cases; only the expected values of a data set's task are stored on disk.
    pub fn inline(spec: TaskSpec) -> RegisteredTask {
        let task = RegisteredTask::from(spec);
        let content = match &task.spec {
            TaskSpec::Code(code) if code.canonical.is_some() => key("brought", task.content.0),
            _ => task.content,
        };
        RegisteredTask {
            content,
            inline: true,
            ..task
        }
    }

    /// The task of every snippet of Lean that may take `seconds`: to have no error and no `sorry`.
    pub fn snippet(seconds: u64) -> RegisteredTask {
        let (header, statement) = (String::new(), String::new());
        RegisteredTask {
            content: key("snippet-1", seconds.to_le_bytes()),
            snippet_seconds: Some(seconds),
            ..RegisteredTask::inline(TaskSpec::Lean(LeanTask { header, statement }))
        }
    }

    /// This task for whole programs. The same text may get another verdict as a completion, since the program must be found there. So the two verdicts have different
    /// keys.
    pub fn for_whole_programs(&self) -> RegisteredTask {
        RegisteredTask {
            content: key("program", self.content.0),
            is_whole_program: true,
            ..self.clone()
        }
    }
}

/// The digest of a task of the named form.
fn key(form: &str, content: impl AsRef<[u8]>) -> Key {
    KeyWriter::new().field(form).field(content).finish()
}

/// Tasks by id.
#[derive(Debug, Default)]
pub struct Registry {
    /// The names of the operator's own graders. Inline tasks may have them as their `kind`.
    pub custom_graders: Vec<String>,
    tasks: HashMap<String, Arc<RegisteredTask>>,
    datasets: BTreeMap<String, DatasetInfo>,
}

impl Registry {
    /// Reads the data sets of `names`. If `names` is empty, reads all of [`datasets::NAMES`] that exist: the starter sets always, the others from `data_dir` or the cache
    /// folder.
    ///
    /// # Errors
    /// If one of `names` cannot be read.
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

    /// Adds a data set's tasks. A task replaces an earlier one with the same id.
    pub fn add(&mut self, dataset: Dataset) {
        let (train, eval) = (dataset.train.len(), dataset.eval.len());
        let tasks: Vec<(String, RegisteredTask)> = dataset
            .train
            .into_iter()
            .chain(dataset.eval)
            .map(|mut task| (std::mem::take(&mut task.id), RegisteredTask::from(task)))
            .collect();
        // The same digest as `Dataset::digest`.
        let digest = of_tasks(tasks.iter().map(|(id, task)| (id.as_str(), task.content)));
        let mut graders: Vec<String> = Vec::new();
        for (id, task) in tasks {
            let grader = task.spec.kind().to_owned();
            if !graders.contains(&grader) {
                graders.push(grader);
            }
            self.tasks.insert(id, Arc::new(task));
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

    /// The inline task of a request. `path` is the path of its `kind`.
    ///
    /// # Errors
    /// If there is no grader of that kind.
    pub fn inline(&self, path: &str, spec: TaskSpec) -> Result<Arc<RegisteredTask>, FieldError> {
        match &spec {
            TaskSpec::Custom(task) if !self.custom_graders.contains(&task.grader) => Err((
                path.to_owned(),
                unknown_kind(&task.grader, &self.custom_graders),
            )),
            _ => Ok(Arc::new(RegisteredTask::inline(spec))),
        }
    }

    /// The task with this id.
    pub fn get(&self, id: &str) -> Option<Arc<RegisteredTask>> {
        self.tasks.get(id).cloned()
    }

    /// Whether there is a data set with this name.
    pub fn has_dataset(&self, name: &str) -> bool {
        self.datasets.contains_key(name)
    }

    /// The data sets, ordered by name.
    pub fn datasets(&self) -> Vec<DatasetInfo> {
        self.datasets.values().cloned().collect()
    }

    /// The message for an unknown task id, with a remedy.
    pub fn missing(&self, id: &str) -> String {
        let set = id.split('/').next().unwrap_or_default();
        if self.has_dataset(set) {
            return format!("the data set `{set}` has no task `{}`", excerpt(id));
        }
        let names: Vec<&str> = self.datasets.keys().map(String::as_str).collect();
        let near = nearest(set, names.iter().copied())
            .map(|name| format!(" Did you mean `{name}/…`?"))
            .unwrap_or_default();
        let set = excerpt(set);
        format!(
            "this server has no data set `{set}`, only {}.{near} Start it with --data-dir DIR where DIR holds {set}/, or fetch the data set",
            names.join(", ")
        )
    }
}

/// A data set for tests, of questions with their numbers and answers.
#[cfg(test)]
pub(crate) fn questions(name: &str, questions: &[(usize, &str, &str)]) -> Dataset {
    let tasks = questions.iter().map(|(number, question, answer)| {
        let spec = TaskSpec::math(*answer);
        Task::new(format!("{name}/{number}"), *question, spec)
    });
    Dataset {
        name: name.to_owned(),
        train: tasks.collect(),
        eval: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use datasets::CodeTask;

    use super::*;

    #[test]
    fn an_inline_task_equals_that_of_a_data_set() {
        let math = TaskSpec::math("2");
        let code = |canonical: Option<&str>| {
            TaskSpec::Code(CodeTask {
                entry_point: "f".to_owned(),
                canonical: canonical.map(str::to_owned),
                asserts: vec!["assert f(1) == 2".to_owned()],
                ..CodeTask::default()
            })
        };
        for (spec, same) in [
            (math, true),
            (code(None), true),
            (code(Some("def f(n): return 2")), false),
        ] {
            let of_data_set = RegisteredTask::from(spec.clone());
            let inline = RegisteredTask::inline(spec);
            let are_equal = of_data_set.content == inline.content;
            assert_eq!(are_equal, same, "{of_data_set:?}");
            assert_eq!((of_data_set.inline, inline.inline), (false, true));
        }
    }

    #[test]
    fn a_data_set_is_registered_with_its_tasks_and_the_digest_of_its_loader() {
        let dataset = datasets::open("starter-code", None).unwrap();
        let mut registry = Registry::default();
        let (digest, id) = (dataset.digest().to_string(), dataset.eval[0].id.clone());
        let (train, eval) = (dataset.train.len(), dataset.eval.len());
        registry.add(dataset);
        let info = &registry.datasets()[0];
        assert_eq!(info.digest, digest);
        assert_eq!(info.graders, ["code"]);
        assert_eq!((info.train, info.eval), (train, eval));
        assert!(registry.get(&id).is_some() && registry.get("starter-code/none").is_none());
    }
}
