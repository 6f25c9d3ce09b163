//! The CUDA backend: the kernels of `kernels/*.cu` and cuBLASLt's matrix products, on the device behind a [`Driver`].
//!
//! Weights, gradients, moments and all sums are f32. In bf16, the operands of matrix products and attention are bf16, and weights have a bf16 copy as well.
//! Operations are asynchronous: after a failure later ones do nothing, and the first that returns numbers to the host reports it.

mod arena;
mod attention;
mod batch;
mod column_major;
pub mod compile;
pub mod device;
pub mod driver;
pub mod emulated;
mod graphs;
mod handles;
pub mod kernel_cache;
pub mod kernels;
mod launch;
pub mod ledger;
mod libraries;
mod logits;
mod matmul;
pub mod nccl;
mod norms;
pub mod nvtx;
mod optimiser;
pub mod probe;
pub mod profile;
mod scratch;
mod segments;
mod staging;
mod training_defaults;

use std::ops::Range;
use std::sync::Arc;

use self::arena::Arena;
use self::batch::{BatchPlan, EqualTokens, KeyTiles};
use self::driver::{Arg, Bytes, Driver, Fault, Format};
use self::graphs::Recordings;
use self::launch::{
    blocks, decode, device_error, elementwise, encoded, packs, parts_of_rows, size, word,
};
pub(crate) use self::logits::logits_rows;
pub(crate) use self::scratch::ScratchSizes;
use self::scratch::{Scratch, Use};
use self::segments::SegmentTable;
pub(crate) use self::training_defaults::{RESERVED, training_defaults};
use crate::backend::group::Group;
use crate::backend::{
    AdamWStep, Attention, Backend, Buf, Dtype, ElementBytes, Linear, MemoryMeter, Norm, Purpose,
    Rows, Target, TrainingDefaults,
};
use crate::batch::Batch;
use crate::config::Activation;
use crate::error::EngineError;
use crate::sample::{Draw, Sampled};

/// Threads of a block that processes a row of the vocabulary's width.
const VOCABULARY: u32 = 512;
/// Threads of a block that processes elements.
const BLOCK: u32 = 256;
/// Threads of a block that processes a row.
const ROW: u32 = 128;
/// Warps of a block of [`BLOCK`] threads.
const WARPS: usize = 8;
/// Columns that a block of [`BLOCK`] threads adds up.
const ADDED_COLUMNS: usize = 8;
/// Number of rows over which a bias's gradient is summed before the sums are added up.
const BIAS_PART: usize = 64;

/// A backend on a device, with matrix products in the given number format.
pub fn open_on(driver: Box<dyn Driver>, dtype: Dtype) -> Box<dyn Backend> {
    let meter = MemoryMeter::default();
    Box::new(Cuda {
        driver,
        element_bytes: element_bytes(dtype),
        activations: dtype.into(),
        arena: Arena::new(meter.clone()),
        scratch: Scratch::new(meter.clone()),
        meter,
        tokens: Vec::new(),
        plan: BatchPlan::default(),
        segments: SegmentTable::default(),
        key_tiles: None,
        draws: 0,
        words: Vec::new(),
        recordings: Recordings::default(),
        recording: true,
        replays: 0,
        converted: None,
        fault: None,
    })
}

/// Element sizes in bytes. Operands of bf16 products are stored in bf16.
pub(crate) fn element_bytes(dtype: Dtype) -> ElementBytes {
    ElementBytes::new(dtype, Format::from(dtype).bytes())
}

struct Cuda {
    driver: Box<dyn Driver>,
    element_bytes: ElementBytes,
    /// Format of the operands of products and attention.
    activations: Format,
    arena: Arena,
    scratch: Scratch,
    /// Counts the memory of the two.
    meter: MemoryMeter,
    /// The current batch's tokens.
    tokens: Vec<u32>,
    plan: BatchPlan,
    segments: SegmentTable,
    key_tiles: Option<KeyTiles>,
    /// Number of current draws.
    draws: usize,
    /// Words to be sent to the device; the memory is reused.
    words: Vec<u32>,
    recordings: Recordings,
    /// Whether passes are recorded and replayed.
    recording: bool,
    /// Number of passes that were replayed.
    replays: u64,
    /// The buffer whose numbers a product's left operand has been converted from, until another call may change them.
    converted: Option<Buf>,
    /// The first failure that has not been reported yet.
    fault: Option<Fault>,
}

impl Backend for Cuda {
    fn name(&self) -> String {
        let format = match self.activations {
            Format::F32 => "f32",
            Format::Bf16 => "bf16",
        };
        format!("{} ({format})", self.driver.name())
    }

    fn arithmetic(&self) -> String {
        without_ordinal(&self.name()).to_owned()
    }

