//! What a run does: a typed TOML recipe, `--set` on top of it, and every default.
//!
//! [`load`] resolves it once at the edge; everything below takes plain values. The defaults are the paper's settings where it has them.

mod idle;
mod keys;
mod layers;
mod models;
mod presets;
mod ranges;
mod recipes;
mod validate;
mod verifier;

use std::path::PathBuf;

use engine::text::Date;
use serde::{Deserialize, Serialize};

use crate::algo::Estimator;
pub use crate::algo::{Baseline, Factor, LengthNorm, Preset};
pub use keys::nearest;
pub use layers::{load, parse, parse_set};
pub use models::{NamedModel, named_model};
pub use ranges::{MOST_COMPLETIONS, MOST_MIB, MOST_RANK, MOST_SAMPLES, MOST_THREADS, MOST_TOKENS};
pub use recipes::names as built_in;
pub use verifier::Verifier;

/// A resolved recipe.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// What is trained.
    pub model: Model,
    /// On which tasks, and how they are asked.
    pub data: Data,
    /// The estimator and the sizes of its batches.
    pub algorithm: Algorithm,
    /// How completions are drawn in training.
    pub sampling: Sampling,
    /// AdamW and the learning rate.
    pub optimiser: Optimiser,
    /// Adapters, where they are what is trained.
    pub lora: Lora,
    /// Length, seed, checkpoints.
    pub run: Run,
    /// Evaluation on the held-out tasks.
    pub eval: Eval,
    /// What a verdict is worth in training.
    pub reward: Reward,
    /// Where verdicts come from.
    pub verifier: Verifier,
    /// What the engine may use of the machine.
    pub engine: Engine,
}

/// `[model]`: exactly one of the two.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Model {
    /// A model that `rapid fetch model:NAME` knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// A GGUF file, or a folder with `config.json`, `tokenizer.json` and `*.safetensors`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
}

/// `[data]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Data {
    /// `mbppplus`, `math`, `gsm8k`, `minif2f`, `humaneval`, `starter-math`, `starter-code`, `starter-lean`, or a path to a `.jsonl` file.
    pub dataset: String,
    /// `auto` (the data set's own), a template's name, a path to a file that holds one, or the text itself, with its `{question}`.
    pub template: String,
    /// Put the rendered prompt into the model's chat template, as the user's message.
    pub chat: bool,
    /// The day, as in 2026-03-09, that chat templates write which write the date; that on which the run began unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chat_date: Option<String>,
    /// Texts that end a completion, besides the model's end-of-text tokens; the template's unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<Vec<String>>,
    /// Longer training prompts are left out, with a count.
    pub max_prompt_tokens: usize,
    /// Train on the first so many tasks only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub train_limit: Option<usize>,
    /// A JSON Lines file of a teacher's completions, for supervised fine-tuning on those that the verifier finds right.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub teacher: Option<PathBuf>,
}

impl Default for Data {
    fn default() -> Self {
        Self {
            dataset: String::new(),
            template: "auto".into(),
            chat: false,
            chat_date: None,
            stop: None,
            max_prompt_tokens: 1024,
            train_limit: None,
            teacher: None,
        }
    }
}

impl Data {
    /// `chat_date`, where it is set.
    #[must_use]
    pub fn chat_day(&self) -> Option<Date> {
        self.chat_date.as_deref()?.parse().ok()
    }
}

