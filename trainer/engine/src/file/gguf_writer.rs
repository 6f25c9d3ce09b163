//! Writes the GGUF container, version 3: the [`header`], then each [`tensor`]. (candle's writer needs all tensors in memory.)

use std::io::{self, Write};

use candle_core::quantized::GgmlDType;

use super::gguf::{SUPPORTED, Value, length};

/// A tensor of a file that is to be written.
pub(crate) struct NewTensor {
    pub(crate) name: String,
    /// Outermost size first.
    pub(crate) shape: Vec<usize>,
    pub(crate) kind: GgmlDType,
}

/// Everything before the tensors' data. Integers of the metadata are of 32 bits.
pub(crate) fn header(
    metadata: &[(String, Value)],
    tensors: &[NewTensor],
) -> Result<Vec<u8>, String> {
    let counts = [tensors.len() as u64, metadata.len() as u64].map(u64::to_le_bytes);
    let mut out = [b"GGUF", &3u32.to_le_bytes()[..], &counts.concat()].concat();
    for (key, value) in metadata {
        let (kind, bytes) = encoded(value);
        out.extend([text(key), kind.to_le_bytes().into(), bytes].concat());
    }
    let mut offset = 0u64;
    for tensor in tensors {
        let kind = SUPPORTED.iter().find(|(_, kind)| *kind == tensor.kind);
        let id = kind.map_or(u32::MAX, |(id, _)| *id);
        let sizes = tensor.shape.iter().rev();
        out.extend(text(&tensor.name));
        out.extend((tensor.shape.len() as u32).to_le_bytes());
        out.extend(sizes.flat_map(|size| (*size as u64).to_le_bytes()));
        out.extend(id.to_le_bytes());
        out.extend(offset.to_le_bytes());
        let bytes = length(tensor.kind, &tensor.shape, &tensor.name)?;
        offset += (bytes + padding(bytes).len()) as u64;
    }
    out.extend(padding(out.len()));
    Ok(out)
}

/// Writes a tensor's data. Numbers that its format does not have are an error.
pub(crate) fn tensor(out: &mut impl Write, tensor: &NewTensor, values: &[f32]) -> io::Result<()> {
    let mut bytes = 0;
    for chunk in values.chunks(1 << 16) {
        let encoded = super::encoded(chunk, tensor.kind)
            .map_err(|reason| io::Error::other(format!("the tensor `{}` {reason}", tensor.name)))?;
        out.write_all(&encoded)?;
        bytes += encoded.len();
    }
    out.write_all(padding(bytes))
}

/// The zeros after so many bytes.
fn padding(bytes: usize) -> &'static [u8] {
    &[0; 32][..bytes.next_multiple_of(32) - bytes]
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
}

/// The number of a value's type, and its bytes.
fn encoded(value: &Value) -> (u32, Vec<u8>) {
    fn array(kind: u32, all: &[impl Sized], bytes: impl Iterator<Item = u8>) -> (u32, Vec<u8>) {
        let mut out = kind.to_le_bytes().to_vec();
        out.extend((all.len() as u64).to_le_bytes());
        out.extend(bytes);
        (9, out)
    }
    match value {
        Value::Int(n) => (4, (*n as u32).to_le_bytes().into()),
        Value::Float(x) => (6, (*x as f32).to_le_bytes().into()),
        Value::Bool(x) => (7, vec![u8::from(*x)]),
        Value::Text(x) => (8, text(x)),
        Value::Ints(all) => array(5, all, all.iter().flat_map(|n| (*n as u32).to_le_bytes())),
        Value::Floats(all) => array(6, all, all.iter().flat_map(|x| x.to_le_bytes())),
        Value::Texts(all) => array(8, all, all.iter().flat_map(|x| text(x))),
        Value::Other => (8, text("")),
    }
}
