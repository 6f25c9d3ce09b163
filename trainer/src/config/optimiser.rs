//! `[optimiser]` and `[lora]`: the optimiser, and low-rank adapters.

use datasets::settings::{above, below, between, choice, settings, whole};

use super::limits::{MAX_COUNT, MAX_NUMBER, MAX_RANK};

settings! {
    /// `[optimiser]`: AdamW.
    pub struct Optimiser {
        /// The learning rate; the highest one, if it changes. (sft: 2e-5.)
        pub lr: f64 = 1e-6 => between(0.0, 1.0),
        /// The course of the learning rate over the run's updates, after the warm-up: constant, linear or cosine.
        pub schedule: LrSchedule,
        /// The number of first updates over which the learning rate rises linearly.
        pub warmup: usize => whole(0, MAX_COUNT),
        /// The fraction of lr towards which linear and cosine fall.
        pub final_lr: f64 => between(0.0, 1.0),
        /// Decay of the first moment.
        pub beta1: f64 = 0.9 => below(0.0, 1.0),
        /// Decay of the second moment.
        pub beta2: f64 = 0.999 => below(0.0, 1.0),
        /// Added to the root of the second moment.
        pub eps: f64 = 1e-8 => above(0.0, 1.0),
        /// Decoupled weight decay.
        pub weight_decay: f64 => between(0.0, MAX_NUMBER),
        /// Gradients with a larger global norm are scaled down to it; 0 leaves them as they are.
        pub clip_norm: f64 = 1.0 => between(0.0, MAX_NUMBER),
    }
}

choice! {
    /// The course of the learning rate after its warm-up.
    pub enum LrSchedule {
        /// Stays at `lr`.
        Constant = "constant",
        /// Falls along a straight line.
        #[default]
        Linear = "linear",
        /// Falls as half a cosine (Loshchilov & Hutter 2017, without restarts).
        Cosine = "cosine",
    }
}

settings! {
    /// `[lora]`: train low-rank adapters beside the matrices of the blocks (Hu et al. 2021), instead of all weights.
    pub struct Lora {
        /// Rank of the adapters; 0 trains all weights.
        pub rank: usize => whole(0, MAX_RANK as u64),
        /// What the adapters add is multiplied by alpha / rank.
        pub alpha: f64 = 32.0 => above(0.0, MAX_NUMBER),
    }
}
