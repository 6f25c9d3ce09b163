//! Extending a run that has finished: `--resume RUN --set run.updates=N`.
//!
//! Prompts and seeds do not depend on a run's length. So with a constant learning rate, an extended run equals, to the bit, a run that had the new length from the
//! start. The exception is a last inference phase that the old end cut short, because it sampled fewer completions: a new phase begins at the old end then.
//! `extended.jsonl` records which of the two happened.

use std::cmp::Ordering;
use std::path::PathBuf;

use super::choose_h;
use super::folder::{RunFolder, content, lines, truncate, whole_lines, write_whole};
use super::learning_rate::learning_rate;
use super::resume::evaluation_is_due;
use super::{Job, TrainError};
use crate::config::Config;
use crate::data::PromptSchedule;
use crate::record::{ExtensionRecord, StepRecord, timestamp};

/// The extension of a run, before anything is written.
#[derive(Debug, PartialEq)]
pub(super) struct Extension {
    pub(super) record: ExtensionRecord,
    /// What is said about it.
    pub(super) message: String,
}

impl Extension {
    /// The extension of a run; `None` if its length does not change. `previous` is its configuration so far, `newest` its newest checkpoint, and `tasks` the number of
    /// tasks, or demonstrations, that it trains on.
    ///
    /// # Errors
    /// [`TrainError::Usage`] if the run would be shorter, or has not finished; [`TrainError::Refused`] if a log is damaged, [`TrainError::Io`].
    pub(super) fn of(
        job: &Job,
        previous: &Config,
        tasks: usize,
        newest: usize,
    ) -> Result<Option<Self>, TrainError> {
        let updates = truncate::updates(&job.folder, newest)?;
        let (before, after) = (
            choose_h::schedule(previous, tasks, &updates),
            choose_h::schedule(&job.config, tasks, &updates),
        );
        match after.prompts().cmp(&before.prompts()) {
            Ordering::Equal => return Ok(None),
            Ordering::Less => {
                return Err(shorter(before.updates(), after.updates(), "update"));
            }
            Ordering::Greater => {}
        }
        if newest < before.updates() || evaluation_is_due(job, &before, newest)? {
            return Err(TrainError::Usage(format!(
                "the run has not finished (it has made {newest} of its {} updates), and only a run that has finished can be made longer: continue it first, with \
                 `--set run.keep_state=true` and without a new length",
                before.updates()
            )));
        }
        // Rounded to f32, as in the optimiser and in `metrics.jsonl`.
        let rate = |number: usize, schedule: &PromptSchedule| {
            let rate = learning_rate(&job.config.optimiser, number, schedule.updates());
            f64::from(rate as f32)
        };
        let same_rate =
            (1..=newest).all(|n| rate(n, &before).to_bits() == rate(n, &after).to_bits());
        let cut = is_cut(previous, &updates);
        let diverged = read(&job.folder)?
            .iter()
            .any(|earlier| !earlier.equal && earlier.updates <= before.updates());
        let record = ExtensionRecord {
            step: newest,
            updates_before: before.updates(),
            updates: after.updates(),
            equal: same_rate && !cut && !diverged,
            lr_before: Some(rate(newest, &before)),
            lr: rate(newest + 1, &after),
            at: timestamp(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let schedule = job.config.optimiser.schedule.name();
        let message = message(&record, schedule, rate(newest, &after), cut);
        Ok(Some(Self { record, message }))
    }

    /// Records the extension. If the process is killed before it saves the new length, the record has no effect.
    pub(super) fn begin(&self, folder: &RunFolder) -> Result<(), TrainError> {
        let mut records = read(folder)?;
        records.retain(|record| record.updates <= self.record.step);
        records.push(self.record.clone());
        let path = path(folder);
        write_whole(&path, &lines(&path, &records)?)
    }
}

/// Whether the end of a run cut its last phase short, or the last update in it.
fn is_cut(config: &Config, updates: &[StepRecord]) -> bool {
    let size = updates.iter().rev().find_map(|update| update.auto_h);
    let h = size.map_or(config.algorithm.h, |size| size.h);
    updates.last().is_some_and(|last| {
        last.phase_updates < h || last.algo.judged + last.algo.masked < config.algorithm.n_step
    })
}

/// What is said about an extension. `lr_from_the_start` is the learning rate of update `step` in a run that had the new length from the start.
fn message(record: &ExtensionRecord, schedule: &str, lr_from_the_start: f64, cut: bool) -> String {
    let ExtensionRecord { step, lr, .. } = *record;
    let longer = count(record.updates, "update");
    let warning = if record.equal { "" } else { "warning: " };
    let rates = match record.lr_before {
        Some(before) if before.to_bits() != lr_from_the_start.to_bits() => format!(
            "the learning rate was {before:.3e} in update {step} and becomes {lr:.3e} in update {}, since `optimiser.schedule = \"{schedule}\"` is \
             stretched over the new length; a run of {longer} from the start would have had {lr_from_the_start:.3e} in update {step}, so this one does not equal it",
            step + 1
        ),
        _ => "the learning rate is that of a run of this length from the start".to_owned(),
    };
    let phase = if cut {
        ". The old end cut the last inference phase short, and the next one begins there, so this run does not equal one of this length from the start"
    } else {
        ""
    };
    format!("{warning}the run is made longer: {longer} instead of {step}; {rates}{phase}")
}

/// The error for a length that would make a run shorter.
pub(super) fn shorter(before: usize, after: usize, unit: &str) -> TrainError {
    TrainError::Usage(format!(
        "the run has {}, and a run that is continued can only be made longer, not {}; give more, or leave the setting out",
        count(before, unit),
        count(after, unit)
    ))
}

fn count(number: usize, unit: &str) -> String {
    match number {
        1 => format!("1 {unit}"),
        _ => format!("{number} {unit}s"),
    }
}

fn path(folder: &RunFolder) -> PathBuf {
    folder.root().join("extended.jsonl")
}

fn read(folder: &RunFolder) -> Result<Vec<ExtensionRecord>, TrainError> {
    let path = path(folder);
    whole_lines(&content(&path)?)
        .map(|line| {
            serde_json::from_slice(line).map_err(|error| {
                TrainError::Refused(format!(
                    "{} is damaged ({error}). Restore the file, or delete it to continue without its record",
                    path.display()
                ))
            })
        })
        .collect()
}
