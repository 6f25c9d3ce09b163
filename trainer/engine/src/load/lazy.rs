//! Weights that stay in their files until they are taken.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{TensorSource, shards, text_name};
use crate::config::ModelConfig;
use crate::error::EngineError;
use crate::file::gguf::Gguf;
use crate::file::safetensors::SafetensorsFile;
use crate::file::{llama_cpp, wrong};

/// The weights in a model's files. Each is read when it is taken, so only one of them needs memory.
pub struct LazyWeights {
    config: ModelConfig,
    files: Files,
}

enum Files {
    Gguf {
        path: PathBuf,
        file: Gguf,
    },
    Safetensors {
        files: Vec<SafetensorsFile>,
        /// For each weight, the index of its file and its name there.
        locations: BTreeMap<String, (usize, String)>,
    },
}

impl LazyWeights {
    /// The weights in a GGUF file, after checking that each exists in the configured shape.
    pub(super) fn in_gguf(
        path: &Path,
        file: Gguf,
        config: &ModelConfig,
    ) -> Result<Self, EngineError> {
        for (name, shape) in config.tensor_shapes() {
            file.check(&llama_cpp::llama_cpp_name(&name, config.flags), &shape)
                .map_err(|reason| wrong(path, reason))?;
        }
        Ok(Self {
            config: config.clone(),
            files: Files::Gguf {
                path: path.to_owned(),
                file,
            },
        })
    }

    /// The weights in a folder's `*.safetensors`, after checking that each exists in the configured shape.
    pub(super) fn in_folder(folder: &Path, config: &ModelConfig) -> Result<Self, EngineError> {
        let single = folder.join("model.safetensors");
        let index = folder.join("model.safetensors.index.json");
        let paths = if single.exists() {
            vec![single]
        } else if index.exists() {
            shards(folder, &index)?
        } else {
            return Err(wrong(
                folder,
                "holds no model.safetensors; other forms of weights (pytorch_model.bin) are not read, so take the model as safetensors".into(),
            ));
        };
        let mut shapes: BTreeMap<String, Vec<usize>> = config.tensor_shapes().into_iter().collect();
        let (mut files, mut locations) = (Vec::new(), BTreeMap::new());
        for path in &paths {
            let file = SafetensorsFile::open(path)?;
            for stored in file.names() {
                let name = text_name(stored);
                if let Some(shape) = shapes.remove(&name) {
                    file.check(stored, &shape)?;
                    locations.insert(name, (files.len(), stored.to_owned()));
                }
            }
            files.push(file);
        }
        match shapes.len() {
            0 => Ok(Self {
                config: config.clone(),
                files: Files::Safetensors { files, locations },
            }),
            n => Err(wrong(
                folder,
                format!(
                    "{n} weights of the model that config.json describes are missing, the first of them `{}`; the folder is incomplete, so fetch or save it again",
                    shapes.keys().next().map_or("", String::as_str)
                ),
            )),
        }
    }
}

impl TensorSource for LazyWeights {
    fn take(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, EngineError> {
        match &mut self.files {
            Files::Gguf { path, file } => llama_cpp::tensor(file, &self.config, name, shape)
                .map_err(|reason| wrong(path, reason)),
            Files::Safetensors { files, locations } => {
                let (number, stored) =
                    locations.remove(name).ok_or_else(|| super::missing(name))?;
                files[number].tensor(&stored, shape)
            }
        }
    }
}
