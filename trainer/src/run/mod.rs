//! The loop: inference phases of H × N_step completions, H updates each, evaluation, checkpoints; and taking it up again to the bit.
//!
//! What makes a continued run equal to one never killed: weights, moments and the update count come back to the bit from the newest checkpoint;
//! the data's order and every sample's seed are pure functions of the run's seed ([`crate::seed`]); the samples of a phase are on disk before
//! its first update; and every file is cut back to the checkpoint before the first line is added.

mod checkpoint;
mod error;
mod folder;
mod launch;
mod plan;
mod progress;
pub mod record;
mod store;
mod update;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use engine::StepReport;

use crate::config::Config;
use crate::data::{Asking, Phase, Prompts, Schedule};
use crate::eval;
use crate::policy::Policy;
use crate::reward::RewardClient;
use crate::rollout::{self, Drawing, Query, Rollout, RolloutError, SampledGroup};
use crate::seed;
use crate::stop::Stop;

pub use checkpoint::folder_of as checkpoint_folder;
pub use error::TrainError;
pub use folder::{Log, RunFolder, read_log};
pub use launch::{Launch, Target, launch, locate_model, resume_config};
pub use plan::Plan;
pub use progress::Progress;
use record::{EvalRecord, StepRecord, StepTimings};
use update::{Place, Recipe};

/// Everything that a run works with.
pub struct Job {
    /// The resolved configuration.
    pub config: Config,
    /// The model, as its files have it; a continued run's state is loaded into it.
    pub policy: Arc<dyn Policy>,
    /// Where rewards come from.
    pub rewards: RewardClient,
    /// The tasks.
    pub prompts: Prompts,
    /// Where everything is kept.
    pub folder: RunFolder,
    /// The end, where it is asked for.
    pub stop: Stop,
    /// Where its course is told.
    pub progress: Progress,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// After its last update.
    Finished,
    /// Because it was asked to; it can be continued.
    Interrupted,
}

/// What a run came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// How it ended.
    pub ended: Ended,
    /// Updates done.
    pub step: usize,
    /// Updates in all.
    pub updates: usize,
    /// The run folder.
    pub folder: PathBuf,
    /// The evaluations so far, in order.
    pub evals: Vec<EvalRecord>,
}

/// Trains from where the folder stands to the last update.
///
/// # Errors
/// [`TrainError`]. The run can be continued from its last checkpoint, which is made at the last update done wherever that is still possible.
pub async fn train(job: Job) -> Result<Summary, TrainError> {
    let mut run = Run::take_up(job)?;
    let ended = run.go().await;
    run.job.progress.end();
    // What led here is worth more to the user than a checkpoint that fails for the same reason.
    let saved = run.checkpoint();
    let ended = ended?;
    saved?;
    if ended == Ended::Finished {
        store::prune(&run.job.folder, usize::MAX);
    }
    Ok(Summary {
        ended,
        step: run.step,
        updates: run.schedule.updates(),
        folder: run.job.folder.root().to_owned(),
        evals: run.job.folder.read(Log::Eval)?,
    })
}

/// A run under way.
struct Run {
    job: Job,
    schedule: Schedule,
    recipe: Recipe,
    drawing: Drawing,
    evaluation: eval::Settings,
    /// Updates done.
    step: usize,
    /// Updates with a whole line in the metrics.
    logged: usize,
    /// Updates done at the newest checkpoint; 0 is the model's own files.
    saved: usize,
    /// The best evaluation after at least one update: its step and its Pass@1.
    best: Option<(usize, f64)>,
    started: Instant,
}

