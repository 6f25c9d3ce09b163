//! What a reader has to know before the numbers: what is missing, and what makes them hard to compare.

use std::collections::{BTreeMap, BTreeSet};

use datasets::passk::MIN_TASKS;

use super::runs::SweepRun;
use super::significance::Tests;
use crate::record::AlarmState;
use crate::report::config_diff::evaluation_differences;
use crate::sweep::{RunState, SweepFolder};

/// A run with more than this share of samples without a verdict is named.
const MAX_MASKED: f64 = 0.01;

/// The warnings, as sentences.
pub(super) fn all(
    folder: &SweepFolder,
    runs: &[SweepRun],
    tests: &Tests<'_, '_>,
    times: bool,
) -> Vec<String> {
    let mut warnings = missing(runs);
    if !times {
        warnings.push("All times are left out (--no-times).".into());
    }
    warnings.extend(tests.warnings.iter().cloned());
    let (untimed, blocks) = (tests.untimed.len(), folder.plan.blocks.len());
    // Where no block has any times, there is no ratio.
    if times && (1..blocks).contains(&untimed) {
        warnings.push(format!(
            "The time ratios leave out {untimed} of {blocks} blocks, which are all runs of a seed and round, since a run of theirs is not finished."
        ));
    }
    let seeds = folder.file.seeds.len();
    if folder.file.compare.is_none() {
        warnings.push("The sweep file has no [compare], so nothing is compared. It may be added: `rapid sweep` with the changed file takes it over.".into());
    } else if let Some(seeds) = ["no seed", "one seed", "two seeds"].get(seeds) {
        warnings.push(format!(
            "Of {seeds}, there is no interval over seeds, so nothing is concluded about accuracy."
        ));
    }
    let compared = tests.compared.iter().filter_map(|it| it.accuracy.as_ref());
    let mut differences = compared.map(|(comparison, _)| &comparison.difference);
    if differences.any(|it| it.resampled.is_none() && it.by_seed.len() != 2) {
        warnings.push(format!("The evaluations have fewer than {MIN_TASKS} different computations, so differences have no interval by the bootstrap."));
    }
    for sloped in &tests.slopes {
        let lowest = sloped.ladder.rungs[0].h();
        if lowest > 1 {
            warnings.push(format!(
                "The slope is over H = {lowest} and above: no arm with the same settings has H = 1, and the reference is no rung."
            ));
        }
    }
    let binaries: BTreeSet<&String> = runs.iter().flat_map(|run| &run.binaries).collect();
    if binaries.len() > 1 {
        warnings.push(format!(
            "The runs were made by {} different programs; the last table says which.",
            binaries.len()
        ));
    }
    let processors: BTreeSet<&String> = runs.iter().flat_map(|run| &run.processors).collect();
    if processors.len() > 1 {
        warnings.push("The runs were made on different processors; the last table says which. Minutes and seconds are means over them: only the time ratios are between runs on one.".into());
    }
    let unmatched = folder.plan.unmatched().into_iter();
    warnings.extend(unmatched.map(|sentence| format!("{sentence}.")));
    warnings.extend(evaluations(runs));
    let mut seen = BTreeSet::new();
    warnings.retain(|warning| seen.insert(warning.clone()));
    warnings
}

fn missing(runs: &[SweepRun]) -> Vec<String> {
    let mut warnings = Vec::new();
    let is_unfinished = |run: &&SweepRun| matches!(run.state, RunState::Absent | RunState::Begun);
    let unfinished: Vec<&SweepRun> = runs.iter().filter(is_unfinished).collect();
    if !unfinished.is_empty() {
        warnings.push(format!(
            "{} of {} runs are not finished, so every number is preliminary: {}.",
            unfinished.len(),
            runs.len(),
            names(&unfinished)
        ));
    }
    let mut unlike: BTreeMap<String, Vec<&SweepRun>> = BTreeMap::new();
    for run in runs {
        if let Some(reason) = &run.reason {
            let name = &run.planned.name;
            warnings.push(format!("{name} {}: {reason}", run.state.name()));
        }
        for sentence in run.unlike_plan() {
            unlike.entry(sentence).or_default().push(run);
        }
    }
    let unlike = unlike.iter();
    warnings.extend(unlike.map(|(sentence, runs)| format!("{}: {sentence}.", names(runs))));
    warnings
}

/// The first names, and how many more there are.
fn names(runs: &[&SweepRun]) -> String {
    const SHOWN: usize = 8;
    let shown = runs.iter().take(SHOWN).map(|run| run.planned.name.as_str());
    let text = shown.collect::<Vec<_>>().join(", ");
    match runs.len().saturating_sub(SHOWN) {
        0 => text,
        more => format!("{text} and {more} more"),
    }
}

fn evaluations(runs: &[SweepRun]) -> Vec<String> {
    let mut warnings = Vec::new();
    let data: Vec<_> = runs.iter().filter_map(|run| run.data.as_ref()).collect();
    let digests: BTreeSet<&String> = data.iter().flat_map(|it| &it.eval_digest).collect();
    if digests.len() > 1 {
        warnings.push(
            "The runs were evaluated on tasks with different contents: their accuracies cannot be compared.".into(),
        );
    }
    let others = data.iter();
    let differing = others.flat_map(|other| evaluation_differences(data[0], other));
    let differing: BTreeSet<String> = differing.collect();
    if !differing.is_empty() {
        let keys = Vec::from_iter(differing).join(", ");
        warnings.push(format!(
            "The runs were evaluated differently ({keys}), which alone may change their accuracy."
        ));
    }
    for run in runs {
        let name = &run.planned.name;
        if let Some(eval) = run.evaluation() {
            let (samples, masked) = (eval.samples * eval.tasks.len(), eval.masked);
            if masked as f64 > MAX_MASKED * samples as f64 {
                warnings.push(format!(
                    "{name}: {masked} of {samples} samples of the last evaluation have no verdict."
                ));
            }
        }
        let trained_on = run.data.as_ref().and_then(|data| data.trained_on);
        if let Some(tasks) = trained_on.filter(|tasks| *tasks > 0) {
            warnings.push(format!(
                "{name} was also trained on {tasks} of the evaluated tasks."
            ));
        }
    }
    let is_raised = |run: &&SweepRun| {
        let mut alarms = run.data.iter().flat_map(|data| &data.alarms);
        alarms.any(|alarm| alarm.state == AlarmState::Raised)
    };
    let raised: Vec<&SweepRun> = runs.iter().filter(is_raised).collect();
    if !raised.is_empty() {
        warnings.push(format!(
            "Alarms of reward hacking or collapse were raised in {} of the runs ({}); `rapid report` of such a run shows them.",
            raised.len(),
            names(&raised)
        ));
    }
    warnings
}
