//! The traits of a model that the trainer uses. The engine implements them, and so do the small exact policies of the tests.

use std::path::{Path, PathBuf};

use engine::config::ModelConfig;
use engine::text::{Date, Text};
use engine::{
    AdamW, Completion, CountSketch, Engine, EngineError, GenerateRequest, Group, MemoryMeter,
    Objective, Objectives, StepReport, TokenStats,
};
use tokio::sync::mpsc;

/// Encodes texts and renders chat prompts: the text side of a model.
pub trait PromptEncoder: Send + Sync {
    /// As [`Engine::encode`].
    fn encode(&self, text: &str, special: bool) -> Result<Vec<u32>, EngineError>;

    /// As [`Engine::chat_prompt`].
    fn chat_prompt(&self, messages: &[(String, String)], day: Date) -> Result<String, EngineError>;

    /// Token ids of a text that [`PromptEncoder::chat_prompt`] rendered. If the template and the tokenizer both write a BOS token, one of the two is removed.
    fn encode_chat(&self, rendered: &str) -> Result<Vec<u32>, EngineError> {
        let mut tokens = self.encode(rendered, true)?;
        if tokens.len() > 1
            && tokens[0] == tokens[1]
            && self.encode("", true)?.first() == tokens.first()
        {
            tokens.remove(0);
        }
        Ok(tokens)
    }

    /// The longest sequence, in tokens.
    fn context(&self) -> usize;
}

/// A model that can be sampled from and trained. The methods block. [`Engine`] documents what each guarantees.
pub trait Policy: PromptEncoder {
    /// As [`Engine::generate`], for a receiver that waits without a thread.
    fn generate(
        &self,
        requests: Vec<GenerateRequest>,
    ) -> mpsc::UnboundedReceiver<Result<Completion, EngineError>>;

    /// As [`Engine::score`].
    fn score(&self, groups: Vec<Group>, temperature: f32) -> Result<Vec<TokenStats>, EngineError>;

    /// As [`Engine::step`].
    fn step(
        &self,
        groups: Vec<Group>,
        temperature: f32,
        objective: Objective,
        adamw: AdamW,
    ) -> Result<StepReport, EngineError>;

    /// As [`Engine::sketch`].
    fn sketch(
        &self,
        groups: Vec<Group>,
        temperature: f32,
        objectives: Objectives,
        sketch: CountSketch,
    ) -> Result<Vec<Vec<f32>>, EngineError>;

    /// As [`Engine::save_model`].
    fn save_model(&self, folder: PathBuf) -> Result<(), EngineError>;

    /// As [`Engine::save_state`].
    fn save_state(&self, file: PathBuf) -> Result<(), EngineError>;

    /// As [`Engine::load_state`].
    fn load_state(&self, file: PathBuf) -> Result<(), EngineError>;

    /// As [`Engine::stop_tokens`].
    fn stop_tokens(&self) -> Vec<u32>;

    /// As [`Engine::device_memory`].
    fn device_memory(&self) -> Option<MemoryMeter>;
}

/// Implements methods of a trait by the engine's own methods with the same names.
macro_rules! by_the_engine {
    ($(fn $name:ident(&self $(, $argument:ident: $type:ty)*) -> $result:ty;)*) => {
        $(fn $name(&self $(, $argument: $type)*) -> $result { Engine::$name(self $(, $argument)*) })*
    };
}

impl PromptEncoder for Engine {
    by_the_engine! {
        fn encode(&self, text: &str, special: bool) -> Result<Vec<u32>, EngineError>;
        fn chat_prompt(&self, messages: &[(String, String)], day: Date) -> Result<String, EngineError>;
    }

    fn context(&self) -> usize {
        self.info().context
    }
}

/// The text side of a model, without its weights.
pub struct UnloadedModel {
    /// Sizes and flags.
    pub config: ModelConfig,
    text: Text,
}

impl UnloadedModel {
    /// Reads a model's files, except its weights.
    pub fn open(model: &Path) -> Result<Self, EngineError> {
        let (config, text) = engine::load::text(model)?;
        Ok(Self { config, text })
    }
}

impl PromptEncoder for UnloadedModel {
    fn encode(&self, text: &str, special: bool) -> Result<Vec<u32>, EngineError> {
        self.text.encode(text, special)
    }

    fn chat_prompt(&self, messages: &[(String, String)], day: Date) -> Result<String, EngineError> {
        self.text.chat_prompt(messages, day)
    }

    fn context(&self) -> usize {
        self.config.max_position_embeddings
    }
}

impl Policy for Engine {
    fn generate(
        &self,
        requests: Vec<GenerateRequest>,
    ) -> mpsc::UnboundedReceiver<Result<Completion, EngineError>> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.generate_to(requests, move |next| sender.send(next).is_ok());
        receiver
    }

    by_the_engine! {
        fn score(&self, groups: Vec<Group>, temperature: f32) -> Result<Vec<TokenStats>, EngineError>;
        fn step(&self, groups: Vec<Group>, temperature: f32, objective: Objective, adamw: AdamW) -> Result<StepReport, EngineError>;
        fn sketch(&self, groups: Vec<Group>, temperature: f32, objectives: Objectives, sketch: CountSketch) -> Result<Vec<Vec<f32>>, EngineError>;
        fn save_model(&self, folder: PathBuf) -> Result<(), EngineError>;
        fn save_state(&self, file: PathBuf) -> Result<(), EngineError>;
        fn load_state(&self, file: PathBuf) -> Result<(), EngineError>;
        fn stop_tokens(&self) -> Vec<u32>;
        fn device_memory(&self) -> Option<MemoryMeter>;
    }
}
