//! Divides a batch's spans into tasks. A task's queries read the same keys together, and are few enough to stay in the nearest cache.

use std::ops::Range;

use super::KEYS;
use crate::batch::Span;

/// Maximum number of queries of a task. Each counts once for all heads that share its keys.
const QUERIES: usize = 32;

/// Consecutive queries of one span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    /// Index of the first token in the batch.
    pub(super) token: usize,
    pub(super) len: usize,
    /// Number of keys that the first token attends to, by position; each later token attends to one more.
    pub(super) visible: usize,
    /// Index of the first token among the task's queries.
    pub(super) query: usize,
}

/// Rows of the store that some of a task's pieces read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) row: usize,
    pub(super) len: usize,
    /// Position of the first row's token, relative to the beginning of its block.
    pub(super) offset: usize,
    /// The pieces that read these rows.
    pub(super) pieces: Range<usize>,
}

/// Keys that one step of the online softmax covers: [`KEYS`] consecutive positions from a multiple of [`KEYS`] on. Their rows may be anywhere in the KV cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Block {
    /// The first key's position.
    pub(super) position: usize,
    /// Number of positions, up to the last that some piece attends to.
    pub(super) len: usize,
    pub(super) runs: Vec<Run>,
    /// The pieces that read any of the block's rows.
    pub(super) pieces: Range<usize>,
}

/// Queries that one thread computes, for one key head at a time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Task {
    pub(super) pieces: Vec<Piece>,
    /// The keys that the pieces read, in order of position.
    pub(super) blocks: Vec<Block>,
    pub(super) queries: usize,
}

impl Task {
    /// First row and end of the rows (query × head) of some pieces, with `share` heads for each query.
    pub(super) fn rows(&self, pieces: &Range<usize>, share: usize) -> (usize, usize) {
        match (
            self.pieces.get(pieces.start),
            self.pieces[..pieces.end].last(),
        ) {
            (Some(first), Some(last)) => (first.query * share, (last.query + last.len) * share),
            _ => (0, 0),
        }
    }

    /// `(row, token, head)` of all queries of the `share` heads that read a key head.
    pub(super) fn rows_of(
        &self,
        kv_head: usize,
        share: usize,
    ) -> impl Iterator<Item = (usize, usize, usize)> {
        self.pieces.iter().flat_map(move |piece| {
            (0..piece.len * share).map(move |i| {
                let (query, h) = (i / share, i % share);
                let row = (piece.query + query) * share + h;
                (row, piece.token + query, kv_head * share + h)
            })
        })
    }

    /// The blocks with a key that some query attends to, if each query attends to at most `window` keys. The other blocks would add only zeros.
    pub(super) fn read_through(&self, window: Option<usize>) -> impl Iterator<Item = &Block> {
        self.blocks.iter().filter(move |block| {
            let pieces = &self.pieces[block.pieces.clone()];
            let first = pieces.iter().map(|piece| piece.visible).min().unwrap_or(0);
            let start = window.map_or(0, |window| first.saturating_sub(window));
            block.position + block.len > start
        })
    }

    /// Adds the rows that some pieces read from `position` on. `kv` has the ranges of all pieces; these have the first `level` of them in common. Adjacent
    /// pieces read once what they share.
    fn read_level(
        &mut self,
        kv: &[&[(usize, usize)]],
        mut level: usize,
        mut position: usize,
        pieces: Range<usize>,
    ) {
        while let Some(&(row, len)) = kv[pieces.start].get(level)
            && kv[pieces.clone()]
                .iter()
                .all(|other| other.get(level) == Some(&(row, len)))
        {
            self.read(row, len, position, &pieces);
            (level, position) = (level + 1, position + len);
        }
        // The ranges differ from here on, so each group of equal ones has fewer pieces.
        let mut first = pieces.start;
        while first < pieces.end {
            let range = kv[first].get(level);
            let alike = kv[first..pieces.end].iter();
            let end = first + alike.take_while(|other| other.get(level) == range).count();
            if range.is_some() {
                self.read_level(kv, level, position, first..end);
            }
            first = end;
        }
    }

