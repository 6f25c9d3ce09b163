//! The one thread that owns the device; others hold an [`Engine`] and send it commands with a reply channel.

mod device;
mod thread;

use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};

use crate::api::{
    AdamW, Completion, EngineOptions, GenerateRequest, ModelInfo, Objective, Objectives, StepReport,
};
use crate::batch::{Group, TokenStats};
use crate::config::ModelConfig;
use crate::error::EngineError;
use crate::load::{self, Loaded, TensorSource};
use crate::model::Model;
use crate::text::{Date, Text};
use crate::train::{self, Sketch, checkpoint};
pub use checkpoint::Precision;
use thread::{Command, Worker};

/// A handle on the worker thread. Cheap to clone; the thread ends when the last handle is dropped, which waits for it where the device is a GPU.
///
/// Commands are served one after the other, in the order of the calls: a generation runs to its end before the next command begins. Tokenizer and chat template
/// need no device and answer at once. Where the worker panicked, its pending and all later calls return [`EngineError::Stopped`].
#[derive(Clone)]
pub struct Engine {
    shared: Arc<Shared>,
    /// Whether this handle sees the model without its adapters.
    base: bool,
}

struct Shared {
    worker: Worker,
    text: Arc<Text>,
    stop_tokens: Vec<u32>,
    info: ModelInfo,
}

impl Engine {
    /// Loads a model (a GGUF file, or a folder with `config.json`, `tokenizer.json` and `*.safetensors`, or a folder with one GGUF file) and starts its worker.
    pub fn open(model: &Path, options: EngineOptions) -> Result<Self, EngineError> {
        let model = model.to_owned();
        Self::start(move || load::unread(&model), options)
    }

    /// A model of random weights, a function of the seed, whose tokens are bytes: for benchmarks, which need a model's shape alone.
    pub fn random(
        config: ModelConfig,
        seed: u64,
        options: EngineOptions,
    ) -> Result<Self, EngineError> {
        Self::start(move || load::random::random(config, seed), options)
    }

    fn start<W: TensorSource>(
        load: impl FnOnce() -> Result<Loaded<W>, EngineError> + Send + 'static,
        options: EngineOptions,
    ) -> Result<Self, EngineError> {
        let (worker, opened) = thread::start(load, options)?;
        Ok(Self {
            shared: Arc::new(Shared {
                worker,
                text: opened.text,
                stop_tokens: opened.stop_tokens,
                info: opened.info,
            }),
            base: false,
        })
    }

    /// The same engine with the model's adapters set aside, as a reference to score against: the model as it was loaded, without a second copy of its weights.
    /// `None` where there are no adapters. It scores and generates; it is not trained.
    pub fn base(&self) -> Option<Self> {
        self.shared.info.adapters.is_some().then(|| Self {
            shared: Arc::clone(&self.shared),
            base: true,
        })
    }

    /// Starts generating; completions come through the channel as they finish, in no particular order. The channel closes after the last one or an error.
    /// Dropping the receiver cancels what is left, once the next completion is finished.
    pub fn generate(
        &self,
        requests: Vec<GenerateRequest>,
    ) -> mpsc::Receiver<Result<Completion, EngineError>> {
        let (stream, receiver) = thread::Stream::new();
        // Where it cannot be sent, it is dropped, which sends the error.
        let _ = self.shared.worker.send(Command::Generate {
            requests,
            stream,
            base: self.base,
        });
        receiver
    }

    /// Per-token log-probabilities and entropies of given completions at `temperature`, groups in order, completions in order.
    pub fn score(
        &self,
        groups: Vec<Group>,
        temperature: f32,
    ) -> Result<Vec<TokenStats>, EngineError> {
        self.ask(move |model, _| train::score(model, &groups, temperature))
    }

