//! The facts of each run below the heading: its model, data, algorithm and seed; and the differences between the configurations of several runs.

use std::fmt::Write as _;

use super::config_diff::differing_keys;
use super::escape::html;
use super::page;
use super::run_data::RunData;
use super::run_labels::{letter, mark};
use super::table::Columns;
use crate::record::ExtensionRecord;

/// The facts of each run, under its name if there are several.
pub(super) fn facts(out: &mut String, runs: &[RunData]) {
    if let [run] = runs {
        facts_of(out, run);
        return;
    }
    out.push_str("<div class=\"runs\">");
    for (index, run) in runs.iter().enumerate() {
        let (mark, name) = (mark(index), html(&run.name));
        let _ = write!(out, "<section class=\"run\"><h3>{mark} {name}</h3>");
        facts_of(out, run);
        out.push_str("</section>\n");
    }
    out.push_str("</div>\n");
}

fn facts_of(out: &mut String, run: &RunData) {
    let mut facts: Vec<(&str, String)> = Vec::new();
    if let Some(config) = &run.config {
        let (model, algorithm) = (&config.model, &config.algorithm);
        let path = model.path.as_ref().map(|path| path.display().to_string());
        let h = algorithm.h;
        let chosen = (algorithm.auto_h > 0.0).then(|| format!("chosen, at most {h}"));
        facts.extend([
            ("model", model.name.clone().or(path).unwrap_or_default()),
            ("data", config.data.name()),
            ("algorithm", algorithm.preset.name().to_owned()),
            ("seed", config.run.seed.to_string()),
            ("completions per prompt", algorithm.group_size.to_string()),
            ("completions per update", algorithm.n_step.to_string()),
            ("updates per phase", chosen.unwrap_or_else(|| h.to_string())),
        ]);
    }
    let updates = run.steps.last().map_or(0, |step| step.step);
    facts.push(("updates", updates.to_string()));
    facts.extend(extended(&run.extensions, updates).map(|text| ("extended", text)));
    page::facts(out, &facts);
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
    let after = after.join(" and ");
    Some(format!(
        "after {after}; {equals} a run of this length from the start"
    ))
}

/// The differing keys of the configurations, with a column for each run; nothing for a single run.
pub(super) fn differences(out: &mut String, runs: &[RunData]) {
    if runs.len() < 2 {
        return;
    }
    let settings = differing_keys(&runs.iter().collect::<Vec<_>>());
    let note = if settings.is_empty() {
        "None: every key is the same in all of them."
    } else {
        "Every other key is the same in all of them."
    };
    let mut columns = Columns::of(&settings);
    columns.text("key", "", |(key, _)| key.clone());
    for run in 0..runs.len() {
        columns.text(&letter(run), "", |(_, values)| {
            values[run].clone().unwrap_or("not set".to_owned())
        });
    }
    let table = columns.table("settings", "Differences in the configurations", note);
    table.render(out);
}
