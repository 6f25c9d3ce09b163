//! The factor that multiplies a completion's advantage.

use super::{Estimator, Sample, weight};

names! {
    /// The factor of a whole completion, or of each of its tokens. rₜ = π(yₜ)/μ(yₜ) is a token's ratio, w = Πₜ rₜ the completion's.
    pub enum Factor {
        /// 1: unbiased on policy, biased off policy.
        One = "one",
        /// w, uncapped, as in the paper's Eq. 3.
        W = "w",
        /// w̄ = min(w, η): bounded, and biased by the cap (truncated importance sampling, Ionides 2008).
        WCapped = "w-capped",
        /// PPO's clipped surrogate of each token, min(rₜA, clip(rₜ, 1 − ε₋, 1 + ε₊)A) (Schulman et al. 2017, Eq. 7; GRPO's and DAPO's objective). Its gradient is
        /// rₜA ∇log π(yₜ) if the unclipped term is at most the clipped one, else 0.
        TokenPpoClip = "token-ppo-clip",
        /// min(rₜ, η) of each token: token-level truncated importance sampling (TIS; `token_truncate` in TRL). The tokens before and after it are not reweighted, so their
        /// distribution stays μ's.
        TokenCapped = "token-capped",
        /// rₜ if rₜ ≤ η, else 0: token-level masked importance sampling (MIS; `token_mask` in TRL). A masked token still counts in the divisors.
        TokenMasked = "token-masked",
        /// clip(rₜ, 1 − ε₋, 1 + ε₊) as a constant: CISPO (MiniMax-M1 2025). Unlike PPO's clip, no token loses its gradient.
        Cispo = "cispo",
        /// w^(1/T) for a completion of T tokens: the geometric mean of its ratios, uncapped (the sequence ratio of GSPO, Zheng et al. 2025).
        Geometric = "geometric",
    }
}

impl Factor {
    /// Whether it caps ratios or weights at η, or masks those above.
    #[must_use]
    pub fn has_cap(self) -> bool {
        matches!(
            self,
            Factor::WCapped | Factor::TokenCapped | Factor::TokenMasked
        )
    }

    /// Whether it clips ratios to 1 − ε₋ … 1 + ε₊.
    #[must_use]
    pub fn has_clip(self) -> bool {
        matches!(self, Factor::TokenPpoClip | Factor::Cispo)
    }

    /// Factor × advantage for each token of a completion whose log-weight is `ell`.
    pub(super) fn times(
        self,
        advantage: f64,
        sample: &Sample<'_>,
        ell: f64,
        estimator: &Estimator,
    ) -> Vec<f64> {
        let all = |factor: f64| vec![factor * advantage; sample.new.len()];
        let each = |factor: &dyn Fn(f64) -> f64| -> Vec<f64> {
            let ratios = weight::log_ratios(sample).map(weight::weight);
            ratios.map(|ratio| factor(ratio) * advantage).collect()
        };
        match self {
            Factor::One => all(1.0),
            Factor::W => all(weight::weight(ell)),
            Factor::WCapped => all(weight::capped(ell, estimator.eta)),
            Factor::TokenPpoClip => each(&|ratio| {
                let clipped = if advantage > 0.0 {
                    ratio > 1.0 + estimator.clip_high
                } else {
                    ratio < 1.0 - estimator.clip_low
                };
                if clipped { 0.0 } else { ratio }
            }),
            Factor::TokenCapped => each(&|ratio| ratio.min(estimator.eta)),
            Factor::TokenMasked => each(&|ratio| if ratio > estimator.eta { 0.0 } else { ratio }),
            Factor::Cispo => {
                each(&|ratio| ratio.clamp(1.0 - estimator.clip_low, 1.0 + estimator.clip_high))
            }
            Factor::Geometric => all(weight::weight(ell / sample.new.len().max(1) as f64)),
        }
    }
}
