//! Products of bf16 numbers on AMX's tiles.
//!
//! An element of the result is one chain over the whole depth, whatever the blocks. For every 32 numbers of depth, the 16 products at even positions are summed
//! in order, and so are those at odd positions. The sum of both is added to the element (`tdpbf16ps`). Denormal numbers count as zero.
//!
//! Both operands are packed in tiles. Each row of a row panel's tile is from one row of the operand. Each row of a column panel's tile has a pair of numbers of
//! each of 16 columns. Four tiles contain sums of 32 rows by 32 columns, two the rows and two the columns.

#![allow(unsafe_code)]

use std::arch::asm;
use std::ops::Range;

use super::super::simd::amx::{ROW_BYTES, Tiles};
use super::pack::{Row, pack, pack_row_tiles, panel_rows};
use super::{Format, Gemm, Job, LANES, Output, PARALLEL, Panels, Right};

/// Number of rows and columns of the result that are computed together.
const SIDE: usize = 2 * LANES;
/// Bytes of each operand's panels that a unit of work reads again and again. Both stay in a second-level cache of 2 MB, which every processor with AMX has.
const PART_BYTES: usize = 640 << 10;

/// A tile of the result in memory, as `tileloadd` addresses it.
#[repr(C)]
#[derive(Clone, Copy)]
struct Tile {
    start: *mut f32,
    /// Distance between rows in bytes.
    stride: usize,
}

/// Sums of 16 rows by 16 columns that do not fill a tile of the result.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Partial([Row; LANES]);

impl Gemm {
    /// Computes one block of depth for some rows.
    pub(super) fn block_on_tiles(
        &mut self,
        job: Job<'_>,
        rows: Range<usize>,
        depth: Range<usize>,
        add: bool,
    ) {
        let (Right::Plain(of) | Right::Packed(of, _)) = job.b;
        let columns = of.vectors();
        let panel = panel_rows(Format::Amx, depth.len());
        let (a_count, b_count) = (rows.len().div_ceil(LANES), columns.div_ceil(LANES));
        let to_pack = match job.b {
            Right::Plain(_) => b_count,
            Right::Packed(..) => 0,
        };
        self.rows.grow(a_count * panel);
        self.columns.grow(to_pack * panel);
        let (a, b) = (
            Panels(self.rows.as_mut_ptr()),
            Panels(self.columns.as_mut_ptr()),
        );
        let pack_panel = |number: usize| {
            let part = |number: usize, all: &Range<usize>| {
                let first = all.start + number * LANES;
                first..all.end.min(first + LANES)
            };
            // SAFETY: the memory has the panels, and no other call writes this one.
            let to = |panels: Panels, number: usize| unsafe {
                std::slice::from_raw_parts_mut(panels.0.add(number * panel), panel)
            };
            match number.checked_sub(a_count) {
                None => {
                    let vectors = part(number, &rows);
                    pack_row_tiles(job.level, to(a, number), job.a, vectors, depth.clone());
                }
                Some(number) => {
                    let (to, vectors) = (to(b, number), part(number, &(0..columns)));
                    pack(job.level, Format::Amx, to, of, vectors, depth.clone());
                }
            }
        };
        let panels = a_count + to_pack;
        let work = panels * LANES * depth.len();
        job.threads
            .each_if(work > PARALLEL / 4, panels, &pack_panel);

        // SAFETY: the memory has the panels, all written, and nothing writes them now.
        let a = unsafe { std::slice::from_raw_parts({ a }.0, a_count * panel) };
        let (b, b_panel) = match job.b {
            Right::Plain(_) => (&self.columns[..b_count * panel], panel),
            Right::Packed(of, packed) => {
                let before = panel_rows(Format::Amx, depth.start);
                let b_panel = panel_rows(Format::Amx, of.depth());
                (&packed.rows[before..], b_panel)
            }
        };
        let pairs = [a_count.div_ceil(2), b_count.div_ceil(2)];
        let most = (PART_BYTES / (2 * panel * size_of::<Row>())).max(1);
        let [a_parts, b_parts] = divide(pairs, most, 8 * job.threads.count);
        let part = |count: usize, parts: usize, number: usize| {
            number * count / parts..(number + 1) * count / parts
        };
        let unit = |number: usize| {
            let _tiles = Tiles::configure();
            for a_pair in part(pairs[0], a_parts, number / b_parts) {
                for b_pair in part(pairs[1], b_parts, number % b_parts) {
                    let from = (rows.start + a_pair * SIDE, b_pair * SIDE);
                    let size = (SIDE.min(rows.end - from.0), SIDE.min(columns - from.1));
                    let a = &a[2 * a_pair * panel..];
                    let b = &b[2 * b_pair * b_panel..];
                    // SAFETY: the square lies in the result, and no other unit has it.
                    unsafe { square(job.output, from, size, add, (a, panel), (b, b_panel), panel) }
                }
            }
        };
        let work = rows.len() * columns * depth.len();
        job.threads
            .each_if(work > PARALLEL, a_parts * b_parts, &unit);
    }
}

