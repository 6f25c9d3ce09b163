//! The worker thread: it opens the model, then works until the last handle is dropped.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use super::device::OpenBackend;
use crate::api::{Completion, EngineOptions, ModelInfo};
use crate::backend::MemoryMeter;
use crate::backend::ranks::{self, Sharing};
use crate::error::EngineError;
use crate::infer::runner::{Limits, MAX_SEQUENCES};
use crate::load::{Loaded, TensorSource};
use crate::model::Model;
use crate::text::Text;

/// What the thread does with the model. It sends its own reply.
pub(super) type Job = Box<dyn FnOnce(&mut Model, &Text) + Send>;

/// Delivers a generation's completions, and its error. `deliver` returns whether more are wanted. If the stream is dropped before `end`, it reports that the
/// worker has stopped, so that a panic does not look like the end of the generation.
pub(super) struct CompletionStream<F: FnMut(Result<Completion, EngineError>) -> bool> {
    deliver: F,
    ended: bool,
}

impl<F: FnMut(Result<Completion, EngineError>) -> bool> CompletionStream<F> {
    pub(super) fn new(deliver: F) -> Self {
        let ended = false;
        Self { deliver, ended }
    }

    /// Delivers a completion; returns whether more are wanted.
    pub(super) fn send(&mut self, completion: Completion) -> bool {
        (self.deliver)(Ok(completion))
    }

    pub(super) fn end(mut self, result: Result<(), EngineError>) {
        self.ended = true;
        if let Err(error) = result {
            (self.deliver)(Err(error));
        }
    }
}

impl<F: FnMut(Result<Completion, EngineError>) -> bool> Drop for CompletionStream<F> {
    fn drop(&mut self) {
        if !self.ended {
            (self.deliver)(Err(EngineError::Stopped));
        }
    }
}

/// The handles' side of the thread. On a GPU, dropping the last handle waits until the thread has released the device, since the process must not exit before
/// that.
pub(super) struct Worker {
    /// `None` once dropping has begun.
    inbox: Option<mpsc::Sender<Job>>,
    /// The thread, if dropping has to wait for it.
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    pub(super) fn send(&self, job: Job) -> Result<(), EngineError> {
        let inbox = self.inbox.as_ref().ok_or(EngineError::Stopped)?;
        // If the thread is gone, the job is returned and dropped here. Dropping it reports the error to the caller that waits for its reply.
        inbox.send(job).map_err(|_| EngineError::Stopped)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.inbox.take());
        // The last handle may have belonged to an objective that ran on this thread itself, and a thread cannot join itself.
        let own = std::thread::current().id();
        if let Some(thread) = self.thread.take().filter(|it| it.thread().id() != own) {
            // A panic has already been reported to the caller that waited for a reply.
            let _ = thread.join();
        }
    }
}

/// Facts about an opened model that the handles retain.
pub(super) struct Opened {
    pub(super) text: Arc<Text>,
    pub(super) stop_tokens: Vec<u32>,
    pub(super) info: ModelInfo,
    pub(super) device_memory: Option<MemoryMeter>,
}

/// Starts the thread and waits until it has opened the backend and the model. The thread calls `close` at its end, if it has a model.
pub(super) fn start<W: TensorSource>(
    backend: impl OpenBackend,
    load: impl FnOnce() -> Result<Loaded<W>, EngineError> + Send + 'static,
    options: EngineOptions,
    sharing: Sharing,
    close: impl FnOnce() + Send + 'static,
) -> Result<(Worker, Opened), EngineError> {
    let (inbox, jobs) = mpsc::channel::<Job>();
    let (reply, opened) = mpsc::sync_channel(1);
    let ranks = sharing.ranks.clone();
    let thread = std::thread::Builder::new()
        .name("engine".into())
        .spawn(move || match open(backend, load, &options, sharing) {
            Ok((mut model, opened)) => {
                let text = Arc::clone(&opened.text);
                let must_drop_before_exit = model.decoder.backend.must_drop_before_exit();
                if reply.send(Ok((opened, must_drop_before_exit))).is_ok() {
                    for job in jobs {
                        job(&mut model, &text);
                    }
                }
                close();
            }
            Err(error) => {
                let _ = reply.send(Err(error));
            }
        })
        .map_err(|e| {
            let error = format!("the engine's thread cannot be started: {e}");
            ranks::fail(ranks.as_ref(), EngineError::Device(error))
        })?;
    let (opened, must_drop_before_exit) = opened.recv().map_err(|_| {
        EngineError::Device(
            "the engine's thread stopped while it loaded the model; its own message is printed above".into(),
        )
    })??;
    let worker = Worker {
        inbox: Some(inbox),
        thread: must_drop_before_exit.then_some(thread),
    };
    Ok((worker, opened))
}

