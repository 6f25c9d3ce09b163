//! Tiles of a product, computed in registers.

#![allow(unsafe_code)]

use std::ops::Range;

use super::pack::Row;
use super::{LANES, Lanes, NARROW_STRIP, at_level};

/// Number of a panel's rows that a narrow tile multiplies before it stores its sums. With the operands of the tile's rows they take 16 KiB, or 24 KiB where
/// pairs are split. The first-level cache has at least 32 KiB.
const NARROW_DEPTH: usize = 128;

/// Destination of a tile of the result, and whether the tile is added to its content.
#[derive(Clone, Copy)]
pub(super) struct Destination {
    start: *mut f32,
    stride: usize,
    rows: usize,
    columns: usize,
    add: bool,
}

impl Destination {
    /// `rows` rows, `stride` apart, of `columns` numbers.
    ///
    /// # Safety
    /// While it is used, `start` is valid for writing them, and also for reading them if `add`.
    pub(super) unsafe fn new(
        start: *mut f32,
        stride: usize,
        rows: usize,
        columns: usize,
        add: bool,
    ) -> Self {
        Self {
            start,
            stride,
            rows,
            columns,
            add,
        }
    }
}

/// Source of the rows of a tile.
#[derive(Clone, Copy)]
struct Source {
    start: *const f32,
    /// Distance between rows. In a transposed product a row's numbers are contiguous, otherwise they are a panel's width apart.
    row: usize,
}

impl Source {
    /// The lanes of a panel as rows.
    fn panel(start: *const f32) -> Self {
        Self { start, row: 1 }
    }
}

/// Adds to `sums` the products of `R` rows and `V` panels, which begin `panel` rows apart, over a range of the panels' rows.
///
/// # Safety
/// The rows and the panels have numbers for `depth`.
#[inline(always)]
unsafe fn accumulate<
    L: Lanes,
    const PAIRS: bool,
    const TRANSPOSED: bool,
    const R: usize,
    const V: usize,
>(
    sums: &mut [[L; V]; R],
    a: Source,
    b: *const Row,
    panel: usize,
    depth: Range<usize>,
) {
    for k in depth {
        if TRANSPOSED && k % LANES < R {
            // The memory that is most likely read next: the same number of rows further on.
            L::prefetch(a.start.wrapping_add((R + k % LANES) * a.row + k));
        }
        let mut columns = [L::splat(0.0); V];
        for (v, column) in columns.iter_mut().enumerate() {
            // SAFETY: the caller's promise.
            *column = L::get(unsafe { &*b.add(v * panel + k) });
        }
        if PAIRS && !L::PAIRS {
            // Two rows of `a`, with the second numbers of the pairs and then the first.
            for (half, columns) in [columns.map(L::second), columns.map(L::first)]
                .into_iter()
                .enumerate()
            {
                for (r, sums) in sums.iter_mut().enumerate() {
                    // SAFETY: the caller's promise.
                    let row = L::splat(unsafe { *a.start.add((2 * k + half) * LANES + r) });
                    for (sum, column) in sums.iter_mut().zip(columns) {
                        *sum = row.fma(column, *sum);
                    }
                }
            }
            continue;
        }
        for (r, sums) in sums.iter_mut().enumerate() {
            let at = if TRANSPOSED {
                r * a.row + k
            } else {
                k * LANES + r
            };
            // SAFETY: the caller's promise.
            let row = L::splat(unsafe { *a.start.add(at) });
            for (sum, column) in sums.iter_mut().zip(columns) {
                *sum = if PAIRS {
                    sum.add_products(row, column)
                } else {
                    row.fma(column, *sum)
                };
            }
        }
    }
}

