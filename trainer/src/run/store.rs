//! The phase under way on disk, so that a run that was killed goes on with the samples that it had, and completions for people to read.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::TrainError;
use super::draw::Drawn;
use super::folder::{RunFolder, write_aside};
use super::record::SampleRecord;
use crate::data::{Phase, Prompt};
use crate::eval;
use crate::rollout::{Sample, SampledGroup};

/// A phase's samples as the updates need them: tokens, log-probabilities, verdicts.
#[derive(Debug, Serialize, Deserialize)]
struct StoredPhase {
    phase: usize,
    #[serde(default)]
    from: usize,
    #[serde(default)]
    dropped: usize,
    inference_s: f64,
    verify_s: f64,
    groups: Vec<StoredGroup>,
}

#[derive(Debug, Serialize, Deserialize)]
struct StoredGroup {
    task: String,
    samples: Vec<Sample>,
}

/// Writes a phase aside, then renames it: it is there whole or not at all.
pub(super) fn save(run: &RunFolder, phase: &Phase, drawn: &Drawn) -> Result<(), TrainError> {
    let path = file_of(run, phase.index, drawn.from);
    let groups = drawn
        .groups
        .iter()
        .map(|group| StoredGroup {
            task: group.prompt.task.id.clone(),
            samples: group.samples.clone(),
        })
        .collect();
    let stored = StoredPhase {
        phase: phase.index,
        from: drawn.from,
        dropped: drawn.dropped,
        inference_s: drawn.inference.as_secs_f64(),
        verify_s: drawn.verify.as_secs_f64(),
        groups,
    };
    let text = serde_json::to_vec(&stored).map_err(|error| TrainError::io(&path, error.into()))?;
    write_aside(&path, &text)
}

/// The samples of a phase for its update of number `update`, where they are there: those drawn last before it. Weights, moments and data order are the same
/// however often the run is taken up, so its samples are too: those on disk are those that would be drawn.
pub(super) fn load(
    run: &RunFolder,
    phase: &Phase,
    update: usize,
    prompts: &[Arc<Prompt>],
) -> Option<Drawn> {
    let (from, text) = (0..=update)
        .rev()
        .find_map(|from| Some((from, std::fs::read(file_of(run, phase.index, from)).ok()?)))?;
    let stored: StoredPhase = serde_json::from_slice(&text).ok()?;
    let prompts: HashMap<&str, &Arc<Prompt>> = prompts
        .iter()
        .map(|prompt| (prompt.task.id.as_str(), prompt))
        .collect();
    let groups = stored
        .groups
        .into_iter()
        .map(|group| {
            Some(SampledGroup {
                prompt: Arc::clone(prompts.get(group.task.as_str())?),
                samples: group.samples,
            })
        })
        .collect::<Option<Vec<_>>>()?;
    let wanted: usize = phase.updates[from..].iter().map(Vec::len).sum();
    (stored.phase == phase.index && stored.from == from && groups.len() == wanted).then(|| Drawn {
        from,
        groups,
        dropped: stored.dropped,
        inference: Duration::try_from_secs_f64(stored.inference_s).unwrap_or_default(),
        verify: Duration::try_from_secs_f64(stored.verify_s).unwrap_or_default(),
    })
}

/// Removes the phases before `first`: no checkpoint that is left needs them.
pub(super) fn prune(run: &RunFolder, first: usize) {
    for (number, path) in numbered(&run.rollouts(), "phase-", ".json") {
        if number < first {
            // What stays is only in the way of disk space.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// That a phase which an earlier update rests on is not on disk.
pub(super) fn missing(run: &RunFolder, phase: &Phase) -> TrainError {
    TrainError::Samples(file_of(run, phase.index, 0))
}

/// Writes the completions of a phase as `samples/phase-N.jsonl`, those drawn anew for its updates from U on as `samples/phase-N-from-U.jsonl`.
pub(super) fn dump_phase(run: &RunFolder, phase: usize, drawn: &Drawn) -> Result<(), TrainError> {
    let name = format!("{}.jsonl", name_of(phase, drawn.from));
    dump(
        &run.samples().join(name),
        drawn.groups.iter().flat_map(SampleRecord::of_group),
    )
}

/// Writes the completions of an evaluation as `samples/eval-N.jsonl`, N the updates before it.
pub(super) fn dump_evaluation(
    run: &RunFolder,
    step: usize,
    records: &[eval::Record],
) -> Result<(), TrainError> {
    dump(
        &run.samples().join(format!("eval-{step}.jsonl")),
        records.iter(),
    )
}

fn dump<T: Serialize>(path: &Path, records: impl Iterator<Item = T>) -> Result<(), TrainError> {
    let mut text = Vec::new();
    for record in records {
        serde_json::to_writer(&mut text, &record)
            .map_err(|error| TrainError::io(path, error.into()))?;
        text.push(b'\n');
    }
    write_aside(path, &text)
}

/// Removes the dumps of phases from `first_phase` on and of evaluations after `step`: they will be written anew.
pub(super) fn cut_back_dumps(run: &RunFolder, first_phase: usize, step: usize) {
    let phases = numbered(&run.samples(), "phase-", ".jsonl")
        .into_iter()
        .filter(|(number, _)| *number >= first_phase);
    let evaluations = numbered(&run.samples(), "eval-", ".jsonl")
        .into_iter()
        .filter(|(number, _)| *number > step);
    for (_, path) in phases.chain(evaluations) {
        let _ = std::fs::remove_file(path);
    }
}

fn file_of(run: &RunFolder, phase: usize, from: usize) -> PathBuf {
    let name = format!("{}.json", name_of(phase, from));
    run.rollouts().join(name)
}

fn name_of(phase: usize, from: usize) -> String {
    match from {
        0 => format!("phase-{phase}"),
        _ => format!("phase-{phase}-from-{from}"),
    }
}

/// The files of a folder that are named for a number, with that number.
fn numbered(folder: &Path, prefix: &str, suffix: &str) -> Vec<(usize, PathBuf)> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name();
            let rest = name.to_str()?.strip_prefix(prefix)?.strip_suffix(suffix)?;
            let number = rest.split_once("-from-").map_or(rest, |(number, _)| number);
            Some((number.parse().ok()?, entry.path()))
        })
        .collect()
}
