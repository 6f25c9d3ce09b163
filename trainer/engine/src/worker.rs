//! The worker thread owns the device. Other threads hold an [`Engine`] and send it commands with a reply channel.

mod device;
mod generate;
mod rank_commands;
mod thread;

use std::path::{Path, PathBuf};
use std::sync::{Arc, MutexGuard, mpsc};

use crate::api::{
    AdamW, Completion, EngineOptions, GenerateRequest, ModelInfo, Objective, Objectives, StepReport,
};
use crate::backend::ranks::{LeaderState, Sharing, alone};
use crate::backend::{Bf16Kernel, MemoryMeter};
use crate::batch::{Group, TokenStats};
use crate::config::ModelConfig;
use crate::error::EngineError;
use crate::infer::runner::{self, Limits};
use crate::load::{self, Loaded, TensorSource};
use crate::model::Model;
use crate::text::{Date, Text};
use crate::train::{self, CountSketch, checkpoint};
use device::{DeviceModel, Ledger, OpenBackend, Profile};
use generate::Deliver;
use rank_commands::{Followers, ModelCommand, RankCommand};
pub use rank_commands::{LocalDevice, follow};
use thread::{Opened, Worker};

/// A handle on the worker thread. It is cheap to clone. The thread ends when the last handle is dropped; on a GPU, dropping the last handle waits for the
/// thread.
///
/// Commands are served one after the other, in the order of the calls: a generation runs to its end before the next command begins. The tokenizer and the chat
/// template need no device and answer at once. If the worker panics, its pending and all later calls return [`EngineError::Stopped`]; with several ranks, a panic
/// while sampling is an [`EngineError::Device`] of that call alone.
///
/// If an update or [`Engine::load_state`] fails while it changes the weights, the model is inconsistent: calls that use or save it are errors until a state is
/// loaded.
#[derive(Clone)]
pub struct Engine {
    shared: Arc<Shared>,
    /// Whether this handle computes without the model's adapters.
    base: bool,
}

struct Shared {
    worker: Worker,
    opened: Opened,
    limits: Limits,
    /// The other ranks, if there are any.
    followers: Option<Followers>,
}

impl Engine {
    /// Loads a model and starts its worker. The model is a GGUF file, a folder with `config.json`, `tokenizer.json` and `*.safetensors`, or a folder with one
    /// GGUF file. With other ranks, they open the same path.
    pub fn open(model: &Path, options: EngineOptions) -> Result<Self, EngineError> {
        let path = model.to_owned();
        let load = move || load::open_lazy(&path);
        let Some(leader) = options.ranks.clone() else {
            return Self::start(options.backend(), load, options);
        };
        let sharing = Sharing::new(leader.ranks.clone(), options.slices.unwrap_or(1))?;
        // This rank decides what depends on the machine.
        let kernel = options.kernel.or_else(|| Some(Bf16Kernel::detect()));
        let options = EngineOptions { kernel, ..options };
        let command = RankCommand::Open {
            model: std::path::absolute(model).unwrap_or_else(|_| model.to_owned()),
            options: options.clone(),
        };
        let mut turn = command.begin(&leader)?;
        let followers = Followers {
            leader: leader.clone(),
            model: turn.opened,
        };
        turn.opened += 1;
        Self::start_with(options.backend(), load, options, sharing, Some(followers))
    }

    /// Creates a model with random weights, a function of the seed. Its tokens are bytes. Benchmarks use it, since they need only a model's shape.
    pub fn random(
        config: ModelConfig,
        seed: u64,
        options: EngineOptions,
    ) -> Result<Self, EngineError> {
        let load = move || load::random::random(config, seed);
        Self::start(options.backend(), load, options)
    }

    /// Creates a model on a device that computes nothing and counts the work in the ledger; all numbers are 0. The options' device is ignored.
    pub fn planned(
        config: ModelConfig,
        device: DeviceModel,
        options: EngineOptions,
    ) -> Result<(Self, Ledger), EngineError> {
        let (backend, ledger) = device::counting(device, options.dtype);
        let engine = Self::start(backend, move || load::random::zeros(config), options)?;
        Ok((engine, ledger))
    }

    /// Creates a model with random weights on a GPU, and measures each of the GPU's calls.
    pub fn profiled(
        config: ModelConfig,
        options: EngineOptions,
    ) -> Result<(Self, Profile), EngineError> {
        let (backend, profile) = options.device.open_profiled(options.dtype)?;
        let engine = Self::start(backend, move || load::random::random(config, 0), options)?;
        Ok((engine, profile))
    }

