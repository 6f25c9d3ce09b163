//! What a run spends its time on: the lines of `clock.jsonl`.

use serde::{Deserialize, Serialize};

use super::RunTimes;

datasets::choice! {
    /// What a process of a run does. At each moment it does exactly one of these. They are shown in this order.
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
        /// With several ranks: exchanging gradients and weights, and waiting for slower ranks before it.
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
    /// Whether it is a part of training, without which the run would not have the same weights. The paper's runtimes are times of training.
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

/// A line of `clock.jsonl`: what a process did since its previous line, or since it began. Lines are only appended, so those of lost work remain.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ClockRecord {
    /// Updates done.
    pub step: usize,
    /// In the first line of a process: the updates of the checkpoint that it began with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began: Option<usize>,
    /// Its time and memory.
    #[serde(flatten)]
    pub times: RunTimes,
}
