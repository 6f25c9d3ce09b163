//! The loop itself, and where it stands.

use std::time::Instant;

use engine::StepReport;

use super::evaluation::best;
use super::record::{EvalRecord, StepRecord, StepTimings};
use super::update::{self, Place, Recipe};
use super::{Ended, Job, Log, TrainError, checkpoint, store};
use crate::data::{Asking, Phase, Schedule};
use crate::eval;
use crate::rollout::{self, Drawing, Query, Rollout, RolloutError, SampledGroup};
use crate::seed;

/// A run under way.
pub(super) struct Run {
    pub(super) job: Job,
    pub(super) schedule: Schedule,
    recipe: Recipe,
    drawing: Drawing,
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
    /// Loads the newest checkpoint, where there is one, and cuts the folder's files back to it.
    pub(super) fn take_up(mut job: Job) -> Result<Self, TrainError> {
        let schedule = Schedule::new(&job.config, job.prompts.train.len());
        let step = checkpoint::steps(&job.folder)?.last().copied().unwrap_or(0);
        job.folder.cut_back(step)?;
        store::cut_back_dumps(&job.folder, schedule.phases_begun(step), step);
        if step > 0 {
            checkpoint::load(&job.folder, job.policy.as_ref(), step)?;
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
        while self.step < self.schedule.updates() {
            let phase = self.schedule.phase(self.schedule.phase_of(self.step));
            let Some(rollout) = self.samples_of(&phase).await? else {
                return Ok(Ended::Interrupted);
            };
            let mut timings = StepTimings {
                inference: rollout.inference.as_secs_f64(),
                verify: rollout.verify.as_secs_f64(),
                sampled_tokens: tokens(&rollout.groups),
                ..StepTimings::default()
            };
            while self.step < phase.first_update + phase.updates.len() {
                if self.job.stop.requested() {
                    return Ok(Ended::Interrupted);
                }
                let timings = if self.step == phase.first_update {
                    std::mem::take(&mut timings)
                } else {
                    StepTimings::default()
                };
                self.update(&phase, &rollout, timings)?;
                if !self.evaluate().await? {
                    return Ok(Ended::Interrupted);
                }
            }
        }
        Ok(Ended::Finished)
    }

    /// The phase's samples: from disk where they are there, else drawn and judged now. `None` where the end was asked for meanwhile.
    async fn samples_of(&mut self, phase: &Phase) -> Result<Option<Rollout>, TrainError> {
        let rollout = match store::load(&self.job.folder, phase, &self.job.prompts.train) {
            Some(rollout) => rollout,
            // The policy that drew this phase's samples is gone.
            None if self.step > phase.first_update => {
                return Err(store::missing(&self.job.folder, phase));
            }
            None => match self.draw(phase).await? {
                Some(rollout) => rollout,
                None => return Ok(None),
            },
        };
        self.job
            .journal
            .sampled(&self.job.folder, phase, &rollout)?;
        Ok(Some(rollout))
    }

    async fn draw(&mut self, phase: &Phase) -> Result<Option<Rollout>, TrainError> {
        let run_seed = self.job.config.run.seed;
        let queries: Vec<Query> = phase
            .slots()
            .map(|slot| {
                let prompt = self.job.prompts.train[slot.prompt].clone();
                let seeds = (0..self.job.config.algorithm.group_size)
                    .map(|sample| seed::of_sample(run_seed, slot.epoch, &prompt.task.id, sample))
                    .collect();
                Query { prompt, seeds }
            })
            .collect();
        let progress = &mut self.job.journal.progress;
        let mut watch = |tally: &rollout::Tally| progress.drawing(phase.index, tally);
        let drawn = rollout::collect(
            &self.job.policy,
            &self.job.rewards,
            &queries,
            &self.drawing,
            &self.job.stop,
            &mut watch,
        )
        .await;
        let rollout = match drawn {
            Ok(rollout) => rollout,
            Err(RolloutError::Stopped) => return Ok(None),
            Err(error) => return Err(TrainError::Rollout(error)),
        };
        self.check_masked(phase, &rollout)?;
        store::save(&self.job.folder, phase, &rollout)?;
        Ok(Some(rollout))
    }

    fn check_masked(&self, phase: &Phase, rollout: &Rollout) -> Result<(), TrainError> {
        let all = rollout.groups.iter().map(|group| group.samples.len()).sum();
        let masked: Vec<_> = rollout
            .groups
            .iter()
            .flat_map(|group| &group.samples)
            .filter(|sample| sample.judged.reward.is_none())
            .collect();
        let limit = self.job.config.verifier.max_masked;
        if let Some(last) = masked.last()
            && masked.len() as f64 > limit * all as f64
        {
            let reason = last.judged.detail.to_string();
            return Err(TrainError::Masked {
                phase: phase.index,
                masked: masked.len(),
                all,
                limit,
                reason,
            });
        }
        Ok(())
    }

    /// One update, its lines, and a checkpoint where one is due.
    fn update(
        &mut self,
        phase: &Phase,
        rollout: &Rollout,
        mut timings: StepTimings,
    ) -> Result<(), TrainError> {
        let number = self.step - phase.first_update;
        let before: usize = phase.updates[..number].iter().map(Vec::len).sum();
        let slots = &phase.updates[number];
        let groups = &rollout.groups[before..before + slots.len()];
        let place = Place {
            step: self.step + 1,
            phase: phase.index,
            update: number,
            phase_updates: phase.updates.len(),
            epoch: slots.last().map_or(0, |slot| slot.epoch),
        };
        self.job.journal.progress.updating(place);
        let policy = self.job.policy.clone();
        let (record, report) = tokio::task::block_in_place(|| {
            update::update(policy.as_ref(), self.recipe, groups, place)
        })?;
        self.step += 1;
        self.note(&record, &report, groups, &mut timings)?;
        let every = self.job.config.run.checkpoint_every;
        if every > 0 && self.step.is_multiple_of(every) {
            self.checkpoint()?;
        }
        Ok(())
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
        let oldest = checkpoint::prune(
            folder,
            self.job.config.run.keep,
            self.best.map(|(step, _)| step),
        )?;
        store::prune(folder, self.schedule.phase_of(oldest.unwrap_or(self.step)));
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
