//! Options that several commands have, and what they resolve to.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context as _, anyhow, bail};
use clap::Args;
use datasets::Dataset;
use datasets::jsonl::{Lines, read_text};
use engine::backend::cuda::ledger::DeviceModel;
use engine::config::{ModelConfig, published, published_names};
use engine::sample::MIN_TEMPERATURE;
use engine::{Device, Engine, EngineOptions, Leader, Sampling};
use trainer::config::{self, ConfigError, MAX_COMPLETIONS, MAX_COUNT, MAX_THREADS, NamedModel};
use trainer::run::{TrainError, locate_model};

use super::Usage;

/// What `--device` names.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum DeviceChoice {
    /// A device to compute on.
    Device(config::Device),
    /// A device that computes nothing and predicts times: only `rapid bench` accepts it.
    Planned(DeviceModel),
}

/// The device to compute on.
#[derive(Debug, Clone, Args)]
pub(crate) struct DeviceArgs {
    /// Where to compute: auto, cpu, cuda or cuda:N
    #[arg(long, value_name = "DEVICE", default_value = "auto", value_parser = device_choice)]
    pub(crate) device: DeviceChoice,
    /// Threads of the CPU backend [default: one per processor]
    #[arg(long, value_name = "N", value_parser = up_to(MAX_THREADS))]
    pub(crate) threads: Option<usize>,
    /// Number type of matrix products: auto (bf16 on a CPU with AMX, else f32, also on a GPU), f32 or bf16
    #[arg(long, value_name = "TYPE", default_value = "auto", value_parser = ["auto", "f32", "bf16"])]
    pub(crate) dtype: String,
    /// How a CPU multiplies bf16 numbers: auto (the processor's fastest way), amx, avx512-bf16 or fma
    #[arg(long, value_name = "KERNEL", default_value = "auto", value_parser = ["auto", "amx", "avx512-bf16", "fma"])]
    pub(crate) kernel: String,
    /// Tokens of the KV cache [default: as many as are needed, within a quarter of the memory]
    #[arg(long, value_name = "N", value_parser = up_to(MAX_COUNT as usize))]
    pub(crate) kv_tokens: Option<usize>,
}

impl DeviceArgs {
    /// The engine's options.
    pub(crate) fn options(&self) -> EngineOptions {
        self.settings().options()
    }

    /// The same as a recipe's settings.
    pub(crate) fn settings(&self) -> config::Engine {
        config::Engine {
            device: match self.device {
                DeviceChoice::Device(device) => device,
                // It is not opened, and `auto` stands for the CPU's settings.
                DeviceChoice::Planned(_) => config::Device(Device::Cpu),
            },
            threads: self.threads,
            dtype: self.dtype.clone(),
            kernel: self.kernel.clone(),
            kv_tokens: self.kv_tokens,
            ..config::Engine::default()
        }
    }
}

/// The verifier that judges.
#[derive(Debug, Clone, Args)]
pub(crate) struct VerifierArgs {
    /// The verifier's address, as `rapid-verifier serve` prints it [default: a verifier of its own is started, and ends with the command]
    #[arg(
        long,
        value_name = "URL",
        env = "RAPID_VERIFIER",
        hide_env_values = true
    )]
    pub(crate) verifier: Option<String>,
    /// The configuration file of a verifier that is started
    #[arg(long, value_name = "FILE", conflicts_with = "verifier")]
    pub(crate) verifier_config: Option<PathBuf>,
}

impl VerifierArgs {
    /// A client's settings; the token comes from the environment.
    pub(crate) fn settings(&self) -> config::Verifier {
        config::Verifier {
            url: self.verifier.clone(),
            config: self.verifier_config.clone(),
            ..config::Verifier::default()
        }
    }
}

/// How a data set's tasks become prompts.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct PromptArgs {
    /// Prompt template: the data set's own (auto), a built-in one's name, or a file [default: the checkpoint's, else auto]
    #[arg(long, value_name = "NAME")]
    pub(crate) template: Option<String>,
    /// Put the prompt into the model's chat template, as the user's message
    #[arg(long)]
    pub(crate) chat: bool,
    /// A stop string, instead of the template's; may be repeated
    #[arg(long, value_name = "TEXT")]
    pub(crate) stop: Vec<String>,
}

