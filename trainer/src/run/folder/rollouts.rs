//! Stores the samples of the current phase, so that a killed run resumes with them, and writes samples for people to read.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{PARTIAL_ROLLOUT, RunFolder, lines, write_whole};
use crate::atomic_file;
use crate::data::{Phase, Prompt, PromptSchedule};
use crate::eval;
use crate::record::SampleRecord;
use crate::rollout::{PartialRollout, PhaseSamples, Sample, SampledGroup};
use crate::run::TrainError;
use crate::transcript;

/// A phase's samples as the updates need them: tokens, log-probabilities, verdicts.
#[derive(Debug, Serialize, Deserialize)]
struct StoredPhase {
    phase: usize,
    #[serde(default)]
    from: usize,
    #[serde(default, rename = "dropped")]
    discarded: usize,
    #[serde(default, rename = "reward", skip_serializing_if = "Option::is_none")]
    sampled_reward: Option<f64>,
    inference_s: f64,
    verify_s: f64,
    groups: Vec<StoredGroup>,
}

#[derive(Debug, Serialize, Deserialize)]
struct StoredGroup {
    task: String,
    samples: Vec<Sample>,
}

/// Stores the samples of a phase, atomically.
pub(in crate::run) fn save(
    run: &RunFolder,
    phase: &Phase,
    samples: &PhaseSamples,
) -> Result<(), TrainError> {
    let path = run.phase_rollout(phase.index, samples.from);
    let groups = samples
        .groups
        .iter()
        .map(|group| StoredGroup {
            task: group.prompt.task.id.clone(),
            samples: group.samples.clone(),
        })
        .collect();
    let stored = StoredPhase {
        phase: phase.index,
        from: samples.from,
        discarded: samples.discarded,
        sampled_reward: samples.sampled_reward,
        inference_s: samples.inference.as_secs_f64(),
        verify_s: samples.verify.as_secs_f64(),
        groups,
    };
    let text = serde_json::to_vec(&stored).map_err(|error| TrainError::io(&path, error.into()))?;
    write_whole(&path, &text)
}

/// Opens the file of an unfinished phase or evaluation. An earlier process sampled its completions from the same weights, for the reason given at [`load`].
pub(in crate::run) fn partial(path: &Path) -> Result<PartialRollout, TrainError> {
    PartialRollout::open(path).map_err(|source| TrainError::io(path, source))
}

/// The first update of the newest stored samples that are for the phase's update `update`.
pub(in crate::run) fn in_use(run: &RunFolder, phase: &Phase, update: usize) -> Option<usize> {
    (0..=update)
        .rev()
        .find(|from| run.phase_rollout(phase.index, *from).exists())
}

