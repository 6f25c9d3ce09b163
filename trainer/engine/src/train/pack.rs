//! Groups → packs: batches without padding. A pack is a prefix tree: tokens with which several of its sequences begin are computed once, whether they are a
//! template's, a prompt's or the first ones of completions, and a token may predict the next token of several sequences.

use std::collections::BTreeSet;

use crate::backend::Target;
use crate::batch::{Batch, Group, Span};

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
    group: usize,
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
    /// How many of the inputs are also the first ones of the branch before it.
    pub(crate) shared: usize,
}

/// The completions that `wanted` names by their numbers, sorted by their tokens, so that each shares most with the one before it.
pub(super) fn sequences(groups: &[Group], wanted: impl Fn(usize) -> bool) -> Vec<Sequence<'_>> {
    let groups = groups.iter().enumerate();
    let completions = groups.flat_map(|(number, group)| {
        let completions = group.completions.iter();
        completions.map(move |completion| (number, group, completion))
    });
    let mut sequences: Vec<Sequence<'_>> = completions
        .enumerate()
        .filter(|(number, _)| wanted(*number))
        .map(
            |(number, (group, Group { prompt, .. }, completion))| Sequence {
                group,
                number,
                prompt,
                completion,
            },
        )
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
    /// Packs sequences that are sorted by their tokens, so that each shares most with the one before it.
    fn new(sequences: &[Sequence<'_>]) -> Self {
        let mut pack = Self::default();
        let mut predicted = Vec::new();
        // The rows of the last sequence's inputs, in order of position, and the rows at which another sequence parts from an earlier one.
        let mut path: Vec<(usize, usize)> = Vec::new();
        let mut parts = BTreeSet::new();
        let mut spans = Vec::new();
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
            let (start, inputs) = (pack.batch.tokens.len(), sequence.inputs());
            let new = inputs - shared;
            if new > 0 {
                let tokens = sequence.tokens().take(inputs).skip(shared);
                pack.batch.tokens.extend(tokens);
                let positions = shared..inputs;
                pack.batch.positions.extend(positions.map(|p| p as u32));
                path.push((start, new));
                spans.push((start, new, path.clone()));
            }
            let rows = path.iter().flat_map(|(row, n)| *row..row + n);
            let rows = rows.skip(sequence.prompt.len() - 1);
            let tokens = sequence.completion.iter().enumerate();
            let slots = tokens.map(|(t, token)| (*token, (sequence.number, t)));
            predicted.extend(rows.zip(slots));
            before = Some(sequence);
        }
        pack.batch.rows = (0..pack.batch.tokens.len()).collect();
        let spans = spans.into_iter();
        let spans = spans.map(|(start, new, path)| Span::new(start, new, parted(&path, &parts)));
        pack.batch.spans = spans.collect();
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

/// The ranges of rows, each cut where any sequence parts from another, so that what sequences share are equal ranges.
fn parted(path: &[(usize, usize)], parts: &BTreeSet<usize>) -> Vec<(usize, usize)> {
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

/// Packs sorted sequences, in packs of at most `pack_tokens` tokens. Neighbours of one group that fit whole into a pack are not split between two. Each pack holds the
/// prompts of its completions; a sequence that is too large for any is a pack of its own.
pub(super) fn pack(sequences: &[Sequence<'_>], pack_tokens: usize) -> Vec<Pack> {
    // What each sequence adds to a pack that holds the one before it.
    let added = branches(sequences);
    let added: Vec<usize> = added.iter().map(|b| b.inputs - b.shared).collect();
    let mut packs = Vec::new();
    let (mut first, mut tokens) = (0, 0);
    for (i, sequence) in sequences.iter().enumerate() {
        let neighbours = sequences[i..].iter();
        let neighbours = neighbours.take_while(|s| s.group == sequence.group);
        let rest: usize = added[i + 1..i + neighbours.count()].iter().sum();
        let begins = i == first || sequences[i - 1].group != sequence.group;
        let splits = tokens + added[i] + rest > pack_tokens;
        let fits_whole = sequence.inputs() + rest <= pack_tokens;
        if i > first && (tokens + added[i] > pack_tokens || begins && splits && fits_whole) {
            packs.push(Pack::new(&sequences[first..i]));
            (first, tokens) = (i, 0);
        }
        tokens += match i == first {
            true => sequence.inputs(),
            false => added[i],
        };
    }
    if first < sequences.len() {
        packs.push(Pack::new(&sequences[first..]));
    }
    packs
}

#[cfg(test)]
mod tests {
    use super::{Pack, sequences};
    use crate::batch::Group;

    fn pack(groups: &[Group], pack_tokens: usize, wanted: impl Fn(usize) -> bool) -> Vec<Pack> {
        super::pack(&sequences(groups, wanted), pack_tokens)
    }

    fn group(prompt: &[u32], completions: &[&[u32]]) -> Group {
        Group {
            prompt: prompt.into(),
            completions: completions.iter().map(|c| c.to_vec()).collect(),
        }
    }

    fn tokens(packs: &[Pack]) -> Vec<usize> {
        packs.iter().map(|p| p.batch.tokens.len()).collect()
    }

    #[test]
    fn what_sequences_begin_with_is_packed_once_and_predicts_every_next_token() {
        let groups = [
            group(&[1, 2, 3], &[&[7, 8, 9], &[4, 5], &[6], &[7, 5], &[4, 5]]),
            group(&[1, 2], &[&[9]]),
        ];
        let packs = pack(&groups, 100, |_| true);
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
        let packs = pack(&groups, 12, |_| true);
        assert_eq!(tokens(&packs), [12, 12, 8, 43]);
        for pack in &packs {
            assert_eq!(pack.batch.check(pack.batch.tokens.len()), Ok(()));
        }
        let mut slots: Vec<_> = packs.iter().flat_map(|p| p.slots.clone()).collect();
        slots.sort_unstable();
        let all: Vec<_> = [5, 5, 5, 5, 5, 40]
            .iter()
            .enumerate()
            .flat_map(|(i, n)| (0..*n).map(move |t| (i, t)))
            .collect();
        assert_eq!(slots, all);
    }

    #[test]
    fn unwanted_completions_are_left_out() {
        let groups = [group(&[1], &[&[2, 3], &[4, 5]]), group(&[6], &[&[7]])];
        let packs = pack(&groups, 100, |number| number == 1);
        assert_eq!(packs.len(), 1);
        assert_eq!(packs[0].batch.tokens, [1, 4]);
    }
}
