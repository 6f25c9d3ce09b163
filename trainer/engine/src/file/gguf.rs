//! The GGUF container: its metadata, and its tensors in f32.
//!
//! The header is parsed here rather than by candle: every length is checked against the file's size before memory is allocated for it. But candle expands the
//! quantised blocks. No two tensors overlap, so all of them in f32 take at most about seven times the file's size: the densest blocks store 32 values in 18
//! bytes.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;

use candle_core::quantized::{GgmlDType, ggml_file::qtensor_from_ggml};

/// Metadata arrays that are nested deeper than this are rejected.
const MAX_DEPTH: usize = 4;
/// GGML's own limit, `GGML_MAX_DIMS`.
const MAX_DIMS: u32 = 4;

/// GGML's names of number formats, in the order of their numbers (`ggml_type`).
const GGML_TYPES: &str = "F32 F16 Q4_0 Q4_1 Q4_2 Q4_3 Q5_0 Q5_1 Q8_0 Q8_1 Q2_K Q3_K Q4_K Q5_K Q6_K Q8_K IQ2_XXS IQ2_XS IQ3_XXS IQ1_S IQ4_NL IQ3_S IQ2_S IQ4_XS I8 I16 I32 I64 F64 IQ1_M BF16 Q4_0_4_4 Q4_0_4_8 Q4_0_8_8 TQ1_0 TQ2_0 IQ4_NL_4_4 IQ4_NL_4_8 IQ4_NL_8_8 MXFP4 NVFP4";

/// A metadata value. Arrays that no model needs are skipped and represented by [`Value::Other`].
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Int(i64),
    Float(f64),
    Bool(bool),
    Text(String),
    Ints(Vec<i64>),
    Floats(Vec<f32>),
    Texts(Vec<String>),
    Other,
}

/// A tensor's shape, format and position.
#[derive(Debug, Clone)]
struct Entry {
    /// Outermost size first.
    shape: Vec<usize>,
    kind: GgmlDType,
    /// Range of its bytes, counted from the beginning of the tensors' data.
    range: Range<u64>,
}

/// The supported number formats, with their numbers in a file. (candle's own mapping is private.)
pub(super) const SUPPORTED: [(u32, GgmlDType); 11] = [
    (0, GgmlDType::F32),
    (1, GgmlDType::F16),
    (30, GgmlDType::BF16),
    (2, GgmlDType::Q4_0),
    (3, GgmlDType::Q4_1),
    (6, GgmlDType::Q5_0),
    (7, GgmlDType::Q5_1),
    (8, GgmlDType::Q8_0),
    (12, GgmlDType::Q4K),
    (13, GgmlDType::Q5K),
    (14, GgmlDType::Q6K),
];

/// The number format of a tensor by its number in the file.
fn kind(id: u32, tensor: &str) -> Result<GgmlDType, String> {
    let found = SUPPORTED.iter().find(|(known, _)| *known == id);
    found.map(|(_, kind)| *kind).ok_or_else(|| {
        format!(
            "the tensor `{tensor}` is of GGML type {}; F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K and Q6_K are supported, so take the model in one of these",
            GGML_TYPES
                .split(' ')
                .nth(id as usize)
                .map_or_else(|| format!("{id}, which is unknown"), str::to_owned)
        )
    })
}

/// Number of bytes of a tensor of this format and shape.
pub(super) fn length(kind: GgmlDType, shape: &[usize], tensor: &str) -> Result<usize, String> {
    let (elements, bytes) = (kind.block_size(), kind.type_size());
    let row = shape.last().copied().unwrap_or(1);
    if !row.is_multiple_of(elements) {
        return Err(format!(
            "rows of the tensor `{tensor}` ({row}) are not whole blocks of {elements}"
        ));
    }
    shape
        .iter()
        .try_fold(1usize, |n, &size| n.checked_mul(size))
        .and_then(|n| (n / elements).checked_mul(bytes))
        .ok_or_else(|| format!("the tensor `{tensor}` is larger than memory can be"))
}

pub(crate) struct Gguf {
    file: BufReader<File>,
    size: u64,
    metadata: BTreeMap<String, Value>,
    entries: BTreeMap<String, Entry>,
    /// Offset of the tensors' data in the file, in bytes.
    data: u64,
}

