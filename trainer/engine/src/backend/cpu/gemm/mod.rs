//! Matrix products with a fixed order of summation.
//!
//! The depth of a product (its inner dimension) is divided into blocks by its size alone. Within a block, an element of the result is one chain of fused
//! multiply-adds in order of depth. The blocks' sums are added to the result one after the other. Tiles, panels, threads and the number of rows decide only
//! where and when an element is computed. A row's result therefore has the same bits alone and in any batch. See `NUMERICS.md`.
//!
//! A tile of the result is computed in registers: up to [`TILE_ROWS`] rows of one operand's panel against two panels of the other (Goto & van de Geijn 2008).
//! Panels are packed when they are needed, with 16 vectors side by side. If each vector's numbers are contiguous, packing transposes them. With few rows the
//! weights are not packed but read in place, and the lanes are rows of the result.
//!
//! AVX2 has fewer registers. There, a tile is three strips of [`NARROW_STRIP`] rows against one panel, and one strip's sums are in registers at a time. Where
//! no instruction multiplies pairs of bf16, the rows are packed as f32. So only the columns' pairs are split while multiplying.
//!
//! With AMX, products of bf16 numbers have their own tiles and their own chain. It is just as independent of other rows; see [`amx`].

#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
mod amx;
mod pack;
mod tile;

use std::cell::RefCell;
use std::ops::Range;

use self::pack::{AlignedRows, Row, TILE_DEPTH, pack, pack_split, panel_rows};
use self::tile::{Destination, tiles, transposed};
use super::simd::{LANES, Lanes, SimdLevel, at_level};
use super::threads::Threads;

pub(super) use self::pack::Operand;

/// Number format of the factors; sums are f32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    F32,
    /// Rounded when packed into panels.
    Bf16,
    /// The same for the tiles of AMX, which the processor must have.
    Amx,
}

impl Format {
    /// The instructions and the format of products, for messages.
    pub(super) fn name(self, level: SimdLevel) -> String {
        let (level, format) = match self {
            Self::F32 => (level.name(), "f32"),
            Self::Bf16 => (level.name(), "bf16"),
            Self::Amx => ("AMX", "bf16"),
        };
        format!("{level}, {format}")
    }
}

/// Maximum number of rows of a tile. With two panels beside them, 28 of 32 registers contain sums.
const TILE_ROWS: usize = 14;
/// Maximum number of rows of a strip. With only 16 registers of half a vector each, 10 contain the strip's sums.
const NARROW_STRIP: usize = 5;
/// Number of strips of such a tile. A panel has room for their rows.
const NARROW_STRIPS: usize = LANES / NARROW_STRIP;
/// Maximum length of one chain. Two panels of this depth stay in the second-level cache together with a tile's rows.
const DEPTH: usize = 768;
/// Depth of a block on the tiles of AMX. Blocks divide no chain there, and in a longer one the sums are written and read less often.
const TILES_DEPTH: usize = 2048;
/// Number of rows that are packed at a time.
const CHUNK_ROWS: usize = 2048;
/// Approximate number of rows of a unit of work.
const PART_ROWS: usize = 512;
/// Maximum number of rows of a product that reads its second operand in place.
const FEW_ROWS: usize = 512;
/// Number of columns of a tile.
const COLUMNS: usize = 2 * LANES;
/// Products with fewer multiplications run on the calling thread.
const PARALLEL: usize = 1 << 17;

thread_local! {
    /// The calling thread's packed columns.
    static PANELS: RefCell<AlignedRows> = const { RefCell::new(AlignedRows::new()) };
}

/// Divides a depth into blocks, as few as possible and of about equal size.
fn blocks(format: Format, depth: usize) -> impl Iterator<Item = Range<usize>> {
    let (max, unit) = match format {
        Format::F32 | Format::Bf16 => (DEPTH, LANES),
        Format::Amx => (TILES_DEPTH, TILE_DEPTH),
    };
    let count = depth.div_ceil(max).max(1);
    let size = depth.div_ceil(count).next_multiple_of(unit).max(unit);
    (0..depth)
        .step_by(size)
        .map(move |from| from..depth.min(from + size))
}

/// Divides rows into tiles, as few as possible and of about equal size.
fn tile_rows(level: SimdLevel, rows: Range<usize>) -> (usize, impl Fn(usize) -> Range<usize>) {
    // The rows in registers at a time are divided evenly.
    let (strip, strips) = if level.wide() {
        (TILE_ROWS, 1)
    } else {
        (NARROW_STRIP, NARROW_STRIPS)
    };
    let count = rows.len().div_ceil(strip);
    let (size, larger) = (rows.len() / count.max(1), rows.len() % count.max(1));
    (count.div_ceil(strips), move |number| {
        let start = |tile: usize| {
            let n = (tile * strips).min(count);
            rows.start + n * size + n.min(larger)
        };
        start(number)..start(number + 1)
    })
}

