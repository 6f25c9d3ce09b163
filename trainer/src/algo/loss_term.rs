//! A token's term of the loss: the factor of its completion's advantage, the divisor, and the KL term of the reference policy.

use super::Sample;
use super::importance_weight::{difference, log_ratios, log_weight, weight};
use crate::config::algorithm::{Algorithm, Factor, LengthNorm};

/// Factors are constants: no gradient flows through them.
impl Factor {
    /// The importance weight of each token of a completion, before [`Factor::bounded`]. rₜ = π(yₜ)/μ(yₜ) is a token's ratio, w = Πₜ rₜ the completion's.
    pub(super) fn ratios(self, sample: &Sample<'_>) -> Vec<f64> {
        let all = |ratio: f64| vec![ratio; sample.new.len()];
        match self {
            // 1: unbiased on policy, biased off policy (REINFORCE, Williams 1992; the paper's Eq. 1).
            Factor::One => all(1.0),
            // w (the paper's Eq. 3).
            Factor::W | Factor::WCapped => all(weight(log_weight(sample))),
            // w^(1/T) for a completion of T tokens: the geometric mean of its ratios (the sequence ratio of GSPO, Zheng et al. 2025, Eq. 7).
            Factor::Geometric => all(weight(log_weight(sample) / sample.new.len().max(1) as f64)),
            // rₜ. The tokens before and after it are not reweighted, so their distribution stays μ's.
            Factor::TokenPpoClip | Factor::TokenCapped | Factor::TokenMasked | Factor::Cispo => {
                log_ratios(sample).map(weight).collect()
            }
        }
    }

    /// The factor of the advantage of a token with this importance weight. Each match arm is a clip or a cap, below its source.
    pub(super) fn bounded(self, ratio: f64, advantage: f64, algorithm: &Algorithm) -> f64 {
        let (lowest, highest) = (1.0 - algorithm.clip_low, 1.0 + algorithm.clip_high);
        match self {
            Factor::One | Factor::W | Factor::Geometric => ratio,
            // min(w, η): bounded, and biased by the cap (truncated importance sampling, Ionides 2008); min(rₜ, η) of each token (token-level truncated importance
            // sampling: `token_truncate` in TRL, trl/trainer/grpo_trainer.py).
            Factor::WCapped | Factor::TokenCapped => ratio.min(algorithm.eta),
            // rₜ if rₜ ≤ η, else 0. A masked token still counts in the divisors (token-level masked importance sampling: `token_mask` there).
            Factor::TokenMasked if ratio > algorithm.eta => 0.0,
            Factor::TokenMasked => ratio,
            // The gradient of min(rₜA, clip(rₜ, 1 − ε₋, 1 + ε₊)A): rₜ if the unclipped term is at most the clipped one, else 0 (PPO, Schulman et al. 2017, Eq. 7; the
            // objective of GRPO, Shao et al. 2024, Eq. 3, and of DAPO, Yu et al. 2025, Eq. 8).
            Factor::TokenPpoClip => {
                let stops = match advantage > 0.0 {
                    true => ratio > highest,
                    false => ratio < lowest,
                };
                if stops { 0.0 } else { ratio }
            }
            // clip(rₜ, 1 − ε₋, 1 + ε₊): unlike with PPO's clip, no token loses its gradient (CISPO, MiniMax-M1 2025, Eqs. 4 and 5).
            Factor::Cispo => ratio.clamp(lowest, highest),
        }
    }
}

impl LengthNorm {
    /// The divisor for a completion of `tokens` tokens, in a mini-batch of `judged` completions with a reward that have `all_tokens` tokens together.
    pub(super) fn divisor(
        self,
        tokens: usize,
        judged: usize,
        all_tokens: usize,
        max_tokens: usize,
    ) -> f64 {
        let divisor = match self {
            // A completion's terms are summed, as the policy gradient is derived.
            LengthNorm::None => judged,
            // All completions have equal weight, so tokens of long ones count less (GRPO, Shao et al. 2024, Eq. 3).
            LengthNorm::Length => judged * tokens,
            // The sum, scaled by a constant (Dr. GRPO, Liu et al. 2025).
            LengthNorm::MaxLength => judged * max_tokens,
            // All tokens have equal weight (DAPO, Yu et al. 2025, Eq. 8).
            LengthNorm::BatchTokens => all_tokens,
        };
        divisor.max(1) as f64
    }
}

/// k3 = r − 1 − log r, which is never negative. Its mean over tokens sampled from p estimates KL(p‖q), with r = q/p (Schulman 2020, "Approximating KL divergence").
pub(super) fn k3(log_ratio: f64) -> f64 {
    weight(log_ratio) - 1.0 - log_ratio
}

/// GRPO's KL term, −β k3 with r = π_ref/π (Shao et al. 2024, Eq. 4), for each token: what it adds to J, and β (r − 1), its part of the coefficient of ∇ log π(yₜ).
/// `None` if the sample has no reference or β is 0.
pub(super) fn kl<'a>(
    beta: f64,
    sample: &Sample<'a>,
) -> Option<impl Iterator<Item = (f64, f64)> + 'a> {
    let reference = sample.reference.filter(|_| beta > 0.0)?;
    let log_ratios = difference(reference, sample.new);
    Some(log_ratios.map(move |it| (-beta * k3(it), beta * (weight(it) - 1.0))))
}
