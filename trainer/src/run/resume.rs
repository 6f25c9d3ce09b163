//! Starts or resumes a run at its newest checkpoint, with every log truncated to it.

use std::time::Instant;

use super::folder::{Log, checkpoint, rollouts, truncate};
use super::freeze_config::absolute;
use super::train_loop::Run;
use super::update::UpdateSettings;
use super::{Job, TrainError};
use super::{auto_h, extend};
use crate::config::{self, Config};
use crate::data::{PromptRenderer, PromptSchedule};
use crate::eval;
use crate::record::{ClockRecord, EvalRecord, StepRecord, StepTimings, TokenWeights, best};
use crate::rollout::SamplingParams;

impl Run {
    /// Loads the newest checkpoint, if there is one, and truncates the logs to it. Everything is checked before anything is written.
    pub(super) fn resume(mut job: Job) -> Result<Self, TrainError> {
        let tasks = match &job.demonstrations {
            Some(demonstrations) => demonstrations.len(),
            None => job.prompts.train.len(),
        };
        let folder = &job.folder;
        let step = checkpoint::steps(folder)?.last().copied().unwrap_or(0);
        let logged = truncate::logged(folder)?;
        let previous = previous_config(&job);
        // An update is logged before its checkpoint is saved.
        let every = previous.run.checkpoint_every;
        if step == 0 && every > 0 && logged > every {
            return Err(checkpoint::missing(folder, logged));
        }
        let steps = truncate::to_step(folder, Log::Metrics, step, |it: &StepRecord| it.step)?;
        let timings = truncate::to_step(folder, Log::Timings, step, |it: &StepTimings| it.step)?;
        let evals = truncate::to_step(folder, Log::Eval, step, |it: &EvalRecord| it.step)?;
        let weights = truncate::to_step(folder, Log::Weights, step, |it: &TokenWeights| it.step)?;
        // The time of lost updates was spent too.
        let clock = truncate::to_step(folder, Log::Clock, usize::MAX, |it: &ClockRecord| it.step)?;
        let updates = &steps.records;
        if !updates.iter().map(|update| update.step).eq(1..=step) {
            return Err(TrainError::Refused(format!(
                "{} has {} whole lines, but the checkpoint to continue from was made after {step} updates: lines were removed. Restore the file, or delete the \
                 checkpoints that come after it",
                folder.log(Log::Metrics).display(),
                updates.len()
            )));
        }
        let is_due = |schedule: &PromptSchedule| {
            let logged = evals.records.iter().any(|eval| eval.step == step);
            !logged && job.evaluates() && schedule.evaluates_after(step)
        };
        let extensions = extend::extensions(&job, &previous, tasks, updates, is_due)?;
        let schedule =
            auto_h::schedule(&job.config, tasks, updates).with_mixture(&job.prompts.weights);
        if job.demonstrations.is_none() {
            rollouts::check(folder, &schedule, step, &job.prompts.train)?;
        }
        if step > 0 {
            if checkpoint::has_state(folder, step) {
                checkpoint::load(folder, job.policy.as_ref(), step)?;
            } else if step < schedule.updates() || is_due(&schedule) {
                return Err(TrainError::Refused(format!(
                    "{0} has no state.bin, from which training would go on: a run that has finished removes it, unless `run.keep_state = true` was set before. \
                     Start another run from its weights (`--set model.path={0}`)",
                    absolute(&checkpoint::folder_of(folder, step)).display()
                )));
            }
        }
        if let Some(extensions) = &extensions {
            folder.rewrite(Log::Extensions, extensions)?;
        }
        let (steps, timings, evals) = (steps.write()?, timings.write()?, evals.write()?);
        weights.write()?;
        let clock = clock.write()?;
        if let Some(provenance) = &job.provenance {
            provenance.save(folder)?;
        }
        folder.save_config(&job.config.to_toml())?;
        rollouts::remove_dumps(folder, schedule.phases_begun(step), step);
        rollouts::remove_partial(folder);
        let progress = &job.journal.progress;
        if step > 0 {
            // The process may have been killed between the rename and the link.
            checkpoint::point(folder, "last", step)?;
            let updates = schedule.updates();
            progress.say(&format!("continuing after update {step} of {updates}"));
        }
        if logged > step {
            progress.say(&format!(
                "the updates after {step}, up to {logged}, are made again: no checkpoint has them"
            ));
        }
        if let Some(extension) = extensions.as_ref().and_then(|all| all.last()) {
            progress.say(&extend::message(extension));
        }
        job.journal
            .resume(folder, &job.config, &schedule, (&steps, &timings, &evals))?;
        job.clock.resume(clock, step);
        job.clock.save(folder, step)?;
        // The best evaluation with a checkpoint. A checkpoint may have been removed by hand.
        let is_saved = |eval: &&EvalRecord| checkpoint::folder_of(folder, eval.step).exists();
        let best = best(evals.iter().filter(is_saved));
        if let Some((step, _)) = best {
            checkpoint::point(folder, "best", step)?;
        }
        let sets = job.config.data_sets().into_iter();
        let renderers = sets.map(|set| PromptRenderer::new(&set.data));
        let sampling = SamplingParams {
            samples: job.config.algorithm.group_size,
            seed: job.config.run.seed,
            sampling: engine::Sampling {
                temperature: job.config.sampling.temperature as f32,
                ..engine::Sampling::default()
            },
            min_tokens: 0,
            max_tokens: job.config.sampling.max_tokens,
        };
        Ok(Self {
            settings: UpdateSettings::of(&job.config),
            evaluation: eval::sampling(&job.config),
            renderers: renderers.collect::<Result<_, _>>()?,
            best,
            started: Instant::now(),
            saved: step,
            logged: step,
            phase_size: None,
            schedule,
            sampling,
            step,
            job,
        })
    }
}

/// The configuration that the logged updates were made with. Parts of it may change when a run is resumed.
fn previous_config(job: &Job) -> Config {
    std::fs::read_to_string(job.folder.config())
        .ok()
        .and_then(|text| config::parse("config.toml", &text, &[]).ok())
        .unwrap_or_else(|| job.config.clone())
}
