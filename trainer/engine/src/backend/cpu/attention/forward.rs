//! Forward pass: online softmax (Milakov & Gimelshein 2018; Dao et al. 2022) over a task's keys.

#![allow(unsafe_code)]

use super::super::activation::capped;
use super::super::simd::{LANES, Lanes, SimdLevel, at_level};
use super::kernels::{Weighted, combine, scores};
use super::plan::{AttentionPlan, Block, Task};
use super::{KEYS, Operands, Raw, SCRATCH, Scratch, check};

/// A maximum that is below all scores but finite, so that exp(−∞ − maximum) is 0 and not NaN.
const BELOW_ALL: f32 = -1e30;

/// One task for one key head.
pub(super) struct HeadTask<'a> {
    task: &'a Task,
    kv_head: usize,
    operands: Operands,
    y: Raw,
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
    let lanes = rows.next_multiple_of(LANES);
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
    unsafe { transpose(q, task, operands.q, *kv_head, share, depth, scale) };
    out.fill(0.0);
    max.fill(BELOW_ALL);
    sum.fill(0.0);
    visible(first_seen, seen, task, share, operands.shape.window);
    let head = kv_head * depth;
    let mut blocks = task.read_through(operands.shape.window).peekable();
    if let Some(block) = blocks.peek() {
        prefetch_head::<L>(block, operands.k, head, depth);
    }
    while let Some(block) = blocks.next() {
        prefetch_head::<L>(block, operands.v, head, depth);
        if let Some(next) = blocks.peek() {
            prefetch_head::<L>(next, operands.k, head, depth);
        }
        let (first, last) = task.rows(&block.pieces, share);
        let (from, to) = (first / LANES * LANES, last.next_multiple_of(LANES));
        for run in &block.runs {
            let (first, last) = task.rows(&run.pieces, share);
            // SAFETY: the plan's rows lie in the stores; scratch parts have the sizes given.
            unsafe {
                let k = operands.k.start.add(run.row * operands.k.stride + head);
                let s = s.as_mut_ptr().add(run.offset * lanes);
                let stride = operands.k.stride;
                scores::<L>(s, lanes, first, last, k, stride, q.as_ptr(), depth, run.len);
            }
        }
        if let Some(cap) = operands.shape.soft_cap {
            cap_scores::<L>(s, lanes, from, to, block.len, cap);
        }
        mask::<L>(s, lanes, from, to, first_seen, seen, block);
        softmax::<L>(s, lanes, from, to, block.len, max, sum, fade);
        for r in first..last {
            if fade[r] != 1.0 {
                for x in &mut out[r * depth..(r + 1) * depth] {
                    *x *= fade[r];
                }
            }
        }
        for run in &block.runs {
            let (first, last) = task.rows(&run.pieces, share);
            // SAFETY: as above.
            unsafe {
                let weighted = Weighted {
                    weights: s.as_ptr().add(run.offset * lanes + first),
                    row_stride: 1,
                    term_stride: lanes,
                    values: operands.v.start.add(run.row * operands.v.stride + head),
                    value_stride: operands.v.stride,
                    terms: run.len,
                };
                let out = out.as_mut_ptr().add(first * depth);
                combine::<L>(out, depth, weighted, last - first, depth);
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

/// Prefetches one head of a block's keys or values. They lie too far apart for the processor's own prefetching.
#[inline(always)]
fn prefetch_head<L: Lanes>(block: &Block, from: Raw, head: usize, depth: usize) {
    for run in &block.runs {
        for row in run.row..run.row + run.len {
            let start = from.start.wrapping_add(row * from.stride + head);
            for d in (0..depth).step_by(LANES) {
                L::prefetch(start.wrapping_add(d));
            }
        }
    }
}

/// Writes for each lane the position of the first key that its query attends to, and the position after the last one; 0 and 0 for lanes beyond the last row.
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

/// Sets the scores of keys that a lane's query does not attend to to −∞.
#[inline(always)]
pub(super) fn mask<L: Lanes>(
    s: &mut [f32],
    lanes: usize,
    from: usize,
    to: usize,
    first_seen: &[f32],
    seen: &[f32],
    block: &Block,
) {
    let (start, end) = (block.position as f32, (block.position + block.len) as f32);
    let (first_seen, seen) = (&first_seen[from..to], &seen[from..to]);
    if seen.iter().all(|n| *n >= end) && first_seen.iter().all(|n| *n <= start) {
        return;
    }
    let (first_seen, seen) = (
        first_seen.as_chunks::<LANES>().0,
        seen.as_chunks::<LANES>().0,
    );
    for j in 0..block.len {
        let row = &mut s[j * lanes + from..j * lanes + to];
        let groups = row.as_chunks_mut::<LANES>().0.iter_mut();
        let position = L::splat((block.position + j) as f32);
        for ((s, first), seen) in groups.zip(first_seen).zip(seen) {
            let hidden = L::splat(f32::NEG_INFINITY);
            let score = position.select_lt(L::get(first), hidden, L::get(s));
            position.select_lt(L::get(seen), score, hidden).put(s);
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

/// `to[d][row] = scale · head`, where the rows are the task's queries × the heads that share `kv_head`. Lanes beyond the last row are 0.
///
/// # Safety
/// The task's tokens are rows of `from`.
#[inline(always)]
pub(super) unsafe fn transpose(
    to: &mut [f32],
    task: &Task,
    from: Raw,
    kv_head: usize,
    share: usize,
    depth: usize,
    scale: f32,
) {
    let rows = task.queries * share;
    let lanes = rows.next_multiple_of(LANES);
    for d in 0..depth {
        to[d * lanes + rows..(d + 1) * lanes].fill(0.0);
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
    y: Raw,
    lse: Raw,
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
