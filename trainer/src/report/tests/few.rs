//! With fewer than twenty tasks there is no conclusion.

use super::*;

/// The report of a run on this number of held-out tasks: the page, the table for the terminal, and the CSV.
fn reported(tasks: usize) -> (String, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    folder_of(
        root,
        &[],
        &records_of(0..tasks, 2),
        &records_of(0..tasks, 6),
    );
    let run = RunData::read(root).unwrap();
    let text = Comparison::of(&run).unwrap().text();
    let page = fs::read_to_string(write(&[run], root).unwrap()).unwrap();
    let csv = fs::read_to_string(root.join("report-before-after.csv")).unwrap();
    (page, text, csv)
}

#[test]
fn one_task_gives_no_interval_and_no_conclusion_anywhere() {
    let (page, text, csv) = reported(1);
    assert_eq!(unbalanced(&page), Vec::<String>::new());
    for claim in [
        "the model got",
        "lies above zero",
        "95% interval +",
        "class=\"range",
        "class=\"interval\"",
        "num up\"",
        "1 held-out tasks",
    ] {
        assert!(!page.contains(claim), "{claim}");
    }
    for words in [
        "on 1 held-out task<",
        "no conclusion: with 1 task, fewer than 20",
        "A figure of fewer than 20 tasks has no interval",
    ] {
        assert!(page.contains(words), "{words}");
    }
    assert!(
        !text.contains("95% interval")
            && text.contains("no interval: 1 task, and it takes 20, so nothing is concluded"),
        "{text}"
    );
    assert!(csv.contains("Pass@1,1,4,0.5,,,1,,,0.5,,\n"), "{csv}");
}

#[test]
fn twenty_tasks_have_an_interval_and_a_conclusion_and_nineteen_have_neither() {
    let (nineteen, twenty) = (reported(19), reported(20));
    assert!(!nineteen.0.contains("the model got") && !nineteen.1.contains("interval)"));
    assert!(twenty.0.contains("the model got better") && twenty.1.contains("(95% interval)"));
}

#[test]
fn an_older_versions_intervals_over_few_tasks_are_not_shown() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    folder_of(root, &[], &records_of(0..1, 2), &records_of(0..1, 6));
    let path = root.join("eval.jsonl");
    let old = fs::read_to_string(&path)
        .unwrap()
        .replace("\"low\":null,\"high\":null", "\"low\":0.5,\"high\":0.5");
    assert!(old.contains("\"low\":0.5"));
    fs::write(&path, old).unwrap();
    let run = RunData::read(root).unwrap();
    assert!(
        run.evals
            .iter()
            .all(|eval| eval.pass_at[&1].interval.is_none())
    );
}
