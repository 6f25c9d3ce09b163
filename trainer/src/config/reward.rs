//! `[reward]`: what a verdict is worth in training.

use datasets::settings::{Limit, above, between, settings};

use super::limits::LARGE;

const WEIGHT: Limit = between(-LARGE, LARGE);

settings! {
    /// `[reward]`: the weights of the terms that a completion's training reward is the sum of. Evaluation knows only right and wrong.
    #[derive(Copy)]
    pub struct Reward {
        /// Of 1 if the completion is right, else 0.
        pub correct: f64 = 1.0 => WEIGHT,
        /// Of the share of its tests that a program passes; for other tasks, the same as correct.
        pub share: f64 => WEIGHT,
        /// Of 1 if there is an answer in the form asked for, right or wrong, else 0.
        pub format: f64 => WEIGHT,
        /// Of the completion's length, as a share of sampling.max_tokens. Below 0, it is a price.
        pub length: f64 => WEIGHT,
        /// Of a punishment that falls from 0 to -1 over the last tokens before sampling.max_tokens. (dapo: 0.5.)
        pub overlong: f64 => WEIGHT,
        /// Over how many of them, as a share of sampling.max_tokens.
        pub overlong_margin: f64 = 0.2 => above(0.0, 1.0),
    }
}
