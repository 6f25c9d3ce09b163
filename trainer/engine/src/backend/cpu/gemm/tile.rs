//! Tiles of a product, computed in registers.

#![allow(unsafe_code)]

use super::{LANES, Lanes, at_level};

/// Where a tile goes, and how it is joined with what is there.
#[derive(Clone, Copy)]
struct To {
    start: *mut f32,
    stride: usize,
    /// Columns of the last panel.
    last: usize,
    add: bool,
}

/// `R` rows of the panel `a` against `V` panels at `b`, each `depth` × 16.
///
/// # Safety
/// The panels are valid for reading; `to` for `R` rows of `V` panels' columns.
#[inline(always)]
unsafe fn tile<L: Lanes, const R: usize, const V: usize>(
    to: To,
    a: *const f32,
    b: *const f32,
    depth: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut sums = [[L::splat(0.0); V]; R];
        for k in 0..depth {
            let mut columns = [L::splat(0.0); V];
            for (v, column) in columns.iter_mut().enumerate() {
                *column = L::load(b.add((v * depth + k) * LANES));
            }
            for (r, sums) in sums.iter_mut().enumerate() {
                let row = L::splat(*a.add(k * LANES + r));
                for (sum, column) in sums.iter_mut().zip(columns) {
                    *sum = row.fma(column, *sum);
                }
            }
        }
        for (r, sums) in sums.iter().enumerate() {
            for (v, sum) in sums.iter().enumerate() {
                let y = to.start.add(r * to.stride + v * LANES);
                if v + 1 < V || to.last == LANES {
                    let sum = if to.add { L::load(y).add(*sum) } else { *sum };
                    sum.store(y);
                } else {
                    let n = to.last;
                    let sum = if to.add {
                        L::load_first(y, n, 0.0).add(*sum)
                    } else {
                        *sum
                    };
                    sum.store_first(y, n);
                }
            }
        }
    }
}

/// [`tile`] for `rows` rows, at most `R`.
///
/// # Safety
/// As [`tile`].
#[inline(always)]
unsafe fn some_rows<L: Lanes, const V: usize>(
    to: To,
    a: *const f32,
    rows: usize,
    b: *const f32,
    depth: usize,
) {
    macro_rules! by_rows {
        ($($n:literal)*) => {
            // SAFETY: the caller's promise.
            unsafe {
                match rows {
                    $($n => tile::<L, $n, V>(to, a, b, depth),)*
                    _ => unreachable!("a tile has 1 to 14 rows"),
                }
            }
        };
    }
    if L::WIDE {
        by_rows!(1 2 3 4 5 6 7 8 9 10 11 12 13 14);
    } else {
        // Fewer registers: a few rows at a time.
        let mut r = 0;
        while r < rows {
            let n = (rows - r).min(5);
            // SAFETY: the caller's promise, from row `r` on.
            unsafe {
                let to = To {
                    start: to.start.add(r * to.stride),
                    ..to
                };
                let a = a.add(r);
                match n {
                    1 => tile::<L, 1, V>(to, a, b, depth),
                    2 => tile::<L, 2, V>(to, a, b, depth),
                    3 => tile::<L, 3, V>(to, a, b, depth),
                    4 => tile::<L, 4, V>(to, a, b, depth),
                    _ => tile::<L, 5, V>(to, a, b, depth),
                }
            }
            r += n;
        }
    }
}

#[inline(always)]
unsafe fn tiles_body<L: Lanes>(
    y: *mut f32,
    stride: usize,
    a: &[f32],
    rows: usize,
    b: &[f32],
    columns: usize,
    add: bool,
) {
    let depth = a.len() / LANES;
    assert!(
        columns.div_ceil(LANES) * a.len() <= b.len() && rows <= LANES,
        "panels have their numbers"
    );
    let mut column = 0;
    while column < columns {
        let left = columns - column;
        // SAFETY: panels as just checked; the caller's promise for `y`.
        unsafe {
            let b = b.as_ptr().add(column * depth);
            let to = |last| To {
                start: y.add(column),
                stride,
                last,
                add,
            };
            if L::WIDE && left > LANES {
                some_rows::<L, 2>(to((left - LANES).min(LANES)), a.as_ptr(), rows, b, depth);
                column += 2 * LANES;
            } else {
                some_rows::<L, 1>(to(left.min(LANES)), a.as_ptr(), rows, b, depth);
                column += LANES;
            }
        }
    }
}
at_level! {
    /// `rows` rows of the panel `a` against the panels `b` that have `columns` columns: written to `y`, or added to it.
    ///
    /// # Safety
    /// `y` is valid for writing `rows` rows, `stride` apart, of `columns` numbers.
    unsafe fn tiles(y: *mut f32, stride: usize, a: &[f32], rows: usize, b: &[f32], columns: usize, add: bool) = tiles_body
}
