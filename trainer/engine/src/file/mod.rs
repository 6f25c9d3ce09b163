//! The file formats of models: GGUF with llama.cpp's names, and safetensors.
//!
//! The files may be untrusted. Lengths are checked against the files' sizes before memory is allocated for them.

pub(crate) mod gguf;
pub(crate) mod gguf_writer;
pub(crate) mod llama_cpp;
pub(crate) mod safetensors;
mod weight_type;

use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::Path;

use crate::config::ModelConfig;
use crate::error::EngineError;
pub use weight_type::WeightType;
pub(crate) use weight_type::encoded;

/// An error about a model's file.
pub(crate) fn wrong(path: &Path, reason: String) -> EngineError {
    EngineError::Model {
        path: path.to_owned(),
        reason,
    }
}

/// Why a file with an unknown tensor is rejected: the decoder does not use it.
pub(crate) fn unused(tensor: &str, config: &ModelConfig) -> String {
    format!(
        "has the tensor `{tensor}`, which this version does not support in a `{}` model of {} layers, and computing without it would be wrong; use another conversion, or a supported model with its adapters merged",
        config.family.name(),
        config.num_hidden_layers
    )
}

/// Rejects weights other than finite numbers: these would look like a run that diverged.
pub(crate) fn finite(tensor: &str, values: Vec<f32>) -> Result<Vec<f32>, String> {
    // A maximum over integers, unlike a search, is computed by vector instructions.
    let magnitude = |x: &f32| x.to_bits() & (u32::MAX >> 1);
    if values.iter().map(magnitude).fold(0, u32::max) < f32::INFINITY.to_bits() {
        return Ok(values);
    }
    let count = values.iter().filter(|x| !x.is_finite()).count();
    Err(format!(
        "{count} of the {} elements of the tensor `{tensor}` are NaN or infinite; the file is damaged, or was saved by a training run that diverged, so fetch it again or take an earlier checkpoint",
        values.len()
    ))
}

/// Limit in bytes. The largest of a model's text files are tokenizers of some tens of megabytes.
const MAX_TEXT_FILE: u64 = 1 << 28;

/// Reads a text file of a model's folder.
pub(crate) fn read_text(path: &Path) -> Result<String, EngineError> {
    let unreadable = |e: std::io::Error| wrong(path, format!("cannot be read: {e}"));
    let (mut file, size) = open_regular(path).map_err(unreadable)?;
    if size > MAX_TEXT_FILE {
        return Err(wrong(
            path,
            format!("is {size} bytes long, which is too long for a text file of a model"),
        ));
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(unreadable)?;
    Ok(text)
}

/// Opens a regular file and returns its size. Pipes and devices are rejected, since they may have no end or block the reader.
fn open_regular(path: &Path) -> std::io::Result<(File, u64)> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(std::io::Error::other("it is not a file"));
    }
    let file = File::open(path)?;
    let size = file.metadata()?.len();
    Ok((file, size))
}

/// Two of a file's tensors that overlap, if there are any. If there are none, all tensors together have at most as many bytes as the file.
fn overlapping<'a>(
    tensors: impl Iterator<Item = (&'a str, Range<u64>)>,
) -> Option<(&'a str, &'a str)> {
    // A tensor without elements overlaps nothing.
    let mut tensors: Vec<_> = tensors.filter(|(_, range)| !range.is_empty()).collect();
    tensors.sort_unstable_by_key(|(name, range)| (range.start, *name));
    let mut neighbours = tensors.iter().zip(tensors.iter().skip(1));
    neighbours
        .find(|((_, one), (_, other))| other.start < one.end)
        .map(|((one, _), (other, _))| (*one, *other))
}

fn f32_from_le(bytes: &[u8]) -> Vec<f32> {
    let (values, _) = bytes.as_chunks::<4>();
    values.iter().map(|b| f32::from_le_bytes(*b)).collect()
}

fn f32_from_f16_le(bytes: &[u8]) -> Vec<f32> {
    let (values, _) = bytes.as_chunks::<2>();
    let half = |b: &[u8; 2]| half::f16::from_le_bytes(*b).to_f32();
    values.iter().map(half).collect()
}

fn f32_from_bf16_le(bytes: &[u8]) -> Vec<f32> {
    let (values, _) = bytes.as_chunks::<2>();
    let half = |b: &[u8; 2]| half::bf16::from_le_bytes(*b).to_f32();
    values.iter().map(half).collect()
}