impl PromptArgs {
    /// The `[data]` settings for a data set.
    pub(crate) fn data(&self, dataset: &str) -> config::Data {
        config::Data {
            dataset: dataset.to_owned(),
            template: self.template.clone().unwrap_or_else(|| "auto".into()),
            chat: self.chat,
            stop: self.stop_strings(),
            ..config::Data::default()
        }
    }

    /// The stop strings, or `None` if none are given.
    pub(crate) fn stop_strings(&self) -> Option<Vec<String>> {
        (!self.stop.is_empty()).then(|| self.stop.clone())
    }
}

/// Cut-offs of the distribution that is sampled from.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct CutoffArgs {
    /// Keep the likeliest tokens until their probabilities sum to P [default: in `rapid eval` the checkpoint's, else 1, which keeps all]
    #[arg(long, value_name = "P", value_parser = probability)]
    pub(crate) top_p: Option<f32>,
    /// Keep the N likeliest tokens; 0 keeps all [default: in `rapid eval` the checkpoint's, else 0]
    #[arg(long, value_name = "N", value_parser = from_zero::<usize>)]
    pub(crate) top_k: Option<usize>,
    /// Keep tokens at least P times as likely as the likeliest; 0 keeps all [default: in `rapid eval` the checkpoint's, else 0]
    #[arg(long, value_name = "P", value_parser = fraction)]
    pub(crate) min_p: Option<f32>,
}

impl CutoffArgs {
    /// Sampling at a temperature with these cut-offs, else those of `default`.
    pub(crate) fn sampling(self, temperature: f32, default: &config::Eval) -> Sampling {
        Sampling {
            temperature,
            top_p: self.top_p.unwrap_or(default.top_p as f32),
            top_k: self.top_k.unwrap_or(default.top_k),
            min_p: self.min_p.unwrap_or(default.min_p as f32),
        }
    }
}

/// Loads a model to sample from, with other ranks if there are any. `model` is a path, or the name of a fetched model.
pub(crate) fn open_model(
    model: &str,
    device: &DeviceArgs,
    ranks: Option<&Leader>,
) -> anyhow::Result<Engine> {
    let options = EngineOptions {
        ranks: ranks.cloned(),
        // One for each rank; they matter in training only.
        slices: ranks.map(Leader::size),
        ..device.options()
    };
    Ok(Engine::open(&model_path(model)?, options)?)
}

/// The path of a model: `model` itself if that path exists, else the folder of the fetched model of this name.
pub(crate) fn model_path(model: &str) -> anyhow::Result<PathBuf> {
    let path = Path::new(model);
    if path.exists() {
        check_is_no_run(path)?;
        return Ok(path.to_owned());
    }
    let settings = config::Model {
        name: Some(model.to_owned()),
        ..config::Model::default()
    };
    locate_model(&settings).map_err(|error| match error {
        TrainError::NoModel(_) => no_model(model),
        other => other.into(),
    })
}

/// Refuses the folder of a run, and says where its checkpoints are. A model's folder has a `config.json`.
fn check_is_no_run(model: &Path) -> Result<(), Usage> {
    let checkpoints = model.join("checkpoints");
    let is_run = model.join("config.toml").is_file() && checkpoints.is_dir();
    if !is_run || model.join("config.json").exists() {
        return Ok(());
    }
    Err(Usage(format!(
        "{} is the folder of a run, not a model; give one of its checkpoints, such as {}/last",
        model.display(),
        checkpoints.display()
    )))
}

