//! What goes into a forward pass and what comes back to the caller.

use std::sync::Arc;

/// A prompt and completions of it. The prompt is computed once for all of them, forward and backward.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// Token ids of the prompt; at least one.
    pub prompt: Arc<[u32]>,
    /// Token ids of each completion, its end token included; each at least one.
    pub completions: Vec<Vec<u32>>,
}

/// Per-token numbers of one completion under the current policy at the sampling temperature; one entry a completion token.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TokenStats {
    /// log π(yₜ | prompt, y₍<t₎), natural logarithm.
    pub logp: Vec<f32>,
    /// Entropy of π(· | prompt, y₍<t₎), in nats.
    pub entropy: Vec<f32>,
}

/// Queries of one sequence in a packed batch, and the key/value rows that they see.
///
/// The rows of `kv`, concatenated in order, are the sequence's positions `0..n`; the batch's tokens `q_start..q_start + q_len` are its
/// last `q_len` positions. Query `j` sees the first `n - q_len + j + 1` of those rows (fewer under a sliding window). So one description serves a decode
/// step (`q_len` 1), a chunk of a prompt, a packed training sequence, and completions that share their prompt's rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// First token of the batch that belongs to the span.
    pub q_start: usize,
    /// Number of tokens.
    pub q_len: usize,
    /// `(first row, number of rows)` in the key/value store, in order of position.
    pub kv: Vec<(usize, usize)>,
}

/// A packed batch of tokens for one forward pass.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Batch {
    /// Token ids.
    pub tokens: Vec<u32>,
    /// Position of each token in its sequence, for rope.
    pub positions: Vec<u32>,
    /// Row of the key/value store that each token's key and value are written to.
    pub rows: Vec<usize>,
    /// Who attends to whom. Covers every token exactly once.
    pub spans: Vec<Span>,
}
