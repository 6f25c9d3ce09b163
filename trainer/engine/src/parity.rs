//! Comparison of a checkpoint's logits with those of candle-transformers, an independent implementation. For `rapid doctor`.
//!
//! Both implementations read the same weights in f32, so the forward passes are compared. A family's flag that is read wrongly, or weights in a wrong order,
//! shows here even if the model still produces plausible text.

mod candle;
pub mod device;
pub mod export;

use std::path::Path;

pub use self::candle::logits as candle_logits;
use crate::backend::cpu;
use crate::batch::Batch;
use crate::config::ModelConfig;
use crate::error::EngineError;
use crate::load::{self, Weights};
use crate::model::Model;

/// Difference of the two implementations after the last token of a text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Parity {
    /// Length of the text, in tokens.
    pub tokens: usize,
    /// The largest difference of two logits of one token.
    pub difference: f32,
    /// The largest absolute logit, to which the difference is relative.
    pub magnitude: f32,
    /// Whether both have the same likeliest token.
    pub same_choice: bool,
}

/// Longest window that the comparison exceeds. The second implementation then takes seconds; longer windows are not exceeded.
const LONGEST_WINDOW: usize = 2048;

/// Loads a model twice, on the CPU with `threads` threads, and compares the logits after a short text. In models with sliding windows, the text is repeated
/// until it is longer than the window.
///
/// # Errors
/// If the model cannot be loaded, or candle rejects its configuration.
pub fn with_candle(path: &Path, text: &str, threads: Option<usize>) -> Result<Parity, EngineError> {
    let loaded = load::open(path)?;
    let once = loaded
        .text
        .tokenizer
        .encode(text, true)
        .map_err(EngineError::Request)?;
    if once.is_empty() {
        return Err(EngineError::Request(
            "the text has no tokens, so there are no logits to compare".into(),
        ));
    }
    let window = loaded.config.sliding.as_ref().map(|sliding| sliding.window);
    let window = window
        .filter(|window| *window <= LONGEST_WINDOW)
        .unwrap_or(0);
    let length = (window + once.len()).min(loaded.config.max_position_embeddings);
    let tokens: Vec<u32> = once.iter().copied().cycle().take(length).collect();
    let theirs = candle_logits(&loaded.config, &loaded.weights, &tokens).map_err(|error| EngineError::Model {
        path: path.to_owned(),
        reason: format!("candle-transformers cannot compute this model, so there is nothing to compare with: {error}"),
    })?;
    let ours = logits(loaded.config, loaded.weights, &tokens, threads)?;
    Ok(compare(&ours, &theirs, tokens.len()))
}

fn compare(ours: &[f32], theirs: &[f32], tokens: usize) -> Parity {
    let likeliest = |logits: &[f32]| {
        logits
            .iter()
            .enumerate()
            .max_by(|a, b| a.1.total_cmp(b.1))
            .map(|(token, _)| token)
    };
    let largest = |values: &mut dyn Iterator<Item = f32>| values.map(f32::abs).fold(0.0, f32::max);
    // `max` ignores NaN, but a model with a NaN among its logits does not agree with anything.
    let finite =
        ours.len() == theirs.len() && ours.iter().chain(theirs).all(|logit| logit.is_finite());
    let difference = largest(&mut ours.iter().zip(theirs).map(|(a, b)| a - b));
    Parity {
        tokens,
        difference: if finite { difference } else { f32::INFINITY },
        magnitude: largest(&mut theirs.iter().copied()),
        same_choice: likeliest(ours) == likeliest(theirs),
    }
}

/// The engine's logits after the last of some tokens, on the CPU with `threads` threads.
///
/// # Errors
/// If the model cannot be computed.
pub fn logits(
    config: ModelConfig,
    weights: Weights,
    tokens: &[u32],
    threads: Option<usize>,
) -> Result<Vec<f32>, EngineError> {
    let n = tokens.len();
    let mut model = Model::new(config, weights, cpu::open(threads)?)?;
    model.reserve_kv(n)?;
    model.logits(&Batch::text(tokens), &[n - 1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_another_choice_and_a_nan_are_detected() {
        for (ours, theirs, difference, same_choice) in [
            (&[1.0, 2.0][..], &[1.0, 2.0], 0.0, true),
            (&[1.0, 2.0], &[2.5, 2.0], 1.5, false),
            (&[f32::NAN, 2.0], &[0.0, 1.0], f32::INFINITY, false),
            (&[1.0], &[1.0, 2.0], f32::INFINITY, false),
        ] {
            let compared = compare(ours, theirs, 1);
            assert_eq!(compared.difference, difference, "{ours:?}");
            assert_eq!(compared.same_choice, same_choice, "{ours:?}");
        }
    }
}
