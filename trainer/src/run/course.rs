//! The loop itself, and where it stands.

use std::time::Instant;

use engine::StepReport;

use super::cut::Cut;
use super::draw::Drawn;
use super::evaluation::best;
use super::learning_rate::learning_rate;
use super::record::{EvalRecord, StepRecord, StepTimings};
use super::update::{self, Place, Recipe};
use super::{Ended, Job, Log, TrainError, checkpoint, cut, store};
use crate::data::{Asking, Phase, Schedule};
use crate::eval;
use crate::rollout::{Drawing, SampledGroup};

/// A run under way.
pub(super) struct Run {
    pub(super) job: Job,
    pub(super) schedule: Schedule,
    recipe: Recipe,
    pub(super) drawing: Drawing,
    pub(super) evaluation: eval::Settings,
    /// Updates done.
    pub(super) step: usize,
    /// Updates with a whole line in the metrics.
    logged: usize,
    /// Updates done at the newest checkpoint; 0 is the model's own files.
    saved: usize,
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
        let step = checkpoint::steps(&job.folder)?.last().copied().unwrap_or(0);
        let cuts = cut::cuts(&job.folder, step)?;
        if job.lessons.is_none() {
            store::goes_on(&job.folder, &schedule, step, &job.prompts.train)?;
        }
        if step > 0 {
            checkpoint::load(&job.folder, job.policy.as_ref(), step)?;
        }
        job.folder.save_config(&job.config.to_toml())?;
        cuts.iter().try_for_each(Cut::make)?;
        store::cut_back_dumps(&job.folder, schedule.phases_begun(step), step);
        if step > 0 {
            job.journal.progress.say(&format!(
                "continuing after update {step} of {}",
                schedule.updates()
            ));
        }
        job.journal
            .take_up(&job.folder, &job.config, &schedule, step)?;
        let evals: Vec<EvalRecord> = job.folder.read(Log::Eval)?;
        let best = best(&evals);
        if let Some((step, _)) =
            best.filter(|(step, _)| checkpoint::folder_of(&job.folder, *step).exists())
        {
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
            evaluation: eval::Settings::of(&job.config, asking.stop_strings()),
            best,
            started: Instant::now(),
            saved: step,
            logged: step,
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
        // The update before which the samples at hand were found out of date.
        let mut stale = None;
        while self.step < self.schedule.updates() {
            let phase = self.schedule.phase(self.schedule.phase_of(self.step));
            let from = self.step - phase.first_update;
            let anew = stale.take() == Some(self.step);
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
                    stale = Some(self.step);
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
        let place = Place {
            step: self.step + 1,
            phase: phase.index,
            update: number,
            phase_updates: phase.updates.len(),
            epoch: phase.updates[number].last().map_or(0, |slot| slot.epoch),
            fresh: number == drawn.from,
            dropped: if number == drawn.from {
                drawn.dropped
            } else {
                0
            },
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
                "the samples left of phase {} are too far from the policy (`algorithm.adaptive_h`); they are drawn anew",
                phase.index + 1
            ));
            return Ok(false);
        };
        self.step += 1;
        self.note(&record, &report, groups, &mut timings)?;
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
        tokio::task::block_in_place(|| checkpoint::save(folder, policy, self.step))?;
        self.saved = self.step;
        let kept = checkpoint::prune(
            folder,
            self.job.config.run.keep,
            self.best.map(|(step, _)| step),
        )?;
        let under_way = self.schedule.phase_of(self.step);
        store::prune(folder, &self.schedule, &kept, under_way);
        Ok(())
    }

    /// Leaves of the samples on disk those that a checkpoint needs, once there are no more updates.
    pub(super) fn tidy(&self) -> Result<(), TrainError> {
        let kept = checkpoint::steps(&self.job.folder)?;
        store::prune(&self.job.folder, &self.schedule, &kept, usize::MAX);
        Ok(())
    }
}

fn tokens(groups: &[SampledGroup]) -> usize {
    groups
        .iter()
        .flat_map(|group| &group.samples)
        .map(|sample| sample.tokens.len())
        .sum()
}
