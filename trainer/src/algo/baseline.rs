//! What is subtracted from a completion's reward: an estimate of its prompt's value.

use serde::{Deserialize, Serialize};

use super::weight;

/// The value estimate, from the rewards of the prompt's whole group, self included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Baseline {
    /// b = (1/G) Σⱼ Rⱼ: the paper's Eq. 2.
    Group,
    /// b = (1/G) Σⱼ w̄ⱼ Rⱼ with w̄ = min(w, η): the paper's Eq. 5.
    WeightedGroup,
}

impl Baseline {
    /// Names as in a recipe.
    pub const NAMES: [&str; 2] = ["group", "weighted-group"];

    /// Its name in a recipe.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Baseline::Group => "group",
            Baseline::WeightedGroup => "weighted-group",
        }
    }

    /// b of a group, given `(reward, ℓ)` of each of its completions that has a reward; at least one.
    pub(super) fn of(self, group: &[(f64, f64)], eta: f64) -> f64 {
        let total: f64 = match self {
            Baseline::Group => group.iter().map(|(reward, _)| reward).sum(),
            Baseline::WeightedGroup => group
                .iter()
                .map(|(reward, ell)| weight::capped(*ell, eta) * reward)
                .sum(),
        };
        total / group.len() as f64
    }
}
