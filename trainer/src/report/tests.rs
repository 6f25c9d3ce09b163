mod few;
mod several;

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::Path;

use engine::Finish;
use serde::Serialize;
use verifier_api::Verdict;

use super::{Comparison, RunData, write};
use crate::algo::{Metrics, PhaseSize};
use crate::eval::{self, AnswerMode, Record};
use crate::record::{Alarm, AlarmRecord, AlarmState};
use crate::record::{
    EvalRecord, ExtensionRecord, GroupCounts, SampleRecord, StepRecord, StepTimings,
};
use datasets::passk;

/// A completion that tries to break the page.
const HOSTILE: &str = "</pre><script src=//evil.example></script>\u{202e}\u{0}\" onload='x'&lt;";

fn lines(path: &Path, records: &[impl Serialize]) {
    let text: String = records
        .iter()
        .map(|record| serde_json::to_string(record).unwrap() + "\n")
        .collect();
    fs::write(path, text).unwrap();
}

fn record(task: usize, sample: usize, correct: bool) -> Record {
    let completion = if sample == 1 {
        HOSTILE.to_owned()
    } else {
        format!(" \\boxed{{{task}}}")
    };
    Record {
        sample: SampleRecord {
            task: format!("starter-math/eval/{task}"),
            sample,
            prompt: format!(
                "{}Question: What is {task} + 0?\nAnswer:",
                "Question: What is 7 + 5?\nAnswer: \\boxed{12}\n".repeat(4)
            ),
            completion,
            reward: Some(f64::from(u8::from(correct))),
            verdict: if correct {
                Verdict::Correct
            } else {
                Verdict::Malformed
            },
            detail: serde_json::json!({"extracted": null}),
            tokens: 8,
            logp: -3.5,
            finish: Finish::Stop,
        },
        any_form: Some(f64::from(u8::from(correct || sample == 2))),
    }
}

fn records(correct: usize) -> Vec<Record> {
    records_of(0..24, correct)
}

/// Four samples of each task, of which `correct` of each eight are correct.
fn records_of(tasks: Range<usize>, correct: usize) -> Vec<Record> {
    tasks
        .flat_map(|task| {
            (0..4).map(move |sample| record(task, sample, (task * 4 + sample) % 8 < correct))
        })
        .collect()
}

fn evaluation(step: usize, records: &[Record]) -> EvalRecord {
    let counts: Vec<_> = eval::counts(records, AnswerMode::AsAnswered);
    let all: Vec<_> = counts.iter().map(|(_, counts)| *counts).collect();
    EvalRecord {
        step,
        samples: 4,
        pass_at: [1, 4]
            .into_iter()
            .map(|k| (k, passk::pass_at(&all, k).unwrap()))
            .collect(),
        tasks: counts.into_iter().collect(),
        masked: 0,
        length_mean: 8.0,
        truncated: 0.0,
    }
}

fn step(step: usize) -> StepRecord {
    StepRecord {
        step,
        phase: (step - 1) / 2,
        update: (step - 1) % 2,
        phase_updates: 2,
        auto_h: None,
        epoch: 0,
        prompts: 16,
        groups: GroupCounts {
            mixed: 5,
            wrong: 11,
            ..GroupCounts::default()
        },
        discarded: 0,
        sampled_reward: None,
        terms: BTreeMap::new(),
        algo: Metrics {
            judged: 128,
            reward: 0.02 * step as f64,
            loss: -0.1,
            ess: 100.0,
            ..Metrics::default()
        },
        pass_at: BTreeMap::from([(1, 0.02), (2, 0.04)]),
        grad_norm: 1.0 / step as f64,
        grad_scale: Some(1.0),
        entropy: 1.5,
        length_mean: 8.5,
        length_max: 12,
        truncated: 0.25,
        repeats: crate::record::Repeats::default(),
        lr: 1e-5,
    }
}

fn timing(step: usize) -> StepTimings {
    let inference = if step % 2 == 1 { 20.0 } else { 0.0 };
    StepTimings {
        step,
        inference,
        verify: 0.1,
        forward: 4.0,
        backward: 9.0,
        optimiser: 1.0,
        elapsed: 15.0 * step as f64,
        ..StepTimings::default()
    }
}

/// Writes a run folder like that of a finished run.
fn run_folder(root: &Path) {
    folder_of(root, &[], &records(1), &records(4));
}

