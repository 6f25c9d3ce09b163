//! The backend's operations: which kernels compute them.

use std::ops::Range;
use std::sync::Arc;

use super::batch::EqualTokens;
use super::driver::{Arg, Bytes, Launch};
use super::graphs::bucket;
use super::launch::{blocks, decode, elementwise, encoded, packs, parts_of_rows, size, word};
use super::scratch::Use;
use super::{BIAS_PART, BLOCK, Cuda, ROW, VOCABULARY, logits};
use crate::backend::ranks::ProcessGroup;
use crate::backend::{
    AdamWStep, Attention, Backend, Buf, Dtype, ElementBytes, Linear, MemoryMeter, Norm, Purpose,
    Rows, Target, TrainingDefaults,
};
use crate::batch::Batch;
use crate::config::Activation;
use crate::error::EngineError;
use crate::sample::{Draw, Sampled};

/// Number of parts of a sum over all elements.
const SUM_PARTS: usize = 1024;
/// Vectors that a block of [`ROW`] threads normalises at once, one per warp.
const VECTORS: usize = 4;

impl Backend for Cuda {
    fn name(&self) -> String {
        format!("{} ({})", self.driver.name(), self.activations.name())
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
        super::element_bytes(self.activations)
    }

    fn logits_rows(&self, vocabulary: usize) -> usize {
        logits::logits_rows(self.memory().unwrap_or(0), vocabulary)
    }

    fn training_defaults(&self, resident: u64) -> TrainingDefaults {
        super::training_defaults(self.memory().unwrap_or(0), resident)
    }

    fn synchronise(&mut self) -> Result<(), EngineError> {
        self.check()?;
        self.driver.synchronise()?;
        Ok(())
    }

    fn allocate(&mut self, purpose: Purpose, len: usize) -> Result<Buf, EngineError> {
        self.check()?;
        let format = match purpose {
            Purpose::Weights | Purpose::Optimiser | Purpose::Sums => Dtype::F32,
            Purpose::Cache | Purpose::Activations => self.activations,
        };
        let bf16_copy = purpose == Purpose::Weights && self.activations == Dtype::Bf16;
        let driver = self.driver.as_mut();
        let buf = self.arena.allocate(driver, purpose, len, format, bf16_copy);
        buf.map_err(EngineError::from)
    }

    fn release(&mut self, buf: Buf) {
        self.converted = None;
        self.arena.release(self.driver.as_mut(), buf);
    }

    fn upload(&mut self, dst: Buf, values: &[f32]) {
        assert_eq!(dst.len(), values.len(), "an upload keeps the length");
        let bytes = encoded(values, self.format(dst));
        let address = self.arena.address(dst);
        self.request(|driver| driver.write(address, &bytes));
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
        let address = self.arena.address(buf);
        let bytes = buf.len() * self.format(buf).bytes();
        self.request(|driver| driver.zero(address, bytes));
        self.changed(buf);
    }

    fn copy(&mut self, dst: Buf, src: Buf) {
        assert_eq!(dst.len(), src.len(), "a copy keeps the length");
        let [to, from] = [dst, src].map(|buf| (self.arena.address(buf), self.format(buf)));
        if to.1 != from.1 {
            self.convert(to, from, dst.len());
        } else {
            let bytes = dst.len() * to.1.bytes();
            self.request(|driver| driver.copy(to.0, from.0, bytes));
        }
        self.changed(dst);
    }

    fn connect(&mut self, ranks: &Arc<dyn ProcessGroup>) -> Result<bool, EngineError> {
        self.driver.connect(ranks)
    }

    fn exchange(&mut self, send: &[Buf], receive: &[Buf]) {
        let bytes = |buf: &Buf| Bytes {
            address: self.arena.address(*buf),
            len: 4 * buf.len(),
        };
        let [send, received] =
            [send, receive].map(|bufs| bufs.iter().map(bytes).collect::<Vec<_>>());
        self.request(|driver| driver.exchange(&send, &received));
        for buf in receive {
            self.changed(*buf);
        }
    }

    fn padded(&self, batch: &Batch) -> usize {
        let tokens = batch.tokens.len();
        let decodes = batch.spans.len() == tokens;
        if decodes { bucket(tokens) } else { tokens }
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
        // After a failure, it is unknown which segments the device has.
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
        let EqualTokens { order, starts, ids } = EqualTokens::new(&self.tokens);
        let words = [&order[..], &starts, &ids].concat();
        let Some(address) = self.send(Use::Indices, &words) else {
            return;
        };
        let at = |words: usize| Arg::Address(address + 4 * words as u64);
        let groups = ids.len();
        let args = [
            self.at(dtable),
            self.at(dy),
            at(0),
            at(order.len()),
            at(order.len() + starts.len()),
            word(groups),
            word(width),
            Arg::Float(scale),
        ];
        let launch = blocks([groups, 1, 1], ROW);
        self.launch_for("embed_backward", &[self.format(dy)], launch, &args);
    }

