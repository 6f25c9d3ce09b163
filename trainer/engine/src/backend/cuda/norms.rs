//! RMS norms. A warp normalises a vector.

use super::driver::{Arg, Launch};
use super::launch::{blocks, word};
use super::scratch::Use;
use super::{Cuda, ROW};
use crate::backend::{Buf, Norm, Rows};

/// Vectors that a block of [`ROW`] threads processes at once, one per warp.
const VECTORS: usize = 4;

impl Cuda {
    /// See [`crate::backend::Backend::rms_norm`].
    pub(super) fn normalise(
        &mut self,
        y: Rows,
        x: Rows,
        weight: Buf,
        norm: Norm,
        accumulate: bool,
    ) {
        let width = weight.len();
        let [y_at, y_stride] = self.rows(y, norm.rows, norm.heads * width);
        let [x_at, x_stride] = self.rows(x, norm.rows, norm.heads * width);
        let args = [
            y_at,
            y_stride,
            x_at,
            x_stride,
            self.at(weight),
            word(norm.rows),
            word(norm.heads),
            word(width),
            Arg::Float(norm.eps),
            Arg::Float(norm.offset),
            Arg::Word(u32::from(accumulate)),
        ];
        let formats = [self.format(y.buf), self.format(x.buf)];
        let launch = blocks([(norm.rows * norm.heads).div_ceil(VECTORS), 1, 1], ROW);
        self.launch_for("rms_norm", &formats, launch, &args);
    }

    /// See [`crate::backend::Backend::rms_norm_backward`]; the first argument is `dx`, `dy` and `x`.
    pub(super) fn normalise_backward(
        &mut self,
        [dx, dy, x]: [Rows; 3],
        dweight: Buf,
        weight: Buf,
        norm: Norm,
    ) {
        let width = weight.len();
        // Each part of the vectors has a block, which sums up the weight's gradient over them.
        let vectors = norm.rows * norm.heads;
        let part = vectors.div_ceil(self.occupying_blocks());
        let part = part.next_multiple_of(VECTORS).max(VECTORS);
        let parts = vectors.div_ceil(part);
        let Some(partial) = self.scratch(Use::Partial, 4 * parts * width) else {
            return;
        };
        let operand = |rows: Rows| self.rows(rows, norm.rows, norm.heads * width);
        let ([dx_at, dx_stride], [dy_at, dy_stride], [x_at, x_stride]) =
            (operand(dx), operand(dy), operand(x));
        let args = [
            dx_at,
            dx_stride,
            dy_at,
            dy_stride,
            x_at,
            x_stride,
            self.at(weight),
            Arg::Address(partial),
            word(norm.rows),
            word(norm.heads),
            word(width),
            Arg::Float(norm.eps),
            Arg::Float(norm.offset),
            word(part),
        ];
        let formats = [dx, dy, x].map(|rows| self.format(rows.buf));
        let launch = Launch {
            shared: (4 * width) as u32,
            ..blocks([parts, 1, 1], ROW)
        };
        self.launch_for("rms_norm_backward", &formats, launch, &args);
        self.add_parts(dweight, partial, parts);
    }
}