/// Number of parts into which to divide the pairs of row panels and of column panels. A part has at most `most` pairs. If there are so many squares, there are
/// at least `units` combinations of parts.
fn divide([a, b]: [usize; 2], most: usize, units: usize) -> [usize; 2] {
    let mut parts = [a.div_ceil(most), b.div_ceil(most)];
    while parts[0] * parts[1] < units.min(a * b) {
        // The longer parts are halved.
        if a * parts[1] > b * parts[0] {
            parts[0] = a.min(2 * parts[0]);
        } else {
            parts[1] = b.min(2 * parts[1]);
        }
    }
    parts
}

/// Multiplies up to two row panels by up to two column panels of `rows` rows. `from` is the first row and column of the result, and `size` is the number of its
/// rows and columns. Operands are panels from the first one on, and the distance between panels.
///
/// A missing second panel is replaced by the first, and the result of that is dropped. With so few rows, reading the columns takes longer than multiplying.
///
/// # Safety
/// The square is valid for writing, and also for reading if `add`. The calling thread's tiles are configured.
unsafe fn square(
    output: Output,
    from: (usize, usize),
    size: (usize, usize),
    add: bool,
    (a, a_panel): (&[Row], usize),
    (b, b_panel): (&[Row], usize),
    rows: usize,
) {
    let second = |count: usize, panel: usize| if count > LANES { panel } else { 0 };
    let (a_second, b_second) = (second(size.0, a_panel), second(size.1, b_panel));
    assert!(
        a_second + rows <= a.len() && b_second + rows <= b.len() && rows.is_multiple_of(LANES),
        "panels have their rows"
    );
    let panels = {
        let (a, b) = (a.as_ptr(), b.as_ptr());
        [a, a.wrapping_add(a_second), b, b.wrapping_add(b_second)]
    };
    // The part of each tile that lies in the result.
    let parts: [(usize, usize, *mut f32); 4] = std::array::from_fn(|number| {
        let (row, column) = (number / 2 * LANES, number % 2 * LANES);
        let count = |size: usize, before: usize| size.saturating_sub(before).min(LANES);
        let offset = (from.0 + row) * output.stride + from.1 + column;
        (
            count(size.0, row),
            count(size.1, column),
            output.start.wrapping_add(offset),
        )
    });
    let mut tiles = parts.map(|(.., start)| Tile {
        start,
        stride: output.stride * size_of::<f32>(),
    });
    if size == (SIDE, SIDE) {
        // SAFETY: the panels were just checked, the four tiles lie in the result, and the caller configured the tiles.
        unsafe { multiply(&tiles, add, panels, rows / LANES) }
        return;
    }
    let mut partial = [Partial([[0.0; LANES]; LANES]); 4];
    for ((tile, partial), (rows, columns, start)) in tiles.iter_mut().zip(&mut partial).zip(parts) {
        if (rows, columns) == (LANES, LANES) {
            continue;
        }
        *tile = Tile {
            start: partial.0.as_mut_ptr().cast(),
            stride: ROW_BYTES,
        };
        if add {
            for (row, to) in partial.0.iter_mut().enumerate().take(rows) {
                // SAFETY: the row lies in the square, which is valid for reading.
                unsafe {
                    let from = start.add(row * output.stride);
                    std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), columns);
                }
            }
        }
    }
    // SAFETY: the panels were just checked, each of the four tiles lies in the result or in `partial`, and the caller configured the tiles.
    unsafe { multiply(&tiles, add, panels, rows / LANES) }
    for (partial, (rows, columns, start)) in partial.iter().zip(parts) {
        if (rows, columns) == (LANES, LANES) {
            continue;
        }
        for (row, from) in partial.0.iter().enumerate().take(rows) {
            // SAFETY: the row lies in the square, which is valid for writing.
            unsafe {
                let to = start.add(row * output.stride);
                std::ptr::copy_nonoverlapping(from.as_ptr(), to, columns);
            }
        }
    }
}

