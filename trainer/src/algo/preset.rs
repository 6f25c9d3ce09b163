//! Named estimators.

use serde::{Deserialize, Serialize};

use super::{Baseline, Estimator, Factor, LengthNorm};

/// An algorithm of the study by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preset {
    /// RAPID as the paper prints it: Eqs. 3 and 5.
    RapidPaper,
    /// RAPID as its authors' public code runs it: weights in the value term only, PPO's clip in place of Eq. 3's weight.
    RapidAuthor,
    /// RAPID with a capped weight and the mean of the other completions: lower variance, biased by the cap.
    RapidLoo,
    /// Group-relative policy gradient: Eq. 2 in Eq. 1. On policy at H = 1.
    Pg,
    /// What the paper's DAPO row ran: on policy, advantages over the group's standard deviation, each token alike.
    DapoPaper,
    /// GRPO off policy, by its own means: PPO's clip in place of importance weights; no KL term. The control that the paper lacks.
    GrpoClip,
}

impl Preset {
    /// All of them.
    pub const ALL: [Preset; 6] = [
        Preset::RapidPaper,
        Preset::RapidAuthor,
        Preset::RapidLoo,
        Preset::Pg,
        Preset::DapoPaper,
        Preset::GrpoClip,
    ];
    /// Names as in a recipe.
    pub const NAMES: [&str; 6] = [
        "rapid-paper",
        "rapid-author",
        "rapid-loo",
        "pg",
        "dapo-paper",
        "grpo-clip",
    ];

    /// The preset of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|preset| preset.name() == name)
    }

    /// Its name in a recipe.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// Its knobs.
    #[must_use]
    pub fn estimator(self) -> Estimator {
        let plain = Estimator {
            factor: Factor::One,
            baseline: Baseline::Group,
            eta: 2.0,
            clip_low: 0.2,
            clip_high: 0.2,
            length_norm: LengthNorm::None,
            divide_by_std: false,
        };
        match self {
            Preset::RapidPaper => Estimator {
                factor: Factor::W,
                baseline: Baseline::WeightedGroup,
                ..plain
            },
            Preset::RapidAuthor => Estimator {
                factor: Factor::TokenPpoClip,
                baseline: Baseline::WeightedGroup,
                ..plain
            },
            Preset::RapidLoo => Estimator {
                factor: Factor::WCapped,
                baseline: Baseline::Loo,
                ..plain
            },
            Preset::Pg => plain,
            Preset::DapoPaper => Estimator {
                length_norm: LengthNorm::BatchTokens,
                divide_by_std: true,
                ..plain
            },
            Preset::GrpoClip => Estimator {
                factor: Factor::TokenPpoClip,
                length_norm: LengthNorm::Length,
                divide_by_std: true,
                ..plain
            },
        }
    }

    /// Updates an inference phase where the recipe does not say: 1 for what has no means against staleness, 4 for the others.
    #[must_use]
    pub fn h(self) -> usize {
        match self {
            Preset::Pg | Preset::DapoPaper => 1,
            Preset::RapidPaper | Preset::RapidAuthor | Preset::RapidLoo | Preset::GrpoClip => 4,
        }
    }
}
