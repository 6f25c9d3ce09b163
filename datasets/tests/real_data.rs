//! Tests of the loaders on real data sets, or on the repository's excerpts if the whole data sets are not on the machine.

mod data;

use std::collections::HashSet;
use std::path::PathBuf;

use datasets::{CodeTask, Compare, Dataset, Task, TaskSpec, overlap};

/// A data set of which the repository has an excerpt, and whether it is whole.
fn open(name: &str) -> (Dataset, bool) {
    let records = data::holding(name).expect("there is an excerpt");
    let dataset = datasets::open(name, Some(&records.folder));
    (dataset.unwrap_or_else(|e| panic!("{e}")), records.whole)
}

/// Sizes of the splits.
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

fn assert_ids_are_distinct(dataset: &Dataset) {
    let ids: HashSet<_> = all(dataset).map(|task| &task.id).collect();
    assert_eq!(ids.len(), dataset.train.len() + dataset.eval.len());
}

#[test]
fn mbppplus_has_the_papers_split() {
    let (dataset, whole) = open("mbppplus");
    assert_eq!(dataset.train[0].id, "mbppplus/2");
    assert_ids_are_distinct(&dataset);
    if !whole {
        assert_eq!(sizes(&dataset), (8, 4));
        return;
    }
    assert_eq!(sizes(&dataset), (264, 114));
    assert_eq!(dataset.train[263].id, "mbppplus/593");
    assert_eq!(dataset.eval[0].id, "mbppplus/594");
    assert_eq!(dataset.eval[113].id, "mbppplus/809");
}

#[test]
fn mbppplus_records_set_comparison_and_tolerance() {
    let (dataset, whole) = open("mbppplus");
    let ids = |matches: &dyn Fn(&CodeTask) -> bool| -> Vec<String> {
        all(&dataset)
            .filter(|task| matches(code(task)))
            .map(|task| task.id.replace("mbppplus/", ""))
            .collect()
    };
    let sets = ids(&|c| c.compare == Compare::Set);
    let not_none = ids(&|c| c.compare == Compare::NotNone);
    let computed = ids(&|c| c.tests.iter().any(|t| t.expected.is_none()));
    let tolerant = ids(&|c| c.atol != 0.0);
    if whole {
        assert_eq!(sets, ["2", "7", "111", "140", "232", "579", "769"]);
        assert_eq!(not_none, ["737", "787", "794"]);
        // EvalPlus's own record form has no results at all.
        assert!(computed == ["88", "255", "630"] || computed.len() == 378);
        assert_eq!(tolerant.len(), 13);
    } else {
        assert_eq!(
            (sets, not_none),
            (vec!["2".to_owned()], vec!["737".to_owned()])
        );
        assert_eq!(computed, ["88", "630"]);
        assert_eq!(tolerant, ["139"]);
    }
    assert!(all(&dataset).all(|task| [0.0, 1e-4].contains(&code(task).atol)));
    assert!(
        all(&dataset).all(|task| code(task).asserts.is_empty() && code(task).canonical.is_some())
    );
    let tests: usize = all(&dataset).map(|task| code(task).tests.len()).sum();
    assert!(
        all(&dataset).all(|task| code(task).tests.len() >= 3),
        "{tests} tests in all"
    );
}

/// `entry_point` comes from the test program's loop, and the record's assertions call the same function.
#[test]
fn mbppplus_examples_call_the_entry_point() {
    let (dataset, _) = open("mbppplus");
    for task in all(&dataset) {
        let code = code(task);
        let example = code.example.as_ref().unwrap();
        assert!(
            example.contains(&code.entry_point),
            "{}: {example}",
            task.id
        );
        assert!(
            code.canonical
                .as_ref()
                .unwrap()
                .contains(&format!("def {}", code.entry_point)),
            "{}",
            task.id
        );
    }
}

