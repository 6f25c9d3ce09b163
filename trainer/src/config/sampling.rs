//! `[sampling]`: how completions are sampled in training.

use datasets::settings::{between, choice, settings, whole};

use super::limits::{MAX_TOKENS, MIN_TEMPERATURE};

settings! {
    /// `[sampling]`: training samples at a temperature, without cut-offs.
    pub struct Sampling {
        /// Sampling temperature. Training has no top-p, top-k or min-p, since it needs the log-probability of the distribution that it samples from. sft samples nothing: it
        /// trains the model's log-probabilities at temperature 1, whatever this value is.
        pub temperature: f64 = 1.0 => between(MIN_TEMPERATURE, 100.0)
            .hint(" (the paper has 1): training samples, and at 0 there is nothing to sample"),
        /// Maximum tokens of a completion, including the end token.
        pub max_tokens: usize = 2048 => whole(1, MAX_TOKENS as u64),
        /// Source of the log-probabilities of sampled tokens under the behaviour policy, for importance weights. On a CPU both choices are equal to the bit.
        ///   sampled    sampling itself
        ///   recompute  another forward pass, that of training: on a GPU sampling and training round differently, and this keeps that out of the weights
        pub behaviour_logprob: BehaviourLogprob,
    }
}

choice! {
    /// The source of the log-probabilities of a completion's tokens under the behaviour policy μ.
    pub enum BehaviourLogprob {
        /// Sampling, which computes them anyway.
        #[default]
        Sampled = "sampled",
        /// Another forward pass, that of training, over the completions of each update. On a GPU sampling and training round differently, and this keeps that out of the
        /// importance weights.
        Recompute = "recompute",
    }
}
