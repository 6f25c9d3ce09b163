//! The training loop: evaluate, sample a phase, make its updates, save checkpoints.

use std::time::Instant;

use engine::StepReport;

use super::folder::{Log, checkpoint, rollouts};
use super::freeze_config::absolute;
use super::learning_rate::learning_rate;
use super::update::{Place, UpdateSettings, update};
use super::{Job, RunOutcome, Summary, TrainError};
use crate::checkpoint_settings::settings_file;
use crate::data::{Phase, PhaseSize, PromptRenderer, PromptSchedule};
use crate::eval;
use crate::record::{Activity, EvalRecord, StepRecord, StepTimings, TokenWeights};
use crate::rollout::{PhaseSamples, RolloutError, SampledGroup, SamplingParams};

/// A run in progress.
pub(super) struct Run {
    pub(super) job: Job,
    pub(super) schedule: PromptSchedule,
    pub(super) settings: UpdateSettings,
    pub(super) renderer: PromptRenderer,
    pub(super) sampling: SamplingParams,
    pub(super) evaluation: eval::Settings,
    /// Updates made.
    pub(super) step: usize,
    /// Updates with a line in the metrics.
    pub(super) logged: usize,
    /// Updates at the newest checkpoint; 0 stands for the model's own files.
    pub(super) saved: usize,
    /// The choice of the current phase's size, until it is logged.
    pub(super) phase_size: Option<PhaseSize>,
    /// The best evaluation after at least one update: its step and its Pass@1.
    pub(super) best: Option<(usize, f64)>,
    pub(super) started: Instant,
}

/// Trains from the state in the run's folder to the last update.
///
/// # Errors
/// [`TrainError`]. A checkpoint of the last update is saved if that is still possible, and the run can be resumed from it. After
/// [`TrainError::Diverged`] no checkpoint is saved: the run cannot be resumed, and its earlier checkpoints remain for another run.
pub async fn train(job: Job) -> Result<Summary, TrainError> {
    let policies = std::iter::once(&job.policy).chain(&job.reference);
    job.clock
        .watch(policies.filter_map(|policy| policy.device_memory()));
    let mut run = Run::resume(job)?;
    run.job.clock.enter(Activity::Other);
    let ended = match run.train_loop().await {
        Ok(()) => Ok(RunOutcome::Finished),
        Err(TrainError::Rollout(RolloutError::Stopped)) => Ok(RunOutcome::Interrupted),
        Err(error) => Err(error),
    };
    run.job.journal.progress.end();
    // The activity in which the loop ended, such as sampling that was stopped, is over.
    run.job.clock.enter(Activity::Other);
    if let Some(what) = ended.as_ref().err().and_then(TrainError::not_finite) {
        let _ = run.job.clock.save(&run.job.folder, run.step);
        return Err(run.diverged(what));
    }
    // The error that ended the loop is worth more to the user than a checkpoint or a line that fails for the same reason.
    let saved = run.checkpoint();
    let times = run.job.clock.save(&run.job.folder, run.step);
    let ended = ended?;
    saved?;
    let mut times = times?;
    let evals: Vec<EvalRecord> = run.job.folder.read(Log::Eval)?;
    if ended == RunOutcome::Finished {
        // Without an evaluation of the last weights, nothing shows that they compute finite numbers, so the checkpoint before them remains.
        let unproven = evals.iter().all(|eval| eval.step != run.step);
        run.prune_to(usize::MAX, usize::from(unproven))?;
        if !run.job.config.run.keep_state {
            checkpoint::remove_states(&run.job.folder)?;
        }
        times = run.job.clock.save(&run.job.folder, run.step)?;
    }
    Ok(Summary {
        ended,
        step: run.step,
        updates: run.schedule.updates(),
        folder: run.job.folder.root().to_owned(),
        evals,
        times,
    })
}

impl Run {
    /// Trains to the last update. A requested stop ends it with [`RolloutError::Stopped`].
    async fn train_loop(&mut self) -> Result<(), TrainError> {
        self.evaluate_if_due().await?;
        while self.step < self.schedule.updates() {
            self.choose_h()?;
            let phase = self.schedule.phase(self.schedule.phase_of(self.step));
            let samples = self.sample_phase(&phase).await?;
            while self.step < phase.end() {
                if self.job.stop.requested() {
                    return Err(RolloutError::Stopped.into());
                }
                self.update(&phase, &samples)?;
                let every = self.job.config.run.checkpoint_every;
                if every > 0 && self.step.is_multiple_of(every) {
                    self.checkpoint()?;
                }
                self.evaluate_if_due().await?;
            }
        }
        Ok(())
    }

