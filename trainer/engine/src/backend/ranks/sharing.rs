//! How ranks divide the work of an update: slices of the mini-batch, and shards of the optimiser's buffers.

use std::ops::Range;
use std::sync::Arc;

use super::{ProcessGroup, alone};
use crate::backend::{Buf, SQUARES};
use crate::error::EngineError;

/// The ranks that train a model, and the number of slices of a mini-batch.
#[derive(Clone)]
pub struct Sharing {
    pub(crate) ranks: Arc<dyn ProcessGroup>,
    /// A power of two, and a multiple of the number of ranks.
    pub(crate) slices: usize,
}

/// How the content of buffers gets to other ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    /// The host reads, sends and writes it.
    Host,
    /// Devices exchange it.
    Devices {
        /// Room for a bucket of each rank.
        received: Buf,
    },
}

impl Default for Sharing {
    /// One rank, one slice.
    fn default() -> Self {
        Self {
            ranks: alone(),
            slices: 1,
        }
    }
}

impl std::fmt::Debug for Sharing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (rank, size) = (self.ranks.rank(), self.ranks.size());
        write!(f, "rank {rank} of {size}, {} slices", self.slices)
    }
}

impl Sharing {
    /// Divides mini-batches into `slices` slices, and these between the ranks.
    ///
    /// # Errors
    /// If `slices` is no power of two, or no multiple of the number of ranks.
    pub fn new(ranks: Arc<dyn ProcessGroup>, slices: usize) -> Result<Self, EngineError> {
        check_slices(slices, ranks.size())?;
        Ok(Self { ranks, slices })
    }

    /// A rank's slices.
    pub(crate) fn slices_of(&self, rank: usize) -> Range<usize> {
        let each = self.slices / self.ranks.size();
        rank * each..(rank + 1) * each
    }

    /// This rank's shard of a buffer of `len` elements.
    pub(crate) fn shard(&self, len: usize) -> Range<usize> {
        shards(len, self.ranks.size())[self.ranks.rank()].clone()
    }
}

/// Checks that some ranks can divide a mini-batch of this many slices between them.
///
/// # Errors
/// If `slices` is no power of two, or no multiple of the number of ranks.
pub fn check_slices(slices: usize, ranks: usize) -> Result<(), EngineError> {
    if slices.is_power_of_two() && slices.is_multiple_of(ranks) {
        return Ok(());
    }
    Err(EngineError::Request(format!(
        "{slices} slices of a mini-batch cannot be divided between {ranks} ranks; set `run.slices` to a power of two, at least the number of ranks, which is one too"
    )))
}

/// Number of pieces into which each prompt's completions are cut for sampling, so that ranks get equal parts. With at least as many prompts as ranks, nothing
/// is cut.
pub(crate) fn pieces(prompts: usize, ranks: usize) -> usize {
    match prompts {
        0 => 1,
        _ if prompts >= ranks => 1,
        // The least number for which the pieces of all prompts are a multiple of the ranks. The number of ranks is a power of two.
        _ => ranks >> prompts.trailing_zeros(),
    }
}

/// The largest share of sampling that a rank has: its number of prompts, and of completions per prompt.
pub fn sampling_share(prompts: usize, samples: usize, ranks: usize) -> (usize, usize) {
    let pieces = pieces(prompts, ranks).min(samples.max(1));
    ((prompts * pieces).div_ceil(ranks), samples.div_ceil(pieces))
}

/// Maximum number of elements of a shard that are exchanged at a time, and of those of all ranks: a library of MPI counts bytes with an `int`.
const BUCKET: usize = 1 << 20;
const BUCKETS: usize = 1 << 27;

/// Elements of each shard of gradient or weights that some ranks exchange at a time.
pub fn bucket_elements(ranks: usize) -> usize {
    BUCKET.min(BUCKETS / ranks)
}

/// Where ranks' pieces of these lengths lie in a list with room for a bucket of each.
pub(crate) fn places(lengths: impl Iterator<Item = usize>, bucket: usize) -> Vec<Range<usize>> {
    let place = |(rank, len): (usize, usize)| rank * bucket..rank * bucket + len;
    lengths.enumerate().map(place).collect()
}

/// Number of gradients that each of some ranks has in memory: one more for each level of its part of the binary tree of slices.
pub(crate) fn gradients(slices: usize, ranks: usize) -> usize {
    1 + (slices / ranks).ilog2() as usize
}

/// The elements of each rank's shard, of `len` in all.
pub(crate) fn shards(len: usize, ranks: usize) -> Vec<Range<usize>> {
    let parts = len.div_ceil(SQUARES);
    let start = |rank: usize| (rank * parts / ranks * SQUARES).min(len);
    (0..ranks).map(|r| start(r)..start(r + 1)).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::backend::ranks::local;

    #[test]
    fn ranks_divide_the_slices() {
        let of = |size: usize, slices| {
            let ranks = local(size, Duration::from_secs(1));
            Sharing::new(ranks.into_iter().last().expect("a rank"), slices)
        };
        let two = of(2, 8).expect("two ranks");
        assert_eq!((two.slices_of(1), gradients(8, 2)), (4..8, 3));
        for (size, slices) in [(2, 1), (4, 2), (1, 3), (2, 6)] {
            let error = of(size, slices).expect_err("numbers that do not fit");
            assert!(error.to_string().contains("run.slices"), "{error}");
        }
    }

    #[test]
    fn ranks_sample_equal_parts() {
        assert_eq!(sampling_share(64, 16, 1), (64, 16));
        assert_eq!(sampling_share(64, 16, 32), (2, 16));
        assert_eq!(sampling_share(64, 16, 128), (1, 8));
        assert_eq!(sampling_share(3, 16, 4), (3, 4));
        // Fewer completions than pieces.
        assert_eq!(sampling_share(3, 2, 4), (2, 1));
        assert_eq!(sampling_share(0, 8, 4), (0, 8));
    }

    #[test]
    fn shards_are_whole_terms_of_sums_of_squares() {
        for len in [0, 5, SQUARES, 3 * SQUARES + 7, 100 * SQUARES] {
            for ranks in [1, 2, 4, 8] {
                let shards = shards(len, ranks);
                assert_eq!((shards[0].start, shards[ranks - 1].end), (0, len));
                for pair in shards.windows(2) {
                    assert_eq!(pair[0].end, pair[1].start);
                    assert!(pair[0].end.is_multiple_of(SQUARES) || pair[0].end == len);
                }
                let longest = shards.iter().map(Range::len).max().unwrap_or(0);
                assert!(longest <= (len / ranks).next_multiple_of(SQUARES) + SQUARES);
            }
        }
    }
}
