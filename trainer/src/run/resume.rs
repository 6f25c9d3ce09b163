//! Starts or resumes a run at its newest checkpoint, with every log truncated to it.

use std::time::Instant;

use super::choose_h::{self, EssOfPhase};
use super::extend::Extension;
use super::folder::{Log, checkpoint, rollouts, truncate, write_whole};
use super::freeze_config::absolute;
use super::train_loop::Run;
use super::update::UpdateSettings;
use super::{Job, TrainError};
use crate::checkpoint_settings::SettingsFile;
use crate::config::{self, Config};
use crate::data::{PromptRenderer, PromptSchedule};
use crate::eval;
use crate::record::{ClockRecord, EvalRecord, best};
use crate::rollout::SamplingParams;

impl Run {
    /// Loads the newest checkpoint, if there is one, and truncates the logs to it. Everything is checked before anything is written.
    pub(super) fn resume(mut job: Job) -> Result<Self, TrainError> {
        let tasks = match &job.demonstrations {
            Some(demonstrations) => demonstrations.len(),
            None => job.prompts.train.len(),
        };
        let step = checkpoint::steps(&job.folder)?.last().copied().unwrap_or(0);
        let logged = truncate::logged(&job.folder)?;
        let previous = previous_config(&job);
        // An update is logged before its checkpoint is saved.
        let every = previous.run.checkpoint_every;
        if step == 0 && every > 0 && logged > every {
            return Err(checkpoint::missing(&job.folder, logged));
        }
        let extension = Extension::of(&job, &previous, tasks, step)?;
        let updates = truncate::updates(&job.folder, step)?;
        let schedule = choose_h::schedule(&job.config, tasks, &updates);
        let truncations = truncate::to_step(&job.folder, step)?;
        let clock: Vec<ClockRecord> = job.folder.read(Log::Clock)?;
        if job.demonstrations.is_none() {
            rollouts::check(&job.folder, &schedule, step, &job.prompts.train)?;
        }
        if step > 0 {
            if checkpoint::has_state(&job.folder, step) {
                checkpoint::load(&job.folder, job.policy.as_ref(), step)?;
            } else if step < schedule.updates() || evaluation_is_due(&job, &schedule, step)? {
                let folder = absolute(&checkpoint::folder_of(&job.folder, step));
                return Err(TrainError::Refused(format!(
                    "{0} has no state.bin, from which training would go on: a run that has finished removes it, unless `run.keep_state = true` was set before. \
                     Start another run from its weights (`--set model.path={0}`)",
                    folder.display()
                )));
            }
        }
        if let Some(extension) = &extension {
            extension.begin(&job.folder)?;
        }
        for (log, content) in truncations {
            write_whole(&log, &content)?;
        }
        if let Some(provenance) = &job.provenance {
            provenance.save(&job.folder)?;
        }
        job.folder.save_config(&job.config.to_toml())?;
        rollouts::remove_dumps(&job.folder, schedule.phases_begun(step), step);
        rollouts::remove_partial(&job.folder);
        if step > 0 {
            // The process may have been killed between the rename and the link.
            checkpoint::mark_last(&job.folder, step)?;
            job.journal.progress.say(&format!(
                "continuing after update {step} of {}",
                schedule.updates()
            ));
        }
        if logged > step {
            job.journal.progress.say(&format!(
                "the updates after {step}, up to {logged}, are made again: no checkpoint has them"
            ));
        }
        if let Some(extension) = &extension {
            job.journal.progress.say(&extension.message);
        }
        job.journal
            .resume(&job.folder, &job.config, &schedule, step)?;
        job.clock.resume(&clock, step);
        job.clock.save(&job.folder, step)?;
        let best = best_with_checkpoint(&job)?;
        if let Some((step, _)) = best {
            checkpoint::mark_best(&job.folder, step)?;
        }
        let renderer = PromptRenderer::new(&job.config.data)?;
        let sampling = SamplingParams {
            sampling: engine::Sampling {
                temperature: job.config.sampling.temperature as f32,
                ..engine::Sampling::default()
            },
            min_tokens: 0,
            max_tokens: job.config.sampling.max_tokens,
            stop_strings: renderer.stop_strings().to_vec(),
        };
        Ok(Self {
            settings: UpdateSettings::of(&job.config),
            settings_file: SettingsFile::of(&job.config, &renderer),
            evaluation: eval::Settings::of(&job.config, renderer.stop_strings()),
            best,
            started: Instant::now(),
            saved: step,
            logged: step,
            phase_size: None,
            ess_of_phase: EssOfPhase::of(&updates),
            schedule,
            sampling,
            step,
            job,
        })
    }
}

/// Whether an evaluation after `step` updates is required and not logged. Without one, a run that has made all updates has finished, and needs no weights.
pub(super) fn evaluation_is_due(
    job: &Job,
    schedule: &PromptSchedule,
    step: usize,
) -> Result<bool, TrainError> {
    let evals: Vec<EvalRecord> = job.folder.read(Log::Eval)?;
    let logged = evals.iter().any(|eval| eval.step == step);
    Ok(!logged && job.evaluates() && schedule.evaluates_after(step))
}

/// The best evaluation whose checkpoint exists. A checkpoint may have been removed by hand.
fn best_with_checkpoint(job: &Job) -> Result<Option<(usize, f64)>, TrainError> {
    let mut evals: Vec<EvalRecord> = job.folder.read(Log::Eval)?;
    evals.retain(|eval| checkpoint::folder_of(&job.folder, eval.step).exists());
    Ok(best(&evals))
}

/// The configuration that the logged updates were made with. Parts of it may change when a run is resumed.
fn previous_config(job: &Job) -> Config {
    std::fs::read_to_string(job.folder.config())
        .ok()
        .and_then(|text| config::parse("config.toml", &text, &[]).ok())
        .unwrap_or_else(|| job.config.clone())
}
