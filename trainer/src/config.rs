//! The configuration of a run: a typed TOML recipe, `--set` on top of it, and every default.
//!
//! Each section has a file, which declares each of its keys once. A program resolves a recipe once, with [`load`]; all other code takes plain values. The defaults are
//! the paper's settings where it states them.

pub(crate) mod algorithm;
mod data;
mod engine;
mod eval;
mod limits;
mod merge;
mod models;
mod optimiser;
mod recipes;
mod reward;
mod run;
mod sampling;
mod unused;
mod validate;
mod verifier;

use datasets::settings::settings;
use toml::Table;

pub use algorithm::{Algorithm, Baseline, Factor, LengthNorm, Preset};
pub use data::{Data, DataSet, Model, RunSet};
/// A recipe or a setting that cannot be used: one paragraph that names the key and the remedy.
pub use datasets::settings::SettingError as ConfigError;
pub use engine::{Device, Engine};
pub(crate) use eval::DEFAULT_EVAL_EVERY;
pub use eval::Eval;
pub use limits::{
    MAX_COMPLETIONS, MAX_COUNT, MAX_MIB, MAX_RANK, MAX_SAMPLES, MAX_THREADS, MAX_TOKENS,
};
pub use merge::{KEYS, load, load_as_written, parse, set_default_verifier};
pub use models::{NamedModel, named_model};
pub use optimiser::{Lora, LrSchedule, Optimiser};
pub use recipes::names as built_in;
pub use reward::{Reward, RewardTerm};
pub(crate) use run::DEFAULT_EPOCHS;
pub use run::{MetricsOf, Run};
pub use sampling::{BehaviourLogprob, Sampling};
pub use verifier::Verifier;

settings! {
    /// A resolved recipe.
    pub struct Config {
        /// The model that is trained: exactly one of the two keys.
        pub model: Model,
        /// The tasks, and how they become prompts.
        pub data: Data,
        /// The estimator and the sizes of its batches.
        pub algorithm: Algorithm,
        /// How completions are sampled in training.
        pub sampling: Sampling,
        /// AdamW and the learning rate.
        pub optimiser: Optimiser,
        /// Low-rank adapters (LoRA), which are trained instead of the weights, and merged into checkpoints.
        pub lora: Lora,
        /// Length, seed, checkpoints.
        pub run: Run,
        /// Evaluation on the held-out tasks.
        pub eval: Eval,
        /// The reward of a completion in training: the sum of these terms, each times its weight. A weight may be negative, and at least one is not 0.
        pub reward: Reward,
        /// The verifier that judges completions.
        pub verifier: Verifier,
        /// The device, and limits on the engine's use of the machine.
        pub engine: Engine,
    }
}

impl Config {
    /// The defaults, with the values of a preset.
    pub fn of(preset: Preset) -> Self {
        let mut config = Self {
            algorithm: Algorithm::of(preset),
            ..Self::default()
        };
        match preset {
            // DAPO's Eq. 13, over the last fifth of the tokens, as there. Its rewards are 1 and −1, so the whole penalty is half of their difference; here they are 1 and 0.
            // This ratio is what matters, since advantages are divided by the standard deviation.
            Preset::Dapo => config.reward.overlong = 0.5,
            Preset::Sft => config.optimiser.lr = 2e-5,
            _ => {}
        }
        config
    }

    /// N_step / G: prompts per optimiser update.
    pub fn prompts_per_update(&self) -> usize {
        self.algorithm.n_step / self.algorithm.group_size
    }

    /// N_inference / G: prompts per inference phase.
    pub fn prompts_per_phase(&self) -> usize {
        self.prompts_per_update() * self.algorithm.h
    }

    /// The resolved configuration as TOML, in the form that is printed and saved with the run.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("every field of a configuration has a TOML form")
    }

    fn to_table(&self) -> Table {
        Table::try_from(self).expect("every field of a configuration has a TOML form")
    }

    /// The engine's options.
    pub fn engine_options(&self) -> ::engine::EngineOptions {
        let lora = (self.lora.rank > 0).then_some(::engine::Lora {
            rank: self.lora.rank,
            alpha: self.lora.alpha as f32,
            seed: self.run.seed,
        });
        ::engine::EngineOptions {
            lora,
            slices: Some(self.run.slices),
            ..self.engine.options()
        }
    }
}

#[cfg(test)]
mod tests;
