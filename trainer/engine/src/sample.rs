//! Temperature, cut-offs, seeds and log-probabilities of sampled tokens.
//!
//! [`draw`] is the reference for every backend's sampler. It is stateless: the random number for a sample's `index`-th token is a function of the sample's seed
//! and that index ([`uniform`]). A completion therefore does not depend on what is generated beside it, and a preempted sample continues as if it had not been
//! preempted.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The lowest temperature above 0. The inverse of a far lower one is not an f32. At this temperature hardly any token but the likeliest is sampled.
pub const MIN_TEMPERATURE: f32 = 1e-6;

/// How the next token is sampled.
///
/// Cut-offs apply after the temperature, in the order top-k, top-p, min-p. The log-probability returned with a token is that of the distribution under
/// `temperature` alone. With a cut-off, this is not the distribution sampled from, so training rejects cut-offs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sampling {
    /// 0 selects the likeliest token, the lowest id among equals; its log-probability is then the one at temperature 1. Otherwise at least [`MIN_TEMPERATURE`].
    pub temperature: f32,
    /// Keep only the `top_k` likeliest tokens; 0 keeps all.
    pub top_k: usize,
    /// Keep the fewest likeliest tokens with a total probability of at least `top_p`; 1 keeps all.
    pub top_p: f32,
    /// Keep only tokens at least `min_p` times as likely as the likeliest; 0 keeps all.
    pub min_p: f32,
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            temperature: 1.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
        }
    }
}

impl Sampling {
    /// A temperature, without cut-offs.
    pub fn at(temperature: f32) -> Self {
        Self {
            temperature,
            ..Self::default()
        }
    }

    /// Selects the likeliest token each time.
    pub fn greedy() -> Self {
        Self::at(0.0)
    }

    /// Whether a cut-off restricts the tokens that can be sampled.
    pub fn has_cutoff(&self) -> bool {
        self.top_k > 0 || self.top_p < 1.0 || self.min_p > 0.0
    }

    /// Rejects settings out of range; the error names the setting and its range.
    pub fn check(&self) -> Result<(), String> {
        let Self {
            temperature,
            top_p,
            min_p,
            ..
        } = *self;
        let greedy = temperature == 0.0;
        if !greedy && !divides(temperature) {
            return Err(format!(
                "the sampling temperature is {temperature}; give 0 or a number of at least {MIN_TEMPERATURE:e}"
            ));
        }
        if !(top_p > 0.0 && top_p <= 1.0) {
            return Err(format!(
                "top_p is {top_p}; give a number above 0 and at most 1"
            ));
        }
        if !(0.0..=1.0).contains(&min_p) {
            return Err(format!("min_p is {min_p}; give a number from 0 to 1"));
        }
        Ok(())
    }
}

/// Whether logits can be divided by this temperature.
pub(crate) fn divides(temperature: f32) -> bool {
    (MIN_TEMPERATURE..=f32::MAX).contains(&temperature)
}

/// How the token after a row of the batch is sampled. The same draw from the same logits gives the same token, whatever else is sampled in the batch.
#[derive(Debug, Clone, PartialEq)]
pub struct Draw {
    /// Temperature and cut-offs.
    pub sampling: Sampling,
    /// The sample's seed.
    pub seed: u64,
    /// Index of the token in its completion, from 0: the counter of the sample's random stream.
    pub index: u64,
    /// Tokens that cannot be sampled here, as if their logits were −∞; usually none. Ids outside of the vocabulary are ignored. They are left out before
    /// cut-offs apply. They still count in the log-probability of the sampled token, since that is the one under the temperature alone.
    pub suppressed: Arc<[u32]>,
}

impl Draw {
    /// A draw that may give any token.
    pub fn new(sampling: Sampling, seed: u64, index: u64) -> Self {
        Self {
            sampling,
            seed,
            index,
            suppressed: Arc::default(),
        }
    }
}

/// A sampled token.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampled {
    /// Token id.
    pub token: u32,
    /// Its log-probability under the temperature alone; at temperature 0, the one at temperature 1.
    pub logp: f32,
}

/// The logits contain a NaN, +∞, or only −∞, except for suppressed tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the model's logits are not finite; a learning rate that is too high is the usual cause")]
pub struct NotFinite;