impl Run {
    /// Loads the newest checkpoint, where there is one, and cuts the folder's files back to it.
    fn take_up(mut job: Job) -> Result<Self, TrainError> {
        let schedule = Schedule::new(&job.config, job.prompts.train.len());
        let step = checkpoint::steps(&job.folder)?.last().copied().unwrap_or(0);
        job.folder.cut_back(step)?;
        store::cut_back_dumps(&job.folder, schedule.phase_of(step), step);
        if step > 0 {
            checkpoint::load(&job.folder, job.policy.as_ref(), step)?;
            job.progress.say(&format!("continuing after update {step} of {}", schedule.updates()));
        }
        let evals: Vec<EvalRecord> = job.folder.read(Log::Eval)?;
        let best = best(&evals);
        if let Some((step, _)) = best.filter(|(step, _)| checkpoint_folder(&job.folder, *step).exists()) {
            checkpoint::mark_best(&job.folder, step)?;
        }
        let asking = Asking::new(&job.config.data)?;
        let drawing = Drawing {
            sampling: engine::Sampling { temperature: job.config.sampling.temperature as f32, ..engine::Sampling::default() },
            max_tokens: job.config.sampling.max_tokens,
            stop_strings: asking.stop_strings().to_vec(),
        };
        job.progress.begin(schedule.updates(), step);
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

    async fn go(&mut self) -> Result<Ended, TrainError> {
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
                let timings = if self.step == phase.first_update { std::mem::take(&mut timings) } else { StepTimings::default() };
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
            None if self.step > phase.first_update => return Err(store::missing(&self.job.folder, phase)),
            None => match self.draw(phase).await? {
                Some(rollout) => rollout,
                None => return Ok(None),
            },
        };
        store::dump_phase(&self.job.folder, phase.index, &rollout.groups)?;
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
        let what = format!("phase {}/{}", phase.index + 1, self.schedule.phases());
        let progress = &mut self.job.progress;
        let mut watch = |tally: &rollout::Tally| progress.sampling(&what, tally);
        let drawn = rollout::collect(&self.job.policy, &self.job.rewards, &queries, &self.drawing, &self.job.stop, &mut watch).await;
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
            return Err(TrainError::Masked { phase: phase.index, masked: masked.len(), all, limit, reason });
        }
        Ok(())
    }

    /// One update, its lines, and a checkpoint where one is due.
    fn update(&mut self, phase: &Phase, rollout: &Rollout, mut timings: StepTimings) -> Result<(), TrainError> {
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
        self.job.progress.updating(self.step);
        let policy = self.job.policy.clone();
        let (record, report) = tokio::task::block_in_place(|| update::update(policy.as_ref(), self.recipe, groups, place))?;
        self.step += 1;
        self.note(&record, &report, groups, &mut timings)?;
        let every = self.job.config.run.checkpoint_every;
        if every > 0 && self.step.is_multiple_of(every) {
            self.checkpoint()?;
        }
        Ok(())
    }

    fn note(&mut self, record: &StepRecord, report: &StepReport, groups: &[SampledGroup], timings: &mut StepTimings) -> Result<(), TrainError> {
        timings.step = record.step;
        timings.forward = report.forward.as_secs_f64();
        timings.backward = report.backward.as_secs_f64();
        timings.optimiser = report.optimiser.as_secs_f64();
        timings.trained_tokens = tokens(groups) + groups.iter().map(|group| group.prompt.tokens.len()).sum::<usize>();
        timings.elapsed = self.started.elapsed().as_secs_f64();
        self.job.folder.append(Log::Metrics, record)?;
        self.job.folder.append(Log::Timings, timings)?;
        self.logged = self.step;
        self.job.progress.updated(record);
        Ok(())
    }

    /// Evaluates where that is due after this many updates and was not done yet. False where the end was asked for meanwhile.
    async fn evaluate(&mut self) -> Result<bool, TrainError> {
        let settings = &self.job.config.eval;
        let due = self.step == 0 || self.step == self.schedule.updates() || (settings.every > 0 && self.step.is_multiple_of(settings.every));
        if !due || settings.samples == 0 || self.job.prompts.eval.is_empty() {
            return Ok(true);
        }
        let done: Vec<EvalRecord> = self.job.folder.read(Log::Eval)?;
        if done.iter().any(|record| record.step == self.step) {
            return Ok(true);
        }
        let progress = &mut self.job.progress;
        let mut watch = |tally: &rollout::Tally| progress.sampling("evaluation", tally);
        let result = eval::evaluate(&self.job.policy, &self.job.rewards, &self.job.prompts.eval, &self.evaluation, &self.job.stop, &mut watch).await;
        let evaluation = match result {
            Ok(evaluation) => evaluation,
            Err(RolloutError::Stopped) => return Ok(false),
            Err(error) => return Err(TrainError::Rollout(error)),
        };
        let record = eval_record(self.step, &evaluation, &self.evaluation);
        store::dump_evaluation(&self.job.folder, self.step, &evaluation.records)?;
        self.job.folder.append(Log::Eval, &record)?;
        self.job.progress.evaluated(&record);
        self.rank(&record)?;
        Ok(true)
    }

    /// Keeps the checkpoint of the best evaluation so far.
    fn rank(&mut self, record: &EvalRecord) -> Result<(), TrainError> {
        let better = best(std::slice::from_ref(record)).filter(|(_, now)| self.best.is_none_or(|(_, before)| *now > before));
        if let Some(mark) = better {
            self.best = Some(mark);
            self.checkpoint()?;
            checkpoint::mark_best(&self.job.folder, mark.0)?;
        }
        Ok(())
    }

    /// Saves where the run stands, unless it is saved already. An update whose line could not be written is not saved: it will be made again.
    fn checkpoint(&mut self) -> Result<(), TrainError> {
        if self.step == self.saved || self.step != self.logged {
            return Ok(());
        }
        let (folder, policy) = (&self.job.folder, self.job.policy.as_ref());
        tokio::task::block_in_place(|| checkpoint::save(folder, policy, self.step))?;
        self.saved = self.step;
        let oldest = checkpoint::prune(folder, self.job.config.run.keep, self.best.map(|(step, _)| step))?;
        store::prune(folder, self.schedule.phase_of(oldest.unwrap_or(self.step)));
        Ok(())
    }
}

/// The evaluation with the highest Pass@1 after at least one update, the earliest among equals.
fn best(evals: &[EvalRecord]) -> Option<(usize, f64)> {
    evals
        .iter()
        .filter(|record| record.step > 0)
        .filter_map(|record| Some((record.step, record.pass_at_1()?)))
        .reduce(|best, next| if next.1 > best.1 { next } else { best })
}

fn eval_record(step: usize, evaluation: &eval::Evaluation, settings: &eval::Settings) -> EvalRecord {
    let summary = evaluation.summary(&settings.k);
    EvalRecord {
        step,
        samples: settings.samples,
        pass_at: summary.pass.iter().map(|pass| (pass.k, pass.estimate)).collect::<BTreeMap<_, _>>(),
        tasks: eval::counts(&evaluation.records, eval::Reading::Strict).into_iter().collect(),
        masked: summary.masked,
        length_mean: summary.mean_tokens,
        truncated: summary.truncated,
    }
}

fn tokens(groups: &[SampledGroup]) -> usize {
    groups.iter().flat_map(|group| &group.samples).map(|sample| sample.tokens.len()).sum()
}

#[cfg(test)]
mod tests;