/// Writes such a folder for a recipe with keys set and with these evaluations before and after.
fn folder_of(root: &Path, sets: &[&str], before: &[Record], after: &[Record]) {
    fs::create_dir_all(root.join("samples")).unwrap();
    let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
    let config = crate::config::load("quickstart", &sets).unwrap();
    fs::write(root.join("config.toml"), config.to_toml()).unwrap();
    let provenance = serde_json::json!({"version": 2, "data_dir": null, "train": 9, "eval": before.len(), "digest": "", "trained_on": 0, "eval_digest": ""});
    fs::write(root.join("data.json"), provenance.to_string()).unwrap();
    lines(
        &root.join("metrics.jsonl"),
        &(1..=10).map(step).collect::<Vec<_>>(),
    );
    lines(
        &root.join("timings.jsonl"),
        &(1..=10).map(timing).collect::<Vec<_>>(),
    );
    lines(
        &root.join("eval.jsonl"),
        &[evaluation(0, before), evaluation(10, after)],
    );
    let alarm = |step, state| AlarmRecord {
        step,
        alarm: Alarm::LengthCollapse,
        state,
        text: "2 tokens long, <b>8</b> over the first".into(),
    };
    lines(
        &root.join("alarms.jsonl"),
        &[alarm(6, AlarmState::Raised), alarm(8, AlarmState::Cleared)],
    );
    lines(&root.join("samples/eval-0.jsonl"), before);
    lines(&root.join("samples/eval-10.jsonl"), after);
}

/// Start tags without an end tag, and end tags without a start tag.
fn unbalanced(page: &str) -> Vec<String> {
    const VOID: [&str; 3] = ["meta", "!doctype", "br"];
    let mut open: Vec<&str> = Vec::new();
    let mut wrong = Vec::new();
    for tag in page.split('<').skip(1) {
        let tag = tag.split('>').next().unwrap_or("");
        let name = tag
            .split([' ', '\n', '/'])
            .find(|name| !name.is_empty())
            .unwrap_or("");
        if let Some(end) = tag.strip_prefix('/') {
            match open.pop() {
                Some(start) if start == end => {}
                other => wrong.push(format!("</{end}> after {other:?}")),
            }
        } else if !tag.ends_with('/') && !VOID.contains(&name) {
            open.push(name);
        }
    }
    wrong.extend(
        open.into_iter()
            .map(|name| format!("<{name}> without an end")),
    );
    wrong
}

#[test]
fn a_page_is_well_formed_and_has_no_requests_and_no_scripts() {
    let folder = tempfile::tempdir().unwrap();
    run_folder(folder.path());
    let page = write(&[RunData::read(folder.path()).unwrap()], folder.path()).unwrap();
    let text = fs::read_to_string(page).unwrap();
    assert_eq!(unbalanced(&text), Vec::<String>::new());
    for forbidden in [
        "<script",
        "<img",
        "<link",
        "@import",
        "url(",
        "src=",
        "javascript:",
        "http://",
        "https://",
    ] {
        let matches = text
            .match_indices(forbidden)
            .map(|(at, _)| &text[at.saturating_sub(40)..at]);
        // The completion's own markup is on the page as text.
        let matches: Vec<&str> = matches
            .filter(|before| !before.contains("&lt;script") && !before.contains("&lt;"))
            .collect();
        assert!(matches.is_empty(), "{forbidden}: {matches:?}");
    }
    assert!(
        text.contains("&lt;/pre&gt;&lt;script"),
        "the hostile completion is shown"
    );
    assert!(text.contains("default-src 'none'"));
}

#[test]
fn the_heading_names_extensions_after_which_updates_were_made() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    run_folder(root);
    let extension = |updates_before, updates, equal| ExtensionRecord {
        step: updates_before,
        updates_before,
        updates,
        equal,
        lr_before: Some(1e-5),
        lr: 1e-5,
        at: 0.0,
        version: "0.2.0".into(),
    };
    let shown = |extensions: &[ExtensionRecord]| {
        lines(&root.join("extended.jsonl"), extensions);
        let page = write(&[RunData::read(root).unwrap()], root).unwrap();
        fs::read_to_string(page).unwrap()
    };
    // The run has 10 updates.
    let (first, second) = (extension(4, 6, true), extension(6, 10, false));
    assert!(
        shown(std::slice::from_ref(&first))
            .contains("extended <b>after 4; equals a run of this length from the start</b>")
    );
    assert!(
        shown(&[first, second])
            .contains("<b>after 4 and 6; differs from a run of this length from the start</b>")
    );
    assert!(!shown(&[extension(10, 20, true)]).contains("extended <b>"));
}

