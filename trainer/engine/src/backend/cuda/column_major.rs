//! Row-major products in the terms of a library with column-major matrices.
//!
//! A row-major matrix read by columns is its transpose. So `y = a · b` is computed as `yᵀ = bᵀ · aᵀ`, and no data is moved.

use super::driver::{Address, Matrix, Product};
use crate::backend::Dtype;

/// Maximum alignment that is considered. An address's actual alignment depends on the sizes of the buffers before it. The algorithm must not, nor the bits.
const MAX_ALIGNMENT: u64 = 16;
/// Numbers of tokens beyond this are rounded up to a multiple of it, and smaller ones to a power of two.
const TOKENS: usize = 128;

/// A stored matrix in cuBLASLt's column-major view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Stored {
    pub(super) rows: usize,
    pub(super) columns: usize,
    /// Elements from one column to the next.
    pub(super) stride: usize,
    /// Whether its transpose is multiplied.
    pub(super) transposed: bool,
}

impl Stored {
    /// A row-major matrix of `rows × columns`, or its transpose.
    fn of(matrix: &Matrix, rows: usize, columns: usize) -> Self {
        // The shape as stored. Read by columns, a row is a column.
        let (stored_rows, stored_columns) = if matrix.transposed {
            (columns, rows)
        } else {
            (rows, columns)
        };
        Self {
            rows: stored_columns,
            columns: stored_rows,
            stride: matrix.columns,
            transposed: matrix.transposed,
        }
    }
}

/// A column-major product, `result = left · right`: everything that an algorithm depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Shape {
    pub(super) left: Stored,
    pub(super) right: Stored,
    pub(super) result: Stored,
    pub(super) operands: Dtype,
    pub(super) results: Dtype,
    pub(super) accumulate: bool,
    /// Alignments of left, right and result, in bytes.
    pub(super) alignments: [u64; 3],
}

impl Shape {
    pub(super) fn of(product: &Product) -> Self {
        let [a, b, y] = [&product.a, &product.b, &product.y];
        Self {
            left: Stored::of(b, product.inner, product.columns),
            right: Stored::of(a, product.rows, product.inner),
            result: Stored::of(y, product.rows, product.columns),
            operands: a.format,
            results: y.format,
            accumulate: product.accumulate,
            alignments: [b, a, y].map(|matrix| alignment(matrix.address)),
        }
    }

    /// The shape that chooses the product's algorithm: the same for all products of a class. These differ only in the exact number of tokens.
    ///
    /// Packs, and the rows of logits at their ends, have any number of tokens, and choosing an algorithm takes the host longer than launching the product.
    /// Tokens are columns of these matrices, so strides and alignments do not depend on their number.
    pub(super) fn of_class(product: &Product) -> Self {
        let mut rounded = *product;
        // A weight's gradient is a sum over tokens. Other products have a row for each.
        let tokens = match product.a.transposed {
            true => &mut rounded.inner,
            false => &mut rounded.rows,
        };
        *tokens = match *tokens {
            ..=TOKENS => tokens.next_power_of_two(),
            _ => tokens.next_multiple_of(TOKENS),
        };
        Self::of(&rounded)
    }
}

