//! A batch in one piece of memory, in the layout that the kernels read, and the table of segments. Except for the last parts, the layout depends on sizes
//! alone.

use std::collections::BTreeMap;
use std::iter::repeat_n;
use std::ops::Range;

use super::driver::Address;
use super::segments::SegmentTable;
use crate::batch::{Batch, Span};

/// Number of queries of a tile of attention, as in `kernels/attention.cu`.
const QUERY_TILE: usize = 64;
/// Number of rows of keys of a tile in attention's backward pass.
pub(super) const KEY_TILE: usize = 64;
/// Number of queries of the tiles that are streamed past it, for most head widths.
const PASSING: usize = 32;
/// Words of a `struct KeyTile`.
const KEY_TILE_WORDS: usize = 8;
/// The store's row of a padding token.
pub(super) const NO_ROW: u32 = u32::MAX;

/// Positions of the parts of a batch, in words.
#[derive(Debug, Clone, Default)]
pub(super) struct BatchPlan {
    /// Number of tokens, including padding.
    pub(super) tokens: usize,
    /// Number of spans of one query, which come first. Spans of padding tokens count, but have no query.
    pub(super) single: usize,
    pub(super) tiles: usize,
    /// Number of tiles of spans of one query, which come first.
    pub(super) single_tiles: usize,
    /// Number of rows of keys and values that the spans need.
    pub(super) store_rows: usize,
    /// Ids of the spans' rows, and the positions of the spans' queries, in the order of the spans on the device without padding.
    queries: Vec<(u64, Range<usize>)>,
    /// Number of segments to be written into the table.
    pub(super) updates: usize,
    positions_at: usize,
    rows_at: usize,
    spans_at: usize,
    tiles_at: usize,
    updates_at: usize,
    pub(super) address: Address,
    /// Address of the table of segments.
    pub(super) segments: Address,
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

    /// Address of the segments to be written.
    pub(super) fn new_segments(&self) -> Address {
        self.at(self.updates_at)
    }

    /// Address of the tiles of queries, from number `first` on.
    pub(super) fn tiles_from(&self, first: usize) -> Address {
        self.at(self.tiles_at + 2 * first)
    }

    /// Lays out a batch for `tokens` tokens into `words`, and makes it the table's current one. Tokens beyond the batch's own are spans without queries. If
    /// every span has one query, the layout up to the tiles is a function of `tokens`.
    pub(super) fn new(
        batch: &Batch,
        tokens: usize,
        table: &mut SegmentTable,
        words: &mut Vec<u32>,
    ) -> Self {
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
        let spans_at = words.len();
        for span in &order[..single] {
            push_span(words, table, span);
        }
        words.extend(repeat_n(0, 5 * padding));
        for span in &order[single..] {
            push_span(words, table, span);
        }
        let (tiles_at, mut single_tiles) = (words.len(), 0);
        for (i, span) in order.iter().enumerate() {
            let number = if i < single { i } else { i + padding };
            for first in (0..span.q_len).step_by(QUERY_TILE) {
                words.extend([number as u32, first as u32]);
                single_tiles += usize::from(i < single);
            }
        }
        let updates_at = words.len();
        let ends = order.iter().map(|span| span.kv.end());
        let queries = |span: &&Span| {
            let keys = span.kv.len();
            (span.kv.id(), keys - span.q_len..keys)
        };
        Self {
            tokens,
            single: single + padding,
            tiles: (updates_at - tiles_at) / 2,
            single_tiles,
            store_rows: ends.max().unwrap_or(0),
            queries: order.iter().map(queries).collect(),
            updates: table.updates(words),
            positions_at,
            rows_at,
            spans_at,
            tiles_at,
            updates_at,
            address: 0,
            segments: 0,
        }
    }
}

/// The spans in their order on the device: those of one query first.
fn order(batch: &Batch) -> Vec<&Span> {
    let (mut order, several): (Vec<&Span>, Vec<&Span>) =
        batch.spans.iter().partition(|span| span.q_len <= 1);
    order.extend(several);
    order
}

/// Appends the kernels' `struct Span`.
fn push_span(words: &mut Vec<u32>, table: &mut SegmentTable, span: &Span) {
    let [first, count] = table.place(&span.kv);
    words.extend([span.q_start, span.q_len, span.kv.len(), first, count].map(|n| n as u32));
}

/// For each tile of rows of keys, the spans that contain it. Attention's backward pass goes through them, in pieces of about equal work.
#[derive(Debug, Clone, Default)]
pub(super) struct KeyTiles {
    pub(super) pieces: usize,
    /// Number of rows of the sums of tiles that have several pieces.
    pub(super) partial_rows: usize,
    visits_at: usize,
    pub(super) address: Address,
}

impl KeyTiles {
    pub(super) fn visits(&self) -> Address {
        self.address + 4 * self.visits_at as u64
    }