    fn memory(&self) -> Option<u64> {
        self.driver.memory().ok().map(|(_, total)| total)
    }

    fn free_memory(&self) -> Option<u64> {
        self.driver.memory().ok().map(|(free, _)| free)
    }

    fn memory_meter(&self) -> Option<MemoryMeter> {
        Some(self.meter.clone())
    }

    fn must_drop_before_exit(&self) -> bool {
        true
    }

    fn element_bytes(&self) -> ElementBytes {
        self.element_bytes
    }

    fn logits_rows(&self, vocabulary: usize) -> usize {
        let of_memory = |memory| logits_rows(memory, vocabulary);
        self.memory().map_or(1, of_memory)
    }

    fn training_defaults(&self, resident: u64) -> TrainingDefaults {
        training_defaults(self.memory().unwrap_or(0), resident)
    }

    fn synchronise(&mut self) -> Result<(), EngineError> {
        self.check()?;
        let done = self.driver.synchronise();
        done.map_err(|fault| device_error(&fault))
    }

    fn allocate(&mut self, purpose: Purpose, len: usize) -> Result<Buf, EngineError> {
        self.check()?;
        let format = self.format_for(purpose);
        let bf16_copy = purpose == Purpose::Weights && self.activations == Format::Bf16;
        let driver = self.driver.as_mut();
        let buf = self.arena.allocate(driver, purpose, len, format, bf16_copy);
        buf.map_err(|fault| device_error(&fault))
    }

    fn release(&mut self, buf: Buf) {
        self.converted = None;
        self.arena.release(self.driver.as_mut(), buf);
    }

    fn upload(&mut self, dst: Buf, values: &[f32]) {
        assert_eq!(dst.len(), values.len(), "an upload keeps the length");
        let bytes = encoded(values, self.format(dst));
        if self.fault.is_none() {
            let written = self.driver.write(self.arena.address(dst), &bytes);
            self.settle(written);
        }
        self.changed(dst);
    }

    fn download(&mut self, src: Buf, values: &mut [f32]) -> Result<(), EngineError> {
        assert_eq!(src.len(), values.len(), "a download keeps the length");
        let format = self.format(src);
        let mut bytes = vec![0; values.len() * format.bytes()];
        self.read(self.arena.address(src), &mut bytes)?;
        decode(&bytes, format, values);
        Ok(())
    }

    fn zero(&mut self, buf: Buf) {
        if self.fault.is_none() {
            let bytes = buf.len() * self.format(buf).bytes();
            let zeroed = self.driver.zero(self.arena.address(buf), bytes);
            self.settle(zeroed);
        }
        self.changed(buf);
    }

    fn copy(&mut self, dst: Buf, src: Buf) {
        assert_eq!(dst.len(), src.len(), "a copy keeps the length");
        let [to, from] = [dst, src].map(|buf| (self.arena.address(buf), self.format(buf)));
        if to.1 != from.1 {
            self.convert(to, from, dst.len());
        } else if self.fault.is_none() {
            let bytes = dst.len() * to.1.bytes();
            let copied = self.driver.copy(to.0, from.0, bytes);
            self.settle(copied);
        }
        self.changed(dst);
    }

    fn connect(&mut self, ranks: &Arc<dyn Group>) -> Result<bool, EngineError> {
        self.driver.connect(ranks)
    }

    fn exchange(&mut self, send: &[Buf], receive: &[Buf]) {
        let bytes = |buf: &Buf| Bytes {
            address: self.arena.address(*buf),
            len: 4 * buf.len(),
        };
        let [send, received] =
            [send, receive].map(|bufs| bufs.iter().map(bytes).collect::<Vec<_>>());
        if self.fault.is_none() {
            let exchanged = self.driver.exchange(&send, &received);
            self.settle(exchanged);
        }
        for buf in receive {
            self.changed(*buf);
        }
    }

    fn padded(&self, batch: &Batch) -> usize {
        graphs::padded(batch)
    }

    fn begin(
        &mut self,
        batch: &Batch,
        tokens: usize,
        store_rows: usize,
    ) -> Result<(), EngineError> {
        self.check()?;
        batch.check(store_rows).map_err(EngineError::Request)?;
        self.send_batch(batch, tokens);
        // After a failure, what the device has of the segments is not known.
        self.check().inspect_err(|_| self.segments.forget())?;
        self.key_tiles = None;
        self.tokens.clone_from(&batch.tokens);
        Ok(())
    }