/// The newest stored samples for the phase's update `update`. Weights, moments and data order are the same however often a run is resumed, so the stored samples equal
/// those that would be sampled again.
pub(in crate::run) fn load(
    run: &RunFolder,
    phase: &Phase,
    update: usize,
    prompts: &[Arc<Prompt>],
) -> Option<PhaseSamples> {
    let from = in_use(run, phase, update)?;
    let text = std::fs::read(run.phase_rollout(phase.index, from)).ok()?;
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
    (stored.phase == phase.index && stored.from == from && groups.len() == wanted).then(|| {
        PhaseSamples {
            from,
            groups,
            discarded: stored.discarded,
            sampled_reward: stored.sampled_reward,
            inference: Duration::try_from_secs_f64(stored.inference_s).unwrap_or_default(),
            verify: Duration::try_from_secs_f64(stored.verify_s).unwrap_or_default(),
        }
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
    let done = step - phase.first_update;
    let in_mid_phase = (1..phase.updates.len()).contains(&done);
    if in_mid_phase && load(run, &phase, done, prompts).is_none() {
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
    let checkpoints = if checkpoints.is_empty() {
        &[0]
    } else {
        checkpoints
    };
    let needed: Vec<usize> = checkpoints
        .iter()
        .filter(|step| **step < schedule.updates())
        .map(|step| schedule.phase_of(*step))
        .collect();
    let whole = numbered(&run.rollouts(), "phase-", ".json");
    let partial = numbered(&run.rollouts(), "phase-", PARTIAL_ROLLOUT);
    for ((number, _), path) in whole.into_iter().chain(partial) {
        if number < first && !needed.contains(&number) {
            // A file that cannot be removed only takes disk space.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Before a phase is sampled for its updates from `from` on, removes all samples of later weights, in this phase too: training may lead to other weights this time, if
/// the verifier judges differently.
pub(in crate::run) fn remove_later(run: &RunFolder, phase: &Phase, from: usize) {
    let phases =
        [".json", PARTIAL_ROLLOUT].map(|suffix| numbered(&run.rollouts(), "phase-", suffix));
    for (place, path) in phases.into_iter().flatten() {
        if place > (phase.index, from) {
            let _ = std::fs::remove_file(path);
        }
    }
    remove_evaluations(run, phase.first_update + from);
}

/// Removes the completions of unfinished evaluations after more than `step` updates.
pub(in crate::run) fn remove_evaluations(run: &RunFolder, step: usize) {
    for ((after, _), path) in numbered(&run.rollouts(), "eval-", PARTIAL_ROLLOUT) {
        if after > step {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// The error for a phase whose samples are missing, although an update was made on them.
pub(in crate::run) fn missing(run: &RunFolder, phase: &Phase) -> TrainError {
    TrainError::Samples(run.phase_rollout(phase.index, 0))
}

/// Writes the completions of a phase as `samples/phase-N.jsonl`, or as `samples/phase-N-from-U.jsonl` if they replace stale ones from update U on, and a page for
/// people as `.md` beside it.
pub(in crate::run) fn dump_phase(
    run: &RunFolder,
    phase: &Phase,
    samples: &PhaseSamples,
) -> Result<(), TrainError> {
    let records: Vec<SampleRecord> = samples
        .groups
        .iter()
        .flat_map(SampleRecord::of_group)
        .collect();
    let path = run.phase_samples(phase.index, samples.from);
    write_whole(&path, &lines(&path, &records)?)?;
    let title = format!(
        "Phase {}: training samples after {} updates",
        phase.index,
        phase.first_update + samples.from
    );
    write_page(&path, &transcript::page(&title, &records))
}

/// Writes the completions of the evaluation after N updates as `samples/eval-N.jsonl`, and a page for people as `.md` beside it.
pub(in crate::run) fn dump_evaluation(
    run: &RunFolder,
    step: usize,
    records: &[eval::Record],
) -> Result<(), TrainError> {
    let path = run.eval_samples(step);
    write_whole(&path, &lines(&path, records)?)?;
    let title = format!("Evaluation after {step} updates");
    let samples = records.iter().map(|record| &record.sample);
    write_page(&path, &transcript::page(&title, samples))
}

fn write_page(samples: &Path, page: &str) -> Result<(), TrainError> {
    write_whole(&samples.with_extension("md"), page.as_bytes())
}

/// The first samples of a dump, as many as an excerpt shows; none if the file does not exist.
pub(in crate::run) fn read_head(path: &Path, group_size: usize) -> Vec<SampleRecord> {
    let Ok(file) = File::open(path) else {
        return Vec::new();
    };
    BufReader::new(file)
        .lines()
        .map_while(Result::ok)
        .map_while(|line| serde_json::from_str(&line).ok())
        .take(transcript::excerpt_samples(group_size))
        .collect()
}

/// Removes the dumps of phases from `first_phase` on and of evaluations after `step` updates, since they will be written again.
pub(in crate::run) fn remove_dumps(run: &RunFolder, first_phase: usize, step: usize) {
    for suffix in [".jsonl", ".md"] {
        let phases = numbered(&run.samples(), "phase-", suffix)
            .into_iter()
            .filter(|((number, _), _)| *number >= first_phase);
        let evaluations = numbered(&run.samples(), "eval-", suffix)
            .into_iter()
            .filter(|((number, _), _)| *number > step);
        for (_, path) in phases.chain(evaluations) {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Removes the partial files that killed processes of this run left. No other process trains this run, since this one holds its lock.
pub(in crate::run) fn remove_partial(run: &RunFolder) {
    let folders = [run.rollouts(), run.samples()].map(std::fs::read_dir);
    for entry in folders.into_iter().flatten().flatten().flatten() {
        if atomic_file::is_partial(&entry.file_name()) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// The files of a folder whose names are `prefix`, a number, perhaps `-from-` with another, and `suffix`. Each has its two numbers; the second is 0 unless the name has it.
fn numbered(folder: &Path, prefix: &str, suffix: &str) -> Vec<((usize, usize), PathBuf)> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name();
            let rest = name.to_str()?.strip_prefix(prefix)?.strip_suffix(suffix)?;
            let (number, from) = rest.split_once("-from-").unwrap_or((rest, "0"));
            Some(((number.parse().ok()?, from.parse().ok()?), entry.path()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_later_weights_are_removed_before_a_phase_is_sampled_again() {
        let home = tempfile::tempdir().unwrap();
        let run = RunFolder::create(&home.path().join("run"), "").unwrap();
        let phase = Phase {
            index: 1,
            first_update: 3,
            updates: vec![Vec::new(); 3],
        };
        let earlier = [
            "eval-4.drawn.jsonl",
            "phase-0-from-2.json",
            "phase-1-from-1.drawn.jsonl",
            "phase-1.json",
        ];
        let later = [
            "eval-5.drawn.jsonl",
            "phase-1-from-2.drawn.jsonl",
            "phase-1-from-2.json",
            "phase-2.drawn.jsonl",
            "phase-2.json",
        ];
        for name in earlier.iter().chain(&later) {
            std::fs::write(run.rollouts().join(name), "").unwrap();
        }
        remove_later(&run, &phase, 1);
        let entries = std::fs::read_dir(run.rollouts()).unwrap().flatten();
        let mut names: Vec<String> = entries
            .map(|entry| entry.file_name().into_string().unwrap())
            .collect();
        names.sort_unstable();
        assert_eq!(names, earlier);
        assert_eq!(in_use(&run, &phase, 2), Some(0));
    }
}