/// Writes the sums of a tile. `TRANSPOSED` writes the result's columns as rows.
///
/// # Safety
/// `to` is valid for `R` rows of up to `V · 16` columns, or, if transposed, for up to `V · 16` rows of `R` columns.
#[inline(always)]
unsafe fn write<L: Lanes, const TRANSPOSED: bool, const R: usize, const V: usize>(
    to: Destination,
    sums: &[[L; V]; R],
) {
    // SAFETY: the caller's promise.
    unsafe {
        if TRANSPOSED {
            for v in 0..V {
                let mut columns = [[0.0; LANES]; R];
                for (column, sums) in columns.iter_mut().zip(sums) {
                    sums[v].put(column);
                }
                for lane in 0..LANES.min(to.columns - v * LANES) {
                    let y = to.start.add((v * LANES + lane) * to.stride);
                    for (r, column) in columns.iter().enumerate() {
                        let sum = column[lane];
                        *y.add(r) = if to.add { *y.add(r) + sum } else { sum };
                    }
                }
            }
            return;
        }
        for (r, sums) in sums.iter().enumerate() {
            for (v, sum) in sums.iter().enumerate() {
                let y = to.start.add(r * to.stride + v * LANES);
                let n = to.columns - v * LANES;
                if n >= LANES {
                    let sum = if to.add { L::load(y).add(*sum) } else { *sum };
                    sum.store(y);
                } else if to.add {
                    L::load_first(y, n, 0.0).add(*sum).store_first(y, n);
                } else {
                    sum.store_first(y, n);
                }
            }
        }
    }
}

/// Calls `$body` with the constant `$name` equal to `$rows`, which is one of the numbers.
macro_rules! by_rows {
    ($name:ident = $rows:expr, [$($n:literal)*], $body:expr) => {
        match $rows {
            $($n => {
                const $name: usize = $n;
                $body
            })*
            _ => unreachable!("a tile has its rows in registers"),
        }
    };
}

/// Multiplies the rows of `to` by `V` panels. All sums of the tile stay in registers.
///
/// # Safety
/// As [`accumulate`] and [`write()`].
#[inline(always)]
unsafe fn wide<L: Lanes, const PAIRS: bool, const TRANSPOSED: bool, const V: usize>(
    to: Destination,
    a: Source,
    b: *const Row,
    panel: usize,
    depth: usize,
) {
    by_rows!(R = to.rows, [1 2 3 4 5 6 7 8 9 10 11 12 13 14], {
        let mut sums = [[L::splat(0.0); V]; R];
        // SAFETY: the caller's promise.
        unsafe {
            accumulate::<L, PAIRS, TRANSPOSED, R, V>(&mut sums, a, b, panel, 0..depth);
            write::<L, TRANSPOSED, R, V>(to, &sums);
        }
    });
}

/// Multiplies the rows of `to` by a panel, with registers for the sums of a few rows only. The sums are stored between parts of the panel. So each part is read
/// from the first-level cache for all rows but the first. This changes no sum.
///
/// # Safety
/// As [`wide`].
#[inline(always)]
unsafe fn narrow<L: Lanes, const PAIRS: bool, const TRANSPOSED: bool>(
    to: Destination,
    a: Source,
    b: *const Row,
    depth: usize,
) {
    let mut stored = [[0.0; LANES]; LANES];
    let strips = to.rows.div_ceil(NARROW_STRIP);
    let mut from = 0;
    while from < depth {
        let end = depth.min(from + NARROW_DEPTH);
        for strip in 0..strips {
            let first = strip * to.rows / strips;
            let rows = (strip + 1) * to.rows / strips - first;
            by_rows!(R = rows, [1 2 3 4 5], {
                // SAFETY: the caller's promise, for some of the rows.
                unsafe {
                    let stored = &mut stored[first..first + R];
                    let a = Source {
                        start: a.start.add(first * a.row),
                        ..a
                    };
                    let mut sums = [[L::splat(0.0); 1]; R];
                    for (sums, stored) in sums.iter_mut().zip(stored.iter()) {
                        sums[0] = L::get(stored);
                    }
                    accumulate::<L, PAIRS, TRANSPOSED, R, 1>(&mut sums, a, b, 0, from..end);
                    if end < depth {
                        for (sums, stored) in sums.iter().zip(stored) {
                            sums[0].put(stored);
                        }
                        continue;
                    }
                    let stride = if TRANSPOSED { 1 } else { to.stride };
                    let start = to.start.add(first * stride);
                    write::<L, TRANSPOSED, R, 1>(Destination { start, ..to }, &sums);
                }
            });
        }
        from = end;
    }
}

