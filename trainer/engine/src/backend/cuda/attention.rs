//! Attention: chooses the kernel for each of a batch's queries.
//!
//! For spans of one query (decode), each block processes a part of the keys and all query heads that read them. The other spans (prefill, training) are
//! computed by tiles of queries. The backward pass goes over tiles of queries for the queries' gradients, then over tiles of keys for the keys' and values'. So
//! no two blocks add to the same number. Many queries attend to the tiles of keys at the beginning of all sequences. Several blocks process such a tile in
//! pieces, and their sums are added up in a fixed order.

use super::batch::{KEY_TILE, KeyTiles};
use super::driver::{Arg, Fault, Launch};
use super::launch::{blocks, word};
use super::scratch::Use;
use super::{BLOCK, Cuda, ROW, WARPS};
use crate::backend::{Attention, Buf, Dtype, Rows};

/// Head widths must be a multiple of this.
const HEAD_DIM_STEP: usize = 16;
/// Maximum head width.
const MAX_HEAD_DIM: usize = 256;
/// Maximum number of query heads that read one key head.
const MAX_GROUP: usize = 16;
/// Maximum number of parts into which the work of one block is divided.
const MAX_SPLITS: u32 = 32;
/// Threads of a block that adds up parts of gradients, and its number of rows of a tile of keys.
const ADDING: u32 = 128;
const ADDED_ROWS: usize = 4;

/// Widths of heads that kernels are compiled for. A head uses the kernel of the next larger width.
const WIDTHS: [usize; 3] = [64, 128, 256];

/// An attention kernel that processes tiles, or single queries.
struct Kernel {
    name: &'static str,
    /// Number of rows of its tiles in shared memory, in f32.
    float_rows: usize,
    /// The same in bf16, for heads of each of [`WIDTHS`]. A tile of 64 queries or keys stays, with the data that belongs to it, and tiles of keys or queries
    /// are streamed past it. In gradients of heads up to 128, the next streamed tile is loaded while one is processed.
    bf16_rows: [usize; 3],
}

const DECODE: Kernel = Kernel {
    name: "attention_decode",
    float_rows: 0,
    bf16_rows: [0; 3],
};
const PREFILL: Kernel = Kernel {
    name: "attention_prefill",
    float_rows: 32 + 2 * 16,
    bf16_rows: [64 + 2 * 64, 64 + 2 * 64, 64 + 2 * 32],
};
const BACKWARD_Q: Kernel = Kernel {
    name: "attention_backward_q",
    float_rows: 2 * 32 + 2 * 16,
    bf16_rows: [2 * 64 + 4 * 64, 2 * 64 + 4 * 32, 2 * 64 + 2 * 16],
};
const BACKWARD_KV: Kernel = Kernel {
    name: "attention_backward_kv",
    float_rows: 2 * 32 + 2 * 16,
    bf16_rows: [2 * 64 + 4 * 32, 2 * 64 + 4 * 32, 2 * 64 + 2 * 16],
};

/// Rejects shapes that the kernels do not support.
fn check_supported(a: &Attention) -> Result<(), Fault> {
    let (width, group) = (a.head_dim, a.heads / a.kv_heads);
    let unsupported = |what: String| {
        Err(Fault::Other(format!(
            "the model has {what}, which attention on the GPU does not support; use --device cpu"
        )))
    };
    if !width.is_multiple_of(HEAD_DIM_STEP) || width > MAX_HEAD_DIM {
        return unsupported(format!(
            "heads of {width} numbers (multiples of {HEAD_DIM_STEP} up to {MAX_HEAD_DIM} are supported)"
        ));
    }
    if group > MAX_GROUP {
        return unsupported(format!(
            "{group} heads of queries for one of keys (up to {MAX_GROUP} are supported)"
        ));
    }
    Ok(())
}

/// Number of parts of the work of each of `blocks` blocks, so that at least `occupying` blocks have work.
pub(super) fn splits(occupying: usize, blocks: usize) -> u32 {
    let splits = occupying.div_ceil(blocks) as u32;
    splits.clamp(1, MAX_SPLITS)
}