    fn embed(&mut self, y: Buf, table: Buf, width: usize, scale: f32) {
        let rows = self.plan.tokens;
        let args = [
            self.at(y),
            self.at(table),
            Arg::Address(self.plan.token_ids()),
            word(rows),
            word(width),
            Arg::Float(scale),
        ];
        self.launch_for("embed", &[self.format(y)], blocks([rows, 1, 1], ROW), &args);
    }

    fn embed_backward(&mut self, dtable: Buf, dy: Buf, width: usize, scale: f32) {
        let equal = EqualTokens::new(&self.tokens);
        let Some([order, starts, ids]) = self.send_equal_tokens(&equal) else {
            return;
        };
        let groups = equal.ids.len();
        let args = [
            self.at(dtable),
            self.at(dy),
            order,
            starts,
            ids,
            word(groups),
            word(width),
            Arg::Float(scale),
        ];
        let launch = blocks([groups, 1, 1], ROW);
        self.launch_for("embed_backward", &[self.format(dy)], launch, &args);
    }

    fn gather(&mut self, y: Buf, x: Buf, rows: &[usize], width: usize) {
        let Some(indices) = self.send_rows(rows) else {
            return;
        };
        let args = [
            self.at(y),
            self.at(x),
            indices,
            word(rows.len()),
            word(width),
        ];
        let formats = [self.format(y), self.format(x)];
        self.launch_for("gather", &formats, blocks([rows.len(), 1, 1], ROW), &args);
    }

    fn scatter_add(&mut self, x: Buf, y: Buf, rows: &[usize], width: usize) {
        let Some(indices) = self.send_rows(rows) else {
            return;
        };
        let args = [
            self.at(x),
            self.at(y),
            indices,
            word(rows.len()),
            word(width),
        ];
        let formats = [self.format(x), self.format(y)];
        let launch = blocks([rows.len(), 1, 1], ROW);
        self.launch_for("scatter_add", &formats, launch, &args);
    }

    fn rms_norm(&mut self, y: Rows, x: Rows, weight: Buf, norm: Norm, accumulate: bool) {
        self.normalise(y, x, weight, norm, accumulate);
    }

    fn rms_norm_backward(
        &mut self,
        dx: Rows,
        dweight: Buf,
        dy: Rows,
        x: Rows,
        weight: Buf,
        norm: Norm,
    ) {
        self.normalise_backward([dx, dy, x], dweight, weight, norm);
    }

    fn linear(&mut self, y: Buf, x: Buf, weight: Buf, s: Linear, accumulate: bool) {
        let sizes = [s.rows, s.outputs, s.inputs];
        let (x, w) = ((x, s.inputs, false), (weight, s.inputs, true));
        self.multiply(y, x, w, sizes, accumulate);
    }

    fn linear_backward_input(
        &mut self,
        dx: Buf,
        dy: Buf,
        weight: Buf,
        s: Linear,
        accumulate: bool,
    ) {
        let sizes = [s.rows, s.inputs, s.outputs];
        let (dy, w) = ((dy, s.outputs, false), (weight, s.inputs, false));
        self.multiply(dx, dy, w, sizes, accumulate);
    }

    fn linear_backward_weight(&mut self, dweight: Buf, dy: Buf, x: Buf, s: Linear) {
        let sizes = [s.outputs, s.inputs, s.rows];
        let (dy, x) = ((dy, s.outputs, true), (x, s.inputs, false));
        self.multiply(dweight, dy, x, sizes, true);
    }

    fn add_bias(&mut self, y: Buf, bias: Buf, rows: usize) {
        let width = bias.len();
        let args = [self.at(y), self.at(bias), word(rows), word(width)];
        let launch = parts_of_rows(rows, width);
        self.launch_for("add_bias", &[self.format(y)], launch, &args);
    }

    fn bias_backward(&mut self, dbias: Buf, dy: Buf, rows: usize) {
        let width = dbias.len();
        let parts = rows.div_ceil(BIAS_PART);
        let Some(partial) = self.scratch(Use::Partial, 4 * parts * width) else {
            return;
        };
        let args = [
            Arg::Address(partial),
            self.at(dy),
            word(rows),
            word(width),
            word(BIAS_PART),
        ];
        let launch = blocks([width.div_ceil(ROW as usize), parts, 1], ROW);
        self.launch_for("column_sums", &[self.format(dy)], launch, &args);
        self.add_parts(dbias, partial, parts);
    }

    fn rope_table(&mut self, table: Buf, frequencies: Buf) {
        let (rows, half) = (self.plan.tokens, frequencies.len());
        let args = [
            self.at(table),
            self.at(frequencies),
            Arg::Address(self.plan.positions()),
            word(rows),
            word(half),
        ];
        self.launch("rope_table", elementwise(rows * half), &args);
    }