    fn start<W: TensorSource>(
        backend: impl OpenBackend,
        load: impl FnOnce() -> Result<Loaded<W>, EngineError> + Send + 'static,
        options: EngineOptions,
    ) -> Result<Self, EngineError> {
        let sharing = Sharing::new(alone(), options.slices.unwrap_or(1))?;
        Self::start_with(backend, load, options, sharing, None)
    }

    fn start_with<W: TensorSource>(
        backend: impl OpenBackend,
        load: impl FnOnce() -> Result<Loaded<W>, EngineError> + Send + 'static,
        options: EngineOptions,
        sharing: Sharing,
        followers: Option<Followers>,
    ) -> Result<Self, EngineError> {
        let limits = thread::limits(&options);
        let closed = followers.clone();
        let close = move || closed.iter().for_each(Followers::close);
        let (worker, opened) = thread::start(backend, load, options, sharing, close)?;
        let shared = Arc::new(Shared {
            worker,
            opened,
            limits,
            followers,
        });
        let base = false;
        Ok(Self { shared, base })
    }

    /// The same engine without the model's adapters, as a reference to score against: the model as it was loaded, without a second copy of its weights. `None`
    /// if there are no adapters. It scores and generates, but cannot be trained.
    pub fn base(&self) -> Option<Self> {
        self.shared.opened.info.adapters.is_some().then(|| Self {
            shared: Arc::clone(&self.shared),
            base: true,
        })
    }

    /// Starts generating. Completions come through the channel as they finish, in no particular order. The channel closes after the last completion or an
    /// error. Dropping the receiver cancels the rest once the next completion is finished.
    pub fn generate(
        &self,
        requests: Vec<GenerateRequest>,
    ) -> mpsc::Receiver<Result<Completion, EngineError>> {
        let (sender, receiver) = mpsc::channel();
        self.generate_to(requests, move |next| sender.send(next).is_ok());
        receiver
    }

    /// As [`Engine::generate`], for any kind of channel: `deliver` takes each completion on the engine's thread, and returns whether more are wanted.
    pub fn generate_to(
        &self,
        requests: Vec<GenerateRequest>,
        deliver: impl FnMut(Result<Completion, EngineError>) -> bool + Send + 'static,
    ) {
        let mut stream = thread::CompletionStream::new(deliver);
        let (followers, limits, base) =
            (self.shared.followers.clone(), self.shared.limits, self.base);
        let work = Box::new(move |model: &mut Model, text: &Text| {
            let deliver = &mut |completion| stream.send(completion);
            let followers = followers.as_ref();
            let result =
                generate_on_all(model, text, &requests, (limits, base), followers, deliver);
            stream.end(result);
        });
        // If the work cannot be sent, it is dropped, and dropping it sends the error.
        let _ = self.shared.worker.send(work);
    }

    /// Per-token log-probabilities and entropies of given completions at `temperature`, groups in order, completions in order.
    pub fn score(
        &self,
        groups: Vec<Group>,
        temperature: f32,
    ) -> Result<Vec<TokenStats>, EngineError> {
        let (followers, base) = (self.shared.followers.clone(), self.base);
        self.run_on_consistent(move |model, _| {
            train::step::check(&groups, temperature)?;
            let _turn = begin(followers.as_ref(), || ModelCommand::Score {
                base,
                groups: groups.clone(),
                temperature,
            })?;
            train::score(model, &groups, temperature)
        })
    }

    /// Performs one optimiser update: forward over all groups, `objective` once, backward, clip, AdamW. If the objective returns an error
    /// or the gradient is not finite, the weights do not change.
    pub fn step(
        &self,
        groups: Vec<Group>,
        temperature: f32,
        objective: Objective,
        adamw: AdamW,
    ) -> Result<StepReport, EngineError> {
        if self.base {
            return Err(EngineError::Request(
                "the model without its adapters is a reference and cannot be trained".into(),
            ));
        }
        let followers = self.shared.followers.clone();
        self.run_on_consistent(move |model, _| {
            train::step::check(&groups, temperature)?;
            let _turn = begin(followers.as_ref(), || ModelCommand::Step {
                groups: groups.clone(),
                temperature,
                adamw: adamw.finite(),
            })?;
            train::step(model, &groups, temperature, objective, &adamw)
        })
    }

    /// Computes sketches of several gradients of the same completions, to measure the gradients: forward over all groups, `objectives` once, and a backward
    /// pass for each set that it returns. Nothing is updated.
    pub fn sketch(
        &self,
        groups: Vec<Group>,
        temperature: f32,
        objectives: Objectives,
        sketch: CountSketch,
    ) -> Result<Vec<Vec<f32>>, EngineError> {
        if self.shared.followers.is_some() {
            return Err(EngineError::Request(
                "gradients are measured by one rank alone; start this without a launcher".into(),
            ));
        }
        self.run_on_consistent(move |model, _| {
            train::sketch(model, &groups, temperature, objectives, sketch)
        })
    }

