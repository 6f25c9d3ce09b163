//! Importance weights that include padding. The authors' public code has them, since it sums over the padded batch without a mask.
//!
//! With `algorithm.sum_padding`, every completion is followed by end tokens up to the length of the longest completion of its phase. The weights of the value term
//! include them. The loss, the judged text and the logged numbers do not: they are those of the completion alone.

use engine::EngineError;
use serde::{Deserialize, Serialize};

use super::{SampledGroup, score};
use crate::policy::Policy;

/// End tokens appended to a completion.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Padding {
    /// The end token.
    pub token: u32,
    /// Its log-probability under the behaviour policy, at each position.
    pub logp: Vec<f32>,
}

/// The token that completions of a model are padded with.
///
/// # Errors
/// [`EngineError::Request`] if the model has no end token.
pub fn end_token(policy: &dyn Policy) -> Result<u32, EngineError> {
    policy.stop_tokens().first().copied().ok_or_else(|| {
        EngineError::Request(
            "the model has no end-of-text token to pad completions with; set `algorithm.sum_padding` to false"
                .into(),
        )
    })
}

/// Pads each completion to the length of the longest in `groups`. `policy`, which sampled them, scores the padding.
pub fn pad(
    policy: &dyn Policy,
    groups: &mut [SampledGroup],
    temperature: f32,
) -> Result<(), EngineError> {
    let samples = groups.iter().flat_map(|group| &group.samples);
    let longest = samples.map(|sample| sample.tokens.len()).max().unwrap_or(0);
    let token = end_token(policy)?;
    for sample in groups.iter_mut().flat_map(|group| &mut group.samples) {
        let places = longest - sample.tokens.len();
        sample.padding = (places > 0).then(|| Padding {
            token,
            logp: vec![0.0; places],
        });
    }
    score(policy, groups, temperature, |sample, logp| {
        if let Some(padding) = &mut sample.padding {
            padding.logp.copy_from_slice(&logp[sample.tokens.len()..]);
        }
    })
}
