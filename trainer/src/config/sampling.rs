//! `[sampling]`: how completions are sampled in training.

use datasets::settings::{between, choice, settings, whole};

use super::limits::{MAX_TOKENS, MIN_TEMPERATURE};

settings! {
    /// `[sampling]`: training samples at a temperature alone.
    pub struct Sampling {
        /// Training samples at a temperature alone (no top-p, top-k, min-p), since it needs the log-probability of what it sampled from. sft samples nothing: it trains the
        /// model's log-probabilities as they are, at 1, whatever this says.
        pub temperature: f64 = 0.9 => between(MIN_TEMPERATURE, 100.0)
            .or(" (the paper has 0.9): training samples, and at 0 there is nothing to sample"),
        /// Most tokens of a completion, the end token included.
        pub max_tokens: usize = 2048 => whole(1, MAX_TOKENS as u64),
        /// Where the log-probabilities of what was sampled come from, which importance weights are made of. On a CPU both are equal to the bit.
        ///   sampled    sampling itself
        ///   recompute  one more forward pass, that of training: on a GPU, where sampling and training round differently, no weight differs from 1 for that alone
        pub behaviour_logprob: BehaviourLogprob,
    }
}

choice! {
    /// Where the log-probabilities of a completion's tokens under the behaviour policy μ come from.
    pub enum BehaviourLogprob {
        /// From sampling, which has them anyway.
        #[default]
        Sampled = "sampled",
        /// From one more forward pass, that of training, over the completions of each update. Where sampling and training round differently, as on a GPU, no weight differs
        /// from 1 for that alone.
        Recompute = "recompute",
    }
}
