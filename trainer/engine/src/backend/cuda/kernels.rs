//! The kernels' sources, and the instances that the backend launches.

/// A kernel source: its name for messages, and its text.
pub type Source = (&'static str, &'static str);

macro_rules! sources {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../kernels/", $name)))),*]
    };
}

/// The sources of one program, in this order.
pub const SOURCES: &[Source] = sources![
    "common.cu",
    "rows.cu",
    "norm.cu",
    "rope.cu",
    "gate.cu",
    "softmax.cu",
    "optimiser.cu",
    "attention.cu",
    "attention_tiles.cu",
    "attention_float.cu",
    "attention_decode.cu",
    "attention_prefill.cu",
    "attention_backward.cu",
    "sample.cu",
];

/// The sources that make a library for a processor of the kernels ([`super::emulated`]).
pub const EMULATOR: &[Source] = sources!["emulator.h", "emulator.cpp"];

/// All instances that are launched.
pub const NAMES: &[&str] = &[
    "convert<bf16, float>",
    "convert<float, bf16>",
    "scale<float>",
    "scale<bf16>",
    "soft_cap",
    "embed<float>",
    "embed_backward<float>",
    "gather<float, float>",
    "scatter_add<float, float>",
    "store<float, float>",
    "store<bf16, bf16>",
    "add_bias<float>",
    "add_bias<bf16>",
    "column_sums<float>",
    "add_parts",
    "rms_norm<float, float>",
    "rms_norm<bf16, float>",
    "rms_norm<bf16, bf16>",
    "rms_norm<float, bf16>",
    "rms_norm_backward<float, float, float>",
    "rms_norm_backward<float, bf16, float>",
    "rms_norm_backward<float, float, bf16>",
    "rope_table",
    "rope<float>",
    "rope<bf16>",
    "gate<float>",
    "gate<bf16>",
    "gate_backward<float>",
    "gate_backward<bf16>",
    "set_segments",
    "attention_delta<float>",
    "attention_delta<bf16>",
    "attention_combine<float>",
    "attention_combine<bf16>",
    "attention_decode<float>",
    "attention_decode<bf16, 64>",
    "attention_decode<bf16, 128>",
    "attention_decode<bf16, 256>",
    "attention_prefill<float>",
    "attention_prefill<bf16, 64>",
    "attention_prefill<bf16, 128>",
    "attention_prefill<bf16, 256>",
    "attention_backward_q<float>",
    "attention_backward_q<bf16, 64>",
    "attention_backward_q<bf16, 128>",
    "attention_backward_q<bf16, 256>",
    "attention_backward_kv<float>",
    "attention_backward_kv<bf16, 64>",
    "attention_backward_kv<bf16, 128>",
    "attention_backward_kv<bf16, 256>",
    "attention_add_parts",
    "log_probs",
    "log_probs_backward",
    "sample",
    "sum_squares",
    "adamw",
];
