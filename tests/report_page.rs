//! The pages of `rapid report` in a browser: nothing is cut off on a narrow screen, in the light and in the dark scheme.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use datasets::passk::{self, Counts};
use serde::Serialize;
use serde_json::{Value, json};
use trainer::record::{EvalRecord, StepTimings};
use trainer::report::{self, RunData};
use trainer::sweep::{Event, ManifestLine, SweepFile, SweepFolder};
use trainer::sweep_report;

/// A name that is longer than any line of a narrow screen, and cannot be broken.
const LONG: &str = "a_model_whose_name_is_one_word_and_much_longer_than_a_telephone_is_wide-135M-Instruct.Q4_1.gguf";

/// Measures the page in a frame of this width: it lists the elements that are wider than the frame, except inside of a box that scrolls. `details` are opened first.
const WRAPPER: &str = r#"<!doctype html>
<html><head><meta name="color-scheme" content="light dark"></head><body style="margin:0"><pre id="measured"></pre>
<iframe style="width:WIDTHpx;height:900px;border:0" srcdoc="PAGE"></iframe>
<script>
addEventListener('load', () => {
  const frame = document.querySelector('iframe');
  const page = frame.contentDocument;
  page.querySelectorAll('details').forEach(details => details.open = true);
  const scrolls = element => element.closest('.scroll, pre, head, svg > *');
  const wide = [...page.querySelectorAll('body *')]
    .filter(element => !scrolls(element) && element.getBoundingClientRect().right > WIDTH + 0.5)
    .map(element => element.tagName + '.' + element.getAttribute('class') + ': ' + element.textContent.slice(0, 40));
  document.getElementById('measured').textContent = JSON.stringify({
    wide,
    scroll_width: page.documentElement.scrollWidth,
    text: page.body.innerText.length,
    dark: frame.contentWindow.matchMedia('(prefers-color-scheme: dark)').matches,
    paper: getComputedStyle(page.body).backgroundColor,
    ink: getComputedStyle(page.body).color,
  });
});
</script></body></html>"#;

const CHROMIUM_OPTIONS: &str = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update
    --disable-sync --disable-dev-shm-usage --hide-scrollbars --window-size=1400,1000 --dump-dom";

fn chromium() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let program = ["chromium", "chromium-browser", "google-chrome"]
        .iter()
        .flat_map(|name| std::env::split_paths(&path).map(move |folder| folder.join(name)))
        .find(|program| program.is_file());
    if program.is_none() {
        eprintln!("SKIPPED: pages in a browser: there is no Chromium (apt-get install chromium)");
    }
    program
}

fn lines(path: &Path, records: impl IntoIterator<Item = impl Serialize>) {
    let lines = records
        .into_iter()
        .map(|record| serde_json::to_string(&record).unwrap() + "\n");
    fs::write(path, lines.collect::<String>()).unwrap();
}

fn evaluation(step: usize, tasks: usize, correct: usize) -> EvalRecord {
    let counts = Counts { judged: 4, correct };
    EvalRecord {
        step,
        samples: 4,
        pass_at: [1, 4]
            .map(|k| (k, passk::pass_at(&vec![counts; tasks], k).unwrap()))
            .into(),
        tasks: (0..tasks)
            .map(|task| (format!("{LONG}/{task}"), counts))
            .collect(),
        masked: 1,
        length_mean: 123.4,
        truncated: 0.25,
    }
}

/// The samples of [`evaluation`].
fn samples(tasks: usize, correct: usize) -> Vec<Value> {
    let numbers = (0..tasks).flat_map(|task| (0..4).map(move |sample| (task, sample)));
    numbers
        .map(|(task, sample)| {
            let is_correct = sample < correct;
            json!({
                "task": format!("{LONG}/{task}"), "sample": sample, "prompt": format!("Question: {LONG}"), "completion": LONG.repeat(4),
                "reward": u8::from(is_correct), "any_form": 1.0, "verdict": if is_correct { "correct" } else { "malformed" },
                "detail": {}, "tokens": 9, "logp": -1.0, "finish": "stop",
            })
        })
        .collect()
}

fn step(step: usize) -> Value {
    json!({
        "step": step, "phase": 0, "update": step - 1, "phase_updates": 30, "epoch": 0, "prompts": 16,
        "groups_right": 0, "groups_wrong": 11, "groups_mixed": 5,
        "judged": 128, "masked": 0, "groups_left_out": 0, "reward": 0.02 * step as f64, "loss": -123_456.0, "ell_mean": 0.0, "ell_std": 0.1,
        "stale_mean_log": 0.0, "stale_mean_abs_log": 0.0, "stale_abs_log_mean": 0.0, "eta": 2.0,
        "clip_share": 0.0, "saturated": 0, "ess": 100.0, "kl_behaviour": 0.001, "pass_at": {},
        "grad_norm": 1e-7 / step as f64, "grad_scale": 1.0, "entropy": 1.5, "length_mean": 8.5, "length_max": 12, "truncated": 0.25,
        "repeated": 0.0, "commonest": 0.1, "lr": 1e-5,
    })
}

