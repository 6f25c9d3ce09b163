//! A batch in the layout that the kernels read: one piece of memory, whose layout depends on sizes alone, except for the last parts; and the table of segments.

use std::collections::BTreeMap;
use std::iter::repeat_n;

use super::driver::Address;
use super::segments::SegmentTable;
use crate::batch::{Batch, Span};

/// Number of queries of a tile of attention, as in `kernels/attention.cu`.
const QUERY_TILE: usize = 64;
/// Number of rows of keys of a tile in attention's backward pass.
pub(super) const KEY_TILE: usize = 64;
/// The store's row of a padding token.
pub(super) const NO_ROW: u32 = u32::MAX;

/// Positions of the parts of a batch, in words.
#[derive(Debug, Clone, Default)]
pub(super) struct BatchPlan {
    /// Number of tokens, including padding.
    pub(super) tokens: usize,
    /// Number of spans of one query, which come first. Spans of padding tokens count, but have no query.
    pub(super) single: usize,
    /// Number of tiles of queries.
    pub(super) tiles: usize,
    /// Number of tiles of spans of one query, which come first.
    pub(super) single_tiles: usize,
    /// Number of rows of keys and values that the spans need.
    pub(super) store_rows: usize,
    /// Ids of the spans' rows, in the order of the spans on the device without padding.
    pub(super) ids: Vec<u64>,
    /// Number of segments to be written into the table.
    pub(super) updates: usize,
    positions_at: usize,
    rows_at: usize,
    spans_at: usize,
    tiles_at: usize,
    updates_at: usize,
    /// Address on the device.
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
        Self {
            tokens,
            single: single + padding,
            tiles: (updates_at - tiles_at) / 2,
            single_tiles,
            store_rows: ends.max().unwrap_or(0),
            ids: order.iter().map(|span| span.kv.id()).collect(),
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

/// For each tile of rows of keys, the spans that contain it. Attention's backward pass goes through them.
#[derive(Debug, Clone, Default)]
pub(super) struct KeyTiles {
    /// Number of tiles.
    pub(super) count: usize,
    visits_at: usize,
    /// Address on the device.
    pub(super) address: Address,
}

impl KeyTiles {
    pub(super) fn visits(&self) -> Address {
        self.address + 4 * self.visits_at as u64
    }

    /// Lays out the tiles (`struct KeyTile`, then `struct Visit`) of the table's current batch, which is not padded, into `words`.
    pub(super) fn new(plan: &BatchPlan, table: &SegmentTable, words: &mut Vec<u32>) -> Self {
        // Rows are split wherever any span's ranges begin or end, so that a tile's rows are consecutive keys of every span that contains them.
        let mut ranges = Vec::new();
        for (number, id) in plan.ids.iter().enumerate() {
            let of_span = table.ranges(*id);
            ranges.extend(of_span.map(|(row, n, position)| (number, row, n, position)));
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

/// The batch's tokens, grouped by id. One block adds all gradients to a row of the embedding's gradient.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EqualTokens {
    /// Indices of the batch's tokens, sorted by token id; equal tokens are in the batch's order.
    pub(super) order: Vec<u32>,
    /// Start of each id's tokens in the order, and then the end of the last one's.
    pub(super) starts: Vec<u32>,
    /// The ids.
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