    /// Adds rows, the first with its token at `position`. They are split where blocks end, and end where no piece attends further.
    fn read(&mut self, row: usize, len: usize, position: usize, pieces: &Range<usize>) {
        let visible = self.pieces[pieces.clone()]
            .iter()
            .map(|p| p.visible + p.len - 1);
        let end = visible.max().unwrap_or(0).min(position + len);
        let mut at = position;
        while at < end {
            let (number, offset) = (at / KEYS, at % KEYS);
            let len = (KEYS - offset).min(end - at);
            let run = Run {
                row: row + at - position,
                len,
                offset,
                pieces: pieces.clone(),
            };
            at += len;
            match self
                .blocks
                .binary_search_by_key(&(number * KEYS), |b| b.position)
            {
                Ok(found) => {
                    let block = &mut self.blocks[found];
                    block.len = block.len.max(offset + len);
                    let (first, last) = (block.pieces.start, block.pieces.end);
                    block.pieces = first.min(pieces.start)..last.max(pieces.end);
                    block.runs.push(run);
                }
                Err(index) => {
                    let block = Block {
                        position: number * KEYS,
                        len: offset + len,
                        runs: vec![run],
                        pieces: pieces.clone(),
                    };
                    self.blocks.insert(index, block);
                }
            }
        }
    }
}

/// The tasks of a batch.
#[derive(Debug, Default)]
pub(in super::super) struct AttentionPlan {
    pub(super) tasks: Vec<Task>,
    /// Groups of task indices. Tasks of one group share rows of keys with each other and with no other tasks. In the backward pass they add to the same rows of
    /// gradients.
    pub(super) components: Vec<Vec<usize>>,
    /// Whether each row of keys has the same position for all its readers.
    pub(super) in_place: bool,
}

impl AttentionPlan {
    /// Plans a batch with checked spans.
    pub(in super::super) fn new(spans: &[Span]) -> Self {
        let mut tasks = Vec::new();
        let mut open: Vec<(usize, Piece)> = Vec::new();
        let mut queries = 0;
        for (index, span) in spans.iter().enumerate() {
            let total = span.kv.len();
            let mut done = 0;
            while done < span.q_len {
                let joins = open
                    .first()
                    .is_some_and(|(first, _)| first_range(&spans[*first]) == first_range(span));
                if queries == QUERIES || !joins {
                    close(&mut tasks, &mut open, &mut queries, spans);
                }
                let len = (span.q_len - done).min(QUERIES - queries);
                let piece = Piece {
                    token: span.q_start + done,
                    len,
                    visible: total - span.q_len + done + 1,
                    query: queries,
                };
                open.push((index, piece));
                queries += len;
                done += len;
            }
        }
        close(&mut tasks, &mut open, &mut queries, spans);
        let (components, in_place) = components(&tasks);
        Self {
            tasks,
            components,
            in_place,
        }
    }
}

/// Where a span's keys begin.
fn first_range(span: &Span) -> Option<&(usize, usize)> {
    span.kv.ranges().first()
}

/// Creates a task of the collected pieces, which are given with the indices of their spans.
fn close(
    tasks: &mut Vec<Task>,
    open: &mut Vec<(usize, Piece)>,
    queries: &mut usize,
    spans: &[Span],
) {
    if open.is_empty() {
        return;
    }
    let ranges = |(span, _): &(usize, Piece)| spans[*span].kv.ranges();
    let kv: Vec<&[(usize, usize)]> = open.iter().map(ranges).collect();
    let mut task = Task {
        pieces: open.drain(..).map(|(_, piece)| piece).collect(),
        queries: std::mem::take(queries),
        ..Task::default()
    };
    let all = 0..kv.len();
    task.read_level(&kv, 0, 0, all);
    tasks.push(task);
}

