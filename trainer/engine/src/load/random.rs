//! Models with random weights for benchmarks, which need only a model's shape. Models with zeros where no number is read.

use super::{Loaded, Tensor, TensorSource, Weights};
use crate::config::ModelConfig;
use crate::error::EngineError;
use crate::random::SplitMix;
use crate::text::{Text, random_model_tokenizer};

/// Standard deviation of matrices and embeddings, `initializer_range` of most families.
const SPREAD: f32 = 0.02;

/// Weights that are all 0. The system provides zeroed memory when it is touched, so weights that nobody reads take none.
#[derive(Debug, Clone, Copy)]
pub struct Zeros;

impl TensorSource for Zeros {
    fn take(&mut self, _name: &str, shape: &[usize]) -> Result<Vec<f32>, EngineError> {
        Ok(vec![0.0; shape.iter().product()])
    }
}

/// A model with weights that are all 0. Its tokens are bytes.
pub(crate) fn zeros(config: ModelConfig) -> Result<Loaded<Zeros>, EngineError> {
    let text = bytes_of(&config)?;
    Ok(Loaded {
        config,
        weights: Zeros,
        text,
    })
}

/// The text side of a model that has bytes as tokens.
fn bytes_of(config: &ModelConfig) -> Result<Text, EngineError> {
    let wrong = |reason| EngineError::Request(format!("the configuration: {reason}"));
    config.check().map_err(wrong)?;
    if config.vocab_size < random_model_tokenizer::SIZE {
        return Err(wrong(format!(
            "`vocab_size` is {}, which is too small for a model with random weights: its tokens are the 256 bytes and an end token",
            config.vocab_size
        )));
    }
    Ok(Text::without_template(random_model_tokenizer::tokenizer()))
}

/// Initial weights as before training, a function of the seed. The tokens are bytes.
pub(crate) fn random(config: ModelConfig, seed: u64) -> Result<Loaded, EngineError> {
    let text = bytes_of(&config)?;
    let mut weights = Weights::default();
    let mut random = SplitMix(seed);
    for (name, shape) in config.tensor_shapes() {
        let size = shape.iter().product();
        let data = if name.contains("norm") {
            let one = if config.flags.unit_offset_norms {
                0.0
            } else {
                1.0
            };
            vec![one; size]
        } else if name.ends_with("bias") {
            vec![0.0; size]
        } else {
            let width = SPREAD * 12f32.sqrt();
            (0..size).map(|_| width * centred(&mut random)).collect()
        };
        weights.tensors.insert(name, Tensor { shape, data });
    }
    Ok(Loaded {
        config,
        weights,
        text,
    })
}

/// A random number from −1/2 to 1/2.
fn centred(random: &mut SplitMix) -> f32 {
    (random.next() >> 40) as f32 / (1u64 << 24) as f32 - 0.5
}
