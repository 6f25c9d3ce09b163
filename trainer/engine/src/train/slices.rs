//! Slices of a mini-batch: what ranks divide between them.
//!
//! A mini-batch is cut into slices of about equal numbers of tokens, and each slice is packed by itself. A common beginning of its completions counts once,
//! since its packs compute it once. A slice is a range of completions in their own order, since ranks exchange them in that order. The completions of a group,
//! which share most, are neighbours in it.
//!
//! The gradient of a slice is the sum over its packs from the first to the last. The gradient of the mini-batch is the sum over its slices in a binary tree,
//! `(0 + 1) + (2 + 3)`. A rank computes a part of the tree, so any number of ranks that divides the number of slices computes the same sums.

use std::ops::Range;

use super::pack::{Branch, Pack, Sequence, branches, pack, sequences};
use crate::backend::ranks::Sharing;
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
        let sequences = sequences(groups, wanted);
        let completions: Vec<usize> = groups.iter().map(|g| g.completions.len()).collect();
        let borders = borders(&completions, sharing.slices);
        let cuts = cuts(&branches(&sequences), &borders, sharing.slices);
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
            let packs = pack(
                &within(&sequences, cuts[slice]..cuts[slice + 1]),
                pack_tokens,
            );
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

/// The sequences of some completions.
fn within<'a>(sequences: &[Sequence<'a>], completions: Range<usize>) -> Vec<Sequence<'a>> {
    let sequences = sequences.iter().copied();
    sequences
        .filter(|sequence| completions.contains(&sequence.number))
        .collect()
}

/// The numbers of completions at which a slice may begin or end, for groups with these numbers of completions. Groups remain whole if there are at least as many as slices.
pub(crate) fn borders(groups: &[usize], slices: usize) -> Vec<usize> {
    let whole = groups.len() >= slices;
    let (mut borders, mut end) = (vec![0], 0);
    for completions in groups {
        let completions = end + 1..=end + completions;
        end = *completions.end();
        match whole {
            true => borders.push(end),
            false => borders.extend(completions),
        }
    }
    borders
}

/// A way to divide the first completions between some slices. The lesser of two is better: the fields are compared in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Division {
    /// Tokens of the largest slice.
    largest: u64,
    /// Sum of the squares of the slices' tokens.
    squares: u64,
    /// Index of the border at which the last slice begins.
    last_start: usize,
}

/// The completions at which slices begin, and the end. Other ranks wait for the rank with the largest slice, so this slice has as few tokens as the `borders`
/// allow. The others are about equal.
pub(crate) fn cuts(branches: &[Branch], borders: &[usize], slices: usize) -> Vec<usize> {
    let count = borders.last().copied().unwrap_or(0);
    if slices == 1 {
        return vec![0, count];
    }
    // The index of each completion's branch, if it has one.
    let mut branch_of = vec![None; count];
    for (index, branch) in branches.iter().enumerate() {
        branch_of[branch.number] = Some(index);
    }
    // What all sequences share.
    let common = branches.iter().skip(1).map(|branch| branch.shared).min();
    let common = common.unwrap_or(0);
    let shared = |index: &Option<usize>| index.map_or(0, |_| common);
    let least_shared: Vec<usize> = branch_of.iter().map(shared).collect();
    // From each border, the tokens of the tree of the completions so far.
    let mut tokens = vec![0; borders.len()];
    // The best division for each number of slices, and each border as the end of the last one.
    let none = Division {
        largest: u64::MAX,
        squares: 0,
        last_start: 0,
    };
    let mut best = vec![vec![none; borders.len()]; slices + 1];
    best.iter_mut().for_each(|ends| ends[0].largest = 0);
    for end in 1..borders.len() {
        for index in branch_of[borders[end - 1]..borders[end]].iter().flatten() {
            let shared = shared_since(branches, *index, &least_shared);
            for (tokens, border) in tokens.iter_mut().zip(&borders[..end]) {
                *tokens += (branches[*index].inputs - shared[*border]) as u64;
            }
        }
        for slice in 1..=slices {
            let mut least = Division {
                squares: u64::MAX,
                ..none
            };
            for last_start in (0..=end).rev() {
                let own = tokens[last_start];
                // A slice that begins earlier is no smaller.
                if own > least.largest {
                    break;
                }
                let before = best[slice - 1][last_start];
                least = least.min(Division {
                    largest: before.largest.max(own),
                    squares: before.squares + own * own,
                    last_start,
                });
            }
            best[slice][end] = least;
        }
    }
    let mut cuts = vec![count; slices + 1];
    let mut end = borders.len() - 1;
    for slice in (1..=slices).rev() {
        end = best[slice][end].last_start;
        cuts[slice - 1] = borders[end];
    }
    cuts
}

