//! What each run is: its name, model, data, algorithm and seed; and in what the configurations of several differ.

use std::fmt::Write as _;

use super::escape::html;
use super::marks::mark;
use super::run_data::RunData;
use super::settings;
use crate::record::ExtensionRecord;

/// The heading of the page, with that of every run.
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
    for (place, run) in runs.iter().enumerate() {
        let _ = write!(
            out,
            "<section class=\"run\"><h3>{} {}</h3>",
            mark(place),
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
            "completions a prompt",
            config.algorithm.group_size.to_string(),
        ));
        facts.push(("completions an update", config.algorithm.n_step.to_string()));
        facts.push(("updates a phase", config.algorithm.h.to_string()));
    }
    let updates = run.steps.last().map_or(0, |step| step.step);
    facts.push(("updates", updates.to_string()));
    facts.extend(longer(&run.extensions, updates).map(|longer| ("made longer", longer)));
    out.push_str("<ul class=\"facts\">");
    for (name, value) in facts {
        let _ = write!(out, "<li>{name} <b>{}</b></li>", html(&value));
    }
    out.push_str("</ul>\n");
}

/// After which updates a run was made longer, and whether it equals one of its length from the start. One that was not continued since is as long as it was.
fn longer(extensions: &[ExtensionRecord], updates: usize) -> Option<String> {
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

/// The keys of the configuration that differ, a column a run; nothing for a single run.
pub(super) fn differences(out: &mut String, runs: &[RunData]) {
    if runs.len() < 2 {
        return;
    }
    out.push_str("<h2>What differs in the configurations</h2>");
    let settings = settings::differing(&runs.iter().collect::<Vec<_>>());
    if settings.is_empty() {
        out.push_str("<p>Nothing: every key is the same in all of them.</p>\n");
        return;
    }
    out.push_str("<p>Every other key is the same in all of them.</p>\n<div class=\"scroll\"><table class=\"settings\"><thead><tr><th>key</th>");
    for place in 0..runs.len() {
        let _ = write!(out, "<th>{}</th>", mark(place));
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