    fn gather(&mut self, y: Buf, x: Buf, rows: &[usize], width: usize) {
        self.move_rows("gather", [y, x], rows, width);
    }

    fn scatter_add(&mut self, x: Buf, y: Buf, rows: &[usize], width: usize) {
        self.move_rows("scatter_add", [x, y], rows, width);
    }

    fn rms_norm(&mut self, y: Rows, x: Rows, weight: Buf, norm: Norm, accumulate: bool) {
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

    fn rms_norm_backward(
        &mut self,
        dx: Rows,
        dweight: Buf,
        dy: Rows,
        x: Rows,
        weight: Buf,
        norm: Norm,
    ) {
        let width = weight.len();
        // One block for each part of the vectors; it sums up the weight's gradient over them.
        let vectors = norm.rows * norm.heads;
        let part = vectors.div_ceil(self.occupying_blocks());
        let part = part.next_multiple_of(VECTORS).max(VECTORS);
        let parts = vectors.div_ceil(part);
        let Some(partial) = self.scratch(Use::Partial, 4 * parts * width) else {
            return;
        };
        let operand = |rows: Rows| self.rows(rows, norm.rows, norm.heads * width);
        let [[dx_at, dx_stride], [dy_at, dy_stride], [x_at, x_stride]] = [dx, dy, x].map(operand);
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

    fn write_kv(&mut self, store: Rows, src: Rows, heads: usize, head_dim: usize) {
        let width = heads * head_dim;
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
        let rows = logits.len() / vocabulary;
        let Some([first, tokens, _]) = self.send_targets(rows, targets, &[]) else {
            return;
        };
        let args = [
            self.at(logp),
            self.at(entropy),
            self.at(logits),
            size(vocabulary),
            first,
            tokens,
            Arg::Float(temperature),
        ];
        self.launch("log_probs", blocks([rows, 1, 1], VOCABULARY), &args);
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
        let rows = logits.len() / vocabulary;
        let Some([first, tokens, dlogp]) = self.send_targets(rows, targets, dlogp) else {
            return;
        };
        let args = [
            self.at(logits),
            size(vocabulary),
            first,
            tokens,
            dlogp,
            Arg::Float(temperature),
            Arg::Float(soft_cap.unwrap_or(0.0)),
        ];
        let launch = blocks([rows, 1, 1], VOCABULARY);
        self.launch("log_probs_backward", launch, &args);
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

    fn end_pass(&mut self) -> bool {
        self.end_recording()
    }

    fn set_recording(&mut self, on: bool) {
        self.recording = on;
    }

    fn replays(&self) -> u64 {
        self.replays
    }

    fn sum_squares(&mut self, x: Buf) -> Result<Vec<f64>, EngineError> {
        self.check()?;
        let partial = self.scratch(Use::Partial, 8 * SUM_PARTS);
        let partial = partial.unwrap_or_default();
        let args = [Arg::Address(partial), self.at(x), size(x.len())];
        self.launch("sum_squares", blocks([SUM_PARTS, 1, 1], BLOCK), &args);
        let mut bytes = vec![0; 8 * SUM_PARTS];
        self.read(partial, &mut bytes)?;
        let parts = bytes.as_chunks().0.iter();
        Ok(parts.map(|part| f64::from_le_bytes(*part)).collect())
    }

    fn adamw(&mut self, weights: Buf, gradient: Buf, m: Buf, v: Buf, step: &AdamWStep) {
        let n = weights.len();
        let args = [
            self.at(weights),
            Arg::Address(self.arena.bf16_copy(weights).unwrap_or(0)),
            self.at(gradient),
            self.at(m),
            self.at(v),
            size(n),
            Arg::Float(step.lr),
            Arg::Float(step.beta1),
            Arg::Float(step.beta2),
            Arg::Float(step.eps),
            Arg::Float(step.decay),
            Arg::Float(step.bias1),
            Arg::Float(step.bias2),
            Arg::Float(step.grad_scale),
        ];
        self.launch("adamw", packs(n), &args);
    }
}

/// The name of a GPU without `cuda:1, `, since its number changes no result.
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
