//! Computes the gradient from log-probabilities and rewards, by pure functions over slices of numbers that know no model.
//!
//! An [`Estimator`] is five choices: the [`Baseline`] that is subtracted from a completion's reward, whether the difference is divided by the group's standard
//! deviation, the [`Factor`] that multiplies this advantage, the [`LengthNorm`] that divides a token's term, and β, the weight of the divergence from a reference
//! policy. [`gradient`] combines them into `dL/dlogp` of every token for the loss L = −J, so that
//!
//! ```text
//! ∇J ≈ Σᵢ Σₜ (factorᵢₜ Aᵢ + β (π_ref/π − 1)) / normᵢ ∇ log π(yᵢₜ),    Aᵢ = Rᵢ − bᵢ  or  (Rᵢ − bᵢ) / (std + 1e-4)
//! ```
//!
//! with factor and advantage as constants. The plain norm is N, the number of completions of the mini-batch that have a reward. A completion without a reward is
//! masked: it is in no sum, in no baseline and not in N. A group with fewer than two rewards has no meaningful group baseline: its one judged completion counts in
//! N but gives no gradient, and the group is counted. (A baseline that is not of the group does not need a second completion.)
//!
//! Rewards alone tell that some completions have no gradient, whatever π is ([`Estimator::has_gradient`]). Their log-probabilities under π need not be computed.

/// Declares an enum whose variants have names in a recipe: `Variant = "name"`. It is `datasets::choice!` for a module that may name no other crate.
macro_rules! names {
    ($(#[$attribute:meta])* pub enum $name:ident {
        $($(#[$variant_attribute:meta])* $variant:ident = $text:literal,)*
    }) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $($(#[$variant_attribute])* #[serde(rename = $text)] $variant,)*
        }

        impl $name {
            /// All of them.
            pub const ALL: [Self; [$($text),*].len()] = [$(Self::$variant),*];
            /// Their names in a recipe, in the order of `ALL`.
            pub const NAMES: [&str; Self::ALL.len()] = [$($text),*];

            /// Its name in a recipe.
            #[must_use]
            pub fn name(self) -> &'static str {
                Self::NAMES[self as usize]
            }

            /// The one with this name.
            #[must_use]
            pub fn named(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|one| one.name() == name)
            }
        }
    };
}

mod baseline;
mod factor;
mod kl;
mod length;
mod metrics;
mod phase_size;
mod preset;
mod weight;

pub use baseline::Baseline;
pub use factor::Factor;
pub use length::LengthNorm;
pub use metrics::Metrics;
pub use phase_size::{PhaseSize, SizeReason};
pub use preset::Preset;
pub use weight::{MAX_LOG_WEIGHT, log_weight};

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

    /// Whether its log-probabilities under π were computed.
    fn is_computed(&self) -> bool {
        self.new.len() == self.tokens()
    }
}

/// A way to estimate ∇J from samples of a behaviour policy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimator {
    /// The factor that multiplies an advantage.
    pub factor: Factor,
    /// The baseline that is subtracted from a reward.
    pub baseline: Baseline,
    /// η: the cap on importance weights, if factor or baseline caps them. Infinity is no cap.
    pub eta: f64,
    /// If above 0, the cap is lowered below η until the effective sample size is this share of N, but not below 1.
    pub adaptive_eta: f64,
    /// ε₋: how far below 1 a token's ratio may be, if the factor clips it.
    pub clip_low: f64,
    /// ε₊: how far above 1 a token's ratio may be, if the factor clips it.
    pub clip_high: f64,
    /// The divisor of a token's term.
    pub length_norm: LengthNorm,
    /// Whether an advantage is divided by the standard deviation of its group's rewards (with n − 1 degrees of freedom) plus [`STD_FLOOR`].
    pub divide_by_std: bool,
    /// β: the weight of k3, the estimate of KL(π‖π_ref), in the loss.
    pub kl: f64,
}

impl Estimator {
    /// Whether completions of one prompt are compared with each other. If so, a group gives no gradient if it has one completion or if all its rewards are equal.
    #[must_use]
    pub fn compares_within_groups(&self) -> bool {
        self.baseline.is_of_the_group() || self.divide_by_std
    }

