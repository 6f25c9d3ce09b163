//! Attention without copying keys or values: each reads its rows where they lie in the store.
//!
//! Lanes run over queries (all heads that share a key/value head, of all sequences that share a prefix), so a score needs no sum across lanes and a shared
//! prompt's keys are read once for all its completions. Softmax is computed online over blocks of keys that begin at fixed positions; a query's result depends on its
//! own keys in order of position, not on the rows that they lie in, on what else is in the batch or on how a prompt was cut into chunks.

mod backward;
mod forward;
mod kernels;
mod plan;
mod turns;

pub(super) use backward::{Gradients, backward};
pub(super) use forward::forward;
pub(super) use plan::AttentionPlan;

use super::lanes::LANES;
use super::strided;
use crate::backend::Attention;

/// Positions of a block of keys, whose scores are computed before they are used.
const KEYS: usize = 64;

/// Rows of f32 in the arena that several threads use at once, each its own part of them.
#[derive(Clone, Copy)]
pub(super) struct Raw {
    pub(super) start: *mut f32,
    pub(super) stride: usize,
    /// Number of rows.
    pub(super) count: usize,
    /// Elements of a row that are used.
    pub(super) width: usize,
}

impl Raw {
    /// Elements from the first that is used to the last.
    fn reach(self) -> usize {
        strided(self.count, self.stride, self.width)
    }

    /// Whether the two have no element in common. Rows of one stride may lie side by side, as those of queries, keys and values do.
    fn apart(self, other: Self) -> bool {
        let (low, high) = if self.start <= other.start {
            (self, other)
        } else {
            (other, self)
        };
        let between = (high.start.addr() - low.start.addr()) / size_of::<f32>();
        let side_by_side = || {
            let column = between.checked_rem(low.stride);
            let fits = |c: usize| low.width <= c && c + high.width <= low.stride;
            low.stride == high.stride && column.is_some_and(fits)
        };
        high.reach() == 0 || low.reach() <= between || side_by_side()
    }
}

/// Holds an operation to outputs whose rows overlap nothing, not even each other.
fn check(write: &[Raw], read: &[Raw]) {
    for (i, a) in write.iter().enumerate() {
        let mut others = write[i + 1..].iter().chain(read);
        assert!(
            (a.count < 2 || a.width <= a.stride) && others.all(|b| a.apart(*b)),
            "an operation's output overlaps another operand"
        );
    }
}

// SAFETY: `forward` and `backward` give each thread other elements to write, and read none that another writes: `check` saw to that. Rows of `dk` and `dv`, which
// several threads add to, they add to in turns.
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

#[cfg(test)]
mod tests {
    use super::{Raw, check};

    /// Rows of `memory` from `start` on.
    fn rows(memory: &mut [f32], start: usize, [count, stride, width]: [usize; 3]) -> Raw {
        let start = memory[start..].as_mut_ptr();
        Raw {
            start,
            stride,
            count,
            width,
        }
    }

    #[test]
    fn rows_are_apart_behind_each_other_or_side_by_side() {
        let memory = &mut [0.0_f32; 100];
        for (a, b, apart) in [
            // Behind each other, with and without an element in common.
            ((0, [4, 5, 5]), (20, [4, 5, 5]), true),
            ((0, [4, 5, 5]), (19, [4, 5, 5]), false),
            ((0, [4, 5, 3]), (18, [4, 7, 7]), true),
            ((0, [4, 5, 3]), (17, [4, 7, 7]), false),
            // Side by side, with rows of another number, or begun further on.
            ((0, [4, 10, 6]), (6, [9, 10, 4]), true),
            ((0, [4, 10, 6]), (16, [2, 10, 4]), true),
            ((0, [4, 10, 6]), (5, [4, 10, 4]), false),
            ((0, [4, 10, 6]), (6, [4, 10, 5]), false),
            ((0, [4, 10, 6]), (6, [4, 9, 3]), false),
            // The same, and nothing at all.
            ((7, [1, 5, 5]), (7, [1, 5, 5]), false),
            ((0, [4, 5, 5]), (3, [0, 5, 5]), true),
        ] {
            let [a, b] = [a, b].map(|(start, shape)| rows(memory, start, shape));
            assert_eq!([a.apart(b), b.apart(a)], [apart; 2]);
        }
    }

    #[test]
    #[should_panic(expected = "overlaps")]
    fn an_output_whose_rows_overlap_each_other_is_refused() {
        check(&[rows(&mut [0.0; 100], 0, [4, 5, 6])], &[]);
    }
}
