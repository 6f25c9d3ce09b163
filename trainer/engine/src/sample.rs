//! Temperature, cut-offs, seeds and log-probabilities of sampled tokens.

use serde::{Deserialize, Serialize};

/// How the next token is drawn.
///
/// Cut-offs apply after the temperature, in the order top-k, top-p, min-p. The log-probability that is returned with a token is that of the
/// distribution under `temperature` alone, so with a cut-off it is not the distribution sampled from: training refuses them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sampling {
    /// 0 takes the likeliest token, the lowest id among equals; its log-probability is then that at temperature 1.
    pub temperature: f32,
    /// Keep the likeliest `top_k` tokens; 0 keeps all.
    pub top_k: usize,
    /// Keep the likeliest tokens whose probabilities first reach `top_p`; 1 keeps all.
    pub top_p: f32,
    /// Keep tokens at least `min_p` times as likely as the likeliest; 0 keeps all.
    pub min_p: f32,
}

impl Default for Sampling {
    fn default() -> Self {
        Self { temperature: 1.0, top_k: 0, top_p: 1.0, min_p: 0.0 }
    }
}