    fn rope(&mut self, x: Rows, table: Buf, heads: usize, head_dim: usize, inverse: bool) {
        let turn = if inverse { -1.0 } else { 1.0 };
        self.rotate(x, None, table, [heads, head_dim], turn);
    }

    fn add_bias_and_rope(
        &mut self,
        x: Rows,
        bias: Buf,
        _rows: usize,
        table: Buf,
        heads: usize,
        head_dim: usize,
    ) {
        self.rotate(x, Some(bias), table, [heads, head_dim], 1.0);
    }

    fn store(&mut self, store: Rows, src: Rows, width: usize) {
        let count = self.plan.tokens;
        let args = [
            self.at(store.buf),
            size(store.stride),
            self.at(src.buf),
            size(src.stride),
            Arg::Address(self.plan.rows()),
            word(count),
            word(width),
        ];
        let formats = [self.format(store.buf), self.format(src.buf)];
        self.launch_for("store", &formats, blocks([count, 1, 1], ROW), &args);
    }

    fn attention(&mut self, y: Rows, lse: Buf, a: &Attention) {
        self.attend(y, lse, a);
    }

    fn attention_backward(
        &mut self,
        dq: Rows,
        dk: Rows,
        dv: Rows,
        dy: Rows,
        y: Rows,
        lse: Buf,
        a: &Attention,
    ) {
        self.attend_backward([dq, dk, dv], dy, y, lse, a);
    }

    fn gate(&mut self, y: Buf, x: Buf, rows: usize, width: usize, activation: Activation) {
        self.launch_gate("gate", [y, x], rows, width, activation);
    }

    fn gate_backward(
        &mut self,
        x: Buf,
        dy: Buf,
        rows: usize,
        width: usize,
        activation: Activation,
    ) {
        self.launch_gate("gate_backward", [x, dy], rows, width, activation);
    }

    fn scale(&mut self, x: Buf, factor: f32) {
        let args = [self.at(x), size(x.len()), Arg::Float(factor)];
        self.launch_for("scale", &[self.format(x)], packs(x.len()), &args);
    }

    fn soft_cap(&mut self, x: Buf, cap: f32) {
        let args = [self.at(x), size(x.len()), Arg::Float(cap)];
        self.launch("soft_cap", packs(x.len()), &args);
    }

    fn log_probs(
        &mut self,
        logp: Buf,
        entropy: Buf,
        logits: Buf,
        vocabulary: usize,
        targets: &[Target],
        temperature: f32,
    ) {
        self.launch_log_probs([logp, entropy], logits, vocabulary, targets, temperature);
    }

    fn log_probs_backward(
        &mut self,
        logits: Buf,
        vocabulary: usize,
        targets: &[Target],
        dlogp: &[f32],
        temperature: f32,
        soft_cap: Option<f32>,
    ) {
        self.launch_log_probs_backward(logits, vocabulary, targets, dlogp, temperature, soft_cap);
    }

    fn draws(&mut self, draws: &[Draw]) {
        self.send_draws(draws);
    }

    fn sample(&mut self, logits: Buf, vocabulary: usize, draws: Range<usize>) {
        self.launch_sampling(logits, vocabulary, draws);
    }

    fn sampled(&mut self) -> Result<Vec<Sampled>, EngineError> {
        self.read_sampled()
    }

    fn replay(&mut self, buffers: &[Buf], tokens: usize) -> bool {
        let replayed = self.recording && self.replay_pass(buffers, tokens);
        self.replays += u64::from(replayed);
        replayed
    }

    fn recorded(&mut self) -> bool {
        self.end_recording()
    }

    fn set_recording(&mut self, on: bool) {
        self.recording = on;
    }

    fn replays(&self) -> u64 {
        self.replays
    }

    fn sum_squares(&mut self, x: Buf) -> Result<Vec<f64>, EngineError> {
        self.sum_of_squares(x)
    }

    fn adamw(&mut self, weights: Buf, gradient: Buf, m: Buf, v: Buf, step: &AdamWStep) {
        self.update_weights(weights, gradient, m, v, step);
    }
}

/// The name of a GPU without `cuda:1, `: which one of a machine it is changes no result.
fn without_ordinal(name: &str) -> &str {
    name.split_once(", ").map_or(name, |(_, gpu)| gpu)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_gpus_of_one_kind_compute_alike() {
        let [one, other] = ["cuda:0, NVIDIA H100 (bf16)", "cuda:1, NVIDIA H100 (bf16)"];
        assert_eq!(without_ordinal(one), without_ordinal(other));
        assert_ne!(
            without_ordinal(one),
            without_ordinal("cuda:1, NVIDIA H100 (f32)")
        );
        assert_eq!(without_ordinal("emulated GPU (f32)"), "emulated GPU (f32)");
    }
}
