//! Matrix products through the `gemm` crate.

#![allow(unsafe_code)]

use gemm::Parallelism;

/// A row-major operand, or its transpose.
pub(super) struct Operand<'a> {
    data: &'a [f32],
    rows: usize,
    columns: usize,
    row_stride: isize,
    column_stride: isize,
}

impl<'a> Operand<'a> {
    /// `rows × columns`.
    pub(super) fn plain(data: &'a [f32], rows: usize, columns: usize) -> Self {
        assert_eq!(data.len(), rows * columns, "a matrix has its elements");
        Self {
            data,
            rows,
            columns,
            row_stride: columns as isize,
            column_stride: 1,
        }
    }

    /// The transpose.
    pub(super) fn transposed(self) -> Self {
        Self {
            data: self.data,
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
        }
    }
}

/// Products with fewer multiplications run on the calling thread.
const PARALLEL: usize = 1 << 18;

/// `y = a · b`, added to what `y` holds if `accumulate`. Called inside the pool whose `threads` threads it may use.
pub(super) fn product(
    y: &mut [f32],
    a: &Operand<'_>,
    b: &Operand<'_>,
    accumulate: bool,
    threads: usize,
) {
    let (m, n, k) = (a.rows, b.columns, a.columns);
    assert_eq!(b.rows, k, "inner sizes agree");
    assert_eq!(y.len(), m * n, "the result has its elements");
    let parallelism = if threads > 1 && m * n * k > PARALLEL {
        Parallelism::Rayon(threads)
    } else {
        Parallelism::None
    };
    // SAFETY: pointers come from slices of the sizes and strides given (checked above), and `y` is borrowed for writing, so it overlaps neither operand.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            y.as_mut_ptr(),
            1,
            n as isize,
            accumulate,
            a.data.as_ptr(),
            a.column_stride,
            a.row_stride,
            b.data.as_ptr(),
            b.column_stride,
            b.row_stride,
            1.0,
            1.0,
            false,
            false,
            false,
            parallelism,
        );
    }
}
