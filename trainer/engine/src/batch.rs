//! The input of a forward pass, and the numbers that it returns to the caller.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A prompt and its completions. The forward and backward passes compute the prompt once for all of them.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Group {
    /// Token ids of the prompt; at least one.
    pub prompt: Arc<[u32]>,
    /// Token ids of each completion, its end token included; at least one token each.
    pub completions: Vec<Vec<u32>>,
}

/// Per-token numbers of one completion under the current policy at the sampling temperature, with one entry for each of its tokens.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TokenStats {
    /// log π(yₜ | prompt, y₍<t₎), natural logarithm.
    pub logp: Vec<f32>,
    /// Entropy of π(· | prompt, y₍<t₎), in nats.
    pub entropy: Vec<f32>,
}

/// Rows of the KV cache that hold a sequence's keys and values, in order of position.
///
/// Rows are only ever added, at the end. So a backend that has seen some rows with a [`KvRows::id`] reads only the rows after them in any later batch, wherever
/// the sequence's span is in it. A clone has an id of its own.
#[derive(Debug)]
pub struct KvRows {
    id: u64,
    ranges: Vec<(usize, usize)>,
    len: usize,
    end: usize,
}

impl KvRows {
    /// Differs from the id of any other value in this process.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Ranges as `(first row, number of rows)`; none is empty. The last one may grow until another one follows.
    pub fn ranges(&self) -> &[(usize, usize)] {
        &self.ranges
    }

    /// Number of rows, which is the number of positions.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Number of rows that a KV cache needs to contain all of them.
    pub fn end(&self) -> usize {
        self.end
    }

    /// Adds `n` consecutive rows as a range of their own.
    pub fn push(&mut self, row: usize, n: usize) {
        if n > 0 {
            self.ranges.push((row, n));
            self.count(row, n);
        }
    }

    /// Adds `n` consecutive rows. If they follow the last range's rows, that range grows.
    pub fn append(&mut self, row: usize, n: usize) {
        match self.ranges.last_mut() {
            Some((first, length)) if *first + *length == row => {
                *length += n;
                self.count(row, n);
            }
            _ => self.push(row, n),
        }
    }

    fn count(&mut self, row: usize, n: usize) {
        self.len = self.len.saturating_add(n);
        self.end = self.end.max(row.saturating_add(n));
    }
}

impl Default for KvRows {
    fn default() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            ranges: Vec::new(),
            len: 0,
            end: 0,
        }
    }
}

impl Clone for KvRows {
    fn clone(&self) -> Self {
        Self {
            ranges: self.ranges.clone(),
            len: self.len,
            end: self.end,
            ..Self::default()
        }
    }
}

impl From<Vec<(usize, usize)>> for KvRows {
    fn from(ranges: Vec<(usize, usize)>) -> Self {
        let mut rows = Self::default();
        for (row, n) in ranges {
            rows.push(row, n);
        }
        rows
    }
}

/// Compares the rows, not the ids.
impl PartialEq for KvRows {
    fn eq(&self, other: &Self) -> bool {
        self.ranges == other.ranges
    }
}

impl Eq for KvRows {}

/// The queries of one sequence in a packed batch, and the rows of keys and values that they attend to.
///
/// The rows of `kv`, concatenated in order, are the sequence's positions `0..n`. The batch's tokens `q_start..q_start + q_len` are its last `q_len` positions.
/// Query `j` attends to the first `n - q_len + j + 1` of those rows (fewer under a sliding window). The same type thus describes a decode step (`q_len` 1), a
/// chunk of a prompt, a packed training sequence, and completions that share their prompt's rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// First token of the batch that belongs to the span.
    pub q_start: usize,
    /// Number of tokens.
    pub q_len: usize,
    /// The rows of keys and values in the KV cache.
    pub kv: KvRows,
}

impl Span {
    /// A span of `q_len` tokens from `q_start` on, with its keys in these ranges of rows.
    pub fn new(q_start: usize, q_len: usize, kv: impl Into<KvRows>) -> Self {
        Self {
            q_start,
            q_len,
            kv: kv.into(),
        }
    }
}

/// A packed batch of tokens for one forward pass.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Batch {
    /// Token ids.
    pub tokens: Vec<u32>,
    /// Position of each token in its sequence, for the rotary embedding.
    pub positions: Vec<u32>,
    /// Row of the KV cache that each token's key and value are written to (vLLM's slot mapping).
    pub rows: Vec<usize>,
    /// The spans. Every token is in exactly one.
    pub spans: Vec<Span>,
}

impl Batch {
    /// One sequence from its first token on, in the first rows of the KV cache.
    pub fn text(tokens: &[u32]) -> Self {
        let mut batch = Self::default();
        batch.add(tokens, vec![(0, tokens.len())]);
        batch
    }

    /// Adds the last tokens of a sequence. `kv` has the rows of the keys and values of all its tokens, these included.
    pub fn add(&mut self, tokens: &[u32], kv: impl Into<KvRows>) {
        let (start, count, kv) = (self.rows.len(), tokens.len(), kv.into());
        self.tokens.extend(tokens);
        let positions = kv.len().saturating_sub(count)..kv.len();
        self.positions.extend(positions.map(|p| p as u32));
        let ranges = kv.ranges.iter().rev();
        let rows = ranges.flat_map(|&(first, n)| (first..first + n).rev());
        self.rows.extend(rows.take(count));
        self.rows[start..].reverse();
        self.spans.push(Span::new(start, count, kv));
    }

    /// Checks that the batch is consistent: every token is in exactly one span, no span is longer than its keys, and all rows are below `store_rows`. The error
    /// states what is wrong.
    pub fn check(&self, store_rows: usize) -> Result<(), String> {
        let tokens = self.tokens.len();
        if self.positions.len() != tokens || self.rows.len() != tokens {
            return Err(format!(
                "a batch of {tokens} tokens has {} positions and {} rows",
                self.positions.len(),
                self.rows.len()
            ));
        }
        let outside = |row: usize, n: usize| row.checked_add(n).is_none_or(|end| end > store_rows);
        if let Some(row) = self.rows.iter().find(|row| outside(**row, 1)) {
            return Err(format!("row {row} lies outside a KV cache of {store_rows}"));
        }
        let mut covered = vec![false; tokens];
        for span in &self.spans {
            let end = span.q_start.checked_add(span.q_len);
            let Some(range) = end.and_then(|end| covered.get_mut(span.q_start..end)) else {
                return Err(format!(
                    "a span of {} tokens at {} lies outside a batch of {tokens}",
                    span.q_len, span.q_start
                ));
            };
            if range.iter().any(|seen| *seen) {
                return Err(format!("the token {} lies in two spans", span.q_start));
            }
            range.fill(true);
            if span.kv.end() > store_rows {
                return Err(format!(
                    "a span reads row {} of a KV cache of {store_rows} rows",
                    span.kv.end() - 1
                ));
            }
            if span.kv.len() < span.q_len {
                return Err(format!(
                    "a span of {} tokens has fewer keys than tokens",
                    span.q_len
                ));
            }
        }
        if covered.contains(&false) {
            return Err("a token of the batch lies in no span".into());
        }
        Ok(())
    }
}