/// Multiplies two row panels by two column panels, `count` tiles of each, beginning with zeros or, if `add`, with the content of `tiles`. Loads alternate with
/// products, so that the next ones are in flight while the tiles are multiplied.
///
/// # Safety
/// The panels have `count` tiles, at least one. The four tiles are valid for reading and writing. The calling thread's tiles are configured.
unsafe fn multiply(tiles: &[Tile; 4], add: bool, [a0, a1, b0, b1]: [*const Row; 4], count: usize) {
    // SAFETY: the caller's promise. The compiler uses no tiles, so they need not be declared.
    unsafe {
        asm!(
            "test {start}, {start}",
            "jz 2f",
            "mov {start}, [{tiles}]",
            "mov {stride}, [{tiles} + 8]",
            "tileloadd tmm0, [{start} + 1*{stride}]",
            "mov {start}, [{tiles} + 16]",
            "mov {stride}, [{tiles} + 24]",
            "tileloadd tmm1, [{start} + 1*{stride}]",
            "mov {start}, [{tiles} + 32]",
            "mov {stride}, [{tiles} + 40]",
            "tileloadd tmm2, [{start} + 1*{stride}]",
            "mov {start}, [{tiles} + 48]",
            "mov {stride}, [{tiles} + 56]",
            "tileloadd tmm3, [{start} + 1*{stride}]",
            "jmp 3f",
            "2:",
            "tilezero tmm0",
            "tilezero tmm1",
            "tilezero tmm2",
            "tilezero tmm3",
            "3:",
            "mov {stride}, 64",
            "4:",
            "tileloadd tmm6, [{b0} + 1*{stride}]",
            "tileloadd tmm4, [{a0} + 1*{stride}]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tileloadd tmm7, [{b1} + 1*{stride}]",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tileloadd tmm5, [{a1} + 1*{stride}]",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tdpbf16ps tmm3, tmm5, tmm7",
            "add {a0}, 1024",
            "add {a1}, 1024",
            "add {b0}, 1024",
            "add {b1}, 1024",
            "dec {count}",
            "jnz 4b",
            "mov {start}, [{tiles}]",
            "mov {stride}, [{tiles} + 8]",
            "tilestored [{start} + 1*{stride}], tmm0",
            "mov {start}, [{tiles} + 16]",
            "mov {stride}, [{tiles} + 24]",
            "tilestored [{start} + 1*{stride}], tmm1",
            "mov {start}, [{tiles} + 32]",
            "mov {stride}, [{tiles} + 40]",
            "tilestored [{start} + 1*{stride}], tmm2",
            "mov {start}, [{tiles} + 48]",
            "mov {stride}, [{tiles} + 56]",
            "tilestored [{start} + 1*{stride}], tmm3",
            start = inout(reg) usize::from(add) => _,
            stride = out(reg) _,
            tiles = in(reg) tiles.as_ptr(),
            a0 = inout(reg) a0 => _,
            a1 = inout(reg) a1 => _,
            b0 = inout(reg) b0 => _,
            b1 = inout(reg) b1 => _,
            count = inout(reg) count => _,
            options(nostack),
        );
    }
}
