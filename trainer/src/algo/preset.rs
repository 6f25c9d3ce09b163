//! Named estimators.

use super::{Baseline, Estimator, Factor, LengthNorm};

names! {
    /// An algorithm by its name.
    #[derive(Default)]
    pub enum Preset {
        /// RAPID as the paper prints it: Eqs. 3 and 5.
        #[default]
        RapidPaper = "rapid-paper",
        /// RAPID as its authors' public code runs it on MBPP+ and MiniF2F: weights only in the value term, PPO's clip in place of Eq. 3's weight, completions of equal weight.
        RapidAuthor = "rapid-author",
        /// RAPID with a capped weight and the mean of the other completions: lower variance, biased by the cap.
        RapidLoo = "rapid-loo",
        /// RAPID without a size to tune: `rapid-loo`, whose phases are as long as the effective sample size allows.
        RapidAuto = "rapid-auto",
        /// Group-relative policy gradient: Eq. 2 in Eq. 1. On policy at H = 1.
        Pg = "pg",
        /// The policy gradient as the authors' public code runs it: advantages divided by the group's standard deviation, completions of equal weight.
        PgAuthor = "pg-author",
        /// GRPO (Shao et al. 2024) on policy: advantages divided by the group's standard deviation, completions of equal weight, and a KL term to the model that training
        /// began with.
        Grpo = "grpo",
        /// The algorithm of the paper's DAPO row: on policy, advantages divided by the group's standard deviation, tokens of equal weight.
        DapoPaper = "dapo-paper",
        /// DAPO (Yu et al. 2025): off policy with an asymmetric clip, tokens of equal weight. Groups that are all correct or all wrong are replaced by newly sampled ones,
        /// and completions that are nearly too long lose reward.
        Dapo = "dapo",
        /// GRPO off policy as its authors do it: PPO's clip in place of importance weights; no KL term. The control that the paper lacks.
        GrpoClip = "grpo-clip",
        /// Supervised fine-tuning on a teacher's completions that the verifier found correct: it maximises the mean log-probability of their tokens. As a policy gradient,
        /// each completion has the reward 1, and there is no baseline.
        Sft = "sft",
    }
}

impl Preset {
    /// Its estimator.
    #[must_use]
    pub const fn estimator(self) -> Estimator {
        use {Baseline as B, Factor as F, LengthNorm as L};
        let (factor, baseline, length_norm, divide_by_std) = match self {
            Self::RapidPaper => (F::W, B::WeightedGroup, L::None, false),
            Self::RapidAuthor => (F::TokenPpoClip, B::WeightedGroup, L::Length, false),
            Self::RapidLoo | Self::RapidAuto => (F::WCapped, B::Loo, L::None, false),
            Self::Pg => (F::One, B::Group, L::None, false),
            Self::PgAuthor | Self::Grpo => (F::One, B::Group, L::Length, true),
            Self::DapoPaper => (F::One, B::Group, L::BatchTokens, true),
            Self::Dapo => (F::TokenPpoClip, B::Group, L::BatchTokens, true),
            Self::GrpoClip => (F::TokenPpoClip, B::Group, L::Length, true),
            Self::Sft => (F::One, B::None, L::BatchTokens, false),
        };
        Estimator {
            factor,
            baseline,
            eta: 2.0,
            adaptive_eta: 0.0,
            clip_low: 0.2,
            clip_high: if matches!(self, Self::Dapo) {
                0.28
            } else {
                0.2
            },
            length_norm,
            divide_by_std,
            kl: if matches!(self, Self::Grpo) {
                0.04
            } else {
                0.0
            },
        }
    }
}
