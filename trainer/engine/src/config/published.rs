//! Configurations of published models, for benchmarks, which need only a model's shape.

use super::ModelConfig;

/// Name → the parts of its `config.json` that determine sizes.
const KNOWN: &[(&str, &str)] = &[
    (
        "smollm2-135m",
        r#"{"model_type": "llama", "vocab_size": 49152, "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30, "num_attention_heads": 9,
        "num_key_value_heads": 3, "max_position_embeddings": 8192, "rms_norm_eps": 1e-5, "rope_theta": 100000.0, "tie_word_embeddings": true, "hidden_act": "silu"}"#,
    ),
    (
        "qwen2.5-0.5b",
        r#"{"model_type": "qwen2", "vocab_size": 151936, "hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24, "num_attention_heads": 14,
        "num_key_value_heads": 2, "max_position_embeddings": 32768, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "tie_word_embeddings": true, "hidden_act": "silu"}"#,
    ),
    (
        "qwen2.5-1.5b",
        r#"{"model_type": "qwen2", "vocab_size": 151936, "hidden_size": 1536, "intermediate_size": 8960, "num_hidden_layers": 28, "num_attention_heads": 12,
        "num_key_value_heads": 2, "max_position_embeddings": 131072, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "tie_word_embeddings": true, "hidden_act": "silu"}"#,
    ),
    (
        "qwen2.5-7b",
        r#"{"model_type": "qwen2", "vocab_size": 152064, "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28, "num_attention_heads": 28,
        "num_key_value_heads": 4, "max_position_embeddings": 131072, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "tie_word_embeddings": false, "hidden_act": "silu"}"#,
    ),
    (
        "qwen3-0.6b",
        r#"{"model_type": "qwen3", "vocab_size": 151936, "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28, "num_attention_heads": 16,
        "num_key_value_heads": 8, "head_dim": 128, "max_position_embeddings": 40960, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "tie_word_embeddings": true,
        "hidden_act": "silu"}"#,
    ),
    (
        "llama3.2-1b",
        r#"{"model_type": "llama", "vocab_size": 128256, "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32,
        "num_key_value_heads": 8, "head_dim": 64, "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "tie_word_embeddings": true,
        "hidden_act": "silu", "rope_scaling": {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192}}"#,
    ),
    (
        "gemma3-270m",
        r#"{"model_type": "gemma3_text", "vocab_size": 262144, "hidden_size": 640, "intermediate_size": 2048, "num_hidden_layers": 18, "num_attention_heads": 4,
        "num_key_value_heads": 1, "head_dim": 256, "max_position_embeddings": 32768, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0,
        "sliding_window": 512, "sliding_window_pattern": 6, "query_pre_attn_scalar": 256, "tie_word_embeddings": true, "hidden_activation": "gelu_pytorch_tanh"}"#,
    ),
    (
        "gemma3-1b",
        r#"{"model_type": "gemma3_text", "vocab_size": 262144, "hidden_size": 1152, "intermediate_size": 6912, "num_hidden_layers": 26, "num_attention_heads": 4,
        "num_key_value_heads": 1, "head_dim": 256, "max_position_embeddings": 32768, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0,
        "sliding_window": 512, "sliding_window_pattern": 6, "query_pre_attn_scalar": 256, "tie_word_embeddings": true, "hidden_activation": "gelu_pytorch_tanh"}"#,
    ),
];

/// Names of the models in [`published`].
pub fn published_names() -> impl Iterator<Item = &'static str> {
    KNOWN.iter().map(|(name, _)| *name)
}

/// The configuration of a published model; `None` if the name is not one of [`published_names`].
pub fn published(name: &str) -> Option<ModelConfig> {
    let (_, json) = KNOWN.iter().find(|(known, _)| *known == name)?;
    ModelConfig::from_json(json).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_models_have_the_published_numbers_of_weights() {
        let millions = |name| published(name).unwrap().parameters() as f64 / 1e6;
        let expected = [134.5, 494.0, 1543.7, 7615.6, 596.0, 1235.8, 268.1, 999.9];
        assert_eq!(published_names().count(), expected.len());
        for (name, expected) in published_names().zip(expected) {
            assert!(
                (millions(name) - expected).abs() < 0.06,
                "{name}: {}",
                millions(name)
            );
        }
        assert_eq!(published("gpt-5"), None);
    }
}