/// `[algorithm]`. The preset sets everything else here; each can be set by itself on top.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Algorithm {
    /// A row of the table in `docs/algorithms.md`.
    pub preset: Preset,
    /// What multiplies a completion's advantage.
    pub factor: Factor,
    /// What is subtracted from a completion's reward.
    pub baseline: Baseline,
    /// η: the cap on importance weights, where a factor or baseline caps them.
    pub eta: f64,
    /// ε₋: how far below 1 a token's ratio may be, where the factor clips it.
    pub clip_low: f64,
    /// ε₊: how far above.
    pub clip_high: f64,
    /// What a token's term is divided by.
    pub length_norm: LengthNorm,
    /// Whether an advantage is divided by its group's standard deviation; with the baselines `group` and `loo` only.
    pub divide_by_std: bool,
    /// β: the weight of the divergence from the model that training began with; 0 does without that model.
    pub kl: f64,
    /// Lower the cap η, to 1 at least, until the effective sample size of a mini-batch is this share of its completions; 0 leaves it.
    pub adaptive_eta: f64,
    /// End an inference phase early, and draw the rest of it anew, where the effective sample size of the next mini-batch is below this share of its completions; 0
    /// goes through with it.
    pub adaptive_h: f64,
    /// Draw groups that are all right or all wrong anew, with other prompts, up to so many times; 0 takes them as they are.
    pub dynamic_sampling: usize,
    /// Cut mini-batches from the completions of a phase in an order of their own, as the authors' public code does: a prompt's completions are spread over several, and
    /// a baseline is over those of them that happen to be together.
    pub mix_groups: bool,
    /// Sum over padding too, as the authors' public code does: end tokens behind each completion, up to the length of the longest of its phase.
    pub sum_padding: bool,
    /// G: completions a prompt.
    pub group_size: usize,
    /// N_step: completions an optimiser update, over all devices.
    pub n_step: usize,
    /// H: updates an inference phase, so N_inference = H × N_step.
    pub h: usize,
}

impl Algorithm {
    /// The knobs, as the algorithm takes them.
    #[must_use]
    pub fn estimator(&self) -> Estimator {
        Estimator {
            factor: self.factor,
            baseline: self.baseline,
            eta: self.eta,
            clip_low: self.clip_low,
            clip_high: self.clip_high,
            length_norm: self.length_norm,
            divide_by_std: self.divide_by_std,
            kl: self.kl,
            adaptive_eta: self.adaptive_eta,
        }
    }
}

/// `[sampling]`: training samples at a temperature alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sampling {
    /// Above 0: the gradient is that of the distribution sampled from.
    pub temperature: f64,
    /// Most tokens of a completion, the end token included.
    pub max_tokens: usize,
    /// Where log μ comes from.
    pub behaviour_logprob: BehaviourLogprob,
}

/// Where the log-probabilities of a completion's tokens under the behaviour policy μ come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BehaviourLogprob {
    /// From sampling, which has them anyway.
    #[default]
    Sampled,
    /// From one more forward pass, that of training, over the completions of each update. Where sampling and training round differently, as on a GPU, no weight differs
    /// from 1 for that alone.
    Recompute,
}

impl BehaviourLogprob {
    /// As recipes name them.
    pub const NAMES: [&str; 2] = ["sampled", "recompute"];
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            temperature: 0.9,
            max_tokens: 2048,
            behaviour_logprob: BehaviourLogprob::Sampled,
        }
    }
}

/// `[optimiser]`: AdamW.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Optimiser {
    /// Learning rate: its highest, where it changes.
    pub lr: f64,
    /// How it falls over the run's updates: `constant`, `linear` or `cosine`.
    pub schedule: LrSchedule,
    /// Updates over which it rises in a line, first of all.
    pub warmup: usize,
    /// The share of `lr` that a falling one falls towards.
    pub final_lr: f64,
    /// Decay of the first moment.
    pub beta1: f64,
    /// Decay of the second moment.
    pub beta2: f64,
    /// Added to the root of the second moment.
    pub eps: f64,
    /// Decoupled weight decay.
    pub weight_decay: f64,
    /// Largest global gradient norm; 0 leaves gradients as they are.
    pub clip_norm: f64,
}

impl Default for Optimiser {
    fn default() -> Self {
        Self {
            lr: 1e-6,
            schedule: LrSchedule::Constant,
            warmup: 0,
            final_lr: 0.0,
            beta1: 0.9,
            beta2: 0.999,
            eps: 1e-8,
            weight_decay: 0.0,
            clip_norm: 1.0,
        }
    }
}

