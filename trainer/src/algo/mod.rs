//! Computes the gradient from log-probabilities and rewards, by pure functions over slices of numbers that know no model.
//!
//! An [`Algorithm`] estimates ∇J by five choices. Two are in `baseline.rs`: the baseline, which is subtracted from a completion's reward, and whether the difference
//! is divided by the group's standard deviation. Three are in `loss_term.rs`: the factor of this advantage, the norm that divides a token's term, and β, the weight of
//! the divergence from a reference policy. `importance_weight.rs` has the weights π/μ that factors and baselines use. [`gradient`] combines them into `dL/dlogp` of every token for the loss L = −J, so that
//!
//! ```text
//! ∇J ≈ Σᵢ Σₜ (factorᵢₜ Aᵢ + β (π_ref/π − 1)) / normᵢ ∇ log π(yᵢₜ),    Aᵢ = Rᵢ − bᵢ  or  (Rᵢ − bᵢ) / (std + 1e-4)
//! ```
//!
//! with factor and advantage as constants. The plain norm is N, the number of completions of the mini-batch that have a reward. A completion without a reward is
//! masked: it is in no sum, in no baseline and not in N. A group with fewer than two rewards has no meaningful group baseline: its one judged completion counts in
//! N but gives no gradient, and the group is counted. (A baseline that is not of the group does not need a second completion.)
//!
//! Rewards alone tell that some completions have no gradient, whatever π is ([`has_gradient`]). Their log-probabilities under π need not be computed.

mod baseline;
mod importance_weight;
mod loss_term;
mod metrics;

pub use baseline::{STD_FLOOR, has_gradient};
pub use importance_weight::{MAX_LOG_WEIGHT, log_weight};
pub use metrics::Metrics;

use crate::config::algorithm::Algorithm;

/// One completion: its own tokens only, the end token included; the tokens of prompt and padding are not here.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample<'a> {
    /// log π(yₜ) of each token under the policy that is being updated. Empty if it was not computed, which only a completion without a gradient allows.
    pub new: &'a [f32],
    /// log μ(yₜ) of each token under the behaviour policy that sampled it.
    pub behaviour: &'a [f32],
    /// log π_ref(yₜ) of each token under the frozen reference policy. Only the KL term needs it.
    pub reference: Option<&'a [f32]>,
    /// `None` masks the completion.
    pub reward: Option<f64>,
    /// Σₜ (log π − log μ) of the padding behind the completion, which the weights of the value term include (`algorithm.sum_padding`); 0 without padding.
    pub padding: f64,
}

impl Sample<'_> {
    /// T: its number of tokens.
    fn tokens(&self) -> usize {
        self.behaviour.len()
    }
}

/// The result of [`gradient`] for a mini-batch.
#[derive(Debug, Clone, PartialEq)]
pub struct Gradient {
    /// `dL/dlogp[t]` of each completion, groups in order, completions in order; 0 where masked, and empty where log-probabilities were not computed.
    pub dlogp: Vec<Vec<f32>>,
    /// The logged numbers of the step.
    pub metrics: Metrics,
}

/// Numbers that no estimator can use: what is wrong with which completion of the mini-batch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AlgoError(String);

