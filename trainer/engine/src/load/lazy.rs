//! Weights that stay in their files until they are taken.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{INDEX, SINGLE, TensorSource, instead_of_weights, shards, text_name};
use crate::config::ModelConfig;
use crate::error::EngineError;
use crate::file::gguf::Gguf;
use crate::file::safetensors::SafetensorsFile;
use crate::file::{finite, llama_cpp, unused, wrong};

/// The weights in a model's files. Each is read when it is taken, so only one of them needs memory.
pub struct LazyWeights {
    config: ModelConfig,
    files: WeightFiles,
}

enum WeightFiles {
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
            files: WeightFiles::Gguf {
                path: path.to_owned(),
                file,
            },
        })
    }

    /// The weights in a folder's `*.safetensors`, and a warning. Checks that each exists in the configured shape, and rejects others.
    pub(super) fn in_folder(
        folder: &Path,
        config: &ModelConfig,
    ) -> Result<(Self, Option<String>), EngineError> {
        let (single, index) = (folder.join(SINGLE), folder.join(INDEX));
        let mut warning = None;
        let paths = if single.exists() {
            // `transformers` reads it too, rather than the index.
            if index.exists()
                && !shards(folder, &index).is_ok_and(|files| files == [single.as_path()])
            {
                warning = Some(format!(
                    "both {SINGLE} and {INDEX}, which names other files, are there; {SINGLE} is read. Remove the one that is not the model's"
                ));
            }
            vec![single]
        } else if index.exists() {
            shards(folder, &index)?
        } else {
            let found = instead_of_weights(folder)
                .unwrap_or_else(|| format!("holds no {SINGLE}; take the model as safetensors"));
            return Err(wrong(folder, found));
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
                } else if !may_be_unused(&name, config) {
                    return Err(wrong(path, unused(stored, config)));
                }
            }
            files.push(file);
        }
        if let Some(first) = shapes.keys().next() {
            let reason = format!(
                "{} weights of the model that config.json describes are missing, the first of them `{first}`; the folder is incomplete, so fetch or save it again",
                shapes.len()
            );
            return Err(wrong(folder, reason));
        }
        let config = config.clone();
        let files = WeightFiles::Safetensors { files, locations };
        Ok((Self { config, files }, warning))
    }
}

/// Whether an unused tensor may be ignored: the copy of a tied head, frequencies that early checkpoints store, a part for images.
fn may_be_unused(name: &str, config: &ModelConfig) -> bool {
    let part = name.strip_prefix("model.").unwrap_or(name);
    (config.tie_word_embeddings && name == "lm_head.weight")
        || name.ends_with(".rotary_emb.inv_freq")
        || part.starts_with("vision_tower.")
        || part.starts_with("multi_modal_projector.")
}

impl TensorSource for LazyWeights {
    fn take(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, EngineError> {
        match &mut self.files {
            WeightFiles::Gguf { path, file } => llama_cpp::tensor(file, &self.config, name, shape)
                .map_err(|reason| wrong(path, reason)),
            WeightFiles::Safetensors { files, locations } => {
                let (number, stored) =
                    locations.remove(name).ok_or_else(|| super::missing(name))?;
                let file = &mut files[number];
                let values = finite(&stored, file.tensor(&stored, shape)?);
                values.map_err(|reason| wrong(&file.path, reason))
            }
        }
    }
}
