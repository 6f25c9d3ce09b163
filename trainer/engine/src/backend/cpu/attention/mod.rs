//! Attention without copying keys or values: each reads its rows where they lie in the store.
//!
//! Lanes run over queries (all heads that share a key/value head, of all sequences that share a prefix), so a score needs no sum across lanes and a shared
//! prompt's keys are read once for all its completions. Softmax is computed online over blocks of keys that begin at fixed positions; a query's result depends on its
//! own keys in order of position, not on the rows that they lie in, on what else is in the batch or on how a prompt was cut into chunks.

mod backward;
mod forward;
mod kernels;
mod plan;

pub(super) use backward::{Gradients, backward};
pub(super) use forward::forward;
pub(super) use plan::Plan;

use super::lanes::LANES;
use crate::backend::Attention;

/// Positions of a block of keys, whose scores are computed before they are used.
const KEYS: usize = 64;

/// Rows of f32 in the arena that several threads use at once, each its own part of them.
#[derive(Clone, Copy)]
pub(super) struct Raw {
    pub(super) start: *mut f32,
    pub(super) stride: usize,
}

// SAFETY: `forward` and `backward` give each thread other elements to write, and read none that another writes.
#[allow(unsafe_code)]
unsafe impl Send for Raw {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl Sync for Raw {}

/// Operands as pointers. Rows that the plan names lie inside their buffers: the backend checked it.
#[derive(Clone, Copy)]
pub(super) struct Operands {
    pub(super) q: Raw,
    pub(super) k: Raw,
    pub(super) v: Raw,
    pub(super) shape: Attention,
}

impl Operands {
    /// Heads of queries that share a head of keys.
    fn share(&self) -> usize {
        self.shape.heads / self.shape.kv_heads
    }
}

/// One thread's working memory, grown to the largest task once.
#[derive(Default)]
struct Scratch {
    memory: Vec<f32>,
}

thread_local! {
    static SCRATCH: std::cell::RefCell<Scratch> = std::cell::RefCell::default();
}

impl Scratch {
    /// Cuts the memory into parts of at least the given sizes, each a multiple of the lanes; they hold what the task before left.
    fn parts<const N: usize>(&mut self, sizes: [usize; N]) -> [&mut [f32]; N] {
        let sizes = sizes.map(|n| n.next_multiple_of(LANES));
        let total = sizes.iter().sum();
        if self.memory.len() < total {
            self.memory.resize(total, 0.0);
        }
        let mut rest = &mut self.memory[..total];
        sizes.map(|n| {
            let (part, after) = std::mem::take(&mut rest).split_at_mut(n);
            rest = after;
            part
        })
    }
}