/// Samples a token from one row of logits.
///
/// Tokens are visited in order of their ids (with a cut-off: by falling probability, then by id). The result is the first token at which the cumulative weight
/// exceeds `uniform · total`. Weights are f32 exponentials; sums are f64 in that same order.
pub fn draw(logits: &[f32], draw: &Draw) -> Result<Sampled, NotFinite> {
    let sampling = &draw.sampling;
    let greedy = sampling.temperature == 0.0;
    let temperature = if greedy { 1.0 } else { sampling.temperature };
    let all = Softmax::of(logits, temperature)?;
    let (allowed, softmax) = if draw.suppressed.is_empty() {
        (Cow::Borrowed(logits), all)
    } else {
        let mut allowed = logits.to_vec();
        suppress(&mut allowed, &draw.suppressed);
        let softmax = Softmax::of(&allowed, temperature)?;
        (Cow::Owned(allowed), softmax)
    };
    let weight = |logit| softmax.weight(logit);
    let picked = if greedy {
        None
    } else if sampling.has_cutoff() {
        let candidates = cut_off(&allowed, sampling, weight);
        let target = uniform(draw.seed, draw.index) * total_weight(&candidates);
        pick(candidates.into_iter(), target)
    } else {
        let weights = (0..).zip(allowed.iter().map(|&l| weight(l)));
        let target = uniform(draw.seed, draw.index) * softmax.total;
        pick(weights, target)
    };
    let token = picked.unwrap_or(softmax.best);
    let z = f64::from((logits[token as usize] - all.max) / temperature);
    Ok(Sampled {
        token,
        logp: (z - all.total.ln()) as f32,
    })
}

/// Sets the logits of suppressed tokens to −∞.
pub(crate) fn suppress(logits: &mut [f32], suppressed: &[u32]) {
    for token in suppressed {
        if let Some(logit) = logits.get_mut(*token as usize) {
            *logit = f32::NEG_INFINITY;
        }
    }
}

/// The softmax of a row of logits at a temperature.
#[derive(Debug, Clone, Copy)]
struct Softmax {
    temperature: f32,
    /// The likeliest token, the lowest id among equals, and its logit.
    best: u32,
    max: f32,
    /// Sum of the weights of all tokens.
    total: f64,
}

impl Softmax {
    fn of(logits: &[f32], temperature: f32) -> Result<Self, NotFinite> {
        let (best, max) = likeliest(logits)?;
        let mut softmax = Self {
            temperature,
            best,
            max,
            total: 0.0,
        };
        let weights = logits.iter().map(|&l| f64::from(softmax.weight(l)));
        softmax.total = weights.sum();
        Ok(softmax)
    }

    /// The probability of a logit's token, times [`Softmax::total`].
    fn weight(&self, logit: f32) -> f32 {
        ((logit - self.max) / self.temperature).exp()
    }
}

/// The largest logit, and the lowest id that has it.
fn likeliest(logits: &[f32]) -> Result<(u32, f32), NotFinite> {
    let (mut best, mut max) = (0, f32::NEG_INFINITY);
    for (id, &logit) in (0..).zip(logits) {
        if logit > max {
            (best, max) = (id, logit);
        } else if logit.is_nan() {
            return Err(NotFinite);
        }
    }
    if max.is_finite() {
        Ok((best, max))
    } else {
        Err(NotFinite)
    }
}

/// The first token at which the cumulative weight exceeds the target. If rounding leaves none, the last one with a positive weight.
fn pick(weights: impl Iterator<Item = (u32, f32)>, target: f64) -> Option<u32> {
    let mut cumulated = 0.0;
    let mut last = None;
    for (token, weight) in weights {
        cumulated += f64::from(weight);
        if weight > 0.0 {
            last = Some(token);
            if cumulated > target {
                break;
            }
        }
    }
    last
}

fn total_weight(candidates: &[(u32, f32)]) -> f64 {
    candidates.iter().map(|&(_, w)| f64::from(w)).sum()
}

/// Tokens that pass the cut-offs, with their weights, likeliest first; at least one.
fn cut_off(logits: &[f32], sampling: &Sampling, weight: impl Fn(f32) -> f32) -> Vec<(u32, f32)> {
    let mut candidates: Vec<(u32, f32)> = (0..).zip(logits.iter().copied()).collect();
    let falling = |a: &(u32, f32), b: &(u32, f32)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
    if (1..candidates.len()).contains(&sampling.top_k) {
        candidates.select_nth_unstable_by(sampling.top_k - 1, falling);
        candidates.truncate(sampling.top_k);
    }
    for (_, value) in &mut candidates {
        *value = weight(*value);
    }
    let total = total_weight(&candidates);
    // Sorting a whole vocabulary takes longer than a step, so tokens far too unlikely are dropped first. Together they weigh less than top-p leaves out.
    let min_weight = match sampling.top_p {
        p if p < 1.0 => (1.0 - f64::from(p)) * total / candidates.len() as f64,
        _ => 0.0,
    };
    // The likeliest token's weight is 1.
    candidates.retain(|&(_, w)| w >= sampling.min_p && f64::from(w) >= min_weight);
    candidates.sort_unstable_by(falling);
    if sampling.top_p < 1.0 {
        let target = f64::from(sampling.top_p) * total;
        let mut cumulated = 0.0;
        let reached = candidates.iter().position(|&(_, w)| {
            cumulated += f64::from(w);
            cumulated >= target
        });
        candidates.truncate(reached.map_or(candidates.len(), |last| last + 1));
    }
    candidates
}

