//! The safetensors container, read tensor by tensor.
//!
//! The header is parsed here, so only one tensor at a time is in memory besides the weights. Every length is checked against the file's size first.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::error::EngineError;

/// The format's own limit on its header, in bytes.
const MAX_HEADER: u64 = 100_000_000;
/// The header's one entry that is not a tensor.
const METADATA: &str = "__metadata__";

#[derive(Debug, Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<usize>,
    /// First byte and end, counted from the end of the header.
    data_offsets: [u64; 2],
}

/// A file's header. Duplicate entries are rejected; serde's own maps would use the last one.
#[derive(Default)]
struct Header {
    entries: BTreeMap<String, Entry>,
    metadata: Option<BTreeMap<String, String>>,
}

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        json.deserialize_map(HeaderVisitor)
    }
}

struct HeaderVisitor;

impl<'de> Visitor<'de> for HeaderVisitor {
    type Value = Header;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
        let mut header = Header::default();
        while let Some(name) = map.next_key::<String>()? {
            let duplicate = match name.as_str() {
                METADATA => header.metadata.is_some(),
                tensor => header.entries.contains_key(tensor),
            };
            if duplicate {
                return Err(A::Error::custom(format_args!("it lists `{name}` twice")));
            }
            if name == METADATA {
                header.metadata = Some(map.next_value()?);
            } else {
                header.entries.insert(name, map.next_value()?);
            }
        }
        Ok(header)
    }
}

/// Reads the elements of a number format.
type ReadFn = fn(&[u8]) -> Vec<f32>;

pub(crate) struct SafetensorsFile {
    pub(crate) path: PathBuf,
    file: File,
    entries: BTreeMap<String, Entry>,
    metadata: BTreeMap<String, String>,
    /// Offset of the tensors' data in the file, in bytes.
    data: u64,
}

impl SafetensorsFile {
    /// Reads the header, and checks that every tensor lies inside the file and no two overlap.
    pub(crate) fn open(path: &Path) -> Result<Self, EngineError> {
        let wrong = |reason| super::wrong(path, reason);
        let io = |e: std::io::Error| wrong(format!("cannot be read: {e}"));
        let cut = |size: u64| {
            wrong(format!(
                "is cut short or damaged: its header asks for more than the file's {size} bytes; fetch or save it again"
            ))
        };
        let (mut file, size) = super::open_regular(path).map_err(io)?;
        let mut length = [0; 8];
        if size < 8 {
            return Err(cut(size));
        }
        file.read_exact(&mut length).map_err(io)?;
        let length = u64::from_le_bytes(length);
        if length > MAX_HEADER || length > size - 8 {
            return Err(cut(size));
        }
        let mut header = vec![0; length as usize];
        file.read_exact(&mut header).map_err(io)?;
        let damaged = |e: serde_json::Error| {
            wrong(format!(
                "is damaged: its header is not that of a safetensors file ({e}); fetch or save it again"
            ))
        };
        let header: Header = serde_json::from_slice(&header).map_err(damaged)?;
        let data_bytes = size - 8 - length;
        for (name, entry) in &header.entries {
            let [start, end] = entry.data_offsets;
            if end > data_bytes {
                return Err(wrong(format!(
                    "is cut short: the tensor `{name}` ends {} bytes beyond the file's end; fetch or save it again",
                    end - data_bytes
                )));
            }
            if start > end {
                return Err(wrong(format!(
                    "is damaged: the tensor `{name}` ends before it begins"
                )));
            }
        }
        let ranges = header.entries.iter().map(|(name, entry)| {
            let [start, end] = entry.data_offsets;
            (name.as_str(), start..end)
        });
        if let Some((one, other)) = super::overlapping(ranges) {
            return Err(wrong(format!(
                "is damaged: the tensors `{one}` and `{other}` lie in the same bytes; fetch or save it again"
            )));
        }
        Ok(Self {
            path: path.to_owned(),
            file,
            entries: header.entries,
            metadata: header.metadata.unwrap_or_default(),
            data: 8 + length,
        })
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    pub(crate) fn metadata(&self, key: &str) -> Option<&str> {
        self.metadata.get(key).map(String::as_str)
    }

    /// Checks that a tensor exists in exactly this shape and in a supported type.
    pub(crate) fn check(&self, name: &str, shape: &[usize]) -> Result<(), EngineError> {
        self.locate(name, shape).map(|_| ())
    }

    /// A tensor's elements in f32, row-major, if it has exactly this shape.
    pub(crate) fn tensor(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, EngineError> {
        let (read, start, length) = self.locate(name, shape)?;
        let mut raw = vec![0; length];
        self.file
            .seek(SeekFrom::Start(start))
            .and_then(|_| self.file.read_exact(&mut raw))
            .map_err(|e| self.wrong(format!("cannot be read at the tensor `{name}`: {e}")))?;
        Ok(read(&raw))
    }

    fn wrong(&self, reason: String) -> EngineError {
        super::wrong(&self.path, reason)
    }

    /// The function that reads a tensor's elements, its first byte in the file, and its number of bytes.
    fn locate(&self, name: &str, shape: &[usize]) -> Result<(ReadFn, u64, usize), EngineError> {
        let entry = self
            .entries
            .get(name)
            .ok_or_else(|| self.wrong(format!("lacks the tensor `{name}`")))?;
        if entry.shape != shape {
            return Err(self.wrong(format!(
                "the tensor `{name}` has shape {:?}, but {shape:?} is expected; the files are not from one model, so fetch or save them again",
                entry.shape
            )));
        }
        let (read, size): (ReadFn, usize) = match entry.dtype.as_str() {
            "F32" => (super::f32_from_le, 4),
            "F16" => (super::f32_from_f16_le, 2),
            "BF16" => (super::f32_from_bf16_le, 2),
            other => {
                return Err(self.wrong(format!(
                    "the tensor `{name}` is of type {other}; F32, F16 and BF16 are supported"
                )));
            }
        };
        let [start, end] = entry.data_offsets;
        let length = shape
            .iter()
            .try_fold(size, |n: usize, &size| n.checked_mul(size))
            .filter(|n| *n as u64 == end - start)
            .ok_or_else(|| {
                self.wrong(format!(
                    "is damaged: the tensor `{name}` of shape {shape:?} has {} bytes; fetch or save it again",
                    end - start
                ))
            })?;
        Ok((read, self.data + start, length))
    }
}