/// Vectors packed over their whole depth, for use in many products.
#[derive(Debug, Default)]
pub(super) struct Packed {
    /// One panel after the other, each with all blocks of depth.
    rows: AlignedRows,
}

impl Packed {
    /// Packs vectors again, reusing the memory.
    pub(super) fn fill(
        &mut self,
        level: SimdLevel,
        threads: &Threads,
        format: Format,
        from: Operand<'_>,
    ) {
        let panel = panel_rows(format, from.depth());
        let count = from.vectors().div_ceil(LANES);
        self.rows.grow(count * panel);
        let to = Panels(self.rows.as_mut_ptr());
        threads.each(count, &|number| {
            let vectors = number * LANES..from.vectors().min((number + 1) * LANES);
            // SAFETY: the memory has `count` panels, and no other call writes this one.
            let to = unsafe { std::slice::from_raw_parts_mut({ to }.0.add(number * panel), panel) };
            pack(level, format, to, from, vectors, 0..from.depth());
        });
    }
}

/// The second operand of a product.
#[derive(Clone, Copy)]
pub(super) enum Right<'a> {
    /// Packed for each product.
    Plain(Operand<'a>),
    /// The same operand, packed beforehand in the product's format.
    Packed(Operand<'a>, &'a Packed),
}

/// Working memory of products.
#[derive(Default)]
pub(super) struct Gemm {
    /// Packed rows of the first operand.
    rows: AlignedRows,
    /// Packed columns of the second operand for AMX. Without it, each thread packs its own.
    #[cfg(target_arch = "x86_64")]
    columns: AlignedRows,
}

/// A result in memory. Threads write disjoint tiles of it.
#[derive(Clone, Copy)]
struct Output {
    start: *mut f32,
    stride: usize,
}

// SAFETY: each tile is written by one thread.
unsafe impl Send for Output {}
// SAFETY: as above.
unsafe impl Sync for Output {}

/// Packed rows. Threads write disjoint panels of them.
#[derive(Clone, Copy)]
struct Panels(*mut Row);

// SAFETY: each panel is written by one thread, and read only after all are written.
unsafe impl Send for Panels {}
// SAFETY: as above.
unsafe impl Sync for Panels {}

/// Data that all parts of a product share.
#[derive(Clone, Copy)]
struct Job<'a> {
    level: SimdLevel,
    threads: &'a Threads,
    format: Format,
    output: Output,
    a: Operand<'a>,
    b: Right<'a>,
}

impl Gemm {
    /// `y[i][j] = Σₖ a[i][k] · b[j][k]`; added to `y` if `accumulate`. `y` is row-major.
    pub(super) fn run(
        &mut self,
        level: SimdLevel,
        threads: &Threads,
        format: Format,
        y: &mut [f32],
        a: Operand<'_>,
        b: Right<'_>,
        accumulate: bool,
    ) {
        let (Right::Plain(of) | Right::Packed(of, _)) = b;
        let (rows, columns, depth) = (a.vectors(), of.vectors(), a.depth());
        assert_eq!(of.depth(), depth, "inner sizes agree");
        assert_eq!(y.len(), rows * columns, "the result has its elements");
        if depth == 0 && !accumulate {
            y.fill(0.0);
        }
        let output = Output {
            start: y.as_mut_ptr(),
            stride: columns,
        };
        let few = format == Format::F32 && rows <= FEW_ROWS;
        let job = Job {
            level,
            threads,
            format,
            output,
            a,
            b,
        };
        for first in (0..rows).step_by(CHUNK_ROWS) {
            let chunk = first..rows.min(first + CHUNK_ROWS);
            for block in blocks(format, depth) {
                let add = accumulate || block.start > 0;
                match b {
                    #[cfg(target_arch = "x86_64")]
                    _ if format == Format::Amx => {
                        self.block_on_tiles(job, chunk.clone(), block, add);
                    }
                    Right::Plain(of) if few && !of.by_depth() => {
                        self.block_transposed(job, of, block, add);
                    }
                    _ => self.block(job, chunk.clone(), block, add),
                }
            }
        }
    }