/// Tasks connected by common rows. Each list is in order, and the lists are in order of their first tasks. Also returns whether common rows have common
/// positions.
fn components(tasks: &[Task]) -> (Vec<Vec<usize>>, bool) {
    let mut intervals: Vec<(usize, usize, usize, usize)> = Vec::new();
    for (number, task) in tasks.iter().enumerate() {
        for block in &task.blocks {
            let interval = |run: &Run| {
                let position = block.position + run.offset;
                (run.row, run.row + run.len, number, position)
            };
            intervals.extend(block.runs.iter().map(interval));
        }
    }
    intervals.sort_unstable();
    let mut parent: Vec<usize> = (0..tasks.len()).collect();
    fn root(parent: &mut [usize], mut x: usize) -> usize {
        while parent[x] != x {
            parent[x] = parent[parent[x]];
            x = parent[x];
        }
        x
    }
    // For the rows that reach furthest so far: their end, their task, and the distance between their row numbers and positions.
    let mut reach = (0, 0, 0);
    let mut in_place = true;
    for (start, end, task, position) in intervals {
        let shift = start.wrapping_sub(position);
        if start < reach.0 {
            let (a, b) = (root(&mut parent, task), root(&mut parent, reach.1));
            parent[a.max(b)] = a.min(b);
            in_place &= shift == reach.2;
        }
        if end > reach.0 {
            reach = (end, task, shift);
        }
    }
    let mut lists: Vec<Vec<usize>> = vec![Vec::new(); tasks.len()];
    for task in 0..tasks.len() {
        let root = root(&mut parent, task);
        lists[root].push(task);
    }
    lists.retain(|list| !list.is_empty());
    (lists, in_place)
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::{AttentionPlan, Block};
    use crate::batch::Span;

    /// `(first row, number of rows, offset in the block, pieces)`.
    fn runs(block: &Block) -> Vec<(usize, usize, usize, Range<usize>)> {
        let runs = block.runs.iter();
        runs.map(|r| (r.row, r.len, r.offset, r.pieces.clone()))
            .collect()
    }

    fn span(q_start: usize, q_len: usize, kv: &[(usize, usize)]) -> Span {
        Span::new(q_start, q_len, kv.to_vec())
    }

    #[test]
    fn completions_of_a_prompt_share_a_task_and_read_the_prompt_once() {
        let plan = AttentionPlan::new(&[
            span(0, 5, &[(0, 5)]),
            span(5, 2, &[(0, 5), (5, 2)]),
            span(7, 3, &[(0, 5), (7, 3)]),
        ]);
        assert_eq!(plan.tasks.len(), 1);
        assert!(plan.in_place);
        let task = &plan.tasks[0];
        assert_eq!(task.queries, 10);
        let visible: Vec<usize> = task.pieces.iter().map(|p| p.visible).collect();
        assert_eq!(visible, [1, 6, 6]);
        assert_eq!(task.blocks.len(), 1);
        assert_eq!(
            runs(&task.blocks[0]),
            [(0, 5, 0, 0..3), (5, 2, 5, 1..2), (7, 3, 5, 2..3)]
        );
    }

    #[test]
    fn blocks_begin_at_multiples_of_their_size_in_any_rows() {
        let plan = AttentionPlan::new(&[span(0, 1, &[(100, 70), (16, 16), (48, 50)])]);
        let blocks = &plan.tasks[0].blocks;
        let sizes: Vec<_> = blocks.iter().map(|b| (b.position, b.len)).collect();
        assert_eq!(sizes, [(0, 64), (64, 64), (128, 8)]);
        assert_eq!(runs(&blocks[0]), [(100, 64, 0, 0..1)]);
        assert_eq!(
            runs(&blocks[1]),
            [(164, 6, 0, 0..1), (16, 16, 6, 0..1), (48, 42, 22, 0..1)]
        );
        assert_eq!(runs(&blocks[2]), [(90, 8, 0, 0..1)]);
    }

    #[test]
    fn rows_with_two_positions_are_detected() {
        let components_of = |second: &[(usize, usize)]| {
            let plan = AttentionPlan::new(&[span(0, 40, &[(0, 40)]), span(40, 1, second)]);
            (plan.components.len(), plan.in_place)
        };
        assert_eq!(components_of(&[(0, 30), (90, 1)]), (1, true));
        assert_eq!(components_of(&[(80, 5), (0, 30)]), (1, false));
        assert_eq!(components_of(&[(1, 30)]), (1, false));
        assert_eq!(components_of(&[(40, 30)]), (2, true));
    }

    #[test]
    fn separate_sequences_are_separate_components_and_long_ones_are_split() {
        let plan = AttentionPlan::new(&[span(0, 70, &[(0, 70)]), span(70, 1, &[(100, 40)])]);
        assert_eq!(plan.components, [vec![0, 1, 2], vec![3]]);
        assert!(plan.in_place);
        // Keys that no query of a task attends to are not read.
        let blocks = plan.tasks.iter().map(|task| task.blocks.iter());
        let read: Vec<usize> = blocks.map(|b| b.map(|b| b.len).sum()).collect();
        assert_eq!(read, [32, 64, 70, 40]);
    }
}
