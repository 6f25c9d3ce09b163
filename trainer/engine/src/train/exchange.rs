//! What the ranks of a run exchange in an update: log-probabilities, gradients, weights. Sums are computed here, in the order of ranks.
//!
//! Each rank owns a part of the trained weights (a shard) with its moments, as in ZeRO-1 (Rajbhandari et al. 2020). It gets this part of every rank's gradient,
//! adds them up, updates the part, and sends it to all. The bytes on the wire are those of a reduce-scatter and an all-gather.
//!
//! If a rank's device fails between two exchanges, the rank makes the remaining ones, since others wait for it. Then all ranks exchange a sum or a digest, and
//! the error is in its place.

use std::ops::Range;

use crate::api::Objective;
use crate::backend::ranks::{
    self, ProcessGroup, Route, bucket_elements, disagree, floats, places, shards,
};
use crate::backend::{Buf, Purpose};
use crate::batch::TokenStats;
use crate::error::EngineError;
use crate::model::Model;

/// The weights are compared in this many parts, one after each update.
const COMPARED_PARTS: usize = 16;

/// Gathers the numbers of all completions; each rank has computed those of its range.
pub(super) fn gather_stats(
    ranks: &dyn ProcessGroup,
    mut stats: Vec<TokenStats>,
    completions: &[Range<usize>],
) -> Result<Vec<TokenStats>, EngineError> {
    if ranks.size() == 1 {
        return Ok(stats);
    }
    let own = &stats[completions[ranks.rank()].clone()];
    let numbers = own.iter().flat_map(|s| s.logp.iter().chain(&s.entropy));
    let numbers: Vec<f32> = numbers.copied().collect();
    let gathered = ranks::agree(ranks, Ok(bytemuck::cast_slice(&numbers).to_vec()))?;
    for (bytes, range) in gathered.iter().zip(completions) {
        let numbers = floats(bytes);
        let mut numbers = numbers.iter().copied();
        for stats in &mut stats[range.clone()] {
            for x in stats.logp.iter_mut().chain(&mut stats.entropy) {
                *x = numbers.next().ok_or_else(disagree)?;
            }
        }
        if numbers.next().is_some() {
            return Err(disagree());
        }
    }
    Ok(stats)
}

/// `dL/dlogp`, which rank 0 computes for all.
pub(super) fn objective(
    ranks: &dyn ProcessGroup,
    objective: Objective,
    stats: &[TokenStats],
) -> Result<Vec<Vec<f32>>, EngineError> {
    let own = if ranks.rank() == 0 {
        tracing::info_span!("objective")
            .in_scope(|| objective(stats))
            .map_err(EngineError::Objective)
            .and_then(|dlogp| check_gradient(stats, &dlogp).map(|()| dlogp))
    } else {
        Ok(Vec::new())
    };
    if ranks.size() == 1 {
        return own;
    }
    let own = own.map_err(|error| ranks::fail(ranks, error))?.concat();
    let gathered = ranks::agree(ranks, Ok(bytemuck::cast_slice(&own).to_vec()))?;
    let flat = floats(&gathered[0]);
    let mut rest = flat.as_ref();
    let mut dlogp = Vec::with_capacity(stats.len());
    for stats in stats {
        let (own, after) = rest
            .split_at_checked(stats.logp.len())
            .ok_or_else(disagree)?;
        dlogp.push(own.to_vec());
        rest = after;
    }
    Ok(dlogp)
}

/// Rejects a gradient of another shape than the log-probabilities, and numbers that are not finite.
pub(super) fn check_gradient(stats: &[TokenStats], dlogp: &[Vec<f32>]) -> Result<(), EngineError> {
    let lengths = |i: usize| (stats[i].logp.len(), dlogp[i].len());
    if stats.len() != dlogp.len() || (0..stats.len()).any(|i| lengths(i).0 != lengths(i).1) {
        return Err(EngineError::Objective(
            "the objective's gradient does not have the shape of the log-probabilities; the objective must return one number for each token".into(),
        ));
    }
    match dlogp.iter().position(|g| g.iter().any(|x| !x.is_finite())) {
        Some(number) => Err(EngineError::Numeric(format!(
            "the objective's gradient of completion {number} is not finite, so the weights were not changed; an importance weight has probably overflowed"
        ))),
        None => Ok(()),
    }
}

/// The route of this model's gradients and weights; the first call connects the devices, so all ranks make it.
fn route(model: &mut Model) -> Result<Route, EngineError> {
    if let Some(route) = model.route {
        return Ok(route);
    }
    let ranks = model.sharing.ranks.clone();
    let backend = &mut model.decoder.backend;
    let route = if backend.connect(&ranks)? {
        let room = backend.allocate(
            Purpose::Optimiser,
            ranks.size() * bucket_elements(ranks.size()),
        );
        let (received, allocated) = match room {
            Ok(received) => (Some(received), Ok(Vec::new())),
            Err(error) => (None, Err(error)),
        };
        ranks::agree(ranks.as_ref(), allocated)?;
        received.map_or(Route::Host, |received| Route::Devices { received })
    } else {
        Route::Host
    };
    model.route = Some(route);
    Ok(route)
}