    /// Writes the model atomically as a Hugging Face checkpoint (safetensors in f32, config, tokenizer, chat template) into a new folder.
    pub fn save_model(&self, folder: PathBuf) -> Result<(), EngineError> {
        self.run_on_consistent(move |model, text| checkpoint::save_model(model, text, &folder))
    }

    /// Writes weights, moments and the update count bit for bit into one file, atomically.
    pub fn save_state(&self, file: PathBuf) -> Result<(), EngineError> {
        let followers = self.shared.followers.clone();
        self.run_on_consistent(move |model, _| {
            let turn = begin(followers.as_ref(), || ModelCommand::SaveState)?;
            checkpoint::save_state(model, &file, turn)
        })
    }

    /// Loads the state that [`Engine::save_state`] wrote.
    pub fn load_state(&self, file: PathBuf) -> Result<(), EngineError> {
        let followers = self.shared.followers.clone();
        self.run_on_worker(move |model, _| {
            let _turn = begin(followers.as_ref(), || ModelCommand::LoadState {
                file: std::path::absolute(&file).unwrap_or_else(|_| file.clone()),
            })?;
            checkpoint::load_state(model, &file)
        })
    }

    /// Token ids of a text. With `special`, the tokenizer's post-processor adds its tokens (a BOS token, if the model has one), and special tokens written in
    /// the text are recognised.
    pub fn encode(&self, text: &str, special: bool) -> Result<Vec<u32>, EngineError> {
        self.shared.opened.text.encode(text, special)
    }

    /// Text of token ids, without the special tokens that end a text, begin or end a turn, or pad.
    pub fn decode(&self, tokens: &[u32]) -> Result<String, EngineError> {
        let tokenizer = &self.shared.opened.text.tokenizer;
        tokenizer.decode(tokens).map_err(EngineError::Request)
    }

    /// Renders the model's chat template over `(role, content)` messages, with the generation prompt. Templates that write the date write `day`. A model
    /// without a template is an error.
    pub fn chat_prompt(
        &self,
        messages: &[(String, String)],
        day: Date,
    ) -> Result<String, EngineError> {
        self.shared.opened.text.chat_prompt(messages, day)
    }

    /// The model's end-of-text tokens: those of its configuration, its tokenizer's files and its chat template.
    pub fn stop_tokens(&self) -> Vec<u32> {
        self.shared.opened.stop_tokens.clone()
    }

    /// A token as written in the vocabulary.
    pub fn token(&self, id: u32) -> Option<String> {
        self.shared.opened.text.tokenizer.token(id)
    }

    /// Facts about the loaded model, for users and for run folders.
    pub fn info(&self) -> &ModelInfo {
        &self.shared.opened.info
    }

    /// The meter of the memory that the engine takes of a GPU; `None` on a CPU.
    pub fn device_memory(&self) -> Option<MemoryMeter> {
        self.shared.opened.device_memory.clone()
    }

    /// Like [`Engine::run_on_worker`], but an error if the model is inconsistent.
    fn run_on_consistent<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Model, &Text) -> Result<T, EngineError> + Send + 'static,
    ) -> Result<T, EngineError> {
        self.run_on_worker(move |model, text| {
            model.check_consistent()?;
            work(model, text)
        })
    }

    /// Runs a closure on the worker thread and waits for its result.
    fn run_on_worker<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Model, &Text) -> Result<T, EngineError> + Send + 'static,
    ) -> Result<T, EngineError> {
        let (reply, result) = mpsc::sync_channel(1);
        let base = self.base;
        let work = Box::new(move |model: &mut Model, text: &Text| {
            // Training needs the memory, and its updates make the cached keys stale.
            model.release_kv();
            let result = if base {
                model.with_adapters(false, |model| work(model, text))
            } else {
                work(model, text)
            };
            // The send fails only if the caller's thread is gone, and then the reply is not needed.
            let _ = reply.send(result);
        });
        self.shared.worker.send(work)?;
        result.recv().map_err(|_| EngineError::Stopped)?
    }
}

/// Samples the requests on all ranks, and delivers the completions as they finish.
fn generate_on_all(
    model: &mut Model,
    text: &Text,
    requests: &[GenerateRequest],
    (limits, base): (Limits, bool),
    followers: Option<&Followers>,
    deliver: Deliver<'_>,
) -> Result<(), EngineError> {
    let _entered = tracing::info_span!("generate").entered();
    // Generating needs the memory.
    model.release_training();
    runner::check(requests, model)?;
    let _turn = begin(followers, || ModelCommand::Generate {
        base,
        requests: requests.to_vec(),
    })?;
    let (tokenizer, alone) = (&text.tokenizer, model.sharing.ranks.size() == 1);
    model.with_adapters(!base, |model| match alone {
        true => runner::run(model, tokenizer, requests, limits, deliver),
        false => generate::generate(model, tokenizer, requests, limits, Some(deliver)),
    })
}

