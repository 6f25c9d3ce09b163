//! Groups → packs: batches without padding. A pack is a prefix tree: tokens that several of its sequences begin with are computed once, whether they are of a
//! template, of a prompt or of completions. A token may predict the next token of several sequences.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::backend::Target;
use crate::batch::{Batch, Group};

/// A training batch. Its KV cache is itself: row i holds token i.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Pack {
    /// Tokens and spans. A completion's last token is predicted, but not an input.
    pub batch: Batch,
    /// Tokens of the batch that predict another token.
    pub rows: Vec<usize>,
    /// The predicted tokens, ordered by row. [`Target::row`] is an index into `rows`.
    pub targets: Vec<Target>,
    /// For each target, the number of its completion (groups in order, completions in order) and the token's index in it.
    pub slots: Vec<(usize, usize)>,
}

/// A completion with its prompt.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sequence<'a> {
    /// Number of the completion (groups in order, completions in order).
    pub(super) number: usize,
    prompt: &'a [u32],
    completion: &'a [u32],
}

/// A sequence as a part of a tree, without its tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Branch {
    /// Number of the completion.
    pub(crate) number: usize,
    /// Number of tokens that are inputs.
    pub(crate) inputs: usize,
    /// Number of inputs that are also the first ones of the branch before it.
    pub(crate) shared: usize,
}

impl Branch {
    /// Tokens of the tree of some branches.
    pub(crate) fn tokens(branches: &[Self]) -> usize {
        let first = branches.first().map_or(0, |first| first.shared);
        let added = branches.iter().map(|branch| branch.inputs - branch.shared);
        first + added.sum::<usize>()
    }
}

/// The completions that `wanted` names by their numbers, sorted by their tokens, so that each shares most with the one before it.
pub(super) fn sequences(groups: &[Group], wanted: impl Fn(usize) -> bool) -> Vec<Sequence<'_>> {
    let completions = groups.iter().flat_map(|group| {
        let completions = group.completions.iter();
        completions.map(|completion| (&group.prompt, completion))
    });
    let completions = completions.enumerate();
    let mut sequences: Vec<Sequence<'_>> = completions
        .filter(|(number, _)| wanted(*number))
        .map(|(number, (prompt, completion))| Sequence {
            number,
            prompt,
            completion,
        })
        .collect();
    sequences.sort_by(|a, b| a.tokens().cmp(b.tokens()));
    sequences
}

/// The tree of sorted sequences.
pub(super) fn branches(sequences: &[Sequence<'_>]) -> Vec<Branch> {
    let before = sequences.iter().map(Some);
    let before = std::iter::once(None).chain(before);
    let pairs = sequences.iter().zip(before);
    let branch = |(sequence, before): (&Sequence<'_>, Option<&Sequence<'_>>)| Branch {
        number: sequence.number,
        inputs: sequence.inputs(),
        shared: before.map_or(0, |before| sequence.shared(before)),
    };
    pairs.map(branch).collect()
}

impl<'a> Sequence<'a> {
    fn tokens(&self) -> impl Iterator<Item = &'a u32> {
        self.prompt.iter().chain(self.completion)
    }

    /// Number of tokens that are inputs: all but the last.
    fn inputs(&self) -> usize {
        self.prompt.len() + self.completion.len() - 1
    }

    /// Number of inputs with which both sequences begin.
    fn shared(&self, other: &Self) -> usize {
        let pairs = self.tokens().zip(other.tokens());
        let alike = pairs.take_while(|(a, b)| a == b).count();
        alike.min(self.inputs()).min(other.inputs())
    }
}