    /// Whether it reads the log-probabilities of completions whose advantage is 0.
    #[must_use]
    pub fn reads_all(&self) -> bool {
        self.kl > 0.0 || self.adaptive_eta > 0.0
    }

    /// Whether each completion's advantage can differ from 0, from the rewards of each group alone. Rewards are compared and not subtracted, so rounding decides nothing.
    #[must_use]
    pub fn has_gradient(&self, groups: &[Vec<Option<f64>>]) -> Vec<Vec<bool>> {
        let batch_differs = differ(groups.iter().flatten());
        let of_group = |group: &Vec<Option<f64>>| {
            let judged = group.iter().flatten();
            let few = self.compares_within_groups() && judged.clone().count() < 2;
            let any = !few
                && match self.baseline {
                    Baseline::None => true,
                    Baseline::Batch => batch_differs,
                    Baseline::Group | Baseline::Loo | Baseline::OptimalLoo => differ(group),
                    // The rewards of a group are weighted, so only if all are 0 is their mean each of them.
                    Baseline::WeightedGroup | Baseline::WeightedLoo => {
                        judged.clone().any(|reward| *reward != 0.0)
                    }
                };
            let has = |reward: &Option<f64>| match (self.baseline, reward) {
                (_, None) => false,
                (Baseline::None, Some(reward)) => any && *reward != 0.0,
                _ => any,
            };
            group.iter().map(has).collect()
        };
        groups.iter().map(of_group).collect()
    }
}

/// Whether the rewards that there are differ.
fn differ<'a>(rewards: impl IntoIterator<Item = &'a Option<f64>>) -> bool {
    let mut rewards = rewards.into_iter().flatten();
    let first = rewards.next();
    rewards.any(|reward| Some(reward) != first)
}

/// Added to a standard deviation, so that equal rewards do not divide by 0.
pub const STD_FLOOR: f64 = 1e-4;

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
    estimator: &Estimator,
    groups: &[Vec<Sample<'_>>],
    max_tokens: usize,
) -> Result<Gradient, AlgoError> {
    let rewards = |group: &Vec<Sample<'_>>| group.iter().map(|sample| sample.reward).collect();
    let rewards: Vec<Vec<Option<f64>>> = groups.iter().map(rewards).collect();
    let has_gradient = estimator.has_gradient(&rewards);
    check(estimator, groups, &has_gradient)?;
    let batch = Batch::of(groups);
    let estimator = &Estimator {
        eta: weight::adaptive_cap(&batch.ells, estimator.eta, estimator.adaptive_eta),
        ..*estimator
    };
    // Ratios are not below 0, so that a lower bound of 0 clips none.
    let unbounded = Estimator {
        eta: f64::INFINITY,
        clip_low: 1.0,
        clip_high: f64::INFINITY,
        ..*estimator
    };
    let bounded = estimator.factor.has_cap() || estimator.factor.has_clip();
    let (mut kept, mut whole, mut loss) = (0.0, 0.0, 0.0);
    let (mut dlogp, mut left_out) = (Vec::new(), 0);
    for (group, has_gradient) in groups.iter().zip(&has_gradient) {
        let Some(advantages) = advantages(estimator, group, has_gradient, &batch) else {
            left_out += 1;
            dlogp.extend(group.iter().map(|sample| vec![0.0; sample.new.len()]));
            continue;
        };
        for (sample, advantage) in group.iter().zip(advantages) {
            let (tokens, judged) = (sample.tokens(), batch.judged.len());
            let norm = estimator
                .length_norm
                .divisor(tokens, judged, batch.tokens, max_tokens);
            let ell = log_weight(sample);
            let mut terms = estimator.factor.times(advantage, sample, ell, estimator);
            if bounded {
                let all = estimator.factor.times(advantage, sample, ell, &unbounded);
                kept += terms.iter().map(|term| term.abs()).sum::<f64>() / norm;
                whole += all.iter().map(|term| term.abs()).sum::<f64>() / norm;
            }
            loss -= terms
                .iter()
                .zip(sample.new)
                .map(|(term, new)| term / norm * f64::from(*new))
                .sum::<f64>();
            if sample.reward.is_some()
                && let Some(penalty) = kl::penalty(estimator.kl, sample)
            {
                for (term, (value, pull)) in terms.iter_mut().zip(penalty) {
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
        ..Metrics::of(&batch, estimator)
    };
    Ok(Gradient { dlogp, metrics })
}

/// The completions of a mini-batch that have a reward.
struct Batch<'a> {
    judged: Vec<&'a Sample<'a>>,
    /// ℓ of each whose log-probabilities under π were computed.
    ells: Vec<f64>,
    /// Tokens of all that have a reward.
    tokens: usize,
    mean_reward: f64,
}

impl<'a> Batch<'a> {
    fn of(groups: &'a [Vec<Sample<'a>>]) -> Self {
        let samples = groups.iter().flatten();
        let judged: Vec<_> = samples.filter(|sample| sample.reward.is_some()).collect();
        Self {
            ells: computed(&judged).map(log_weight).collect(),
            tokens: judged.iter().map(|sample| sample.tokens()).sum(),
            mean_reward: metrics::mean(judged.iter().filter_map(|sample| sample.reward)),
            judged,
        }
    }
}

/// Those whose log-probabilities under π were computed.
fn computed<'a>(samples: &[&'a Sample<'a>]) -> impl Iterator<Item = &'a Sample<'a>> + Clone {
    let samples = samples.iter().copied();
    samples.filter(|sample| sample.is_computed())
}