/// For each number up to that of a branch: how many inputs the branch shares with any of the completions from this number up to its own. With each completion
/// it shares at least `least_shared`.
fn shared_since(branches: &[Branch], index: usize, least_shared: &[usize]) -> Vec<usize> {
    let number = branches[index].number;
    let mut shared = least_shared[..number].to_vec();
    shared.push(0);
    // Goes away from the branch, through others with what each shares with the one before it on this way.
    let mut add_neighbours = |others: &mut dyn Iterator<Item = (&Branch, usize)>| {
        let mut common = usize::MAX;
        for (other, with_previous) in others {
            common = common.min(with_previous);
            if common == least_shared[other.number] {
                break;
            }
            if other.number < number {
                shared[other.number] = common;
            }
        }
    };
    let (before, after) = (&branches[..index], &branches[index + 1..]);
    let next = branches[..=index].iter().skip(1).map(|next| next.shared);
    add_neighbours(&mut before.iter().zip(next).rev());
    add_neighbours(&mut after.iter().map(|other| (other, other.shared)));
    for earlier in (0..number).rev() {
        shared[earlier] = shared[earlier].max(shared[earlier + 1]);
    }
    shared
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::backend::ranks::alone;

    /// Groups with prompts of `common` tokens and 5 of their own. Completions differ in their first token.
    fn groups(common: usize, lengths: &[Vec<usize>]) -> Vec<Group> {
        let completion = |(token, n): (usize, &usize)| vec![token as u32; *n];
        let group = |(number, lengths): (usize, &Vec<usize>)| Group {
            prompt: [vec![0; common], vec![1 + number as u32; 5]]
                .concat()
                .into(),
            completions: lengths.iter().enumerate().map(completion).collect(),
        };
        lengths.iter().enumerate().map(group).collect()
    }

    #[test]
    fn slices_have_about_the_same_number_of_tokens_in_their_trees() {
        let even = vec![vec![10; 4]; 8];
        let uneven = [vec![100], vec![5], vec![5], vec![5], vec![5]];
        let cases = [
            (0, even.clone(), 4, vec![0, 8, 16, 24, 32]),
            // What all prompts begin with is in each slice, so it moves no cut.
            (500, even, 4, vec![0, 8, 16, 24, 32]),
            // The first group has most of the tokens.
            (0, uneven.to_vec(), 4, vec![0, 1, 2, 3, 5]),
            (0, uneven.to_vec(), 2, vec![0, 1, 5]),
            // Fewer groups than slices: a group is cut, and in the second case one slice has completions of both.
            (0, vec![vec![10; 4]], 4, vec![0, 1, 2, 3, 4]),
            (50, vec![vec![10; 3], vec![10; 5]], 4, vec![0, 2, 4, 6, 8]),
        ];
        for (common, lengths, slices, expected) in cases {
            let groups = groups(common, &lengths);
            let branches = branches(&sequences(&groups, |_| true));
            let sizes: Vec<usize> = lengths.iter().map(Vec::len).collect();
            assert_eq!(cuts(&branches, &borders(&sizes, slices), slices), expected);
        }
    }

    proptest! {
        #[test]
        fn every_completion_is_in_one_slice(
            lengths in proptest::collection::vec(proptest::collection::vec(1usize..30, 1..6), 1..10),
            log_slices in 0u32..4,
            unwanted in 0usize..7,
            others in proptest::collection::vec(any::<proptest::sample::Index>(), 7),
        ) {
            let groups = groups(3, &lengths);
            let slices = 1 << log_slices;
            let wanted = |n: usize| unwanted == 0 || !n.is_multiple_of(unwanted + 1);
            let sequences = sequences(&groups, wanted);
            let branches = branches(&sequences);
            let sizes: Vec<usize> = lengths.iter().map(Vec::len).collect();
            let borders = borders(&sizes, slices);
            let cuts = cuts(&branches, &borders, slices);
            let largest = |cuts: &[usize]| {
                let slices = cuts.windows(2).map(|cut| within(&sequences, cut[0]..cut[1]));
                let tokens = slices.map(|slice| Branch::tokens(&super::branches(&slice)));
                tokens.max()
            };
            let mut other: Vec<usize> = others[..slices - 1].iter().map(|index| *index.get(&borders)).collect();
            other.extend([0, cuts[slices]]);
            other.sort_unstable();
            prop_assert!(largest(&cuts) <= largest(&other));
            let count: usize = lengths.iter().map(Vec::len).sum();
            prop_assert!(cuts.is_sorted());
            prop_assert_eq!((cuts[0], cuts[slices]), (0, count));
            let sharing = Sharing::new(alone(), slices).expect("slices");
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
