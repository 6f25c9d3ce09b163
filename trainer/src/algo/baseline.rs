//! The baseline that is subtracted from a completion's reward: an estimate of its prompt's value.

use serde::{Deserialize, Serialize};

use super::weight;

/// The value estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Baseline {
    /// b = 0: REINFORCE (Williams 1992).
    None,
    /// The mean reward of the whole mini-batch.
    Batch,
    /// b = (1/G) Σⱼ Rⱼ over the prompt's group, self included: the paper's Eq. 2.
    Group,
    /// bᵢ = (1/(G−1)) Σ_{j≠i} Rⱼ: only the others, so that b does not depend on the completion itself (RLOO, Kool et al. 2019).
    Loo,
    /// b = (1/G) Σⱼ w̄ⱼ Rⱼ with w̄ = min(w, η), self included: the paper's Eq. 5.
    WeightedGroup,
    /// bᵢ = (1/(G−1)) Σ_{j≠i} w̄ⱼ Rⱼ: Eq. 5 over only the others.
    WeightedLoo,
}

impl Baseline {
    /// All baselines.
    pub const ALL: [Baseline; 6] = [
        Baseline::None,
        Baseline::Batch,
        Baseline::Group,
        Baseline::Loo,
        Baseline::WeightedGroup,
        Baseline::WeightedLoo,
    ];
    /// Their names in a recipe, in the order of `ALL`.
    pub const NAMES: [&str; 6] = [
        "none",
        "batch",
        "group",
        "loo",
        "weighted-group",
        "weighted-loo",
    ];

    /// Its name in a recipe.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// Whether it needs at least two completions with a reward in each group.
    #[must_use]
    pub fn is_of_the_group(self) -> bool {
        !matches!(self, Baseline::None | Baseline::Batch)
    }

    /// b of each completion of a group that has a reward. `group` has `(reward, ℓ)` of each, at least two if the baseline is of the group; `batch` is the mean reward
    /// of the mini-batch.
    pub(super) fn of(self, group: &[(f64, f64)], batch: f64, eta: f64) -> Vec<f64> {
        let terms: Vec<f64> = match self {
            Baseline::None => return vec![0.0; group.len()],
            Baseline::Batch => return vec![batch; group.len()],
            Baseline::Group | Baseline::Loo => group.iter().map(|(reward, _)| *reward).collect(),
            Baseline::WeightedGroup | Baseline::WeightedLoo => group
                .iter()
                .map(|(reward, ell)| weight::capped(*ell, eta) * reward)
                .collect(),
        };
        let total: f64 = terms.iter().sum();
        let count = terms.len() as f64;
        match self {
            Baseline::Loo | Baseline::WeightedLoo => terms
                .iter()
                .map(|own| (total - own) / (count - 1.0))
                .collect(),
            _ => vec![total / count; terms.len()],
        }
    }
}