    /// Makes one update and logs it.
    fn update(&mut self, phase: &Phase, samples: &PhaseSamples) -> Result<(), TrainError> {
        let number = self.step - phase.first_update;
        let config = &self.job.config;
        let batch = if config.algorithm.mix_groups {
            samples.mixed(phase, number, config.algorithm.group_size, config.run.seed)
        } else {
            samples.of_update(phase, number)
        };
        let place = Place {
            phase,
            samples,
            number,
        };
        self.job.journal.progress.updating(phase, number);
        let optimiser = &self.job.config.optimiser;
        let lr = learning_rate(optimiser, self.step + 1, self.schedule.updates());
        self.settings.adamw.lr = lr as f32;
        let (policy, settings) = (self.job.policy.as_ref(), self.settings);
        let clock = &self.job.clock;
        let updated =
            tokio::task::block_in_place(|| update(policy, settings, &batch, place, clock));
        clock.enter(Activity::Other);
        let (mut record, report) = updated?;
        record.auto_h = self.phase_size.take();
        // The weights have changed, so no checkpoint of the step before can be saved any more.
        self.step += 1;
        let timings = self.timings(&record, &report, &batch.groups, samples);
        if number > 0 && number + 1 == phase.updates.len() {
            let at = (record.step, record.phase, record.update);
            if let Some(weights) = TokenWeights::of(at, &batch.groups, &report.stats) {
                self.job.folder.append(Log::Weights, &weights)?;
            }
        }
        self.log_update(&record, timings)
    }

    /// The times of an update. The first on new samples has those of sampling them too.
    fn timings(
        &self,
        record: &StepRecord,
        report: &StepReport,
        groups: &[SampledGroup],
        samples: &PhaseSamples,
    ) -> StepTimings {
        let mut stats = report.stats.iter();
        let trained_tokens = |group: &SampledGroup| {
            let own = stats.by_ref().take(group.samples.len());
            let own: usize = own.map(|stats| stats.logp.len()).sum();
            own + group.prompt.tokens.len() * usize::from(own > 0)
        };
        let mut timings = StepTimings {
            step: record.step,
            forward: report.forward.as_secs_f64(),
            backward: report.backward.as_secs_f64(),
            optimiser: report.optimiser.as_secs_f64(),
            exchange: report.exchange.as_secs_f64(),
            trained_tokens: groups.iter().map(trained_tokens).sum(),
            elapsed: self.started.elapsed().as_secs_f64(),
            ..StepTimings::default()
        };
        if record.update == 0 {
            timings.inference = samples.inference.as_secs_f64();
            timings.verify = samples.verify.as_secs_f64();
            timings.sampled_tokens = completion_tokens(&samples.groups);
        }
        timings
    }

    fn log_update(
        &mut self,
        record: &StepRecord,
        mut timings: StepTimings,
    ) -> Result<(), TrainError> {
        let Job {
            journal,
            folder,
            clock,
            ..
        } = &mut self.job;
        let times = clock.save(folder, self.step)?;
        timings.total = times.seconds;
        timings.memory = times.memory;
        timings.device_memory = times.device_memory;
        journal.updated(folder, record, &mut timings)?;
        self.logged = self.step;
        if self.step == self.saved + 1 {
            // This update shows that the weights of the newest checkpoint can be trained further, so older checkpoints can be removed.
            self.prune_to(self.schedule.phase_of(self.step), 0)?;
        }
        Ok(())
    }

    /// Saves a checkpoint unless this step has one. An update whose line could not be logged is not saved, so that a resumed run makes it again.
    pub(super) fn checkpoint(&mut self) -> Result<(), TrainError> {
        if self.step == self.saved || self.step != self.logged {
            return Ok(());
        }
        let (folder, policy) = (&self.job.folder, self.job.policy.as_ref());
        let settings = settings_file(&self.job.config, &self.renderer, self.step);
        let outer = self.job.clock.enter(Activity::Checkpoint);
        let saved =
            tokio::task::block_in_place(|| checkpoint::save(folder, policy, &settings, self.step));
        self.job.clock.enter(outer);
        saved?;
        self.saved = self.step;
        self.job.clock.save(&self.job.folder, self.step)?;
        Ok(())
    }

    /// Removes all checkpoints except the `run.keep` newest, `unproven` more, and the best, and the samples of phases before `phase` that no remaining checkpoint resumes
    /// from.
    fn prune_to(&self, phase: usize, unproven: usize) -> Result<(), TrainError> {
        let (folder, run) = (&self.job.folder, &self.job.config.run);
        let best = self.best.map(|(step, _)| step);
        let outer = self.job.clock.enter(Activity::Checkpoint);
        let remaining = checkpoint::prune(folder, run.keep + unproven, best)?;
        rollouts::prune(folder, &self.schedule, &remaining, phase);
        self.job.clock.enter(outer);
        Ok(())
    }

    /// The error for weights that compute numbers that are not finite. The weights of an earlier checkpoint computed finite ones.
    pub(super) fn diverged(&self, what: &str) -> TrainError {
        let lr = self.job.config.optimiser.lr;
        let steps = checkpoint::steps(&self.job.folder).unwrap_or_default();
        let earlier = steps.into_iter().rfind(|step| *step < self.step);
        let remedy = match earlier {
            Some(step) => format!(
                "Start another run from an earlier checkpoint, with a learning rate below {lr:e}: `--set model.path={} --set optimiser.lr=…`",
                absolute(&checkpoint::folder_of(&self.job.folder, step)).display()
            ),
            None if self.step > 0 => format!(
                "There is no earlier checkpoint; start another run with a learning rate below {lr:e}: `--set optimiser.lr=…`"
            ),
            None => {
                "Training has not changed the weights yet: look for a damaged model file".to_owned()
            }
        };
        TrainError::Diverged {
            step: self.step,
            what: what.to_owned(),
            remedy,
        }
    }
}

fn completion_tokens(groups: &[SampledGroup]) -> usize {
    groups
        .iter()
        .flat_map(|group| &group.samples)
        .map(|sample| sample.tokens.len())
        .sum()
}