/// Opens a model on a device, on all ranks of `sharing` at the same time. They have the same model, or none.
pub(super) fn open<W: TensorSource>(
    backend: impl OpenBackend,
    load: impl FnOnce() -> Result<Loaded<W>, EngineError>,
    options: &EngineOptions,
    sharing: Sharing,
) -> Result<(Model, Opened), EngineError> {
    let ranks = sharing.ranks.clone();
    if ranks.size() == 1 {
        return open_alone(backend, load, options, sharing);
    }
    // The other ranks get a panic as an error. Otherwise they would wait for this one.
    let opened = catch_unwind(AssertUnwindSafe(|| -> Result<_, EngineError> {
        let (mut model, opened) = open_alone(backend, load, options, sharing)?;
        let digest = model.digest()?;
        Ok((model, opened, digest))
    }));
    let opened = opened.unwrap_or_else(|_| {
        Err(EngineError::Device(
            "loading the model ended with a panic; its message is printed above".into(),
        ))
    });
    let (model, opened, digest) = opened.map_err(|error| ranks::fail(ranks.as_ref(), error))?;
    let digests = ranks::agree(ranks.as_ref(), Ok(digest))?;
    match digests.iter().position(|digest| *digest != digests[0]) {
        None => Ok((model, opened)),
        Some(other) => Err(EngineError::Request(format!(
            "ranks 0 and {other} have loaded different weights, or compute differently; give all the same model, version and kind of processor"
        ))),
    }
}

fn open_alone<W: TensorSource>(
    backend: impl OpenBackend,
    load: impl FnOnce() -> Result<Loaded<W>, EngineError>,
    options: &EngineOptions,
    sharing: Sharing,
) -> Result<(Model, Opened), EngineError> {
    let backend = backend()?;
    let device_memory = backend.memory_meter();
    let Loaded {
        config,
        weights,
        text,
    } = load()?;
    for warning in &text.warnings {
        tracing::warn!("the model: {warning}");
    }
    let stop_tokens = config.eos_token_ids.clone();
    let mut model = Model::new(config, weights, backend)?;
    model.share(sharing)?;
    if let Some(tokens) = options.pack_tokens {
        model.set_pack_tokens(tokens);
    }
    model.set_saved_bytes(options.activation_bytes);
    if let Some(lora) = options.lora {
        model.attach(lora)?;
    }
    let config = model.config();
    let info = ModelInfo {
        architecture: config.family.name().to_owned(),
        parameters: config.parameters(),
        context: config.max_position_embeddings,
        vocabulary: config.vocab_size,
        device: model.decoder.backend.name(),
        bytes: model.bytes(),
        adapters: options.lora.map(|_| model.trained().len() as u64),
    };
    let opened = Opened {
        text: Arc::new(text),
        stop_tokens,
        info,
        device_memory,
    };
    Ok((model, opened))
}

pub(super) fn limits(options: &EngineOptions) -> Limits {
    Limits {
        kv_tokens: options.kv_tokens,
        max_sequences: options.max_sequences.unwrap_or(MAX_SEQUENCES),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::backend::ranks::{ProcessGroup, on_each};

    #[test]
    fn a_panic_of_rank_0_while_it_loads_the_model_is_an_error_of_all_ranks() {
        let opened = |ranks: Arc<dyn ProcessGroup>| -> Result<(), EngineError> {
            let sharing = Sharing::new(ranks.clone(), 2)?;
            let backend = move || match ranks.rank() {
                0 => panic!("a bug"),
                _ => Err(EngineError::Device("none".into())),
            };
            let load = || -> Result<Loaded, EngineError> { Err(EngineError::Stopped) };
            open(backend, load, &EngineOptions::default(), sharing).map(drop)
        };
        let errors = on_each(2, Duration::from_secs(60), |ranks| {
            opened(ranks).expect_err("rank 0 panicked").to_string()
        });
        assert!(errors[0].contains("with a panic"), "{errors:?}");
        assert!(errors[1].contains("rank 0: loading"), "{errors:?}");
    }
}
