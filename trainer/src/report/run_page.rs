//! The page of a run, or of several side by side.

use std::fmt::Write as _;

use datasets::passk::{MIN_TASKS, RESAMPLES};

use super::escape::html;
use super::page::page;
use super::run_data::RunData;
use super::run_labels::{mark, titles};
use super::{alarms, curves, heading, outcome, run_comparison, samples, time_chart};

/// The page of one run, or of several side by side. `files` are the names of the CSV files beside it.
pub(super) fn render(runs: &[RunData], files: &[String]) -> String {
    let mut body = String::new();
    heading::facts(&mut body, runs);
    outcome::section(&mut body, runs);
    run_comparison::section(&mut body, runs);
    heading::differences(&mut body, runs);
    for (index, run) in runs.iter().enumerate() {
        alarms::section(&mut body, run, &run_name(runs, index));
    }
    charts(&mut body, runs);
    for (index, run) in runs.iter().enumerate() {
        samples::section(&mut body, run, &run_name(runs, index));
    }
    configuration(&mut body, runs);
    let (kind, title) = match runs {
        [run] => ("Training run", run.name.clone()),
        _ => ("Training runs", format!("{} runs side by side", runs.len())),
    };
    let notes = format!(
        "Intervals are 95% percentile bootstrap intervals over tasks ({RESAMPLES} resamples), and wider where these reach 0% or 100% or all tasks agree; with fewer than {MIN_TASKS} tasks there is no interval. Differences are paired by task. \
         Each figure is rounded separately, so the last digit of a difference may not match the two figures beside it."
    );
    page(kind, &title, &body, files, &notes)
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
    let mut figures = curves::charts(&titles, runs);
    if figures.is_empty() {
        return;
    }
    figures.extend(time_chart::of_runs(&titles, runs).figure());
    out.push_str("<h2>Training, update by update</h2><p>The horizontal axis counts optimiser updates.</p>\n<div class=\"charts\">\n");
    figures.iter().for_each(|it| out.push_str(&it.render()));
    out.push_str("</div>\n");
}

fn configuration(out: &mut String, runs: &[RunData]) {
    out.push_str("<h2>Configuration</h2><p>As resolved from the recipe, the settings on top of it, and every default.</p>\n");
    for run in runs {
        let _ = writeln!(
            out,
            "<details><summary>{}/config.toml</summary><pre>{}</pre></details>",
            html(&run.name),
            html(run.config_text.trim_end())
        );
    }
}