    /// Lays out the tiles (`struct KeyTile`, then `struct Visit`) of the table's current batch, which is not padded, into `words`. `group` heads of queries attend to a head
    /// of keys. There are at least `occupying` pieces, if there is as much work.
    pub(super) fn new(
        plan: &BatchPlan,
        table: &SegmentTable,
        [group, occupying]: [usize; 2],
        words: &mut Vec<u32>,
    ) -> Self {
        // Rows are split wherever any span's ranges begin or end. So a tile's rows are consecutive keys of every span that contains them.
        let mut ranges = Vec::new();
        for (number, (id, _)) in plan.queries.iter().enumerate() {
            let of_span = table.ranges(*id);
            ranges.extend(of_span.map(|(row, n, position)| (number, row, n, position)));
        }
        let ends = |(_, row, n, _): &(usize, usize, usize, usize)| [*row, row + n];
        let mut cuts: Vec<usize> = ranges.iter().flat_map(ends).collect();
        cuts.sort_unstable();
        cuts.dedup();
        // A visit is a span, its position of the tile's first key, and its work: pairs of a head and a tile of queries.
        let mut tiles: BTreeMap<usize, (usize, Vec<[usize; 3]>)> = BTreeMap::new();
        let mut work = 0;
        for (number, row, n, position) in ranges {
            let from = cuts.partition_point(|cut| *cut < row);
            let pieces = cuts[from..].windows(2).take_while(|cut| cut[0] < row + n);
            for piece in pieces {
                for first in (piece[0]..piece[1]).step_by(KEY_TILE) {
                    let count = KEY_TILE.min(piece[1] - first);
                    let (_, visits) = tiles.entry(first).or_insert((count, Vec::new()));
                    let key = position + first - row;
                    let queries = &plan.queries[number].1;
                    let pairs = (queries.end - key.max(queries.start)).div_ceil(PASSING) * group;
                    visits.push([number, key, pairs]);
                    work += pairs;
                }
            }
        }
        words.clear();
        let most = (work / occupying).max(1);
        let (mut visit, mut partial_rows) = (0, 0);
        for (row, (count, visits)) in &tiles {
            let pieces = pieces(visits, most);
            for (number, [first, visits, part, parts]) in pieces.iter().enumerate() {
                let of_tile = if number == 0 { pieces.len() } else { 0 };
                words.extend([*row, *count, visit + first, *visits].map(|n| n as u32));
                words.extend([*part, *parts, partial_rows, of_tile].map(|n| n as u32));
                partial_rows += if pieces.len() > 1 { *count } else { 0 };
            }
            visit += visits.len();
        }
        let visits_at = words.len();
        let visits = tiles.values().flat_map(|(_, visits)| visits);
        words.extend(visits.flat_map(|[span, key, _]| [*span as u32, *key as u32]));
        Self {
            pieces: visits_at / KEY_TILE_WORDS,
            partial_rows,
            visits_at,
            address: 0,
        }
    }
}

/// Divides a tile's visits into pieces of at most `most` pairs each. A piece is the first visit, the number of visits, and the part and number of parts of each
/// visit.
fn pieces(visits: &[[usize; 3]], most: usize) -> Vec<[usize; 4]> {
    let mut pieces: Vec<[usize; 4]> = Vec::new();
    // The pairs that can still be added to the last piece.
    let mut room = 0;
    for (visit, [_, _, pairs]) in visits.iter().enumerate() {
        match pieces.last_mut() {
            Some([_, visits, ..]) if *pairs <= room => {
                *visits += 1;
                room -= pairs;
            }
            _ => {
                let parts = pairs.div_ceil(most);
                pieces.extend((0..parts).map(|part| [visit, 1, part, parts]));
                room = most.saturating_sub(*pairs);
            }
        }
    }
    pieces
}

/// The batch's tokens, grouped by id. One block adds all gradients to a row of the embedding's gradient.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EqualTokens {
    /// Indices of the batch's tokens, sorted by token id; equal tokens are in the batch's order.
    pub(super) order: Vec<u32>,
    /// Start of each id's tokens in the order, and then the end of the last one's.
    pub(super) starts: Vec<u32>,
    pub(super) ids: Vec<u32>,
}

impl EqualTokens {
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
    use super::pieces;

    #[test]
    fn a_tile_is_divided_into_pieces_of_at_most_so_many_pairs() {
        let whole = |first, visits| [first, visits, 0, 1];
        let cases = [
            (vec![2, 2, 2], 9, vec![whole(0, 3)]),
            (vec![2, 2, 2], 5, vec![whole(0, 2), whole(2, 1)]),
            (
                vec![1, 5, 1, 1],
                2,
                vec![
                    whole(0, 1),
                    [1, 1, 0, 3],
                    [1, 1, 1, 3],
                    [1, 1, 2, 3],
                    whole(2, 2),
                ],
            ),
            (vec![1, 1], 1, vec![whole(0, 1), whole(1, 1)]),
        ];
        for (pairs, most, expected) in cases {
            let visits: Vec<_> = pairs.iter().map(|pairs| [0, 0, *pairs]).collect();
            assert_eq!(pieces(&visits, most), expected);
        }
    }
}