impl Cuda {
    /// Adds a bias to each token's row, if there is one, and rotates the first `heads` heads of the row, forwards (`turn` 1) or back (-1).
    pub(super) fn rotate(
        &mut self,
        x: Rows,
        bias: Option<Buf>,
        table: Buf,
        [heads, head_dim]: [usize; 2],
        turn: f32,
    ) {
        let rows = self.plan.tokens;
        let width = bias.map_or(heads * head_dim, Buf::len);
        let [x_at, stride] = self.rows(x, rows, width);
        let args = [
            x_at,
            stride,
            bias.map_or(Arg::Address(0), |bias| self.at(bias)),
            word(width),
            self.at(table),
            word(rows),
            word(heads),
            word(head_dim),
            Arg::Float(turn),
        ];
        let launch = blocks([rows, 1, 1], ROW);
        self.launch_for("rope", &[self.format(x.buf)], launch, &args);
    }

    /// Launches a tile kernel's instance for heads of this width, with the shared memory that its tiles take.
    fn launch_tiles(&mut self, kernel: &Kernel, a: &Attention, grid: [usize; 3], args: &[Arg]) {
        let mut widths = WIDTHS.into_iter().zip(kernel.bf16_rows);
        // Wider heads have been rejected before, and nothing is launched after that.
        let Some((width, bf16_rows)) = widths.find(|(width, _)| *width >= a.head_dim) else {
            return;
        };
        let (name, bytes) = match self.format(a.q.buf) {
            Dtype::F32 => ("float".into(), 4 * kernel.float_rows * (a.head_dim + 4)),
            Dtype::Bf16 => (format!("bf16, {width}"), 2 * bf16_rows * (width + 8)),
        };
        let launch = Launch {
            shared: bytes as u32,
            ..blocks(grid, ROW)
        };
        self.launch(&format!("{}<{name}>", kernel.name), launch, args);
    }

    /// The arguments for keys and values of attention's kernels.
    fn keys(&self, a: &Attention) -> [Arg; 4] {
        assert!(
            a.heads.is_multiple_of(a.kv_heads),
            "heads of queries share heads of keys evenly"
        );
        let (rows, width) = (self.plan.store_rows, a.kv_heads * a.head_dim);
        let [[k, k_stride], [v, v_stride]] = [a.k, a.v].map(|of| self.rows(of, rows, width));
        [k, k_stride, v, v_stride]
    }

    /// The last arguments of all attention kernels.
    fn shape(a: &Attention) -> [Arg; 6] {
        [
            word(a.heads),
            word(a.kv_heads),
            word(a.head_dim),
            Arg::Float(a.scale),
            Arg::Float(a.soft_cap.unwrap_or(0.0)),
            word(a.window.unwrap_or(0)),
        ]
    }

    /// See [`crate::backend::Backend::attention`].
    pub(super) fn attend(&mut self, y: Rows, lse: Buf, a: &Attention) {
        if let Err(fault) = check_supported(a) {
            self.fault.get_or_insert(fault);
            return;
        }
        let format = self.format(a.q.buf);
        let (tokens, width) = (self.plan.tokens, a.heads * a.head_dim);
        let [y_at, y_stride] = self.rows(y, tokens, width);
        let [q, q_stride] = self.rows(a.q, tokens, width);
        let (keys, shape, lse) = (self.keys(a), Self::shape(a), self.at(lse));
        let single = self.plan.single;
        let [spans, segments] = [self.plan.spans(), self.plan.segments].map(Arg::Address);
        if single > 0 {
            let splits = splits(self.occupying_blocks(), single * a.kv_heads);
            let rows = single * a.heads * splits as usize;
            let Some(partial) = self.scratch(Use::Partial, 4 * rows * (a.head_dim + 2)) else {
                return;
            };
            let partial = Arg::Address(partial);
            let mut args = vec![partial, q, q_stride];
            args.extend(keys);
            args.extend([spans, segments]);
            args.extend(shape);
            args.push(Arg::Word(splits));
            let grid = [single, a.kv_heads, splits as usize];
            self.launch_tiles(&DECODE, a, grid, &args);
            let args = [
                y_at,
                y_stride,
                lse,
                partial,
                spans,
                word(a.heads),
                word(a.head_dim),
                Arg::Word(splits),
            ];
            let launch = blocks([single, a.heads, 1], 64);
            self.launch_for("attention_combine", &[format], launch, &args);
        }
        let tiles = Arg::Address(self.plan.tiles_from(self.plan.single_tiles));
        let mut args = vec![y_at, y_stride, lse, q, q_stride];
        args.extend(keys);
        args.extend([spans, segments, tiles]);
        args.extend(shape);
        let count = self.plan.tiles - self.plan.single_tiles;
        self.launch_tiles(&PREFILL, a, [count, a.heads, 1], &args);
    }