/// `dL/dlogp` of every token of a mini-batch of whole groups, with L = −J. `max_tokens` is the maximum length of a completion.
///
/// # Errors
/// [`AlgoError`] if a number is not finite or the lengths of slices do not match.
pub fn gradient(
    algorithm: &Algorithm,
    groups: &[Vec<Sample<'_>>],
    max_tokens: usize,
) -> Result<Gradient, AlgoError> {
    let rewards = |group: &Vec<Sample<'_>>| group.iter().map(|sample| sample.reward).collect();
    let rewards: Vec<Vec<Option<f64>>> = groups.iter().map(rewards).collect();
    let has_gradient = has_gradient(algorithm, &rewards);
    check(algorithm, groups, &has_gradient)?;
    let batch = Batch::of(groups);
    let algorithm = &Algorithm {
        eta: importance_weight::adaptive_cap(&batch.ells, algorithm.eta, algorithm.adaptive_eta),
        ..*algorithm
    };
    let bounded = algorithm.factor.has_cap() || algorithm.factor.has_clip();
    let (mut kept, mut whole, mut loss) = (0.0, 0.0, 0.0);
    let (mut dlogp, mut left_out) = (Vec::new(), 0);
    for (group, has_gradient) in groups.iter().zip(&has_gradient) {
        let Some(advantages) = baseline::advantages(algorithm, group, has_gradient, &batch) else {
            left_out += 1;
            dlogp.extend(group.iter().map(|sample| vec![0.0; sample.new.len()]));
            continue;
        };
        for (sample, advantage) in group.iter().zip(advantages) {
            let (tokens, judged) = (sample.tokens(), batch.judged.len());
            let norm = algorithm
                .length_norm
                .divisor(tokens, judged, batch.tokens, max_tokens);
            let ratios = algorithm.factor.ratios(sample);
            let term =
                |ratio: &f64| algorithm.factor.bounded(*ratio, advantage, algorithm) * advantage;
            let mut terms: Vec<f64> = ratios.iter().map(term).collect();
            if bounded {
                let unbounded = ratios.iter().map(|ratio| (ratio * advantage).abs());
                kept += terms.iter().map(|term| term.abs()).sum::<f64>() / norm;
                whole += unbounded.sum::<f64>() / norm;
            }
            let pairs = terms.iter().zip(sample.new);
            let products = pairs.map(|(term, new)| term / norm * f64::from(*new));
            loss -= products.sum::<f64>();
            if sample.reward.is_some()
                && let Some(kl) = loss_term::kl(algorithm.kl, sample)
            {
                for (term, (value, pull)) in terms.iter_mut().zip(kl) {
                    loss -= value / norm;
                    *term += pull;
                }
            }
            dlogp.push(terms.iter().map(|term| -(term / norm) as f32).collect());
        }
    }
    let share_removed = if whole > 0.0 { 1.0 - kept / whole } else { 0.0 };
    let metrics = Metrics {
        loss,
        groups_left_out: left_out,
        masked: dlogp.len() - batch.judged.len(),
        clipped_gradient: bounded.then_some(share_removed),
        ..Metrics::of(&batch, algorithm)
    };
    Ok(Gradient { dlogp, metrics })
}

/// The completions of a mini-batch that have a reward.
struct Batch<'a> {
    judged: Vec<&'a Sample<'a>>,
    /// Those of them with log-probabilities under π.
    computed: Vec<&'a Sample<'a>>,
    /// ℓ of each of these.
    ells: Vec<f64>,
    /// Tokens of all that have a reward.
    tokens: usize,
    mean_reward: f64,
}

impl<'a> Batch<'a> {
    fn of(groups: &'a [Vec<Sample<'a>>]) -> Self {
        let mut judged: Vec<_> = groups.iter().flatten().collect();
        judged.retain(|sample| sample.reward.is_some());
        let mut computed = judged.clone();
        computed.retain(|sample| sample.new.len() == sample.tokens());
        Self {
            ells: computed.iter().map(|sample| log_weight(sample)).collect(),
            tokens: judged.iter().map(|sample| sample.tokens()).sum(),
            mean_reward: metrics::mean(judged.iter().filter_map(|sample| sample.reward)),
            judged,
            computed,
        }
    }
}

fn check(
    algorithm: &Algorithm,
    groups: &[Vec<Sample<'_>>],
    has_gradient: &[Vec<bool>],
) -> Result<(), AlgoError> {
    let samples = groups.iter().flatten().zip(has_gradient.iter().flatten());
    for (completion, (sample, has_gradient)) in samples.enumerate() {
        let may_lack = !has_gradient && !algorithm.reads_all();
        if may_lack && sample.new.is_empty() {
            continue;
        }
        let new = sample.new.len();
        let reference = sample.reference.unwrap_or_default();
        let needed = sample.reference.is_some() || algorithm.kl > 0.0;
        for (other, policy) in [
            (Some(sample.behaviour.len()), "behaviour"),
            (needed.then_some(reference.len()), "reference"),
        ] {
            if let Some(other) = other.filter(|other| *other != new) {
                return Err(AlgoError(format!(
                    "completion {completion} has {new} log-probabilities under the policy and {other} under the {policy} policy"
                )));
            }
        }
        let mut broken = [sample.new, sample.behaviour, reference]
            .into_iter()
            .filter_map(|values| {
                let token = values.iter().position(|value| !value.is_finite())?;
                Some((format!("token {token}"), f64::from(values[token])))
            })
            .chain((!sample.padding.is_finite()).then(|| ("the padding".into(), sample.padding)));
        if let Some((what, value)) = broken.next() {
            return Err(AlgoError(format!(
                "the log-probability of {what} of completion {completion} is {value}: the model's numbers are not finite; its weights have diverged, or a file of \
                 them is broken"
            )));
        }
        if let Some(value) = sample.reward.filter(|reward| !reward.is_finite()) {
            return Err(AlgoError(format!(
                "the reward of completion {completion} is {value}; a verifier answers with a finite number or null"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
