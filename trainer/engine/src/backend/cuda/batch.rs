//! A batch as the kernels read it: one piece of memory, laid out by sizes alone but for what comes last.

use std::collections::BTreeMap;
use std::iter::repeat_n;

use super::driver::Address;
use crate::batch::{Batch, Span};

/// Queries of one tile of attention, in `kernels/attention.cu`.
const QUERY_TILE: usize = 64;
/// Rows of keys of one tile of attention's backward pass.
const KEY_TILE: usize = 64;
/// The store's row of a token that is there for the shape's sake only.
pub(super) const NO_ROW: u32 = u32::MAX;

/// Where the parts of a batch lie, in words.
#[derive(Debug, Clone, Default)]
pub(super) struct BatchPlan {
    /// Tokens, those for the shape's sake included.
    pub(super) tokens: usize,
    /// Spans of one query, which come first; those for the shape's sake have none.
    pub(super) single: usize,
    /// Tiles of queries.
    pub(super) tiles: usize,
    /// Tiles of spans of one query, which come first.
    pub(super) single_tiles: usize,
    positions_at: usize,
    rows_at: usize,
    spans_at: usize,
    segments_at: usize,
    tiles_at: usize,
    /// Where it lies on the device.
    pub(super) address: Address,
}

impl BatchPlan {
    fn at(&self, words: usize) -> Address {
        self.address + 4 * words as u64
    }

    pub(super) fn token_ids(&self) -> Address {
        self.at(0)
    }

    pub(super) fn positions(&self) -> Address {
        self.at(self.positions_at)
    }

    /// The store's row of each token.
    pub(super) fn rows(&self) -> Address {
        self.at(self.rows_at)
    }

    pub(super) fn spans(&self) -> Address {
        self.at(self.spans_at)
    }

    pub(super) fn segments(&self) -> Address {
        self.at(self.segments_at)
    }

    /// Tiles of queries from the `first` on.
    pub(super) fn tiles_from(&self, first: usize) -> Address {
        self.at(self.tiles_at + 2 * first)
    }

    /// Lays a batch out for `tokens` tokens, of which those beyond the batch's own are spans without queries, into `words`. Where every span has one query, what lies
    /// before the segments, and where these begin, is a function of `tokens`.
    pub(super) fn new(batch: &Batch, tokens: usize, words: &mut Vec<u32>) -> Self {
        let padding = tokens - batch.tokens.len();
        words.clear();
        words.extend(&batch.tokens);
        words.extend(repeat_n(0, padding));
        let positions_at = words.len();
        words.extend(&batch.positions);
        words.extend(repeat_n(0, padding));
        let rows_at = words.len();
        words.extend(batch.rows.iter().map(|row| *row as u32));
        words.extend(repeat_n(NO_ROW, padding));
        let order = order(batch);
        let single = order.iter().filter(|span| span.q_len <= 1).count();
        let (spans_at, mut segments) = (words.len(), Vec::new());
        for span in &order[..single] {
            push_span(words, &mut segments, span);
        }
        words.extend(repeat_n(0, 5 * padding));
        for span in &order[single..] {
            push_span(words, &mut segments, span);
        }
        let segments_at = words.len();
        words.extend(segments);
        let (tiles_at, mut single_tiles) = (words.len(), 0);
        for (i, span) in order.iter().enumerate() {
            let number = if i < single { i } else { i + padding };
            for first in (0..span.q_len).step_by(QUERY_TILE) {
                words.extend([number as u32, first as u32]);
                single_tiles += usize::from(i < single);
            }
        }
        Self {
            tokens,
            single: single + padding,
            tiles: (words.len() - tiles_at) / 2,
            single_tiles,
            positions_at,
            rows_at,
            spans_at,
            segments_at,
            tiles_at,
            address: 0,
        }
    }
}

/// Spans as they lie on the device: those of one query first.
fn order(batch: &Batch) -> Vec<&Span> {
    let (mut order, several): (Vec<&Span>, Vec<&Span>) =
        batch.spans.iter().partition(|span| span.q_len <= 1);
    order.extend(several);
    order
}