#[test]
fn both_record_forms_of_mbppplus_give_equal_tasks() {
    // The cache folder has one form only, the excerpts have both.
    let both = |folder: &PathBuf| folder.join("mbppplus/train.jsonl").is_file();
    let folder = data::holding("mbppplus")
        .map(|records| records.folder)
        .filter(both)
        .unwrap_or_else(data::excerpts);
    let only_evalplus = tempfile::tempdir().unwrap();
    let place = only_evalplus.path().join("mbppplus");
    std::fs::create_dir(&place).unwrap();
    let file = "evalplus-v0.1.0.jsonl";
    std::fs::copy(folder.join("mbppplus").join(file), place.join(file)).unwrap();

    let hugging_face = datasets::open("mbppplus", Some(&folder)).unwrap();
    let evalplus = datasets::open("mbppplus", Some(only_evalplus.path())).unwrap();

    assert_eq!(evalplus.train.len(), hugging_face.train.len());
    assert_eq!(evalplus.eval.len(), hugging_face.eval.len());
    for (a, b) in all(&hugging_face).zip(all(&evalplus)) {
        assert_eq!((&a.id, &a.question), (&b.id, &b.question));
        let (a, b) = (code(a), code(b));
        assert_eq!(a.entry_point, b.entry_point);
        assert_eq!(a.example, b.example, "{}", a.entry_point);
        assert_eq!(a.atol, b.atol, "{}", a.entry_point);
        assert_eq!(a.compare, b.compare, "{}", a.entry_point);
        assert_eq!(
            a.canonical.as_ref().unwrap().trim(),
            b.canonical.as_ref().unwrap().trim()
        );
        assert_eq!(a.tests.len(), b.tests.len(), "{}", a.entry_point);
        for (i, (x, y)) in a.tests.iter().zip(&b.tests).enumerate() {
            assert_eq!(x.args, y.args, "{} test {i}", a.entry_point);
        }
    }
}

#[test]
fn the_papers_prompt_equals_evalplus_prompt() {
    let (dataset, _) = open("mbppplus");
    let template = datasets::Template::for_dataset("mbppplus");
    assert_eq!(
        template.render(&dataset.train[0]),
        "\"\"\"\nWrite a function to find the shared elements from the given two lists.\n\
         assert set(similar_elements((3, 4, 5, 6),(5, 7, 4, 10))) == set((4, 5))\n\"\"\"\n"
    );
}

#[test]
fn math_leaves_out_the_four_records_without_an_answer() {
    let (dataset, whole) = open("math");
    // The excerpt has two such records, one with an empty answer and one with `None`.
    let expected = if whole {
        (12_000 - 4, 500)
    } else {
        (12 - 2, 12)
    };
    assert_eq!(sizes(&dataset), expected);
    assert!(all(&dataset).all(|task| !answer(task).is_empty() && answer(task) != "None"));
    assert_eq!(dataset.train[0].id, "math/test/algebra/1.json");
    assert_eq!(answer(&dataset.eval[0]), r"\left( 3, \frac{\pi}{2} \right)");
    assert_ids_are_distinct(&dataset);
    assert_eq!(overlap(&dataset), []);
}

#[test]
fn gsm8k_answers_are_whole_numbers() {
    let (dataset, whole) = open("gsm8k");
    let expected = if whole { (7_473, 1_319) } else { (8, 4) };
    assert_eq!(sizes(&dataset), expected);
    for task in all(&dataset) {
        assert!(
            answer(task).parse::<i64>().is_ok(),
            "{}: {}",
            task.id,
            answer(task)
        );
    }
    assert_eq!(
        (dataset.eval[0].id.as_str(), answer(&dataset.eval[0])),
        ("gsm8k/eval/1", "18")
    );
    assert_ids_are_distinct(&dataset);
}

#[test]
fn minif2f_trains_on_its_valid_split_and_evaluates_on_its_test_split() {
    let (dataset, whole) = open("minif2f");
    let expected = if whole { (244, 244) } else { (6, 6) };
    assert_eq!(sizes(&dataset), expected);
    assert_ids_are_distinct(&dataset);
    for task in all(&dataset) {
        let TaskSpec::Lean(lean) = &task.spec else {
            panic!("{}", task.id)
        };
        assert!(lean.header.starts_with("import Mathlib") && lean.statement.ends_with(":= by"));
        assert!(
            !task.question.contains("/--") && !task.question.ends_with("-/"),
            "{}",
            task.question
        );
    }
}
