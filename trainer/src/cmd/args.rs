//! Options that several commands have, and what they resolve to.

use std::path::{Path, PathBuf};

use clap::Args;
use engine::{Engine, EngineOptions, Sampling};
use trainer::config;
use trainer::run::locate_model;

/// What to compute with.
#[derive(Debug, Clone, Args)]
pub(crate) struct DeviceArgs {
    /// Where to compute: auto, cpu, cuda or cuda:N
    #[arg(long, value_name = "DEVICE", default_value = "auto", value_parser = device)]
    pub(crate) device: String,
    /// Threads of the CPU backend [default: one a physical processor]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) threads: Option<usize>,
    /// Numbers that matrix products multiply: f32, or bf16 (with AVX512-BF16 about 1.4 times as fast in generating, 1.5 to 2 times in training)
    #[arg(long, value_name = "TYPE", default_value = "f32", value_parser = ["f32", "bf16"])]
    pub(crate) dtype: String,
}

impl DeviceArgs {
    /// The engine's options.
    pub(crate) fn options(&self) -> anyhow::Result<EngineOptions> {
        let settings = config::Engine {
            device: self.device.clone(),
            threads: self.threads,
            dtype: self.dtype.clone(),
            ..config::Engine::default()
        };
        Ok(settings.options()?)
    }
}

/// The verifier to ask.
#[derive(Debug, Clone, Args)]
pub(crate) struct VerifierArgs {
    /// The verifier's address, as `rapid-verifier serve` prints it
    #[arg(long, value_name = "URL", env = "RAPID_VERIFIER")]
    pub(crate) verifier: String,
}

impl VerifierArgs {
    /// A client's settings; the token comes from the environment.
    pub(crate) fn settings(&self) -> config::Verifier {
        config::Verifier {
            url: Some(self.verifier.clone()),
            ..config::Verifier::default()
        }
    }
}

/// How a data set's tasks become prompts.
#[derive(Debug, Clone, Args)]
pub(crate) struct PromptArgs {
    /// Prompt template: the data set's own (auto), a built-in one's name, or a file
    #[arg(long, value_name = "NAME", default_value = "auto")]
    template: String,
    /// Put the prompt into the model's chat template, as the user's message
    #[arg(long)]
    chat: bool,
    /// A text that ends a completion, instead of the template's; may be repeated
    #[arg(long, value_name = "TEXT")]
    stop: Vec<String>,
}

impl PromptArgs {
    /// A data set's settings.
    pub(crate) fn of(&self, dataset: &str) -> config::Data {
        config::Data {
            dataset: dataset.to_owned(),
            template: self.template.clone(),
            chat: self.chat,
            stop: (!self.stop.is_empty()).then(|| self.stop.clone()),
            ..config::Data::default()
        }
    }
}

/// What is left out of the distribution that is sampled from.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct TruncationArgs {
    /// Keep the likeliest tokens whose probabilities first reach this
    #[arg(long, value_name = "P", default_value_t = 1.0, value_parser = probability)]
    top_p: f32,
    /// Keep the likeliest so many tokens; 0 keeps all
    #[arg(long, value_name = "N", default_value_t = 0)]
    top_k: usize,
}

impl TruncationArgs {
    /// Sampling at a temperature.
    pub(crate) fn at(self, temperature: f32) -> Sampling {
        Sampling {
            temperature,
            top_p: self.top_p,
            top_k: self.top_k,
            ..Sampling::default()
        }
    }
}

/// Loads a model: a path, or the name of one that was fetched.
pub(crate) fn open_model(model: &str, device: &DeviceArgs) -> anyhow::Result<Engine> {
    Ok(Engine::open(&model_path(model)?, device.options()?)?)
}

/// A path where there is something, else a fetched model's name.
pub(crate) fn model_path(model: &str) -> anyhow::Result<PathBuf> {
    let settings = if Path::new(model).exists() {
        config::Model {
            path: Some(model.into()),
            name: None,
        }
    } else {
        config::Model {
            name: Some(model.to_owned()),
            path: None,
        }
    };
    Ok(locate_model(&settings)?)
}

fn device(text: &str) -> Result<String, String> {
    let settings = config::Engine {
        device: text.to_owned(),
        ..config::Engine::default()
    };
    settings
        .options()
        .map(|_| text.to_owned())
        .map_err(|_| "give auto, cpu, cuda or cuda:N".to_owned())
}

/// A number from 1 on.
pub(crate) fn positive(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|number| *number > 0)
        .ok_or_else(|| "give a whole number from 1 on".to_owned())
}

/// A temperature: 0 or above.
pub(crate) fn temperature(text: &str) -> Result<f32, String> {
    text.parse()
        .ok()
        .filter(|t: &f32| t.is_finite() && *t >= 0.0)
        .ok_or_else(|| "give a number from 0 on; 0 is greedy".to_owned())
}

/// A probability: above 0, at most 1.
fn probability(text: &str) -> Result<f32, String> {
    text.parse()
        .ok()
        .filter(|p: &f32| *p > 0.0 && *p <= 1.0)
        .ok_or_else(|| "give a number above 0 and at most 1".to_owned())
}
