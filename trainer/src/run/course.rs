//! The loop itself, and where it stands.

use std::time::Instant;

use engine::StepReport;

use super::cut::Cut;
use super::draw::Drawn;
use super::evaluation::best;
use super::extend::{self, Extension};
use super::learning_rate::learning_rate;
use super::paths::in_full;
use super::record::{EvalRecord, StepRecord, StepTimings};
use super::update::{self, Place, Recipe};
use super::{Ended, Job, Log, TrainError, checkpoint, cut, store};
use crate::carried::Card;
use crate::config::{self, Config};
use crate::data::{Asking, Phase, Schedule};
use crate::eval;
use crate::rollout::{Drawing, SampledGroup};

/// A run under way.
pub(super) struct Run {
    pub(super) job: Job,
    pub(super) schedule: Schedule,
    recipe: Recipe,
    /// What its checkpoints carry.
    card: Card,
    pub(super) drawing: Drawing,
    pub(super) evaluation: eval::Settings,
    /// Updates done.
    pub(super) step: usize,
    /// Updates with a whole line in the metrics.
    logged: usize,
    /// Updates done at the newest checkpoint; 0 is the model's own files.
    saved: usize,
    /// The update before which the samples at hand were found out of date.
    stale: Option<usize>,
    /// The best evaluation after at least one update: its step and its Pass@1.
    pub(super) best: Option<(usize, f64)>,
    started: Instant,
}

impl Run {
    /// Loads the newest checkpoint, where there is one, and cuts the folder's files back to it. Nothing is written before everything is found in order.
    pub(super) fn take_up(mut job: Job) -> Result<Self, TrainError> {
        let things = match &job.lessons {
            Some(lessons) => lessons.len(),
            None => job.prompts.train.len(),
        };
        let schedule = Schedule::new(&job.config, things);
        let newest = checkpoint::steps(&job.folder)?.last().copied().unwrap_or(0);
        let logged = cut::logged(&job.folder)?;
        let begun = begun(&job);
        // The line of the update comes before its checkpoint.
        let every = begun.run.checkpoint_every;
        if newest == 0 && every > 0 && logged > every {
            return Err(TrainError::NoCheckpoint {
                path: job.folder.checkpoints(),
                updates: logged,
            });
        }
        let extension = Extension::of(&job, &begun, things, newest, logged)?;
        let (step, redraws) = match &extension {
            Some(Extension { record, .. }) => (record.from, record.redrawn),
            None => (newest, extend::redraws(&job.folder, &schedule, newest)?),
        };
        let cuts = cut::cuts(&job.folder, step)?;
        if job.lessons.is_none() && !redraws {
            store::goes_on(&job.folder, &schedule, step, &job.prompts.train)?;
        }
        if step > 0 {
            checkpoint::load(&job.folder, job.policy.as_ref(), step)?;
        }
        if let Some(extension) = &extension {
            extension.begin(&job.folder)?;
        }
        cuts.iter().try_for_each(Cut::make)?;
        job.folder.save_config(&job.config.to_toml())?;
        store::cut_back_dumps(&job.folder, schedule.phases_begun(step), step);
        if step > 0 {
            // A process may have been killed between the two.
            checkpoint::mark_last(&job.folder, step)?;
            job.journal.progress.say(&format!(
                "continuing after update {step} of {}",
                schedule.updates()
            ));
        }
        if let Some(lost) = made_anew(newest, logged) {
            job.journal.progress.say(&lost);
        }
        if let Some(extension) = &extension {
            let warning = if extension.record.equal {
                ""
            } else {
                "warning: "
            };
            job.journal.progress.say(&format!("{warning}{extension}"));
        }
        job.journal
            .take_up(&job.folder, &job.config, &schedule, step, redraws)?;
        let evals: Vec<EvalRecord> = job.folder.read(Log::Eval)?;
        // What is no longer there was removed by hand, or left behind where the run stepped back.
        let kept: Vec<EvalRecord> = evals
            .into_iter()
            .filter(|eval| checkpoint::folder_of(&job.folder, eval.step).exists())
            .collect();
        let best = best(&kept);
        if let Some((step, _)) = best {
            checkpoint::mark_best(&job.folder, step)?;
        }
        let asking = Asking::new(&job.config.data)?;
        let drawing = Drawing {
            sampling: engine::Sampling {
                temperature: job.config.sampling.temperature as f32,
                ..engine::Sampling::default()
            },
            max_tokens: job.config.sampling.max_tokens,
            stop_strings: asking.stop_strings().to_vec(),
        };
        Ok(Self {
            recipe: Recipe::of(&job.config),
            card: Card::of(&job.config, &asking),
            evaluation: eval::Settings::of(&job.config, asking.stop_strings()),
            best,
            started: Instant::now(),
            saved: step,
            logged: step,
            stale: redraws.then_some(step),
            schedule,
            drawing,
            step,
            job,
        })
    }

