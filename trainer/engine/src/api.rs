//! What users ask of an [`Engine`](crate::Engine), and what it answers.

use std::sync::Arc;
use std::time::Duration;

use crate::backend::Dtype;
use crate::batch::TokenStats;
use crate::model::Lora;
use crate::sample::Sampling;

/// Where to compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Device {
    /// The first GPU where it works, else the CPU.
    #[default]
    Auto,
    /// This machine's processors.
    Cpu,
    /// The GPU of this number.
    Cuda(usize),
}

/// What the engine may use.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct EngineOptions {
    /// Where to compute.
    pub device: Device,
    /// Threads of the cpu backend; `None` takes one a processor that this process may use.
    pub threads: Option<usize>,
    /// The numbers that matrix products multiply.
    pub dtype: Dtype,
    /// Tokens of key/value cache for generation; `None` takes what the requests at hand need, up to a quarter of the memory.
    pub kv_tokens: Option<usize>,
    /// Maximum tokens of one training pack.
    pub pack_tokens: Option<usize>,
    /// Maximum number of sequences generated at once.
    pub max_sequences: Option<usize>,
    /// Bytes of activations that training keeps from the forward to the backward pass; `None` takes a third of the memory that weights, gradients and moments leave.
    /// The rest is recomputed, to the same bits.
    pub activation_bytes: Option<u64>,
    /// Train low-rank adapters beside the weights, instead of the weights.
    pub lora: Option<Lora>,
}

/// A prompt and the samples wanted of it.
#[derive(Debug, Clone, PartialEq)]
pub struct GenerateRequest {
    /// Token ids of the prompt; at least one. Computed once for all samples.
    pub prompt: Arc<[u32]>,
    /// One completion is drawn for each seed. On the CPU a completion is a function of the weights, the prompt, the sampling and its seed, whatever else is generated with it;
    /// on a GPU up to rounding, by which a draw may now and then fall otherwise.
    pub seeds: Vec<u64>,
    /// How tokens are drawn.
    pub sampling: Sampling,
    /// Maximum tokens of a completion, the end token included.
    pub max_tokens: usize,
    /// Token ids that end a completion; they belong to it.
    pub stop_tokens: Vec<u32>,
    /// Texts that end a completion. The token that completes one belongs to the completion; [`Completion::text`] ends before it.
    pub stop_strings: Vec<String>,
}

/// A finished sample.
#[derive(Debug, Clone, PartialEq)]
pub struct Completion {
    /// Index of the request.
    pub request: usize,
    /// Index of the seed in the request.
    pub sample: usize,
    /// Token ids, the end token included.
    pub tokens: Vec<u32>,
    /// Log-probability of each token under the sampling temperature, from the forward pass that sampled it.
    pub logp: Vec<f32>,
    /// Decoded text without special tokens, cut before a stop string.
    pub text: String,
    /// Why it ended.
    pub finish: Finish,
}

/// Why a completion ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Finish {
    /// A stop token or a stop string.
    Stop,
    /// `max_tokens`, or the model's context.
    Length,
}

/// Given per-token numbers of every completion (groups in order, completions in order), returns `dL/dlogp` for each of their tokens in the same shape, or `None` to
/// skip the update.
pub type Objective = Box<dyn FnOnce(&[TokenStats]) -> Result<Option<Vec<Vec<f32>>>, String> + Send>;

/// As [`Objective`], but returns several sets of `dL/dlogp`.
pub type Objectives = Box<dyn FnOnce(&[TokenStats]) -> Result<Vec<Vec<Vec<f32>>>, String> + Send>;

/// One AdamW update (Loshchilov & Hutter 2019, decoupled weight decay) after clipping the gradient's global norm.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct AdamW {
    /// Learning rate of this update.
    pub lr: f32,
    /// Decay of the first moment.
    pub beta1: f32,
    /// Decay of the second moment.
    pub beta2: f32,
    /// Added to the root of the second moment.
    pub eps: f32,
    /// Decoupled weight decay.
    pub weight_decay: f32,
    /// Largest global gradient norm; larger gradients are scaled down to it. Infinity leaves them.
    pub clip_norm: f32,
}

/// What a training step did.
#[derive(Debug, Clone, PartialEq)]
pub struct StepReport {
    /// The numbers that the objective saw.
    pub stats: Vec<TokenStats>,
    /// Global gradient norm before clipping.
    pub grad_norm: f64,
    /// Time of the forward passes.
    pub forward: Duration,
    /// Time of the backward passes, recomputation included.
    pub backward: Duration,
    /// Time of clipping and AdamW.
    pub optimiser: Duration,
}

/// Facts about a loaded model.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct ModelInfo {
    /// Family: `llama`.
    pub architecture: String,
    /// Number of weights, a tied head counted once.
    pub parameters: u64,
    /// Longest sequence, in tokens.
    pub context: usize,
    /// Number of token ids.
    pub vocabulary: usize,
    /// The device in words.
    pub device: String,
    /// Bytes of weights, gradients and moments in memory.
    pub bytes: u64,
    /// Number of weights of adapters, where these are what is trained.
    pub adapters: Option<u64>,
}
