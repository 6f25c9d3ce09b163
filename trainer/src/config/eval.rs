//! `[eval]`: evaluation on the held-out tasks.

use std::collections::BTreeMap;

use datasets::settings::{above, below, between, settings, whole};

use super::data::DataSet;
use super::limits::{MAX_COUNT, MAX_SAMPLES, MAX_TOKENS};

/// Updates between evaluations if neither `every` nor `every_epochs` is set.
pub(crate) const DEFAULT_EVAL_EVERY: usize = 20;

/// The end of the error for a limit of 0.
const OFF: &str = "; `eval.samples = 0` turns evaluation off";

settings! {
    /// `[eval]`: at most one of `every` and `every_epochs`.
    pub struct Eval {
        /// Updates between evaluations; the model is also evaluated before the first update and after the last. 0 evaluates only then. 20 if neither this nor every_epochs is
        /// set.
        pub every: Option<usize> => whole(0, MAX_COUNT),
        /// Epochs between evaluations, each after the update with the epoch's last prompt; 1 evaluates after each epoch. Also before the first update and after the last.
        pub every_epochs: Option<usize> => whole(1, 10_000)
            .hint("; `eval.every = 0` evaluates only before the first update and after the last"),
        /// Completions per task, for Pass@k; 0 turns evaluation off.
        pub samples: usize = 8 => whole(0, MAX_SAMPLES as u64),
        /// The k of each Pass@k, from 1 to samples. Pass@1 is always computed, since checkpoints are ranked by it.
        pub k: Vec<usize> = vec![1, 8],
        /// Sampling temperature: 0, which is greedy, or 0.000001 or more.
        pub temperature: f64 = 0.9 => between(0.0, 100.0),
        /// Keep the likeliest tokens until their probabilities sum to this; 1 keeps all.
        pub top_p: f64 = 1.0 => above(0.0, 1.0),
        /// Keep this many of the likeliest tokens; 0 keeps all.
        pub top_k: usize => whole(0, MAX_COUNT),
        /// Keep tokens at least this many times as likely as the likeliest; 0 keeps all.
        pub min_p: f64 => below(0.0, 1.0),
        /// Minimum tokens of a completion: its first min_tokens tokens are not the model's end tokens, which cannot be sampled there. A stop string may end it earlier. At most
        /// max_tokens.
        pub min_tokens: usize => whole(0, MAX_TOKENS as u64),
        /// Maximum tokens of a completion; unless set, as in training.
        pub max_tokens: Option<usize> => whole(1, MAX_TOKENS as u64).hint(OFF),
        /// Evaluate only on this many held-out tasks of each data set, the first ones; unless set, on all.
        pub limit: Option<usize> => whole(1, MAX_COUNT).hint(OFF),
        /// Seed of the evaluation, separate from run.seed, so that runs with different seeds are evaluated alike. If it is run.seed, a task in both splits is sampled
        /// with the random numbers of the first epoch.
        pub seed: u64 = 1,
        /// Data sets to evaluate on, each in a section of its own, in place of the held-out tasks of those that are trained on. An evaluation covers all of them, and has
        /// the figures of each under its name too. The best checkpoint is that with the highest Pass@1 over all tasks together.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        pub sets: BTreeMap<String, DataSet>,
    }
}
