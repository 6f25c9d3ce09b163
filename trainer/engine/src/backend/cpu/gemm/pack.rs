//! Panels: 16 vectors side by side, number after number of their depth.

#![allow(unsafe_code)]

use std::ops::Range;

use super::{LANES, Lanes, at_level};

/// Vectors of equal depth in memory: a matrix's rows or its columns.
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

    /// Number of vectors.
    pub(in super::super) fn vectors(&self) -> usize {
        self.vectors
    }

    /// Numbers of a vector.
    pub(in super::super) fn depth(&self) -> usize {
        self.depth
    }
}

#[inline(always)]
fn pack_body<L: Lanes>(
    to: &mut [f32],
    from: Operand<'_>,
    vectors: Range<usize>,
    depth: Range<usize>,
) {
    let inside = vectors.end <= from.vectors && depth.end <= from.depth;
    assert!(
        inside && vectors.len() <= LANES,
        "a panel lies in its operand"
    );
    let (to, _) = to.as_chunks_mut::<LANES>();
    let to = &mut to[..depth.len()];
    if from.by_depth {
        for (to, k) in to.iter_mut().zip(depth) {
            let row = &from.data[k * from.vectors..][vectors.clone()];
            match row.first_chunk::<LANES>() {
                Some(row) => L::get(row).put(to),
                // SAFETY: the row has so many numbers, fewer than the lanes.
                None => unsafe { L::load_first(row.as_ptr(), row.len(), 0.0) }.put(to),
            }
        }
        return;
    }
    let start = vectors.start * from.depth + depth.start;
    let (squares, rest) = to.as_chunks_mut::<LANES>();
    for (number, square) in squares.iter_mut().enumerate() {
        // SAFETY: so many rows from `start` on, `depth` apart, lie in the operand with 16 numbers each, as just checked.
        unsafe {
            let from_row = from.data.as_ptr().add(start + number * LANES);
            L::transpose(from_row, from.depth, vectors.len(), square);
        }
    }
    let done = squares.len() * LANES;
    for (k, to) in rest.iter_mut().enumerate() {
        *to = [0.0; LANES];
        for (lane, x) in to.iter_mut().enumerate().take(vectors.len()) {
            *x = from.data[start + lane * from.depth + done + k];
        }
    }
}
at_level! {
    /// Fills a panel (`depth` × 16): some vectors side by side, up to 16 of them; lanes beyond them are 0.
    fn pack(to: &mut [f32], from: Operand<'_>, vectors: Range<usize>, depth: Range<usize>) = pack_body
}
