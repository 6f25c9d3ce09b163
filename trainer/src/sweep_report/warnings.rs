//! What a reader has to know before the numbers: what is missing, and what makes them hard to compare.

use std::collections::{BTreeMap, BTreeSet};

use datasets::passk::MIN_TASKS;

use super::arms::{ArmRuns, point_label};
use super::runs::{End, SweepRun};
use super::tests_of_arms::Tests;
use crate::record::AlarmState;
use crate::report::settings::evaluation_differences;
use crate::sweep::SweepFolder;

/// A run with more than this share of samples without a verdict is named.
const MAX_MASKED: f64 = 0.01;

/// The warnings, as sentences.
pub(super) fn all(
    folder: &SweepFolder,
    runs: &[SweepRun],
    arms: &[ArmRuns<'_>],
    tests: &Tests<'_, '_>,
    times: bool,
) -> Vec<String> {
    let mut warnings = Vec::new();
    missing(&mut warnings, runs);
    if !times {
        warnings.push("All times are left out (--no-times).".into());
    }
    for left_out in &tests.left_out {
        let point = point_label(left_out.arm.point);
        let at = if point.is_empty() {
            String::new()
        } else {
            format!(" at {point}")
        };
        if !left_out.seeds.is_empty() {
            warnings.push(format!(
                "The comparisons of accuracy{at} leave out {}, since a run of theirs does not count.",
                listed(
                    "the seed",
                    "the seeds",
                    left_out.seeds.iter().map(u64::to_string)
                )
            ));
        }
        if left_out.tasks > 0 {
            warnings.push(format!(
                "The comparisons of accuracy{at} leave out {} tasks of which a run has no verdict.",
                left_out.tasks
            ));
        }
    }
    if times {
        untimed(&mut warnings, folder, tests);
    }
    if let Some(reason) = &tests.unclustered {
        warnings.push(format!(
            "The data set cannot be read, so each task is taken for a computation of its own, and the bootstrap's intervals may be too narrow: {reason}"
        ));
    }
    if folder.file().compare.is_none() {
        warnings.push("The sweep file has no [compare], so nothing is compared. It may be added: `rapid sweep` with the changed file takes it over.".into());
    } else if let Some(seeds) = ["no seed", "one seed", "two seeds"].get(folder.file().seeds.len())
    {
        warnings.push(format!(
            "Of {seeds}, there is no interval over seeds, so nothing is concluded about accuracy."
        ));
    } else if folder
        .file()
        .compare
        .as_ref()
        .is_some_and(|compare| !compare.tests)
    {
        warnings.push("Nothing is tested, since the sweep file's [compare] has tests = false: estimates and intervals only.".into());
    }
    let compared = tests.compared.iter().filter_map(|it| it.accuracy.as_ref());
    let mut differences = compared.map(|(comparison, _)| &comparison.difference);
    if differences.any(|it| it.resampled.is_none() && it.by_seed.len() != 2) {
        warnings.push(format!("The evaluations have fewer than {MIN_TASKS} different computations, so differences have no interval by the bootstrap."));
    }
    for sloped in &tests.slopes {
        let lowest = sloped.ladder.rungs[0];
        if lowest.h() > 1 {
            warnings.push(format!(
                "The slope is over H = {} and above: no arm with the same settings has H = 1, and the reference is no rung, since {}.",
                lowest.h(),
                match arms.iter().find(|arm| arm.is_reference).map_or(1, ArmRuns::h) {
                    1 => "it differs in more than its algorithm".to_owned(),
                    h => format!("it has H = {h}"),
                }
            ));
        }
    }
    machines(&mut warnings, folder, runs, times);
    for sentence in folder.plan().unmatched() {
        warnings.push(format!("{sentence}."));
    }
    evaluations(&mut warnings, runs, arms);
    alarms(&mut warnings, runs);
    warnings
}

/// `the seed 1`, `the seeds 1, 2`.
fn listed(one: &str, several: &str, items: impl Iterator<Item = String>) -> String {
    let items: Vec<String> = items.collect();
    let what = if items.len() == 1 { one } else { several };
    format!("{what} {}", items.join(", "))
}

/// Names the blocks without times in the comparisons, unless no block has any.
fn untimed(warnings: &mut Vec<String>, folder: &SweepFolder, tests: &Tests<'_, '_>) {
    let blocks = &tests.untimed;
    if blocks.is_empty() || blocks.len() == folder.plan().blocks.len() {
        return;
    }
    warnings.push(format!(
        "The time ratios leave out {}, since a run of theirs is not finished.",
        blocks_listed("the block of seed", "the blocks of seeds", folder, blocks)
    ));
}

/// Blocks by their seeds, and their rounds if there are several.
fn blocks_listed(
    one: &str,
    several: &str,
    folder: &SweepFolder,
    blocks: &BTreeSet<(u64, usize)>,
) -> String {
    let rounds = folder.file().rounds > 1;
    let names = blocks.iter().map(|(seed, round)| match rounds {
        true => format!("{seed} (round {})", round + 1),
        false => seed.to_string(),
    });
    listed(one, several, names)
}

fn missing(warnings: &mut Vec<String>, runs: &[SweepRun]) {
    let unfinished: Vec<&SweepRun> = runs
        .iter()
        .filter(|run| matches!(run.end, End::Unfinished(_)))
        .collect();
    if !unfinished.is_empty() {
        warnings.push(format!(
            "{} of {} runs are not finished, so every number is preliminary: {}.",
            unfinished.len(),
            runs.len(),
            names(&unfinished)
        ));
    }
    for run in runs {
        if let Some(reason) = run.end.reason() {
            let name = &run.planned.name;
            warnings.push(format!("{name} {}: {reason}", run.end.name()));
        }
    }
    let mut unlike: BTreeMap<String, Vec<&SweepRun>> = BTreeMap::new();
    for run in runs {
        for sentence in run.unlike_plan() {
            unlike.entry(sentence).or_default().push(run);
        }
    }
    for (sentence, runs) in unlike {
        warnings.push(format!("{}: {sentence}.", names(&runs)));
    }
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

fn machines(warnings: &mut Vec<String>, folder: &SweepFolder, runs: &[SweepRun], times: bool) {
    let binaries: BTreeSet<&String> = runs.iter().flat_map(|run| &run.binaries).collect();
    if binaries.len() > 1 {
        warnings.push(format!(
            "The runs were made by {} different programs; the last table says which.",
            binaries.len()
        ));
    }
    let mut processors: BTreeMap<(u64, usize), BTreeSet<&String>> = BTreeMap::new();
    for run in runs {
        let of_block = processors.entry(run.planned.block()).or_default();
        of_block.extend(&run.processors);
    }
    let mixed = processors
        .iter()
        .filter(|(_, processors)| processors.len() > 1);
    let mixed: BTreeSet<(u64, usize)> = mixed.map(|(block, _)| *block).collect();
    if !mixed.is_empty() {
        warnings.push(format!(
            "{} ran on more than one processor{}.",
            blocks_listed("The block of seed", "The blocks of seeds", folder, &mixed),
            if times {
                "; the time ratios are only of runs on the same one"
            } else {
                ""
            }
        ));
    }
    let all: BTreeSet<&String> = processors.values().flatten().copied().collect();
    if times && all.len() > 1 {
        warnings.push(
            "Minutes and seconds are means over runs on different processors; only the time ratios are between runs on one.".into(),
        );
    }
}

fn evaluations(warnings: &mut Vec<String>, runs: &[SweepRun], arms: &[ArmRuns<'_>]) {
    let mut differing = BTreeSet::new();
    let mut digests = BTreeSet::new();
    let first = arms
        .iter()
        .flat_map(|arm| &arm.runs)
        .find_map(|run| run.data.as_ref());
    for data in runs.iter().filter_map(|run| run.data.as_ref()) {
        digests.extend(data.eval_digest.as_ref());
        if let Some(first) = first {
            differing.extend(evaluation_differences(first, data));
        }
    }
    if digests.len() > 1 {
        warnings.push(
            "The runs were evaluated on tasks with different contents: their accuracies cannot be compared.".into(),
        );
    }
    if !differing.is_empty() {
        let keys: Vec<String> = differing.into_iter().collect();
        warnings.push(format!(
            "The runs were evaluated differently ({}), which alone may change their accuracy.",
            keys.join(", ")
        ));
    }
    for run in runs {
        let name = &run.planned.name;
        if let Some(eval) = run.evaluation() {
            let samples = eval.samples * eval.tasks.len();
            if samples > 0 && eval.masked as f64 > MAX_MASKED * samples as f64 {
                warnings.push(format!(
                    "{name}: {} of {samples} samples of the last evaluation have no verdict.",
                    eval.masked
                ));
            }
        }
        if let Some(tasks) = run
            .data
            .as_ref()
            .and_then(|data| data.trained_on)
            .filter(|tasks| *tasks > 0)
        {
            warnings.push(format!(
                "{name} was also trained on {tasks} of the evaluated tasks."
            ));
        }
    }
}

fn alarms(warnings: &mut Vec<String>, runs: &[SweepRun]) {
    let raised: Vec<&SweepRun> = runs
        .iter()
        .filter(|run| {
            let alarms = run.data.iter().flat_map(|data| &data.alarms);
            alarms
                .into_iter()
                .any(|alarm| alarm.state == AlarmState::Raised)
        })
        .collect();
    if !raised.is_empty() {
        warnings.push(format!(
            "Alarms of reward hacking or collapse were raised in {} of the runs ({}); `rapid report` of such a run shows them.",
            raised.len(),
            names(&raised)
        ));
    }
}
