//! How the length of a completion scales its gradient.

use serde::{Deserialize, Serialize};

/// The divisor of a token's term. N counts the completions of the mini-batch that have a reward, T the tokens of the token's own completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LengthNorm {
    /// N: a completion's terms are summed, as the policy gradient is derived.
    None,
    /// N·T: all completions have equal weight, so tokens of long ones count less (GRPO, Shao et al. 2024, Eq. 3).
    Length,
    /// N·`max_tokens`: the sum, scaled by a constant (Dr. GRPO, Liu et al. 2025).
    MaxLength,
    /// The tokens of all N completions: all tokens have equal weight (DAPO, Yu et al. 2025, Eq. 8).
    BatchTokens,
}

impl LengthNorm {
    /// All norms.
    pub const ALL: [LengthNorm; 4] = [
        LengthNorm::None,
        LengthNorm::Length,
        LengthNorm::MaxLength,
        LengthNorm::BatchTokens,
    ];
    /// Their names in a recipe, in the order of `ALL`.
    pub const NAMES: [&str; 4] = ["none", "length", "max-length", "batch-tokens"];

    /// Its name in a recipe.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// The divisor for a completion of `tokens` tokens, in a mini-batch of `judged` completions that have `all_tokens` tokens together.
    pub(super) fn divisor(
        self,
        tokens: usize,
        judged: usize,
        all_tokens: usize,
        max_tokens: usize,
    ) -> f64 {
        let divisor = match self {
            LengthNorm::None => judged,
            LengthNorm::Length => judged * tokens,
            LengthNorm::MaxLength => judged * max_tokens,
            LengthNorm::BatchTokens => all_tokens,
        };
        divisor.max(1) as f64
    }
}
