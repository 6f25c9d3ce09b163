//! The page: everything inline, nothing asked of any network.

use std::fmt::Write as _;

use super::STYLE;
use super::alarms;
use super::chart::Chart;
use super::curves;
use super::escape::html;
use super::run_data::RunData;
use super::samples;
use super::table::{Comparison, html_table, percent, points};

/// The page of one run, or of several side by side. `files` are the names of the CSV files beside it.
pub(super) fn render(runs: &[RunData], files: &[&str]) -> String {
    let title = runs
        .iter()
        .map(|run| run.name.as_str())
        .collect::<Vec<_>>()
        .join(", ");
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>{} · rapid</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n",
        html(&title)
    );
    heading(&mut out, runs, &title);
    outcome(&mut out, runs);
    for run in runs {
        alarms::section(&mut out, run, runs.len() > 1);
    }
    charts(&mut out, runs);
    for run in runs {
        samples::section(&mut out, run, runs.len() > 1);
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
        ". Intervals are 95% percentile bootstrap intervals over tasks ({} resamples); differences are paired by task. Made by rapid {}.</p></footer>",
        crate::passk::RESAMPLES,
        env!("CARGO_PKG_VERSION")
    );
    out.push_str("</main>\n</body>\n</html>\n");
    out
}

fn heading(out: &mut String, runs: &[RunData], title: &str) {
    let kicker = if runs.len() > 1 {
        "Training runs"
    } else {
        "Training run"
    };
    let _ = writeln!(
        out,
        "<p class=\"kicker\">{kicker}</p>\n<h1>{}</h1>",
        html(title)
    );
    let [run] = runs else { return };
    let mut facts: Vec<(&str, String)> = Vec::new();
    if let Some(config) = &run.config {
        let model = config.model.name.clone().or_else(|| {
            config
                .model
                .path
                .as_ref()
                .map(|path| path.display().to_string())
        });
        facts.extend(model.map(|model| ("model", model)));
        facts.push(("tasks", config.data.dataset.clone()));
        facts.push(("algorithm", preset(config)));
        facts.push((
            "completions a prompt",
            config.algorithm.group_size.to_string(),
        ));
        facts.push(("completions an update", config.algorithm.n_step.to_string()));
        facts.push(("updates a phase", config.algorithm.h.to_string()));
        facts.push(("seed", config.run.seed.to_string()));
    }
    facts.push((
        "updates",
        run.steps.last().map_or(0, |step| step.step).to_string(),
    ));
    out.push_str("<ul class=\"facts\">");
    for (name, value) in facts {
        let _ = write!(out, "<li>{name} <b>{}</b></li>", html(&value));
    }
    out.push_str("</ul>\n");
}

/// The preset's name as a recipe writes it.
fn preset(config: &crate::config::Config) -> String {
    serde_json::to_value(config.algorithm.preset)
        .ok()
        .and_then(|value| value.as_str().map(str::to_owned))
        .unwrap_or_default()
}

/// The headline, its picture and the table.
fn outcome(out: &mut String, runs: &[RunData]) {
    let compared: Vec<(&RunData, Comparison)> = runs
        .iter()
        .filter_map(|run| Some((run, Comparison::of(run)?)))
        .collect();
    let Some((run, first)) = compared.first() else {
        out.push_str("<section class=\"hero\"><p class=\"claim\">There is no evaluation before and after training to compare yet.</p></section>\n");
        return;
    };
    if runs.len() == 1 && !first.rows.is_empty() {
        hero(out, run, first);
    }
    let _ = writeln!(
        out,
        "<h2>Before and after</h2><p>{}, {} completions of each. In small print the 95% interval of each figure.</p>",
        tasks(run, first.tasks),
        first.samples
    );
    let named: Vec<(&str, Comparison)> = compared
        .into_iter()
        .map(|(run, comparison)| (run.name.as_str(), comparison))
        .collect();
    out.push_str(&html_table(&named));
}

/// So many tasks of a run's evaluation, and whether they were held out.
fn tasks(run: &RunData, count: usize) -> String {
    match run.trained_on {
        0 => format!("{count} held-out tasks"),
        all if all >= count => format!("{count} tasks that it was also trained on"),
        some => format!("{count} tasks, {some} of which it was also trained on"),
    }
}

fn hero(out: &mut String, run: &RunData, comparison: &Comparison) {
    let row = &comparison.rows[0];
    let verdict = if row.gain.low > 0.0 && run.trained_on == 0 {
        "The whole interval lies above zero: the model got better at tasks it was not trained on."
    } else if row.gain.low > 0.0 {
        "The whole interval lies above zero: the model got better, evaluated on tasks it was also trained on; what it would do with others this does not say."
    } else if row.gain.high < 0.0 {
        "The whole interval lies below zero: the model got worse."
    } else {
        "The interval holds zero: these tasks and samples do not tell the two apart."
    };
    let _ = write!(
        out,
        "<section class=\"hero\"><p class=\"leap\"><span class=\"from\">{}</span><span class=\"arrow\">→</span><span class=\"to\">{}</span>\
         <span class=\"what\">{} on {}</span></p>\
         <p class=\"claim\">{} points, 95% interval {} to {}. {verdict}</p>",
        percent(row.before.mean),
        percent(row.after.mean),
        html(&row.label),
        tasks(run, comparison.tasks),
        points(row.gain.mean),
        points(row.gain.low),
        points(row.gain.high)
    );
    dumbbells(out, comparison);
    out.push_str("</section>\n");
}

/// Each figure before and after on one scale, with intervals.
fn dumbbells(out: &mut String, comparison: &Comparison) {
    let highest = comparison
        .rows
        .iter()
        .flat_map(|row| [row.before.high, row.after.high])
        .fold(0.0, f64::max);
    let top = [0.1, 0.2, 0.4, 0.6, 0.8]
        .into_iter()
        .find(|top| highest <= *top)
        .unwrap_or(1.0);
    let at = |share: f64| 100.0 * (share / top).clamp(0.0, 1.0);
    out.push_str("<div class=\"dumbbell\">");
    for row in &comparison.rows {
        let _ = write!(
            out,
            "<div class=\"row\"><span>{}</span><div class=\"track\">",
            html(&row.label)
        );
        for (class, estimate) in [("b", &row.before), ("a", &row.after)] {
            let _ = write!(
                out,
                "<i class=\"range {class}\" style=\"left:{:.2}%;width:{:.2}%\"></i>",
                at(estimate.low),
                at(estimate.high) - at(estimate.low)
            );
        }
        for (class, estimate) in [("b", &row.before), ("a", &row.after)] {
            let _ = write!(
                out,
                "<i class=\"dot {class}\" style=\"left:{:.2}%\" title=\"{}\"></i>",
                at(estimate.mean),
                percent(estimate.mean)
            );
        }
        out.push_str("</div></div>");
    }
    out.push_str("<div class=\"row\"><span></span><div class=\"scale\">");
    for quarter in 0..=4 {
        let _ = write!(
            out,
            "<span style=\"left:{}%\">{:.0}%</span>",
            25 * quarter,
            top * 25.0 * f64::from(quarter)
        );
    }
    out.push_str("</div></div><p class=\"legend\"><span><i class=\"key b\"></i>before</span><span><i class=\"key a\"></i>after</span></p></div>");
}

fn charts(out: &mut String, runs: &[RunData]) {
    let drawn: Vec<Chart> = curves::charts(runs)
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
    if let Some(stack) = curves::seconds(runs) {
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
