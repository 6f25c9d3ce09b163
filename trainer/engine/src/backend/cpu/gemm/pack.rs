//! Panels: 16 vectors side by side, in order of depth, as f32 numbers or as pairs of bf16. The row panels of AMX have one vector after the other instead.

#![allow(unsafe_code)]

use std::ops::{Deref, DerefMut, Range};

use super::{Format, LANES, Lanes, at_level};

/// Depth of a tile of AMX.
pub(super) const TILE_DEPTH: usize = 2 * LANES;

/// A row of a panel: a number, or a pair of bf16 numbers, of each vector.
pub(super) type Row = [f32; LANES];

/// Rows of panels, each in a cache line of its own: a load from two lines takes twice as long.
#[derive(Debug, Default)]
pub(super) struct AlignedRows(Vec<Line>);

#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
struct Line(Row);

impl AlignedRows {
    pub(super) const fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds rows until there are at least `count`.
    pub(super) fn grow(&mut self, count: usize) {
        if self.0.len() < count {
            self.0.resize(count, Line([0.0; LANES]));
        }
    }
}

impl Deref for AlignedRows {
    type Target = [Row];

    fn deref(&self) -> &[Row] {
        // SAFETY: a line is a row, and has its size.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), self.0.len()) }
    }
}

impl DerefMut for AlignedRows {
    fn deref_mut(&mut self) -> &mut [Row] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), self.0.len()) }
    }
}

/// Vectors of equal depth in memory: the rows or the columns of a matrix.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Operand<'a> {
    data: &'a [f32],
    vectors: usize,
    depth: usize,
    by_depth: bool,
}

impl<'a> Operand<'a> {
    /// The rows of a row-major matrix.
    pub(in super::super) fn rows(data: &'a [f32], rows: usize, columns: usize) -> Self {
        assert_eq!(data.len(), rows * columns, "a matrix has its elements");
        Self {
            data,
            vectors: rows,
            depth: columns,
            by_depth: false,
        }
    }

    /// The columns of a row-major matrix.
    pub(in super::super) fn columns(data: &'a [f32], rows: usize, columns: usize) -> Self {
        assert_eq!(data.len(), rows * columns, "a matrix has its elements");
        Self {
            data,
            vectors: columns,
            depth: rows,
            by_depth: true,
        }
    }

    pub(super) fn data(&self) -> &'a [f32] {
        self.data
    }

    /// Whether the numbers of one depth are contiguous, so that a vector's own numbers are not.
    pub(super) fn by_depth(&self) -> bool {
        self.by_depth
    }

    pub(in super::super) fn vectors(&self) -> usize {
        self.vectors
    }

    /// Number of elements of a vector.
    pub(in super::super) fn depth(&self) -> usize {
        self.depth
    }
}

/// Number of rows of a panel for a depth.
pub(super) fn panel_rows(format: Format, depth: usize) -> usize {
    match format {
        Format::F32 => depth,
        Format::Bf16 => depth.div_ceil(2),
        Format::Amx => depth.div_ceil(TILE_DEPTH) * LANES,
    }
}

/// Panics if there are no such vectors, or more than a panel has lanes.
fn assert_inside(from: Operand<'_>, vectors: &Range<usize>, depth: &Range<usize>) {
    let inside = vectors.end <= from.vectors && depth.end <= from.depth;
    let valid = !vectors.is_empty() && vectors.len() <= LANES;
    assert!(inside && valid, "a panel lies in its operand");
}

/// Up to 16 numbers of depth `k..k + n` of up to 16 vectors, as rows of a panel of f32; missing numbers are 0.
#[inline(always)]
fn square<L: Lanes>(
    to: &mut [Row; LANES],
    from: Operand<'_>,
    vectors: &Range<usize>,
    k: usize,
    n: usize,
) {
    if from.by_depth {
        for (i, to) in to.iter_mut().enumerate() {
            if i >= n {
                *to = [0.0; LANES];
                continue;
            }
            let row = &from.data[(k + i) * from.vectors..][vectors.clone()];
            match row.first_chunk::<LANES>() {
                Some(row) => L::get(row).put(to),
                // SAFETY: the row has `row.len()` numbers, fewer than the lanes.
                None => unsafe { L::load_first(row.as_ptr(), row.len(), 0.0) }.put(to),
            }
        }
        return;
    }
    let start = vectors.start * from.depth + k;
    let end = start + (vectors.len() - 1) * from.depth + n;
    assert!(end <= from.data.len(), "a panel lies in its operand");
    if n == LANES {
        // SAFETY: `vectors.len()` rows from `start` on, `depth` apart, lie in the operand with 16 numbers each, as just checked.
        unsafe { L::transpose(from.data.as_ptr().add(start), from.depth, vectors.len(), to) }
        return;
    }
    *to = [[0.0; LANES]; LANES];
    for (lane, _) in vectors.clone().enumerate() {
        for (i, to) in to.iter_mut().enumerate().take(n) {
            to[lane] = from.data[start + lane * from.depth + i];
        }
    }
}

