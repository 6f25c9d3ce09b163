//! Opens the model to train, and the reference model of a KL term.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use datasets::fetch::{self, ArtifactKind};
use datasets::settings::SettingError;
use engine::{Engine, EngineOptions, Leader};

use crate::config::{self, Config};
use crate::policy::Policy;
use crate::run::TrainError;
use crate::run::observers::Progress;

/// The model's file or folder on this machine.
///
/// # Errors
/// [`TrainError::NoModel`] if a named model is not in the cache folder, [`TrainError::Config`] if the path does not exist.
pub fn locate_model(model: &config::Model) -> Result<PathBuf, TrainError> {
    match (&model.path, &model.name) {
        (Some(path), _) if path.exists() => Ok(path.clone()),
        (Some(path), _) => Err(refused(
            "model.path",
            format!(
                "there is no file or folder {}; give a GGUF file, or a folder with config.json, tokenizer.json and safetensors",
                path.display()
            ),
        )),
        (None, Some(name)) => fetch::locate(ArtifactKind::Model, name)
            .map(|folder| weights(&folder))
            .ok_or_else(|| TrainError::NoModel(name.clone())),
        (None, None) => Err(refused("model.name", "it is not set".to_owned())),
    }
}

fn refused(key: &str, reason: String) -> TrainError {
    TrainError::Config(SettingError::value(key, reason))
}

/// The path of the weights in a folder: the folder itself if it is a Hugging Face model, else its first GGUF file.
fn weights(folder: &Path) -> PathBuf {
    if folder.join("config.json").is_file() {
        return folder.to_owned();
    }
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let files = paths.filter(|path| path.extension().is_some_and(|it| it == "gguf"));
    files.min().unwrap_or_else(|| folder.to_owned())
}

/// Opens a model with the recipe's options.
pub(super) fn open(
    config: &Config,
    model: &Path,
    ranks: Option<&Leader>,
) -> Result<Engine, TrainError> {
    let options = EngineOptions {
        ranks: ranks.cloned(),
        ..config.engine_options()
    };
    Ok(tokio::task::block_in_place(|| {
        Engine::open(model, options)
    })?)
}

/// The frozen reference model, if the loss has a KL term: the base of the adapters, or a second copy of the weights.
pub(super) fn open_reference(
    config: &Config,
    model: &Path,
    engine: &Engine,
    ranks: Option<&Leader>,
    progress: &Progress,
) -> Result<Option<Arc<dyn Policy>>, TrainError> {
    if config.algorithm.kl <= 0.0 {
        return Ok(None);
    }
    if let Some(base) = engine.base() {
        progress.say("the loss has a KL term; its reference is this model without its adapters");
        return Ok(Some(Arc::new(base)));
    }
    progress.say("the loss has a KL term; its reference is a second copy of this model's weights");
    Ok(Some(Arc::new(open(config, model, ranks)?)))
}

/// The model and its device, in a line.
pub(super) fn describe(config: &Config, model: &Path, engine: &Engine) -> String {
    let info = engine.info();
    let adapters = info.adapters.map_or_else(String::new, |weights| {
        format!(" and {:.1} M in adapters", weights as f64 / 1e6)
    });
    let path = model.display().to_string();
    format!(
        "{}: {}, {:.0} M weights{adapters}, context {}, on {}",
        config.model.name.as_ref().unwrap_or(&path),
        info.architecture,
        info.parameters as f64 / 1e6,
        info.context,
        info.device
    )
}