impl Gguf {
    /// Reads the header and checks that no two tensors overlap. Errors state what is wrong with the file, without naming it.
    pub(crate) fn open(path: &Path) -> Result<Self, String> {
        let (file, size) =
            super::open_regular(path).map_err(|e| format!("cannot be opened: {e}"))?;
        let mut header = Header {
            file: BufReader::with_capacity(1 << 20, file),
            at: 0,
            size,
        };
        let mut magic = [0; 4];
        header.fill(&mut magic)?;
        if &magic != b"GGUF" {
            return Err("is not a GGUF file (it does not begin with `GGUF`)".into());
        }
        let version = header.u32()?;
        if !(2..=3).contains(&version) {
            return Err(format!(
                "is GGUF version {version}; versions 2 and 3 are supported, so convert it with a current llama.cpp"
            ));
        }
        let tensor_count = header.u64()?;
        let value_count = header.u64()?;
        let mut metadata = BTreeMap::new();
        for _ in 0..value_count {
            let key = header.text()?;
            let kind = header.u32()?;
            let value = header.value(kind, 0)?;
            if metadata.insert(key.clone(), value).is_some() {
                return Err(format!(
                    "is damaged: it lists the metadata `{key}` twice; fetch or convert it again"
                ));
            }
        }
        let mut entries = BTreeMap::new();
        for _ in 0..tensor_count {
            let (name, entry) = header.entry()?;
            if entries.insert(name.clone(), entry).is_some() {
                return Err(format!(
                    "is damaged: it lists the tensor `{name}` twice; fetch or convert it again"
                ));
            }
        }
        let ranges = entries
            .iter()
            .map(|(name, entry)| (name.as_str(), entry.range.clone()));
        if let Some((one, other)) = super::overlapping(ranges) {
            return Err(format!(
                "is damaged: the tensors `{one}` and `{other}` lie in the same bytes; fetch or convert it again"
            ));
        }
        let alignment = match metadata.get("general.alignment") {
            None => 32,
            Some(&Value::Int(n @ 1..=65536)) => n as u64,
            Some(_) => return Err("`general.alignment` is not a number from 1 to 65536".into()),
        };
        Ok(Self {
            data: header.at.next_multiple_of(alignment),
            file: header.file,
            size,
            metadata,
            entries,
        })
    }

