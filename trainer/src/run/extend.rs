//! Extending a run: `--resume RUN --set run.updates=N`.
//!
//! Prompts and seeds do not depend on a run's length. So with a constant learning rate, an extended run equals, to the bit, a run that had the new length from the
//! start. The exception is a last inference phase that the old end cut short, because it sampled fewer completions. In that case the run steps back to a checkpoint before
//! that phase, if there is one that costs no more updates than a kill would. If there is none, later weights sample the rest of the phase. `extended.jsonl` records which
//! of the two happened.

use std::fmt;
use std::path::PathBuf;

use super::choose_h;
use super::folder::{
    Log, RunFolder, checkpoint, content, lines, rollouts, truncate, whole_lines, write_whole,
};
use super::learning_rate::learning_rate;
use super::{Job, TrainError};
use crate::config::{Config, LrSchedule};
use crate::data::PromptSchedule;
use crate::record::{EvalRecord, ExtensionRecord, timestamp};

/// The extension of a run, before anything is written.
#[derive(Debug, PartialEq)]
pub(super) struct Extension {
    pub(super) record: ExtensionRecord,
    schedule: LrSchedule,
    /// Whether the longer run evaluates after `step` updates too.
    evaluates: bool,
    /// The learning rate of update `step` in a run that had the new length from the start.
    lr_from_the_start: f64,
    /// If the last update was cut short and is not made again: the number of prompts that it would have now, and the number that it had.
    short: Option<(usize, usize)>,
}

impl Extension {
    /// The extension of a run; `None` if its length does not change. `previous` is its configuration so far, `newest` its newest checkpoint, `logged` the number of updates
    /// in its logs, and `tasks` the number of tasks, or demonstrations, that it trains on.
    ///
    /// # Errors
    /// [`TrainError::Shorter`]; [`TrainError::Line`] if a log is damaged, [`TrainError::Io`].
    pub(super) fn of(
        job: &Job,
        previous: &Config,
        tasks: usize,
        newest: usize,
        logged: usize,
    ) -> Result<Option<Self>, TrainError> {
        let updates = truncate::updates(&job.folder, newest)?;
        let (before, after) = (
            choose_h::schedule(previous, tasks, &updates),
            choose_h::schedule(&job.config, tasks, &updates),
        );
        if after.prompts() == before.prompts() {
            return Ok(None);
        }
        if after.prompts() < before.prompts() {
            return Err(TrainError::Shorter {
                before: length(before.updates()),
                after: length(after.updates()),
            });
        }
        // Rounded to f32, as in the optimiser and in `metrics.jsonl`.
        let rate = |number: usize, schedule: &PromptSchedule| {
            let rate = learning_rate(&job.config.optimiser, number, schedule.updates());
            f64::from(rate as f32)
        };
        let same_rate =
            (1..=newest).all(|n| rate(n, &before).to_bits() == rate(n, &after).to_bits());
        let shared = shared(&before, &after);
        let from = if newest <= shared {
            newest
        } else if same_rate {
            let from_the_model =
                previous.run.checkpoint_every == 0 || logged <= previous.run.checkpoint_every;
            step_back(job, previous, &after, newest, shared, from_the_model)?.unwrap_or(newest)
        } else {
            // The run will not equal one that had this length from the start, so stepping back has no use.
            newest
        };
        let phase = after.phase(after.phase_of(from));
        let resampled = from > shared && from > phase.first_update && job.demonstrations.is_none();
        // From an earlier extension, after which the run was killed before the phase was sampled.
        let pending = from == newest && resamples(&job.folder, &before, newest)?;
        let diverged = read(&job.folder)?.into_iter().any(|earlier| {
            !earlier.equal && earlier.from <= from && earlier.updates <= before.updates()
        });
        let (had, has) = (
            prompts_of(&before, before.updates()),
            prompts_of(&after, before.updates()),
        );
        Ok(Some(Self {
            record: ExtensionRecord {
                step: newest,
                updates_before: before.updates(),
                updates: after.updates(),
                from,
                resampled: resampled || pending,
                equal: same_rate && from <= shared && !diverged,
                lr_before: (newest > 0).then(|| rate(newest, &before)),
                lr: rate(from + 1, &after),
                at: timestamp(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
            },
            schedule: job.config.optimiser.schedule,
            evaluates: after.evaluates_after(newest),
            lr_from_the_start: rate(newest.max(1), &after),
            short: (from == before.updates() && had < has).then_some((has, had)),
        }))
    }

    /// Records the extension, and steps back if needed. If the process is killed meanwhile, the run keeps its old length, and the record has no effect.
    pub(super) fn begin(&self, folder: &RunFolder) -> Result<(), TrainError> {
        let ExtensionRecord {
            step,
            from,
            updates_before,
            ..
        } = self.record;
        let mut records = read(folder)?;
        records.retain(|record| record.updates <= updates_before);
        records.push(self.record.clone());
        write(folder, &records)?;
        if from < step {
            let evals: Vec<EvalRecord> = folder.read(Log::Eval)?;
            let last = evals.iter().find(|eval| eval.step == step);
            checkpoint::step_back(folder, from, (step == updates_before).then_some(last))?;
            // Later evaluations will be of other weights.
            rollouts::remove_evaluations(folder, from);
        } else if !self.evaluates {
            // An interrupted evaluation at the old end is no longer due.
            rollouts::remove_evaluations(folder, step.saturating_sub(1));
        }
        Ok(())
    }
}

impl fmt::Display for Extension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ExtensionRecord {
            step,
            updates_before,
            updates,
            from,
            lr,
            ..
        } = self.record;
        write!(
            f,
            "the run is made longer: {} instead of {updates_before}",
            length(updates)
        )?;
        match self.record.lr_before {
            Some(before) if before.to_bits() != self.lr_from_the_start.to_bits() => {
                let schedule = match self.schedule {
                    LrSchedule::Constant => "constant",
                    LrSchedule::Linear => "linear",
                    LrSchedule::Cosine => "cosine",
                };
                write!(
                    f,
                    "; the learning rate was {before:.3e} in update {step} and becomes {lr:.3e} in update {}, since `optimiser.schedule = \"{schedule}\"` is \
                     stretched over the new length; a run of {} from the start would have had {:.3e} in update {step}, so this one does not equal it",
                    from + 1,
                    length(updates),
                    self.lr_from_the_start
                )?;
            }
            _ => {
                f.write_str("; the learning rate is that of a run of this length from the start")?;
            }
        }
        if from < step {
            write!(
                f,
                ". The old end cut the last inference phase short, so the run steps back to update {from}, to equal a run of this length from the start"
            )?;
            if step == updates_before {
                write!(
                    f,
                    "; the checkpoint that it ended with remains as checkpoints/ended-{step}"
                )?;
            }
        }
        if self.record.resampled {
            write!(
                f,
                ". The old end cut the last inference phase short, and the weights after update {from} sample the rest of it; in a run of this length from the \
                 start, earlier weights sample it"
            )?;
        }
        if let Some((has, had)) = self.short {
            write!(
                f,
                ". Update {from} used {had} of the {has} prompts that it has in a run of this length from the start; the other {} are not used",
                has - had
            )?;
        }
        Ok(())
    }
}