/// Replaces this rank's shard of its gradient by the sum over all ranks, in a binary tree. Returns Σ x² of the whole sum.
pub(super) fn sum_gradients(model: &mut Model, gradient: Buf) -> Result<f64, EngineError> {
    let ranks = model.sharing.ranks.clone();
    let (rank, size) = (ranks.rank(), ranks.size());
    if size == 1 {
        return sum_squares(model, gradient, Ok(()));
    }
    let shards = shards(gradient.len(), size);
    let bucket = bucket_elements(size);
    let route = route(model)?;
    let [mut sent, mut received] = [(); 2].map(|()| vec![0.0; on_host(route, size * bucket)]);
    let mut read = Ok(());
    for at in starts(&shards, bucket) {
        let backend = &mut model.decoder.backend;
        let parts = parts(gradient, &shards, at, bucket);
        let own = parts[rank];
        if let Route::Devices { received } = route {
            let sums = (0..size).map(|r| received.at(r * bucket, own.len()));
            let sums: Vec<Buf> = sums.collect();
            backend.exchange(&parts, &sums);
            for (left, right) in tree(size) {
                backend.add_bias(sums[left], sums[right], 1);
            }
            backend.copy(own, sums[0]);
            continue;
        }
        let pieces = places(parts.iter().map(|part| part.len()), bucket);
        for (part, piece) in parts.iter().zip(&pieces) {
            read = read.and_then(|()| backend.download(*part, &mut sent[piece.clone()]));
        }
        let sums = places(std::iter::repeat_n(own.len(), size), bucket);
        [sent, received] = ranks.exchange(sent, &pieces, received, &sums)?;
        for (left, right) in tree(size) {
            let (before, after) = received.split_at_mut(right * bucket);
            let sum = &mut before[left * bucket..][..own.len()];
            for (a, b) in sum.iter_mut().zip(&after[..own.len()]) {
                *a += b;
            }
        }
        backend.upload(own, &received[..own.len()]);
    }
    sum_squares(model, gradient, read)
}

/// The additions of a binary tree over a power of two of terms: the second is added to the first, and the sum is in number 0.
fn tree(size: usize) -> impl Iterator<Item = (usize, usize)> {
    let distances = std::iter::successors(Some(1), |distance| Some(2 * distance));
    let distances = distances.take_while(move |distance| *distance < size);
    distances.flat_map(move |distance| {
        let lefts = (0..size).step_by(2 * distance);
        lefts.map(move |left| (left, left + distance))
    })
}

/// Σ x² of a buffer, from each rank's shard. `summed` is how this rank's work ended; all ranks get an error of one.
fn sum_squares(
    model: &mut Model,
    gradient: Buf,
    summed: Result<(), EngineError>,
) -> Result<f64, EngineError> {
    let ranks = model.sharing.ranks.clone();
    let own = model.sharing.shard(gradient.len());
    let own = gradient.at(own.start, own.len());
    let terms = summed.and_then(|()| model.decoder.backend.sum_squares(own));
    let terms = terms.map(|terms| bytemuck::cast_slice::<f64, u8>(&terms).to_vec());
    let gathered = ranks::agree(ranks.as_ref(), terms)?;
    let terms = gathered.iter().flat_map(|bytes| bytes.as_chunks().0);
    Ok(terms.map(|term| f64::from_ne_bytes(*term)).sum())
}

/// Copies every rank's shard of the weights to all ranks, and checks that all ranks then have the same weights. Waits for an asynchronous device, so that a
/// failure of the update is reported here.
pub(super) fn gather_weights(model: &mut Model) -> Result<(), EngineError> {
    let ranks = model.sharing.ranks.clone();
    let (rank, size) = (ranks.rank(), ranks.size());
    if size == 1 {
        return model.decoder.backend.synchronise();
    }
    let weights = model.trained();
    let shards = shards(weights.len(), size);
    let bucket = bucket_elements(size);
    let route = route(model)?;
    let [mut sent, mut received] = [1, size].map(|n| vec![0.0; on_host(route, n * bucket)]);
    let mut read = Ok(());
    for at in starts(&shards, bucket) {
        let backend = &mut model.decoder.backend;
        let mut parts = parts(weights, &shards, at, bucket);
        // Nothing to or from itself.
        let nothing = weights.at(0, 0);
        let own = std::mem::replace(&mut parts[rank], nothing);
        if let Route::Devices { .. } = route {
            let mut sent = vec![own; size];
            sent[rank] = nothing;
            backend.exchange(&sent, &parts);
            continue;
        }
        let mut pieces = vec![0..own.len(); size];
        pieces[rank] = 0..0;
        let places = places(parts.iter().map(|part| part.len()), bucket);
        read = read.and_then(|()| backend.download(own, &mut sent[..own.len()]));
        [sent, received] = ranks.exchange(sent, &pieces, received, &places)?;
        for (part, place) in parts.into_iter().zip(places) {
            backend.upload(part, &received[place]);
        }
    }
    compare_weights(model, read)
}