/// Begins a command to all ranks, if there are several.
fn begin(
    followers: Option<&Followers>,
    command: impl FnOnce() -> ModelCommand,
) -> Result<Option<MutexGuard<'_, LeaderState>>, EngineError> {
    followers.map(|ranks| ranks.begin(command())).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Dtype;
    use crate::backend::cuda::{self, emulated::Emulated};
    use crate::error::assert_says;

    const CONFIG: &str = r#"{"model_type": "llama", "vocab_size": 258, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 1,
        "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "eos_token_id": 256}"#;

    fn groups() -> Vec<Group> {
        vec![Group {
            prompt: vec![1, 2].into(),
            completions: vec![vec![3, 4, 5]],
        }]
    }

    fn update(engine: &Engine) -> Result<StepReport, EngineError> {
        let objective: Objective = Box::new(|stats: &[TokenStats]| {
            let ones = stats.iter().map(|stats| vec![1.0; stats.logp.len()]);
            Ok(ones.collect())
        });
        engine.step(groups(), 1.0, objective, AdamW::new(1e-3))
    }

    #[test]
    fn an_update_without_completions_is_that_of_a_gradient_of_zero() {
        let folder = tempfile::tempdir().unwrap();
        let state_after = |groups: Vec<Group>, emulated: bool, empty_first: bool| {
            let load = || load::random::random(ModelConfig::from_json(CONFIG).unwrap(), 7);
            let options = EngineOptions::default();
            let engine = if emulated {
                let (device, _counters) = Emulated::open();
                Engine::start(move || Ok(cuda::open_on(device, Dtype::F32)), load, options)
            } else {
                Engine::start(options.backend(), load, options)
            };
            let engine = engine.unwrap();
            let zeros: fn(&[TokenStats]) -> _ = |stats| {
                let zeros = stats.iter().map(|stats| vec![0.0; stats.logp.len()]);
                Ok(zeros.collect())
            };
            // Its moments change the weights in the next.
            if !empty_first {
                update(&engine).unwrap();
            }
            let report = engine
                .step(groups, 1.0, Box::new(zeros), AdamW::new(1e-3))
                .unwrap();
            assert_eq!(report.grad_norm, 0.0);
            let state = folder.path().join("state");
            engine.save_state(state.clone()).unwrap();
            std::fs::read(state).unwrap()
        };
        for emulated in [false, true] {
            for first in [false, true] {
                let [without, zeros] =
                    [Vec::new(), groups()].map(|it| state_after(it, emulated, first));
                assert_eq!(without, zeros);
            }
        }
    }

    #[test]
    fn a_half_updated_model_is_unusable_until_a_state_is_loaded() {
        let folder = tempfile::tempdir().unwrap();
        let (device, counters) = Emulated::open();
        let backend = move || Ok(cuda::open_on(device, Dtype::F32));
        let config = ModelConfig::from_json(CONFIG).unwrap();
        let load = move || load::random::random(config, 7);
        let engine = Engine::start(backend, load, EngineOptions::default()).unwrap();
        let reads = || counters.lock().unwrap().calls["read"];
        let fail_after = |reads| counters.lock().unwrap().failing = reads;
        let state = folder.path().join("state");
        engine.save_state(state.clone()).unwrap();
        let before = reads();
        update(&engine).unwrap();
        let per_update = reads() - before;

        // Before the weights change.
        fail_after(Some(("read", reads())));
        update(&engine).unwrap_err();
        fail_after(None);
        engine.score(groups(), 1.0).unwrap();
        // The last read is the wait for the changed weights.
        fail_after(Some(("read", reads() + per_update - 1)));
        update(&engine).unwrap_err();
        fail_after(None);

        let request = GenerateRequest {
            prompt: vec![1, 2].into(),
            seeds: vec![1],
            max_tokens: 2,
            ..GenerateRequest::default()
        };
        let saved = folder.path().join("saved");
        for error in [
            engine.save_model(saved.clone()).unwrap_err(),
            engine.save_state(saved.clone()).unwrap_err(),
            engine.score(groups(), 1.0).unwrap_err(),
            update(&engine).unwrap_err(),
            engine.generate(vec![request]).recv().unwrap().unwrap_err(),
        ] {
            assert_says(&error.to_string(), &["resume from the last checkpoint"]);
        }
        assert!(!saved.exists());
        engine.load_state(state).unwrap();
        update(&engine).unwrap();
    }
}
