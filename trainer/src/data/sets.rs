//! The data sets of a run with their tasks.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use datasets::Dataset;

use super::{DataError, PromptRenderer};
use crate::config::{Config, RunSet};

/// A data set of a run.
#[derive(Debug, Clone)]
pub struct TaskSet {
    /// What the recipe says of it.
    pub recipe: RunSet,
    /// Its tasks, without those of a split that the run does not use.
    pub tasks: Dataset,
}

/// Reads the data sets of a recipe, cut to its limits. The template of each must be for its tasks.
///
/// Sets that share an id get their name in front of all their ids: ids identify the tasks of a run in its files.
///
/// # Errors
/// [`DataError::Dataset`], [`DataError::Nothing`], [`DataError::Template`], [`DataError::System`].
pub fn open(config: &Config, data_dir: Option<&Path>) -> Result<Vec<TaskSet>, DataError> {
    let mut sets = Vec::new();
    for recipe in config.data_sets() {
        let mut tasks = recipe.data.source().open(data_dir)?;
        let is_evaluated_on = !recipe.is_trained_on || config.eval.sets.is_empty();
        let limit = |is_used: bool, limit: Option<usize>| match is_used {
            true => limit.unwrap_or(usize::MAX),
            false => 0,
        };
        let train_limit = limit(recipe.is_trained_on, config.data.train_limit);
        tasks.train.truncate(train_limit);
        tasks
            .eval
            .truncate(limit(is_evaluated_on, config.eval.limit));
        let (needed, what, split) = match recipe.is_trained_on {
            true => (&tasks.train, "training", "train"),
            false => (&tasks.eval, "held-out", "eval"),
        };
        if needed.is_empty() {
            return Err(DataError::Nothing(format!(
                "the data set {} has no {what} tasks; give one that has a `{split}` split, or name the split with `{}.{split}_split`",
                recipe.data.dataset, recipe.section
            )));
        }
        let renderer = PromptRenderer::new(&recipe.data);
        let checked = renderer.and_then(|renderer| {
            renderer.check_kind(&tasks.train)?;
            renderer.check_kind(&tasks.eval)
        });
        checked.map_err(|error| match error {
            DataError::Template(reason) if recipe.section != "data" => {
                DataError::Nothing(format!("`{}.template`: {reason}", recipe.section))
            }
            other => other,
        })?;
        sets.push(TaskSet { recipe, tasks });
    }
    separate_ids(&mut sets);
    Ok(sets)
}

/// Puts the set's name before the ids of sets that share an id in a split.
fn separate_ids(sets: &mut [TaskSet]) {
    let (mut owners, mut alike) = (HashMap::new(), HashSet::new());
    for (number, set) in sets.iter().enumerate() {
        let train = set.tasks.train.iter().map(|task| (true, &*task.id));
        for id in train.chain(set.tasks.eval.iter().map(|task| (false, &*task.id))) {
            let owner = *owners.entry(id).or_insert(number);
            if owner != number {
                alike.extend([owner, number]);
            }
        }
    }
    for number in alike {
        let TaskSet { recipe, tasks } = &mut sets[number];
        for task in tasks.train.iter_mut().chain(&mut tasks.eval) {
            task.id = format!("{}/{}", recipe.name(), task.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;
    use crate::data::{Prompt, Prompts};
    use crate::fakes::FakePolicy;

    #[test]
    fn each_set_has_its_template_distinct_ids_and_its_place_in_evaluations() {
        let home = tempfile::tempdir().unwrap();
        let file = |name: &str| {
            let path = home.path().join(name).join("tasks.jsonl");
            std::fs::create_dir(path.parent().unwrap()).unwrap();
            let task = |n: usize, split| {
                let question = format!("{name} {n}");
                serde_json::json!({"question": question, "answer": "2", "split": split}).to_string()
                    + "\n"
            };
            let splits = ["train", "eval", "train", "eval", "eval"];
            let tasks = (1..).zip(splits).map(|(n, split)| task(n, split));
            std::fs::write(&path, tasks.collect::<String>()).unwrap();
            path.display().to_string()
        };
        let [a, b, c] = ["a", "b", "c"].map(file);
        let template = home.path().join("mine.toml");
        std::fs::write(&template, "stop = [\"Q:\"]\ntext = 'Q: {question}'\n").unwrap();
        let recipe = format!(
            "[model]\nname = \"toy\"\n[data.sets.a]\ndataset = {a:?}\nweight = 3\n[data.sets.b]\ndataset = {b:?}\nweight = 1\ntemplate = {template:?}\n[eval]\nlimit = 2\n[sampling]\nmax_tokens = 4\n"
        );
        let opened = |more: &str, sets: &[&str]| {
            let sets: Vec<String> = sets.iter().map(ToString::to_string).collect();
            let config = config::parse("test", &format!("{recipe}{more}"), &sets).unwrap();
            let sets = open(&config, None).map_err(|error| error.to_string())?;
            Prompts::new(&config, sets, &FakePolicy::default()).map_err(|error| error.to_string())
        };
        let ids = |prompts: &[std::sync::Arc<Prompt>]| {
            let ids = prompts.iter().map(|prompt| prompt.task.id.as_str());
            ids.collect::<Vec<_>>().join(" ")
        };
        let own = opened("", &[]).unwrap();
        assert_eq!(ids(&own.train), "a/tasks/1 a/tasks/3 b/tasks/1 b/tasks/3");
        assert_eq!(own.weights, [(2, 3.0), (2, 1.0)]);
        let places = [("a".to_owned(), 0..2), ("b".to_owned(), 2..4)];
        assert_eq!(own.eval_sets, places);
        for (place, text, stop) in [(1, "a 3", &[][..]), (2, "Q: b 1", &["Q:"])] {
            let prompt = &own.train[place];
            assert_eq!(&*prompt.text, text);
            assert_eq!(prompt.stop[..], *stop);
        }

        // `eval.sets` replaces the sets' own held-out tasks. A single set there has no figures of its own.
        let others = opened(&format!("[eval.sets.c]\ndataset = {c:?}\n"), &[]).unwrap();
        assert_eq!(ids(&others.eval), "tasks/2 tasks/4");
        assert_eq!((others.eval_sets, others.counts.eval), (Vec::new(), 2));
        let error = opened("", &["data.sets.a.template=mbppplus"]).unwrap_err();
        let start = "`data.sets.a.template`: `mbppplus` asks for a function";
        assert!(error.starts_with(start), "{error}");
    }
}
