//! Extending a run that has finished: `--resume RUN --set run.updates=N`.
//!
//! Prompts and seeds do not depend on a run's length. So with a constant learning rate, an extended run equals, to the bit, a run that had the new length from the
//! start. The exception is a last inference phase that the old end cut short, because it sampled fewer completions. In that case the run steps back to a checkpoint before
//! that phase, if there is one that costs no more updates than a kill would. If there is none, later weights sample the rest of the phase. `extended.jsonl` records which
//! of the two happened.

use std::cmp::Ordering;
use std::fmt;
use std::path::PathBuf;

use super::choose_h;
use super::folder::{
    Log, RunFolder, checkpoint, content, lines, rollouts, truncate, whole_lines, write_whole,
};
use super::learning_rate::learning_rate;
use super::resume::evaluation_is_due;
use super::{Job, TrainError};
use crate::config::{Config, LrSchedule};
use crate::data::PromptSchedule;
use crate::record::{EvalRecord, ExtensionRecord, timestamp};

/// The extension of a run, before anything is written.
#[derive(Debug, PartialEq)]
pub(super) struct Extension {
    pub(super) record: ExtensionRecord,
    schedule: LrSchedule,
    /// The learning rate of update `step` in a run that had the new length from the start.
    lr_from_the_start: f64,
    /// Whether the old end cut the last inference phase short.
    cut: bool,
}

impl Extension {
    /// The extension of a run; `None` if its length does not change. `previous` is its configuration so far, `newest` its newest checkpoint, and `tasks` the number of
    /// tasks, or demonstrations, that it trains on.
    ///
    /// # Errors
    /// [`TrainError::Shorter`]; [`TrainError::Unfinished`]; [`TrainError::Line`] if a log is damaged, [`TrainError::Io`].
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
                return Err(TrainError::Shorter {
                    before: length(before.updates()),
                    after: length(after.updates()),
                });
            }
            Ordering::Greater => {}
        }
        if newest < before.updates() || evaluation_is_due(job, &before, newest)? {
            return Err(TrainError::Unfinished {
                step: newest,
                updates: before.updates(),
            });
        }
        // Rounded to f32, as in the optimiser and in `metrics.jsonl`.
        let rate = |number: usize, schedule: &PromptSchedule| {
            let rate = learning_rate(&job.config.optimiser, number, schedule.updates());
            f64::from(rate as f32)
        };
        let same_rate =
            (1..=newest).all(|n| rate(n, &before).to_bits() == rate(n, &after).to_bits());
        let last = before.phase(before.phase_of(newest.saturating_sub(1)));
        let cut = after.phase(last.index) != last;
        // With another learning rate, the run will not equal one that had this length from the start, so stepping back has no use.
        let earlier = match cut && same_rate {
            true => step_back(job, previous, &after, newest, last.first_update)?,
            false => None,
        };
        let from = earlier.unwrap_or(newest);
        let in_mid_phase = from > after.phase(after.phase_of(from)).first_update;
        let diverged = read(&job.folder)?.into_iter().any(|earlier| {
            !earlier.equal && earlier.from <= from && earlier.updates <= before.updates()
        });
        Ok(Some(Self {
            record: ExtensionRecord {
                step: newest,
                updates_before: before.updates(),
                updates: after.updates(),
                from,
                resampled: cut && earlier.is_none() && in_mid_phase && job.demonstrations.is_none(),
                equal: same_rate && (!cut || earlier.is_some()) && !diverged,
                lr_before: Some(rate(newest, &before)),
                lr: rate(from + 1, &after),
                at: timestamp(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
            },
            schedule: job.config.optimiser.schedule,
            lr_from_the_start: rate(newest, &after),
            cut,
        }))
    }

    /// Records the extension, and steps back if needed. If the process is killed meanwhile, the run keeps its old length, and the record has no effect.
    pub(super) fn begin(&self, folder: &RunFolder) -> Result<(), TrainError> {
        let ExtensionRecord { step, from, .. } = self.record;
        let mut records = read(folder)?;
        records.retain(|record| record.updates <= step);
        records.push(self.record.clone());
        let path = path(folder);
        write_whole(&path, &lines(&path, &records)?)?;
        if from < step {
            let evals: Vec<EvalRecord> = folder.read(Log::Eval)?;
            checkpoint::step_back(folder, from, evals.iter().find(|eval| eval.step == step))?;
        }
        Ok(())
    }
}

