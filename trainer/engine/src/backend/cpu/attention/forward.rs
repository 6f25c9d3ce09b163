//! Online softmax (Milakov & Gimelshein 2018; Dao et al. 2022) over a task's keys.

#![allow(unsafe_code)]

use std::ops::Range;

use super::super::gate::capped;
use super::super::lanes::{LANES, Lanes, Level, at_level};
use super::kernels::{Weighted, combine, scores};
use super::plan::{Keys, Plan, Task};
use super::{KEYS, Operands, Raw, SCRATCH, Scratch};

/// A maximum below all scores, yet finite: exp(−∞ − it) is 0, not NaN.
const BELOW_ALL: f32 = -1e30;

/// One task for one head of keys.
pub(super) struct Unit<'a> {
    task: &'a Task,
    kv_head: usize,
    operands: Operands,
    y: Raw,
    lse: *mut f32,
}

#[inline(always)]
fn unit_body<L: Lanes>(unit: &Unit<'_>, scratch: &mut Scratch) {
    let Unit {
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
    // SAFETY: the plan's tokens lie in the operands' buffers.
    unsafe {
        transpose(
            q,
            task,
            operands.q,
            *kv_head,
            share,
            depth,
            operands.shape.scale,
        );
    }
    out.fill(0.0);
    max.fill(BELOW_ALL);
    sum.fill(0.0);
    for keys in &task.keys {
        let Seen { from, to, range } =
            seen_by(first_seen, seen, task, keys, share, operands.shape.window);
        let mut done = range.start;
        while done < range.end {
            let n = KEYS.min(range.end - done);
            let row = keys.row + done;
            let head = kv_head * depth;
            // SAFETY: the plan's rows lie in the stores; scratch parts have the sizes given.
            unsafe {
                let k = operands.k.start.add(row * operands.k.stride + head);
                let v = operands.v.start.add(row * operands.v.stride + head);
                scores::<L>(
                    s.as_mut_ptr(),
                    lanes,
                    from,
                    to,
                    k,
                    operands.k.stride,
                    q.as_ptr(),
                    depth,
                    n,
                );
                if let Some(cap) = operands.shape.soft_cap {
                    cap_scores::<L>(s, lanes, from, to, n, cap);
                }
                mask::<L>(s, lanes, from, to, first_seen, seen, done, n);
                softmax::<L>(s, lanes, from, to, n, max, sum, fade);
                let (first, last) = piece_rows(task, keys, share);
                for r in first..last {
                    if fade[r] != 1.0 {
                        for x in &mut out[r * depth..(r + 1) * depth] {
                            *x *= fade[r];
                        }
                    }
                }
                let weighted = Weighted {
                    weights: s.as_ptr().add(first),
                    row_stride: 1,
                    term_stride: lanes,
                    values: v,
                    value_stride: operands.v.stride,
                    terms: n,
                };
                combine::<L>(
                    out.as_mut_ptr().add(first * depth),
                    depth,
                    weighted,
                    last - first,
                    depth,
                );
            }
            done += n;
        }
    }
    for piece in &task.pieces {
        for i in 0..piece.len {
            for h in 0..share {
                let r = (piece.query + i) * share + h;
                let head = kv_head * share + h;
                let inverse = 1.0 / sum[r];
                // SAFETY: the plan's tokens lie in the operands' buffers, and no other unit writes this token's head.
                unsafe {
                    let y = unit
                        .y
                        .start
                        .add((piece.token + i) * unit.y.stride + head * depth);
                    for d in 0..depth {
                        *y.add(d) = out[r * depth + d] * inverse;
                    }
                    let lse = unit
                        .lse
                        .add((piece.token + i) * operands.shape.heads + head);
                    *lse = max[r] + sum[r].ln();
                }
            }
        }
    }
}
at_level! {
    fn run_unit(unit: &Unit<'_>, scratch: &mut Scratch) = unit_body
}

/// First and last row (query × head) of the pieces that read `keys`.
pub(super) fn piece_rows(task: &Task, keys: &Keys, share: usize) -> (usize, usize) {
    let pieces = &task.pieces[keys.pieces.clone()];
    match (pieces.first(), pieces.last()) {
        (Some(first), Some(last)) => (first.query * share, (last.query + last.len) * share),
        _ => (0, 0),
    }
}

/// The lanes that read some keys, and which of the keys any of them sees.
pub(super) struct Seen {
    /// First lane, a multiple of the lanes' number.
    pub(super) from: usize,
    /// End of the lanes, likewise.
    pub(super) to: usize,
    /// Numbers of keys; it begins at a multiple of [`KEYS`], so that where a window begins changes nothing for those that see more.
    pub(super) range: Range<usize>,
}

/// Writes for each lane the number of the first of these keys that it sees and the number after the last one: 0 and 0 for lanes that do not read them.
pub(super) fn seen_by(
    first_seen: &mut [f32],
    seen: &mut [f32],
    task: &Task,
    keys: &Keys,
    share: usize,
    window: Option<usize>,
) -> Seen {
    let (first, last) = piece_rows(task, keys, share);
    let (from, to) = (first / LANES * LANES, last.next_multiple_of(LANES));
    first_seen[from..to].fill(0.0);
    seen[from..to].fill(0.0);
    let (mut least, mut most) = (keys.len, 0);
    for piece in &task.pieces[keys.pieces.clone()] {
        for i in 0..piece.len {
            let visible = piece.visible + i;
            let number = |position: usize| position.saturating_sub(keys.position).min(keys.len);
            let start = number(window.map_or(0, |window| visible.saturating_sub(window)));
            let end = number(visible);
            if start < end {
                least = least.min(start);
                most = most.max(end);
            }
            let r = (piece.query + i) * share;
            first_seen[r..r + share].fill(start as f32);
            seen[r..r + share].fill(end as f32);
        }
    }
    Seen {
        from,
        to,
        range: least / KEYS * KEYS..most,
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

/// Sets scores of keys that a lane does not see to minus infinity. Keys are numbered from `done` on.
#[inline(always)]
pub(super) fn mask<L: Lanes>(
    s: &mut [f32],
    lanes: usize,
    from: usize,
    to: usize,
    first_seen: &[f32],
    seen: &[f32],
    done: usize,
    keys: usize,
) {
    let (first_seen, seen) = (&first_seen[from..to], &seen[from..to]);
    let all_seen = seen.iter().all(|n| *n >= (done + keys) as f32)
        && first_seen.iter().all(|n| *n <= done as f32);
    if all_seen {
        return;
    }
    let (first_seen, seen) = (
        first_seen.as_chunks::<LANES>().0,
        seen.as_chunks::<LANES>().0,
    );
    for j in 0..keys {
        let row = &mut s[j * lanes + from..j * lanes + to];
        let groups = row.as_chunks_mut::<LANES>().0.iter_mut();
        for ((s, first), seen) in groups.zip(first_seen).zip(seen) {
            let number = L::splat((done + j) as f32);
            let hidden = L::splat(f32::NEG_INFINITY);
            let score = number.select_lt(L::get(first), hidden, L::get(s));
            number.select_lt(L::get(seen), score, hidden).put(s);
        }
    }
}

/// Replaces scores by exp(score − new maximum); updates maxima and sums; `fade` is what earlier results shrink by.
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
        let column = |j: usize| unsafe { s.as_ptr().add(j * lanes + lane).cast_mut() };
        assert!(
            keys * lanes <= s.len() && lane + LANES <= lanes,
            "scores have their rows"
        );
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

/// `to[d][row] = scale · head`, rows being the task's queries × the heads that share `kv_head`; lanes beyond the last row are 0.
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
    for piece in &task.pieces {
        for i in 0..piece.len {
            for h in 0..share {
                let r = (piece.query + i) * share + h;
                let head = (kv_head * share + h) * depth;
                // SAFETY: the caller's promise.
                let head = unsafe {
                    let start = from.start.add((piece.token + i) * from.stride + head);
                    std::slice::from_raw_parts(start.cast_const(), depth)
                };
                for (d, x) in head.iter().enumerate() {
                    to[d * lanes + r] = x * scale;
                }
            }
        }
    }
}

/// Attention of a planned batch; `each` runs a function for each number below its first argument, on as many threads as there are.
pub(in super::super) fn forward(
    level: Level,
    plan: &Plan,
    operands: Operands,
    y: Raw,
    lse: Raw,
    each: impl FnOnce(usize, &(dyn Fn(usize) + Sync)),
) {
    let heads = operands.shape.kv_heads;
    each(plan.tasks.len() * heads, &|number| {
        let unit = Unit {
            task: &plan.tasks[number / heads],
            kv_head: number % heads,
            operands,
            y,
            lse: { lse }.start,
        };
        SCRATCH.with_borrow_mut(|scratch| run_unit(level, &unit, scratch));
    });
}
