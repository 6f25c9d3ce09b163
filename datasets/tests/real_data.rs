//! Tests of the loaders on real data sets, or on the repository's excerpts if the whole data sets are not on the machine.

mod data;

use std::collections::HashSet;
use std::path::PathBuf;

use datasets::{CodeTask, Compare, Dataset, Task, TaskSpec, overlap};

/// A data set with an excerpt in the repository, and whether it is whole. Its splits have the first sizes then, and otherwise the second. All its ids differ.
fn open(name: &str, whole: (usize, usize), excerpt: (usize, usize)) -> (Dataset, bool) {
    let records = data::holding(name).expect("there is an excerpt");
    let dataset = datasets::open(name, Some(&records.folder));
    let dataset = dataset.unwrap_or_else(|e| panic!("{e}"));
    let expected = if records.whole { whole } else { excerpt };
    assert_eq!(sizes(&dataset), expected);
    let ids: HashSet<_> = all(&dataset).map(|task| &task.id).collect();
    assert_eq!(ids.len(), all(&dataset).count());
    (dataset, records.whole)
}

fn sizes(dataset: &Dataset) -> (usize, usize) {
    (dataset.train.len(), dataset.eval.len())
}

fn code(task: &Task) -> &CodeTask {
    match &task.spec {
        TaskSpec::Code(code) => code,
        other => panic!("{other:?}"),
    }
}

fn answer(task: &Task) -> &str {
    match &task.spec {
        TaskSpec::Math(math) => &math.answer,
        other => panic!("{other:?}"),
    }
}

fn all(dataset: &Dataset) -> impl Iterator<Item = &Task> {
    dataset.train.iter().chain(&dataset.eval)
}

#[test]
fn mbppplus_has_the_papers_split_comparisons_and_tolerances() {
    let (dataset, whole) = open("mbppplus", (264, 114), (8, 4));
    let (train, eval) = (&dataset.train, &dataset.eval);
    assert_eq!(train[0].id, "mbppplus/2");
    let ids = |matches: &dyn Fn(&CodeTask) -> bool| -> String {
        let found = all(&dataset).filter(|task| matches(code(task)));
        let numbers = found.map(|task| task.id.replace("mbppplus/", ""));
        numbers.collect::<Vec<_>>().join(" ")
    };
    let sets = ids(&|c| c.compare == Compare::Set);
    let not_none = ids(&|c| c.compare == Compare::NotNone);
    let computed = ids(&|c| c.tests.iter().any(|t| t.expected.is_none()));
    let tolerant = all(&dataset).filter(|task| code(task).atol != 0.0).count();
    let found = (sets.as_str(), not_none.as_str(), tolerant);
    if whole {
        let ends = [&train[263], &eval[0], &eval[113]].map(|task| task.id.as_str());
        assert_eq!(ends, ["mbppplus/593", "mbppplus/594", "mbppplus/809"]);
        assert_eq!(found, ("2 7 111 140 232 579 769", "737 787 794", 13));
        // EvalPlus's own record form has no results at all.
        assert!(computed == "88 255 630" || computed.split(' ').count() == 378);
    } else {
        assert_eq!(found, ("2", "737", 1));
        assert_eq!(computed, "88 630");
    }
    for task in all(&dataset) {
        let code = code(task);
        assert!([0.0, 1e-4].contains(&code.atol), "{}", task.id);
        assert!(code.asserts.is_empty(), "{}", task.id);
        assert!(code.tests.len() >= 3, "{}", task.id);
        // The entry point comes from the test program's loop, and the record's assertions call the same function.
        let example = task.example.as_ref().unwrap();
        assert!(example.contains(&code.entry_point), "{example}");
        let canonical = code.canonical.as_ref().unwrap();
        let head = format!("def {}", code.entry_point);
        assert!(canonical.contains(&head), "{canonical}");
    }
    let template = datasets::Template::for_dataset("mbppplus");
    assert_eq!(
        template.render(&train[0]),
        "\"\"\"\nWrite a function to find the shared elements from the given two lists.\n\
         assert set(similar_elements((3, 4, 5, 6),(5, 7, 4, 10))) == set((4, 5))\n\"\"\"\n"
    );
}

#[test]
fn both_record_forms_of_mbppplus_give_equal_tasks() {
    // The cache folder has one form only, the excerpts have both.
    let both = |folder: &PathBuf| folder.join("mbppplus/train.jsonl").is_file();
    let folder = data::holding("mbppplus").map(|records| records.folder);
    let folder = folder.filter(both).unwrap_or_else(data::excerpts);
    let only_evalplus = tempfile::tempdir().unwrap();
    let place = only_evalplus.path().join("mbppplus");
    std::fs::create_dir(&place).unwrap();
    let file = "evalplus-v0.1.0.jsonl";
    std::fs::copy(folder.join("mbppplus").join(file), place.join(file)).unwrap();

    let hugging_face = datasets::open("mbppplus", Some(&folder)).unwrap();
    let evalplus = datasets::open("mbppplus", Some(only_evalplus.path())).unwrap();

    assert_eq!(sizes(&evalplus), sizes(&hugging_face));
    for (mut a, b) in all(&hugging_face).cloned().zip(all(&evalplus)) {
        // Only one of them has results, and imports of its tests.
        let (TaskSpec::Code(first), second) = (&mut a.spec, code(b)) else {
            panic!("{}", a.id)
        };
        for test in &mut first.tests {
            test.expected = None;
        }
        first.imports.clone_from(&second.imports);
        for canonical in [&mut first.canonical].into_iter().flatten() {
            let other = second.canonical.as_ref().unwrap();
            assert_eq!(canonical.trim(), other.trim());
            canonical.clone_from(other);
        }
        assert_eq!(a, *b);
    }
}

#[test]
fn math_leaves_out_the_four_records_without_an_answer() {
    // The excerpt has two such records, one with an empty answer and one with `None`.
    let (dataset, _) = open("math", (12_000 - 4, 500), (12 - 2, 12));
    assert!(all(&dataset).all(|task| !answer(task).is_empty() && answer(task) != "None"));
    assert_eq!(dataset.train[0].id, "math/test/algebra/1.json");
    assert_eq!(answer(&dataset.eval[0]), r"\left( 3, \frac{\pi}{2} \right)");
    assert_eq!(overlap(&[&dataset]), []);
}

#[test]
fn gsm8k_answers_are_whole_numbers() {
    let (dataset, _) = open("gsm8k", (7_473, 1_319), (8, 4));
    for task in all(&dataset) {
        assert!(answer(task).parse::<i64>().is_ok(), "{task:?}");
    }
    let first = &dataset.eval[0];
    assert_eq!((first.id.as_str(), answer(first)), ("gsm8k/eval/1", "18"));
}

#[test]
fn minif2f_trains_on_its_valid_split_and_evaluates_on_its_test_split() {
    let (dataset, _) = open("minif2f", (244, 244), (6, 6));
    for task in all(&dataset) {
        let TaskSpec::Lean(lean) = &task.spec else {
            panic!("{}", task.id)
        };
        assert!(lean.header.starts_with("import Mathlib") && lean.statement.ends_with(":= by"));
        let question = &task.question;
        assert!(!question.contains("/--"), "{question}");
        assert!(!question.ends_with("-/"), "{question}");
    }
}
