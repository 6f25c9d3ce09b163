//! The page of the report, which is self-contained.

use std::fmt::Write as _;

use datasets::passk::{MIN_TASKS, RESAMPLES};

use super::chart::Chart;
use super::escape::html;
use super::run_data::RunData;
use super::run_labels::{mark, titles};
use super::{STYLE, alarms, curves, heading, outcome, run_comparison, samples, time_chart};

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
    run_comparison::section(&mut out, runs);
    heading::differences(&mut out, runs);
    for (index, run) in runs.iter().enumerate() {
        alarms::section(&mut out, run, &run_name(runs, index));
    }
    charts(&mut out, runs);
    for (index, run) in runs.iter().enumerate() {
        samples::section(&mut out, run, &run_name(runs, index));
    }
    configuration(&mut out, runs);
    out.push_str("<footer><p>The numbers of this page: ");
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
        ". Intervals are 95% percentile bootstrap intervals over tasks ({RESAMPLES} resamples), and wider where these reach 0% or 100% or all tasks agree; with fewer than {MIN_TASKS} tasks there is no interval. Differences are paired by task. \
         Each figure is rounded separately, so the last digit of a difference may not match the two figures beside it. Made by rapid {}.</p></footer>",
        env!("CARGO_PKG_VERSION")
    );
    out.push_str("</main>\n</body>\n</html>\n");
    out
}

/// The end of a section's heading as HTML: the run's letter and name if there are several runs, else nothing.
fn run_name(runs: &[RunData], index: usize) -> String {
    if runs.len() > 1 {
        format!(": {} {}", mark(index), html(&runs[index].name))
    } else {
        String::new()
    }
}

fn charts(out: &mut String, runs: &[RunData]) {
    let titles = titles(runs);
    let charts: Vec<Chart> = curves::charts(&titles, runs)
        .into_iter()
        .filter(|chart| !chart.is_empty())
        .collect();
    if charts.is_empty() {
        return;
    }
    out.push_str("<h2>Training, update by update</h2><p>The horizontal axis counts optimiser updates.</p>\n<div class=\"charts\">\n");
    for chart in &charts {
        out.push_str(&chart.render());
    }
    out.push_str("</div>\n");
    if let Some(stack) = time_chart::stack(&titles, runs) {
        out.push_str(&stack.render());
    }
}

fn configuration(out: &mut String, runs: &[RunData]) {
    out.push_str("<h2>Configuration</h2><p>As resolved from the recipe, the settings on top of it, and every default.</p>\n");
    for run in runs {
        let _ = writeln!(
            out,
            "<details><summary>{}</summary><pre>{}</pre></details>",
            html(&format!("{}/config.toml", run.name)),
            html(run.config_text.trim_end())
        );
    }
}
