//! The report of several runs side by side.

use std::path::PathBuf;

use super::*;
use crate::report::run_data::RunError;

#[test]
fn several_runs_are_shown_side_by_side() {
    let folder = tempfile::tempdir().unwrap();
    let roots = ["a-run", "b & c"].map(|name| folder.path().join(name));
    roots.iter().for_each(|root| run_folder(root));
    let runs: Vec<RunData> = roots
        .iter()
        .map(|root| RunData::read(root).unwrap())
        .collect();
    let text = fs::read_to_string(write(&runs, &folder.path().join("both")).unwrap()).unwrap();
    assert_eq!(unbalanced(&text), Vec::<String>::new());
    assert!(text.contains("a-run") && text.contains("b &amp; c"));
    assert!(text.contains("class=\"legend\""));
}

/// The figure with this heading.
fn figure<'a>(page: &'a str, title: &str) -> &'a str {
    let (_, from) = page.split_once(&format!("<b>{title}</b>")).unwrap();
    from.split("</figure>").next().unwrap()
}

/// The page of runs in folders named `a-run`, `b-run` …, each with its settings, its evaluated tasks and the number of correct samples of eight at the end.
fn page_of(runs: &[(&[&str], Range<usize>, usize)]) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let roots: Vec<PathBuf> = runs
        .iter()
        .zip('a'..)
        .map(|((sets, tasks, correct), name)| {
            let root = folder.path().join(format!("{name}-run"));
            folder_of(
                &root,
                sets,
                &records_of(tasks.clone(), 1),
                &records_of(tasks.clone(), *correct),
            );
            root
        })
        .collect();
    let read = RunData::read_all(&roots).unwrap();
    let page = fs::read_to_string(write(&read, &folder.path().join("both")).unwrap()).unwrap();
    assert_eq!(unbalanced(&page), Vec::<String>::new());
    (folder, page)
}

#[test]
fn each_run_has_a_header_and_its_own_number_of_tasks() {
    let (_folder, page) = page_of(&[
        (&["run.seed=7"], 0..1, 4),
        (&["data.dataset=gsm8k", "algorithm.preset=grpo"], 0..24, 4),
    ]);
    for words in [
        "A · a-run: 1 held-out task, 4 completions of each.",
        "B · b-run: 24 held-out tasks, 4 completions of each.",
        "A</span> a-run</h3>",
        "B</span> b-run</h3>",
        "seed <b>7</b>",
        "data <b>gsm8k</b>",
        "algorithm <b>grpo</b>",
    ] {
        assert!(page.contains(words), "{words}");
    }
    assert!(!page.contains("1 held-out tasks"));
}

#[test]
fn only_the_differing_keys_of_the_configurations_are_listed() {
    let (_folder, page) = page_of(&[
        (&["run.seed=7"], 0..24, 4),
        (&["optimiser.lr=0.5", "eval.limit=24"], 0..24, 4),
    ]);
    let (_, table) = page
        .split_once("Differences in the configurations")
        .unwrap();
    let (table, _) = table.split_once("</table>").unwrap();
    let keys: Vec<&str> = table
        .split("<th scope=\"row\">")
        .skip(1)
        .map(|row| row.split('<').next().unwrap())
        .collect();
    assert_eq!(keys, ["eval.limit", "optimiser.lr", "run.seed"]);
    for value in ["not set", "0.5", "7"] {
        assert!(table.contains(&format!(">{value}</td>")), "{value}");
    }
    let (_folder, same) = page_of(&[(&[], 0..24, 4), (&[], 0..24, 6)]);
    assert!(same.contains("None: every key is the same"));
}

#[test]
fn runs_evaluated_on_the_same_tasks_are_compared_task_by_task() {
    let (folder, page) = page_of(&[(&[], 0..24, 6), (&[], 0..24, 2), (&[], 0..24, 6)]);
    // Six of eight minus two of eight, in the same way on every second pair of tasks.
    assert!(
        page.contains("A has the higher Pass@1 of A and B: the whole interval lies above zero.")
    );
    assert!(page.contains(
        "It is undetermined which of A and C has the higher Pass@1: the interval contains zero."
    ));
    assert!(page.contains("after 10 updates, on the same 24 tasks"));
    let csv = fs::read_to_string(folder.path().join("both/report-differences.csv")).unwrap();
    let fields: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(fields.len(), 5, "{csv}");
    assert_eq!(
        fields[1][..7],
        ["a-run", "b-run", "Pass@1", "24", "0.75", "0.25", "0.5"]
    );
    assert_eq!(fields[3][6], "0");
    assert!(fields[3][7].starts_with("-0.137976") && fields[3][8].starts_with("0.137976"));
    let ends: Vec<f64> = fields[1][7..]
        .iter()
        .map(|end| end.parse().unwrap())
        .collect();
    // Paired by task the differences are equal, and a share of 0.138 of other tasks may differ.
    assert!(
        (ends[0] - 0.293).abs() < 1e-3 && (ends[1] - 0.569).abs() < 1e-3,
        "{ends:?}"
    );
}

