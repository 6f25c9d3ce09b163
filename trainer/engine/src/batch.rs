//! The input of a forward pass, and the numbers that it returns to the caller.

use std::sync::Arc;

/// A prompt and its completions. The forward and backward passes compute the prompt once for all of them.
#[derive(Debug, Clone, PartialEq)]
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
    /// `(first row, number of rows)` in the KV cache, in order of position.
    pub kv: Vec<(usize, usize)>,
}

/// A packed batch of tokens for one forward pass.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Batch {
    /// Token ids.
    pub tokens: Vec<u32>,
    /// Position of each token in its sequence, for the rotary embedding.
    pub positions: Vec<u32>,
    /// Row of the KV cache that each token's key and value are written to.
    pub rows: Vec<usize>,
    /// The spans. Every token is in exactly one.
    pub spans: Vec<Span>,
}

impl Batch {
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
            if let Some((row, n)) = span.kv.iter().find(|(row, n)| outside(*row, *n)) {
                return Err(format!(
                    "rows {row} to {row} + {n} lie outside a KV cache of {store_rows}"
                ));
            }
            if span.kv.iter().map(|(_, n)| n).sum::<usize>() < span.q_len {
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
