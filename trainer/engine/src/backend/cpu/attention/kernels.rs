//! The two matrix products of attention.

#![allow(unsafe_code)]

use super::super::simd::{LANES, Lanes};

/// `s[j][lane] = Σ_d k[j][d] · q[d][lane]` for `NK` keys and the lanes `part` of `NV` groups.
///
/// # Safety
/// `s`, `k` and `q` are valid for the elements that the strides and sizes reach.
#[inline(always)]
unsafe fn scores_tile<L: Lanes, const NK: usize, const NV: usize>(
    s: *mut f32,
    lanes: usize,
    part: (usize, usize),
    k: *const f32,
    k_stride: usize,
    q: *const f32,
    depth: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut sums = [[L::splat(0.0); NV]; NK];
        for d in 0..depth {
            let mut queries = [L::splat(0.0); NV];
            for (v, query) in queries.iter_mut().enumerate() {
                *query = L::load(q.add(d * lanes + v * LANES));
            }
            for (j, sums) in sums.iter_mut().enumerate() {
                let key = L::splat(*k.add(j * k_stride + d));
                for (sum, query) in sums.iter_mut().zip(queries) {
                    *sum = key.fma(query, *sum);
                }
            }
        }
        for (j, sums) in sums.iter().enumerate() {
            for (v, sum) in sums.iter().enumerate() {
                let s = s.add(j * lanes + v * LANES);
                let (from, to) = (part.0.saturating_sub(v * LANES), part.1 - v * LANES);
                if from == 0 && to >= LANES {
                    sum.store(s);
                } else {
                    sum.store_part(s, from, to.min(LANES));
                }
            }
        }
    }
}

/// [`scores_tile`] over `keys` keys.
///
/// # Safety
/// As [`scores_tile`].
#[inline(always)]
unsafe fn scores_columns<L: Lanes, const NK: usize, const NV: usize>(
    s: *mut f32,
    lanes: usize,
    part: (usize, usize),
    k: *const f32,
    k_stride: usize,
    q: *const f32,
    depth: usize,
    keys: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut j = 0;
        while j + NK <= keys {
            let (s, k) = (s.add(j * lanes), k.add(j * k_stride));
            scores_tile::<L, NK, NV>(s, lanes, part, k, k_stride, q, depth);
            j += NK;
        }
        while j < keys {
            let (s, k) = (s.add(j * lanes), k.add(j * k_stride));
            scores_tile::<L, 1, NV>(s, lanes, part, k, k_stride, q, depth);
            j += 1;
        }
    }
}

/// Maximum number of rows for which the lanes of [`scores`] run over keys.
const FEW_ROWS: usize = 8;
/// Number of these rows that are computed together. If there are no more rows, rows of scores have this many lanes.
pub(super) const QUAD: usize = 4;

/// `s[j][r] = Σ_d k[j][d] · q[d][r]` for `keys` keys and `R` rows. Lanes run over keys, which are transposed for it.
///
/// # Safety
/// As [`scores`].
#[inline(always)]
unsafe fn scores_of_rows<L: Lanes, const R: usize>(
    s: *mut f32,
    lanes: usize,
    k: *const f32,
    k_stride: usize,
    q: *const f32,
    depth: usize,
    keys: usize,
) {
    for j in (0..keys).step_by(LANES) {
        let n = LANES.min(keys - j);
        let mut sums = [L::splat(0.0); R];
        let mut add = |d: usize, column: L| {
            for (r, sum) in sums.iter_mut().enumerate() {
                // SAFETY: the caller's promise.
                *sum = column.fma(L::splat(unsafe { *q.add(d * lanes + r) }), *sum);
            }
        };
        let mut d = 0;
        while d + 4 <= depth {
            // SAFETY: the caller's promise.
            let columns = unsafe { L::columns(k.add(j * k_stride + d), k_stride, n) };
            for (i, column) in columns.into_iter().enumerate() {
                add(d + i, column);
            }
            d += 4;
        }
        while d < depth {
            let mut column = [0.0; LANES];
            for (lane, x) in column.iter_mut().enumerate().take(n) {
                // SAFETY: the caller's promise.
                *x = unsafe { *k.add((j + lane) * k_stride + d) };
            }
            add(d, L::get(&column));
            d += 1;
        }
        for (r, sum) in sums.iter().enumerate() {
            for (lane, sum) in sum.array().iter().enumerate().take(n) {
                // SAFETY: the caller's promise.
                unsafe { *s.add((j + lane) * lanes + r) = *sum };
            }
        }
    }
}

/// `s[j][lane] = Σ_d k[j][d] · q[d][lane]` for `keys` keys and the lanes `first..last`. Rows of `s` and `q` are `lanes` long: a multiple of [`LANES`], or at
/// most [`QUAD`].
///
/// # Safety
/// `s` is valid for writing `keys` rows, `q` for reading `depth` rows, `k` for reading `keys` rows of `depth` elements, `k_stride` apart.
#[inline(always)]
pub(super) unsafe fn scores<L: Lanes>(
    s: *mut f32,
    lanes: usize,
    first: usize,
    last: usize,
    k: *const f32,
    k_stride: usize,
    q: *const f32,
    depth: usize,
    keys: usize,
) {
    let few = if L::WIDE { QUAD } else { FEW_ROWS };
    if last - first <= few {
        for row in (first..last).step_by(QUAD) {
            // SAFETY: the caller's promise.
            unsafe {
                let (s, q) = (s.add(row), q.add(row));
                match last - row {
                    1 => scores_of_rows::<L, 1>(s, lanes, k, k_stride, q, depth, keys),
                    2 => scores_of_rows::<L, 2>(s, lanes, k, k_stride, q, depth, keys),
                    3 => scores_of_rows::<L, 3>(s, lanes, k, k_stride, q, depth, keys),
                    _ => scores_of_rows::<L, QUAD>(s, lanes, k, k_stride, q, depth, keys),
                }
            }
        }
        return;
    }
    let mut lane = first / LANES * LANES;
    // SAFETY: the caller's promise.
    unsafe {
        while lane < last {
            let (s, q) = (s.add(lane), q.add(lane));
            let part = (first.saturating_sub(lane), last - lane);
            if L::WIDE && lane + LANES < last {
                scores_columns::<L, 8, 2>(s, lanes, part, k, k_stride, q, depth, keys);
                lane += 2 * LANES;
            } else if L::WIDE {
                scores_columns::<L, 12, 1>(s, lanes, part, k, k_stride, q, depth, keys);
                lane += LANES;
            } else {
                scores_columns::<L, 5, 1>(s, lanes, part, k, k_stride, q, depth, keys);
                lane += LANES;
            }
        }
    }
}

