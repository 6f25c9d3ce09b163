//! Groups → packs: batches without padding. A pack contains a group's prompt once, and the group's completions attend to it.

use crate::backend::Target;
use crate::batch::{Batch, Group, KvRows, Span};

/// A training batch. Its KV cache is itself: row i holds token i.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Pack {
    /// Tokens and spans. A completion's last token is predicted, but not an input.
    pub batch: Batch,
    /// Tokens of the batch that predict another token.
    pub rows: Vec<usize>,
    /// The predicted tokens, ordered by row. [`Target::row`] is an index into `rows`. A prompt's last token predicts the first token of every completion.
    pub targets: Vec<Target>,
    /// For each target, the number of its completion (groups in order, completions in order) and the token's index in it.
    pub slots: Vec<(usize, usize)>,
}

impl Pack {
    fn push(&mut self, prompt: &[u32], completions: &[(usize, &[u32])]) {
        let start = self.extend(prompt, 0, &[]);
        let row = self.rows.len();
        self.rows.push(start + prompt.len() - 1);
        for (number, tokens) in completions {
            self.predict(row, tokens[0], (*number, 0));
        }
        for (number, tokens) in completions {
            let (_, inputs) = tokens.split_last().unwrap_or((&0, &[]));
            if inputs.is_empty() {
                continue;
            }
            let first = self.extend(inputs, prompt.len(), &[(start, prompt.len())]);
            for t in 1..tokens.len() {
                let row = self.rows.len();
                self.rows.push(first + t - 1);
                self.predict(row, tokens[t], (*number, t));
            }
        }
    }

    fn predict(&mut self, row: usize, token: u32, slot: (usize, usize)) {
        self.targets.push(Target { row, token });
        self.slots.push(slot);
    }

    /// Appends tokens from `position` on, which attend to the rows of `context` and to themselves; returns the number of the first one.
    fn extend(&mut self, tokens: &[u32], position: usize, context: &[(usize, usize)]) -> usize {
        let batch = &mut self.batch;
        let start = batch.tokens.len();
        let end = start + tokens.len();
        batch.tokens.extend(tokens);
        batch
            .positions
            .extend((position..position + tokens.len()).map(|p| p as u32));
        batch.rows.extend(start..end);
        let mut kv = KvRows::from(context.to_vec());
        kv.push(start, tokens.len());
        batch.spans.push(Span {
            q_start: start,
            q_len: tokens.len(),
            kv,
        });
        start
    }
}

/// Packs groups into packs of at most `pack_tokens` tokens. A group that is too large for one pack is split, and its prompt repeated. A completion that is too
/// large together with its prompt is a pack of its own. `wanted` decides by a completion's number whether it is packed at all.
pub fn pack(groups: &[Group], pack_tokens: usize, wanted: impl Fn(usize) -> bool) -> Vec<Pack> {
    let mut packs = Vec::new();
    let mut open = Pack::default();
    let mut number = 0;
    for group in groups {
        let prompt = group.prompt.as_ref();
        let mut members: Vec<(usize, &[u32])> = Vec::new();
        for completion in &group.completions {
            if wanted(number) {
                members.push((number, completion));
            }
            number += 1;
        }
        let mut rest = members.as_slice();
        while !rest.is_empty() {
            let capacity = pack_tokens.saturating_sub(open.batch.tokens.len());
            let fits_whole = fitting(prompt.len(), rest, pack_tokens) == rest.len();
            let fits = fitting(prompt.len(), rest, capacity);
            let take = match (fits, open.batch.tokens.is_empty()) {
                // Too large for any pack, so a pack of its own.
                (0, true) => 1,
                (n, true) => n,
                // A group that fits whole into the next pack is not split between two.
                (n, false) if n == rest.len() || (n > 0 && !fits_whole) => n,
                _ => {
                    packs.push(std::mem::take(&mut open));
                    continue;
                }
            };
            let (now, later) = rest.split_at(take);
            open.push(prompt, now);
            rest = later;
        }
    }
    if !open.batch.tokens.is_empty() {
        packs.push(open);
    }
    packs
}

/// Number of the completions, from the first on, that fit together with their prompt.
fn fitting(prompt: usize, completions: &[(usize, &[u32])], capacity: usize) -> usize {
    let mut tokens = prompt;
    completions
        .iter()
        .take_while(|(_, completion)| {
            tokens += completion.len() - 1;
            tokens <= capacity
        })
        .count()
}

#[cfg(test)]
mod tests {
    use super::{Pack, pack};
    use crate::batch::Group;

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
    fn a_prompt_is_packed_once_and_predicts_every_first_token() {
        let packs = pack(
            &[group(&[1, 2, 3], &[&[4, 5], &[6], &[7, 8, 9]])],
            100,
            |_| true,
        );
        let [pack] = packs.as_slice() else {
            panic!("one pack")
        };
        assert_eq!(pack.batch.tokens, [1, 2, 3, 4, 7, 8]);
        assert_eq!(pack.batch.positions, [0, 1, 2, 3, 3, 4]);
        assert_eq!(pack.rows, [2, 3, 4, 5]);
        let predicted: Vec<_> = pack.targets.iter().map(|t| (t.row, t.token)).collect();
        assert_eq!(predicted, [(0, 4), (0, 6), (0, 7), (1, 5), (2, 8), (3, 9)]);
        assert_eq!(pack.slots, [(0, 0), (1, 0), (2, 0), (0, 1), (2, 1), (2, 2)]);
        let kv: Vec<_> = pack
            .batch
            .spans
            .iter()
            .map(|s| s.kv.ranges().to_vec())
            .collect();
        assert_eq!(
            kv,
            [vec![(0, 3)], vec![(0, 3), (3, 1)], vec![(0, 3), (4, 2)]]
        );
        assert_eq!(pack.batch.check(6), Ok(()));
    }

    #[test]
    fn packs_respect_their_size_and_large_groups_repeat_their_prompt() {
        let groups = [
            group(&[1; 4], &[&[2; 5], &[3; 5]]),
            group(&[1; 4], &[&[2; 5], &[3; 5], &[4; 5]]),
            group(&[1; 4], &[&[2; 40]]),
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