/// # Safety
/// As [`wide`], for the rows and columns of `to`.
#[inline(always)]
unsafe fn all_columns<L: Lanes, const PAIRS: bool, const TRANSPOSED: bool>(
    to: Destination,
    a: Source,
    depth: usize,
    b: &[Row],
    panel: usize,
) {
    let panels = to.columns.div_ceil(LANES);
    let inside = panels == 0 || (panels - 1) * panel + depth <= b.len();
    assert!(inside && to.rows <= LANES, "panels have their rows");
    let mut number = 0;
    while number < panels {
        let side_by_side = if L::WIDE && number + 1 < panels { 2 } else { 1 };
        let done = number * LANES;
        let columns = (to.columns - done).min(side_by_side * LANES);
        // SAFETY: the panels were just checked, and the rest is promised by the callers of this function and of `Destination::new`.
        unsafe {
            let start = to
                .start
                .add(if TRANSPOSED { done * to.stride } else { done });
            let b = b.as_ptr().add(number * panel);
            let to = Destination {
                start,
                columns,
                ..to
            };
            if !L::WIDE {
                narrow::<L, PAIRS, TRANSPOSED>(to, a, b, depth);
            } else if side_by_side == 2 {
                wide::<L, PAIRS, TRANSPOSED, 2>(to, a, b, panel, depth);
            } else {
                wide::<L, PAIRS, TRANSPOSED, 1>(to, a, b, panel, depth);
            }
        }
        number += side_by_side;
    }
}

#[inline(always)]
fn tiles_body<L: Lanes>(pairs: bool, to: Destination, a: &[Row], b: &[Row], panel: usize) {
    let from = Source::panel(a.as_ptr().cast());
    let depth = if pairs && !L::PAIRS {
        a.len() / 2
    } else {
        a.len()
    };
    // SAFETY: the panel `a` has a row, or the two of a pair, for each row of another panel.
    unsafe {
        if pairs {
            all_columns::<L, true, false>(to, from, depth, b, panel);
        } else {
            all_columns::<L, false, false>(to, from, depth, b, panel);
        }
    }
}
at_level! {
    /// Multiplies the rows of the panel `a` by panels of the same number of rows, `panel` rows apart in `b`. `pairs`: whether they contain pairs of bf16.
    /// Without an instruction for pairs, `a` is from [`super::pack::pack_split`] and has twice as many rows.
    pairs fn tiles(pairs: bool, to: Destination, a: &[Row], b: &[Row], panel: usize) = tiles_body
}

#[inline(always)]
fn transposed_body<L: Lanes>(
    to: Destination,
    a: &[f32],
    stride: usize,
    depth: usize,
    b: &[Row],
    panel: usize,
) {
    let reach = to.rows.saturating_sub(1) * stride + depth;
    assert!(reach <= a.len(), "rows have their numbers");
    let from = Source {
        start: a.as_ptr(),
        row: stride,
    };
    // SAFETY: the rows lie in `a`, as just checked.
    unsafe { all_columns::<L, false, true>(to, from, depth, b, panel) }
}
at_level! {
    /// Multiplies rows of `depth` numbers, `stride` apart in `a`, by panels as in [`tiles`], in f32. The panels' lanes are the rows of the result, and
    /// `to.rows` is its number of columns.
    fn transposed(to: Destination, a: &[f32], stride: usize, depth: usize, b: &[Row], panel: usize) = transposed_body
}