/// The largest power of two that divides an address, up to [`MAX_ALIGNMENT`].
fn alignment(address: Address) -> u64 {
    (1 << address.trailing_zeros().min(63)).min(MAX_ALIGNMENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Row `i`, column `j` of an operand, by the definition of cuBLASLt's layouts.
    fn by_columns(memory: &[f32], stored: &Stored, i: usize, j: usize) -> f32 {
        let (row, column) = if stored.transposed { (j, i) } else { (i, j) };
        assert!(row < stored.rows && column < stored.columns && stored.rows <= stored.stride);
        memory[row + column * stored.stride]
    }

    /// Multiplies as in cuBLASLt's documentation: `result (m × n) = left (m × k) · right (k × n)`.
    fn multiplied(shape: &Shape, left: &[f32], right: &[f32], result: &mut [f32]) {
        let [m, n] = [shape.result.rows, shape.result.columns];
        let k = if shape.left.transposed {
            shape.left.rows
        } else {
            shape.left.columns
        };
        for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
            let products = (0..k).map(|l| {
                by_columns(left, &shape.left, i, l) * by_columns(right, &shape.right, l, j)
            });
            let at = i + j * shape.result.stride;
            let before = if shape.accumulate { result[at] } else { 0.0 };
            result[at] = before + products.sum::<f32>();
        }
    }

    fn matrix(columns: usize, transposed: bool) -> Matrix {
        Matrix {
            address: 0x1000,
            format: Dtype::F32,
            columns,
            transposed,
        }
    }

    #[test]
    fn a_row_major_product_is_expressed_by_columns() {
        let (rows, columns, inner) = (3, 5, 4);
        let a: Vec<f32> = (0..rows * inner).map(|i| i as f32 - 4.0).collect();
        let b: Vec<f32> = (0..inner * columns).map(|i| (i * i % 7) as f32).collect();
        for (ta, tb, accumulate) in (0..8).map(|i| (i & 1 > 0, i & 2 > 0, i & 4 > 0)) {
            // The distances from one row to the next, and from one column to the next.
            let (a_row, a_column) = if ta { (1, rows) } else { (inner, 1) };
            let (b_row, b_column) = if tb { (1, inner) } else { (columns, 1) };
            let product = Product {
                a: Matrix {
                    address: 0x1008,
                    ..matrix(if ta { rows } else { inner }, ta)
                },
                b: Matrix {
                    address: 0x1002,
                    ..matrix(if tb { inner } else { columns }, tb)
                },
                y: matrix(columns, false),
                rows,
                columns,
                inner,
                accumulate,
            };
            let mut expected = vec![100.0; rows * columns];
            for (i, j) in (0..rows).flat_map(|i| (0..columns).map(move |j| (i, j))) {
                let left = |l: usize| a[i * a_row + l * a_column];
                let right = |l: usize| b[l * b_row + j * b_column];
                let sum: f32 = (0..inner).map(|l| left(l) * right(l)).sum();
                expected[i * columns + j] = if accumulate { 100.0 + sum } else { sum };
            }
            let mut y = vec![100.0; rows * columns];
            // The operands are swapped: `b` is the left one.
            let shape = Shape::of(&product);
            multiplied(&shape, &b, &a, &mut y);
            assert_eq!(y, expected, "{ta} {tb} {accumulate}");
            assert_eq!(shape.alignments, [2, 8, 16]);
        }
    }

    #[test]
    fn products_that_differ_in_the_number_of_tokens_are_one_class() {
        // A weight of 896 inputs and 4,864 outputs: its product, the gradient of its input, and its own.
        let of = |a, b, columns, [rows, inner]: [usize; 2]| Product {
            a,
            b,
            y: matrix(columns, false),
            rows,
            columns,
            inner,
            accumulate: false,
        };
        let (inputs, outputs) = (896, 4864);
        let x = matrix(inputs, false);
        let dy = |transposed| matrix(outputs, transposed);
        let kinds: [&dyn Fn(usize) -> Product; 3] = [
            &|tokens| of(x, matrix(inputs, true), outputs, [tokens, inputs]),
            &|tokens| of(dy(false), x, inputs, [tokens, outputs]),
            &|tokens| of(dy(true), x, inputs, [outputs, tokens]),
        ];
        for product in kinds {
            for (tokens, rounded) in [
                (1, 1),
                (3, 4),
                (64, 64),
                (65, 128),
                (128, 128),
                (129, 256),
                (1921, 2048),
                (2048, 2048),
            ] {
                let of_class = Shape::of_class(&product(tokens));
                assert_eq!(of_class, Shape::of(&product(rounded)));
                // Only numbers of columns differ from those of the product, so that each matrix is one as it is stored.
                let of_product = Shape::of(&product(tokens));
                for (class, own) in [
                    (of_class.left, of_product.left),
                    (of_class.right, of_product.right),
                    (of_class.result, of_product.result),
                ] {
                    let columns = own.columns;
                    assert_eq!(Stored { columns, ..class }, own);
                }
            }
        }
    }
}
