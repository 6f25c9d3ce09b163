//! Matrix products with a fixed order of summation.
//!
//! The depth of a product is cut into blocks by its size alone. Within a block an element of the result is one chain of fused multiply-adds in order of depth; the
//! blocks' sums are added to the result one after the other. Tiles, panels, threads and the number of rows decide only who computes an element and when, so
//! a row's result has the same bits alone and in any batch. See `NUMERICS.md`.
//!
//! A tile of the result is held in registers: up to [`TILE_ROWS`] rows of one operand's panel against two panels of the other (Goto & van de Geijn 2008).
//! Panels are packed on the way, 16 vectors side by side, transposed where their numbers lie in order of depth.

#![allow(unsafe_code)]

mod pack;
mod tile;

use std::cell::RefCell;
use std::ops::Range;

use self::pack::pack;
use self::tile::tiles;
use super::lanes::{LANES, Lanes, Level, at_level};
use super::threads::Threads;

pub(super) use self::pack::Operand;

/// Most rows of a tile: with two panels beside them, 28 of 32 registers hold sums.
const TILE_ROWS: usize = 14;
/// Most numbers of one chain: two panels of so many stay in the second-level cache with a tile's rows.
const DEPTH: usize = 768;
/// Rows whose panels are packed at a time.
const CHUNK_ROWS: usize = 2048;
/// Rows of a piece of work, about.
const PART_ROWS: usize = 512;
/// Columns of a tile.
const COLUMNS: usize = 2 * LANES;
/// Products with fewer multiplications run on the calling thread.
const PARALLEL: usize = 1 << 17;

thread_local! {
    /// A thread's packed columns.
    static PANELS: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

/// Blocks of a depth: as few as there can be, and about equal.
fn blocks(depth: usize) -> impl Iterator<Item = Range<usize>> {
    let count = depth.div_ceil(DEPTH).max(1);
    let size = depth.div_ceil(count).next_multiple_of(LANES).max(LANES);
    (0..depth)
        .step_by(size)
        .map(move |from| from..depth.min(from + size))
}

/// Tiles of a number of rows: as few as there can be, and about equal.
fn tile_rows(rows: Range<usize>) -> (usize, impl Fn(usize) -> Range<usize>) {
    let count = rows.len().div_ceil(TILE_ROWS);
    let (size, larger) = (rows.len() / count.max(1), rows.len() % count.max(1));
    (count, move |number| {
        let start = |n: usize| rows.start + n * size + n.min(larger);
        start(number)..start(number + 1)
    })
}

/// Working memory of products.
#[derive(Default)]
pub(super) struct Products {
    /// Packed rows of the first operand.
    rows: Vec<f32>,
}

/// A result in memory that threads write disjoint tiles of.
#[derive(Clone, Copy)]
struct Output {
    start: *mut f32,
    stride: usize,
}

// SAFETY: each tile is written by one thread.
unsafe impl Send for Output {}
// SAFETY: as above.
unsafe impl Sync for Output {}

/// Packed rows that threads write disjoint panels of.
#[derive(Clone, Copy)]
struct Panels(*mut f32);

// SAFETY: each panel is written by one thread, and read when all are written.
unsafe impl Send for Panels {}
// SAFETY: as above.
unsafe impl Sync for Panels {}

impl Products {
    /// `y[i][j] = Σₖ a[i][k] · b[j][k]`, added to what `y` holds if `accumulate`; `y` is row-major.
    pub(super) fn run(
        &mut self,
        level: Level,
        threads: &Threads,
        y: &mut [f32],
        a: Operand<'_>,
        b: Operand<'_>,
        accumulate: bool,
    ) {
        let (rows, columns, depth) = (a.vectors(), b.vectors(), a.depth());
        assert_eq!(b.depth(), depth, "inner sizes agree");
        assert_eq!(y.len(), rows * columns, "the result has its elements");
        if depth == 0 && !accumulate {
            y.fill(0.0);
        }
        let output = Output {
            start: y.as_mut_ptr(),
            stride: columns,
        };
        for first in (0..rows).step_by(CHUNK_ROWS) {
            let chunk = first..rows.min(first + CHUNK_ROWS);
            for block in blocks(depth) {
                let add = accumulate || block.start > 0;
                self.block(level, threads, output, a, b, chunk.clone(), block, add);
            }
        }
    }

    /// One block of depth of some rows.
    fn block(
        &mut self,
        level: Level,
        threads: &Threads,
        output: Output,
        a: Operand<'_>,
        b: Operand<'_>,
        rows: Range<usize>,
        depth: Range<usize>,
        add: bool,
    ) {
        let columns = b.vectors();
        let panel = depth.len() * LANES;
        let work = rows.len() * columns * depth.len();
        let (count, tile) = tile_rows(rows);
        if self.rows.len() < count * panel {
            self.rows.resize(count * panel, 0.0);
        }
        let packed = Panels(self.rows.as_mut_ptr());
        let pack_rows = |number: usize| {
            // SAFETY: `rows` has `count` panels.
            let to =
                unsafe { std::slice::from_raw_parts_mut({ packed }.0.add(number * panel), panel) };
            pack(level, to, a, tile(number), depth.clone());
        };
        threads.each_if(count * panel > PARALLEL / 4, count, &pack_rows);

        let groups = columns.div_ceil(COLUMNS);
        let parts = (count * TILE_ROWS).div_ceil(PART_ROWS);
        let together = [4, 2]
            .into_iter()
            .find(|n| groups * parts >= 8 * n * threads.count);
        let together = together.unwrap_or(1);
        let units = groups.div_ceil(together);
        let unit = |number: usize| {
            let (part, unit) = (number / units, number % units);
            let tiles_of = part * count / parts..(part + 1) * count / parts;
            let columns = unit * together * COLUMNS..columns.min((unit + 1) * together * COLUMNS);
            PANELS.with_borrow_mut(|panels| {
                let wide = columns.len().div_ceil(LANES) * panel;
                if panels.len() < wide {
                    panels.resize(wide, 0.0);
                }
                for (to, from) in panels
                    .chunks_exact_mut(panel)
                    .zip(columns.clone().step_by(LANES))
                {
                    pack(
                        level,
                        to,
                        b,
                        from..columns.end.min(from + LANES),
                        depth.clone(),
                    );
                }
                for number in tiles_of {
                    let rows = tile(number);
                    // SAFETY: `rows` has `count` panels, all written; the tile lies in the result, and no other unit has it.
                    unsafe {
                        let a = std::slice::from_raw_parts(
                            { packed }.0.add(number * panel).cast_const(),
                            panel,
                        );
                        let y = { output }
                            .start
                            .add(rows.start * output.stride + columns.start);
                        tiles(
                            level,
                            y,
                            output.stride,
                            a,
                            rows.len(),
                            &panels[..wide],
                            columns.len(),
                            add,
                        );
                    }
                }
            });
        };
        threads.each_if(work > PARALLEL, units * parts, &unit);
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod yardstick;
