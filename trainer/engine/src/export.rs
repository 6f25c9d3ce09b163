//! Copies of a model for other programs: a Hugging Face folder, and a GGUF file for llama.cpp. Weights are read and written one at a time.

use std::io::{BufWriter, Write as _};
use std::path::Path;

use crate::error::EngineError;
use crate::file::{WeightType, gguf_writer, llama_cpp, wrong};
use crate::load::{self, TensorSource as _};
use crate::train::checkpoint::{StoredTensor, io, parent_of, sync_folder, write_folder};

/// Writes the model at `model` as a Hugging Face folder with `card` as its README.md. The folder must not exist, or be empty.
///
/// # Errors
/// [`EngineError`], also of q8_0, which safetensors do not have. Nothing is left at `folder` then.
pub fn to_folder(
    model: &Path,
    folder: &Path,
    dtype: WeightType,
    card: String,
) -> Result<(), EngineError> {
    if dtype.torch.is_empty() {
        let reason = "a Hugging Face folder has no q8_0; take f32, bf16 or f16, or a GGUF file";
        return Err(EngineError::Request(reason.into()));
    }
    let mut from = load::open_lazy(model)?;
    let card = ("README.md", card);
    let read = |item: &StoredTensor| from.weights.take(&item.name, &item.shape);
    write_folder(&from.config, &from.text, folder, dtype, Some(card), read)
}

/// Writes the model at `model` as a GGUF file that calls it `name`. Norms and biases are f32. The file has to describe the same model when it is read back.
///
/// # Errors
/// [`EngineError`], also if the file exists, or if GGUF cannot describe the model or its tokenizer exactly. No file is left then.
pub fn to_gguf(
    model: &Path,
    file: &Path,
    dtype: WeightType,
    name: &str,
) -> Result<(), EngineError> {
    let mut from = load::open_lazy(model)?;
    let (config, refused) = (&from.config, |reason| wrong(model, reason));
    let mut metadata = llama_cpp::metadata(config, dtype, name);
    metadata.extend(from.text.gguf_metadata(config).map_err(refused)?);
    let tensors = llama_cpp::new_tensors(config, dtype.kind);
    let header = gguf_writer::header(&metadata, &tensors).map_err(refused)?;

    let parent = parent_of(file)?;
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644));
    let temporary = builder.prefix(".gguf-").tempfile_in(&parent);
    let temporary = temporary.map_err(|error| io(&parent, error))?;
    let failed = |error| io(file, error);
    let mut out = BufWriter::with_capacity(1 << 20, temporary.as_file());
    out.write_all(&header).map_err(failed)?;
    // The scaling's factors, which are no weight, come last.
    let weights = config.tensor_shapes().into_iter().map(Some);
    for (tensor, weight) in tensors.iter().zip(weights.chain([None])) {
        let values = match weight {
            Some((name, shape)) => {
                let values = from.weights.take(&name, &shape)?;
                llama_cpp::converted(config, &name, &shape, values)
            }
            None => llama_cpp::rope_factors(config),
        };
        gguf_writer::tensor(&mut out, tensor, &values).map_err(failed)?;
    }
    out.flush().map_err(failed)?;
    drop(out);
    let (_, mut read, _) = load::open_gguf(temporary.path()).map_err(refused)?;
    // llama.cpp may find more end tokens, by their names.
    let ends = std::mem::replace(&mut read.eos_token_ids, config.eos_token_ids.clone());
    if read != *config || !config.eos_token_ids.iter().all(|id| ends.contains(id)) {
        let reason = "has settings in config.json or end tokens that no GGUF file can have; export it as a Hugging Face folder";
        return Err(refused(reason.into()));
    }
    temporary.as_file().sync_all().map_err(failed)?;
    let persisted = temporary.persist_noclobber(file);
    persisted.map_err(|error| failed(error.error))?;
    sync_folder(&parent)
}
