//! Inference: requests → [`sequence`] → [`blocks`] of the KV cache → [`scheduler`] → [`runner`].

pub(crate) mod blocks;
pub(crate) mod runner;
pub(crate) mod scheduler;
pub(crate) mod sequence;

#[cfg(test)]
mod tests;
