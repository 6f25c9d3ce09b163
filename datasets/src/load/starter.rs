//! Loads the starter sets. They were written for this project and are part of the program.

use super::user_file;
use crate::{Dataset, DatasetError};

pub(super) fn open(name: &str) -> Result<Dataset, DatasetError> {
    let text = match name {
        "starter-code" => include_str!("../../starter/starter-code.jsonl"),
        "starter-lean" => include_str!("../../starter/starter-lean.jsonl"),
        "starter-math-400" => include_str!("../../starter/starter-math-400.jsonl"),
        _ => include_str!("../../starter/starter-math.jsonl"),
    };
    let mut dataset = user_file::parse(name, text)?;
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
            let sizes = (dataset.train.len(), dataset.eval.len());
            assert_eq!(sizes, (train, eval), "{name}");
            assert_eq!(overlap(&[&dataset]), [], "{name}");
            let prefix = format!("{name}/");
            assert!(dataset.eval.iter().all(|task| task.id.starts_with(&prefix)));
        }
    }

    fn math() -> [Dataset; 2] {
        ["starter-math", "starter-math-400"].map(|name| open(name).unwrap())
    }

    /// The numbers of a question in ascending order, and its answer: two questions about the same computation have the same.
    fn computation(task: &Task) -> (Vec<i64>, i64) {
        let TaskSpec::Math(math) = &task.spec else {
            panic!("{}", task.id)
        };
        let numbers = task.question.split(|c: char| !c.is_ascii_digit());
        let mut numbers: Vec<i64> = numbers.filter_map(|text| text.parse().ok()).collect();
        numbers.sort_unstable();
        (numbers, math.answer.parse().unwrap())
    }

    /// A question without the names of people and things.
    fn without_names(task: &Task) -> String {
        const NAMES: &str = "Anna Ben Carla David Emma Finn Grace Hugo Iris Jonas Kira Leo Maya Omar Rosa Sam \
            apples marbles pencils stamps cards shells coins buttons cookies stones";
        let words = task.question.split(' ');
        let words = words.map(|word| word.trim_end_matches(['.', '?']));
        let words = words.filter(|word| !NAMES.split_whitespace().any(|name| name == *word));
        words.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn starter_math_400_has_other_questions_of_the_same_wordings() {
        let [math, math_400] = math();
        assert_eq!(math.train, math_400.train);
        let trained: HashSet<_> = math.train.iter().map(computation).collect();
        let held_out = math.eval.iter().chain(&math_400.eval);
        let known = held_out.filter(|task| trained.contains(&computation(task)));
        let known: Vec<&str> = known.map(|task| task.id.as_str()).collect();
        // This one is 2 * 2; the training tasks have 2 + 2.
        assert_eq!(known, ["starter-math/eval-72"]);
        let questions = all(&math).chain(&math_400.eval).map(without_names);
        assert_eq!(questions.collect::<HashSet<_>>().len(), 300 + 100 + 400);
        let wordings = |tasks: &mut dyn Iterator<Item = &Task>| {
            let mut counts = BTreeMap::new();
            for task in tasks {
                let wording = without_names(task).replace(|c: char| c.is_ascii_digit(), "");
                let both_are_large = computation(task).0[0] > 9;
                *counts.entry((wording, both_are_large)).or_insert(0) += 1;
            }
            counts
        };
        let own = wordings(&mut math_400.eval.iter());
        assert_eq!(wordings(&mut all(&math)), own);
    }

    #[test]
    fn the_generator_writes_the_files_that_are_there() {
        let generator = concat!(env!("CARGO_MANIFEST_DIR"), "/starter/generate.py");
        let mut python = std::process::Command::new("python3");
        let output = python.args([generator, "--check"]).output();
        let output = output.expect("python3 starts");
        assert!(output.status.success(), "{output:?}");
    }

    /// Computes the answers from the question's own words, by rules that do not depend on the generator.
    #[test]
    fn plain_starter_questions_have_the_right_answers() {
        let mut checked = 0;
        let [math, math_400] = math();
        for task in all(&math).chain(&math_400.eval) {
            let (numbers, answer) = computation(task);
            let [smaller, larger] = numbers[..] else {
                panic!("{}", task.question)
            };
            assert!(answer > 0, "{}", task.question);
            let words: Vec<&str> = task.question.split([' ', '?', '.']).collect();
            let has = |some: &str| some.split(' ').any(|word| words.contains(&word));
            let right = if has("+ Add sum plus") {
                smaller + larger
            } else if has("- difference minus Subtract Take") {
                larger - smaller
            } else if has("* x Multiply product times") {
                smaller * larger
            } else {
                continue;
            };
            assert_eq!(answer, right, "{}", task.question);
            checked += 1;
        }
        assert!(checked > 300, "{checked}");
    }

    #[test]
    fn a_few_shot_prompt_ends_in_answer_and_stops_at_the_line_end() {
        let [math, math_400] = math();
        let template = Template::for_dataset("starter-math");
        assert_eq!(template, Template::for_dataset("starter-math-400"));
        assert_eq!(template.stop, ["\n"]);
        for task in all(&math).chain(&math_400.eval) {
            let (prompt, question) = (template.render(task), &task.question);
            assert!(prompt.ends_with(&format!("\nQuestion: {question}\nAnswer:")));
            assert_eq!(prompt.matches("Question: ").count(), 5);
            assert_eq!(prompt.matches(question).count(), 1, "{question}");
        }
    }
}
