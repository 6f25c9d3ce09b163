//! Checkpoint files: Hugging Face checkpoints, and the state that training resumes from.
//!
//! Everything is written beside its destination, synchronised to disk, and renamed, so that a destination is complete or does not exist.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::MutexGuard;

use blake3::{Hash, Hasher, OUT_LEN};
use candle_core::quantized::GgmlDType;
use serde_json::{Map, Value, json};
use tempfile::NamedTempFile;

use crate::backend::ranks::{LeaderState, agree, fail};
use crate::config::ModelConfig;
use crate::error::EngineError;
use crate::file::safetensors::SafetensorsFile;
use crate::file::{WeightType, encoded, wrong};
use crate::model::{Model, TensorKind};
use crate::text::Text;

/// The format's name in a state file's metadata.
const FORMAT: &str = "rapid-state-2";
/// Name of the state's last tensor: the BLAKE3 digest of all bytes before it.
const DIGEST: &str = "digest";

/// Writes the model as a Hugging Face checkpoint into `folder`, which must not exist or be empty. Adapters are merged into the weights.
pub(crate) fn save_model(model: &mut Model, text: &Text, folder: &Path) -> Result<(), EngineError> {
    let config = model.config().clone();
    let merged = |item: &StoredTensor| model.merged(&item.name);
    write_folder(&config, text, folder, WeightType::ALL[0], None, merged)
}

/// Writes a Hugging Face folder, as [`save_model`] does, with weights of this type and with one more file (name and content). `read` returns a weight's values.
pub(crate) fn write_folder(
    config: &ModelConfig,
    text: &Text,
    folder: &Path,
    dtype: WeightType,
    card: Option<(&'static str, String)>,
    read: impl FnMut(&StoredTensor) -> Result<Vec<f32>, EngineError>,
) -> Result<(), EngineError> {
    let parent = parent_of(folder)?;
    let temporary = tempfile::Builder::new()
        .prefix(".checkpoint-")
        .tempdir_in(&parent)
        .map_err(|e| io(&parent, e))?;
    let pretty = |value: &Value| format!("{value:#}\n");
    let mut json = config.to_json();
    json["torch_dtype"] = dtype.torch.into();
    let special = ["bos_token_id", "eos_token_id", "pad_token_id"];
    let generation: Value = special
        .map(|name| (name, json[name].clone()))
        .into_iter()
        .collect();
    // The model's own generation_config.json replaces this one.
    let mut files = BTreeMap::from([
        ("config.json", pretty(&json)),
        ("generation_config.json", pretty(&generation)),
    ]);
    files.extend(
        text.files()
            .map(|(name, content)| (name, content.to_owned())),
    );
    files.extend(card);
    for (name, content) in files {
        let path = temporary.path().join(name);
        File::create(&path)
            .and_then(|mut file| {
                file.write_all(content.as_bytes())?;
                file.sync_all()
            })
            .map_err(|e| io(&folder.join(name), e))?;
    }
    let shapes = config.tensor_shapes().into_iter();
    let weights = shapes.map(|(name, shape)| StoredTensor {
        stored: name.clone(),
        name,
        kind: TensorKind::Weight,
        dtype: dtype.kind,
        shape,
    });
    let weights: Vec<StoredTensor> = weights.collect();
    let metadata = json!({"format": "pt"});
    let name = "model.safetensors";
    let destination = folder.join(name);
    let file = File::create(temporary.path().join(name)).map_err(|e| io(&destination, e))?;
    let file = write_tensors(file, &destination, &metadata, &weights, None, read)?;
    file.sync_all().map_err(|e| io(&destination, e))?;
    sync_folder(temporary.path())?;
    // A temporary folder is readable only by its owner; a checkpoint gets the usual permissions.
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(temporary.path(), std::fs::Permissions::from_mode(0o755))
            .map_err(|e| io(folder, e))?;
    }
    std::fs::rename(temporary.path(), folder).map_err(|e| io(folder, e))?;
    // The folder has been renamed, so there is nothing to remove.
    let _ = temporary.keep();
    sync_folder(&parent)
}

/// Writes the trained weights (or adapters), their moments and the number of updates bit for bit into `file`. Other ranks [send](send_state) their moments
/// meanwhile. `turn` is dropped after that, since the disk may take long, and the other ranks have nothing to wait for.
pub(crate) fn save_state(
    model: &mut Model,
    file: &Path,
    turn: Option<MutexGuard<'_, LeaderState>>,
) -> Result<(), EngineError> {
    let ranks = model.sharing.ranks.clone();
    let mut is_known = false;
    let written = write_state(model, file, |model, item| {
        let values = model.tensor(&item.name, item.kind);
        // An error of an exchange is already known to all ranks.
        is_known = values.is_err() && item.kind != TensorKind::Weight;
        values
    });
    let temporary = match written {
        Err(error) if !is_known => return Err(fail(ranks.as_ref(), error)),
        written => written?,
    };
    agree(ranks.as_ref(), Ok(Vec::new()))?;
    drop(turn);
    let parent = parent_of(file)?;
    temporary.as_file().sync_all().map_err(|e| io(file, e))?;
    temporary.persist(file).map_err(|e| io(file, e.error))?;
    sync_folder(&parent)
}