/// Whether the rest of the current phase, after `step` updates, has to be sampled with the current weights, because an extension cut the phase. If the run resumes from an earlier
/// update, the whole phase is sampled at once, and the record is changed to say so.
pub(super) fn resamples(
    folder: &RunFolder,
    schedule: &PromptSchedule,
    step: usize,
) -> Result<bool, TrainError> {
    let mut records = read(folder)?;
    // A record has no effect if its process was killed before the run became longer.
    let effective = |record: &&mut ExtensionRecord| record.updates <= schedule.updates();
    let Some(last) = records.iter_mut().rfind(effective) else {
        return Ok(false);
    };
    if !last.resampled || last.from < step {
        return Ok(false);
    }
    if last.from == step {
        return Ok(true);
    }
    last.from = step;
    last.resampled = false;
    write(folder, &records)?;
    Ok(false)
}

/// The number of updates that a shorter run shares with a longer one: all of them, unless its end cuts a phase short.
fn shared(before: &PromptSchedule, after: &PromptSchedule) -> usize {
    let last = before.phase(before.phase_of(before.updates().saturating_sub(1)));
    if after.phase(last.index) == last {
        before.updates()
    } else {
        last.first_update
    }
}

/// The newest checkpoint up to `shared` updates that the longer run can resume from; `None` if each would cost more updates than a kill does. With `from_the_model`, the
/// model's own files count as the checkpoint after 0 updates. They do not if the logs have more updates than lie between two checkpoints, since then a checkpoint was
/// lost.
fn step_back(
    job: &Job,
    previous: &Config,
    after: &PromptSchedule,
    newest: usize,
    shared: usize,
    from_the_model: bool,
) -> Result<Option<usize>, TrainError> {
    let max_lost = previous.algorithm.h + previous.run.checkpoint_every;
    let steps = checkpoint::steps(&job.folder)?;
    let earlier = from_the_model.then_some(0).into_iter().chain(steps);
    let cheap = |step: &usize| *step <= shared && newest - step <= max_lost;
    let can_resume = |step: &usize| {
        job.demonstrations.is_some()
            || rollouts::check(&job.folder, after, *step, &job.prompts.train).is_ok()
    };
    Ok(earlier.filter(cheap).rfind(can_resume))
}

/// The number of prompts of an update, whose number counts from 1.
fn prompts_of(schedule: &PromptSchedule, number: usize) -> usize {
    let phase = schedule.phase(schedule.phase_of(number - 1));
    phase.updates[number - 1 - phase.first_update].len()
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

fn write(folder: &RunFolder, records: &[ExtensionRecord]) -> Result<(), TrainError> {
    let path = path(folder);
    write_whole(&path, &lines(&path, records)?)
}