/// A run folder with long names, evaluated on `tasks` tasks. At the end, `correct` of four samples of each task are correct.
fn run_folder(root: &Path, sets: &[&str], tasks: usize, correct: usize) -> RunData {
    fs::create_dir_all(root.join("samples")).unwrap();
    let model = format!("model.path=models/{LONG}");
    let sets = sets.iter().copied().chain([model.as_str()]);
    let sets: Vec<String> = sets.map(str::to_owned).collect();
    let config = trainer::config::load("quickstart", &sets).unwrap();
    fs::write(root.join("config.toml"), config.to_toml()).unwrap();
    lines(&root.join("metrics.jsonl"), (1..=30).map(step));
    let timing = |step: usize| StepTimings {
        step,
        inference: 20.0,
        verify: 0.1,
        forward: 4.0,
        backward: 9.0,
        optimiser: 1.0,
        elapsed: 40.0 * step as f64,
        ..StepTimings::default()
    };
    lines(&root.join("timings.jsonl"), (1..=30).map(timing));
    let evaluations = [(0, 1), (30, correct)];
    lines(
        &root.join("eval.jsonl"),
        evaluations.map(|(step, correct)| evaluation(step, tasks, correct)),
    );
    for (step, correct) in evaluations {
        lines(
            &root.join(format!("samples/eval-{step}.jsonl")),
            samples(tasks, correct),
        );
    }
    let alarm = json!({"step": 6, "alarm": "length-collapse", "state": "raised", "text": LONG});
    lines(&root.join("alarms.jsonl"), [alarm]);
    RunData::read(root).unwrap()
}

/// The measurements of [`WRAPPER`] for a page at this width.
fn measured(chromium: &Path, page: &Path, width: usize, dark: bool) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(page).unwrap();
    let text = text.replace('&', "&amp;").replace('"', "&quot;");
    let wrapper = folder.path().join("wrapper.html");
    let wrapped = WRAPPER
        .replace("WIDTH", &width.to_string())
        .replace("PAGE", &text);
    fs::write(&wrapper, wrapped).unwrap();
    let output = Command::new(chromium)
        .args(CHROMIUM_OPTIONS.split_whitespace())
        .arg(format!(
            "--blink-settings=preferredColorScheme={}",
            u8::from(!dark)
        ))
        .arg(format!(
            "--user-data-dir={}",
            folder.path().join("profile").display()
        ))
        .arg(format!("file://{}", wrapper.display()))
        .output()
        .unwrap();
    let dom = String::from_utf8_lossy(&output.stdout).into_owned();
    let measured = dom
        .split("<pre id=\"measured\">")
        .nth(1)
        .and_then(|rest| rest.split("</pre>").next())
        .unwrap_or_default()
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&amp;", "&");
    serde_json::from_str(&measured).unwrap_or_else(|error| {
        panic!(
            "{error}: {measured:?}\n{}",
            String::from_utf8_lossy(&output.stderr)
        )
    })
}

/// The folder of a sweep with long names, of which one run failed.
fn sweep(home: &Path) -> PathBuf {
    let root = home.join(format!("sweep-{LONG}"));
    let arm = |h: usize| {
        format!(
            "[[arms]]\nname = \"an_arm_whose_name_is_one_word_of_sixty_letters_and_digits-h{h}\"\nset = {{ \"algorithm.h\" = {h} }}\n"
        )
    };
    let text = format!(
        "recipe = \"quickstart\"\nseeds = [0, 1]\n[set]\n\"model.path\" = \"models/{LONG}\"\n\"run.updates\" = 30\n{}[compare]\nreference = \
         \"an_arm_whose_name_is_one_word_of_sixty_letters_and_digits-h1\"\nmargin = 0.02\n",
        [1, 2, 4].map(arm).concat()
    );
    let folder =
        SweepFolder::create(&root, SweepFile::parse("sweep.toml", &text).unwrap()).unwrap();
    for (number, run) in folder.plan().runs().enumerate() {
        run_folder(&folder.run(&run.name), &[], 24, 1 + number % 3);
        let machine =
            json!({"processor": LONG, "version": "0.1.0", "binary": "0123456789abcdef".repeat(4)});
        let event = if number == 1 {
            Event::Fail
        } else {
            Event::Finish
        };
        let line = ManifestLine {
            reason: (number == 1).then(|| LONG.repeat(2)),
            ..ManifestLine::now(&run.name, event, &serde_json::from_value(machine).unwrap())
        };
        folder.record(&line).unwrap();
    }
    root
}

#[test]
fn nothing_of_a_report_is_cut_off_at_390_pixels_in_light_or_dark() {
    let Some(chromium) = chromium() else { return };
    let folder = tempfile::tempdir().unwrap();
    let root = |name: &str| folder.path().join(format!("{name}-{LONG}"));
    let single = run_folder(&root("one"), &[], 1, 3);
    let first = run_folder(&root("first"), &["run.seed=1"], 24, 3);
    let second = run_folder(
        &root("second"),
        &["optimiser.lr=0.5", "eval.limit=24"],
        24,
        2,
    );
    let pages = [
        vec![single.clone()],
        vec![first.clone(), second],
        vec![first, single],
    ];
    let of_runs = pages.iter().enumerate().map(|(number, runs)| {
        report::write(runs, &folder.path().join(number.to_string())).unwrap()
    });
    let of_sweep =
        sweep_report::write(&sweep(folder.path()), &folder.path().join("3"), true).unwrap();
    for (number, page) in of_runs.chain([of_sweep]).enumerate() {
        for (width, dark) in [(390, false), (390, true), (1280, false)] {
            let measured = measured(&chromium, &page, width, dark);
            let context = format!("page {number} at {width}: {measured:#}");
            assert!(measured["text"].as_u64().unwrap() > 2_000, "{context}");
            assert!(
                measured["scroll_width"].as_u64().unwrap() <= width as u64,
                "{context}"
            );
            assert_eq!(measured["wide"], json!([]), "{context}");
            assert_eq!(measured["dark"], json!(dark), "{context}");
            let colours = (measured["paper"].as_str(), measured["ink"].as_str());
            let expected = if dark {
                ("rgb(20, 22, 26)", "rgb(235, 232, 225)")
            } else {
                ("rgb(251, 250, 246)", "rgb(29, 28, 26)")
            };
            assert_eq!(colours, (Some(expected.0), Some(expected.1)), "{context}");
        }
    }
}
