//! `[run]`: length, seed, checkpoints.

use datasets::settings::{choice, settings, whole};

use super::limits::MAX_COUNT;

const MAX_SLICES: u64 = 1024;

/// The run's length in epochs if neither `epochs` nor `updates` is set.
pub(crate) const DEFAULT_EPOCHS: usize = 3;

settings! {
    /// `[run]`: exactly one of `epochs` and `updates`.
    pub struct Run {
        /// The run's length in epochs: how often completions of each training task are sampled. 3 if neither this nor updates is set.
        pub epochs: Option<usize> => whole(1, 10_000),
        /// The run's length in optimiser updates.
        pub updates: Option<usize> => whole(1, 10_000_000)
            .hint("; `rapid eval` measures a model without training it"),
        /// Seed of the order of the data and of every sample.
        pub seed: u64,
        /// Updates between checkpoints; the last update always has one. 0 saves only that.
        pub checkpoint_every: usize = 20 => whole(0, MAX_COUNT),
        /// Number of newest checkpoints that are kept, in addition to the best one. One more is kept if the run does not evaluate its last weights.
        pub keep: usize = 1 => whole(1, MAX_COUNT),
        /// Whether a run that has finished keeps the state of its checkpoints (`state.bin`, three times the trained weights). Only with it can the run be made longer.
        pub keep_state: bool,
        /// Slices of a mini-batch, which the ranks of a launcher (mpirun, srun) divide between them: a power of two, at least the number of ranks. Results depend on it, and
        /// not on the number of ranks.
        pub slices: usize = 1 => whole(1, MAX_SLICES),
        /// The completions that an update computes. Its metrics of staleness, weights and divergence are of these.
        ///   trained  those with a gradient. A group of equal rewards has none if its completions are compared; with a weighted baseline, if they are all 0
        ///   all      all, as the paper's tables need. But for rounding, the weights change as with trained, and an update takes longer
        /// adaptive_eta, auto_h, kl and sum_padding read all, so all are computed with them.
        pub metrics: MetricsOf,
        /// false turns off the warnings about signs of reward hacking and collapse.
        pub alarms: bool = true,
    }
}

choice! {
    /// The completions that an update computes.
    pub enum MetricsOf {
        /// Those that have a gradient.
        #[default]
        Trained = "trained",
        /// All, also those without a gradient.
        All = "all",
    }
}
