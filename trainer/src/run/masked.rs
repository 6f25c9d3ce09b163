//! Samples without a verdict: a few are masked, too many end the run with an error.

use serde_json::Value;

use super::TrainError;
use super::error::percent;

/// Counts samples, and the masked ones among them.
#[derive(Debug, Default)]
pub(super) struct MaskedCount {
    samples: usize,
    masked: usize,
    /// The verifier's reason for the last masked sample.
    reason: String,
}

impl MaskedCount {
    /// Adds samples: the reward of each, and the verdict's detail.
    pub(super) fn add<'a>(&mut self, samples: impl IntoIterator<Item = (Option<f64>, &'a Value)>) {
        for (reward, detail) in samples {
            self.samples += 1;
            if reward.is_none() {
                self.masked += 1;
                self.reason = detail.to_string();
            }
        }
    }

    /// Returns an error if more than the share `limit` is masked. `part` names what has them: a phase, as the terminal numbers it, an evaluation, or a teacher's file.
    pub(super) fn check(&self, limit: f64, part: &str) -> Result<(), TrainError> {
        if self.masked as f64 <= limit * self.samples as f64 {
            return Ok(());
        }
        Err(TrainError::Masked(format!(
            "{} of the {} samples of {part} have no verdict, more than the {} % that `verifier.max_masked` allows; the last reason was: {}. Fix the verifier, then continue",
            self.masked,
            self.samples,
            percent(limit),
            self.reason
        )))
    }
}
