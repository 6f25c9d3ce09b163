//! What must hold on a device whatever its rounding: recorded passes compute what others do, equal steps have equal bits, and a change of phase leaves no memory
//! behind.

use super::models::{random_weights, small};
use super::{ADAMW, Extent, Open, numbers};
use crate::backend::Dtype;
use crate::batch::{Batch, Group};
use crate::config::{Family, ModelConfig, published};
use crate::error::EngineError;
use crate::model::{Model, TensorKind};
use crate::sample::{Draw, Sampled, Sampling};
use crate::train;

/// Rows of the KV cache for each sequence, after the prompt's.
const OWN: usize = 16;
/// Decoding steps. The device may record the second, and replay it from the third on.
const STEPS: usize = 8;
/// Growth of the used memory, in bytes, that other programs on the device explain.
const FLAT: u64 = 16 << 20;

/// Whether something that must hold on a device holds, and what was found.
pub type Claim = Result<String, String>;

/// A model of the true widths of Qwen2.5-0.5B with four layers, or a small one.
fn config(extent: Extent) -> ModelConfig {
    match extent {
        Extent::Full => ModelConfig {
            num_hidden_layers: 4,
            ..published("qwen2.5-0.5b").expect("a published model")
        },
        Extent::Reduced => small(Family::Qwen2),
    }
}

fn open_model(open: Open<'_>, dtype: Dtype, config: &ModelConfig) -> Result<Model, EngineError> {
    let weights = random_weights(config);
    Model::new(config.clone(), weights, open(dtype)?)
}

fn tokens(vocabulary: usize, count: usize) -> Vec<u32> {
    (0..count)
        .map(|i| ((i * 7919 + 11) % vocabulary) as u32)
        .collect()
}

/// Decodes `sequences` samples of a prompt, step by step.
fn decode(
    model: &mut Model,
    prompt_tokens: usize,
    sequences: usize,
) -> Result<Vec<Sampled>, EngineError> {
    let vocabulary = model.config().vocab_size;
    model.reserve_kv(prompt_tokens + OWN * sequences)?;
    let prompt = Batch::text(&tokens(vocabulary, prompt_tokens));
    model.infer(&prompt, &[], &[])?;
    let mut last = tokens(vocabulary, sequences);
    let mut all = Vec::new();
    for step in 0..STEPS {
        let own = |i: usize| prompt_tokens + OWN * i;
        let mut batch = Batch::default();
        for (i, token) in last.into_iter().enumerate() {
            batch.add(&[token], vec![(0, prompt_tokens), (own(i), step + 1)]);
        }
        let draws: Vec<Draw> = (0..sequences as u64)
            .map(|seed| Draw::new(Sampling::default(), seed, step as u64))
            .collect();
        let rows: Vec<usize> = (0..sequences).collect();
        let sampled = model.infer(&batch, &rows, &draws)?;
        last = sampled.iter().map(|sampled| sampled.token).collect();
        all.extend(sampled);
    }
    Ok(all)
}

/// An update on a group of completions of `length` tokens; returns their log-probabilities.
fn update(model: &mut Model, length: usize) -> Result<Vec<f32>, EngineError> {
    model.release_kv();
    let vocabulary = model.config().vocab_size;
    let text = tokens(vocabulary, 20 + 2 * length);
    let (prompt, rest) = text.split_at(20);
    let completions: Vec<Vec<u32>> = rest.chunks(length).map(<[u32]>::to_vec).collect();
    let dlogp = (1..).zip(&completions);
    let dlogp: Vec<Vec<f32>> = dlogp.map(|(seed, c)| numbers(c.len(), seed)).collect();
    let group = Group {
        prompt: prompt.into(),
        completions,
    };
    let objective = Box::new(move |_: &[_]| Ok(dlogp));
    let report = train::step(model, &[group], 0.9, objective, &ADAMW)?;
    model.release_training();
    let stats = report.stats.into_iter();
    Ok(stats.flat_map(|stats| stats.logp).collect())
}

fn same(a: &[Sampled], b: &[Sampled]) -> bool {
    let bits = |sampled: &Sampled| (sampled.token, sampled.logp.to_bits());
    a.iter().map(bits).eq(b.iter().map(bits))
}

