//! Loads the starter sets. They were written for this project and are part of the program.

use super::{record, user_file};
use crate::{Dataset, DatasetError};

pub(super) fn open(name: &str) -> Result<Dataset, DatasetError> {
    let text = match name {
        "starter-code" => include_str!("../../starter/starter-code.jsonl"),
        "starter-lean" => include_str!("../../starter/starter-lean.jsonl"),
        "starter-math-400" => include_str!("../../starter/starter-math-400.jsonl"),
        _ => include_str!("../../starter/starter-math.jsonl"),
    };
    let mut dataset = user_file::from_records(
        name.to_owned(),
        &record::parse(&format!("{name}.jsonl"), text)?,
    )?;
    if name == "starter-math-400" {
        // Its file has only tasks to evaluate on. It shares its training tasks, and their ids, with starter-math.
        dataset.train = open("starter-math")?.train;
    }
    Ok(dataset)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashSet};

    use super::*;
    use crate::{Task, TaskSpec, Template, overlap};

    fn all(dataset: &Dataset) -> impl Iterator<Item = &Task> {
        dataset.train.iter().chain(&dataset.eval)
    }

    #[test]
    fn the_starter_sets_have_their_sizes_and_no_overlap() {
        for (name, train, eval) in [
            ("starter-math", 300, 100),
            ("starter-math-400", 300, 400),
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
            let prefix = format!("{name}/");
            assert!(dataset.eval.iter().all(|task| task.id.starts_with(&prefix)));
        }
    }

    /// Both data sets of starter mathematics.
    fn math() -> [Dataset; 2] {
        ["starter-math", "starter-math-400"].map(|name| open(name).unwrap())
    }

    /// The numbers of a question in ascending order, and its answer: two questions about the same computation have the same.
    fn computation(task: &Task) -> (Vec<u32>, &str) {
        let TaskSpec::Math(math) = &task.spec else {
            panic!("{}", task.id)
        };
        let digits = |c: char| !c.is_ascii_digit();
        let numbers = task.question.split(digits).filter(|text| !text.is_empty());
        let mut numbers: Vec<u32> = numbers.map(|text| text.parse().unwrap()).collect();
        numbers.sort_unstable();
        (numbers, &math.answer)
    }

    /// A question without the names of people and things.
    fn without_names(question: &str) -> String {
        const NAMES: [&str; 26] = [
            "Anna", "Ben", "Carla", "David", "Emma", "Finn", "Grace", "Hugo", "Iris", "Jonas",
            "Kira", "Leo", "Maya", "Omar", "Rosa", "Sam", "apples", "marbles", "pencils", "stamps",
            "cards", "shells", "coins", "buttons", "cookies", "stones",
        ];
        let words = question
            .split(' ')
            .map(|word| word.trim_end_matches(['.', '?']));
        let words = words.filter(|word| !NAMES.contains(word));
        words.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn starter_math_400_trains_on_the_tasks_of_starter_math() {
        let [math, math_400] = math();
        assert_eq!(math.train, math_400.train);
    }

    #[test]
    fn no_held_out_computation_is_trained_on() {
        let [math, math_400] = math();
        let trained: HashSet<_> = math.train.iter().map(computation).collect();
        let held_out = math.eval.iter().chain(&math_400.eval);
        let known = held_out.filter(|task| trained.contains(&computation(task)));
        let known: Vec<&str> = known.map(|task| task.id.as_str()).collect();
        // This one is 2 * 2, and 2 + 2 is trained on.
        assert_eq!(known, ["starter-math/eval-72"]);
    }

    #[test]
    fn no_two_questions_of_starter_math_are_equal_but_for_names() {
        let [math, math_400] = math();
        let tasks = all(&math).chain(&math_400.eval);
        let questions: HashSet<_> = tasks.map(|task| without_names(&task.question)).collect();
        assert_eq!(questions.len(), 300 + 100 + 400);
    }

    #[test]
    fn each_wording_is_as_frequent_in_starter_math_400_as_in_starter_math() {
        let [math, math_400] = math();
        let wordings = |tasks: &mut dyn Iterator<Item = &Task>| {
            let mut counts = BTreeMap::new();
            for task in tasks {
                let question = without_names(&task.question);
                let wording = question.replace(|c: char| c.is_ascii_digit(), "");
                let both_are_large = computation(task).0[0] > 9;
                *counts.entry((wording, both_are_large)).or_insert(0) += 1;
            }
            counts
        };
        assert_eq!(
            wordings(&mut all(&math)),
            wordings(&mut math_400.eval.iter())
        );
    }

    #[test]
    fn the_generator_writes_the_files_that_are_there() {
        let generator = concat!(env!("CARGO_MANIFEST_DIR"), "/starter/generate.py");
        let output = std::process::Command::new("python3")
            .args([generator, "--check"])
            .output()
            .expect("python3 starts");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{error}");
    }

    /// Computes the answers from the question's own words, by rules that do not depend on the generator.
    #[test]
    fn plain_starter_questions_have_the_right_answers() {
        let mut checked = 0;
        let [math, math_400] = math();
        for task in all(&math).chain(&math_400.eval) {
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
        assert!(checked > 300, "{checked}");
    }

    #[test]
    fn the_few_shot_prompt_ends_in_answer_and_its_completion_stops_at_the_line_end() {
        let [math, math_400] = math();
        let template = Template::for_dataset("starter-math");
        assert_eq!(template, Template::for_dataset("starter-math-400"));
        assert_eq!(template.stop, ["\n"]);
        for task in all(&math).chain(&math_400.eval) {
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
