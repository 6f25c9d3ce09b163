//! Backward pass: scores are recomputed from the stored log-sum-exp.

#![allow(unsafe_code)]

use super::super::activation::capped_slope;
use super::super::rowwise::dot;
use super::super::simd::{LANES, Lanes, SimdLevel, at_level};
use super::forward::{cap_scores, mask, transpose, visible};
use super::kernels::{Weighted, combine, scores};
use super::ordered_add::{Progress, Turn};
use super::plan::{AttentionPlan, Task};
use super::{KEYS, Operands, RawRows, SCRATCH, Scratch, check};

/// Gradients to read and gradients to write.
#[derive(Clone, Copy)]
pub(in super::super) struct Gradients {
    pub(in super::super) dq: RawRows,
    pub(in super::super) dk: RawRows,
    pub(in super::super) dv: RawRows,
    pub(in super::super) dy: RawRows,
    pub(in super::super) y: RawRows,
    /// Tokens × heads.
    pub(in super::super) lse: RawRows,
}

/// One task for one key head. A component's tasks add to the same rows of `dk` and `dv`, in turns.
pub(super) struct HeadTask<'a> {
    task: &'a Task,
    kv_head: usize,
    operands: Operands,
    gradients: Gradients,
    turn: Turn<'a>,
}

#[inline(always)]
fn unit_body<L: Lanes>(unit: &HeadTask<'_>, scratch: &mut Scratch) {
    let HeadTask {
        task,
        kv_head,
        operands,
        gradients,
        turn,
    } = unit;
    let (share, depth) = (operands.share(), operands.shape.head_dim);
    let scale = operands.shape.scale;
    let rows = task.queries * share;
    let lanes = rows.next_multiple_of(LANES);
    let [
        q,
        dy,
        q_rows,
        dy_rows,
        dq,
        p,
        ds,
        lse,
        along,
        first_seen,
        seen,
    ] = scratch.parts([
        depth * lanes,
        depth * lanes,
        rows * depth,
        rows * depth,
        rows * depth,
        KEYS * lanes,
        KEYS * lanes,
        lanes,
        lanes,
        lanes,
        lanes,
    ]);
    // SAFETY: the plan's tokens lie in the operands' buffers.
    unsafe {
        transpose(q, lanes, task, operands.q, *kv_head, share, depth, scale);
        transpose(dy, lanes, task, gradients.dy, *kv_head, share, depth, 1.0);
        collect::<L>(unit, q_rows, dy_rows, lse, along);
    }
    dq.fill(0.0);
    visible(first_seen, seen, task, share, operands.shape.window);
    let soft_cap = operands.shape.soft_cap;
    for block in task.read_through(operands.shape.window) {
        let (first, last) = task.rows(&block.pieces, share);
        let (from, to) = (first / LANES * LANES, last.next_multiple_of(LANES));
        for run in &block.runs {
            let (first, last) = task.rows(&run.pieces, share);
            // SAFETY: the plan's rows lie in the stores; scratch parts have the sizes given.
            unsafe {
                let at = |x: RawRows| x.start.add(run.row * x.stride + kv_head * x.head);
                let (k, v) = (operands.k, operands.v);
                let to = |x: &mut [f32]| x.as_mut_ptr().add(run.offset * lanes);
                let (q, dy, len) = (q.as_ptr(), dy.as_ptr(), run.len);
                scores::<L>(to(p), lanes, first, last, at(k), k.stride, q, depth, len);
                scores::<L>(to(ds), lanes, first, last, at(v), v.stride, dy, depth, len);
            }
        }
        if let Some(cap) = soft_cap {
            cap_scores::<L>(p, lanes, from, to, block.len, cap);
        }
        mask(p, lanes, from..to, rows, first_seen, seen, block);
        softmax_backward::<L>(p, ds, lanes, from, to, block.len, lse, along, soft_cap);
        turn.wait(block.position);
        for run in &block.runs {
            let (first, last) = task.rows(&run.pieces, share);
            let by_key = |weights: &[f32], values: &[f32]| Weighted {
                weights: weights[run.offset * lanes + first..].as_ptr(),
                row_stride: lanes,
                term_stride: 1,
                values: values[first * depth..].as_ptr(),
                value_stride: depth,
                terms: last - first,
            };
            // SAFETY: as above. If `plan.in_place`, all tasks add to these rows of this head at the same position, and so before or after this task's turn
            // there. Otherwise all of them run on this thread.
            unsafe {
                let at = |x: RawRows| x.start.add(run.row * x.stride + kv_head * x.head);
                let (dv, dk) = (gradients.dv, gradients.dk);
                combine::<L>(at(dv), dv.stride, by_key(p, dy_rows), run.len, depth);
                combine::<L>(at(dk), dk.stride, by_key(ds, q_rows), run.len, depth);
            }
        }
        turn.pass(block.position);
        // The gradients of the queries are the task's own, so no other task waits for them.
        for run in &block.runs {
            let (first, last) = task.rows(&run.pieces, share);
            // SAFETY: as above; no other task has these queries.
            unsafe {
                let at = |x: RawRows| x.start.add(run.row * x.stride + kv_head * x.head);
                let by_query = Weighted {
                    weights: ds[run.offset * lanes + first..].as_ptr(),
                    row_stride: 1,
                    term_stride: lanes,
                    values: at(operands.k),
                    value_stride: operands.k.stride,
                    terms: run.len,
                };
                let dq = dq.as_mut_ptr().add(first * depth);
                combine::<L>(dq, depth, by_query, last - first, depth);
            }
        }
    }
    for (r, token, head) in task.rows_of(*kv_head, share) {
        // SAFETY: the plan's tokens lie in the operands' buffers, and no other unit writes this token's head.
        unsafe {
            let to = gradients.dq;
            let to = to.start.add(token * to.stride + head * depth);
            for d in 0..depth {
                *to.add(d) = dq[r * depth + d] * scale;
            }
        }
    }
}
at_level! {
    fn run_unit(unit: &HeadTask<'_>, scratch: &mut Scratch) = unit_body
}

/// Collects rows of scaled queries and of `dy`, the log-sum-exp, and Σ_d dy·y of each row.
///
/// # Safety
/// The task's tokens are rows of the operands.
#[inline(always)]
unsafe fn collect<L: Lanes>(
    unit: &HeadTask<'_>,
    q_rows: &mut [f32],
    dy_rows: &mut [f32],
    lse: &mut [f32],
    along: &mut [f32],
) {
    let (operands, gradients) = (unit.operands, unit.gradients);
    let (share, depth) = (operands.share(), operands.shape.head_dim);
    lse.fill(0.0);
    along.fill(0.0);
    for (r, token, head) in unit.task.rows_of(unit.kv_head, share) {
        // SAFETY: the caller's promise.
        let read = |x: RawRows| unsafe {
            let start = x.start.add(token * x.stride + head * depth);
            std::slice::from_raw_parts(start.cast_const(), depth)
        };
        let (q, dy, y) = (read(operands.q), read(gradients.dy), read(gradients.y));
        let row = r * depth..(r + 1) * depth;
        dy_rows[row.clone()].copy_from_slice(dy);
        for (to, q) in q_rows[row].iter_mut().zip(q) {
            *to = q * operands.shape.scale;
        }
        along[r] = dot::<L>(dy, y);
        // SAFETY: the caller's promise.
        lse[r] = unsafe { *gradients.lse.start.add(token * operands.shape.heads + head) };
    }
}

/// Replaces scores by p = exp(score − lse), and dL/dp by dL/dscore = p · (dL/dp − Σ dy·y), times the slope of the soft cap if there is one.
#[inline(always)]
fn softmax_backward<L: Lanes>(
    p: &mut [f32],
    ds: &mut [f32],
    lanes: usize,
    from: usize,
    to: usize,
    keys: usize,
    lse: &[f32],
    along: &[f32],
    soft_cap: Option<f32>,
) {
    let (lse, _) = lse[from..to].as_chunks::<LANES>();
    let (along, _) = along[from..to].as_chunks::<LANES>();
    for j in 0..keys {
        let row = j * lanes + from..j * lanes + to;
        let (p, _) = p[row.clone()].as_chunks_mut::<LANES>();
        let (ds, _) = ds[row].as_chunks_mut::<LANES>();
        for (((p, ds), lse), along) in p.iter_mut().zip(ds).zip(lse).zip(along) {
            let score = L::get(p);
            let weight = score.sub(L::get(lse)).exp();
            let slope = weight.mul(L::get(ds).sub(L::get(along)));
            match soft_cap {
                None => slope.put(ds),
                Some(cap) => slope.mul(capped_slope(score, cap)).put(ds),
            }
            weight.put(p);
        }
    }
}

/// From this many heads of components per thread, each thread computes whole ones, so that their keys stay in its caches.
const CHAINS_PER_THREAD: usize = 4;

/// Gradients of a planned batch, which do not depend on the number of threads. `each` is as in the forward pass.
pub(in super::super) fn backward(
    level: SimdLevel,
    plan: &AttentionPlan,
    operands: Operands,
    gradients: Gradients,
    threads: usize,
    each: impl FnOnce(usize, &(dyn Fn(usize) + Sync)),
) {
    let (g, Operands { q, k, v, .. }) = (gradients, operands);
    check(&[g.dq, g.dk, g.dv], &[g.dy, g.y, g.lse, q, k, v]);
    let heads = operands.shape.kv_heads;
    let progress: Vec<Progress> = (plan.components.iter())
        .flat_map(|tasks| (0..heads).map(|_| Progress::of(tasks.len())))
        .collect();
    let run = |chain: usize, index: usize| {
        let unit = HeadTask {
            task: &plan.tasks[plan.components[chain / heads][index]],
            kv_head: chain % heads,
            operands,
            gradients,
            turn: progress[chain].turn(index),
        };
        SCRATCH.with_borrow_mut(|scratch| run_unit(level, &unit, scratch));
    };
    let tasks = |chain: usize| plan.components[chain / heads].len();
    let chains = progress.len();
    if chains >= CHAINS_PER_THREAD * threads || !plan.in_place {
        each(chains, &|chain| {
            (0..tasks(chain)).for_each(|index| run(chain, index));
        });
        return;
    }
    // The first tasks of all chains come before the second ones, so that tasks of one chain wait for each other as little as possible.
    let longest = (0..chains).map(tasks).max().unwrap_or(0);
    let units: Vec<(usize, usize)> = (0..longest)
        .flat_map(|index| (0..chains).map(move |chain| (chain, index)))
        .filter(|(chain, index)| *index < tasks(*chain))
        .collect();
    each(units.len(), &|number| {
        let (chain, index) = units[number];
        run(chain, index);
    });
}
