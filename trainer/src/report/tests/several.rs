//! The report of several runs side by side.

use std::path::PathBuf;

use super::*;
use crate::report::run_data::RunError;

/// What a run of several is: its settings, its evaluated tasks and the number of correct samples of eight at the end.
type Run<'a> = (&'a [&'a str], Range<usize>, usize);

/// The page of runs in folders named `a-run`, `b-run` …, its CSV file of the differences, and where the folders are.
fn reported(runs: &[Run<'_>]) -> (tempfile::TempDir, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let roots = runs
        .iter()
        .zip('a'..)
        .map(|((sets, tasks, correct), name)| {
            let root = folder.path().join(format!("{name}-run"));
            let [before, after] = [1, *correct].map(|correct| records(tasks.clone(), correct));
            folder_of(&root, sets, &before, &after);
            root
        });
    let (page, csv) = reported_of(&roots.collect::<Vec<_>>(), folder.path());
    (folder, page, csv)
}

fn reported_of(roots: &[PathBuf], folder: &Path) -> (String, String) {
    let both = folder.join("both");
    let page = page_of(&RunData::read_all(roots).unwrap(), &both);
    let csv = fs::read_to_string(both.join("report-differences.csv"));
    (page, csv.unwrap())
}

/// Folders of two runs.
fn two(folder: &Path) -> [PathBuf; 2] {
    let roots = ["a", "b & c"].map(|name| folder.join(name));
    roots.iter().for_each(|root| run_folder(root));
    roots
}

#[test]
fn each_run_has_a_header_its_own_number_of_tasks_and_its_differing_keys() {
    let (_folder, page, _) = reported(&[
        (&["run.seed=7"], 0..1, 4),
        (&["data.dataset=gsm8k", "algorithm.preset=grpo"], 0..24, 4),
    ]);
    let notes = "A · a-run: 1 held-out task, 4 completions of each. | B · b-run: 24 held-out tasks, 4 completions of each.";
    assert_has(&page, notes);
    assert_has(&page, "A</span> a-run</h3> | B</span> b-run</h3>");
    let facts = "seed <b>7</b> | data <b>gsm8k</b> | algorithm <b>grpo</b>";
    assert_has(&page, facts);
    assert!(!page.contains("1 held-out tasks"));
    let (_folder, page, _) = reported(&[
        (&["run.seed=7"], 0..24, 4),
        (&["optimiser.lr=0.5", "eval.limit=24"], 0..24, 4),
    ]);
    let mut parts = page.split("Differences in the configurations");
    let table = parts.nth(1).unwrap().split("</table>").next().unwrap();
    let keys = table.split("<th scope=\"row\">").skip(1);
    let keys: Vec<&str> = keys.map(|row| row.split('<').next().unwrap()).collect();
    assert_eq!(keys, ["eval.limit", "optimiser.lr", "run.seed"]);
    assert_has(table, ">not set</td> | >0.5</td> | >7</td>");
    let (_folder, same, _) = reported(&[(&[], 0..24, 4), (&[], 0..24, 6)]);
    assert!(same.contains("None: every key is the same"));
}

#[test]
fn runs_evaluated_on_the_same_tasks_are_compared_task_by_task() {
    let (folder, page, csv) = reported(&[(&[], 0..24, 6), (&[], 0..24, 2), (&[], 0..24, 6)]);
    // Six of eight minus two of eight, in the same way on every second pair of tasks.
    let higher = "A has the higher Pass@1 of A and B: the whole interval lies above zero.";
    assert_has(&page, higher);
    let undetermined =
        "It is undetermined which of A and C has the higher Pass@1: the interval contains zero.";
    assert_has(&page, undetermined);
    assert_has(&page, "after 10 updates, on the same 24 tasks");
    let fields: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(fields.len(), 5, "{csv}");
    let first = ["a-run", "b-run", "Pass@1", "24", "0.75", "0.25", "0.5"];
    assert_eq!(fields[1][..7], first);
    assert_eq!(fields[3][6], "0");
    assert!(fields[3][7].starts_with("-0.137976") && fields[3][8].starts_with("0.137976"));
    // Paired by task the differences are equal, and a share of 0.138 of other tasks may differ.
    for (end, expected) in fields[1][7..].iter().zip([0.293, 0.569]) {
        let off = end.parse::<f64>().unwrap() - expected;
        assert!(off.abs() < 1e-3, "{end}");
    }
    // The differences do not stay beside the report of one.
    let one = read(&folder.path().join("a-run"));
    let both = folder.path().join("both");
    page_of(&[one], &both);
    assert!(!both.join("report-differences.csv").exists());
}

#[test]
fn a_task_that_one_run_has_not_judged_is_in_no_figure_of_the_difference() {
    let folder = tempfile::tempdir().unwrap();
    let roots = two(folder.path());
    let mut after = records(0..24, 6);
    unjudge(&mut after, |task, _| task == 3);
    folder_of(&roots[0], &[], &records(0..24, 1), &after);
    let (page, csv) = reported_of(&roots, folder.path());
    assert!(page.contains("on the same 24 tasks") && page.contains(">23 of 24 tasks</td>"));
    for line in csv.lines().skip(1) {
        let numbers = line.split(',').skip(3).map(|n| n.parse().unwrap());
        let numbers: Vec<f64> = numbers.collect();
        let rest = numbers[1] - numbers[2] - numbers[3];
        assert!(numbers[0] == 23.0 && rest.abs() < 1e-12, "{line}");
    }
}

#[test]
fn what_makes_a_difference_unsure_is_said_beside_it() {
    const DIFFERENT: &str =
        "they were evaluated on different tasks (24 and 26, 20 of them the same)";
    const ONE_TASK: &str = "on the same 1 task. A and B: no interval: 1 task, and it takes 20, so nothing is concluded.";
    const SETTINGS: &str = "A and B were evaluated with different settings (eval.temperature, eval.min_tokens, eval.max_tokens)";
    let eval = &["eval.temperature=0.5", "eval.min_tokens=3"][..];
    let max_tokens = &["sampling.max_tokens=32"][..];
    for (sets, tasks, correct, words, rows) in [
        ([&[][..]; 2], [0..24, 4..30], [6, 2], DIFFERENT, 0),
        ([&[][..]; 2], [0..1, 0..1], [6, 2], ONE_TASK, 2),
        ([eval, max_tokens], [0..24, 0..24], [6, 6], SETTINGS, 2),
    ] {
        let run = |number: usize| (sets[number], tasks[number].clone(), correct[number]);
        let (_folder, page, csv) = reported(&[run(0), run(1)]);
        assert!(page.contains(words), "{words}");
        let claim = "has the higher Pass@1 of A and B: the";
        assert!(!page.contains(claim), "{words}");
        assert_eq!(csv.lines().count(), 1 + rows, "{words}");
    }
    let folder = tempfile::tempdir().unwrap();
    let roots = two(folder.path());
    provenance(&roots[0], 2, 0, "one");
    provenance(&roots[1], 2, 0, "other");
    let (page, _) = reported_of(&roots, folder.path());
    assert!(page.contains("their tasks have the same ids but not the same questions and answers"));
}

#[test]
fn each_run_has_its_own_bar_of_times_and_its_own_line() {
    let folder = tempfile::tempdir().unwrap();
    let roots = two(folder.path());
    let slow = (1..=10).map(|step| StepTimings {
        backward: 30.0,
        elapsed: 100.0 * step as f64,
        ..timing(step)
    });
    lines(&roots[1].join("timings.jsonl"), slow);
    let (page, _) = reported_of(&roots, folder.path());
    let figure = |title: &str| {
        let (_, from) = page.split_once(&format!("<b>{title}</b>")).unwrap();
        from.split("</figure>").next().unwrap()
    };
    let times = figure("Where the time went");
    assert_has(times, ">A · a</text> | >backward 90 s<");
    assert_has(times, ">B · b &amp; c</text> | >backward 5 min 00 s<");
    let chart = figure("Held-out Pass@1");
    assert_has(chart, "<g class=\"s0 d0\"> | <g class=\"s1 d0\">");
    assert_has(chart, "A · a< | B · b &amp; c<");
}

#[test]
fn a_run_given_twice_is_refused_whatever_its_paths() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("a");
    run_folder(&root);
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&root, &link).unwrap();
    for other in [root.clone(), link, folder.path().join("a/../a/")] {
        let error = RunData::read_all(&[root.clone(), other]).unwrap_err();
        let words = "give each run once";
        assert!(matches!(error, RunError::Given(_)) && error.to_string().contains(words));
    }
}
