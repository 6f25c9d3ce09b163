//! Extending a run: `--resume RUN --set run.updates=N`.
//!
//! Prompts and seeds do not depend on a run's length, so with a constant learning rate a run made longer is, to the bit, the run that was as long from the
//! start, unless the old end cut its last inference phase short: that phase drew fewer completions than it draws now. Then the run steps back to a checkpoint
//! before that phase, where one is kept that costs no more than a kill would; where none is, the rest of the phase is drawn by later weights. Either is noted in
//! `extended.jsonl`.

use std::fmt;
use std::path::PathBuf;

use super::folder::{
    Log, RunFolder, checkpoint, content, lines, rollouts, whole_lines, write_whole,
};
use super::learning_rate::learning_rate;
use super::{Job, TrainError};
use crate::config::{Config, LrSchedule};
use crate::data::Schedule;
use crate::record::{EvalRecord, ExtensionRecord, timestamp};

/// What it takes to make a run longer, before anything is written.
#[derive(Debug, PartialEq)]
pub(super) struct Extension {
    pub(super) record: ExtensionRecord,
    schedule: LrSchedule,
    /// Whether the longer run evaluates after `step` updates too.
    evaluates: bool,
    /// Learning rate that a run of the new length has in the update `step`.
    lr_from_the_start: f64,
    /// Prompts that the last update has now, and those that it had, where it was cut short and is not made again.
    short: Option<(usize, usize)>,
}

impl Extension {
    /// `None` where the run stays as long as it was. `begun` is its configuration so far, `newest` its newest checkpoint, `logged` its updates in the logs,
    /// and `tasks` the number of tasks, or demonstrations, that it trains on.
    ///
    /// # Errors
    /// [`TrainError::Shorter`].
    pub(super) fn of(
        job: &Job,
        begun: &Config,
        tasks: usize,
        newest: usize,
        logged: usize,
    ) -> Result<Option<Self>, TrainError> {
        let (before, after) = (
            Schedule::new(begun, tasks),
            Schedule::new(&job.config, tasks),
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
        // As the optimiser takes it, and `metrics.jsonl` has it.
        let rate = |number: usize, schedule: &Schedule| {
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
                begun.run.checkpoint_every == 0 || logged <= begun.run.checkpoint_every;
            step_back(job, begun, &after, newest, shared, from_the_model)?.unwrap_or(newest)
        } else {
            // It will not be the run that was as long from the start, so no update is made twice for that.
            newest
        };
        let phase = after.phase(after.phase_of(from));
        let redrawn = from > shared && from > phase.first_update && job.demonstrations.is_none();
        // Of an earlier time that the run was made longer, and killed before the phase was drawn.
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
                redrawn: redrawn || pending,
                equal: same_rate && from <= shared && !diverged,
                lr_before: (newest > 0).then(|| rate(newest, &before)),
                lr: rate(from + 1, &after),
                at: timestamp(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
            },
            schedule: job.config.optimiser.schedule,
            evaluates: job.config.eval.every > 0 && newest.is_multiple_of(job.config.eval.every),
            lr_from_the_start: rate(newest.max(1), &after),
            short: (from == before.updates() && had < has).then_some((has, had)),
        }))
    }

    /// Notes it and steps back where that is needed. A process that is killed meanwhile leaves the run as long as it was, and its note without effect.
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
            // What is drawn there from now on is of other weights.
            rollouts::remove_evaluations(folder, from);
        } else if !self.evaluates {
            // An evaluation at the old end that was broken off is not due any more.
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
                    "; the checkpoint that it ended with is kept as checkpoints/ended-{step}"
                )?;
            }
        }
        if self.record.redrawn {
            write!(
                f,
                ". The old end cut the last inference phase short, and the rest of it is drawn by the weights after update {from}; in a run of this length from the \
                 start, earlier ones draw it"
            )?;
        }
        if let Some((has, had)) = self.short {
            write!(
                f,
                ". Update {from} was made of {had} instead of {has} prompts, which a run of this length from the start would have asked; the other {} are not asked",
                has - had
            )?;
        }
        Ok(())
    }
}

/// Whether the samples of the phase under way after `step` updates are to be drawn by the weights as they are, since the run was made longer there. Where it goes on from
/// before, the phase is drawn whole, and the note says so from then on.
pub(super) fn resamples(
    folder: &RunFolder,
    schedule: &Schedule,
    step: usize,
) -> Result<bool, TrainError> {
    let mut records = read(folder)?;
    // What was noted by a process that was killed before the run was longer has no effect.
    let effective = |record: &&mut ExtensionRecord| record.updates <= schedule.updates();
    let Some(last) = records.iter_mut().rfind(effective) else {
        return Ok(false);
    };
    if !last.redrawn || last.from < step {
        return Ok(false);
    }
    if last.from == step {
        return Ok(true);
    }
    last.from = step;
    last.redrawn = false;
    write(folder, &records)?;
    Ok(false)
}

/// Updates after which a run of one length stands where a longer one does: all of the shorter one, unless its end cuts a phase short.
fn shared(before: &Schedule, after: &Schedule) -> usize {
    let last = before.phase(before.phases().saturating_sub(1));
    if after.phase(last.index) == last {
        before.updates()
    } else {
        last.first_update
    }
}

/// The newest checkpoint up to `shared` updates that the longer run can go on from, the model's own files among them with `from_the_model`: without a checkpoint, logs
/// of more updates than lie between two say that one was lost. None where it would cost more updates than a kill does.
fn step_back(
    job: &Job,
    begun: &Config,
    after: &Schedule,
    newest: usize,
    shared: usize,
    from_the_model: bool,
) -> Result<Option<usize>, TrainError> {
    let most_lost = begun.algorithm.h + begun.run.checkpoint_every;
    let steps = checkpoint::steps(&job.folder)?;
    let earlier = from_the_model.then_some(0).into_iter().chain(steps);
    let cheap = |step: &usize| *step <= shared && newest - step <= most_lost;
    let goes_on = |step: &usize| {
        job.demonstrations.is_some()
            || rollouts::check(&job.folder, after, *step, &job.prompts.train).is_ok()
    };
    Ok(earlier.filter(cheap).rfind(goes_on))
}

/// Prompts of the update of this number, from 1.
fn prompts_of(schedule: &Schedule, number: usize) -> usize {
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