impl fmt::Display for Extension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ExtensionRecord {
            step,
            updates,
            from,
            lr,
            ..
        } = self.record;
        write!(
            f,
            "the run is made longer: {} instead of {step}",
            length(updates)
        )?;
        match self.record.lr_before {
            Some(before) if before.to_bits() != self.lr_from_the_start.to_bits() => write!(
                f,
                "; the learning rate was {before:.3e} in update {step} and becomes {lr:.3e} in update {}, since `optimiser.schedule = \"{}\"` is \
                 stretched over the new length; a run of {} from the start would have had {:.3e} in update {step}, so this one does not equal it",
                from + 1,
                self.schedule.name(),
                length(updates),
                self.lr_from_the_start
            )?,
            _ => {
                f.write_str("; the learning rate is that of a run of this length from the start")?;
            }
        }
        if from < step {
            write!(
                f,
                ". The old end cut the last inference phase short, so the run steps back to update {from}, to equal a run of this length from the start; the \
                 checkpoint that it ended with remains as checkpoints/ended-{step}"
            )?;
        } else if self.record.resampled {
            write!(
                f,
                ". The old end cut the last inference phase short, and the weights after update {from} sample the rest of it; in a run of this length from the \
                 start, earlier weights sample it"
            )?;
        } else if self.cut {
            write!(
                f,
                ". The old end cut update {from} short, so this run does not equal one of this length from the start"
            )?;
        }
        Ok(())
    }
}

/// Whether the rest of the current phase, after `step` updates, has to be sampled with the current weights, because an extension cut the phase.
pub(super) fn resamples(
    folder: &RunFolder,
    schedule: &PromptSchedule,
    step: usize,
) -> Result<bool, TrainError> {
    let records = read(folder)?;
    // A record has no effect if its process was killed before the run became longer.
    let last = records
        .iter()
        .rfind(|record| record.updates <= schedule.updates());
    Ok(last.is_some_and(|record| record.resampled && record.from == step))
}

/// The newest checkpoint up to `shared` updates that the longer run can resume from; `None` if each would cost more updates than a kill does.
fn step_back(
    job: &Job,
    previous: &Config,
    after: &PromptSchedule,
    newest: usize,
    shared: usize,
) -> Result<Option<usize>, TrainError> {
    let max_lost = previous.algorithm.h + previous.run.checkpoint_every;
    let cheap = |step: &usize| *step <= shared && newest - step <= max_lost;
    let can_resume = |step: &usize| {
        job.demonstrations.is_some()
            || rollouts::check(&job.folder, after, *step, &job.prompts.train).is_ok()
    };
    let steps = checkpoint::steps(&job.folder)?.into_iter();
    Ok(steps.filter(cheap).rfind(can_resume))
}

fn length(updates: usize) -> String {
    match updates {
        1 => "1 update".to_owned(),
        _ => format!("{updates} updates"),
    }
}

fn path(folder: &RunFolder) -> PathBuf {
    folder.root().join("extended.jsonl")
}

fn read(folder: &RunFolder) -> Result<Vec<ExtensionRecord>, TrainError> {
    let path = path(folder);
    whole_lines(&content(&path)?)
        .enumerate()
        .map(|(number, line)| {
            serde_json::from_slice(line).map_err(|error| TrainError::Line {
                path: path.clone(),
                line: number + 1,
                reason: error.to_string(),
                remedy: "Restore the file, or delete it to continue without its record",
            })
        })
        .collect()
}
