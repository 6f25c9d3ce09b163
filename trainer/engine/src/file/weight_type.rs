//! The number formats in which weights are written.

use candle_core::quantized::{GgmlDType, QTensor};

/// A number format of stored matrices.
#[derive(Debug, Clone, Copy)]
pub struct WeightType {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its name in `config.json`; empty if only GGUF files have it.
    pub(crate) torch: &'static str,
    pub(crate) kind: GgmlDType,
    /// Its number in GGUF's `general.file_type`.
    pub(crate) number: i64,
}

impl WeightType {
    /// All types: the first is that of checkpoints, and q8_0 llama.cpp's blocks of 32 integers of 8 bits with a scale.
    pub const ALL: [Self; 4] = [
        Self::new("f32", "float32", GgmlDType::F32, 0),
        Self::new("bf16", "bfloat16", GgmlDType::BF16, 32),
        Self::new("f16", "float16", GgmlDType::F16, 1),
        Self::new("q8_0", "", GgmlDType::Q8_0, 7),
    ];

    const fn new(name: &'static str, torch: &'static str, kind: GgmlDType, number: i64) -> Self {
        Self {
            name,
            torch,
            kind,
            number,
        }
    }
}

/// The bytes of numbers in a format. Q8_0 takes whole blocks. Numbers beyond f16, which Q8_0's scales are too, are refused.
pub(crate) fn encoded(values: &[f32], kind: GgmlDType) -> Result<Vec<u8>, String> {
    if kind == GgmlDType::F32 {
        return Ok(values.iter().flat_map(|x| x.to_le_bytes()).collect());
    }
    let is_beyond = |x: &&f32| kind != GgmlDType::BF16 && x.abs() > half::f16::MAX.to_f32();
    if let Some(x) = values.iter().find(is_beyond) {
        return Err(format!("has the number {x}, beyond f16; take bf16 or f32"));
    }
    candle_core::Tensor::from_slice(values, values.len(), &candle_core::Device::Cpu)
        .and_then(|values| Ok(QTensor::quantize(&values, kind)?.data()?.into_owned()))
        .map_err(|error| format!("cannot be written as {kind:?}: {error}"))
}
