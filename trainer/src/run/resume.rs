//! Starts or resumes a run at its newest checkpoint, with every log truncated to it.

use std::time::Instant;

use super::choose_h::{self, EssOfPhase};
use super::extend::{self, Extension};
use super::folder::truncate::{self, Truncation};
use super::folder::{Log, checkpoint, rollouts};
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
        let newest = checkpoint::steps(&job.folder)?.last().copied().unwrap_or(0);
        let logged = truncate::logged(&job.folder)?;
        let previous = previous_config(&job);
        // An update is logged before its checkpoint is saved.
        let every = previous.run.checkpoint_every;
        if newest == 0 && every > 0 && logged > every {
            return Err(TrainError::NoCheckpoint {
                path: job.folder.checkpoints(),
                updates: logged,
            });
        }
        let extension = Extension::of(&job, &previous, tasks, newest)?;
        let step = extension
            .as_ref()
            .map_or(newest, |extension| extension.record.from);
        let updates = truncate::updates(&job.folder, step)?;
        let schedule = choose_h::schedule(&job.config, tasks, &updates);
        let resample = match &extension {
            Some(extension) => extension.record.resampled,
            None => extend::resamples(&job.folder, &schedule, newest)?,
        };
        let truncations = truncate::to_step(&job.folder, step)?;
        let clock: Vec<ClockRecord> = job.folder.read(Log::Clock)?;
        if job.demonstrations.is_none() && !resample {
            rollouts::check(&job.folder, &schedule, step, &job.prompts.train)?;
        }
        if step > 0 {
            if checkpoint::has_state(&job.folder, step) {
                checkpoint::load(&job.folder, job.policy.as_ref(), step)?;
            } else if step < schedule.updates() || evaluation_is_due(&job, &schedule, step)? {
                let folder = absolute(&checkpoint::folder_of(&job.folder, step));
                return Err(TrainError::NoState(folder));
            }
        }
        if let Some(extension) = &extension {
            extension.begin(&job.folder)?;
        }
        truncations.iter().try_for_each(Truncation::apply)?;
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
        if let Some(repeated) = repeated_updates(newest, logged) {
            job.journal.progress.say(&repeated);
        }
        if let Some(extension) = &extension {
            let warning = if extension.record.equal {
                ""
            } else {
                "warning: "
            };
            job.journal.progress.say(&format!("{warning}{extension}"));
        }
        let evaluates = job.evaluates();
        job.journal.resume(
            &job.folder,
            &job.config,
            &schedule,
            step,
            resample,
            evaluates,
        )?;
        job.clock.resume(&clock, step);
        let times = job.clock.save(&job.folder, step)?;
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
            updating: times.updating(),
            saved: step,
            logged: step,
            resample,
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

/// The best evaluation whose checkpoint exists. A checkpoint may have been removed by hand, or by a run that stepped back.
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

/// The message about updates that are logged but in no checkpoint, if there are any.
fn repeated_updates(step: usize, logged: usize) -> Option<String> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn updates_that_no_checkpoint_has_are_named() {
        assert_eq!(repeated_updates(4, 4), None);
        let message = repeated_updates(4, 5).unwrap();
        assert_eq!(message, "update 5 is made again: no checkpoint has it");
        let message = repeated_updates(0, 3).unwrap();
        assert_eq!(
            message,
            "updates 1 to 3 are made again: no checkpoint has them"
        );
    }
}