    /// Every update that is left, with the evaluations that are due.
    pub(super) async fn go(&mut self) -> Result<Ended, TrainError> {
        if !self.evaluate().await? {
            return Ok(Ended::Interrupted);
        }
        while self.step < self.schedule.updates() {
            let phase = self.schedule.phase(self.schedule.phase_of(self.step));
            let from = self.step - phase.first_update;
            let anew = self.stale.take() == Some(self.step);
            let Some(drawn) = self.samples_of(&phase, from, anew).await? else {
                return Ok(Ended::Interrupted);
            };
            let mut timings = StepTimings {
                inference: drawn.inference.as_secs_f64(),
                verify: drawn.verify.as_secs_f64(),
                sampled_tokens: tokens(&drawn.groups),
                ..StepTimings::default()
            };
            while self.step < phase.first_update + phase.updates.len() {
                if self.job.stop.requested() {
                    return Ok(Ended::Interrupted);
                }
                let timings = if self.step == phase.first_update + drawn.from {
                    std::mem::take(&mut timings)
                } else {
                    StepTimings::default()
                };
                if !self.update(&phase, &drawn, timings)? {
                    self.stale = Some(self.step);
                    break;
                }
                if !self.evaluate().await? {
                    return Ok(Ended::Interrupted);
                }
            }
        }
        Ok(Ended::Finished)
    }

    /// One update, its lines, and a checkpoint where one is due. False where the samples are too far from the policy, and nothing was done.
    fn update(
        &mut self,
        phase: &Phase,
        drawn: &Drawn,
        mut timings: StepTimings,
    ) -> Result<bool, TrainError> {
        let number = self.step - phase.first_update;
        let mixed;
        let groups = if self.job.config.algorithm.mix_groups {
            mixed = drawn.mixed(phase, number, self.job.config.run.seed);
            &mixed
        } else {
            drawn.of_update(phase, number)
        };
        let fresh = number == drawn.from;
        let place = Place {
            step: self.step + 1,
            phase: phase.index,
            update: number,
            phase_updates: phase.updates.len(),
            epoch: phase.updates[number].last().map_or(0, |slot| slot.epoch),
            fresh,
            dropped: if fresh { drawn.dropped } else { 0 },
            drawn_reward: drawn.reward.filter(|_| fresh),
        };
        self.job.journal.progress.updating(place);
        let policy = self.job.policy.clone();
        let optimiser = &self.job.config.optimiser;
        let lr = learning_rate(optimiser, self.step + 1, self.schedule.updates());
        let recipe = self.recipe.at_rate(lr);
        let outcome =
            tokio::task::block_in_place(|| update::update(policy.as_ref(), recipe, groups, place))?;
        let Some((record, report)) = outcome else {
            self.job.journal.progress.say(&format!(
                "the samples left of phase {} are too far from the policy (`algorithm.adaptive_h`); they are drawn again",
                phase.index + 1
            ));
            return Ok(false);
        };
        self.step += 1;
        self.note(&record, &report, groups, &mut timings)?;
        if self.step == self.saved + 1 {
            // Only now is it known that the weights of the newest checkpoint can be trained further, so that those before it are done without.
            self.prune()?;
        }
        let every = self.job.config.run.checkpoint_every;
        if every > 0 && self.step.is_multiple_of(every) {
            self.checkpoint()?;
        }
        Ok(true)
    }