#[test]
fn the_page_shows_the_figures_of_the_samples() {
    let folder = tempfile::tempdir().unwrap();
    run_folder(folder.path());
    let run = RunData::read(folder.path()).unwrap();
    let comparison = Comparison::of(&run).unwrap();
    let labels: Vec<&str> = comparison
        .rows
        .iter()
        .map(|row| row.label.as_str())
        .collect();
    assert_eq!(
        labels,
        ["Pass@1", "Pass@4", "Pass@1, any form", "Pass@4, any form"]
    );
    // One and four correct of each eight samples.
    assert_eq!(
        (
            comparison.rows[0].before.mean,
            comparison.rows[0].after.mean
        ),
        (0.125, 0.5)
    );
    assert!(comparison.rows[0].gain.interval.unwrap().is_above_zero());
    let text = fs::read_to_string(write(&[run], folder.path()).unwrap()).unwrap();
    for words in [
        "12.5%",
        "50.0%",
        "+37.5 points",
        "The whole interval lies above zero",
        "Gradient norm",
        "Where the time went",
        "length collapse</b> <span>after update 6, cleared after update 8",
        "2 tokens long, &lt;b&gt;8&lt;/b&gt; over",
        "Training Pass@k",
        "few-shot-boxed",
    ] {
        assert!(text.contains(words), "{words}");
    }
}

/// Takes the verdicts of these samples of tasks away.
fn unjudge(records: &mut [Record], is_masked: impl Fn(usize, usize) -> bool) {
    for record in records {
        let task = record.sample.task.rsplit('/').next().unwrap();
        if is_masked(task.parse().unwrap(), record.sample.sample) {
            record.sample.reward = None;
        }
    }
}

#[test]
fn the_gain_is_after_minus_before_over_the_tasks_that_both_have_judged() {
    let folder = tempfile::tempdir().unwrap();
    let (mut before, mut after) = (records(1), records(4));
    // Before training, task 3 has no verdict. After it, a sample of task 5 has none.
    unjudge(&mut before, |task, _| task == 3);
    unjudge(&mut after, |task, sample| (task, sample) == (5, 0));
    folder_of(folder.path(), &[], &before, &after);
    let run = RunData::read(folder.path()).unwrap();
    let of_samples = Comparison::of(&run).unwrap();
    let of_log = Comparison::of(&RunData {
        before: Vec::new(),
        ..run.clone()
    });
    for comparison in [&of_samples, &of_log.unwrap()] {
        for (row, tasks) in comparison.rows.iter().zip([23, 22]) {
            let difference = row.after.mean - row.before.mean;
            assert!((row.gain.mean - difference).abs() < 1e-12, "{row:?}");
            let all = [row.before, row.after, row.gain].map(|estimate| estimate.tasks);
            assert_eq!(all, [tasks; 3]);
        }
    }
    let text = of_samples.text();
    for words in ["Pass@1 (23 of 24 tasks)  ", "Pass@4 (22 of 24 tasks)  "] {
        assert!(text.contains(words), "{text}");
    }
    let page = fs::read_to_string(write(&[run], folder.path()).unwrap()).unwrap();
    assert_eq!(unbalanced(&page), Vec::<String>::new());
    for words in [
        "Pass@1 on 23 of 24 held-out tasks<",
        "<td class=\"words\">22 of 24 tasks</td>",
    ] {
        assert!(page.contains(words), "{words}");
    }
}

#[test]
fn without_sample_files_the_evaluations_of_the_run_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    run_folder(folder.path());
    fs::remove_dir_all(folder.path().join("samples")).unwrap();
    let comparison = Comparison::of(&RunData::read(folder.path()).unwrap()).unwrap();
    assert_eq!(
        (
            comparison.rows[0].before.mean,
            comparison.rows[0].after.mean
        ),
        (0.125, 0.5)
    );
    assert_eq!(comparison.rows.len(), 2);
}

