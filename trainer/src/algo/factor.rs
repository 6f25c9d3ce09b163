//! What multiplies a completion's advantage.

use serde::{Deserialize, Serialize};

use super::weight;

/// The factor of a whole completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Factor {
    /// 1: right on policy, biased off it.
    One,
    /// w = π(y)/μ(y), uncapped, as in the paper's Eq. 3.
    W,
}

impl Factor {
    /// Names as in a recipe.
    pub const NAMES: [&str; 2] = ["one", "w"];

    /// Its name in a recipe.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Factor::One => "one",
            Factor::W => "w",
        }
    }

    /// The factor of a completion with log-weight `ell`.
    pub(super) fn of(self, ell: f64) -> f64 {
        match self {
            Factor::One => 1.0,
            Factor::W => weight::weight(ell),
        }
    }
}
