//! Stores the samples of the current phase, so that a killed run resumes with them, and writes samples for people to read.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{PARTIAL_ROLLOUT, RunFolder, lines, write_whole};
use crate::atomic_file;
use crate::data::{Phase, Prompt, PromptSchedule};
use crate::record::SampleRecord;
use crate::rollout::{PartialRollout, Rollout, Sample, SampledGroup};
use crate::run::TrainError;
use crate::transcript;

/// A phase's samples as the updates need them: tokens, log-probabilities, verdicts.
#[derive(Debug, Serialize, Deserialize)]
struct StoredPhase<G> {
    phase: usize,
    #[serde(default, rename = "dropped")]
    discarded: usize,
    #[serde(default, rename = "reward", skip_serializing_if = "Option::is_none")]
    sampled_reward: Option<f64>,
    inference_s: f64,
    verify_s: f64,
    groups: Vec<G>,
}

/// A [`SampledGroup`] as it is read.
#[derive(Debug, Deserialize)]
struct StoredGroup {
    task: String,
    samples: Vec<Sample>,
}

/// `rollouts/phase-N.json`: the samples of a phase, as the updates need them.
fn stored(run: &RunFolder, phase: &Phase) -> PathBuf {
    run.rollouts().join(format!("phase-{}.json", phase.index))
}

/// Stores the samples of a phase, atomically.
pub(in crate::run) fn save(
    run: &RunFolder,
    phase: &Phase,
    samples: &Rollout,
) -> Result<(), TrainError> {
    let path = stored(run, phase);
    let content = StoredPhase {
        phase: phase.index,
        discarded: samples.discarded,
        sampled_reward: samples.sampled_reward,
        inference_s: samples.inference.as_secs_f64(),
        verify_s: samples.verify.as_secs_f64(),
        groups: samples.groups.iter().collect(),
    };
    let text = serde_json::to_vec(&content).map_err(|error| TrainError::io(&path, error.into()))?;
    write_whole(&path, &text)
}

/// Opens the file of an unfinished phase or evaluation, `rollouts/NAME.drawn.jsonl`. An earlier process sampled its completions from the same weights, for the reason
/// given at [`load`].
pub(in crate::run) fn partial(run: &RunFolder, name: &str) -> Result<PartialRollout, TrainError> {
    let path = run.rollouts().join(format!("{name}{PARTIAL_ROLLOUT}"));
    PartialRollout::open(&path).map_err(|source| TrainError::io(&path, source))
}

/// The stored samples of a phase. Weights, moments and data order are the same however often a run is resumed, so the stored samples equal those that would be sampled
/// again.
pub(in crate::run) fn load(
    run: &RunFolder,
    phase: &Phase,
    prompts: &[Arc<Prompt>],
) -> Option<Rollout> {
    let text = std::fs::read(stored(run, phase)).ok()?;
    let stored: StoredPhase<StoredGroup> = serde_json::from_slice(&text).ok()?;
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
    let whole = stored.phase == phase.index && groups.len() == phase.prompt_uses().count();
    whole.then(|| Rollout {
        groups,
        discarded: stored.discarded,
        sampled_reward: stored.sampled_reward,
        inference: Duration::try_from_secs_f64(stored.inference_s).unwrap_or_default(),
        verify: Duration::try_from_secs_f64(stored.verify_s).unwrap_or_default(),
    })
}

/// Checks that a run can resume after `step` updates: in mid-phase, the samples of that phase must be stored.
pub(in crate::run) fn check(
    run: &RunFolder,
    schedule: &PromptSchedule,
    step: usize,
    prompts: &[Arc<Prompt>],
) -> Result<(), TrainError> {
    let phase = schedule.phase(schedule.phase_of(step));
    let in_mid_phase = phase.first_update < step && step < phase.end();
    if in_mid_phase && load(run, &phase, prompts).is_none() {
        return Err(missing(run, &phase));
    }
    Ok(())
}

/// Removes the phases before `first`, except those that the run needs to resume from one of `checkpoints`, or from its start if there are none.
pub(in crate::run) fn prune(
    run: &RunFolder,
    schedule: &PromptSchedule,
    checkpoints: &[usize],
    first: usize,
) {
    let checkpoints: &[usize] = match checkpoints {
        [] => &[0],
        some => some,
    };
    let unfinished = checkpoints
        .iter()
        .filter(|step| **step < schedule.updates());
    let needed: Vec<usize> = unfinished.map(|step| schedule.phase_of(*step)).collect();
    let folder = run.rollouts();
    let unneeded = |phase: usize| phase < first && !needed.contains(&phase);
    remove(&folder, "phase-", &[".json", PARTIAL_ROLLOUT], unneeded);
}

/// Before a phase is sampled, removes all samples of later weights: training may lead to other weights this time, if the verifier judges differently.
pub(in crate::run) fn remove_later(run: &RunFolder, phase: &Phase) {
    let folder = run.rollouts();
    let is_later = |number: usize| number > phase.index;
    remove(&folder, "phase-", &[".json", PARTIAL_ROLLOUT], is_later);
    let is_later = |step: usize| step > phase.first_update;
    remove(&folder, "eval-", &[PARTIAL_ROLLOUT], is_later);
}

/// The error for a phase with missing samples, although an update was made on them.
pub(in crate::run) fn missing(run: &RunFolder, phase: &Phase) -> TrainError {
    TrainError::Refused(format!(
        "{} is missing or damaged: it holds the samples of the phase under way, and they cannot be sampled again, because the policy that sampled them no longer \
         exists. Restore it, or delete the newest checkpoint to continue from the one before it",
        stored(run, phase).display()
    ))
}

/// Writes the completions of a phase or an evaluation as `samples/NAME.jsonl`, and a page for people as `.md` beside it.
pub(in crate::run) fn dump(
    run: &RunFolder,
    name: &str,
    title: &str,
    records: &[SampleRecord],
) -> Result<(), TrainError> {
    let path = run.samples().join(format!("{name}.jsonl"));
    write_whole(&path, &lines(&path, records)?)?;
    let page = transcript::page(title, records);
    write_whole(&path.with_extension("md"), page.as_bytes())
}

/// Removes the dumps of phases from `first_phase` on and of evaluations after `step` updates, since they will be written again.
pub(in crate::run) fn remove_dumps(run: &RunFolder, first_phase: usize, step: usize) {
    let (folder, suffixes) = (run.samples(), [".jsonl", ".md"]);
    remove(&folder, "phase-", &suffixes, |number| number >= first_phase);
    remove(&folder, "eval-", &suffixes, |number| number > step);
}

/// Removes the partial files that killed processes of this run left. No other process trains this run, since this one holds its lock.
pub(in crate::run) fn remove_partial(run: &RunFolder) {
    let folders = [run.rollouts(), run.samples(), run.tensorboard()].map(std::fs::read_dir);
    for entry in folders.into_iter().flatten().flatten().flatten() {
        if atomic_file::is_partial(&entry.file_name()) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Removes the files of a folder with these names: `prefix`, a number that is `unneeded`, and one of `suffixes`.
fn remove(folder: &Path, prefix: &str, suffixes: &[&str], unneeded: impl Fn(usize) -> bool) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let number = suffixes.iter().find_map(|suffix| {
            let name = name.to_str()?.strip_prefix(prefix)?;
            name.strip_suffix(suffix)?.parse().ok()
        });
        if number.is_some_and(&unneeded) {
            // A file that cannot be removed only takes disk space.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}
