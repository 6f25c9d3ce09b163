//! Finds training prompts that are also in the evaluation set.

use std::collections::HashMap;

use crate::{Dataset, Task, TaskSpec};

/// Pairs of a training task and an evaluation task, of any of the data sets, with the same question, up to white space and case.
///
/// Each evaluation task is paired with the first training task of that question.
#[must_use]
pub fn overlap(sets: &[&Dataset]) -> Vec<(String, String)> {
    let mut trained: HashMap<String, &str> = HashMap::new();
    for task in sets.iter().flat_map(|set| &set.train) {
        trained
            .entry(normalised(question(task)))
            .or_insert(&task.id);
    }
    sets.iter()
        .flat_map(|set| &set.eval)
        .filter_map(|task| {
            let train_id = trained.get(&normalised(question(task)))?;
            Some(((*train_id).to_owned(), task.id.clone()))
        })
        .collect()
}

/// The text by which two tasks are the same problem. For a theorem this is its statement, since its question may be empty.
fn question(task: &Task) -> &str {
    match &task.spec {
        TaskSpec::Lean(lean) => &lean.statement,
        _ => &task.question,
    }
}

fn normalised(question: &str) -> String {
    let mut text = String::with_capacity(question.len());
    for word in question.split_whitespace() {
        if !text.is_empty() {
            text.push(' ');
        }
        text.extend(word.chars().flat_map(char::to_lowercase));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(id: &str, question: &str) -> Task {
        Task::new(id, question, TaskSpec::math("1"))
    }

    #[test]
    fn white_space_and_case_do_not_hide_a_repeated_prompt() {
        let dataset = Dataset {
            name: "d".to_owned(),
            train: vec![task("t1", " What  is\n1+1? "), task("t2", "What is 2+2?")],
            eval: vec![task("e1", "WHAT IS 1+1?"), task("e2", "what is 1+1?")],
        };
        let pair = |eval: &str| ("t1".to_owned(), eval.to_owned());
        assert_eq!(overlap(&[&dataset]), [pair("e1"), pair("e2")]);
    }
}
