//! Looks up tasks by the names that samples use for them.

use std::collections::HashMap;

use datasets::excerpt::excerpt;
use datasets::{Dataset, TaskSpec};

/// Prefixes of task ids in other projects' samples, with the data set that each means.
const FOREIGN_PREFIXES: [(&str, &str); 2] = [("Mbpp", "mbppplus"), ("HumanEval", "humaneval")];

/// The tasks of a data set, by the names that samples may use.
pub(super) struct TaskLookup<'a> {
    dataset: &'a str,
    tasks: HashMap<&'a str, &'a TaskSpec>,
}

impl<'a> TaskLookup<'a> {
    pub(super) fn of(dataset: &'a Dataset) -> TaskLookup<'a> {
        let tasks = dataset.train.iter().chain(&dataset.eval);
        TaskLookup {
            dataset: &dataset.name,
            tasks: tasks.map(|task| (task.id.as_str(), &task.spec)).collect(),
        }
    }

    /// The task that a sample means by `id`, with its id in the data set. Ids of another data set's tasks are refused, whatever their number.
    ///
    /// # Errors
    /// What is wrong with `id`, and what to do.
    pub(super) fn find(&self, id: &str) -> Result<(&'a str, &'a TaskSpec), String> {
        self.known(id)
            .or_else(|| self.known(&format!("{}/{id}", self.dataset)))
            .or_else(|| self.known(&self.resolve_foreign_id(id)?))
            .ok_or_else(|| self.unknown(id))
    }

    fn known(&self, id: &str) -> Option<(&'a str, &'a TaskSpec)> {
        self.tasks.get_key_value(id).map(|(id, spec)| (*id, *spec))
    }

    fn resolve_foreign_id(&self, id: &str) -> Option<String> {
        let (prefix, rest) = id.split_once('/')?;
        let meant = foreign_dataset(prefix)?;
        let possible = meant == self.dataset || !datasets::NAMES.contains(&self.dataset);
        possible.then(|| format!("{}/{rest}", self.dataset))
    }

    fn unknown(&self, id: &str) -> String {
        let dataset = self.dataset;
        // An id may be as long as a line, and it is compared with every name, so it is shortened.
        let id = &excerpt(id);
        let (prefix, rest) = id.split_once('/').unwrap_or(("", id));
        let other = datasets::NAMES
            .into_iter()
            .find(|name| *name == prefix)
            .or_else(|| foreign_dataset(prefix))
            .filter(|other| *other != dataset);
        if let Some(other) = other {
            return format!(
                "`{id}` is a task of the data set `{other}`, and the samples are scored as those of `{dataset}`; give --dataset {other}, or other samples"
            );
        }
        let last = |name: &'a str| name.rsplit('/').next().unwrap_or(name);
        let near = self
            .tasks
            .keys()
            .copied()
            // By name too, so that the same error has the same text each time.
            .min_by_key(|name| (strsim::damerau_levenshtein(last(name), rest), *name))
            .map(|near| format!("; the nearest of its {} is `{near}`", self.tasks.len()))
            .unwrap_or_default();
        format!("the data set `{dataset}` has no task `{id}`{near}")
    }
}

/// The data set that `prefix` means in other projects' samples.
fn foreign_dataset(prefix: &str) -> Option<&'static str> {
    let (_, meant) = FOREIGN_PREFIXES.iter().find(|(name, _)| *name == prefix)?;
    Some(meant)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::questions;

    fn dataset(name: &str) -> Dataset {
        questions(name, &[2, 3, 123].map(|number| (number, "?", "1")))
    }

    #[test]
    fn a_task_may_be_named_in_every_usual_way() {
        for (set, id) in [
            ("mbppplus", "2"),
            ("mbppplus", "mbppplus/2"),
            ("mbppplus", "Mbpp/2"),
            ("humaneval", "HumanEval/2"),
            ("mine", "mine/2"),
            ("mine", "Mbpp/2"),
            ("mine", "HumanEval/2"),
        ] {
            let dataset = dataset(set);
            let (name, _) = TaskLookup::of(&dataset).find(id).unwrap();
            assert_eq!(name, format!("{set}/2"), "{id}");
        }
    }

    #[test]
    fn an_unknown_task_is_refused_with_its_data_set_or_the_nearest_known_one() {
        let long = "9".repeat(10_000_000);
        for (set, id, says) in [
            ("mine", "gsm8k/2", "is a task of the data set `gsm8k`"),
            ("mine", "mbppplus/2", "is a task of the data set `mbppplus`"),
            ("mbppplus", "HumanEval/2", "give --dataset humaneval"),
            ("humaneval", "Mbpp/2", "give --dataset mbppplus"),
            ("mbppplus", "124", "the nearest of its 3 is `mbppplus/123`"),
            ("mbppplus", "Mbpp/12", "has no task `Mbpp/12`; the nearest"),
            ("mbppplus", "train/2", "has no task `train/2`"),
            ("mbppplus", &long, "999…`; the nearest of its 3 is"),
        ] {
            let dataset = dataset(set);
            let fault = TaskLookup::of(&dataset).find(id).unwrap_err();
            assert!(fault.contains(says), "{fault}");
        }
    }
}
