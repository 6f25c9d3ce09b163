//! Samples without a verdict: a few are left out, many end the run.

use serde_json::Value;

use super::TrainError;

/// Samples that are counted together, and those of them without a verdict.
#[derive(Debug, Default)]
pub(super) struct Masked {
    all: usize,
    masked: usize,
    /// Why the last of these has none.
    reason: String,
}

impl Masked {
    /// Counts samples in: the reward of each, and what the verifier says about it.
    pub(super) fn count<'a>(
        &mut self,
        samples: impl IntoIterator<Item = (Option<f64>, &'a Value)>,
    ) {
        let mut last = None;
        for (reward, detail) in samples {
            self.all += 1;
            if reward.is_none() {
                self.masked += 1;
                last = Some(detail);
            }
        }
        if let Some(detail) = last {
            self.reason = detail.to_string();
        }
    }

    /// Refuses more of them than the share `limit`; `whose` says what the samples are of.
    pub(super) fn check(&self, limit: f64, whose: &str) -> Result<(), TrainError> {
        if self.masked as f64 <= limit * self.all as f64 {
            return Ok(());
        }
        Err(TrainError::Masked {
            whose: whose.to_owned(),
            masked: self.masked,
            all: self.all,
            limit,
            reason: self.reason.clone(),
        })
    }
}
