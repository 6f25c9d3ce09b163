//! Tasks that ask for the same computation: they are right or wrong together, so the bootstrap draws them together.

use std::collections::BTreeMap;
use std::path::Path;

use datasets::{Task, TaskSpec};

use crate::config::Config;

/// The number of each task's computation, by the task's id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Computations(BTreeMap<String, usize>);

impl Computations {
    /// The computations of the data set's evaluation tasks.
    ///
    /// # Errors
    /// Why it cannot be read, in words.
    pub(super) fn of(config: &Config, data_dir: Option<&Path>) -> Result<Self, String> {
        let dataset = datasets::open(&config.data.dataset, data_dir);
        dataset
            .map(|dataset| Self::of_tasks(&dataset.eval))
            .map_err(|error| error.to_string())
    }

    fn of_tasks(tasks: &[Task]) -> Self {
        let mut numbers = BTreeMap::new();
        let mut clusters = BTreeMap::new();
        for task in tasks {
            if let Some(computation) = computation(task) {
                let next = numbers.len();
                let cluster = *numbers.entry(computation).or_insert(next);
                clusters.insert(task.id.clone(), cluster);
            }
        }
        Self(clusters)
    }

    /// The cluster of each of these tasks. One that is not in the data set is alone.
    pub(super) fn clusters<'t>(&self, tasks: impl Iterator<Item = &'t String>) -> Vec<usize> {
        let known = self.0.len();
        tasks
            .enumerate()
            .map(|(number, task)| self.0.get(task).copied().unwrap_or(known + number))
            .collect()
    }
}

/// The numbers of a mathematics question in ascending order, and its answer. A question without numbers asks for something of its own.
fn computation(task: &Task) -> Option<(Vec<&str>, &str)> {
    let TaskSpec::Math(math) = &task.spec else {
        return None;
    };
    let mut numbers: Vec<&str> = task
        .question
        .split(|letter: char| !letter.is_ascii_digit())
        .filter(|number| !number.is_empty())
        .collect();
    numbers.sort_unstable();
    (!numbers.is_empty()).then_some((numbers, &math.answer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_with_the_same_numbers_and_answer_are_drawn_together() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tasks.jsonl");
        let tasks = [
            ("What is 7 + 5?", "12"),
            ("Anna has 5 apples and gets 7 more. How many has she?", "12"),
            ("What is 7 - 5?", "2"),
            ("What is 57?", "12"),
            ("How many months has a year?", "12"),
            ("How many eggs are a dozen?", "12"),
        ];
        let lines = tasks.iter().enumerate().map(|(id, (question, answer))| {
            let record = serde_json::json!({
                "id": format!("t/{id}"), "split": "eval", "kind": "math", "question": question, "answer": answer,
            });
            record.to_string() + "\n"
        });
        std::fs::write(&file, lines.collect::<String>()).unwrap();
        let dataset = datasets::open(&file.display().to_string(), None).unwrap();
        let computations = Computations::of_tasks(&dataset.eval);
        let clusters = computations.clusters(dataset.eval.iter().map(|task| &task.id));
        assert_eq!(clusters[0], clusters[1]);
        let mut others = clusters[1..].to_vec();
        others.sort_unstable();
        others.dedup();
        assert_eq!(others.len(), 5, "{clusters:?}");
    }

    #[test]
    fn tasks_of_other_data_are_each_alone() {
        let unknown = ["a", "b", "c"].map(str::to_owned);
        assert_eq!(
            Computations::of_tasks(&[]).clusters(unknown.iter()),
            [0, 1, 2]
        );
    }
}
