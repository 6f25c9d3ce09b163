//! Requests to an [`Engine`](crate::Engine) and its replies.

use std::sync::Arc;
use std::time::Duration;

use crate::backend::ranks::Leader;
use crate::backend::{Bf16Kernel, Dtype};
use crate::batch::TokenStats;
use crate::model::Lora;
use crate::sample::Sampling;

/// Where to compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub enum Device {
    /// The first GPU if it works, else the CPU.
    #[default]
    Auto,
    /// This machine's processors.
    Cpu,
    /// The GPU with this number.
    Cuda(usize),
    /// The GPU's kernels on this machine's processor, for tests and to try `scripts/gpu.sh` ([`crate::backend::cuda::emulated`]).
    Emulated,
}

/// Settings of an engine.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
pub struct EngineOptions {
    /// Where to compute.
    pub device: Device,
    /// Threads of the CPU backend; `None` uses one thread for each processor that this process may use.
    pub threads: Option<usize>,
    /// The number format of the operands of matrix products.
    pub dtype: Dtype,
    /// How the CPU backend multiplies bf16 numbers; `None` takes the processor's fastest way.
    pub kernel: Option<Bf16Kernel>,
    /// Capacity of the KV cache for generation, in tokens; `None` takes what the current requests need, up to a quarter of the memory.
    pub kv_tokens: Option<usize>,
    /// Maximum tokens of one training pack. `None` takes the device's default ([`crate::backend::TrainingDefaults`]).
    pub pack_tokens: Option<usize>,
    /// Maximum number of sequences generated at once.
    pub max_sequences: Option<usize>,
    /// Bytes of activations that training saves from the forward to the backward pass. `None` takes the device's default
    /// ([`crate::backend::TrainingDefaults`]). The remaining activations are recomputed, bit for bit the same.
    pub activation_bytes: Option<u64>,
    /// Train low-rank adapters instead of the weights.
    pub lora: Option<Lora>,
    /// Number of slices of a mini-batch, a power of two; `None` is 1. The slices' gradients are added up in a binary tree. So the bits of an update depend on
    /// the number of slices, and not on the number of ranks.
    pub slices: Option<usize>,
    /// The ranks that compute together with this one; `None` if it is alone.
    #[serde(skip)]
    pub ranks: Option<Leader>,
}

/// A prompt and the completions to sample for it.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
pub struct GenerateRequest {
    /// Token ids of the prompt; at least one. The prompt is computed once for all samples. Prompts that begin alike share whole blocks of 16 tokens: these are
    /// computed and stored once, while any of the prompts needs them.
    pub prompt: Arc<[u32]>,
    /// One completion is sampled for each seed. On the CPU, a completion depends only on the weights, the prompt, the sampling settings and its seed, and not
    /// on what else is generated in the same batch. On a GPU, results vary by rounding, which occasionally changes a sampled token.
    pub seeds: Vec<u64>,
    /// How tokens are sampled.
    pub sampling: Sampling,
    /// Number of tokens at the beginning of a completion that cannot be one of `stop_tokens`. A stop string may still end the completion earlier. At most
    /// `max_tokens`. 0 in training: its estimators need the log-probability of the distribution that was sampled from.
    pub min_tokens: usize,
    /// Maximum tokens of a completion, the end token included.
    pub max_tokens: usize,
    /// Token ids that end a completion. The completion includes the one that ended it.
    pub stop_tokens: Vec<u32>,
    /// Strings that end a completion. The completion includes the token that completes the string; [`Completion::text`] ends before the string.
    pub stop_strings: Vec<String>,
}

/// A finished completion.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Completion {
    /// Index of the request.
    pub request: usize,
    /// Index of the seed in the request.
    pub sample: usize,
    /// Token ids, the end token included.
    pub tokens: Vec<u32>,
    /// Log-probability of each token, from the forward pass that sampled it. It is that under the temperature alone, without cut-offs and without `min_tokens`.
    /// So stop tokens have their share of the probability even where they cannot be sampled.
    pub logp: Vec<f32>,
    /// Decoded text, without the stop token and the model's markers of turns and padding, cut before a stop string. Other special tokens are part of it.
    pub text: String,
    /// Why the completion ended.
    pub finish: Finish,
}

/// Why a completion ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Finish {
    /// A stop token or a stop string was generated.
    Stop,
    /// The limit `max_tokens` or the model's context was reached.
    Length,
}

/// A function from the per-token numbers of every completion (groups in order, completions in order) to `dL/dlogp` for each of their tokens, in the same shape.
pub type Objective = Box<dyn FnOnce(&[TokenStats]) -> Result<Vec<Vec<f32>>, String> + Send>;

/// Like [`Objective`], but returns several sets of `dL/dlogp`.
pub type Objectives = Box<dyn FnOnce(&[TokenStats]) -> Result<Vec<Vec<Vec<f32>>>, String> + Send>;

/// Settings of one AdamW update (Loshchilov & Hutter 2019, decoupled weight decay), made after clipping the gradient's global norm.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct AdamW {
    /// Learning rate of this update.
    pub lr: f32,
    /// Decay rate of the first moment.
    pub beta1: f32,
    /// Decay rate of the second moment.
    pub beta2: f32,
    /// Added to the square root of the second moment.
    pub eps: f32,
    /// Decoupled weight decay.
    pub weight_decay: f32,
    /// Largest global gradient norm; larger gradients are scaled down to it. Infinity disables clipping.
    pub clip_norm: f32,
}

impl AdamW {
    /// The usual settings with a learning rate: β of 0.9 and 0.999, ε of 10⁻⁸, no decay, and a gradient norm of at most 1.
    pub const fn new(lr: f32) -> Self {
        Self {
            lr,
            beta1: 0.9,
            beta2: 0.999,
            eps: 1e-8,
            weight_decay: 0.0,
            clip_norm: 1.0,
        }
    }

    /// The same settings in finite numbers, since JSON has no infinity. No norm is above the largest f32.
    pub(crate) fn finite(self) -> Self {
        Self {
            clip_norm: self.clip_norm.min(f32::MAX),
            ..self
        }
    }

    /// The factor that a gradient of this norm is multiplied by: `clip_norm / (norm + 1e-6)`, at most 1, as in `torch.nn.utils.clip_grad_norm_`.
    #[must_use]
    pub fn grad_scale(&self, norm: f64) -> f64 {
        (f64::from(self.clip_norm) / (norm + 1e-6)).min(1.0)
    }
}

/// Results of a training step.
#[derive(Debug, Clone, PartialEq)]
pub struct StepReport {
    /// The per-token numbers that were passed to the objective.
    pub stats: Vec<TokenStats>,
    /// Global gradient norm before clipping.
    pub grad_norm: f64,
    /// Time of the forward passes.
    pub forward: Duration,
    /// Time of the backward passes, recomputation included.
    pub backward: Duration,
    /// Time of clipping and AdamW.
    pub optimiser: Duration,
    /// Time to exchange gradients and weights between ranks, and to wait for slower ranks before that; 0 for a process alone.
    pub exchange: Duration,
}

/// Facts about a loaded model.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct ModelInfo {
    /// The model's family, such as `llama`.
    pub architecture: String,
    /// Number of weights; a tied head is counted once.
    pub parameters: u64,
    /// Longest sequence, in tokens.
    pub context: usize,
    /// Size of the vocabulary.
    pub vocabulary: usize,
    /// Description of the device.
    pub device: String,
    /// Bytes of weights, gradients and moments in memory.
    pub bytes: u64,
    /// Number of the adapters' weights; `None` if the model has no adapters.
    pub adapters: Option<u64>,
}