    /// One optimiser update: forward over all groups, `objective` once, backward, clip, AdamW. `None` if the objective skips the update.
    /// On an error of the objective, or a gradient that is not finite, the weights stay as they were.
    pub fn step(
        &self,
        groups: Vec<Group>,
        temperature: f32,
        objective: Objective,
        adamw: AdamW,
    ) -> Result<Option<StepReport>, EngineError> {
        if self.base {
            return Err(EngineError::Request(
                "the model without its adapters is a reference, which is not trained".into(),
            ));
        }
        self.ask(move |model, _| train::step(model, &groups, temperature, objective, &adamw))
    }

    /// Sketches of several gradients of the same completions, for measuring them: forward over all groups, `objectives` once, and a backward pass for each set that it
    /// returns. Nothing is updated.
    pub fn sketch(
        &self,
        groups: Vec<Group>,
        temperature: f32,
        objectives: Objectives,
        sketch: Sketch,
    ) -> Result<Vec<Vec<f32>>, EngineError> {
        self.ask(move |model, _| train::sketch(model, &groups, temperature, objectives, sketch))
    }

    /// Writes the model as a Hugging Face checkpoint (safetensors in f32, config, tokenizer, chat template) into a new folder; atomic.
    pub fn save_model(&self, folder: PathBuf) -> Result<(), EngineError> {
        self.save_model_as(folder, Precision::F32)
    }

    /// As [`Engine::save_model`], with the weights in the given precision.
    pub fn save_model_as(&self, folder: PathBuf, precision: Precision) -> Result<(), EngineError> {
        self.ask(move |model, text| checkpoint::save_model(model, text, &folder, precision))
    }

    /// Writes weights, moments and the update count, to the bit, into one file; atomic.
    pub fn save_state(&self, file: PathBuf) -> Result<(), EngineError> {
        self.ask(move |model, _| checkpoint::save_state(model, &file))
    }

    /// Takes up the state that [`Engine::save_state`] wrote.
    pub fn load_state(&self, file: PathBuf) -> Result<(), EngineError> {
        self.ask(move |model, _| checkpoint::load_state(model, &file))
    }

    /// Token ids of a text. `special` adds what the tokenizer's post-processor adds (a BOS token, where the model has one) and reads special tokens written in the text.
    pub fn encode(&self, text: &str, special: bool) -> Result<Vec<u32>, EngineError> {
        self.shared.text.encode(text, special)
    }

    /// Text of token ids, special tokens left out.
    pub fn decode(&self, tokens: &[u32]) -> Result<String, EngineError> {
        let tokenizer = &self.shared.text.tokenizer;
        tokenizer.decode(tokens).map_err(EngineError::Request)
    }

    /// The model's chat template over `(role, content)` messages, with the generation prompt; an error where the model has no template. Templates that write the date
    /// write `day`.
    pub fn chat_prompt(
        &self,
        messages: &[(String, String)],
        day: Date,
    ) -> Result<String, EngineError> {
        self.shared.text.chat_prompt(messages, day)
    }

    /// The model's own end-of-text tokens.
    pub fn stop_tokens(&self) -> Vec<u32> {
        self.shared.stop_tokens.clone()
    }

    /// Facts about the loaded model, for people and for run folders.
    pub fn info(&self) -> &ModelInfo {
        &self.shared.info
    }

    /// Runs a piece of work on the worker thread and waits for its result.
    fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Model, &Text) -> Result<T, EngineError> + Send + 'static,
    ) -> Result<T, EngineError> {
        let (reply, result) = mpsc::sync_channel(1);
        let base = self.base;
        let work = Box::new(move |model: &mut Model, text: &Text| {
            let result = if base {
                model.without_adapters(|model| work(model, text))
            } else {
                work(model, text)
            };
            // Nobody waits for the reply any more where the caller's thread is gone.
            let _ = reply.send(result);
        });
        self.shared.worker.send(Command::Work(work))?;
        result.recv().map_err(|_| EngineError::Stopped)?
    }
}