/// A number strictly between 0 and 1, a function of its arguments alone. Its 53 bits are of Philox4x32-10 (Salmon et al. 2011), with the seed as key and the
/// index as counter.
pub fn uniform(seed: u64, index: u64) -> f64 {
    let [a, b, _, _] = philox([index as u32, (index >> 32) as u32, 0, 0], seed);
    let bits = (u64::from(a) << 32 | u64::from(b)) >> 11;
    (bits as f64 + 0.5) / (1u64 << 53) as f64
}

fn philox(mut counter: [u32; 4], seed: u64) -> [u32; 4] {
    let mut key = [seed as u32, (seed >> 32) as u32];
    for _ in 0..10 {
        let [a, b, c, d] = counter;
        let low = u64::from(a) * 0xD251_1F53;
        let high = u64::from(c) * 0xCD9E_8D57;
        counter = [
            (high >> 32) as u32 ^ b ^ key[0],
            high as u32,
            (low >> 32) as u32 ^ d ^ key[1],
            low as u32,
        ];
        key = [
            key[0].wrapping_add(0x9E37_79B9),
            key[1].wrapping_add(0xBB67_AE85),
        ];
    }
    counter
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sampled(
        suppressed: &[u32],
        logits: &[f32],
        sampling: Sampling,
        seed: u64,
        index: u64,
    ) -> Sampled {
        let request = Draw {
            suppressed: suppressed.into(),
            ..Draw::new(sampling, seed, index)
        };
        draw(logits, &request).unwrap()
    }

    #[test]
    fn random_numbers_match_the_philox_paper() {
        assert_eq!(
            philox([0; 4], 0),
            [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]
        );
        assert_eq!(
            philox([u32::MAX; 4], u64::MAX),
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
        );
    }

    /// Σ (observed − expected)² / expected over the tokens, and the number of draws outside `probabilities`' support.
    fn chi_square(
        suppressed: &[u32],
        logits: &[f32],
        probabilities: &[f64],
        sampling: Sampling,
    ) -> (f64, usize) {
        let draws = 200_000;
        let mut counts = vec![0usize; logits.len()];
        for i in 0..draws {
            let token = sampled(suppressed, logits, sampling, i % 100, i / 100).token;
            counts[token as usize] += 1;
        }
        let mut statistic = 0.0;
        let mut outside = 0;
        for (&count, &p) in counts.iter().zip(probabilities) {
            if p > 0.0 {
                let expected = p * draws as f64;
                statistic += (count as f64 - expected).powi(2) / expected;
            } else {
                outside += count;
            }
        }
        (statistic, outside)
    }

    fn softmax(logits: &[f32], temperature: f64) -> Vec<f64> {
        let weights: Vec<f64> = logits
            .iter()
            .map(|&l| (f64::from(l) / temperature).exp())
            .collect();
        let total: f64 = weights.iter().sum();
        weights.iter().map(|w| w / total).collect()
    }

    const LOGITS: [f32; 8] = [0.5, -1.0, 2.0, 1.9, 0.0, -3.0, 1.0, 0.5];

    #[test]
    fn frequencies_are_the_softmax_of_the_tokens_that_are_kept() {
        let base = Sampling::default();
        let both = Sampling {
            top_k: 3,
            top_p: 0.7,
            ..base
        };
        let every = &[0, 1, 2, 3, 4, 5, 6, 7][..];
        // Without 2, the likeliest token. Ids outside of the vocabulary do nothing.
        let suppressed = &[2, 5, 8, u32::MAX][..];
        for (suppressed, sampling, kept) in [
            (&[][..], Sampling::at(0.5), every),
            (&[], Sampling::at(0.9), every),
            (&[], base, every),
            (&[], Sampling::at(2.0), every),
            (&[], Sampling { top_k: 3, ..base }, &[2, 3, 6]),
            // Among equals (0 and 7) the lower id comes first.
            (&[], Sampling { top_k: 4, ..base }, &[2, 3, 6, 0]),
            (&[], Sampling { top_p: 0.6, ..base }, &[2, 3]),
            (&[], Sampling { top_p: 0.7, ..base }, &[2, 3, 6]),
            (&[], Sampling { min_p: 0.3, ..base }, &[2, 3, 6]),
            // top_p applies to the tokens that top_k kept: 2 and 3 are 0.84 of the four.
            (&[], both, &[2, 3]),
            (suppressed, base, &[0, 1, 3, 4, 6, 7]),
            (suppressed, Sampling { top_k: 2, ..base }, &[3, 6]),
            (suppressed, Sampling { top_p: 0.6, ..base }, &[3, 6]),
            (suppressed, Sampling { min_p: 0.3, ..base }, &[3, 6]),
            (suppressed, Sampling::greedy(), &[3]),
        ] {
            // At temperature 0, one token is left, whatever its probability.
            let temperature = match sampling.temperature {
                0.0 => 1.0,
                given => given,
            };
            let all = softmax(&LOGITS, f64::from(temperature));
            let total: f64 = kept.iter().map(|&i| all[i]).sum();
            let mut expected = vec![0.0; all.len()];
            for &i in kept {
                expected[i] = all[i] / total;
            }
            let (statistic, outside) = chi_square(suppressed, &LOGITS, &expected, sampling);
            assert_eq!(outside, 0, "{sampling:?}");
            // A random statistic exceeds this once in 1,000 times, with at most 3, 5 or 7 degrees of freedom.
            let limit = [16.3, 20.5, 24.3][kept.len().saturating_sub(3) / 2];
            assert!(statistic < limit, "{sampling:?}: {statistic}");
        }
    }

    #[test]
    fn the_log_probability_of_a_sampled_token_includes_suppressed_ones() {
        for temperature in [0.0, 0.7, 1.0] {
            let at = if temperature == 0.0 { 1.0 } else { temperature };
            let all = softmax(&LOGITS, f64::from(at));
            let got = sampled(&[2], &LOGITS, Sampling::at(temperature), 7, 3);
            let expected = all[got.token as usize].ln();
            assert!((f64::from(got.logp) - expected).abs() < 1e-6, "{got:?}");
        }
        // The others are sampled by their own proportions even where an f32 does not hold their probabilities.
        let logits = [300.0, 0.0, 3f32.ln()];
        let (statistic, outside) =
            chi_square(&[0], &logits, &[0.0, 0.25, 0.75], Sampling::default());
        assert!(outside == 0 && statistic < 10.8, "{statistic}");
        let got = sampled(&[0], &logits, Sampling::greedy(), 7, 3);
        assert_eq!((got.token, got.logp), (2, 3f32.ln() - 300.0));
    }

    #[test]
    fn temperature_0_selects_the_lowest_id_of_the_likeliest() {
        let got = sampled(&[], &[1.0, 3.0, 3.0, 2.0], Sampling::greedy(), 7, 0);
        assert_eq!(got.token, 1);
    }

    #[test]
    fn temperatures_that_logits_cannot_be_divided_by_are_rejected() {
        for good in [0.0, MIN_TEMPERATURE, 1e-3, 1.0, 1e9] {
            assert_eq!(Sampling::at(good).check(), Ok(()));
        }
        for bad in [9e-7, 1e-45, -1e-6, -1.0, f32::INFINITY, f32::NAN] {
            let error = Sampling::at(bad).check().unwrap_err();
            assert!(error.ends_with("at least 1e-6"), "{error}");
        }
    }

    #[test]
    fn logits_that_are_not_finite_are_rejected() {
        let mut request = Draw::new(Sampling::default(), 0, 0);
        for bad in [
            vec![0.0, f32::NAN],
            vec![f32::INFINITY, 0.0],
            vec![f32::NEG_INFINITY; 2],
            vec![],
        ] {
            assert_eq!(draw(&bad, &request), Err(NotFinite));
        }
        assert_eq!(draw(&[f32::NEG_INFINITY, 0.0], &request).unwrap().token, 1);
        request.suppressed = [0, 1].into();
        assert_eq!(draw(&[0.0; 2], &request), Err(NotFinite));
    }

    proptest! {
        #[test]
        fn the_log_probability_of_a_sampled_token_is_that_of_the_softmax(
            logits in prop::collection::vec(-30f32..30.0, 1..200),
            temperature in 0.05f32..3.0,
            seed: u64,
            index: u64,
        ) {
            let got = sampled(&[], &logits, Sampling::at(temperature), seed, index);
            let expected = softmax(&logits, temperature.into())[got.token as usize].ln();
            prop_assert!((f64::from(got.logp) - expected).abs() < 1e-4 * (1.0 + expected.abs()));
        }

        #[test]
        fn cut_offs_leave_at_least_one_token(
            logits in prop::collection::vec(-50f32..50.0, 1..100),
            temperature in 0.01f32..3.0,
            top_k in 0usize..120,
            top_p in 0.001f32..=1.0,
            min_p in 0f32..=1.0,
            seed: u64,
        ) {
            let sampling = Sampling { temperature, top_k, top_p, min_p };
            prop_assert!(sampling.check().is_ok());
            let token = sampled(&[], &logits, sampling, seed, 0).token as usize;
            let likelier = logits.iter().filter(|&&l| l > logits[token]).count();
            prop_assert!(top_k == 0 || likelier < top_k);
        }
    }
}