/// Decoding samples the same bits with recorded passes and without, also after an update has changed the weights that a recording reads.
///
/// # Errors
/// If the device fails.
pub fn recordings(open: Open<'_>, dtype: Dtype, extent: Extent) -> Result<Claim, EngineError> {
    let (prompt, sequences) = match extent {
        Extent::Full => (300, 70),
        Extent::Reduced => (40, 5),
    };
    let mut model = open_model(open, dtype, &config(extent))?;
    let both = |model: &mut Model| {
        let before = model.decoder.backend.replays();
        let recorded = decode(model, prompt, sequences)?;
        let replays = model.decoder.backend.replays() - before;
        model.decoder.backend.set_recording(false);
        let plain = decode(model, prompt, sequences)?;
        model.decoder.backend.set_recording(true);
        Ok::<_, EngineError>((recorded, plain, replays))
    };
    let (recorded, plain, replays) = both(&mut model)?;
    update(&mut model, 2 * prompt)?;
    let (later, later_plain, later_replays) = both(&mut model)?;
    let found = if replays == 0 || later_replays == 0 {
        "no decoding pass was recorded and replayed"
    } else if !same(&recorded, &plain) {
        "replayed passes sample other bits than the same passes call by call"
    } else if !same(&later, &later_plain) {
        "after an update, replayed passes sample other bits than the same passes call by call"
    } else if same(&recorded, &later) {
        "the update did not change what is sampled, so nothing was shown about stale recordings"
    } else {
        return Ok(Ok(format!(
            "{} replayed passes of {sequences} sequences sample the bits of the same passes call by call, before and after an update",
            replays + later_replays
        )));
    };
    Ok(Err(found.to_owned()))
}

/// The same update of the same model has the same bits twice: log-probabilities, gradient, weights and moments.
///
/// # Errors
/// If the device fails.
pub fn repeated_step(open: Open<'_>, dtype: Dtype, extent: Extent) -> Result<Claim, EngineError> {
    let length = match extent {
        Extent::Full => 1500,
        Extent::Reduced => 40,
    };
    let config = config(extent);
    let digests = || {
        let mut model = open_model(open, dtype, &config)?;
        let logp = update(&mut model, length)?;
        let logp = blake3::hash(bytemuck::cast_slice(&logp));
        let mut digests = vec![("log-probabilities", logp)];
        for (what, kind) in [
            ("gradient", TensorKind::Gradient),
            ("weights", TensorKind::Weight),
            ("first moment", TensorKind::Moment1),
            ("second moment", TensorKind::Moment2),
        ] {
            let mut hasher = blake3::Hasher::new();
            for (name, _) in model.trained_shapes() {
                hasher.update(bytemuck::cast_slice(&model.tensor(&name, kind)?));
            }
            digests.push((what, hasher.finalize()));
        }
        Ok::<_, EngineError>(digests)
    };
    let (first, second) = (digests()?, digests()?);
    let pairs = first.iter().zip(&second).filter(|(a, b)| a != b);
    let different: Vec<&str> = pairs.map(|(a, _)| a.0).collect();
    Ok(if different.is_empty() {
        Ok(format!(
            "an update on 2 completions of {length} tokens has the same bits twice: log-probabilities, gradient, weights, moments"
        ))
    } else {
        Err(format!(
            "the same update has other bits the second time: {}",
            different.join(", ")
        ))
    })
}

/// Changing between generation and training, with batches of several sizes, takes no more memory after many phases than after a few.
///
/// # Errors
/// If the device fails, or does not report its free memory.
pub fn phases(open: Open<'_>, dtype: Dtype, extent: Extent) -> Result<Claim, EngineError> {
    // Sizes repeat every `sizes` phases.
    let (count, first, sizes) = match extent {
        Extent::Full => (1000, 50, 5),
        Extent::Reduced => (6, 2, 2),
    };
    let mut model = open_model(open, dtype, &small(Family::Llama))?;
    let (mut before, mut least) = (0, u64::MAX);
    for phase in 1..=count {
        let size = phase % sizes;
        decode(&mut model, 20 + 13 * size, 3 + 4 * size)?;
        update(&mut model, 10 + 17 * size)?;
        let free = model.decoder.backend.free_memory();
        let free = free.ok_or_else(|| {
            EngineError::Device("the device does not report how much of its memory is free".into())
        })?;
        if phase == first {
            before = free;
        }
        if phase >= first {
            least = least.min(free);
        }
    }
    let growth = before.saturating_sub(least);
    let found = format!(
        "{count} phases of sampling and training; after the first {first}, the used memory grew by {:.1} MB at most",
        growth as f64 / 1e6
    );
    Ok(if growth <= FLAT {
        Ok(found)
    } else {
        Err(found)
    })
}
