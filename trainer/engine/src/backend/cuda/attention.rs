//! Attention: which kernels serve which of a batch's queries.
//!
//! Spans of one query (decoding) are served by blocks that each have a share of the keys and all query heads that read them; the others by tiles of queries.
//! The backward pass goes over tiles of queries for their gradients, then over tiles of keys for theirs, so that nothing is added up by two blocks.

use super::batch::KeyTiles;
use super::call::{blocks, word};
use super::driver::{Arg, Fault, Format, Launch};
use super::scratch::Use;
use super::{BLOCK, Cuda, ROW, WARPS};
use crate::backend::{Attention, Buf, Rows};

/// Heads are of a multiple of so many numbers,
const HEAD_STEP: usize = 16;
/// and of so many at most.
const HEAD_MOST: usize = 256;
/// Most heads of queries that read one head of keys.
const GROUP_MOST: usize = 16;
/// Most parts that the keys of one query are cut into.
const MAX_SPLITS: u32 = 32;

/// Widths of heads that kernels were compiled for; a head is served by the next one.
const WIDTHS: [usize; 3] = [64, 128, 256];

/// A tile kernel's instance for heads of a width, and the bytes of shared memory that its tiles take.
fn instance(kernel: Kernel, format: Format, head_dim: usize) -> (String, u32) {
    let name = kernel.name();
    if format == Format::F32 {
        let bytes = 4 * kernel.float_rows() * (head_dim + 4);
        return (format!("{name}<float>"), bytes as u32);
    }
    let widest = WIDTHS.into_iter().find(|width| *width >= head_dim);
    let widest = widest.unwrap_or(HEAD_MOST);
    let bytes = 2 * kernel.bf16_rows(widest) * (widest + 8);
    (format!("{name}<bf16, {widest}>"), bytes as u32)
}

/// The kernels that work on tiles, or on one query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kernel {
    Decode,
    Prefill,
    BackwardQ,
    BackwardKv,
}

impl Kernel {
    fn name(self) -> &'static str {
        match self {
            Self::Decode => "attention_decode",
            Self::Prefill => "attention_prefill",
            Self::BackwardQ => "attention_backward_q",
            Self::BackwardKv => "attention_backward_kv",
        }
    }

    /// Rows of its tiles in shared memory, in f32.
    fn float_rows(self) -> usize {
        match self {
            Self::Decode => 0,
            Self::Prefill => 32 + 2 * 16,
            Self::BackwardQ | Self::BackwardKv => 2 * 32 + 2 * 16,
        }
    }

    /// Rows of its tiles in shared memory, in bf16, for heads of at most a width.
    fn bf16_rows(self, widest: usize) -> usize {
        // A tile of 64 queries or keys (and what is told of them), and one of those that are led past it.
        match (self, widest) {
            (Self::Decode, _) => 0,
            (Self::Prefill, ..=128) => 64 + 2 * 64,
            (Self::Prefill, _) => 64 + 2 * 32,
            (Self::BackwardQ, ..=64) => 2 * 64 + 2 * 64,
            (Self::BackwardQ, ..=128) => 2 * 64 + 2 * 32,
            (Self::BackwardQ, _) => 2 * 64 + 2 * 16,
            (Self::BackwardKv, ..=128) => 2 * 64 + 2 * 32,
            (Self::BackwardKv, _) => 2 * 64 + 2 * 16,
        }
    }
}

/// Refuses shapes that the kernels were not written for.
fn served(a: &Attention) -> Result<(), Fault> {
    let (width, group) = (a.head_dim, a.heads / a.kv_heads);
    let refused = |what: String| {
        Err(Fault::Other(format!(
            "the model has {what}, for which there is no attention on the GPU; take --device cpu"
        )))
    };
    if !width.is_multiple_of(HEAD_STEP) || width > HEAD_MOST {
        return refused(format!(
            "heads of {width} numbers (multiples of {HEAD_STEP} up to {HEAD_MOST} are served)"
        ));
    }
    if group > GROUP_MOST {
        return refused(format!(
            "{group} heads of queries for one of keys (up to {GROUP_MOST} are served)"
        ));
    }
    Ok(())
}

impl Cuda {
    /// Rows of keys and values that the batch's spans reach.
    fn store_rows(&self) -> usize {
        let segments = self.batch.spans.iter().flat_map(|span| &span.kv);
        segments.map(|(row, n)| row + n).max().unwrap_or(0)
    }