/// The advantage of each sample of a group; 0 if it has no gradient. `None` if the group has fewer rewards than the estimator needs: two if it compares within groups,
/// else one.
fn advantages(
    estimator: &Estimator,
    group: &[Sample<'_>],
    has_gradient: &[bool],
    batch: &Batch<'_>,
) -> Option<Vec<f64>> {
    let judged: Vec<(f64, f64)> = group
        .iter()
        .filter_map(|sample| Some((sample.reward?, log_weight(sample) + sample.padding)))
        .collect();
    let least = if estimator.compares_within_groups() {
        2
    } else {
        1
    };
    if judged.len() < least {
        return None;
    }
    let scale = if estimator.divide_by_std {
        standard_deviation(&judged) + STD_FLOOR
    } else {
        1.0
    };
    let baseline = estimator.baseline;
    let mut judged = baseline
        .advantages(&judged, batch.mean_reward, estimator.eta)
        .into_iter();
    let advantage = |(sample, has_gradient): (&Sample<'_>, &bool)| {
        let advantage = sample.reward.and_then(|_| judged.next());
        // The difference of equal rewards is rounded, and may not be 0.
        advantage.filter(|_| *has_gradient).unwrap_or(0.0) / scale
    };
    Some(group.iter().zip(has_gradient).map(advantage).collect())
}

/// The standard deviation of a group's rewards, with n − 1 degrees of freedom.
fn standard_deviation(group: &[(f64, f64)]) -> f64 {
    let count = group.len() as f64;
    let mean = group.iter().map(|(reward, _)| reward).sum::<f64>() / count;
    let squares: f64 = group
        .iter()
        .map(|(reward, _)| (reward - mean).powi(2))
        .sum();
    (squares / (count - 1.0)).sqrt()
}

fn check(
    estimator: &Estimator,
    groups: &[Vec<Sample<'_>>],
    has_gradient: &[Vec<bool>],
) -> Result<(), AlgoError> {
    let samples = groups.iter().flatten().zip(has_gradient.iter().flatten());
    for (completion, (sample, has_gradient)) in samples.enumerate() {
        let may_lack = !has_gradient && !estimator.reads_all();
        if may_lack && sample.new.is_empty() {
            continue;
        }
        let new = sample.new.len();
        let reference = sample.reference.unwrap_or_default();
        let needed = sample.reference.is_some() || estimator.kl > 0.0;
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