/// Writes a state beside its destination. It is not synchronised to the disk yet.
fn write_state(
    model: &mut Model,
    file: &Path,
    mut read: impl FnMut(&mut Model, &StoredTensor) -> Result<Vec<f32>, EngineError>,
) -> Result<NamedTempFile, EngineError> {
    let parent = parent_of(file)?;
    let temporary = tempfile::Builder::new()
        .prefix(".state-")
        .tempfile_in(&parent)
        .map_err(|e| io(&parent, e))?;
    let items = state_items(model, model.has_moments());
    let metadata = json!({
        "format": FORMAT,
        "updates": model.updates().to_string(),
        "moments": model.has_moments().to_string(),
    });
    let open = temporary.reopen().map_err(|e| io(file, e))?;
    let read = |item: &StoredTensor| read(model, item);
    write_tensors(open, file, &metadata, &items, Some(DIGEST), read)?;
    Ok(temporary)
}

/// Sends this rank's moments to rank 0, which writes a state. If rank 0 cannot write it, that is an error here too.
pub(crate) fn send_state(model: &mut Model) -> Result<(), EngineError> {
    let moments = model.has_moments();
    for item in state_items(model, moments) {
        if item.kind != TensorKind::Weight {
            model.tensor(&item.name, item.kind)?;
        }
    }
    let ranks = model.sharing.ranks.clone();
    agree(ranks.as_ref(), Ok(Vec::new())).map(drop)
}

/// Loads the state in `file`. All ranks call it. Before the model of any is changed, each checks that the file is intact and belongs to its model.
pub(crate) fn load_state(model: &mut Model, file: &Path) -> Result<(), EngineError> {
    let ranks = model.sharing.ranks.clone();
    let opened = StateFile::open(model, file);
    let mut state = opened.map_err(|error| fail(ranks.as_ref(), error))?;
    agree(ranks.as_ref(), Ok(Vec::new()))?;
    model.inconsistent = true;
    let loaded = state.load(model);
    agree(ranks.as_ref(), loaded.map(|()| Vec::new()))?;
    model.inconsistent = false;
    Ok(())
}

/// A state file that is intact and belongs to a model.
struct StateFile {
    tensors: SafetensorsFile,
    items: Vec<StoredTensor>,
    moments: bool,
    updates: u64,
}

impl StateFile {
    fn open(model: &Model, file: &Path) -> Result<Self, EngineError> {
        let wrong = |reason: &str| wrong(file, reason.to_owned());
        let tensors = SafetensorsFile::open(file)?;
        if tensors.metadata("format") != Some(FORMAT) {
            return Err(wrong(
                "is not a training state of this version; name a file that save_state wrote",
            ));
        }
        if !is_intact(file).map_err(|e| wrong(&format!("cannot be read: {e}")))? {
            return Err(wrong(
                "is damaged: its content has changed since it was written; go back to an earlier state",
            ));
        }
        let updates: u64 = tensors
            .metadata("updates")
            .and_then(|n| n.parse().ok())
            .ok_or_else(|| wrong("does not contain its number of updates"))?;
        let moments = tensors.metadata("moments") == Some("true");
        let items = state_items(model, moments);
        for item in &items {
            tensors.check(&item.stored, &item.shape)?;
        }
        Ok(Self {
            tensors,
            items,
            moments,
            updates,
        })
    }

    /// Copies the state into the model. Waits for an asynchronous device, so that its failure is reported here.
    fn load(&mut self, model: &mut Model) -> Result<(), EngineError> {
        for item in &self.items {
            let values = self.tensors.tensor(&item.stored, &item.shape)?;
            model.set_tensor(&item.name, item.kind, &values)?;
        }
        if !self.moments && model.has_moments() {
            for (name, shape) in model.trained_shapes() {
                let zeros = vec![0.0; shape.iter().product()];
                model.set_tensor(&name, TensorKind::Moment1, &zeros)?;
                model.set_tensor(&name, TensorKind::Moment2, &zeros)?;
            }
        }
        model.updates = self.updates;
        model.decoder.backend.synchronise()
    }
}