/// `struct Span` and its `struct Segment`s.
fn push_span(words: &mut Vec<u32>, segments: &mut Vec<u32>, span: &Span) {
    let first = segments.len() / 2;
    let mut position = 0;
    for (row, n) in merged(&span.kv) {
        segments.extend([position as u32, row as u32]);
        position += n;
    }
    let count = segments.len() / 2 - first;
    words.extend([span.q_start, span.q_len, position, first, count].map(|n| n as u32));
}

/// Ranges of rows, those that follow each other as one.
fn merged(ranges: &[(usize, usize)]) -> Vec<(usize, usize)> {
    let mut merged: Vec<(usize, usize)> = Vec::new();
    for &(row, n) in ranges.iter().filter(|(_, n)| *n > 0) {
        match merged.last_mut() {
            Some((first, count)) if *first + *count == row => *count += n,
            _ => merged.push((row, n)),
        }
    }
    merged
}

/// For each tile of rows of keys, which spans have them: what attention's backward pass walks along.
#[derive(Debug, Clone, Default)]
pub(super) struct KeyTiles {
    /// Number of tiles.
    pub(super) count: usize,
    visits_at: usize,
    /// Where they lie on the device.
    pub(super) address: Address,
}

impl KeyTiles {
    pub(super) fn visits(&self) -> Address {
        self.address + 4 * self.visits_at as u64
    }

    /// Lays the tiles (`struct KeyTile`, then `struct Visit`) of a batch without padding into `words`.
    pub(super) fn new(batch: &Batch, words: &mut Vec<u32>) -> Self {
        // Rows are cut where any span's ranges begin or end, so that a tile's rows are consecutive keys of whoever has them.
        let mut ranges = Vec::new();
        for (number, span) in order(batch).into_iter().enumerate() {
            let mut position = 0;
            for (row, n) in merged(&span.kv) {
                ranges.push((number, row, n, position));
                position += n;
            }
        }
        let ends = |(_, row, n, _): &(usize, usize, usize, usize)| [*row, row + n];
        let mut cuts: Vec<usize> = ranges.iter().flat_map(ends).collect();
        cuts.sort_unstable();
        cuts.dedup();
        let mut tiles: BTreeMap<usize, (usize, Vec<[u32; 2]>)> = BTreeMap::new();
        for (number, row, n, position) in ranges {
            let from = cuts.partition_point(|cut| *cut < row);
            let pieces = cuts[from..].windows(2).take_while(|cut| cut[0] < row + n);
            for piece in pieces {
                for first in (piece[0]..piece[1]).step_by(KEY_TILE) {
                    let count = KEY_TILE.min(piece[1] - first);
                    let (_, visits) = tiles.entry(first).or_insert((count, Vec::new()));
                    visits.push([number as u32, (position + first - row) as u32]);
                }
            }
        }
        words.clear();
        let mut visit = 0;
        for (row, (count, visits)) in &tiles {
            words.extend([*row, *count, visit, visits.len()].map(|n| n as u32));
            visit += visits.len();
        }
        let visits_at = words.len();
        words.extend(tiles.values().flat_map(|(_, visits)| visits).flatten());
        Self {
            count: tiles.len(),
            visits_at,
            address: 0,
        }
    }
}

/// Which of a batch's tokens are alike: what is added to a row of the embedding's gradient is added by one block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Alike {
    /// The batch's tokens by their ids, those that are alike in the batch's order.
    pub(super) order: Vec<u32>,
    /// Where each id's tokens begin in the order, and where the last one's end.
    pub(super) starts: Vec<u32>,
    /// The ids.
    pub(super) ids: Vec<u32>,
}

