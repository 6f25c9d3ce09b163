//! The training loop: evaluate, sample a phase, make its updates, save checkpoints.

use std::time::Instant;

use super::folder::{Log, checkpoint, rollouts};
use super::freeze_config::absolute;
use super::update::UpdateSettings;
use super::{Job, RunOutcome, Summary, TrainError};
use crate::checkpoint_settings::settings_file;
use crate::data::{PhaseSize, PromptRenderer, PromptSchedule};
use crate::record::{Activity, EvalRecord};
use crate::rollout::{RolloutError, SamplingParams};

pub(super) struct Run {
    pub(super) job: Job,
    pub(super) schedule: PromptSchedule,
    pub(super) settings: UpdateSettings,
    /// One for each of the configuration's data sets.
    pub(super) renderers: Vec<PromptRenderer>,
    pub(super) sampling: SamplingParams,
    pub(super) evaluation: SamplingParams,
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
    // The loop has ended, and so has its last activity, such as sampling.
    run.job.clock.enter(Activity::Other);
    if let Some(what) = ended.as_ref().err().and_then(TrainError::not_finite) {
        let _ = run.job.clock.save(&run.job.folder, run.step);
        return Err(run.diverged(what));
    }
    // The user needs the error that ended the loop more than a second one, from a checkpoint or a line that fails for the same reason.
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

    /// Saves a checkpoint unless this step has one. If an update's line could not be logged, it is not saved, so that a resumed run makes it again.
    pub(super) fn checkpoint(&mut self) -> Result<(), TrainError> {
        if self.step == self.saved || self.step != self.logged {
            return Ok(());
        }
        let (folder, policy) = (&self.job.folder, self.job.policy.as_ref());
        let settings = settings_file(&self.job.config, &self.renderers, self.step);
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
    pub(super) fn prune_to(&self, phase: usize, unproven: usize) -> Result<(), TrainError> {
        let (folder, run) = (&self.job.folder, &self.job.config.run);
        let best = self.best.map(|(step, _)| step);
        let outer = self.job.clock.enter(Activity::Checkpoint);
        let remaining = checkpoint::prune(folder, run.keep + unproven, best)?;
        rollouts::prune(folder, &self.schedule, &remaining, phase);
        self.job.clock.enter(outer);
        Ok(())
    }

    /// The error for weights that give NaN or infinite numbers. The weights of an earlier checkpoint computed finite ones.
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
