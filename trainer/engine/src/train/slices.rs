//! Slices of a mini-batch: what ranks divide between them.
//!
//! A mini-batch is cut into slices of about equal numbers of tokens, and each slice is packed by itself. The gradient of a slice is the sum over its packs from the
//! first to the last, and that of the mini-batch is the sum over its slices in a binary tree: (0 + 1) + (2 + 3). A rank computes a part of the tree, so any number of
//! ranks that divides the number of slices computes the same sums.

use std::ops::Range;

use super::pack::{Pack, pack};
use crate::backend::group::Sharing;
use crate::batch::Group;

/// The packs of a mini-batch that this rank computes.
pub(super) struct Packing {
    /// The packs, slice by slice.
    pub(super) packs: Vec<Pack>,
    /// This rank's slices, as ranges of its packs.
    pub(super) slices: Vec<Range<usize>>,
    /// Each rank's completions.
    pub(super) completions: Vec<Range<usize>>,
    /// Tokens of the packs of all ranks.
    pub(super) tokens: usize,
}

impl Packing {
    /// Packs the completions that `wanted` names by their numbers (groups in order, completions in order), in packs of at most `pack_tokens` tokens.
    pub(super) fn new(
        groups: &[Group],
        pack_tokens: usize,
        sharing: &Sharing,
        wanted: impl Fn(usize) -> bool,
    ) -> Self {
        let cuts = cuts(groups, sharing.slices, &wanted);
        let of_rank = |rank| {
            let slices = sharing.slices_of(rank);
            cuts[slices.start]..cuts[slices.end]
        };
        let mut packing = Self {
            packs: Vec::new(),
            slices: Vec::new(),
            completions: (0..sharing.ranks.size()).map(of_rank).collect(),
            tokens: 0,
        };
        let own = sharing.slices_of(sharing.ranks.rank());
        for slice in 0..sharing.slices {
            let completions = cuts[slice]..cuts[slice + 1];
            let packs = pack(groups, pack_tokens, |number| {
                completions.contains(&number) && wanted(number)
            });
            packing.tokens += packs.iter().map(|p| p.batch.tokens.len()).sum::<usize>();
            if own.contains(&slice) {
                let first = packing.packs.len();
                packing.packs.extend(packs);
                packing.slices.push(first..packing.packs.len());
            }
        }
        packing
    }
}

/// The completions at which slices begin, and the end. Groups remain whole if there are at least as many as slices.
fn cuts(groups: &[Group], slices: usize, wanted: impl Fn(usize) -> bool) -> Vec<usize> {
    // After each group, or each completion: the next completion's number, and the tokens so far.
    let mut ends = Vec::new();
    let whole = groups.len() >= slices;
    let (mut number, mut tokens) = (0, 0);
    for group in groups {
        let mut prompt = group.prompt.len();
        for completion in &group.completions {
            if wanted(number) {
                tokens += completion.len() + std::mem::take(&mut prompt);
            }
            number += 1;
            if !whole {
                ends.push((number, tokens));
            }
        }
        if whole {
            ends.push((number, tokens));
        }
    }
    let mut cuts = vec![0; slices + 1];
    cuts[slices] = number;
    let candidates = || std::iter::once((0, 0)).chain(ends.iter().copied());
    for (slice, cut) in cuts.iter_mut().enumerate().take(slices).skip(1) {
        let distance = |(_, before): &(usize, usize)| (before * slices).abs_diff(tokens * slice);
        *cut = candidates().min_by_key(distance).map_or(0, |(at, _)| at);
    }
    cuts
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::backend::group::Alone;

    fn groups(lengths: &[Vec<usize>]) -> Vec<Group> {
        let group = |lengths: &Vec<usize>| Group {
            prompt: vec![1; 5].into(),
            completions: lengths.iter().map(|n| vec![2; *n]).collect(),
        };
        lengths.iter().map(group).collect()
    }

    #[test]
    fn slices_have_about_the_same_number_of_tokens() {
        let even = vec![vec![10; 4]; 8];
        assert_eq!(cuts(&groups(&even), 4, |_| true), [0, 8, 16, 24, 32]);
        // The first group has most of the tokens.
        let uneven = [vec![100], vec![5], vec![5], vec![5]];
        assert_eq!(cuts(&groups(&uneven), 4, |_| true), [0, 0, 1, 1, 4]);
        // Fewer groups than slices.
        assert_eq!(cuts(&groups(&[vec![10; 4]]), 4, |_| true), [0, 1, 2, 3, 4]);
        assert_eq!(cuts(&groups(&even), 4, |n| n < 4), [0, 0, 0, 4, 32]);
    }

    proptest! {
        #[test]
        fn every_completion_is_in_one_slice(
            lengths in proptest::collection::vec(proptest::collection::vec(1usize..30, 1..6), 1..10),
            log_slices in 0u32..4,
            unwanted in 0usize..7,
        ) {
            let groups = groups(&lengths);
            let slices = 1 << log_slices;
            let wanted = |n: usize| unwanted == 0 || !n.is_multiple_of(unwanted + 1);
            let cuts = cuts(&groups, slices, wanted);
            let count: usize = lengths.iter().map(Vec::len).sum();
            prop_assert!(cuts.is_sorted());
            prop_assert_eq!((cuts[0], cuts[slices]), (0, count));
            let sharing = Sharing::new(Arc::new(Alone), slices).expect("slices");
            let packing = Packing::new(&groups, 40, &sharing, wanted);
            let mut seen: Vec<(usize, usize)> = packing.packs.iter().flat_map(|p| p.slots.clone()).collect();
            seen.sort_unstable();
            let all = groups.iter().flat_map(|g| &g.completions).enumerate();
            let expected: Vec<(usize, usize)> = all
                .filter(|(n, _)| wanted(*n))
                .flat_map(|(n, completion)| (0..completion.len()).map(move |t| (n, t)))
                .collect();
            prop_assert_eq!(seen, expected);
        }
    }
}
