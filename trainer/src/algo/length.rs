//! How the length of a completion scales its gradient.

names! {
    /// The divisor of a token's term. N counts the completions of the mini-batch that have a reward, T the tokens of the token's own completion.
    pub enum LengthNorm {
        /// N: a completion's terms are summed, as the policy gradient is derived.
        None = "none",
        /// N·T: all completions have equal weight, so tokens of long ones count less (GRPO, Shao et al. 2024, Eq. 3).
        Length = "length",
        /// N·`max_tokens`: the sum, scaled by a constant (Dr. GRPO, Liu et al. 2025).
        MaxLength = "max-length",
        /// The tokens of all N completions: all tokens have equal weight (DAPO, Yu et al. 2025, Eq. 8).
        BatchTokens = "batch-tokens",
    }
}

impl LengthNorm {
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
