//! What a run spends its time on: the lines of `clock.jsonl`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

datasets::choice! {
    /// What a process of a run does. At each moment it does exactly one of these.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum Activity {
        /// Opening the data and the model, checks, loading a checkpoint.
        #[default]
        Start = "start",
        /// Waiting for the completions of a phase. Those that are finished are judged meanwhile.
        Inference = "inference",
        /// Waiting for the last verdicts on them.
        Verify = "verify",
        /// Forward passes that compute log μ again (`sampling.behaviour_logprob`) or that of padding (`algorithm.sum_padding`).
        Recompute = "recompute",
        /// Forward passes of the reference policy.
        Reference = "reference",
        /// Forward passes of updates, and their objective.
        Forward = "forward",
        /// Backward passes, with the forward passes that save memory.
        Backward = "backward",
        /// Clipping and AdamW.
        Optimiser = "optimiser",
        /// Of several ranks: exchanging gradients and weights, and waiting for slower ranks before it.
        Exchange = "exchange",
        /// Saving checkpoints and removing old ones.
        Checkpoint = "checkpoint",
        /// Everything else: logs, samples and their pages, loading stored samples.
        Other = "other",
        /// Evaluations: sampling, judging and logging.
        Evaluation = "evaluation",
        /// Work of a process that ended before it was saved, so that a later process did it again.
        Lost = "lost",
    }
}

impl Activity {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 13] = [
        Self::Start,
        Self::Inference,
        Self::Verify,
        Self::Recompute,
        Self::Reference,
        Self::Forward,
        Self::Backward,
        Self::Optimiser,
        Self::Exchange,
        Self::Checkpoint,
        Self::Other,
        Self::Evaluation,
        Self::Lost,
    ];

    /// Whether it is a part of training, without which the run would not have the same weights. The paper's runtimes are times of training.
    #[must_use]
    pub fn is_training(self) -> bool {
        !matches!(self, Self::Start | Self::Evaluation | Self::Lost)
    }

    /// Whether it makes the samples of a phase, which are stored, so that a resumed run uses them again.
    pub(super) fn makes_samples(self) -> bool {
        matches!(
            self,
            Self::Inference | Self::Verify | Self::Recompute | Self::Reference
        )
    }
}

/// A number for each activity that there was.
pub type ByActivity<T> = BTreeMap<Activity, T>;

/// A line of `clock.jsonl`: what a process did since its previous line, or since it began. Lines are only appended, so those of lost work remain.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ClockRecord {
    /// Updates done.
    pub step: usize,
    /// In the first line of a process: the updates of the checkpoint that it began with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began: Option<usize>,
    /// In the first line of work that uses nothing of an earlier process: [`Activity::Inference`] for the samples of a phase, [`Activity::Evaluation`] for an
    /// evaluation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anew: Option<Activity>,
    /// Seconds.
    pub seconds: ByActivity<f64>,
    /// The highest resident memory of the process, in bytes; absent where the system does not report it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub memory: ByActivity<u64>,
    /// The highest number of bytes of a GPU's memory that the policy's buffers took, and the reference's if it has weights of its own; absent on a CPU.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub device_memory: ByActivity<u64>,
}

/// The highest memory of an interval, in bytes; `None` where it is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Peak {
    /// Resident memory of the process.
    pub resident: Option<u64>,
    /// Memory of a GPU.
    pub device: Option<u64>,
}

impl ClockRecord {
    /// Raises the highest memory of an activity to that of an interval in it.
    pub fn add_peak(&mut self, activity: Activity, peak: Peak) {
        raise(&mut self.memory, activity, peak.resident);
        raise(&mut self.device_memory, activity, peak.device);
    }
}

/// Raises the number of an activity to `value`, if that is known.
pub(super) fn raise(highest: &mut ByActivity<u64>, activity: Activity, value: Option<u64>) {
    if let Some(value) = value {
        let highest = highest.entry(activity).or_default();
        *highest = (*highest).max(value);
    }
}
