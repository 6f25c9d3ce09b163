//! Reads a model's files: its configuration, its text side, and its weights in f32 under their Hugging Face names.
//!
//! The files may be untrusted. Lengths are checked against the files' sizes, and shapes against the configuration, before memory is allocated for them.

mod lazy;
pub(crate) mod random;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::config::ModelConfig;
use crate::error::EngineError;
use crate::file::gguf::Gguf;
use crate::file::{llama_cpp, read_text, wrong};
use crate::text::Text;
pub use lazy::LazyWeights;
pub use random::Zeros;

/// File with all of a model's weights.
const SINGLE: &str = "model.safetensors";
/// File that names the file of each weight, if there are several.
const INDEX: &str = "model.safetensors.index.json";

/// A weight: row-major values and their shape.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Tensor {
    /// Sizes, outermost first. A matrix is rows × columns and maps vectors of length columns to vectors of length rows.
    pub shape: Vec<usize>,
    /// As many values as the product of the shape.
    pub data: Vec<f32>,
}

/// Weights by Hugging Face name. Once loaded, they are exactly those of [`ModelConfig::tensor_shapes`], in those shapes.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Weights {
    /// Name → weight.
    pub tensors: BTreeMap<String, Tensor>,
}

/// A source of a model's weights.
pub trait TensorSource {
    /// Returns the values of a weight by its Hugging Face name, row-major, if it has exactly this shape. Each weight can be taken once.
    fn take(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, EngineError>;
}

impl TensorSource for Weights {
    fn take(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, EngineError> {
        let tensor = self.tensors.remove(name).ok_or_else(|| missing(name))?;
        let size: usize = shape.iter().product();
        if tensor.shape != shape || tensor.data.len() != size {
            return Err(EngineError::Request(format!(
                "the weight `{name}` is {:?}, but {shape:?} was expected; the model's files do not fit its configuration",
                tensor.shape
            )));
        }
        Ok(tensor.data)
    }
}

fn missing(name: &str) -> EngineError {
    EngineError::Request(format!(
        "the weight `{name}` is missing; the model's files do not fit its configuration"
    ))
}

/// A model read from its files.
pub struct Loaded<W = Weights> {
    /// Sizes and flags.
    pub config: ModelConfig,
    /// Every weight.
    pub weights: W,
    /// Tokenizer and chat template.
    pub text: Text,
}

/// Loads a GGUF file, a folder with `config.json`, `tokenizer.json` and `*.safetensors`, or a folder with one GGUF file.
pub fn open(path: &Path) -> Result<Loaded, EngineError> {
    let mut stored = open_lazy(path)?;
    let mut weights = Weights::default();
    for (name, shape) in stored.config.tensor_shapes() {
        let data = stored.weights.take(&name, &shape)?;
        weights.tensors.insert(name, Tensor { shape, data });
    }
    Ok(Loaded {
        config: stored.config,
        weights,
        text: stored.text,
    })
}

/// Like [`open`], but the weights stay in their files until they are taken.
pub fn open_lazy(path: &Path) -> Result<Loaded<LazyWeights>, EngineError> {
    let (config, weights, text) = match gguf_file(path)? {
        None => {
            let mut config = folder_config(path)?;
            let (weights, warning) = LazyWeights::in_folder(path, &config)?;
            let mut text = Text::from_folder(path, &mut config)?;
            text.warnings.extend(warning);
            (config, weights, text)
        }
        Some(file) => {
            let (gguf, config, text) = open_gguf(&file).map_err(|reason| wrong(&file, reason))?;
            let weights = LazyWeights::in_gguf(&file, gguf, &config)?;
            (config, weights, text)
        }
    };
    Ok(Loaded {
        config,
        weights,
        text,
    })
}

/// Reads such a model's sizes and flags without its weights and its text side, so without the end tokens that only the latter names.
pub fn config(path: &Path) -> Result<ModelConfig, EngineError> {
    match gguf_file(path)? {
        None => folder_config(path),
        Some(file) => Gguf::open(&file)
            .and_then(|mut gguf| llama_cpp::config(&mut gguf))
            .map_err(|reason| wrong(&file, reason)),
    }
}

/// Reads such a model's configuration and text side without its weights.
pub fn text(path: &Path) -> Result<(ModelConfig, Text), EngineError> {
    match gguf_file(path)? {
        None => {
            let mut config = folder_config(path)?;
            let text = Text::from_folder(path, &mut config)?;
            Ok((config, text))
        }
        Some(file) => {
            let (_, config, text) = open_gguf(&file).map_err(|reason| wrong(&file, reason))?;
            Ok((config, text))
        }
    }
}

/// The GGUF file of a model's path; `None` if it is a Hugging Face folder.
fn gguf_file(path: &Path) -> Result<Option<PathBuf>, EngineError> {
    if path.is_dir() {
        if path.join("config.json").exists() {
            return Ok(None);
        }
        return only_gguf(path).map(Some);
    }
    if !path.exists() {
        return Err(wrong(
            path,
            "does not exist; a model is a GGUF file, or a folder with config.json, tokenizer.json and safetensors".into(),
        ));
    }
    if !llama_cpp::is_gguf(path) {
        return Err(wrong(
            path,
            "is neither a GGUF file nor a folder; name the folder that holds config.json, tokenizer.json and the safetensors, or a file that ends in .gguf".into(),
        ));
    }
    Ok(Some(path.to_owned()))
}

fn only_gguf(folder: &Path) -> Result<PathBuf, EngineError> {
    let entries =
        std::fs::read_dir(folder).map_err(|e| wrong(folder, format!("cannot be read: {e}")))?;
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| llama_cpp::is_gguf(path))
        .collect();
    match (files.pop(), files.is_empty()) {
        (Some(file), true) => Ok(file),
        (Some(_), false) => Err(wrong(
            folder,
            "holds several GGUF files; give the path of one of them".into(),
        )),
        (None, _) => Err(wrong(
            folder,
            instead_of_weights(folder).unwrap_or_else(|| {
                "holds neither a config.json nor a GGUF file, so it is not a model's folder".into()
            }),
        )),
    }
}

/// What a folder holds instead of a model's weights, and what to do; `None` if it holds nothing known.
fn instead_of_weights(folder: &Path) -> Option<String> {
    let entries = std::fs::read_dir(folder).ok()?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let describe = |name: &String| match name.as_str() {
        SINGLE => (0, ""),
        "adapter_config.json" => (
            1,
            "a LoRA adapter without its base model; merge it into that model (`merge_and_unload` of PEFT, then `save_pretrained`), and give the folder of the result",
        ),
        name if name.contains("-of-") && name.ends_with(".safetensors") => (
            2,
            "a part of the weights, without their index model.safetensors.index.json; fetch or save the model again, with its index",
        ),
        name if name.starts_with("pytorch_model") || name.ends_with(".pth") => (
            3,
            "weights in a form that is not read; take or save the model as safetensors (`save_pretrained` of transformers)",
        ),
        _ => (4, ""),
    };
    let name = names.min_by_key(|name| (describe(name).0, name.clone()))?;
    let what = Some(describe(&name).1).filter(|what| !what.is_empty())?;
    Some(format!("holds {name}: {what}"))
}

/// Opens a GGUF file of any name. The configuration has the end tokens that the text side names.
pub(crate) fn open_gguf(path: &Path) -> Result<(Gguf, ModelConfig, Text), String> {
    let mut gguf = Gguf::open(path)?;
    let mut config = llama_cpp::config(&mut gguf)?;
    let text = Text::from_gguf(&gguf, &mut config)?;
    Ok((gguf, config, text))
}

fn folder_config(folder: &Path) -> Result<ModelConfig, EngineError> {
    let path = folder.join("config.json");
    let mut config =
        ModelConfig::from_json(&read_text(&path)?).map_err(|reason| wrong(&path, reason))?;
    let path = folder.join("generation_config.json");
    if path.exists() {
        config
            .add_generation_config(&read_text(&path)?)
            .map_err(|reason| wrong(&path, reason))?;
    }
    Ok(config)
}

/// A weight's name without the prefix for the text part of a multimodal model.
fn text_name(stored: &str) -> String {
    for (theirs, ours) in [
        ("language_model.model.", "model."),
        ("model.language_model.", "model."),
        ("language_model.lm_head.", "lm_head."),
    ] {
        if let Some(rest) = stored.strip_prefix(theirs) {
            return format!("{ours}{rest}");
        }
    }
    stored.to_owned()
}

/// The files listed in the index of a sharded checkpoint.
fn shards(folder: &Path, index: &Path) -> Result<Vec<PathBuf>, EngineError> {
    let parsed: Value = serde_json::from_str(&read_text(index)?)
        .map_err(|e| wrong(index, format!("not valid JSON: {e}")))?;
    let map = parsed
        .get("weight_map")
        .and_then(Value::as_object)
        .ok_or_else(|| wrong(index, "has no `weight_map`".into()))?;
    let mut names: Vec<&str> = map.values().filter_map(Value::as_str).collect();
    names.sort_unstable();
    names.dedup();
    for name in &names {
        if Path::new(name).file_name() != Some(name.as_ref()) {
            return Err(wrong(
                index,
                format!("`{name}` is not a file of this folder"),
            ));
        }
    }
    Ok(names.iter().map(|name| folder.join(name)).collect())
}