impl Pack {
    /// Packs sequences sorted by their tokens, so that each shares most with the one before it.
    fn new(sequences: &[Sequence<'_>]) -> Self {
        let mut pack = Self::default();
        let mut predicted = Vec::new();
        // The rows of the last sequence's inputs, in order of position, and the rows at which a sequence branches off an earlier one.
        let mut path: Vec<(usize, usize)> = Vec::new();
        let mut parts = BTreeSet::new();
        let (mut spans, mut start) = (Vec::new(), 0);
        let mut before: Option<&Sequence<'_>> = None;
        for sequence in sequences {
            let shared = before.map_or(0, |before| sequence.shared(before));
            let mut rest = shared;
            path.retain_mut(|(row, n)| {
                let kept = rest.min(*n);
                rest -= kept;
                if kept < *n {
                    parts.insert(*row + kept);
                }
                *n = kept;
                kept > 0
            });
            let new = sequence.inputs() - shared;
            if new > 0 {
                let tokens = sequence.tokens().skip(shared).take(new);
                path.push((start, new));
                start += new;
                spans.push((tokens.copied().collect::<Vec<_>>(), path.clone()));
            }
            let rows = path.iter().flat_map(|(row, n)| *row..row + n);
            let rows = rows.skip(sequence.prompt.len() - 1);
            let tokens = sequence.completion.iter().enumerate();
            let slots = tokens.map(|(t, token)| (*token, (sequence.number, t)));
            predicted.extend(rows.zip(slots));
            before = Some(sequence);
        }
        for (tokens, path) in spans {
            pack.batch.add(&tokens, split_ranges(&path, &parts));
        }
        predicted.sort_by_key(|(row, _)| *row);
        for (row, (token, slot)) in predicted {
            if pack.rows.last() != Some(&row) {
                pack.rows.push(row);
            }
            let row = pack.rows.len() - 1;
            pack.targets.push(Target { row, token });
            pack.slots.push(slot);
        }
        pack
    }
}

/// The ranges of rows, cut where any sequence branches off another, so that shared parts are equal ranges.
fn split_ranges(path: &[(usize, usize)], parts: &BTreeSet<usize>) -> Vec<(usize, usize)> {
    let mut ranges = Vec::new();
    for &(row, n) in path {
        let inside = parts.range(row + 1..row + n).copied();
        let mut start = row;
        for end in inside.chain([row + n]) {
            ranges.push((start, end - start));
            start = end;
        }
    }
    ranges
}

/// Divides a tree between packs of at most `pack_tokens` tokens; a sequence that is too large for any is a pack of its own. A pack repeats what its first
/// sequence shares with the one before it. The packs have as few tokens as possible, and then there are as few packs as possible.
pub(crate) fn cut(branches: &[Branch], pack_tokens: usize) -> Vec<Range<usize>> {
    // For the packs that end before each branch: their tokens, their number, and where the last one begins.
    let mut least = vec![(usize::MAX, 0, 0); branches.len() + 1];
    least[0].0 = 0;
    for start in 0..branches.len() {
        let (before, packs, _) = least[start];
        let room = pack_tokens.max(branches[start].inputs);
        let mut tokens = branches[start].shared;
        for (end, branch) in (start + 1..).zip(&branches[start..]) {
            tokens += branch.inputs - branch.shared;
            if tokens > room {
                break;
            }
            least[end] = least[end].min((before + tokens, packs + 1, start));
        }
    }
    let mut ranges = Vec::new();
    let mut end = branches.len();
    while end > 0 {
        let start = least[end].2;
        ranges.push(start..end);
        end = start;
    }
    ranges.reverse();
    ranges
}

/// Packs sorted sequences, in packs of at most `pack_tokens` tokens. Each pack holds the prompts of its completions.
pub(super) fn pack(sequences: &[Sequence<'_>], pack_tokens: usize) -> Vec<Pack> {
    let ranges = cut(&branches(sequences), pack_tokens).into_iter();
    ranges.map(|range| Pack::new(&sequences[range])).collect()
}

#[cfg(test)]
mod tests {
    use super::{Branch, Pack, cut, sequences};
    use crate::batch::Group;

    fn pack(groups: &[Group], pack_tokens: usize) -> Vec<Pack> {
        super::pack(&sequences(groups, |_| true), pack_tokens)
    }

    fn group(prompt: &[u32], completions: &[&[u32]]) -> Group {
        Group {
            prompt: prompt.into(),
            completions: completions.iter().map(|c| c.to_vec()).collect(),
        }
    }

    #[test]
    fn what_sequences_begin_with_is_packed_once_and_predicts_every_next_token() {
        let groups = [
            group(&[1, 2, 3], &[&[7, 8, 9], &[4, 5], &[6], &[7, 5], &[4, 5]]),
            group(&[1, 2], &[&[9]]),
        ];
        let packs = pack(&groups, 100);
        let [pack] = packs.as_slice() else {
            panic!("one pack")
        };
        assert_eq!(pack.batch.tokens, [1, 2, 3, 4, 7, 8]);
        assert_eq!(pack.batch.positions, [0, 1, 2, 3, 3, 4]);
        assert_eq!(pack.rows, [1, 2, 3, 4, 5]);
        let predicted: Vec<_> = pack.targets.iter().map(|t| (t.row, t.token)).collect();
        let by_row = [
            vec![(0, 9)],
            vec![(1, 4), (1, 4), (1, 6), (1, 7), (1, 7)],
            vec![(2, 5), (2, 5)],
            vec![(3, 5), (3, 8)],
            vec![(4, 9)],
        ];
        assert_eq!(predicted, by_row.concat());
        let slots = [
            vec![(5, 0)],
            vec![(1, 0), (4, 0), (2, 0), (3, 0), (0, 0)],
            vec![(1, 1), (4, 1)],
            vec![(3, 1), (0, 1)],
            vec![(0, 2)],
        ];
        assert_eq!(pack.slots, slots.concat());
        let spans = pack.batch.spans.iter();
        let kv: Vec<_> = spans.map(|s| (s.q_start, s.kv.ranges().to_vec())).collect();
        let shared = [(0, 2), (2, 1)];
        let with = |more: &[(usize, usize)]| [&shared[..], more].concat();
        assert_eq!(
            kv,
            [
                (0, with(&[(3, 1)])),
                (4, with(&[(4, 1)])),
                (5, with(&[(4, 1), (5, 1)]))
            ]
        );
        assert_eq!(pack.batch.check(6), Ok(()));
    }

    #[test]
    fn packs_respect_their_size_and_large_groups_repeat_their_prompt() {
        let groups = [
            group(&[1; 4], &[&[2; 5], &[3; 5]]),
            group(&[2; 4], &[&[3; 5], &[4; 5], &[5; 5]]),
            group(&[3; 4], &[&[4; 40]]),
        ];
        let packs = pack(&groups, 12);
        let tokens: Vec<usize> = packs.iter().map(|p| p.batch.tokens.len()).collect();
        assert_eq!(tokens, [12, 8, 12, 43]);
        for (pack, tokens) in packs.iter().zip(tokens) {
            assert_eq!(pack.batch.check(tokens), Ok(()));
        }
    }

    #[test]
    fn packs_are_cut_where_sequences_share_least() {
        let cases = [
            // The first pack has room for a third sequence, which shares more with the fourth than with those before it.
            (
                vec![(10, 0), (10, 8), (10, 2), (10, 8)],
                20,
                vec![0..2, 2..4],
            ),
            // Three packs repeat less than two, between which a group would be parted.
            (
                vec![(5, 0), (5, 4), (5, 1), (5, 4), (5, 1), (5, 4)],
                10,
                vec![0..2, 2..4, 4..6],
            ),
            // No place is better than another: there are as few packs as possible.
            (vec![(5, 0), (5, 0), (5, 0), (5, 0)], 10, vec![0..2, 2..4]),
            // A sequence that is too large, and equal ones, which add nothing.
            (
                vec![(3, 0), (9, 2), (9, 9), (4, 2)],
                5,
                vec![0..1, 1..3, 3..4],
            ),
            (vec![], 5, vec![]),
        ];
        for (sequences, pack_tokens, expected) in cases {
            let sequences = sequences.iter().enumerate();
            let branch = |(number, &(inputs, shared))| Branch {
                number,
                inputs,
                shared,
            };
            assert_eq!(
                cut(&sequences.map(branch).collect::<Vec<_>>(), pack_tokens),
                expected
            );
        }
    }

    #[test]
    fn packs_of_2048_tokens_repeat_at_most_a_tenth_of_the_tree() {
        // Prompts, completions of each, tokens with which all prompts begin, those of a prompt alone, and those of a completion.
        let cases = [
            ("quickstart", 16, 8, 135, 8..31, 8..25),
            ("longer prompts", 16, 8, 135, 8..166, 24..25),
            ("shorter examples", 16, 8, 80, 5..31, 24..25),
            ("smollm2-gsm8k", 8, 8, 135, 40..201, 30..49),
            ("smollm2-mbppplus", 8, 4, 2, 40..201, 60..161),
            ("more of them", 64, 8, 135, 8..166, 8..25),
        ];
        for (name, prompts, samples, common, own, completion) in cases {
            let mut seed = 1u32;
            let mut random = |lengths: &std::ops::Range<usize>| {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let token = seed >> 8;
                vec![token; lengths.start + token as usize % lengths.len()]
            };
            let groups: Vec<Group> = (0..prompts)
                .map(|_| Group {
                    prompt: [vec![0; common], random(&own)].concat().into(),
                    // Completions begin alike.
                    completions: (0..samples)
                        .map(|_| [vec![1; 4], random(&completion)].concat())
                        .collect(),
                })
                .collect();
            let [tree, packed] = [usize::MAX, 2048].map(|pack_tokens| -> usize {
                let packs = pack(&groups, pack_tokens);
                packs.iter().map(|p| p.batch.tokens.len()).sum()
            });
            assert!(
                10 * (packed - tree) <= tree,
                "{name}: {packed} tokens, {tree} in the tree"
            );
        }
    }

    #[test]
    fn unwanted_completions_are_left_out() {
        let groups = [group(&[1], &[&[2, 3], &[4, 5]]), group(&[6], &[&[7]])];
        let packs = super::pack(&sequences(&groups, |number| number == 1), 100);
        assert_eq!(packs.len(), 1);
        assert_eq!(packs[0].batch.tokens, [1, 4]);
    }
}