#[test]
fn a_page_never_calls_a_trained_on_task_held_out() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    run_folder(root);
    let page =
        || fs::read_to_string(write(&[RunData::read(root).unwrap()], root).unwrap()).unwrap();
    let held_out = [
        "24 held-out tasks",
        "Held-out Pass@1",
        "it was not trained on",
    ];
    assert!(held_out.iter().all(|words| page().contains(words)));
    let note = |version: u32, trained_on: usize| {
        let note = serde_json::json!({"version": version, "data_dir": null, "train": 9, "eval": 24, "digest": "", "trained_on": trained_on, "eval_digest": ""});
        fs::write(root.join("data.json"), note.to_string()).unwrap();
    };
    // The count of another version is not used.
    note(1, 0);
    let text = page();
    assert!(text.contains("24 tasks") && !held_out.iter().any(|words| text.contains(words)));
    note(2, 24);
    let text = page();
    assert!(
        text.contains("24 tasks that it was also trained on")
            && text.contains("evaluated on tasks it was also trained on")
            && !held_out.iter().any(|words| text.contains(words))
    );
    note(2, 3);
    let text = page();
    assert!(
        text.contains("24 tasks, 3 of which it was also trained on")
            && !held_out.iter().any(|words| text.contains(words))
    );
}

#[test]
fn the_table_has_each_pass_at_k_that_the_evaluation_has() {
    let folder = tempfile::tempdir().unwrap();
    run_folder(folder.path());
    let evaluations = [(0, records(1)), (10, records(4))].map(|(step, records)| {
        let mut evaluation = evaluation(step, &records);
        let estimate = evaluation.pass_at[&4];
        evaluation.pass_at = [1, 2].map(|k| (k, estimate)).into();
        evaluation
    });
    lines(&folder.path().join("eval.jsonl"), &evaluations);
    let comparison = Comparison::of(&RunData::read(folder.path()).unwrap()).unwrap();
    let labels: Vec<&str> = comparison
        .rows
        .iter()
        .map(|row| row.label.as_str())
        .collect();
    assert_eq!(
        labels,
        ["Pass@1", "Pass@2", "Pass@1, any form", "Pass@2, any form"]
    );
}

#[test]
fn a_token_in_the_address_of_an_older_run_is_not_shown() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    run_folder(root);
    let config = fs::read_to_string(root.join("config.toml")).unwrap();
    let config = format!("{config}\n").replacen(
        "[verifier]\n",
        "[verifier]\nurl = \"http://user:s3cret@10.0.0.1:8700\\r\"\n",
        1,
    );
    fs::write(root.join("config.toml"), config).unwrap();
    let run = RunData::read(root).unwrap();
    let address = run.config.as_ref().unwrap().verifier.url.as_deref();
    assert_eq!(address, Some("http://10.0.0.1:8700\r"));
    let page = fs::read_to_string(write(&[run], root).unwrap()).unwrap();
    assert!(page.contains("http://10.0.0.1:8700") && !page.contains("s3cret"));
}

#[test]
fn a_young_or_killed_run_is_read_and_rendered() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    fs::write(root.join("config.toml"), "not = 'ours'").unwrap();
    let nothing = RunData::read(root).unwrap();
    assert!(nothing.config.is_none() && nothing.steps.is_empty());
    assert_eq!(
        unbalanced(&fs::read_to_string(write(&[nothing], root).unwrap()).unwrap()),
        Vec::<String>::new()
    );
    let whole = serde_json::to_string(&step(1)).unwrap();
    fs::write(
        root.join("metrics.jsonl"),
        format!("{whole}\n{}", &whole[..40]),
    )
    .unwrap();
    assert_eq!(RunData::read(root).unwrap().steps.len(), 1);
}

#[test]
fn the_error_names_a_damaged_line() {
    let folder = tempfile::tempdir().unwrap();
    run_folder(folder.path());
    fs::write(folder.path().join("metrics.jsonl"), "{}\n").unwrap();
    let error = RunData::read(folder.path()).unwrap_err().to_string();
    assert!(error.contains("metrics.jsonl, line 1"), "{error}");
    let error = RunData::read(Path::new("no-such-run"))
        .unwrap_err()
        .to_string();
    assert!(error.contains("no-such-run is not a run folder"), "{error}");
}