    /// See [`crate::backend::Backend::attention_backward`]; the first argument is the gradients of queries, keys and values.
    pub(super) fn attend_backward(
        &mut self,
        [dq, dk, dv]: [Rows; 3],
        dy: Rows,
        y: Rows,
        lse: Buf,
        a: &Attention,
    ) {
        let format = self.format(a.q.buf);
        let (tokens, width) = (self.plan.tokens, a.heads * a.head_dim);
        let Some(delta) = self.scratch(Use::Delta, 4 * tokens * a.heads) else {
            return;
        };
        if self.key_tiles.is_none() {
            let mut words = std::mem::take(&mut self.words);
            let group = a.heads / a.kv_heads;
            let occupying = self.occupying_blocks().div_ceil(a.kv_heads);
            let sizes = [group, occupying];
            let mut tiles = KeyTiles::new(&self.plan, &self.segments, sizes, &mut words);
            let address = self.send(Use::KeyTiles, &words);
            self.words = words;
            let Some(address) = address else { return };
            tiles.address = address;
            self.key_tiles = Some(tiles);
        }
        let Some(key_tiles) = self.key_tiles.clone() else {
            return;
        };
        let [dq, dy, y, q] = [dq, dy, y, a.q].map(|rows| self.rows(rows, tokens, width));
        let (delta, lse) = (Arg::Address(delta), self.at(lse));
        let args = [
            delta,
            dy[0],
            dy[1],
            y[0],
            y[1],
            word(tokens),
            word(a.heads),
            word(a.head_dim),
        ];
        let launch = blocks([(tokens * a.heads).div_ceil(WARPS), 1, 1], BLOCK);
        self.launch_for("attention_delta", &[format], launch, &args);

        let [spans, segments] = [self.plan.spans(), self.plan.segments].map(Arg::Address);
        let mut args = vec![dq[0], dq[1], dy[0], dy[1], lse, delta, q[0], q[1]];
        args.extend(self.keys(a));
        args.extend([spans, segments, Arg::Address(self.plan.tiles_from(0))]);
        args.extend(Self::shape(a));
        let grid = [self.plan.tiles, a.heads, 1];
        self.launch_tiles(&BACKWARD_Q, a, grid, &args);

        self.key_gradients([dk, dv], &key_tiles, (dy, q), [lse, delta], a);
    }

    /// Adds the gradients of keys and values.
    fn key_gradients(
        &mut self,
        [dk, dv]: [Rows; 2],
        key_tiles: &KeyTiles,
        (dy, q): ([Arg; 2], [Arg; 2]),
        [lse, delta]: [Arg; 2],
        a: &Attention,
    ) {
        if key_tiles.pieces == 0 {
            return;
        }
        let (rows, width) = (self.plan.store_rows, a.kv_heads * a.head_dim);
        let bytes = 4 * key_tiles.partial_rows * 2 * width;
        let Some(partial) = self.scratch(Use::Partial, bytes) else {
            return;
        };
        let [dk, dv] = [dk, dv].map(|rows_of| self.rows(rows_of, rows, width));
        let (partial, tiles) = (Arg::Address(partial), Arg::Address(key_tiles.address));
        let mut args = [dk, dv].concat();
        args.push(partial);
        args.extend([dy[0], dy[1], lse, delta, q[0], q[1]]);
        args.extend(self.keys(a));
        args.extend([Arg::Address(self.plan.spans()), tiles]);
        args.push(Arg::Address(key_tiles.visits()));
        args.extend(Self::shape(a));
        let grid = [key_tiles.pieces, a.kv_heads, 1];
        self.launch_tiles(&BACKWARD_KV, a, grid, &args);
        if key_tiles.partial_rows > 0 {
            let mut args = [dk, dv].concat();
            args.extend([partial, tiles, word(width)]);
            let launch = blocks([key_tiles.pieces, KEY_TILE / ADDED_ROWS, 1], ADDING);
            self.launch("attention_add_parts", launch, &args);
        }
    }
}