/// The course of the learning rate after its warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LrSchedule {
    /// It stays.
    Constant,
    /// It falls in a line.
    Linear,
    /// It falls as half a cosine (Loshchilov & Hutter 2017, without restarts).
    Cosine,
}

impl LrSchedule {
    /// As recipes name them.
    pub const NAMES: [&str; 3] = ["constant", "linear", "cosine"];
}

/// `[lora]`: train low-rank adapters beside the matrices of the blocks (Hu et al. 2021), instead of all weights.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Lora {
    /// Rank of the adapters; 0 trains all weights.
    pub rank: usize,
    /// What the adapters add is multiplied by `alpha / rank`.
    pub alpha: f64,
}

impl Default for Lora {
    fn default() -> Self {
        Self {
            rank: 0,
            alpha: 32.0,
        }
    }
}

/// `[run]`: exactly one of `epochs` and `updates`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Run {
    /// Times that each training task is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epochs: Option<usize>,
    /// Optimiser updates in all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updates: Option<usize>,
    /// Decides the order of the data and every sample.
    pub seed: u64,
    /// A checkpoint every so many updates, besides the last one; 0 keeps to the last.
    pub checkpoint_every: usize,
    /// Newest checkpoints kept, besides the best one.
    pub keep: usize,
    /// Say where the numbers look like reward hacking or collapse; see [`crate::run::alarms`].
    pub alarms: bool,
}

impl Default for Run {
    fn default() -> Self {
        Self {
            epochs: None,
            updates: None,
            seed: 0,
            checkpoint_every: 20,
            keep: 1,
            alarms: true,
        }
    }
}

/// `[eval]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Eval {
    /// Evaluate before the first update, after the last, and every so many between; 0 leaves those between out.
    pub every: usize,
    /// Completions a task; 0 never evaluates.
    pub samples: usize,
    /// The k of each Pass@k.
    pub k: Vec<usize>,
    /// Temperature; 0 is greedy.
    pub temperature: f64,
    /// Nucleus cut-off; 1 keeps all.
    pub top_p: f64,
    /// Keep the likeliest so many tokens; 0 keeps all.
    pub top_k: usize,
    /// Keep tokens at least so many times as likely as the likeliest; 0 keeps all.
    pub min_p: f64,
    /// Most tokens of a completion; that of training unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<usize>,
    /// Evaluate on the first so many held-out tasks only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// The evaluation's own seed, so that runs with different seeds are evaluated alike.
    pub seed: u64,
}

impl Default for Eval {
    fn default() -> Self {
        Self {
            every: 20,
            samples: 8,
            k: vec![1, 8],
            temperature: 0.9,
            top_p: 1.0,
            top_k: 0,
            min_p: 0.0,
            max_tokens: None,
            limit: None,
            seed: 1,
        }
    }
}

/// `[reward]`: the weights of the terms that a completion's training reward is the sum of. Evaluation knows only right and wrong.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Reward {
    /// Of the verifier's reward: 1 where the completion is right, else 0.
    pub correct: f64,
    /// Of the share of its tests that a program passes; the verifier's reward, where there are none.
    pub share: f64,
    /// Of 1 where there is an answer in the form that was asked for, right or wrong, else 0.
    pub format: f64,
    /// Of the completion's length, as a share of `sampling.max_tokens`. Below 0, it is a price.
    pub length: f64,
    /// Of a punishment that falls from 0 to −1 over the last tokens before `sampling.max_tokens`.
    pub overlong: f64,
    /// Over how many of them, as a share of `sampling.max_tokens`.
    pub overlong_margin: f64,
}

impl Default for Reward {
    fn default() -> Self {
        Self {
            correct: 1.0,
            share: 0.0,
            format: 0.0,
            length: 0.0,
            overlong: 0.0,
            overlong_margin: 0.2,
        }
    }
}

