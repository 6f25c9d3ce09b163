//! Tiles of a product, computed in registers.

#![allow(unsafe_code)]

use super::pack::Row;
use super::{Format, LANES, Lanes, at_level};

/// Where a tile of the result goes, and whether it is added to what is there.
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
    /// As long as it is used, `start` is valid for writing them, and for reading where `add`.
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

/// `R` rows of the panel `a`, from lane `lane` on, against `V` panels that begin `panel` rows apart.
///
/// # Safety
/// `a` and the panels have `depth` rows; `to` is valid for `R` rows of up to `V · 16` columns.
#[inline(always)]
unsafe fn tile<L: Lanes, const PAIRS: bool, const R: usize, const V: usize>(
    to: To,
    a: *const f32,
    b: *const Row,
    panel: usize,
    depth: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut sums = [[L::splat(0.0); V]; R];
        for k in 0..depth {
            let mut columns = [L::splat(0.0); V];
            for (v, column) in columns.iter_mut().enumerate() {
                *column = L::get(&*b.add(v * panel + k));
            }
            for (r, sums) in sums.iter_mut().enumerate() {
                let row = L::splat(*a.add(k * LANES + r));
                for (sum, column) in sums.iter_mut().zip(columns) {
                    *sum = if PAIRS {
                        sum.add_products(row, column)
                    } else {
                        row.fma(column, *sum)
                    };
                }
            }
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
unsafe fn some_rows<L: Lanes, const PAIRS: bool, const V: usize>(
    to: To,
    a: *const f32,
    b: *const Row,
    panel: usize,
    depth: usize,
) {
    macro_rules! by_rows {
        ($to:expr, $a:expr, $rows:expr, $($n:literal)*) => {
            match $rows {
                $($n => tile::<L, PAIRS, $n, V>($to, $a, b, panel, depth),)*
                _ => unreachable!("a tile has 1 to 14 rows"),
            }
        };
    }
    // SAFETY: the caller's promise, of some rows after others.
    unsafe {
        if L::WIDE {
            by_rows!(to, a, to.rows, 1 2 3 4 5 6 7 8 9 10 11 12 13 14);
            return;
        }
        // Fewer registers: a few rows at a time.
        for from in (0..to.rows).step_by(5) {
            let start = to.start.add(from * to.stride);
            let rows = (to.rows - from).min(5);
            by_rows!(To { start, ..to }, a.add(from), rows, 1 2 3 4 5);
        }
    }
}

#[inline(always)]
fn all_columns<L: Lanes, const PAIRS: bool>(to: To, a: &[Row], b: &[Row], panel: usize) {
    let depth = a.len();
    let panels = to.columns.div_ceil(LANES);
    let inside = panels == 0 || (panels - 1) * panel + depth <= b.len();
    assert!(inside && to.rows <= LANES, "panels have their rows");
    let a = a.as_ptr().cast();
    let mut number = 0;
    while number < panels {
        let wide = if L::WIDE && number + 1 < panels { 2 } else { 1 };
        let done = number * LANES;
        let columns = (to.columns - done).min(wide * LANES);
        // SAFETY: panels as just checked, and what `To::new` was promised.
        unsafe {
            let (start, b) = (to.start.add(done), b.as_ptr().add(number * panel));
            let to = To {
                start,
                columns,
                ..to
            };
            if wide == 2 {
                some_rows::<L, PAIRS, 2>(to, a, b, panel, depth);
            } else {
                some_rows::<L, PAIRS, 1>(to, a, b, panel, depth);
            }
        }
        number += wide;
    }
}

#[inline(always)]
fn tiles_body<L: Lanes>(format: Format, to: To, a: &[Row], b: &[Row], panel: usize) {
    match format {
        Format::F32 => all_columns::<L, false>(to, a, b, panel),
        Format::Bf16 => all_columns::<L, true>(to, a, b, panel),
    }
}
at_level! {
    /// The rows of the panel `a` against panels of as many rows that begin `panel` rows apart in `b`.
    pairs fn tiles(format: Format, to: To, a: &[Row], b: &[Row], panel: usize) = tiles_body
}
