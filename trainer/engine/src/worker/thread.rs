//! The worker's thread: opens the model, then serves commands until the last handle is gone.

use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};

use super::{Completion, EngineOptions, GenerateRequest, ModelInfo};
use crate::backend;
use crate::error::EngineError;
use crate::infer::runner::{self, Limits};
use crate::load::{self, Loaded};
use crate::model::Model;
use crate::text::Text;

/// Sequences generated at once unless set otherwise.
const MAX_SEQUENCES: usize = 256;

/// A piece of work on the model; it sends its own reply.
pub(super) type Work = Box<dyn FnOnce(&mut Model, &Text) + Send>;

/// What the thread is asked to do.
pub(super) enum Command {
    Generate {
        requests: Vec<GenerateRequest>,
        stream: Stream,
    },
    /// Anything else.
    Work(Work),
}

/// The sender of a generation's completions. One that is dropped before its end was announced tells the receiver that the worker has stopped, so that a panic
/// does not look like the end.
pub(super) struct Stream {
    sender: mpsc::Sender<Result<Completion, EngineError>>,
    ended: bool,
}

impl Stream {
    pub(super) fn new() -> (Self, mpsc::Receiver<Result<Completion, EngineError>>) {
        let (sender, receiver) = mpsc::channel();
        let ended = false;
        (Self { sender, ended }, receiver)
    }

    /// Whether there is still a receiver.
    fn send(&self, completion: Completion) -> bool {
        self.sender.send(Ok(completion)).is_ok()
    }

    fn end(mut self, result: Result<(), EngineError>) {
        self.ended = true;
        if let Err(error) = result {
            // Without a receiver nobody is left to be told.
            let _ = self.sender.send(Err(error));
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if !self.ended {
            let _ = self.sender.send(Err(EngineError::Stopped));
        }
    }
}

/// What the handles keep of an opened model.
pub(super) struct Opened {
    pub(super) text: Arc<Text>,
    pub(super) stop_tokens: Vec<u32>,
    pub(super) info: ModelInfo,
}

/// Starts the thread and waits until it has opened the model.
pub(super) fn start(
    path: PathBuf,
    options: EngineOptions,
    inbox: mpsc::Receiver<Command>,
) -> Result<Opened, EngineError> {
    let (reply, opened) = mpsc::sync_channel(1);
    std::thread::Builder::new()
        .name("engine".into())
        .spawn(move || match open(&path, &options) {
            Ok((mut model, opened)) => {
                let text = Arc::clone(&opened.text);
                if reply.send(Ok(opened)).is_ok() {
                    serve(&mut model, &text, &options, &inbox);
                }
            }
            Err(error) => {
                let _ = reply.send(Err(error));
            }
        })
        .map_err(|e| EngineError::Device(format!("the engine's thread cannot be started: {e}")))?;
    opened.recv().map_err(|_| EngineError::Stopped)?
}

fn open(path: &Path, options: &EngineOptions) -> Result<(Model, Opened), EngineError> {
    options.device.available()?;
    let backend = backend::cpu::open_with(options.threads, options.dtype)?;
    let Loaded {
        config,
        weights,
        text,
    } = load::open(path)?;
    let stop_tokens = config.eos_token_ids.clone();
    let mut model = Model::new(config, weights, backend)?;
    if let Some(tokens) = options.pack_tokens {
        model.set_pack_tokens(tokens);
    }
    let config = model.config();
    let info = ModelInfo {
        architecture: config.family.name().to_owned(),
        parameters: config.parameters(),
        context: config.max_position_embeddings,
        vocabulary: config.vocab_size,
        device: model.device(),
        bytes: model.bytes(),
    };
    let opened = Opened {
        text: Arc::new(text),
        stop_tokens,
        info,
    };
    Ok((model, opened))
}

fn serve(model: &mut Model, text: &Text, options: &EngineOptions, inbox: &mpsc::Receiver<Command>) {
    let limits = Limits {
        kv_tokens: options.kv_tokens,
        max_sequences: options.max_sequences.unwrap_or(MAX_SEQUENCES),
    };
    while let Ok(command) = inbox.recv() {
        match command {
            Command::Generate { requests, stream } => {
                let result = runner::run(
                    model,
                    &text.tokenizer,
                    &requests,
                    limits,
                    &mut |completion| stream.send(completion),
                );
                stream.end(result);
            }
            Command::Work(work) => {
                // Training needs the memory, and its updates make the cached keys stale.
                model.release_kv();
                work(model, text);
            }
        }
    }
}