impl Alike {
    pub(super) fn new(tokens: &[u32]) -> Self {
        let mut order: Vec<u32> = (0..tokens.len() as u32).collect();
        order.sort_by_key(|i| tokens[*i as usize]);
        let (mut starts, mut ids) = (Vec::new(), Vec::new());
        for (i, token) in order.iter().map(|i| tokens[*i as usize]).enumerate() {
            if ids.last() != Some(&token) {
                starts.push(i as u32);
                ids.push(token);
            }
        }
        starts.push(order.len() as u32);
        Self { order, starts, ids }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(q_start: usize, q_len: usize, kv: &[(usize, usize)]) -> Span {
        Span {
            q_start,
            q_len,
            kv: kv.to_vec(),
        }
    }

    /// A prompt of 70 and two completions of it, of 10 and of 1.
    fn group() -> Batch {
        Batch {
            tokens: (0..81).collect(),
            positions: (0..81).collect(),
            rows: (0..81).collect(),
            spans: vec![
                span(0, 70, &[(0, 70)]),
                span(70, 10, &[(0, 70), (70, 10)]),
                span(80, 1, &[(0, 70), (80, 1)]),
            ],
        }
    }

    #[test]
    fn every_key_is_visited_once_by_each_span_that_sees_it() {
        let mut words = Vec::new();
        let tiles = KeyTiles::new(&group(), &mut words);
        let mut seen = BTreeMap::new();
        for tile in 0..tiles.count {
            let [row, count, visit, visits] = words[4 * tile..][..4] else {
                panic!("four words a tile")
            };
            assert!((1..=KEY_TILE as u32).contains(&count));
            for visit in visit..visit + visits {
                let at = tiles.visits_at + 2 * visit as usize;
                let (span, position) = (words[at], words[at + 1]);
                for i in 0..count {
                    *seen.entry((span, position + i, row + i)).or_insert(0) += 1;
                }
            }
        }
        // The span of one query comes first on the device.
        let expected = (0..70)
            .map(|i| (1, i, i))
            .chain((0..80).map(|i| (2, i, i)))
            .chain((0..71).map(|i| (0, i, if i < 70 { i } else { 80 })));
        assert_eq!(seen, expected.map(|key| (key, 1)).collect());
    }

    #[test]
    fn tiles_cover_the_queries_of_every_span() {
        let mut words = Vec::new();
        let plan = BatchPlan::new(&group(), 81, &mut words);
        assert_eq!(words[plan.tiles_at..], [0, 0, 1, 0, 1, 64, 2, 0]);
        assert_eq!((plan.tiles, plan.single_tiles, plan.single), (4, 1, 1));
        assert_eq!(&words[plan.spans_at..][..5], [80, 1, 71, 0, 2]);
        assert_eq!(&words[plan.segments_at..][..4], [0, 0, 70, 80]);
    }

    #[test]
    fn a_padded_batch_lies_where_a_full_one_does() {
        let decode = |n: usize| Batch {
            tokens: vec![7; n],
            positions: vec![3; n],
            rows: (0..n).collect(),
            spans: (0..n).map(|i| span(i, 1, &[(4 * i, 4)])).collect(),
        };
        let (mut few, mut many) = (Vec::new(), Vec::new());
        let padded = BatchPlan::new(&decode(3), 8, &mut few);
        let full = BatchPlan::new(&decode(8), 8, &mut many);
        let fixed = |p: &BatchPlan| {
            [
                p.positions_at,
                p.rows_at,
                p.spans_at,
                p.segments_at,
                p.single,
            ]
        };
        assert_eq!(fixed(&padded), fixed(&full));
        assert_eq!(few[padded.rows_at..][..8][3..], [NO_ROW; 5]);
        assert_eq!(few[padded.spans_at..][5 * 3..5 * 8], [0; 25]);
    }

    #[test]
    fn tokens_that_are_alike_stand_together_in_their_order() {
        let alike = Alike::new(&[7, 3, 7, 3, 3, 9]);
        assert_eq!(alike.order, [1, 3, 4, 0, 2, 5]);
        assert_eq!(alike.starts, [0, 3, 5, 6]);
        assert_eq!(alike.ids, [3, 7, 9]);
    }
}