    /// Computes one block of depth for all rows, with `b` read in place: the rows of `b` are a tile's rows, and those of `a` its lanes. With so few rows,
    /// packing `b` would cost more than multiplying it.
    fn block_transposed(&mut self, job: Job<'_>, b: Operand<'_>, depth: Range<usize>, add: bool) {
        let (rows, panel) = (job.a.vectors(), panel_rows(job.format, depth.len()));
        let panels = rows.div_ceil(LANES);
        self.rows.grow(panels * panel);
        let packed = &mut self.rows[..panels * panel];
        for (number, to) in packed.chunks_exact_mut(panel).enumerate() {
            let vectors = number * LANES..rows.min((number + 1) * LANES);
            pack(job.level, job.format, to, job.a, vectors, depth.clone());
        }
        let packed = &*packed;
        let (count, tile) = tile_rows(job.level, 0..b.vectors());
        let units = (8 * job.threads.count).min(count);
        let unit = |unit: usize| {
            for number in unit * count / units..(unit + 1) * count / units {
                let columns = tile(number);
                // SAFETY: the tile lies in the result, and no other unit has it.
                let to = unsafe {
                    let y = { job.output }.start.add(columns.start);
                    Destination::new(y, job.output.stride, columns.len(), rows, add)
                };
                let from = &b.data()[columns.start * b.depth() + depth.start..];
                transposed(job.level, to, from, b.depth(), depth.len(), packed, panel);
            }
        };
        let work = rows * b.vectors() * depth.len();
        job.threads.each_if(work > PARALLEL, units, &unit);
    }

    /// Computes one block of depth for some rows.
    fn block(&mut self, job: Job<'_>, rows: Range<usize>, depth: Range<usize>, add: bool) {
        let (Right::Plain(of) | Right::Packed(of, _)) = job.b;
        let columns = of.vectors();
        let panel = panel_rows(job.format, depth.len());
        let work = rows.len() * columns * depth.len();
        let (count, tile) = tile_rows(job.level, rows);
        let pairs = job.format == Format::Bf16;
        let split = pairs && !job.level.multiplies_pairs();
        let row_panel = if split { 2 * panel } else { panel };
        self.rows.grow(count * row_panel);
        let packed = Panels(self.rows.as_mut_ptr());
        let pack_rows = |number: usize| {
            // SAFETY: `rows` has `count` panels, and no other call writes this one.
            let to = unsafe {
                let start = { packed }.0.add(number * row_panel);
                std::slice::from_raw_parts_mut(start, row_panel)
            };
            let (rows, depth) = (tile(number), depth.clone());
            if split {
                pack_split(job.level, to, job.a, rows, depth);
            } else {
                pack(job.level, job.format, to, job.a, rows, depth);
            }
        };
        let packing = count * depth.len() * LANES;
        job.threads
            .each_if(packing > PARALLEL / 4, count, &pack_rows);

        let groups = columns.div_ceil(COLUMNS);
        let parts = (count * TILE_ROWS).div_ceil(PART_ROWS);
        let fits = |n: &usize| groups * parts >= 8 * n * job.threads.count;
        let group = [4, 2].into_iter().find(fits).unwrap_or(1);
        let units = groups.div_ceil(group);
        let multiply = |number: usize, panels: &[Row], stride: usize| {
            let (part, unit) = (number / units, number % units);
            let columns = unit * group * COLUMNS..columns.min((unit + 1) * group * COLUMNS);
            for number in part * count / parts..(part + 1) * count / parts {
                let rows = tile(number);
                // SAFETY: `rows` has `count` panels, all written; the tile lies in the result, and no other unit has it.
                unsafe {
                    let start = { packed }.0.add(number * row_panel);
                    let a = std::slice::from_raw_parts(start, row_panel);
                    let y = { job.output }
                        .start
                        .add(rows.start * job.output.stride + columns.start);
                    let to = Destination::new(y, job.output.stride, rows.len(), columns.len(), add);
                    tiles(job.level, pairs, to, a, panels, stride);
                }
            }
        };
        let unit = |number: usize| {
            let first = number % units * group * COLUMNS;
            match job.b {
                Right::Packed(of, packed) => {
                    let stride = panel_rows(job.format, of.depth());
                    let before = panel_rows(job.format, depth.start);
                    let start = first / LANES * stride + before;
                    multiply(number, &packed.rows[start..], stride);
                }
                Right::Plain(of) => PANELS.with_borrow_mut(|panels| {
                    let columns = first..columns.min(first + group * COLUMNS);
                    let len = columns.len().div_ceil(LANES) * panel;
                    panels.grow(len);
                    let starts = columns.clone().step_by(LANES);
                    for (to, from) in panels.chunks_exact_mut(panel).zip(starts) {
                        let vectors = from..columns.end.min(from + LANES);
                        pack(job.level, job.format, to, of, vectors, depth.clone());
                    }
                    multiply(number, &panels[..len], panel);
                }),
            }
        };
        job.threads.each_if(work > PARALLEL, units * parts, &unit);
    }
}

#[cfg(test)]
mod tests;
