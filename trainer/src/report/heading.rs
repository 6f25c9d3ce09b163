//! The heading of each run, with its name, model, data, algorithm and seed; and the differences between the configurations of several runs.

use std::fmt::Write as _;

use super::escape::html;
use super::run_data::RunData;
use super::run_labels::mark;
use super::settings;
use crate::record::ExtensionRecord;

/// The heading of the page and of every run.
pub(super) fn section(out: &mut String, runs: &[RunData]) {
    if let [run] = runs {
        let _ = writeln!(
            out,
            "<p class=\"kicker\">Training run</p>\n<h1>{}</h1>",
            html(&run.name)
        );
        facts(out, run);
        return;
    }
    let _ = writeln!(
        out,
        "<p class=\"kicker\">Training runs</p>\n<h1>{} runs side by side</h1>\n<div class=\"runs\">",
        runs.len()
    );
    for (index, run) in runs.iter().enumerate() {
        let _ = write!(
            out,
            "<section class=\"run\"><h3>{} {}</h3>",
            mark(index),
            html(&run.name)
        );
        facts(out, run);
        out.push_str("</section>\n");
    }
    out.push_str("</div>\n");
}

fn facts(out: &mut String, run: &RunData) {
    let mut facts: Vec<(&str, String)> = Vec::new();
    if let Some(config) = &run.config {
        let path = config.model.path.as_ref();
        let model = config
            .model
            .name
            .clone()
            .or_else(|| path.map(|path| path.display().to_string()));
        facts.extend(model.map(|model| ("model", model)));
        facts.push(("data", config.data.dataset.clone()));
        facts.push(("algorithm", preset(config)));
        facts.push(("seed", config.run.seed.to_string()));
        facts.push((
            "completions per prompt",
            config.algorithm.group_size.to_string(),
        ));
        facts.push((
            "completions per update",
            config.algorithm.n_step.to_string(),
        ));
        let h = config.algorithm.h;
        facts.push((
            "updates per phase",
            if config.algorithm.auto_h > 0.0 {
                format!("chosen, at most {h}")
            } else {
                h.to_string()
            },
        ));
    }
    let updates = run.steps.last().map_or(0, |step| step.step);
    facts.push(("updates", updates.to_string()));
    facts.extend(extended(&run.extensions, updates).map(|text| ("extended", text)));
    out.push_str("<ul class=\"facts\">");
    for (name, value) in facts {
        let _ = write!(out, "<li>{name} <b>{}</b></li>", html(&value));
    }
    out.push_str("</ul>\n");
}

/// The updates after which a run was extended, and whether it equals a run of this length from the start. An extension without further updates does not count.
fn extended(extensions: &[ExtensionRecord], updates: usize) -> Option<String> {
    let (after, equal): (Vec<String>, Vec<bool>) = extensions
        .iter()
        .filter(|extension| extension.updates_before < updates)
        .map(|extension| (extension.updates_before.to_string(), extension.equal))
        .unzip();
    let equals = if *equal.last()? {
        "equals"
    } else {
        "differs from"
    };
    Some(format!(
        "after {}; {equals} a run of this length from the start",
        after.join(" and ")
    ))
}

/// The preset's name as a recipe writes it.
fn preset(config: &crate::config::Config) -> String {
    serde_json::to_value(config.algorithm.preset)
        .ok()
        .and_then(|value| value.as_str().map(str::to_owned))
        .unwrap_or_default()
}

/// The differing keys of the configurations, with a column for each run; nothing for a single run.
pub(super) fn differences(out: &mut String, runs: &[RunData]) {
    if runs.len() < 2 {
        return;
    }
    out.push_str("<h2>Differences in the configurations</h2>");
    let settings = settings::differing(&runs.iter().collect::<Vec<_>>());
    if settings.is_empty() {
        out.push_str("<p>None: every key is the same in all of them.</p>\n");
        return;
    }
    out.push_str("<p>Every other key is the same in all of them.</p>\n<div class=\"scroll\"><table class=\"settings\"><thead><tr><th>key</th>");
    for index in 0..runs.len() {
        let _ = write!(out, "<th>{}</th>", mark(index));
    }
    out.push_str("</tr></thead><tbody>");
    for setting in settings {
        let _ = write!(out, "<tr><th scope=\"row\">{}</th>", html(&setting.key));
        for value in &setting.values {
            match value {
                Some(value) => {
                    let _ = write!(out, "<td><code>{}</code></td>", html(value));
                }
                None => out.push_str("<td class=\"none\">not set</td>"),
            }
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div>\n");
}