/// Operands of [`combine`]: `weight(row, term)` is `row · row_stride + term · term_stride` elements after the first weight.
#[derive(Clone, Copy)]
pub(super) struct Weighted {
    pub(super) weights: *const f32,
    pub(super) row_stride: usize,
    pub(super) term_stride: usize,
    /// The vectors that are summed, `value_stride` apart.
    pub(super) values: *const f32,
    pub(super) value_stride: usize,
    /// Number of vectors.
    pub(super) terms: usize,
}

/// `out[r] += Σ_j weight(r, j) · values[j]` for `NR` rows and `NV` groups of lanes.
///
/// # Safety
/// All pointers are valid for the elements that the strides and sizes reach, and `out` overlaps none of the others.
#[inline(always)]
unsafe fn combine_tile<L: Lanes, const NR: usize, const NV: usize>(
    out: *mut f32,
    out_stride: usize,
    w: Weighted,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut sums = [[L::splat(0.0); NV]; NR];
        for (r, sums) in sums.iter_mut().enumerate() {
            for (v, sum) in sums.iter_mut().enumerate() {
                *sum = L::load(out.add(r * out_stride + v * LANES));
            }
        }
        for j in 0..w.terms {
            let mut values = [L::splat(0.0); NV];
            for (v, value) in values.iter_mut().enumerate() {
                *value = L::load(w.values.add(j * w.value_stride + v * LANES));
            }
            for (r, sums) in sums.iter_mut().enumerate() {
                let weight = L::splat(*w.weights.add(r * w.row_stride + j * w.term_stride));
                for (sum, value) in sums.iter_mut().zip(values) {
                    *sum = weight.fma(value, *sum);
                }
            }
        }
        for (r, sums) in sums.iter().enumerate() {
            for (v, sum) in sums.iter().enumerate() {
                sum.store(out.add(r * out_stride + v * LANES));
            }
        }
    }
}

/// [`combine_tile`] for the last `width < 16` elements of a vector.
///
/// # Safety
/// As [`combine_tile`].
#[inline(always)]
unsafe fn combine_rest<L: Lanes>(out: *mut f32, w: Weighted, width: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut sum = L::load_first(out, width, 0.0);
        for j in 0..w.terms {
            let value = L::load_first(w.values.add(j * w.value_stride), width, 0.0);
            sum = L::splat(*w.weights.add(j * w.term_stride)).fma(value, sum);
        }
        sum.store_first(out, width);
    }
}

/// All rows of one column of tiles.
///
/// # Safety
/// As [`combine_tile`].
#[inline(always)]
unsafe fn combine_columns<L: Lanes, const NR: usize, const NV: usize>(
    out: *mut f32,
    out_stride: usize,
    w: Weighted,
    rows: usize,
) {
    let mut r = 0;
    // SAFETY: the caller's promise.
    unsafe {
        let at = |r: usize| {
            let weights = w.weights.add(r * w.row_stride);
            (out.add(r * out_stride), Weighted { weights, ..w })
        };
        while r + NR <= rows {
            let (out, w) = at(r);
            combine_tile::<L, NR, NV>(out, out_stride, w);
            r += NR;
        }
        while r + 3 <= rows {
            let (out, w) = at(r);
            combine_tile::<L, 3, NV>(out, out_stride, w);
            r += 3;
        }
        while r < rows {
            let (out, w) = at(r);
            combine_tile::<L, 1, NV>(out, out_stride, w);
            r += 1;
        }
    }
}

/// `out[r][..depth] += Σ_j weight(r, j) · values[j][..depth]` for `rows` rows.
///
/// # Safety
/// All pointers are valid for the elements that the strides and sizes reach, and `out` overlaps none of the others.
#[inline(always)]
pub(super) unsafe fn combine<L: Lanes>(
    out: *mut f32,
    out_stride: usize,
    w: Weighted,
    rows: usize,
    depth: usize,
) {
    let mut d = 0;
    // SAFETY: the caller's promise.
    unsafe {
        let at = |d: usize| {
            let values = w.values.add(d);
            (out.add(d), Weighted { values, ..w })
        };
        while L::WIDE && d + 4 * LANES <= depth {
            let (out, w) = at(d);
            combine_columns::<L, 6, 4>(out, out_stride, w, rows);
            d += 4 * LANES;
        }
        while d + LANES <= depth {
            let (out, w) = at(d);
            combine_columns::<L, 6, 1>(out, out_stride, w, rows);
            d += LANES;
        }
        if d < depth {
            let (out, w) = at(d);
            for r in 0..rows {
                let weights = w.weights.add(r * w.row_stride);
                combine_rest::<L>(
                    out.add(r * out_stride),
                    Weighted { weights, ..w },
                    depth - d,
                );
            }
        }
    }
}
