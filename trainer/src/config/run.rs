//! `[run]`: length, seed, checkpoints.

use datasets::settings::{settings, whole};

use super::limits::MAX_COUNTED;

settings! {
    /// `[run]`: exactly one of `epochs` and `updates`.
    pub struct Run {
        /// The run's length: how often each training task is asked. 3 where neither this nor updates is set.
        pub epochs: Option<usize> => whole(1, 10_000),
        /// Or the number of optimiser updates in all.
        pub updates: Option<usize> => whole(1, 10_000_000)
            .or("; `rapid eval` measures a model without training it"),
        /// Decides the order of the data and every sample.
        pub seed: u64,
        /// A checkpoint every so many updates, besides the last one; 0 keeps to the last.
        pub checkpoint_every: usize = 20 => whole(0, MAX_COUNTED),
        /// Newest checkpoints kept, besides the best one.
        pub keep: usize = 1 => whole(1, MAX_COUNTED),
        /// false says nothing where the numbers look like reward hacking or collapse.
        pub alarms: bool = true,
    }
}
