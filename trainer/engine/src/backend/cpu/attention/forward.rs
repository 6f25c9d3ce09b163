//! Forward pass: online softmax (Milakov & Gimelshein 2018; Dao et al. 2022) over a task's keys.

#![allow(unsafe_code)]

use std::ops::Range;

use super::super::activation::capped;
use super::super::simd::{LANES, Lanes, SimdLevel, at_level};
use super::kernels::{QUAD, Weighted, combine, scores};
use super::plan::{AttentionPlan, Block, Run, Task};
use super::{KEYS, Operands, RawRows, SCRATCH, Scratch, check};

/// A maximum that is below all scores but finite, so that exp(−∞ − maximum) is 0 and not NaN.
const BELOW_ALL: f32 = -1e30;

/// One task for one key head.
pub(super) struct HeadTask<'a> {
    task: &'a Task,
    kv_head: usize,
    operands: Operands,
    y: RawRows,
    lse: *mut f32,
}

#[inline(always)]
fn unit_body<L: Lanes>(unit: &HeadTask<'_>, scratch: &mut Scratch) {
    let HeadTask {
        task,
        kv_head,
        operands,
        ..
    } = unit;
    let (share, depth) = (operands.share(), operands.shape.head_dim);
    let rows = task.queries * share;
    let lanes = if rows <= QUAD {
        QUAD
    } else {
        rows.next_multiple_of(LANES)
    };
    let [q, s, out, max, sum, fade, first_seen, seen] = scratch.parts([
        depth * lanes,
        KEYS * lanes,
        rows * depth,
        lanes,
        lanes,
        lanes,
        lanes,
        lanes,
    ]);
    let scale = operands.shape.scale;
    // SAFETY: the plan's tokens lie in the operands' buffers.
    unsafe { transpose(q, lanes, task, operands.q, *kv_head, share, depth, scale) };
    out.fill(0.0);
    max.fill(BELOW_ALL);
    sum.fill(0.0);
    visible(first_seen, seen, task, share, operands.shape.window);
    let blocks = || task.read_through(operands.shape.window);
    let mut prefetcher = Prefetcher {
        runs: blocks().flat_map(|block| {
            let runs = |from: RawRows| block.runs.iter().map(move |run| (from, run));
            runs(operands.k).chain(runs(operands.v))
        }),
        kv_head: *kv_head,
        depth,
        next: std::ptr::null(),
        stride: 0,
        left: 0,
    };
    prefetcher.prefetch::<L>(AHEAD);
    for block in blocks() {
        let (first, last) = task.rows(&block.pieces, share);
        for run in &block.runs {
            let (first, last) = task.rows(&run.pieces, share);
            for part in parts(run.len, last - first) {
                prefetcher.prefetch::<L>(part.len());
                // SAFETY: the plan's rows lie in the stores; scratch parts have the sizes given.
                unsafe {
                    let stride = operands.k.stride;
                    let head = kv_head * operands.k.head;
                    let k = operands.k.start.add((run.row + part.start) * stride + head);
                    let s = s.as_mut_ptr().add((run.offset + part.start) * lanes);
                    let (q, keys) = (q.as_ptr(), part.len());
                    scores::<L>(s, lanes, first, last, k, stride, q, depth, keys);
                }
            }
        }
        if lanes == QUAD {
            let chunks = block.len.div_ceil(LANES / QUAD);
            if let Some(cap) = operands.shape.soft_cap {
                cap_scores::<L>(s, LANES, 0, LANES, chunks, cap);
            }
            s[block.len * QUAD..chunks * LANES].fill(f32::NEG_INFINITY);
            mask(s, lanes, 0..QUAD, rows, first_seen, seen, block);
            softmax_of_quads::<L>(s, chunks, max, sum, fade);
        } else {
            let (from, to) = (first / LANES * LANES, last.next_multiple_of(LANES));
            if let Some(cap) = operands.shape.soft_cap {
                cap_scores::<L>(s, lanes, from, to, block.len, cap);
            }
            mask(s, lanes, from..to, rows, first_seen, seen, block);
            softmax::<L>(s, lanes, from, to, block.len, max, sum, fade);
        }
        for r in first..last {
            if fade[r] != 1.0 {
                for x in &mut out[r * depth..(r + 1) * depth] {
                    *x *= fade[r];
                }
            }
        }
        for run in &block.runs {
            let (first, last) = task.rows(&run.pieces, share);
            for part in parts(run.len, last - first) {
                prefetcher.prefetch::<L>(part.len());
                // SAFETY: as above.
                unsafe {
                    let (stride, head) = (operands.v.stride, kv_head * operands.v.head);
                    let weighted = Weighted {
                        weights: s.as_ptr().add((run.offset + part.start) * lanes + first),
                        row_stride: 1,
                        term_stride: lanes,
                        values: operands.v.start.add((run.row + part.start) * stride + head),
                        value_stride: stride,
                        terms: part.len(),
                    };
                    let out = out.as_mut_ptr().add(first * depth);
                    combine::<L>(out, depth, weighted, last - first, depth);
                }
            }
        }
    }
    for (r, token, head) in task.rows_of(*kv_head, share) {
        let inverse = 1.0 / sum[r];
        // SAFETY: the plan's tokens lie in the operands' buffers, and no other unit writes this token's head.
        unsafe {
            let y = unit.y.start.add(token * unit.y.stride + head * depth);
            for d in 0..depth {
                *y.add(d) = out[r * depth + d] * inverse;
            }
            let lse = unit.lse.add(token * operands.shape.heads + head);
            *lse = max[r] + sum[r].ln();
        }
    }
}
at_level! {
    fn run_unit(unit: &HeadTask<'_>, scratch: &mut Scratch) = unit_body
}

/// Number of rows by which prefetching is ahead of reading: as many as memory delivers during a block's softmax.
const AHEAD: usize = 32;

/// Parts of a run; memory is prefetched between them. With few queries, a key takes less time to compute than to load, so these parts are short.
fn parts(keys: usize, rows: usize) -> impl Iterator<Item = Range<usize>> {
    let step = if rows <= LANES { LANES } else { KEYS };
    (0..keys)
        .step_by(step)
        .map(move |from| from..keys.min(from + step))
}

/// Prefetches one head's keys and values in the order in which they are read. They lie too far apart for the processor's own prefetching.
struct Prefetcher<I> {
    /// The runs that follow.
    runs: I,
    kv_head: usize,
    depth: usize,
    /// The current run's next row, and the number of its rows that are left.
    next: *const f32,
    stride: usize,
    left: usize,
}

impl<'a, I: Iterator<Item = (RawRows, &'a Run)>> Prefetcher<I> {
    /// Prefetches the next `count` rows.
    #[inline(always)]
    fn prefetch<L: Lanes>(&mut self, mut count: usize) {
        while count > 0 {
            if self.left == 0 {
                let Some((from, run)) = self.runs.next() else {
                    return;
                };
                let first = run.row * from.stride + self.kv_head * from.head;
                self.next = from.start.wrapping_add(first);
                (self.stride, self.left) = (from.stride, run.len);
            }
            let rows = count.min(self.left);
            for _ in 0..rows {
                for d in (0..self.depth).step_by(LANES) {
                    L::prefetch(self.next.wrapping_add(d));
                }
                self.next = self.next.wrapping_add(self.stride);
            }
            self.left -= rows;
            count -= rows;
        }
    }
}

