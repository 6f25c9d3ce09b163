//! `[eval]`: evaluation on the held-out tasks.

use datasets::settings::{above, below, between, settings, whole};

use super::limits::{MAX_COUNTED, MAX_SAMPLES, MAX_TOKENS};

/// What to do instead of evaluating on nothing.
const OFF: &str = "; `eval.samples = 0` turns evaluation off";

settings! {
    /// `[eval]`.
    pub struct Eval {
        /// The model is evaluated before the first update, after the last, and every so many between; 0 leaves those between out.
        pub every: usize = 20 => whole(0, MAX_COUNTED),
        /// Completions per task, for Pass@k; 0 never evaluates.
        pub samples: usize = 8 => whole(0, MAX_SAMPLES as u64),
        /// The k of each Pass@k, from 1 to samples. Pass@1 is always there, since checkpoints are ranked by it.
        pub k: Vec<usize> = vec![1, 8],
        /// 0 takes the likeliest token each time; else 0.000001 or more.
        pub temperature: f64 = 0.9 => between(0.0, 100.0),
        /// Nucleus cut-off; 1 keeps all.
        pub top_p: f64 = 1.0 => above(0.0, 1.0),
        /// Keep the likeliest so many tokens; 0 keeps all.
        pub top_k: usize => whole(0, MAX_COUNTED),
        /// Keep tokens at least so many times as likely as the likeliest; 0 keeps all.
        pub min_p: f64 => below(0.0, 1.0),
        /// Most tokens of a completion; as in training unless set.
        pub max_tokens: Option<usize> => whole(1, MAX_TOKENS as u64).or(OFF),
        /// Evaluate on the first so many held-out tasks only; on all unless set.
        pub limit: Option<usize> => whole(1, MAX_COUNTED).or(OFF),
        /// The evaluation's own seed, so that runs with different seeds are evaluated alike.
        pub seed: u64 = 1,
    }
}
