//! `[eval]`: evaluation on the held-out tasks.

use datasets::settings::{above, below, between, settings, whole};

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
        /// Evaluate only on this many held-out tasks, the first ones; unless set, on all.
        pub limit: Option<usize> => whole(1, MAX_COUNT).hint(OFF),
        /// Seed of the evaluation, separate from run.seed, so that runs with different seeds are evaluated alike. If it is run.seed, a task in both splits is sampled
        /// with the random numbers of the first epoch.
        pub seed: u64 = 1,
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;

    /// `every` and `every_epochs` of a recipe with this `[eval]` and these settings on top, or the error.
    fn every(eval: &str, sets: &[&str]) -> Result<(Option<usize>, Option<usize>), String> {
        let recipe = format!("[model]\nname = \"m\"\n[data]\ndataset = \"d\"\n[eval]\n{eval}");
        let sets: Vec<String> = sets.iter().map(ToString::to_string).collect();
        parse("my.toml", &recipe, &sets)
            .map(|config| (config.eval.every, config.eval.every_epochs))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn evaluations_are_every_number_of_updates_or_every_number_of_epochs() {
        assert_eq!(every("", &[]), Ok((Some(20), None)));
        assert_eq!(every("every = 0", &[]), Ok((Some(0), None)));
        assert_eq!(every("every_epochs = 2", &[]), Ok((None, Some(2))));
        // On the command line the later of the two counts.
        assert_eq!(
            every("every = 7", &["eval.every_epochs=1"]),
            Ok((None, Some(1)))
        );
        assert_eq!(
            every("every_epochs = 1", &["eval.every=7"]),
            Ok((Some(7), None))
        );
        let both = every("every = 7\nevery_epochs = 1", &[]).unwrap_err();
        assert_eq!(
            both,
            "`eval.every_epochs`: `eval.every` is set too; keep one of the two"
        );
    }
}