/// Writes for each lane the positions of its query's first key and after its last key; 0 and 0 for lanes beyond the last row.
pub(super) fn visible(
    first_seen: &mut [f32],
    seen: &mut [f32],
    task: &Task,
    share: usize,
    window: Option<usize>,
) {
    first_seen.fill(0.0);
    seen.fill(0.0);
    for piece in &task.pieces {
        for i in 0..piece.len {
            let end = piece.visible + i;
            let start = window.map_or(0, |window| end.saturating_sub(window));
            let r = (piece.query + i) * share;
            first_seen[r..r + share].fill(start as f32);
            seen[r..r + share].fill(end as f32);
        }
    }
}

/// `cap · tanh(score / cap)`.
#[inline(always)]
pub(super) fn cap_scores<L: Lanes>(
    s: &mut [f32],
    lanes: usize,
    from: usize,
    to: usize,
    keys: usize,
    cap: f32,
) {
    for j in 0..keys {
        let row = &mut s[j * lanes + from..j * lanes + to];
        for s in row.as_chunks_mut::<LANES>().0 {
            capped(L::get(s), cap).put(s);
        }
    }
}

/// Sets scores to −∞ where a lane's query does not attend to the key, for the lanes `of`. Lanes from `rows` on have no query.
#[inline(always)]
pub(super) fn mask(
    s: &mut [f32],
    lanes: usize,
    of: Range<usize>,
    rows: usize,
    first_seen: &[f32],
    seen: &[f32],
    block: &Block,
) {
    let (start, end) = (block.position as f32, (block.position + block.len) as f32);
    let rows = of.start..of.end.min(rows);
    let all_seen = seen[rows.clone()].iter().all(|n| *n >= end);
    if all_seen && first_seen[rows].iter().all(|n| *n <= start) {
        return;
    }
    let (first_seen, seen) = (&first_seen[of.clone()], &seen[of.clone()]);
    for (j, row) in s.chunks_exact_mut(lanes).enumerate().take(block.len) {
        let position = (block.position + j) as f32;
        for ((s, first), seen) in row[of.clone()].iter_mut().zip(first_seen).zip(seen) {
            let hidden = position < *first || position >= *seen;
            *s = if hidden { f32::NEG_INFINITY } else { *s };
        }
    }
}

