//! The page: everything inline, nothing asked of any network.

use std::fmt::Write as _;

use datasets::passk::{MIN_TASKS, RESAMPLES};

use super::chart::Chart;
use super::escape::html;
use super::marks::{mark, titles};
use super::run_data::RunData;
use super::{STYLE, alarms, curves, heading, outcome, samples, time, versus};

/// The page of one run, or of several side by side. `files` are the names of the CSV files beside it.
pub(super) fn render(runs: &[RunData], files: &[&str]) -> String {
    let names: Vec<&str> = runs.iter().map(|run| run.name.as_str()).collect();
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>{} · rapid</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n",
        html(&names.join(", "))
    );
    heading::section(&mut out, runs);
    outcome::section(&mut out, runs);
    versus::section(&mut out, runs);
    heading::differences(&mut out, runs);
    for (place, run) in runs.iter().enumerate() {
        alarms::section(&mut out, run, &of_run(runs, place));
    }
    charts(&mut out, runs);
    for (place, run) in runs.iter().enumerate() {
        samples::section(&mut out, run, &of_run(runs, place));
    }
    configuration(&mut out, runs);
    out.push_str("<footer><p>The numbers behind this page: ");
    for (i, file) in files.iter().enumerate() {
        let _ = write!(
            out,
            "{}<a href=\"{file}\">{file}</a>",
            if i > 0 { ", " } else { "" },
            file = html(file)
        );
    }
    let _ = writeln!(
        out,
        ". Intervals are 95% percentile bootstrap intervals over tasks ({RESAMPLES} resamples); below {MIN_TASKS} tasks there is none. Differences are paired by task. \
         Each figure is rounded by itself, so a difference may end in another digit than the two figures beside it. Made by rapid {}.</p></footer>",
        env!("CARGO_PKG_VERSION")
    );
    out.push_str("</main>\n</body>\n</html>\n");
    out
}

/// Whose section it is, as HTML, where there are several runs.
fn of_run(runs: &[RunData], place: usize) -> String {
    if runs.len() > 1 {
        format!(": {} {}", mark(place), html(&runs[place].name))
    } else {
        String::new()
    }
}

fn charts(out: &mut String, runs: &[RunData]) {
    let titles = titles(runs);
    let drawn: Vec<Chart> = curves::charts(&titles, runs)
        .into_iter()
        .filter(|chart| !chart.is_empty())
        .collect();
    if drawn.is_empty() {
        return;
    }
    out.push_str("<h2>Training, update by update</h2><p>The horizontal axis counts optimiser updates.</p>\n<div class=\"charts\">\n");
    for chart in &drawn {
        out.push_str(&chart.render());
    }
    out.push_str("</div>\n");
    if let Some(stack) = time::stack(&titles, runs) {
        out.push_str(&stack.render());
    }
}

fn configuration(out: &mut String, runs: &[RunData]) {
    out.push_str("<h2>Configuration</h2><p>As resolved: the recipe, what was set on top of it, and every default.</p>\n");
    for run in runs {
        let _ = writeln!(
            out,
            "<details><summary>{}</summary><pre>{}</pre></details>",
            html(&format!("{}/config.toml", run.name)),
            html(run.config_text.trim_end())
        );
    }
}
