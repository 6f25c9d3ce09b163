//! Tiles of a product, computed in registers.

#![allow(unsafe_code)]

use super::pack::Row;
use super::{LANES, Lanes, at_level};

/// Destination of a tile of the result, and whether the tile is added to its content.
#[derive(Clone, Copy)]
pub(super) struct To {
    start: *mut f32,
    stride: usize,
    rows: usize,
    columns: usize,
    add: bool,
}

impl To {
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
struct From {
    start: *const f32,
    /// Distance between rows. In a transposed product a row's numbers are contiguous, otherwise they are a panel's width apart.
    row: usize,
}

impl From {
    /// The lanes of a panel as rows.
    fn panel(start: *const f32) -> Self {
        Self { start, row: 1 }
    }
}

/// Multiplies `R` rows by `V` panels that begin `panel` rows apart. `TRANSPOSED` writes the result's columns as rows.
///
/// # Safety
/// The rows and the panels have `depth` numbers. `to` is valid for `R` rows of up to `V · 16` columns, or, if transposed, for up to `V · 16` rows of `R`
/// columns.
#[inline(always)]
unsafe fn tile<
    L: Lanes,
    const PAIRS: bool,
    const TRANSPOSED: bool,
    const R: usize,
    const V: usize,
>(
    to: To,
    a: From,
    b: *const Row,
    panel: usize,
    depth: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut sums = [[L::splat(0.0); V]; R];
        for k in 0..depth {
            if TRANSPOSED && k % LANES < R {
                // The memory that is most likely read next: the same number of rows further on.
                L::prefetch(a.start.wrapping_add((R + k % LANES) * a.row + k));
            }
            let mut columns = [L::splat(0.0); V];
            for (v, column) in columns.iter_mut().enumerate() {
                *column = L::get(&*b.add(v * panel + k));
            }
            for (r, sums) in sums.iter_mut().enumerate() {
                let at = if TRANSPOSED {
                    r * a.row + k
                } else {
                    k * LANES + r
                };
                let row = L::splat(*a.start.add(at));
                for (sum, column) in sums.iter_mut().zip(columns) {
                    *sum = if PAIRS {
                        sum.add_products(row, column)
                    } else {
                        row.fma(column, *sum)
                    };
                }
            }
        }
        if TRANSPOSED {
            for v in 0..V {
                let mut columns = [[0.0; LANES]; R];
                for (column, sums) in columns.iter_mut().zip(&sums) {
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

/// [`tile`] for all rows of `to`.
///
/// # Safety
/// As [`tile`].
#[inline(always)]
unsafe fn some_rows<L: Lanes, const PAIRS: bool, const TRANSPOSED: bool, const V: usize>(
    to: To,
    a: From,
    b: *const Row,
    panel: usize,
    depth: usize,
) {
    macro_rules! by_rows {
        ($to:expr, $a:expr, $rows:expr, $($n:literal)*) => {
            match $rows {
                $($n => tile::<L, PAIRS, TRANSPOSED, $n, V>($to, $a, b, panel, depth),)*
                _ => unreachable!("a tile has 1 to 14 rows"),
            }
        };
    }
    // SAFETY: the caller's promise, for a few rows at a time.
    unsafe {
        if L::WIDE {
            by_rows!(to, a, to.rows, 1 2 3 4 5 6 7 8 9 10 11 12 13 14);
            return;
        }
        // With fewer registers, a few rows at a time.
        for from in (0..to.rows).step_by(5) {
            let start = to
                .start
                .add(if TRANSPOSED { from } else { from * to.stride });
            let rows = (to.rows - from).min(5);
            let a = From {
                start: a.start.add(from * a.row),
                ..a
            };
            by_rows!(To { start, ..to }, a, rows, 1 2 3 4 5);
        }
    }
}

/// # Safety
/// As [`tile`], for the rows and columns of `to`.
#[inline(always)]
unsafe fn all_columns<L: Lanes, const PAIRS: bool, const TRANSPOSED: bool>(
    to: To,
    a: From,
    depth: usize,
    b: &[Row],
    panel: usize,
) {
    let panels = to.columns.div_ceil(LANES);
    let inside = panels == 0 || (panels - 1) * panel + depth <= b.len();
    assert!(inside && to.rows <= LANES, "panels have their rows");
    let mut number = 0;
    while number < panels {
        let wide = if L::WIDE && number + 1 < panels { 2 } else { 1 };
        let done = number * LANES;
        let columns = (to.columns - done).min(wide * LANES);
        // SAFETY: the panels were just checked, and the rest is promised by the callers of this function and of `To::new`.
        unsafe {
            let start = to
                .start
                .add(if TRANSPOSED { done * to.stride } else { done });
            let b = b.as_ptr().add(number * panel);
            let to = To {
                start,
                columns,
                ..to
            };
            if wide == 2 {
                some_rows::<L, PAIRS, TRANSPOSED, 2>(to, a, b, panel, depth);
            } else {
                some_rows::<L, PAIRS, TRANSPOSED, 1>(to, a, b, panel, depth);
            }
        }
        number += wide;
    }
}

#[inline(always)]
fn tiles_body<L: Lanes>(pairs: bool, to: To, a: &[Row], b: &[Row], panel: usize) {
    let (from, depth) = (From::panel(a.as_ptr().cast()), a.len());
    // SAFETY: the panel `a` has a row for each number of depth.
    unsafe {
        if pairs {
            all_columns::<L, true, false>(to, from, depth, b, panel);
        } else {
            all_columns::<L, false, false>(to, from, depth, b, panel);
        }
    }
}
at_level! {
    /// Multiplies the rows of the panel `a` by panels of the same number of rows, which begin `panel` rows apart in `b`. `pairs` tells whether they contain
    /// pairs of bf16.
    pairs fn tiles(pairs: bool, to: To, a: &[Row], b: &[Row], panel: usize) = tiles_body
}

#[inline(always)]
fn transposed_body<L: Lanes>(
    to: To,
    a: &[f32],
    stride: usize,
    depth: usize,
    b: &[Row],
    panel: usize,
) {
    let reach = to.rows.saturating_sub(1) * stride + depth;
    assert!(reach <= a.len(), "rows have their numbers");
    let from = From {
        start: a.as_ptr(),
        row: stride,
    };
    // SAFETY: the rows lie in `a`, as just checked.
    unsafe { all_columns::<L, false, true>(to, from, depth, b, panel) }
}
at_level! {
    /// Multiplies rows of `depth` numbers, `stride` apart in `a`, by panels as in [`tiles`], in f32. The panels' lanes are the rows of the result, and
    /// `to.rows` is its number of columns.
    fn transposed(to: To, a: &[f32], stride: usize, depth: usize, b: &[Row], panel: usize) = transposed_body
}