/// Replaces scores by exp(score − new maximum), and updates maxima and sums. `fade` is the factor by which earlier results shrink.
#[inline(always)]
fn softmax<L: Lanes>(
    s: &mut [f32],
    lanes: usize,
    from: usize,
    to: usize,
    keys: usize,
    max: &mut [f32],
    sum: &mut [f32],
    fade: &mut [f32],
) {
    assert!(
        keys * lanes <= s.len() && to <= lanes && (to - from).is_multiple_of(LANES),
        "scores have their rows"
    );
    let s = s.as_mut_ptr();
    let mut lane = from;
    while lane < to {
        let group = lane..lane + LANES;
        let state = [
            &mut max[group.clone()],
            &mut sum[group.clone()],
            &mut fade[group],
        ];
        let [Some(max), Some(sum), Some(fade)] =
            state.map(|x| x.as_chunks_mut::<LANES>().0.first_mut())
        else {
            return;
        };
        // SAFETY: `s` has at least `keys` rows of `lanes` elements.
        let column = |j: usize| unsafe { s.add(j * lanes + lane) };
        let old = L::get(max);
        let mut new = old;
        for j in 0..keys {
            // SAFETY: as above.
            new = unsafe { L::load(column(j)) }.max(new);
        }
        let shrink = old.sub(new).exp();
        let mut total = L::get(sum).mul(shrink);
        for j in 0..keys {
            // SAFETY: as above.
            unsafe {
                let p = L::load(column(j)).sub(new).exp();
                total = total.add(p);
                p.store(column(j));
            }
        }
        new.put(max);
        total.put(sum);
        shrink.put(fade);
        lane += LANES;
    }
}

/// Like [`softmax`], for rows of [`QUAD`] lanes: `chunks` vectors, each with the scores of four keys.
#[inline(always)]
fn softmax_of_quads<L: Lanes>(
    s: &mut [f32],
    chunks: usize,
    max: &mut [f32],
    sum: &mut [f32],
    fade: &mut [f32],
) {
    let s = &mut s.as_chunks_mut::<LANES>().0[..chunks];
    let mut largest = L::splat(f32::NEG_INFINITY);
    for s in &*s {
        largest = L::get(s).max(largest);
    }
    let (largest, mut shift) = (largest.array(), [0.0; LANES]);
    for r in 0..QUAD {
        let keys = largest[r..].iter().step_by(QUAD);
        let new = keys.fold(max[r], |a, b| if *b > a { *b } else { a });
        shift[r..].iter_mut().step_by(QUAD).for_each(|x| *x = new);
    }
    // One row of lanes for the old maxima.
    let mut shrink = [0.0; LANES];
    shrink[..QUAD].copy_from_slice(&max[..QUAD]);
    let shift_lanes = L::get(&shift);
    L::get(&shrink).sub(shift_lanes).exp().put(&mut shrink);
    let mut total = [0.0; QUAD];
    for r in 0..QUAD {
        total[r] = sum[r] * shrink[r];
    }
    for s in s {
        L::get(s).sub(shift_lanes).exp().put(s);
        for p in s.as_chunks::<QUAD>().0 {
            for (total, p) in total.iter_mut().zip(p) {
                *total += p;
            }
        }
    }
    max[..QUAD].copy_from_slice(&shift[..QUAD]);
    sum[..QUAD].copy_from_slice(&total);
    fade[..QUAD].copy_from_slice(&shrink[..QUAD]);
}

/// `to[d][row] = scale · head`, where the rows are the task's queries × the heads that share `kv_head`. Lanes beyond the last row are 0.
///
/// # Safety
/// The task's tokens are rows of `from`.
#[inline(always)]
pub(super) unsafe fn transpose(
    to: &mut [f32],
    lanes: usize,
    task: &Task,
    from: RawRows,
    kv_head: usize,
    share: usize,
    depth: usize,
    scale: f32,
) {
    if task.queries * share < lanes {
        to[..depth * lanes].fill(0.0);
    }
    for (r, token, head) in task.rows_of(kv_head, share) {
        // SAFETY: the caller's promise.
        let head = unsafe {
            let start = from.start.add(token * from.stride + head * depth);
            std::slice::from_raw_parts(start.cast_const(), depth)
        };
        for (d, x) in head.iter().enumerate() {
            to[d * lanes + r] = x * scale;
        }
    }
}

/// Attention of a planned batch. `each` runs a function for each number below its first argument, on all threads.
pub(in super::super) fn forward(
    level: SimdLevel,
    plan: &AttentionPlan,
    operands: Operands,
    y: RawRows,
    lse: RawRows,
    each: impl FnOnce(usize, &(dyn Fn(usize) + Sync)),
) {
    check(&[y, lse], &[operands.q, operands.k, operands.v]);
    let heads = operands.shape.kv_heads;
    each(plan.tasks.len() * heads, &|number| {
        let unit = HeadTask {
            task: &plan.tasks[number / heads],
            kv_head: number % heads,
            operands,
            y,
            lse: { lse }.start,
        };
        SCRATCH.with_borrow_mut(|scratch| run_unit(level, &unit, scratch));
    });
}