    fn note(
        &mut self,
        record: &StepRecord,
        report: &StepReport,
        groups: &[SampledGroup],
        timings: &mut StepTimings,
    ) -> Result<(), TrainError> {
        timings.step = record.step;
        timings.forward = report.forward.as_secs_f64();
        timings.backward = report.backward.as_secs_f64();
        timings.optimiser = report.optimiser.as_secs_f64();
        timings.trained_tokens = tokens(groups)
            + groups
                .iter()
                .map(|group| group.prompt.tokens.len())
                .sum::<usize>();
        timings.elapsed = self.started.elapsed().as_secs_f64();
        self.job
            .journal
            .updated(&self.job.folder, record, timings)?;
        self.logged = self.step;
        Ok(())
    }

    /// Saves where the run stands, unless it is saved already. An update whose line could not be written is not saved: it will be made again.
    pub(super) fn checkpoint(&mut self) -> Result<(), TrainError> {
        if self.step == self.saved || self.step != self.logged {
            return Ok(());
        }
        let (folder, policy) = (&self.job.folder, self.job.policy.as_ref());
        tokio::task::block_in_place(|| checkpoint::save(folder, policy, &self.card, self.step))?;
        self.saved = self.step;
        Ok(())
    }

    /// Leaves the checkpoints that are to be kept, and the samples that the run would go on with from one of them.
    fn prune(&self) -> Result<(), TrainError> {
        self.leave(self.schedule.phase_of(self.step))
    }

    /// As [`Run::prune`], once there are no more updates.
    pub(super) fn tidy(&self) -> Result<(), TrainError> {
        self.leave(usize::MAX)
    }

    /// Of the samples, those of the phases from `first` on stay whatever is kept.
    fn leave(&self, first: usize) -> Result<(), TrainError> {
        let (folder, run) = (&self.job.folder, &self.job.config.run);
        let best = self.best.map(|(step, _)| step);
        let kept = checkpoint::prune(folder, run.keep, best)?;
        store::prune(folder, &self.schedule, &kept, first);
        Ok(())
    }

    /// That the weights as they are, after the updates done, compute numbers that are not finite. Those of an earlier checkpoint did not.
    pub(super) fn diverged(&self, what: &str) -> TrainError {
        let lr = self.job.config.optimiser.lr;
        let steps = checkpoint::steps(&self.job.folder).unwrap_or_default();
        let before = steps.into_iter().rfind(|step| *step < self.step);
        let remedy = match before {
            Some(step) => format!(
                "Start another run from a checkpoint of before, with a learning rate below {lr:e}: `--set model.path={} --set optimiser.lr=…`",
                in_full(&checkpoint::folder_of(&self.job.folder, step)).display()
            ),
            None if self.step > 0 => format!(
                "There is no checkpoint of before; start another run with a learning rate below {lr:e}: `--set optimiser.lr=…`"
            ),
            None => {
                "Training has changed nothing yet: look for a broken file of the model".to_owned()
            }
        };
        TrainError::Diverged {
            step: self.step,
            what: what.to_owned(),
            remedy,
        }
    }
}

/// The configuration by which the updates in the logs were made: some of it may change where a run is continued.
fn begun(job: &Job) -> Config {
    std::fs::read_to_string(job.folder.config())
        .ok()
        .and_then(|text| config::parse("config.toml", &text, &[]).ok())
        .unwrap_or_else(|| job.config.clone())
}

/// What is said of updates whose lines are cut off: all those in the logs beyond the checkpoint.
fn made_anew(step: usize, logged: usize) -> Option<String> {
    match logged.checked_sub(step)? {
        0 => None,
        1 => Some(format!(
            "update {logged} is made again: no checkpoint has it"
        )),
        _ => Some(format!(
            "updates {} to {logged} are made again: no checkpoint has them",
            step + 1
        )),
    }
}

fn tokens(groups: &[SampledGroup]) -> usize {
    groups
        .iter()
        .flat_map(|group| &group.samples)
        .map(|sample| sample.tokens.len())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn updates_that_no_checkpoint_has_are_named() {
        assert_eq!(made_anew(4, 4), None);
        let said = made_anew(4, 5).unwrap();
        assert_eq!(said, "update 5 is made again: no checkpoint has it");
        let said = made_anew(0, 3).unwrap();
        assert_eq!(
            said,
            "updates 1 to 3 are made again: no checkpoint has them"
        );
    }
}
