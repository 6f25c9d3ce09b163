//! Named estimators.

use serde::{Deserialize, Serialize};

use super::{Baseline, Estimator, Factor};

/// An algorithm of the study by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preset {
    /// RAPID as the paper prints it: Eqs. 3 and 5.
    RapidPaper,
    /// Group-relative policy gradient: Eq. 2 in Eq. 1. On policy at H = 1.
    Pg,
}

impl Preset {
    /// Names as in a recipe.
    pub const NAMES: [&str; 2] = ["rapid-paper", "pg"];

    /// The preset of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Preset::RapidPaper, Preset::Pg]
            .into_iter()
            .find(|preset| preset.name() == name)
    }

    /// Its name in a recipe.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Preset::RapidPaper => "rapid-paper",
            Preset::Pg => "pg",
        }
    }

    /// Its knobs.
    #[must_use]
    pub fn estimator(self) -> Estimator {
        let (factor, baseline) = match self {
            Preset::RapidPaper => (Factor::W, Baseline::WeightedGroup),
            Preset::Pg => (Factor::One, Baseline::Group),
        };
        Estimator {
            factor,
            baseline,
            eta: 2.0,
        }
    }
}