#[test]
fn a_task_that_one_run_has_not_judged_is_in_no_figure_of_the_difference() {
    let folder = tempfile::tempdir().unwrap();
    let roots = ["a", "b"].map(|name| folder.path().join(name));
    let mut after = records(6);
    unjudge(&mut after, |task, _| task == 3);
    folder_of(&roots[0], &[], &records(1), &after);
    folder_of(&roots[1], &[], &records(1), &records(2));
    let runs = RunData::read_all(&roots).unwrap();
    let out = folder.path().join("both");
    let page = fs::read_to_string(write(&runs, &out).unwrap()).unwrap();
    assert!(page.contains("on the same 24 tasks"));
    assert!(page.contains(">23 of 24 tasks</td>"));
    let csv = fs::read_to_string(out.join("report-differences.csv")).unwrap();
    for line in csv.lines().skip(1) {
        let numbers: Vec<f64> = line
            .split(',')
            .skip(3)
            .map(|n| n.parse().unwrap())
            .collect();
        let [tasks, first, second, difference, ..] = numbers[..] else {
            panic!("{line}")
        };
        assert_eq!(tasks, 23.0);
        assert!((first - second - difference).abs() < 1e-12, "{line}");
    }
}

#[test]
fn tasks_with_the_same_ids_and_other_content_are_not_compared() {
    let folder = tempfile::tempdir().unwrap();
    let roots = ["a", "b"].map(|name| folder.path().join(name));
    for (root, digest) in roots.iter().zip(["one", "other"]) {
        run_folder(root);
        let note = serde_json::json!({"version": 2, "data_dir": null, "train": 9, "eval": 24, "digest": "", "trained_on": 0, "eval_digest": digest});
        fs::write(root.join("data.json"), note.to_string()).unwrap();
    }
    let runs = RunData::read_all(&roots).unwrap();
    let page = fs::read_to_string(write(&runs, &folder.path().join("both")).unwrap()).unwrap();
    assert!(page.contains("their tasks have the same ids but not the same questions and answers"));
}

#[test]
fn what_makes_a_difference_unsure_is_said_beside_it() {
    let all = 0..24;
    for (first, second, words, rows) in [
        (
            (&[][..], all.clone(), 6),
            (&[][..], 4..30, 2),
            "they were evaluated on different tasks (24 and 26, 20 of them the same)",
            0,
        ),
        (
            (&[][..], 0..1, 6),
            (&[][..], 0..1, 2),
            "on the same 1 task. A and B: no interval: 1 task, and it takes 20, so nothing is concluded.",
            2,
        ),
        (
            (
                &["eval.temperature=0.5", "eval.min_tokens=3"][..],
                all.clone(),
                6,
            ),
            (&["sampling.max_tokens=32"][..], all, 6),
            "A and B were evaluated with different settings (eval.temperature, eval.min_tokens, eval.max_tokens)",
            2,
        ),
    ] {
        let (folder, page) = page_of(&[first, second]);
        assert!(page.contains(words), "{words}");
        assert!(
            !page.contains("has the higher Pass@1 of A and B: the"),
            "{words}"
        );
        let csv = fs::read_to_string(folder.path().join("both/report-differences.csv")).unwrap();
        assert_eq!(csv.lines().count(), 1 + rows, "{words}");
    }
}

#[test]
fn the_differences_of_other_runs_do_not_stay_beside_the_report_of_one() {
    let (folder, _) = page_of(&[(&[], 0..24, 6), (&[], 0..24, 2)]);
    let both = folder.path().join("both");
    let one = RunData::read(&folder.path().join("a-run")).unwrap();
    write(&[one], &both).unwrap();
    assert!(!both.join("report-differences.csv").exists());
    assert!(both.join("report-metrics.csv").is_file());
}

#[test]
fn each_run_has_its_own_bar_of_times_and_its_own_line() {
    let folder = tempfile::tempdir().unwrap();
    let roots = ["a", "b"].map(|name| folder.path().join(name));
    roots.iter().for_each(|root| run_folder(root));
    let slow: Vec<StepTimings> = (1..=10)
        .map(|step| StepTimings {
            backward: 30.0,
            elapsed: 100.0 * step as f64,
            ..timing(step)
        })
        .collect();
    lines(&roots[1].join("timings.jsonl"), &slow);
    let runs = RunData::read_all(&roots).unwrap();
    let page = fs::read_to_string(write(&runs, &folder.path().join("both")).unwrap()).unwrap();
    let times = figure(&page, "Where the time went");
    let legends: Vec<&str> = times.split("class=\"legend\"").skip(1).collect();
    assert_eq!(legends.len(), 2);
    for (legend, backward) in legends.iter().zip(["backward 37%", "backward 30%"]) {
        assert!(legend.contains(backward), "{legend}");
        let shares = legend
            .split("%</li>")
            .filter_map(|part| part.rsplit(' ').next()?.parse::<u32>().ok());
        assert_eq!(shares.sum::<u32>(), 100, "{legend}");
    }
    let chart = figure(&page, "Held-out Pass@1");
    assert!(chart.contains("<g class=\"s0 d0\">") && chart.contains("<g class=\"s1 d0\">"));
    assert!(chart.contains("A · a</li>") && chart.contains("B · b</li>"));
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
        assert!(
            matches!(error, RunError::Twice { .. })
                && error.to_string().contains("give each run once"),
            "{error}"
        );
    }
}