#[test]
fn the_csv_files_of_the_page_are_complete_tables() {
    let folder = tempfile::tempdir().unwrap();
    run_folder(folder.path());
    write(&[RunData::read(folder.path()).unwrap()], folder.path()).unwrap();
    for (file, rows) in [("report-metrics.csv", 11), ("report-before-after.csv", 5)] {
        let text = fs::read_to_string(folder.path().join(file)).unwrap();
        let widths: Vec<usize> = text.lines().map(|line| line.split(',').count()).collect();
        assert_eq!(widths.len(), rows, "{file}");
        // The names here contain no commas, except `Pass@1, any form`, which is quoted.
        let unquoted = text.lines().filter(|line| !line.contains('"'));
        assert!(
            unquoted
                .map(|line| line.split(',').count())
                .all(|width| width == widths[0]),
            "{file}"
        );
    }
    let metrics = fs::read_to_string(folder.path().join("report-metrics.csv")).unwrap();
    for column in ["run,step,", ",grad_norm,", ",pass_at.1,", ",time.backward,"] {
        assert!(metrics.lines().next().unwrap().contains(column), "{column}");
    }
}

#[test]
fn a_quantity_has_a_chart_if_any_run_has_it() {
    let folder = tempfile::tempdir().unwrap();
    let [plain, held] = ["plain", "held"].map(|name| folder.path().join(name));
    run_folder(&plain);
    run_folder(&held);
    let mut steps: Vec<StepRecord> = (1..=10).map(step).collect();
    for step in &mut steps {
        step.algo.kl_reference = Some(0.01 * step.step as f64);
    }
    steps[0].auto_h = Some(PhaseSize::after(&[], 0.5, 16));
    lines(&held.join("metrics.jsonl"), &steps);
    let titles = |folders: &[&Path]| -> Vec<String> {
        let runs: Vec<RunData> = folders.iter().map(|f| RunData::read(f).unwrap()).collect();
        let charts = super::curves::charts(&super::run_labels::titles(&runs), &runs);
        charts.into_iter().map(|chart| chart.title).collect()
    };
    let (without, with) = (titles(&[&plain]), titles(&[&plain, &held]));
    for title in ["Divergence from the reference", "Updates of a phase"] {
        let title = title.to_owned();
        assert!(!without.contains(&title) && with.contains(&title));
    }
    assert_eq!(with.len(), without.len() + 2);
}

#[test]
fn the_charts_say_how_many_updates_were_clipped_and_count_groups_that_mix_prompts() {
    let folder = tempfile::tempdir().unwrap();
    run_folder(folder.path());
    let mut steps: Vec<StepRecord> = (1..=10).map(step).collect();
    for step in &mut steps {
        // With `mix_groups` a mini-batch has more prompts than groups.
        step.prompts = 40;
        step.grad_scale = Some(if step.step <= 3 { 0.5 } else { 1.0 });
    }
    lines(&folder.path().join("metrics.jsonl"), &steps);
    let runs = [RunData::read(folder.path()).unwrap()];
    let charts = super::curves::charts(&super::run_labels::titles(&runs), &runs);
    let chart = |title: &str| charts.iter().find(|chart| chart.title == title).unwrap();
    let note = &chart("Gradient kept").note;
    assert!(note.ends_with("; clipped updates: 30.0%"), "{note}");
    let mixed = chart("Groups to learn from").series[0].points[0];
    assert_eq!(mixed, (1.0, 5.0 / 16.0));
}

#[test]
fn an_evaluation_has_the_same_interval_in_the_log_the_table_and_the_csv() {
    let folder = tempfile::tempdir().unwrap();
    run_folder(folder.path());
    let run = RunData::read(folder.path()).unwrap();
    let rows = Comparison::of(&run).unwrap().rows;
    // The log has the tasks in the order of evaluation, 9 before 10, and the table in the order of their ids.
    let logged = run.evals.last().unwrap().pass_at[&1];
    assert_eq!(rows[0].after, logged);
    let interval = logged.interval.unwrap();
    let text = fs::read_to_string(write(&[run], folder.path()).unwrap()).unwrap();
    let shown = format!(
        ">50.0<small class=\"ends\">{:.1} to {:.1}</small>",
        100.0 * interval.low,
        100.0 * interval.high
    );
    assert!(text.contains(&shown), "{shown}");
    let csv = fs::read_to_string(folder.path().join("report-before-after.csv")).unwrap();
    let written = format!(",{},{},{},", logged.mean, interval.low, interval.high);
    assert!(csv.contains(&written), "{written} in {csv}");
}