/// The error for a model that does not exist here. It is a [`Usage`] error, except for a model that can still be fetched.
fn no_model(model: &str) -> anyhow::Error {
    match config::named_model(model) {
        NamedModel::Possible => anyhow!(
            "the model {model} is not on this machine: fetch it with `rapid fetch model:{model}`, or give the path of a GGUF file or a Hugging Face folder"
        ),
        NamedModel::Path => Usage(format!(
            "there is no file or folder {model}; give the path of a GGUF file or a Hugging Face folder, or a model's name that `rapid fetch` lists"
        ))
        .into(),
        NamedModel::Unknown(what) => Usage(format!(
            "{what}; or give the path of a GGUF file or a Hugging Face folder"
        ))
        .into(),
    }
}

/// The configuration of a model of random weights: that in a file, or a published model's.
pub(crate) fn configuration(name: &str) -> anyhow::Result<ModelConfig> {
    if let Some(config) = published(name) {
        return Ok(config);
    }
    let path = Path::new(name);
    if !path.exists() {
        let names: Vec<&str> = published_names().collect();
        bail!(Usage(format!(
            "--random-weights {name} is neither a file nor one of {}",
            names.join(", ")
        )));
    }
    let text = read_text(path).with_context(|| format!("{name} cannot be read"))?;
    ModelConfig::from_json(&text).map_err(|reason| anyhow!("{name}: {reason}"))
}

/// `runs/NAME` for a recipe of this name or path, or `runs/NAME-2`, … if that exists.
pub(crate) fn free_folder(recipe: &str) -> PathBuf {
    let name = Path::new(recipe).file_name().unwrap_or("run".as_ref());
    let name = name.to_string_lossy();
    let base = Path::new("runs").join(name.strip_suffix(".toml").unwrap_or(&name));
    let numbered = (2_usize..).map(|n| PathBuf::from(format!("{}-{n}", base.display())));
    let mut folders = std::iter::once(base.clone()).chain(numbered);
    folders.find(|folder| !folder.exists()).unwrap_or(base)
}

pub(crate) fn open_dataset(name: &str, folder: Option<&Path>) -> anyhow::Result<Dataset> {
    check_data_dir(folder)?;
    Ok(datasets::open(name, folder)?)
}

/// Refuses a `--data-dir` that is not a folder.
pub(crate) fn check_data_dir(folder: Option<&Path>) -> Result<(), Usage> {
    match folder {
        Some(folder) if !folder.is_dir() => Err(Usage(format!(
            "--data-dir {} is not a folder; give the one that has gsm8k/, mbppplus/ and so on",
            folder.display()
        ))),
        _ => Ok(()),
    }
}

/// Refuses to replace a file that the command did not write, such as its input. `fields` are those of each line that it writes. An empty file may be replaced.
pub(crate) fn check_out_is_own(out: &Path, command: &str, fields: &[&str]) -> Result<(), Usage> {
    let has_content = |file: std::fs::Metadata| file.is_file() && file.len() > 0;
    if !std::fs::metadata(out).is_ok_and(has_content) {
        return Ok(());
    }
    let first = || {
        let mut lines = Lines::new(File::open(out).ok()?).ok()?;
        let line = lines.next_line().ok()??;
        serde_json::from_str::<serde_json::Value>(line.text).ok()
    };
    if first().is_some_and(|line| fields.iter().all(|field| line.get(field).is_some())) {
        return Ok(());
    }
    Err(Usage(format!(
        "--out {} exists already and is no output of `{command}`; give another file, or delete this one",
        out.display()
    )))
}

/// Refuses more completions than one command may sample.
pub(crate) fn check_completion_count(prompts: usize, samples: usize) -> Result<(), Usage> {
    if prompts.saturating_mul(samples) <= MAX_COMPLETIONS {
        return Ok(());
    }
    Err(Usage(format!(
        "{samples} completions of each of {prompts} prompts are more than {MAX_COMPLETIONS} in all; lower -n or --limit"
    )))
}

pub(crate) fn device_choice(text: &str) -> Result<DeviceChoice, String> {
    device(text).map(DeviceChoice::Device)
}

/// A device, whether or not this machine has it.
pub(crate) fn device(text: &str) -> Result<config::Device, String> {
    let parsed = text.parse();
    parsed.map_err(|reason: String| ConfigError::value("engine.device", reason).to_string())
}

