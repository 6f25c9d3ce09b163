//! The inputs of a run, and its result.

use std::path::PathBuf;
use std::sync::Arc;

use super::clock::Clock;
use super::folder::RunFolder;
use super::folder::provenance::Provenance;
use super::observers::{Journal, human_duration};
use crate::config::Config;
use crate::data::Prompts;
use crate::interrupt::StopSignal;
use crate::policy::Policy;
use crate::record::{EvalRecord, RunTimes};
use crate::reward::RewardClient;
use crate::rollout::SampledGroup;

/// The inputs of a run.
pub struct Job {
    /// The resolved configuration.
    pub config: Config,
    /// The model as it was opened; a resumed run loads its checkpoint into it.
    pub policy: Arc<dyn Policy>,
    /// The frozen model that training began with, if the loss has a KL term.
    pub reference: Option<Arc<dyn Policy>>,
    /// The teacher's correct completions, for supervised fine-tuning.
    pub demonstrations: Option<Vec<SampledGroup>>,
    /// The client of the verifier.
    pub rewards: RewardClient,
    /// The prompts of the tasks.
    pub prompts: Prompts,
    /// The run folder.
    pub folder: RunFolder,
    /// What a resumed run saves as its provenance once it is checked; a new run has saved it.
    pub(super) provenance: Option<Provenance>,
    /// A request to stop.
    pub stop: StopSignal,
    /// The observers of the run.
    pub journal: Journal,
    /// The clock of this process, started when the process began to open the job's parts.
    pub clock: Clock,
}

impl Job {
    /// Whether the run evaluates, if it has tasks for it.
    pub(super) fn evaluates(&self) -> bool {
        self.config.eval.samples > 0 && !self.prompts.eval.is_empty()
    }
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunOutcome {
    /// After its last update.
    Finished,
    /// On request; it can be resumed.
    Interrupted,
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// How it ended.
    pub ended: RunOutcome,
    /// Updates made.
    pub step: usize,
    /// Updates in all.
    pub updates: usize,
    /// The run folder.
    pub folder: PathBuf,
    /// The evaluations so far, in order.
    pub evals: Vec<EvalRecord>,
    /// The times of all its processes so far.
    pub times: RunTimes,
}

impl Summary {
    /// The time of training and of the whole run, for people to read.
    pub fn time(&self) -> String {
        let [training, all] =
            [self.times.training(), self.times.wall()].map(|seconds| match seconds < 600.0 {
                true => format!("{seconds:.0} s"),
                false => human_duration(seconds),
            });
        format!("{training} of training, {all} in all")
    }
}
