//! The loop: inference phases of H × N_step completions, H updates each, evaluation, checkpoints; and taking it up again to the bit.
//!
//! What makes a continued run equal to one never killed: weights, moments and the update count come back to the bit from the newest checkpoint;
//! the data's order and every sample's seed are pure functions of the run's seed ([`crate::seed`]); the samples of a phase are on disk before
//! its first update; the tasks must be those that it began with; and every file is cut back to the checkpoint before the first line is added.

pub mod alarms;
mod board;
mod checkpoint;
mod course;
mod cut;
mod data_note;
mod draw;
mod error;
mod evaluation;
mod extend;
mod folder;
mod journal;
mod launch;
mod learning_rate;
mod masked;
mod model_digest;
mod pace;
mod padding;
mod paths;
mod plan;
mod progress;
pub mod record;
mod repeats;
mod store;
mod teacher;
mod update;

use std::path::PathBuf;
use std::sync::Arc;

use crate::config::Config;
use crate::data::Prompts;
use crate::policy::Policy;
use crate::reward::RewardClient;
use crate::stop::Stop;

pub use checkpoint::folder_of as checkpoint_folder;
use course::Run;
pub use data_note::{data_dir_of, eval_digest, graders, tasks_digest, trained_on};
pub use error::TrainError;
pub use folder::{Log, RunFolder, read_log};
pub use journal::Journal;
pub use launch::{Launch, Target, few_held_out, launch, locate_model, resume_config};
pub use model_digest::digest as model_digest;
pub use padding::Padding;
pub use paths::in_full;
pub use plan::{Plan, Room, Taken, TooLarge};
pub use progress::Progress;
use record::EvalRecord;
pub use repeats::Repeats;
pub use teacher::Lesson;

/// Everything that a run works with.
pub struct Job {
    /// The resolved configuration.
    pub config: Config,
    /// The model, as its files have it; a continued run's state is loaded into it.
    pub policy: Arc<dyn Policy>,
    /// The frozen model that training began with, where a divergence from it is asked for.
    pub reference: Option<Arc<dyn Policy>>,
    /// What a teacher wrote and the verifier found right, where that is learnt from.
    pub lessons: Option<Vec<Lesson>>,
    /// Where rewards come from.
    pub rewards: RewardClient,
    /// The tasks.
    pub prompts: Prompts,
    /// Where everything is kept.
    pub folder: RunFolder,
    /// The end, where it is asked for.
    pub stop: Stop,
    /// Where its course is told.
    pub journal: Journal,
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
/// [`TrainError`]. The run can be continued from its last checkpoint, which is made at the last update done wherever that is still possible. After
/// [`TrainError::Diverged`] none is made: the run cannot be continued, and the checkpoints that it has are kept for another.
pub async fn train(job: Job) -> Result<Summary, TrainError> {
    let mut run = Run::take_up(job)?;
    let ended = run.go().await;
    run.job.journal.progress.end();
    if let Some(what) = ended.as_ref().err().and_then(TrainError::not_finite) {
        return Err(run.diverged(what));
    }
    // What led here is worth more to the user than a checkpoint that fails for the same reason.
    let saved = run.checkpoint();
    let ended = ended?;
    saved?;
    if ended == Ended::Finished {
        run.tidy()?;
    }
    Ok(Summary {
        ended,
        step: run.step,
        updates: run.schedule.updates(),
        folder: run.job.folder.root().to_owned(),
        evals: run.job.folder.read(Log::Eval)?,
    })
}

#[cfg(test)]
mod tests;