/// A value that `fits`; the error asks for `expected`.
pub(crate) fn parsed<T: FromStr>(
    text: &str,
    fits: impl Fn(&T) -> bool,
    expected: &str,
) -> Result<T, String> {
    let value = text.parse().ok().filter(fits);
    value.ok_or_else(|| format!("give {expected}"))
}

/// A number from 0 on.
pub(crate) fn from_zero<T: FromStr>(text: &str) -> Result<T, String> {
    let expected = format!("a whole number from 0 to {}", u64::MAX);
    parsed(text, |_| true, &expected)
}

/// A number from 1 on.
pub(crate) fn positive(text: &str) -> Result<usize, String> {
    parsed(text, |number| *number > 0, "a whole number from 1 on")
}

/// A number from 1 to `max`.
pub(crate) fn up_to(
    max: usize,
) -> impl Fn(&str) -> Result<usize, String> + Clone + Send + Sync + 'static {
    move |text: &str| {
        let expected = format!("a whole number from 1 to {max}");
        parsed(text, |number| (1..=max).contains(number), &expected)
    }
}

/// A temperature: 0, or a number that logits can be divided by.
pub(crate) fn temperature(text: &str) -> Result<f32, String> {
    let fits = |t: &f32| *t == 0.0 || (MIN_TEMPERATURE..=100.0).contains(t);
    let expected = "0, which is greedy, or a number from 0.000001 to 100";
    parsed(text, fits, expected)
}

/// A probability: above 0, at most 1.
fn probability(text: &str) -> Result<f32, String> {
    let fits = |p: &f32| *p > 0.0 && *p <= 1.0;
    parsed(text, fits, "a number above 0 and at most 1")
}

/// A fraction of a probability: at least 0, below 1.
fn fraction(text: &str) -> Result<f32, String> {
    let fits = |p: &f32| (0.0..1.0).contains(p);
    parsed(text, fits, "a number of at least 0 and below 1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_out_of_range_and_counting_work_are_refused() {
        let threads = up_to(MAX_THREADS);
        assert_eq!((threads("1"), threads("1024")), (Ok(1), Ok(1024)));
        for text in ["0", "1025", "99999999999999999999", "-1", "two"] {
            assert!(threads(text).is_err(), "{text}");
        }
        assert!(check_completion_count(10_000, 1000).is_ok());
        assert!(check_completion_count(10_001, 1000).is_err());
        assert!(check_completion_count(usize::MAX, 2).is_err());
        let error = device("cuda:plan").unwrap_err();
        assert!(error.contains("only `rapid bench` accepts it"), "{error}");
    }

    #[test]
    fn the_folder_of_a_run_is_refused_with_the_path_of_its_last_checkpoint() {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path();
        std::fs::write(run.join("config.toml"), "").unwrap();
        let last = run.join("checkpoints/last");
        std::fs::create_dir_all(&last).unwrap();
        let (run_name, last) = (run.to_str().unwrap(), last.to_str().unwrap());
        let error = model_path(run_name).unwrap_err();
        assert!(error.is::<Usage>() && error.to_string().ends_with(last));
        assert_eq!(model_path(last).unwrap(), Path::new(last));
        // A model's folder.
        std::fs::write(run.join("config.json"), "{}").unwrap();
        assert_eq!(model_path(run_name).unwrap(), run);
    }

    #[test]
    fn only_an_empty_file_or_an_earlier_output_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        let check = || check_out_is_own(&out, "rapid generate", &["id", "completion"]);
        assert!(check().is_ok());
        for (text, own) in [
            ("", true),
            ("{\"id\": 1, \"sample\": 0, \"completion\": \"a\"}\n", true),
            ("{\"id\": 1, \"prompt\": \"a\"}\n", false),
            ("[1]\n", false),
            ("notes\n", false),
        ] {
            std::fs::write(&out, text).unwrap();
            assert_eq!(check().is_ok(), own, "{text}");
        }
    }
}