/// Whether a state file ends in the digest of its preceding bytes.
fn is_intact(file: &Path) -> std::io::Result<bool> {
    let mut file = File::open(file)?;
    let content = file.metadata()?.len().saturating_sub(OUT_LEN as u64);
    let mut hasher = Hasher::new();
    hasher.update_reader(Read::take(&mut file, content))?;
    let mut digest = [0; OUT_LEN];
    file.read_exact(&mut digest)?;
    Ok(hasher.finalize() == Hash::from_bytes(digest))
}

/// A tensor to write or read.
pub(crate) struct StoredTensor {
    /// Its name in the file.
    stored: String,
    /// Name of the weight that the tensor is, or belongs to.
    pub(crate) name: String,
    kind: TensorKind,
    dtype: GgmlDType,
    pub(crate) shape: Vec<usize>,
}

fn state_items(model: &Model, moments: bool) -> Vec<StoredTensor> {
    let kinds = [
        ("weight", TensorKind::Weight),
        ("moment1", TensorKind::Moment1),
        ("moment2", TensorKind::Moment2),
    ];
    let stored = if moments { 3 } else { 1 };
    let shapes = model.trained_shapes();
    let items = shapes.into_iter().flat_map(|(name, shape)| {
        let kinds = kinds.into_iter().take(stored);
        kinds.map(move |(prefix, kind)| StoredTensor {
            stored: format!("{prefix}:{name}"),
            name: name.clone(),
            kind,
            dtype: GgmlDType::F32,
            shape: shape.clone(),
        })
    });
    items.collect()
}

/// Writes a safetensors file tensor by tensor, so that only one of them is in memory in addition to the model. If `digest` gives it a name, the digest of all
/// bytes before it follows as the last tensor. `path` is the path that errors name. Returns the file, which is not synchronised to the disk yet.
fn write_tensors(
    file: File,
    path: &Path,
    metadata: &Value,
    items: &[StoredTensor],
    digest: Option<&str>,
    mut read: impl FnMut(&StoredTensor) -> Result<Vec<f32>, EngineError>,
) -> Result<File, EngineError> {
    let mut header = Map::from_iter([("__metadata__".to_owned(), metadata.clone())]);
    let mut offset = 0;
    for item in items {
        let elements: usize = item.shape.iter().product();
        let end = offset + (elements * item.dtype.type_size()) as u64;
        header.insert(
            item.stored.clone(),
            json!({"dtype": format!("{:?}", item.dtype), "shape": item.shape, "data_offsets": [offset, end]}),
        );
        offset = end;
    }
    if let Some(name) = digest {
        let end = offset + OUT_LEN as u64;
        header.insert(
            name.to_owned(),
            json!({"dtype": "U8", "shape": [OUT_LEN], "data_offsets": [offset, end]}),
        );
    }
    let mut header = Value::Object(header).to_string();
    // Tensors must begin at a multiple of 8 bytes.
    while !header.len().is_multiple_of(8) {
        header.push(' ');
    }
    let mut out = BufWriter::with_capacity(1 << 20, file);
    let mut hasher = digest.map(|_| Hasher::new());
    let mut put = |bytes: &[u8]| {
        if let Some(hasher) = &mut hasher {
            hasher.update(bytes);
        }
        out.write_all(bytes).map_err(|e| io(path, e))
    };
    put(&(header.len() as u64).to_le_bytes())?;
    put(header.as_bytes())?;
    for item in items {
        let values = read(item)?;
        for chunk in values.chunks(1 << 16) {
            let bytes = encoded(chunk, item.dtype);
            put(&bytes.map_err(|reason| wrong(path, format!("`{}` {reason}", item.name)))?)?;
        }
    }
    if let Some(hasher) = hasher {
        let digest = hasher.finalize();
        out.write_all(digest.as_bytes()).map_err(|e| io(path, e))?;
    }
    out.into_inner().map_err(|e| io(path, e.into_error()))
}

/// The parent folder of `path`, created if it does not exist.
pub(crate) fn parent_of(path: &Path) -> Result<PathBuf, EngineError> {
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    std::fs::create_dir_all(&parent).map_err(|e| io(&parent, e))?;
    Ok(parent)
}

/// Synchronises a folder, so that a rename in it survives a power failure.
pub(crate) fn sync_folder(folder: &Path) -> Result<(), EngineError> {
    if cfg!(unix) {
        File::open(folder)
            .and_then(|folder| folder.sync_all())
            .map_err(|e| io(folder, e))?;
    }
    Ok(())
}

pub(crate) fn io(path: &Path, source: std::io::Error) -> EngineError {
    let source = match source.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => std::io::Error::new(
            source.kind(),
            "the disk is full; free some space, or choose a path on another disk (no partial file was left)",
        ),
        ErrorKind::DirectoryNotEmpty => std::io::Error::new(
            source.kind(),
            "it already exists and is not empty; choose a new folder",
        ),
        _ => source,
    };
    EngineError::Io {
        path: path.to_owned(),
        source,
    }
}
