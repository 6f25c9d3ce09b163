//! `[reward]`: the reward of a completion in training.

use datasets::settings::{Limit, above, between, settings};

use super::limits::MAX_NUMBER;

const WEIGHT: Limit = between(-MAX_NUMBER, MAX_NUMBER);

settings! {
    /// `[reward]`: the weights of the terms of a completion's reward in training. Evaluation counts only correct completions.
    #[derive(Copy)]
    pub struct Reward {
        /// Weight of 1 if the completion is correct, else 0.
        pub correct: f64 = 1.0 => WEIGHT,
        /// Weight of the fraction of its tests that a program passes; for other tasks, the same as correct.
        pub share: f64 => WEIGHT,
        /// Weight of 1 if the completion has an answer in the requested form, correct or not, else 0.
        pub format: f64 => WEIGHT,
        /// Weight of the completion's length, as a fraction of sampling.max_tokens. A negative weight penalises length.
        pub length: f64 => WEIGHT,
        /// Weight of a penalty that falls from 0 to -1 over the last tokens before sampling.max_tokens. (dapo: 0.5.)
        pub overlong: f64 => WEIGHT,
        /// The number of those last tokens, as a fraction of sampling.max_tokens.
        pub overlong_margin: f64 = 0.2 => above(0.0, 1.0),
    }
}
