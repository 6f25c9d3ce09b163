//! The model card of a checkpoint: README.md in the form of the Hugging Face hub.

use std::path::Path;

use datasets::fetch::ArtifactKind;
use datasets::manifest::{self, Source};
use datasets::passk::{Estimate, percent, points};

use super::before_after::Comparison;
use super::flat;
use super::outcome::tasks;
use super::run_data::RunData;
use crate::checkpoint_settings::CheckpointSettings;

/// The settings that the card lists, if the run has them.
const KEYS: &str = "algorithm.preset algorithm.group_size algorithm.n_step algorithm.h optimiser.lr optimiser.schedule sampling.temperature sampling.max_tokens run.seed";

/// The card of the checkpoint after `step` updates, with the settings in its folder. It shows only the last part of a path, since the rest may be private.
pub fn model_card(mut run: RunData, step: usize, settings: Option<&CheckpointSettings>) -> String {
    let keys = flat(&run.config_text.parse::<toml::Table>().ok(), "");
    let key = |name: &str| keys.get(name).map_or("", String::as_str);
    let last_part = |path: &str| {
        let name = Path::new(path).file_name();
        name.map(|name| name.display().to_string())
    };
    let (model, tasks) = (key("model.name"), key("data.dataset"));
    // A mixture has a data set in each section.
    let is_of_mixture = |name: &str| name.starts_with("data.sets.") && name.ends_with(".dataset");
    let sets = keys.iter().filter(|(name, _)| is_of_mixture(name));
    let sets = sets.filter_map(|(_, path)| last_part(path));
    let sets: Vec<String> = last_part(tasks).into_iter().chain(sets).collect();
    let base = on_hub(ArtifactKind::Model, model);
    let data = on_hub(ArtifactKind::Dataset, tasks);
    let header = |key: &str, value: &Option<String>| match value {
        Some(value) => format!("{key}: [{value:?}]"),
        None => format!("# {key}: add the OWNER/NAME on the hub"),
    };
    let rows = KEYS.split(' ').filter(|name| !key(name).is_empty());
    let rows = rows.map(|name| format!("| `{name}` | {} |\n", key(name)));
    let graders = run.graders.iter();
    let graders = graders.map(|grader| format!("| verifier | {grader} |\n"));
    let usage = settings.map(|settings| {
        format!(
            "Its prompts were made with this template ({} the chat template), with the stop strings {:?}:\n\n~~~~text\n{}\n~~~~",
            if settings.data.chat { "inside" } else { "without" },
            settings.data.stop.as_deref().unwrap_or_default(),
            settings.template.text()
        )
    });
    run.evals.retain(|eval| eval.step <= step);
    let is_evaluated = run.evals.last().is_some_and(|eval| eval.step == step);
    let results = Comparison::of(&run).filter(|_| is_evaluated);
    let values = [
        ("base_model", header("base_model", &base)),
        ("datasets", header("datasets", &data)),
        ("name", format!("{}-step-{step}", run.name)),
        (
            "model",
            base.or(last_part(key("model.path"))).unwrap_or_default(),
        ),
        ("step", step.to_string()),
        ("tasks", sets.join(" and ")),
        ("version", env!("CARGO_PKG_VERSION").into()),
        (
            "results",
            results.map_or("Not evaluated.".into(), |it| table(&it, &run)),
        ),
        ("settings", rows.chain(graders).collect()),
        // A template has any text, so it is the last.
        ("usage", usage.unwrap_or_default()),
    ];
    let card = include_str!("model_card.txt").to_owned();
    values.iter().fold(card, |card, (name, value)| {
        card.replacen(&format!("{{{name}}}"), value.trim_end(), 1)
    })
}

/// The repository on the hub of a name in a recipe.
fn on_hub(kind: ArtifactKind, name: &str) -> Option<String> {
    let known = manifest::find(kind, name);
    let known = known.into_iter().flat_map(|manifest| manifest.sources);
    let mut known = known.filter_map(|source| match source {
        Source::Hub { repo, .. } => Some(repo),
        _ => None,
    });
    let is_model = matches!(kind, ArtifactKind::Model);
    let repository = name.split('@').next();
    let repository = repository.filter(|name| is_model && name.contains('/'));
    known.next().or(repository.map(str::to_owned))
}

/// The evaluations before training and of the checkpoint.
fn table(comparison: &Comparison, run: &RunData) -> String {
    let cell = |estimate: &Estimate, form: fn(f64) -> String| {
        let ends = estimate.interval;
        let ends = ends.map(|it| format!(" ({} to {})", form(it.low), form(it.high)));
        form(estimate.mean) + &ends.unwrap_or_default()
    };
    let rows = comparison.rows.iter().map(|row| {
        let [before, after] = [&row.before, &row.after].map(|it| cell(it, percent));
        let (label, gain) = (&row.label, cell(&row.gain, points));
        format!("| {label} | {before} | {after} | {gain} |\n")
    });
    format!(
        "| | before | after | after − before, points |\n| --- | --- | --- | --- |\n{}\n{}, {} samples of each; 95% intervals by bootstrap over tasks.",
        rows.collect::<String>(),
        tasks(run, comparison.tasks),
        comparison.samples
    )
}
