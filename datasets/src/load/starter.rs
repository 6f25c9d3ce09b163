//! Loads the starter sets. They were written for this project and are part of the program.

use super::{record, user_file};
use crate::{Dataset, DatasetError};

pub(super) fn open(name: &str) -> Result<Dataset, DatasetError> {
    let text = match name {
        "starter-code" => include_str!("../../starter/starter-code.jsonl"),
        "starter-lean" => include_str!("../../starter/starter-lean.jsonl"),
        _ => include_str!("../../starter/starter-math.jsonl"),
    };
    user_file::from_records(
        name.to_owned(),
        &record::parse(&format!("{name}.jsonl"), text)?,
    )
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::{Task, TaskSpec, Template, overlap};

    fn all(dataset: &Dataset) -> impl Iterator<Item = &Task> {
        dataset.train.iter().chain(&dataset.eval)
    }

    #[test]
    fn the_starter_sets_have_their_sizes_and_no_overlap() {
        for (name, train, eval) in [
            ("starter-math", 300, 100),
            ("starter-code", 45, 15),
            ("starter-lean", 15, 10),
        ] {
            let dataset = open(name).unwrap();
            assert_eq!(
                (dataset.train.len(), dataset.eval.len()),
                (train, eval),
                "{name}"
            );
            assert_eq!(overlap(&dataset), [], "{name}");
            let questions: HashSet<_> = all(&dataset)
                .map(|task| task.question.to_lowercase())
                .collect();
            assert_eq!(questions.len(), train + eval, "{name}");
            assert!(all(&dataset).all(|task| task.id.starts_with(&format!("{name}/"))));
        }
    }

    /// Computes the answers from the question's own words, by rules that do not depend on the generator.
    #[test]
    fn plain_starter_questions_have_the_right_answers() {
        let mut checked = 0;
        for task in all(&open("starter-math").unwrap()) {
            let TaskSpec::Math(math) = &task.spec else {
                panic!("{}", task.id)
            };
            let answer: i64 = math.answer.parse().unwrap();
            assert!(answer > 0, "{}", task.question);
            let words: Vec<&str> = task
                .question
                .trim_end_matches(['?', '.'])
                .split(' ')
                .collect();
            let numbers: Vec<i64> = words
                .iter()
                .filter_map(|w| w.trim_end_matches('.').parse().ok())
                .collect();
            assert_eq!(numbers.len(), 2, "{}", task.question);
            let (a, b) = (numbers[0], numbers[1]);
            let has = |word: &str| words.contains(&word);
            let right = if has("+") || has("Add") || has("sum") || has("plus") {
                a + b
            } else if has("Subtract") || has("Take") {
                b - a
            } else if has("-") || has("difference") || has("minus") {
                a - b
            } else if has("*") || has("x") || has("Multiply") || has("product") || has("times") {
                a * b
            } else {
                continue;
            };
            // "Take 7 away from 52" and "Subtract 7 from 52" name the smaller number first.
            assert_eq!(answer, right, "{}", task.question);
            checked += 1;
        }
        assert!(checked > 150, "{checked}");
    }

    #[test]
    fn the_few_shot_prompt_ends_in_answer_and_its_completion_stops_at_the_line_end() {
        let dataset = open("starter-math").unwrap();
        let template = Template::for_dataset("starter-math");
        assert_eq!(template.stop, ["\n"]);
        for task in all(&dataset) {
            let prompt = template.render(task);
            assert!(prompt.ends_with(&format!("\nQuestion: {}\nAnswer:", task.question)));
            assert_eq!(prompt.matches("Question: ").count(), 5);
            assert_eq!(
                prompt.matches(&task.question).count(),
                1,
                "{}",
                task.question
            );
        }
    }

    #[test]
    fn every_starter_function_has_six_tests_and_an_example() {
        for task in all(&open("starter-code").unwrap()) {
            let TaskSpec::Code(code) = &task.spec else {
                panic!("{}", task.id)
            };
            assert!(
                code.tests.len() >= 6 && code.tests.iter().all(|t| t.expected.is_some()),
                "{}",
                task.id
            );
            assert!(code.canonical.is_some());
            let prompt = Template::for_dataset("starter-code").render(task);
            assert!(
                prompt.contains(&format!("\nassert {}(", code.entry_point)),
                "{prompt}"
            );
        }
    }

    #[test]
    fn every_starter_theorem_needs_no_import() {
        for task in all(&open("starter-lean").unwrap()) {
            let TaskSpec::Lean(lean) = &task.spec else {
                panic!("{}", task.id)
            };
            assert!(
                lean.header.is_empty() && lean.statement.starts_with("theorem "),
                "{}",
                task.id
            );
        }
    }
}