/// Number of elements of the host's memory that exchanges need: none if devices exchange.
fn on_host(route: Route, elements: usize) -> usize {
    match route {
        Route::Host => elements,
        Route::Devices { .. } => 0,
    }
}

/// Checks that all ranks have the same weights, by the digest of a part of them: the next part after each update. `gathered` is how this rank's work ended.
fn compare_weights(
    model: &mut Model,
    gathered: Result<(), EngineError>,
) -> Result<(), EngineError> {
    let ranks = model.sharing.ranks.clone();
    let weights = model.trained();
    let part = model.updates as usize % COMPARED_PARTS;
    let [start, end] = [part, part + 1].map(|n| weights.len() * n / COMPARED_PARTS);
    let part = gathered.and_then(|()| model.download(weights.at(start, end - start)));
    let digest = part.map(|part| blake3::hash(bytemuck::cast_slice(&part)));
    let digest = digest.map(|digest| digest.as_bytes().to_vec());
    let digests = ranks::agree(ranks.as_ref(), digest)?;
    match digests.iter().position(|other| *other != digests[0]) {
        None => Ok(()),
        Some(rank) => Err(EngineError::Ranks(format!(
            "after update {} of this process, the weights of rank {rank} are not those of rank 0, so memory or a network has failed; resume from the last checkpoint, on other machines if it happens again",
            model.updates + 1
        ))),
    }
}

/// Where the pieces of shards that are exchanged at a time begin.
fn starts(shards: &[Range<usize>], bucket: usize) -> impl Iterator<Item = usize> + use<> {
    let longest = shards.iter().map(Range::len).max().unwrap_or(0);
    (0..longest).step_by(bucket)
}

/// The pieces of shards that begin `at` elements after the shards' starts.
fn parts(buf: Buf, shards: &[Range<usize>], at: usize, bucket: usize) -> Vec<Buf> {
    let piece = |shard: &Range<usize>| {
        let start = (shard.start + at).min(shard.end);
        buf.at(start, bucket.min(shard.end - start))
    };
    shards.iter().map(piece).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::api::AdamW;
    use crate::backend::Dtype;
    use crate::backend::cuda::{self, emulated::Emulated};
    use crate::backend::ranks::{Sharing, on_each};
    use crate::batch::Group;
    use crate::config::ModelConfig;
    use crate::load::{Loaded, random};
    use crate::train::step;

    /// A model with weights for several shards.
    const CONFIG: &str = r#"{"model_type": "llama", "vocab_size": 258, "hidden_size": 128, "intermediate_size": 96, "num_hidden_layers": 1,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
        "tie_word_embeddings": false, "eos_token_id": 256}"#;

    /// One rank's part of an update; returns the gradient's norm. The device of rank 1 fails after some reads.
    fn updated(
        ranks: &Arc<dyn ProcessGroup>,
        route: Option<Route>,
        reads: usize,
    ) -> Result<f64, EngineError> {
        let (device, counters) = Emulated::open();
        let config = ModelConfig::from_json(CONFIG).unwrap();
        let Loaded {
            config, weights, ..
        } = random::random(config, 7).unwrap();
        let backend = cuda::open_on(device, Dtype::F32);
        let mut model = Model::new(config, weights, backend).unwrap();
        let sharing = Sharing::new(ranks.clone(), ranks.size()).unwrap();
        model.share(sharing).unwrap();
        model.route = route;
        let groups = [Group {
            prompt: vec![1, 2].into(),
            completions: vec![vec![3, 4, 5], vec![6, 7]],
        }];
        let objective: Objective = Box::new(|stats: &[TokenStats]| {
            let ones = stats.iter().map(|stats| vec![1.0; stats.logp.len()]);
            Ok(ones.collect())
        });
        counters.lock().unwrap().failing = (ranks.rank() == 1).then_some(("read", reads));
        let updated = step(&mut model, &groups, 1.0, objective, &AdamW::new(1e-3));
        // After an error the ranks can go on together, and the model is inconsistent on all of them or on none.
        let (rank, inconsistent) = (ranks.rank() as u8, u8::from(model.inconsistent));
        let gathered = ranks.all_gather(&[rank, inconsistent]).unwrap();
        assert_eq!(gathered, [[0, inconsistent], [1, inconsistent]]);
        assert!(updated.is_err() || !model.inconsistent);
        updated.map(|report| report.grad_norm)
    }

    #[test]
    fn a_device_that_fails_anywhere_in_an_update_is_an_error_of_all_ranks() {
        for route in [Some(Route::Host), None] {
            let mut reads = 0;
            loop {
                let results = on_each(2, Duration::from_secs(60), |ranks| {
                    updated(&ranks, route, reads)
                });
                if let [Ok(one), Ok(other)] = results.as_slice() {
                    assert_eq!(one.to_bits(), other.to_bits());
                    break;
                }
                for result in results {
                    let error = result.unwrap_err().to_string();
                    let name = format!("read number {} fails", reads + 1);
                    assert!(error.contains(&name), "{route:?}, {reads} reads: {error}");
                }
                reads += 1;
            }
            // Statistics, both waits for the device, the exchanges, their sum and their digest.
            assert!(reads > 5, "{route:?}: {reads} reads");
        }
    }
}