#[inline(always)]
fn pack_body<L: Lanes>(
    format: Format,
    to: &mut [Row],
    from: Operand<'_>,
    vectors: Range<usize>,
    depth: Range<usize>,
) {
    assert_inside(from, &vectors, &depth);
    let mut numbers = [[0.0; LANES]; LANES];
    match format {
        Format::F32 => {
            let to = &mut to[..depth.len()];
            for (to, k) in to.chunks_mut(LANES).zip(depth.clone().step_by(LANES)) {
                if let Some(to) = to.first_chunk_mut::<LANES>() {
                    square::<L>(to, from, &vectors, k, LANES);
                } else {
                    square::<L>(&mut numbers, from, &vectors, k, to.len());
                    to.copy_from_slice(&numbers[..to.len()]);
                }
            }
        }
        Format::Bf16 | Format::Amx => {
            let (to, unused) = to.split_at_mut(depth.len().div_ceil(2));
            unused.fill([0.0; LANES]);
            for (to, k) in to.chunks_mut(LANES / 2).zip(depth.clone().step_by(LANES)) {
                square::<L>(&mut numbers, from, &vectors, k, LANES.min(depth.end - k));
                for (to, [even, odd]) in to.iter_mut().zip(numbers.as_chunks::<2>().0) {
                    L::get(even).pair(L::get(odd)).put(to);
                }
            }
        }
    }
}

at_level! {
    /// Fills a panel with up to 16 vectors side by side, over a range of depth. Lanes beyond the vectors, and rows beyond the depth, are 0.
    pairs fn pack(format: Format, to: &mut [Row], from: Operand<'_>, vectors: Range<usize>, depth: Range<usize>) = pack_body
}

#[inline(always)]
fn pack_split_body<L: Lanes>(
    to: &mut [Row],
    from: Operand<'_>,
    vectors: Range<usize>,
    depth: Range<usize>,
) {
    assert_inside(from, &vectors, &depth);
    let mut numbers = [[0.0; LANES]; LANES];
    let steps = depth.clone().step_by(LANES);
    for (to, k) in to.as_chunks_mut::<2>().0.chunks_mut(LANES / 2).zip(steps) {
        square::<L>(&mut numbers, from, &vectors, k, LANES.min(depth.end - k));
        for ([second, first], [even, odd]) in to.iter_mut().zip(numbers.as_chunks::<2>().0) {
            let pair = L::get(even).pair(L::get(odd));
            pair.second().put(second);
            pair.first().put(first);
        }
    }
}

at_level! {
    /// Like [`pack`], for processors without an instruction for pairs of bf16. Of each pair it writes the second number and then the first, as f32, so `to` has
    /// two rows for each of [`pack`]'s.
    fn pack_split(to: &mut [Row], from: Operand<'_>, vectors: Range<usize>, depth: Range<usize>) = pack_split_body
}

#[inline(always)]
fn pack_row_tiles_body<L: Lanes>(
    to: &mut [Row],
    from: Operand<'_>,
    vectors: Range<usize>,
    depth: Range<usize>,
) {
    assert_inside(from, &vectors, &depth);
    let tiles = to.as_chunks_mut::<LANES>().0;
    for (tile, k) in tiles.iter_mut().zip(depth.clone().step_by(TILE_DEPTH)) {
        let n = TILE_DEPTH.min(depth.end - k);
        if from.by_depth {
            let (mut numbers, mut pairs) = ([[0.0; LANES]; LANES], [[0.0; LANES]; LANES]);
            for (half, to) in pairs
                .as_chunks_mut::<{ LANES / 2 }>()
                .0
                .iter_mut()
                .enumerate()
            {
                let before = half * LANES;
                let n = n.saturating_sub(before).min(LANES);
                square::<L>(&mut numbers, from, &vectors, k + before, n);
                for (to, [even, odd]) in to.iter_mut().zip(numbers.as_chunks::<2>().0) {
                    L::get(even).pair(L::get(odd)).put(to);
                }
            }
            // SAFETY: `pairs` has 16 rows of 16 numbers.
            unsafe { L::transpose(pairs.as_ptr().cast(), LANES, LANES, tile) }
            continue;
        }
        for (lane, to) in tile.iter_mut().enumerate() {
            if lane >= vectors.len() {
                *to = [0.0; LANES];
                continue;
            }
            let row = &from.data[(vectors.start + lane) * from.depth + k..][..n];
            if let Some(row) = row.first_chunk::<TILE_DEPTH>() {
                let (first, second) = row.split_at(LANES);
                // SAFETY: both halves have 16 numbers.
                let (first, second) =
                    unsafe { (L::load(first.as_ptr()), L::load(second.as_ptr())) };
                first.narrow(second).put(to);
            } else {
                let mut numbers = [[0.0; LANES]; 2];
                numbers.as_flattened_mut()[..n].copy_from_slice(row);
                L::get(&numbers[0]).narrow(L::get(&numbers[1])).put(to);
            }
        }
    }
}

at_level! {
    /// Fills a row panel of AMX with up to 16 vectors, over a range of depth: one tile for every 32 numbers of depth, with a row for each vector. Missing
    /// vectors and numbers are 0.
    pairs fn pack_row_tiles(to: &mut [Row], from: Operand<'_>, vectors: Range<usize>, depth: Range<usize>) = pack_row_tiles_body
}
