//! A batch's spans cut into tasks: queries that read the same keys together, few enough to stay in the nearest cache.

use std::ops::Range;

use crate::batch::Span;

/// Most queries of a task (each of them counts once for all heads that share its keys).
const QUERIES: usize = 32;

/// Consecutive queries of one span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    /// First token of the batch.
    pub(super) token: usize,
    /// Number of tokens.
    pub(super) len: usize,
    /// Keys that the first of them sees, by position; each next one sees one more.
    pub(super) visible: usize,
    /// Number of the first one among the task's queries.
    pub(super) query: usize,
}

/// Rows of the store that some of a task's pieces read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Keys {
    /// First row.
    pub(super) row: usize,
    /// Number of rows.
    pub(super) len: usize,
    /// Position of the first row's token in its sequence.
    pub(super) position: usize,
    /// The pieces that read them.
    pub(super) pieces: Range<usize>,
}

/// Queries that one thread computes, for one head of keys at a time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Task {
    pub(super) pieces: Vec<Piece>,
    /// What they read: for each piece in order of position.
    pub(super) keys: Vec<Keys>,
    /// Number of queries.
    pub(super) queries: usize,
}

/// Tasks of a batch.
#[derive(Debug, Default)]
pub(in super::super) struct Plan {
    pub(super) tasks: Vec<Task>,
    /// Tasks (by number) that share rows of keys with each other and with no others: what the backward pass must not split among threads.
    pub(super) components: Vec<Vec<usize>>,
}

impl Plan {
    /// Plans a batch whose spans have been checked.
    pub(in super::super) fn new(spans: &[Span]) -> Self {
        let mut tasks = Vec::new();
        let mut open: Vec<(usize, Piece)> = Vec::new();
        let mut queries = 0;
        for (index, span) in spans.iter().enumerate() {
            let total: usize = span.kv.iter().map(|(_, n)| n).sum();
            let mut done = 0;
            while done < span.q_len {
                let joins = open
                    .first()
                    .is_some_and(|(first, _)| spans[*first].kv.first() == span.kv.first());
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
        let components = components(&tasks);
        Self { tasks, components }
    }
}

/// Makes a task of the pieces at hand, given with their spans.
fn close(
    tasks: &mut Vec<Task>,
    open: &mut Vec<(usize, Piece)>,
    queries: &mut usize,
    spans: &[Span],
) {
    let Some(first) = open.first().map(|(span, _)| &spans[*span].kv) else {
        return;
    };
    let shared = open
        .iter()
        .map(|(span, _)| {
            let kv = &spans[*span].kv;
            kv.iter().zip(first).take_while(|(a, b)| a == b).count()
        })
        .min()
        .unwrap_or(0);
    let mut keys = Vec::new();
    let mut position = 0;
    for &(row, len) in &first[..shared] {
        keys.push(Keys {
            row,
            len,
            position,
            pieces: 0..open.len(),
        });
        position += len;
    }
    for (number, (span, _)) in open.iter().enumerate() {
        let mut position = position;
        for &(row, len) in &spans[*span].kv[shared..] {
            keys.push(Keys {
                row,
                len,
                position,
                pieces: number..number + 1,
            });
            position += len;
        }
    }
    tasks.push(Task {
        pieces: open.drain(..).map(|(_, piece)| piece).collect(),
        keys,
        queries: std::mem::take(queries),
    });
}

/// Tasks connected by common rows, each list in order; the lists in order of their first tasks.
fn components(tasks: &[Task]) -> Vec<Vec<usize>> {
    let mut intervals: Vec<(usize, usize, usize)> = Vec::new();
    for (number, task) in tasks.iter().enumerate() {
        let rows = task.keys.iter().filter(|k| k.len > 0);
        intervals.extend(rows.map(|k| (k.row, k.row + k.len, number)));
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
    let mut reach = (0, 0);
    for (start, end, task) in intervals {
        if start < reach.0 {
            let (a, b) = (root(&mut parent, task), root(&mut parent, reach.1));
            parent[a.max(b)] = a.min(b);
        }
        if end > reach.0 {
            reach = (end, task);
        }
    }
    let mut lists: Vec<Vec<usize>> = vec![Vec::new(); tasks.len()];
    for task in 0..tasks.len() {
        let root = root(&mut parent, task);
        lists[root].push(task);
    }
    lists.retain(|list| !list.is_empty());
    lists
}

#[cfg(test)]
mod tests {
    use super::Plan;
    use crate::batch::Span;

    fn span(q_start: usize, q_len: usize, kv: &[(usize, usize)]) -> Span {
        Span {
            q_start,
            q_len,
            kv: kv.to_vec(),
        }
    }

    #[test]
    fn completions_of_a_prompt_share_a_task_and_read_the_prompt_once() {
        let plan = Plan::new(&[
            span(0, 5, &[(0, 5)]),
            span(5, 2, &[(0, 5), (5, 2)]),
            span(7, 3, &[(0, 5), (7, 3)]),
        ]);
        assert_eq!(plan.tasks.len(), 1);
        let task = &plan.tasks[0];
        assert_eq!(task.queries, 10);
        let visible: Vec<usize> = task.pieces.iter().map(|p| p.visible).collect();
        assert_eq!(visible, [1, 6, 6]);
        let keys: Vec<_> = task
            .keys
            .iter()
            .map(|k| (k.row, k.position, k.pieces.clone()))
            .collect();
        assert_eq!(keys, [(0, 0, 0..3), (5, 5, 1..2), (7, 5, 2..3)]);
    }

    #[test]
    fn sequences_apart_are_components_apart_and_long_ones_are_cut() {
        let plan = Plan::new(&[span(0, 70, &[(0, 70)]), span(70, 1, &[(100, 40)])]);
        assert_eq!(plan.tasks.len(), 4);
        assert_eq!(plan.components, [vec![0, 1, 2], vec![3]]);
    }
}