    /// What attention's kernels are told of keys and values.
    fn keys(&self, a: &Attention) -> [Arg; 4] {
        assert!(
            a.heads.is_multiple_of(a.kv_heads),
            "heads of queries share heads of keys evenly"
        );
        let (rows, width) = (self.store_rows(), a.kv_heads * a.head_dim);
        let ([k, k_stride], [v, v_stride]) =
            (self.rows(a.k, rows, width), self.rows(a.v, rows, width));
        [k, k_stride, v, v_stride]
    }

    /// What all of attention's kernels end with.
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

    /// Parts that the keys of each of `queries` single queries are cut into: enough that every multiprocessor has work.
    fn splits(&self, queries: usize, kv_heads: usize) -> u32 {
        let wanted = 4 * self.driver.multiprocessors();
        wanted
            .div_ceil((queries * kv_heads) as u32)
            .clamp(1, MAX_SPLITS)
    }

    /// [`crate::backend::Backend::attention`].
    pub(super) fn attend(&mut self, y: Rows, lse: Buf, a: &Attention) {
        if let Err(fault) = served(a) {
            self.fault.get_or_insert(fault);
            return;
        }
        let format = self.format(a.q.buf);
        let (tokens, width) = (self.plan.tokens, a.heads * a.head_dim);
        let [y_at, y_stride] = self.rows(y, tokens, width);
        let [q, q_stride] = self.rows(a.q, tokens, width);
        let (keys, shape, lse) = (self.keys(a), Self::shape(a), self.at(lse));
        let single = self.plan.single;
        let [spans, segments] = [self.plan.spans(), self.plan.segments()].map(Arg::Address);
        if single > 0 {
            let splits = self.splits(single, a.kv_heads);
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
            let (name, shared) = instance(Kernel::Decode, format, a.head_dim);
            let launch = Launch {
                shared,
                ..blocks([single, a.kv_heads, splits as usize], ROW)
            };
            self.launch(&name, launch, &args);
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
        let (name, shared) = instance(Kernel::Prefill, format, a.head_dim);
        let launch = Launch {
            shared,
            ..blocks([count, a.heads, 1], ROW)
        };
        self.launch(&name, launch, &args);
    }

    /// [`crate::backend::Backend::attention_backward`], of the gradients of queries, keys and values.
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
            let mut tiles = KeyTiles::new(&self.batch, &mut words);
            let address = self.send(Use::KeyTiles, &words);
            self.words = words;
            let Some(address) = address else { return };
            tiles.address = address;
            self.key_tiles = Some(tiles);
        }
        let Some(key_tiles) = self.key_tiles.clone() else {
            return;
        };
        let of = |rows: Rows| self.rows(rows, tokens, width);
        let (dq, dy, y, q) = (of(dq), of(dy), of(y), of(a.q));
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

        let (keys, shape) = (self.keys(a), Self::shape(a));
        let [spans, segments] = [self.plan.spans(), self.plan.segments()].map(Arg::Address);
        let mut args = vec![dq[0], dq[1], dy[0], dy[1], lse, delta, q[0], q[1]];
        args.extend(keys);
        args.extend([spans, segments, Arg::Address(self.plan.tiles_from(0))]);
        args.extend(shape);
        let (name, shared) = instance(Kernel::BackwardQ, format, a.head_dim);
        let launch = Launch {
            shared,
            ..blocks([self.plan.tiles, a.heads, 1], ROW)
        };
        self.launch(&name, launch, &args);

        let (rows, kv_width) = (self.store_rows(), a.kv_heads * a.head_dim);
        let [dk, dv] = [dk, dv].map(|rows_of| self.rows(rows_of, rows, kv_width));
        let mut args = vec![dk[0], dk[1], dv[0], dv[1], dy[0], dy[1], lse, delta];
        args.extend([q[0], q[1]]);
        args.extend(keys);
        args.push(spans);
        args.extend([key_tiles.address, key_tiles.visits()].map(Arg::Address));
        args.extend(shape);
        let (name, shared) = instance(Kernel::BackwardKv, format, a.head_dim);
        let launch = Launch {
            shared,
            ..blocks([key_tiles.count, a.kv_heads, 1], ROW)
        };
        self.launch(&name, launch, &args);
    }
}
