//! From log-probabilities and rewards to the gradient: pure functions over slices of numbers, with no model in sight.
//!
//! An [`Estimator`] is two choices: the [`Factor`] that multiplies a completion's advantage, and the [`Baseline`] that is
//! subtracted from its reward. [`gradient`] combines them into `dL/dlogp` of every token for the loss L = −J, so that
//!
//! ```text
//! ∇J ≈ (1/N) Σᵢ factorᵢ (Rᵢ − bᵢ) Σₜ ∇ log π(yᵢₜ)
//! ```
//!
//! with factor and advantage as constants. N counts the completions of the mini-batch that have a reward. A completion without one is
//! masked: it is in no sum, no baseline and not in N. A group left with fewer than two has no baseline worth the name: its one
//! survivor stays in N, gives no gradient, and the group is counted.

mod baseline;
mod factor;
mod metrics;
mod preset;
mod weight;

pub use baseline::Baseline;
pub use factor::Factor;
pub use metrics::Metrics;
pub use preset::Preset;
pub use weight::{MAX_LOG_WEIGHT, log_weight};

/// One completion: its own tokens only, the end token included; prompt and padding are not here.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample<'a> {
    /// log π(yₜ) of each token under the policy that is being updated.
    pub new: &'a [f32],
    /// log μ(yₜ) of each token under the behaviour policy that sampled it; as many as `new`.
    pub behaviour: &'a [f32],
    /// `None` masks the completion.
    pub reward: Option<f64>,
}

/// A way to estimate ∇J from samples of a behaviour policy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimator {
    /// What multiplies an advantage.
    pub factor: Factor,
    /// What is subtracted from a reward.
    pub baseline: Baseline,
    /// η: the cap on importance weights, where factor or baseline caps them.
    pub eta: f64,
}

/// What [`gradient`] made of a mini-batch.
#[derive(Debug, Clone, PartialEq)]
pub struct Gradient {
    /// `dL/dlogp[t]` of each completion, groups in order, completions in order; 0 where masked.
    pub dlogp: Vec<Vec<f32>>,
    /// What is logged of the step.
    pub metrics: Metrics,
}

/// Numbers that no estimator can use.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum AlgoError {
    /// The policy's or the behaviour policy's numbers have gone bad.
    #[error(
        "the log-probability of token {token} of completion {completion} is {value}: the model's numbers are no longer finite. Resume from the last checkpoint with a lower `optimiser.lr`, or look for a broken weight file"
    )]
    NotFinite {
        /// Index of the completion in the mini-batch.
        completion: usize,
        /// Index of the token.
        token: usize,
        /// What it was.
        value: f32,
    },
    /// The two policies' numbers do not belong to the same tokens.
    #[error(
        "completion {completion} has {new} log-probabilities under the policy and {behaviour} under the behaviour policy"
    )]
    Length {
        /// Index of the completion in the mini-batch.
        completion: usize,
        /// Under the policy.
        new: usize,
        /// Under the behaviour policy.
        behaviour: usize,
    },
    /// A reward that is NaN or infinite.
    #[error(
        "the reward of completion {completion} is {value}; a verifier answers a number or null"
    )]
    Reward {
        /// Index of the completion in the mini-batch.
        completion: usize,
        /// What it was.
        value: f64,
    },
}

/// `dL/dlogp` of every token of a mini-batch of whole groups, L = −J.
///
/// # Errors
/// [`AlgoError`], where a number is not finite or slices do not match.
pub fn gradient(estimator: &Estimator, groups: &[Vec<Sample<'_>>]) -> Result<Gradient, AlgoError> {
    check(groups)?;
    let judged: usize = groups
        .iter()
        .flatten()
        .filter(|s| s.reward.is_some())
        .count();
    let mut dlogp = Vec::new();
    let mut loss = 0.0;
    for group in groups {
        for (sample, advantage) in group.iter().zip(advantages(estimator, group)) {
            let ell = log_weight(sample);
            let coefficient = estimator.factor.of(ell) * advantage / judged.max(1) as f64;
            loss -= coefficient * sum(sample.new);
            dlogp.push(vec![-coefficient as f32; sample.new.len()]);
        }
    }
    let metrics = Metrics::of(groups, estimator.eta, loss);
    Ok(Gradient { dlogp, metrics })
}

/// Rᵢ − bᵢ of each sample of a group; 0 where masked, and all 0 where fewer than two have a reward.
fn advantages(estimator: &Estimator, group: &[Sample<'_>]) -> Vec<f64> {
    let survivors: Vec<(f64, f64)> = group
        .iter()
        .filter_map(|sample| Some((sample.reward?, log_weight(sample))))
        .collect();
    if survivors.len() < 2 {
        return vec![0.0; group.len()];
    }
    let value = estimator.baseline.of(&survivors, estimator.eta);
    group
        .iter()
        .map(|sample| sample.reward.map_or(0.0, |reward| reward - value))
        .collect()
}

fn check(groups: &[Vec<Sample<'_>>]) -> Result<(), AlgoError> {
    for (completion, sample) in groups.iter().flatten().enumerate() {
        let (new, behaviour) = (sample.new.len(), sample.behaviour.len());
        if new != behaviour {
            return Err(AlgoError::Length {
                completion,
                new,
                behaviour,
            });
        }
        for values in [sample.new, sample.behaviour] {
            if let Some(token) = values.iter().position(|value| !value.is_finite()) {
                return Err(AlgoError::NotFinite {
                    completion,
                    token,
                    value: values[token],
                });
            }
        }
        if let Some(value) = sample.reward.filter(|reward| !reward.is_finite()) {
            return Err(AlgoError::Reward { completion, value });
        }
    }
    Ok(())
}

fn sum(values: &[f32]) -> f64 {
    values.iter().map(|value| f64::from(*value)).sum()
}

#[cfg(test)]
mod tests;
