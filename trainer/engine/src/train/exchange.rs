//! What the ranks of a run exchange in an update: log-probabilities, gradients, weights. Sums are computed here, in the order of ranks.
//!
//! Each rank owns a part of the trained weights (a shard) with its moments, as in ZeRO-1 (Rajbhandari et al. 2020): it gets this part of every rank's gradient, adds
//! them up, updates the part, and sends it to all. The bytes on the wire are those of a reduce-scatter and an all-gather.

use std::borrow::Cow;
use std::ops::Range;

use crate::api::Objective;
use crate::backend::Buf;
use crate::backend::group::{self, floats, shards};
use crate::batch::TokenStats;
use crate::error::EngineError;
use crate::model::Model;

/// Elements of a shard that are exchanged at a time.
const BUCKET: usize = 1 << 20;
/// The weights are compared in this many parts, one after each update.
const COMPARED_PARTS: usize = 16;

/// Completes the numbers of all completions: each rank has computed those of its range, if nothing failed.
pub(super) fn gather_stats(
    ranks: &dyn group::Group,
    stats: Result<Vec<TokenStats>, EngineError>,
    completions: &[Range<usize>],
) -> Result<Vec<TokenStats>, EngineError> {
    if ranks.size() == 1 {
        return stats;
    }
    let mut stats = match stats {
        Ok(stats) => stats,
        Err(error) => return Err(group::fail(ranks, error)),
    };
    let own = &stats[completions[ranks.rank()].clone()];
    let numbers = own.iter().flat_map(|s| s.logp.iter().chain(&s.entropy));
    let numbers: Vec<f32> = numbers.copied().collect();
    let gathered = group::agree(ranks, Ok(bytemuck::cast_slice(&numbers).to_vec()))?;
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
    ranks: &dyn group::Group,
    objective: Objective,
    stats: &[TokenStats],
) -> Result<Vec<Vec<f32>>, EngineError> {
    let own = if ranks.rank() == 0 {
        tracing::info_span!("objective")
            .in_scope(|| objective(stats))
            .map_err(EngineError::Numeric)
            .and_then(|dlogp| check_gradient(stats, &dlogp).map(|()| dlogp))
    } else {
        Ok(Vec::new())
    };
    if ranks.size() == 1 {
        return own;
    }
    let own = own.map_err(|error| group::fail(ranks, error))?.concat();
    let told = group::agree(ranks, Ok(bytemuck::cast_slice(&own).to_vec()))?;
    let flat = floats(&told[0]);
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

/// Rejects a gradient whose shape differs from the log-probabilities', or with numbers that are not finite.
pub(super) fn check_gradient(stats: &[TokenStats], dlogp: &[Vec<f32>]) -> Result<(), EngineError> {
    let lengths = |i: usize| (stats[i].logp.len(), dlogp[i].len());
    if stats.len() != dlogp.len() || (0..stats.len()).any(|i| lengths(i).0 != lengths(i).1) {
        return Err(EngineError::Numeric(
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

/// Replaces this rank's shard of its gradient by the sum over all ranks, in a binary tree.
pub(super) fn sum_gradients(model: &mut Model, gradient: Buf) -> Result<(), EngineError> {
    let ranks = model.sharing.ranks.clone();
    let (rank, size) = (ranks.rank(), ranks.size());
    if size == 1 {
        return Ok(());
    }
    let shards = shards(gradient.len(), size);
    for bucket in buckets(&shards) {
        let mut parts = Vec::with_capacity(size);
        for shard in &shards {
            parts.push(model.download(bucket.of(gradient, shard))?);
        }
        let parts: Vec<&[u8]> = parts.iter().map(|p| bytemuck::cast_slice(p)).collect();
        let received = ranks.all_to_all(&parts)?;
        let mut sums: Vec<Cow<'_, [f32]>> = received.iter().map(|b| floats(b)).collect();
        let own = bucket.of(gradient, &shards[rank]);
        if sums.iter().any(|sum| sum.len() != own.len()) {
            return Err(disagree());
        }
        let mut distance = 1;
        while distance < size {
            for left in (0..size).step_by(2 * distance) {
                let right = std::mem::take(&mut sums[left + distance]);
                for (a, b) in sums[left].to_mut().iter_mut().zip(right.iter()) {
                    *a += b;
                }
            }
            distance *= 2;
        }
        model.decoder.backend.upload(own, &sums[0]);
    }
    Ok(())
}

/// Σ x² of a buffer of which each rank has its shard.
pub(super) fn sum_squares(model: &mut Model, gradient: Buf) -> Result<f64, EngineError> {
    let ranks = model.sharing.ranks.clone();
    let own = model.sharing.shard(gradient.len());
    let own = gradient.at(own.start, own.len());
    let terms = model.decoder.backend.sum_squares(own)?;
    if ranks.size() == 1 {
        return Ok(terms.iter().sum());
    }
    let gathered = ranks.all_gather(bytemuck::cast_slice(&terms))?;
    let terms = gathered.iter().flat_map(|bytes| bytes.as_chunks().0);
    Ok(terms.map(|term| f64::from_ne_bytes(*term)).sum())
}

/// Copies every rank's shard of the weights to all ranks.
pub(super) fn gather_weights(model: &mut Model) -> Result<(), EngineError> {
    let ranks = model.sharing.ranks.clone();
    let (rank, size) = (ranks.rank(), ranks.size());
    if size == 1 {
        return Ok(());
    }
    let weights = model.trained();
    let shards = shards(weights.len(), size);
    for bucket in buckets(&shards) {
        let own = model.download(bucket.of(weights, &shards[rank]))?;
        let gathered = ranks.all_gather(bytemuck::cast_slice(&own))?;
        for (other, (bytes, shard)) in gathered.iter().zip(&shards).enumerate() {
            let part = bucket.of(weights, shard);
            let values = floats(bytes);
            if values.len() != part.len() {
                return Err(disagree());
            }
            if other != rank {
                model.decoder.backend.upload(part, &values);
            }
        }
    }
    Ok(())
}

/// Checks that all ranks have the same weights, by the digest of a part of them, another one after each update.
pub(super) fn compare_weights(model: &mut Model) -> Result<(), EngineError> {
    let ranks = model.sharing.ranks.clone();
    if ranks.size() == 1 {
        return Ok(());
    }
    let weights = model.trained();
    let part = model.updates as usize % COMPARED_PARTS;
    let [start, end] = [part, part + 1].map(|n| weights.len() * n / COMPARED_PARTS);
    let part = model.download(weights.at(start, end - start))?;
    let digest = blake3::hash(bytemuck::cast_slice(&part));
    let digests = ranks.all_gather(digest.as_bytes())?;
    match digests.iter().position(|other| *other != digests[0]) {
        None => Ok(()),
        Some(rank) => Err(EngineError::Group(format!(
            "after update {} of this process, the weights of rank {rank} are not those of rank 0, so memory or a network has failed; resume from the last checkpoint, on other machines if it happens again",
            model.updates + 1
        ))),
    }
}

/// The same piece of every shard.
#[derive(Clone, Copy)]
struct Bucket(usize);

impl Bucket {
    fn of(self, buf: Buf, shard: &Range<usize>) -> Buf {
        let start = (shard.start + self.0).min(shard.end);
        buf.at(start, BUCKET.min(shard.end - start))
    }
}

fn buckets(shards: &[Range<usize>]) -> impl Iterator<Item = Bucket> + use<> {
    let longest = shards.iter().map(Range::len).max().unwrap_or(0);
    (0..longest).step_by(BUCKET).map(Bucket)
}

fn disagree() -> EngineError {
    EngineError::Group(
        "the ranks disagree about an update: they must run the same version with the same settings, model and data".into(),
    )
}