/// `[engine]`: what it computes with, and limits on what it takes of the machine. `dtype` changes what the numbers are, `device` and `pack_tokens` how they are rounded; the others change none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Engine {
    /// `auto`, `cpu`, `cuda` or `cuda:N`; `--device` sets it too.
    pub device: String,
    /// Threads of the cpu backend; one a processor that the process may use unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<usize>,
    /// `f32` or `bf16`: the numbers that matrix products multiply; `--dtype` sets it too.
    pub dtype: String,
    /// Tokens of key/value cache; what the requests need unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kv_tokens: Option<usize>,
    /// Most tokens of one training pack.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pack_tokens: Option<usize>,
    /// Most sequences generated at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_sequences: Option<usize>,
    /// MiB of activations that training keeps from the forward to the backward pass, instead of computing them again; a third of what weights, gradients and moments
    /// leave unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activations_mib: Option<u64>,
}

impl Default for Engine {
    fn default() -> Self {
        Self {
            device: "auto".into(),
            threads: None,
            dtype: "f32".into(),
            kv_tokens: None,
            pack_tokens: None,
            max_sequences: None,
            activations_mib: None,
        }
    }
}

/// A recipe or a setting that cannot be used: one paragraph that names the key and the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The recipe's file cannot be read.
    #[error(
        "the recipe {path} cannot be read ({reason}); give a TOML file, or one of the built-in recipes: {built_in}"
    )]
    Unreadable {
        /// What was given.
        path: String,
        /// What the system said.
        reason: String,
        /// The built-in names.
        built_in: String,
    },
    /// Not TOML.
    #[error("{origin} is not valid TOML: {reason}")]
    Syntax {
        /// The file or setting.
        origin: String,
        /// Where and what.
        reason: String,
    },
    /// A setting without its section, or without a value.
    #[error("--set {set} is no setting: write section.key=value, such as --set {example}")]
    Shape {
        /// The setting.
        set: String,
        /// How it could be written.
        example: String,
    },
    /// No such key.
    #[error("{origin}: there is no key `{key}`{hint}")]
    UnknownKey {
        /// The file or setting.
        origin: String,
        /// Section and key.
        key: String,
        /// The nearest known one, or the section's keys.
        hint: String,
    },
    /// A value that the key cannot take, or keys that do not go together.
    #[error("`{key}`: {reason}")]
    Value {
        /// Section and key.
        key: String,
        /// What is wrong, and the remedy.
        reason: String,
    },
}

impl Config {
    /// N_step / G: prompts an optimiser update.
    #[must_use]
    pub fn prompts_per_update(&self) -> usize {
        self.algorithm.n_step / self.algorithm.group_size
    }

    /// N_inference / G: prompts an inference phase.
    #[must_use]
    pub fn prompts_per_phase(&self) -> usize {
        self.prompts_per_update() * self.algorithm.h
    }

    /// The resolved configuration as TOML, as it is printed and saved with the run.
    #[must_use]
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("every field of a configuration has a TOML form")
    }

    /// The engine's options.
    ///
    /// # Errors
    /// Where `engine.device` names no device, or `engine.dtype` no type.
    pub fn engine_options(&self) -> Result<engine::EngineOptions, ConfigError> {
        let lora = (self.lora.rank > 0).then_some(engine::Lora {
            rank: self.lora.rank,
            alpha: self.lora.alpha as f32,
            seed: self.run.seed,
        });
        Ok(engine::EngineOptions {
            lora,
            ..self.engine.options()?
        })
    }
}

impl Engine {
    /// The engine's options.
    ///
    /// # Errors
    /// Where `device` names no device, or `dtype` no type.
    pub fn options(&self) -> Result<engine::EngineOptions, ConfigError> {
        Ok(engine::EngineOptions {
            device: validate::device(&self.device)?,
            threads: self.threads,
            dtype: validate::dtype(&self.dtype)?,
            kv_tokens: self.kv_tokens,
            pack_tokens: self.pack_tokens,
            max_sequences: self.max_sequences,
            activation_bytes: self.activations_mib.map(|mib| mib.saturating_mul(1 << 20)),
            lora: None,
        })
    }
}

#[cfg(test)]
mod tests;