    pub(crate) fn value(&self, key: &str) -> Option<&Value> {
        self.metadata.get(key)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    pub(crate) fn shape(&self, tensor: &str) -> Option<&[usize]> {
        self.entries.get(tensor).map(|entry| entry.shape.as_slice())
    }

    /// Checks that a tensor exists in exactly this shape, inside the file.
    pub(crate) fn check(&self, name: &str, shape: &[usize]) -> Result<(), String> {
        self.locate(name, shape).map(|_| ())
    }

    /// A tensor's elements in f32, row-major, if it has exactly this shape.
    pub(crate) fn tensor(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, String> {
        let (kind, range) = self.locate(name, shape)?;
        let mut raw = vec![0; (range.end - range.start) as usize];
        self.file
            .seek(SeekFrom::Start(range.start))
            .and_then(|_| self.file.read_exact(&mut raw))
            .map_err(|e| format!("cannot be read at the tensor `{name}`: {e}"))?;
        match kind {
            GgmlDType::F32 => Ok(super::f32_from_le(&raw)),
            GgmlDType::F16 => Ok(super::f32_from_f16_le(&raw)),
            GgmlDType::BF16 => Ok(super::f32_from_bf16_le(&raw)),
            _ => qtensor_from_ggml(kind, &raw, shape.to_vec(), &candle_core::Device::Cpu)
                .and_then(|blocks| blocks.dequantize(&candle_core::Device::Cpu))
                .and_then(|values| values.flatten_all()?.to_vec1())
                .map_err(|e| format!("the tensor `{name}` cannot be expanded: {e}")),
        }
    }

    /// A tensor's type and the range of its bytes in the file.
    fn locate(&self, name: &str, shape: &[usize]) -> Result<(GgmlDType, Range<u64>), String> {
        let entry = self.entries.get(name).ok_or_else(|| {
            format!("lacks the tensor `{name}`; it is incomplete, or not of the architecture that it names")
        })?;
        if entry.shape != shape {
            return Err(format!(
                "the tensor `{name}` has shape {:?}, but the metadata requires {shape:?}; the file is inconsistent, so fetch or convert it again",
                entry.shape
            ));
        }
        let start = self.data.checked_add(entry.range.start);
        let end = self.data.checked_add(entry.range.end);
        let (Some(start), Some(end)) = (start, end) else {
            return Err(impossible_offset(name));
        };
        if end > self.size {
            return Err(format!(
                "is cut short: the tensor `{name}` ends at byte {end}, the file at byte {}; fetch it again",
                self.size
            ));
        }
        Ok((entry.kind, start..end))
    }
}

fn impossible_offset(tensor: &str) -> String {
    format!("the tensor `{tensor}` has an impossible offset")
}

/// The header, with the number of bytes read.
struct Header {
    file: BufReader<File>,
    at: u64,
    size: u64,
}

impl Header {
    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), String> {
        let count = bytes.len() as u64;
        if count > self.size - self.at {
            return Err(self.cut_short());
        }
        self.file
            .read_exact(bytes)
            .map_err(|e| format!("cannot be read: {e}"))?;
        self.at += count;
        Ok(())
    }

    fn cut_short(&self) -> String {
        format!(
            "is cut short or damaged: its header asks for more than the file's {} bytes; fetch it again",
            self.size
        )
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    fn u32(&mut self) -> Result<u32, String> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, String> {
        self.array().map(u64::from_le_bytes)
    }

    fn text(&mut self) -> Result<String, String> {
        let length = self.u64()?;
        if length > self.size - self.at {
            return Err(self.cut_short());
        }
        let mut bytes = vec![0; length as usize];
        self.fill(&mut bytes)?;
        String::from_utf8(bytes)
            .map_err(|_| "is damaged: a text in its header is not UTF-8; fetch it again".into())
    }

    fn value(&mut self, kind: u32, depth: usize) -> Result<Value, String> {
        Ok(match kind {
            0 => Value::Int(u8::from_le_bytes(self.array()?).into()),
            1 => Value::Int(i8::from_le_bytes(self.array()?).into()),
            2 => Value::Int(u16::from_le_bytes(self.array()?).into()),
            3 => Value::Int(i16::from_le_bytes(self.array()?).into()),
            4 => Value::Int(self.u32()?.into()),
            5 => Value::Int(i32::from_le_bytes(self.array()?).into()),
            6 => Value::Float(f32::from_le_bytes(self.array()?).into()),
            7 => Value::Bool(self.array::<1>()? != [0]),
            8 => Value::Text(self.text()?),
            9 => self.values(depth)?,
            10 => i64::try_from(self.u64()?).map_or(Value::Other, Value::Int),
            11 => Value::Int(i64::from_le_bytes(self.array()?)),
            12 => Value::Float(f64::from_le_bytes(self.array()?)),
            other => {
                return Err(format!(
                    "is damaged: a metadata value is of the unknown type {other}; fetch it again"
                ));
            }
        })
    }

    /// Reads an array value by value. It takes memory for the bytes of the file, not for the claimed length. Only integers of 32 bits are stored, the format of
    /// llama.cpp's tables; bytes would take eight times their size.
    fn values(&mut self, depth: usize) -> Result<Value, String> {
        let kind = self.u32()?;
        let length = self.u64()?;
        if depth >= MAX_DEPTH {
            return Err("nests its metadata arrays too deep".into());
        }
        let (mut ints, mut floats, mut texts) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..length {
            match self.value(kind, depth + 1)? {
                Value::Int(n) if matches!(kind, 4 | 5) => ints.push(n),
                Value::Float(x) if kind == 6 => floats.push(x as f32),
                Value::Text(text) => texts.push(text),
                _ => {}
            }
        }
        Ok(match kind {
            4 | 5 => Value::Ints(ints),
            6 => Value::Floats(floats),
            8 => Value::Texts(texts),
            _ => Value::Other,
        })
    }

    fn entry(&mut self) -> Result<(String, Entry), String> {
        let name = self.text()?;
        let dims = self.u32()?;
        if dims > MAX_DIMS {
            return Err(format!("the tensor `{name}` has {dims} dimensions"));
        }
        let mut shape = Vec::new();
        for _ in 0..dims {
            let size = usize::try_from(self.u64()?)
                .map_err(|_| format!("the tensor `{name}` has an impossible size"))?;
            shape.push(size);
        }
        // GGML stores the innermost size first.
        shape.reverse();
        let kind = kind(self.u32()?, &name)?;
        let length = length(kind, &shape, &name)?;
        let start = self.u64()?;
        let end = start
            .checked_add(length as u64)
            .ok_or_else(|| impossible_offset(&name))?;
        let entry = Entry {
            shape,
            kind,
            range: start..end,
        };
        Ok((name, entry))
    }
}
