//! Tasks that ask for the same computation: they are right or wrong together, so the bootstrap draws them together.

use std::collections::BTreeMap;

use datasets::{Task, TaskSpec};

/// A number for the computation of each of these tasks: that of the mathematics question with the same id in the data set, else one of its own.
pub(super) fn clusters_of(tasks: &[&String], dataset: &[Task]) -> Vec<usize> {
    let mut numbers = BTreeMap::new();
    let mut known = BTreeMap::new();
    for task in dataset {
        if let Some(computation) = computation(task) {
            let next = numbers.len();
            known.insert(&task.id, *numbers.entry(computation).or_insert(next));
        }
    }
    let own = |number: usize| known.len() + number;
    let tasks = tasks.iter().enumerate();
    tasks
        .map(|(number, task)| known.get(*task).copied().unwrap_or(own(number)))
        .collect()
}

/// The numbers of a mathematics question in ascending order, and its answer. A question without numbers asks for something of its own.
fn computation(task: &Task) -> Option<(Vec<&str>, &str)> {
    let TaskSpec::Math(math) = &task.spec else {
        return None;
    };
    let numbers = task.question.split(|letter: char| !letter.is_ascii_digit());
    let mut numbers: Vec<&str> = numbers.filter(|number| !number.is_empty()).collect();
    numbers.sort_unstable();
    (!numbers.is_empty()).then_some((numbers, &math.answer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_with_the_same_numbers_and_answer_are_drawn_together() {
        let dataset = [
            ("What is 7 + 5?", "12"),
            ("Anna has 5 apples and gets 7 more. How many has she?", "12"),
            ("What is 7 - 5?", "2"),
            ("What is 57?", "12"),
            ("How many months has a year?", "12"),
            ("How many eggs are a dozen?", "12"),
        ];
        let task = |(id, (question, answer)): (usize, &(&str, &str))| {
            Task::new(format!("t/{id}"), *question, TaskSpec::math(*answer))
        };
        let dataset: Vec<Task> = dataset.iter().enumerate().map(task).collect();
        let mut tasks: Vec<&String> = dataset.iter().map(|task| &task.id).collect();
        let unknown = "of other data".to_owned();
        tasks.push(&unknown);
        let found = clusters_of(&tasks, &dataset);
        assert_eq!(found, [0, 0, 1, 2, 8, 9, 10]);
        assert_eq!(clusters_of(&tasks, &[]), [0, 1, 2, 3, 4, 5, 6]);
    }
}
