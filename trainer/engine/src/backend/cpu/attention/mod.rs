//! Attention without copying keys or values: each row is read where it lies in the store.
//!
//! Lanes run over queries: all heads that share a key/value head, of all sequences with a common prefix. A score thus needs no sum across lanes, and a shared
//! prompt's keys are read once for all its completions. Softmax is computed online over blocks of keys that begin at fixed positions. A query's result depends
//! on its own keys in order of position. It does not depend on their rows, on the rest of the batch, or on how a prompt was split into chunks.

mod backward;
mod forward;
mod kernels;
mod ordered_add;
mod plan;

pub(super) use backward::{Gradients, backward};
pub(super) use forward::forward;
pub(super) use plan::AttentionPlan;

use super::simd::LANES;
use super::strided;
use crate::backend::Attention;

/// Number of positions in a block of keys. A block's scores are all computed before they are used.
const KEYS: usize = 64;

/// Rows of f32 in the arena. Several threads use them at once, each a different part.
#[derive(Clone, Copy)]
pub(super) struct RawRows {
    pub(super) start: *mut f32,
    pub(super) stride: usize,
    /// Number of rows.
    pub(super) count: usize,
    /// Number of elements from a row's first used one to its last.
    pub(super) width: usize,
    /// Distance between the heads of a row.
    pub(super) head: usize,
}

impl RawRows {
    /// Number of elements from the first used one to the last.
    fn reach(self) -> usize {
        strided(self.count, self.stride, self.width)
    }

    /// Whether the two have no element in common. Rows of one stride may lie side by side, as those of queries, keys and values do.
    pub(super) fn disjoint(self, other: Self) -> bool {
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

/// Panics if an output's rows overlap each other or another operand.
fn check(write: &[RawRows], read: &[RawRows]) {
    for (i, a) in write.iter().enumerate() {
        let mut others = write[i + 1..].iter().chain(read);
        assert!(
            (a.count < 2 || a.width <= a.stride) && others.all(|b| a.disjoint(*b)),
            "an operation's output overlaps another operand"
        );
    }
}

// SAFETY: `forward` and `backward` give each thread different elements to write, and threads read none that another writes, as `check` ensures. Several threads add to
// the rows of `dk` and `dv`, but in turns.
#[allow(unsafe_code)]
unsafe impl Send for RawRows {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl Sync for RawRows {}

/// Operands as pointers. The backend has checked that the rows named by the plan lie inside their buffers.
#[derive(Clone, Copy)]
pub(super) struct Operands {
    pub(super) q: RawRows,
    pub(super) k: RawRows,
    pub(super) v: RawRows,
    pub(super) shape: Attention,
}

impl Operands {
    /// Number of query heads that share a key head.
    fn share(&self) -> usize {
        self.shape.heads / self.shape.kv_heads
    }
}

/// One thread's working memory. It grows to the size of the largest task.
#[derive(Default)]
struct Scratch {
    memory: Vec<f32>,
}

thread_local! {
    static SCRATCH: std::cell::RefCell<Scratch> = std::cell::RefCell::default();
}

impl Scratch {
    /// Divides the memory into parts of at least the given sizes, each a multiple of the lanes. Their content is left over from the previous task.
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
    use super::{RawRows, check};

    /// Rows of `memory` from `start` on.
    fn rows(memory: &mut [f32], start: usize, [count, stride, width]: [usize; 3]) -> RawRows {
        let start = memory[start..].as_mut_ptr();
        RawRows {
            start,
            stride,
            count,
            width,
            head: 0,
        }
    }

    #[test]
    fn rows_are_disjoint_one_after_the_other_or_side_by_side() {
        let memory = &mut [0.0_f32; 100];
        for (a, b, disjoint) in [
            // One after the other, without and with an element in common.
            ((0, [4, 5, 5]), (20, [4, 5, 5]), true),
            ((0, [4, 5, 5]), (19, [4, 5, 5]), false),
            ((0, [4, 5, 3]), (18, [4, 7, 7]), true),
            ((0, [4, 5, 3]), (17, [4, 7, 7]), false),
            // Side by side, with different numbers of rows, or beginning at a later row.
            ((0, [4, 10, 6]), (6, [9, 10, 4]), true),
            ((0, [4, 10, 6]), (16, [2, 10, 4]), true),
            ((0, [4, 10, 6]), (5, [4, 10, 4]), false),
            ((0, [4, 10, 6]), (6, [4, 10, 5]), false),
            ((0, [4, 10, 6]), (6, [4, 9, 3]), false),
            // The same rows, and no rows at all.
            ((7, [1, 5, 5]), (7, [1, 5, 5]), false),
            ((0, [4, 5, 5]), (3, [0, 5, 5]), true),
        ] {
            let [a, b] = [a, b].map(|(start, shape)| rows(memory, start, shape));
            assert_eq!([a.disjoint(b), b.disjoint(a)], [disjoint; 2]);
        }
    }

    #[test]
    #[should_panic(expected = "overlaps")]
    fn an_output_whose_rows_overlap_each_other_is_rejected() {
        check(&[rows(&mut [0.0; 100], 0, [4, 5, 6])], &[]);
    }
}
