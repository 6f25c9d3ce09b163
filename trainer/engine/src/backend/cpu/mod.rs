//! The CPU backend: f32, matrix products with a fixed order of summation, and fused loops selected at run time by the processor's instructions.
//!
//! The division of work among threads changes no result: one thread computes each output whole, and sums over rows are divided by size alone.

mod activation;
mod arena;
mod attention;
mod gemm;
mod kernel;
mod kv_caches;
mod packed;
pub mod roofline;
mod rowwise;
mod simd;
mod softmax;
mod threads;

use std::ops::Range;

use self::arena::Arena;
use self::attention::{AttentionPlan, Gradients, Operands, RawRows};
use self::gemm::{Format, Gemm, Operand, Right};
pub use self::kernel::Bf16Kernel;
use self::kv_caches::KvCaches;
use self::packed::PackedWeights;
use self::simd::SimdLevel;
#[cfg(target_arch = "x86_64")]
pub use self::simd::amx::assume_available as assume_amx;
use self::threads::{CHUNK, Threads};
use crate::backend::{
    AdamWStep, Attention, Backend, Buf, Dtype, ElementBytes, Linear, Norm, Purpose, Rows, SQUARES,
    Target,
};
use crate::batch::Batch;
use crate::config::Activation;
use crate::error::EngineError;
use crate::sample::{Draw, NotFinite, Sampled};

/// Number of rows over which a weight's gradient is summed before the sums are added up.
const SUM_ROWS: usize = 64;

/// A CPU backend with its own pool of `threads` threads; `None` uses one for each processor that this process may use. Matrix products are in f32.
pub fn open(threads: Option<usize>) -> Result<Box<dyn Backend>, EngineError> {
    open_with(threads, Dtype::F32, None)
}

/// Like [`open`], with matrix products in the given number format. `kernel` multiplies bf16 numbers; `None` takes the processor's fastest.
///
/// # Errors
/// [`EngineError::Device`] if the processor does not have the kernel's instructions.
pub fn open_with(
    threads: Option<usize>,
    dtype: Dtype,
    kernel: Option<Bf16Kernel>,
) -> Result<Box<dyn Backend>, EngineError> {
    let (level, format) = match dtype {
        Dtype::F32 => (SimdLevel::detect(), Format::F32),
        Dtype::Bf16 => kernel.unwrap_or_else(Bf16Kernel::detect).parts()?,
    };
    let threads = Threads::start(threads)?;
    Ok(Box::new(Cpu::new(level, format, dtype, threads)))
}

/// Element sizes in bytes. Activations, keys and values are f32 for either format of products.
pub(crate) fn element_bytes(dtype: Dtype) -> ElementBytes {
    ElementBytes::new(dtype, size_of::<f32>())
}

struct Cpu {
    arena: Arena,
    caches: KvCaches,
    threads: Threads,
    level: SimdLevel,
    batch: Batch,
    plan: AttentionPlan,
    element_bytes: ElementBytes,
    format: Format,
    products: Gemm,
    weights: PackedWeights,
    /// Partial sums of weights' gradients, and other temporary numbers of one operation.
    partial: Vec<f32>,
    /// The current draws, and the tokens sampled for them.
    draws: Vec<Draw>,
    sampled: Vec<Result<Sampled, NotFinite>>,
}

impl Cpu {
    fn new(level: SimdLevel, format: Format, dtype: Dtype, threads: Threads) -> Self {
        Self {
            arena: Arena::default(),
            caches: KvCaches::default(),
            threads,
            level,
            batch: Batch::default(),
            plan: AttentionPlan::default(),
            element_bytes: element_bytes(dtype),
            format,
            products: Gemm::default(),
            weights: PackedWeights::default(),
            partial: Vec::new(),
            draws: Vec::new(),
            sampled: Vec::new(),
        }
    }

    /// Rows of `heads` heads side by side.
    fn raw(&self, rows: Rows, count: usize, heads: usize, head_dim: usize) -> RawRows {
        let width = heads * head_dim;
        let reach = strided(count, rows.stride, width);
        assert!(reach <= rows.buf.len(), "rows lie in their buffer");
        RawRows {
            start: self.arena.pointer(rows.buf),
            stride: rows.stride,
            count,
            width,
            head: head_dim,
        }
    }

    fn store_rows(&self, rows: Rows, count: usize, heads: usize, head_dim: usize) -> RawRows {
        let cached = (self.caches).rows(&self.arena, rows, count, heads, head_dim);
        cached.unwrap_or_else(|| self.raw(rows, count, heads, head_dim))
    }

    /// Attention's operands. Checks that they have the batch's rows.
    fn operands(&self, a: &Attention) -> Operands {
        let ends = self.batch.spans.iter().map(|span| span.kv.end());
        let (tokens, count) = (self.batch.tokens.len(), ends.max().unwrap_or(0));
        assert!(
            a.heads.is_multiple_of(a.kv_heads),
            "heads of queries share heads of keys evenly"
        );
        Operands {
            q: self.raw(a.q, tokens, a.heads, a.head_dim),
            k: self.store_rows(a.k, count, a.kv_heads, a.head_dim),
            v: self.store_rows(a.v, count, a.kv_heads, a.head_dim),
            shape: *a,
        }
    }
}

/// Number of elements from the first row's beginning to the last row's end.
fn strided(rows: usize, stride: usize, width: usize) -> usize {
    rows.checked_sub(1).map_or(0, |last| last * stride + width)
}

impl Backend for Cpu {
    fn name(&self) -> String {
        format!(
            "cpu ({} threads, {})",
            self.threads.count,
            self.arithmetic()
        )
    }

    fn arithmetic(&self) -> String {
        self.format.name(self.level)
    }

    fn memory(&self) -> Option<u64> {
        crate::machine_memory::total()
    }

    fn element_bytes(&self) -> ElementBytes {
        self.element_bytes
    }

    fn synchronise(&mut self) -> Result<(), EngineError> {
        Ok(())
    }

    fn allocate(&mut self, purpose: Purpose, len: usize) -> Result<Buf, EngineError> {
        let buf = self.arena.allocate(purpose, len)?;
        self.caches.register(buf, purpose);
        if purpose == Purpose::Weights && self.format != Format::F32 {
            self.weights.register(buf);
        }
        Ok(buf)
    }

    fn release(&mut self, buf: Buf) {
        self.arena.release(buf);
        self.caches.release(buf);
        self.weights.release(buf);
    }

    fn upload(&mut self, dst: Buf, values: &[f32]) {
        self.weights.changed(dst);
        self.arena.slices([dst], []).0[0].copy_from_slice(values);
    }

    fn download(&mut self, src: Buf, values: &mut [f32]) -> Result<(), EngineError> {
        values.copy_from_slice(self.arena.slices([], [src]).1[0]);
        Ok(())
    }

    fn zero(&mut self, buf: Buf) {
        self.weights.changed(buf);
        let ([y], []) = self.arena.slices([buf], []);
        self.threads.rows(y, 1, |_, y| y.fill(0.0));
    }

    fn copy(&mut self, dst: Buf, src: Buf) {
        self.weights.changed(dst);
        let ([y], [x]) = self.arena.slices([dst], [src]);
        assert_eq!(y.len(), x.len(), "a copy keeps the length");
        self.threads
            .rows(y, 1, |i, y| y.copy_from_slice(&x[i..i + y.len()]));
    }

    fn begin(
        &mut self,
        batch: &Batch,
        tokens: usize,
        store_rows: usize,
    ) -> Result<(), EngineError> {
        assert_eq!(tokens, batch.tokens.len(), "batches are not padded here");
        batch.check(store_rows).map_err(EngineError::Request)?;
        self.plan = AttentionPlan::new(&batch.spans);
        self.batch.clone_from(batch);
        Ok(())
    }

    fn embed(&mut self, y: Buf, table: Buf, width: usize, scale: f32) {
        let ([y], [table]) = self.arena.slices([y], [table]);
        for (y, token) in y.chunks_exact_mut(width).zip(&self.batch.tokens) {
            let row = &table[*token as usize * width..][..width];
            for (y, x) in y.iter_mut().zip(row) {
                *y = scale * x;
            }
        }
    }

    fn embed_backward(&mut self, dtable: Buf, dy: Buf, width: usize, scale: f32) {
        let ([dtable], [dy]) = self.arena.slices([dtable], [dy]);
        for (dy, token) in dy.chunks_exact(width).zip(&self.batch.tokens) {
            let row = &mut dtable[*token as usize * width..][..width];
            for (row, dy) in row.iter_mut().zip(dy) {
                *row += scale * dy;
            }
        }
    }

    fn gather(&mut self, y: Buf, x: Buf, rows: &[usize], width: usize) {
        let ([y], [x]) = self.arena.slices([y], [x]);
        for (y, row) in y.chunks_exact_mut(width).zip(rows) {
            y.copy_from_slice(&x[row * width..][..width]);
        }
    }

    fn scatter_add(&mut self, x: Buf, y: Buf, rows: &[usize], width: usize) {
        let ([x], [y]) = self.arena.slices([x], [y]);
        for (y, row) in y.chunks_exact(width).zip(rows) {
            rowwise::add(self.level, &mut x[row * width..][..width], y);
        }
    }

    fn rms_norm(&mut self, y: Rows, x: Rows, weight: Buf, norm: Norm, accumulate: bool) {
        let (y_stride, x_stride) = (y.stride, x.stride);
        let len = |stride| strided(norm.rows, stride, norm.heads * weight.len());
        let ([y], [x, weight]) = self.arena.slices(
            [y.buf.at(0, len(y_stride))],
            [x.buf.at(0, len(x_stride)), weight],
        );
        let level = self.level;
        self.threads.rows(y, y_stride, |i, y| {
            let x = &x[i * x_stride..];
            rowwise::rms_norm(level, y, y_stride, x, x_stride, weight, norm, accumulate);
        });
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
        let strides = [dx.stride, dy.stride, x.stride];
        let len = strides.map(|stride| strided(norm.rows, stride, norm.heads * width));
        let ([dx, dweight], [dy, x, weight]) = self.arena.slices(
            [dx.buf.at(0, len[0]), dweight],
            [dy.buf.at(0, len[1]), x.buf.at(0, len[2]), weight],
        );
        let level = self.level;
        self.partial.clear();
        self.partial
            .resize(norm.rows.div_ceil(SUM_ROWS) * width, 0.0);
        let partial = &mut self.partial;
        let [dx_chunk, dy_chunk, x_chunk] = strides.map(|stride| SUM_ROWS * stride);
        let chunks = dx
            .chunks_mut(dx_chunk)
            .zip(partial.chunks_mut(width))
            .zip(dy.chunks(dy_chunk).zip(x.chunks(x_chunk)));
        self.threads.all(chunks, |((dx, dw), (dy, x))| {
            rowwise::rms_norm_backward(level, dx, dw, dy, x, strides, weight, norm);
        });
        for part in self.partial.chunks_exact(width) {
            rowwise::add(level, dweight, part);
        }
    }

    fn linear(&mut self, y: Buf, x: Buf, weight: Buf, s: Linear, accumulate: bool) {
        let ([y], [x, w]) = self.arena.slices(
            [y.at(0, s.rows * s.outputs)],
            [x.at(0, s.rows * s.inputs), weight],
        );
        let a = Operand::rows(x, s.rows, s.inputs);
        let b = Operand::rows(w, s.outputs, s.inputs);
        let (level, threads, format) = (self.level, &self.threads, self.format);
        let b = match self.weights.packed(weight, level, threads, format, b) {
            Some(packed) => Right::Packed(b, packed),
            None => Right::Plain(b),
        };
        self.products
            .run(level, threads, format, y, a, b, accumulate);
    }

    fn linear_backward_input(
        &mut self,
        dx: Buf,
        dy: Buf,
        weight: Buf,
        s: Linear,
        accumulate: bool,
    ) {
        let ([dx], [dy, w]) = self.arena.slices(
            [dx.at(0, s.rows * s.inputs)],
            [dy.at(0, s.rows * s.outputs), weight],
        );
        let a = Operand::rows(dy, s.rows, s.outputs);
        let b = Operand::columns(w, s.outputs, s.inputs);
        let (level, threads, format) = (self.level, &self.threads, self.format);
        self.products
            .run(level, threads, format, dx, a, Right::Plain(b), accumulate);
    }

    fn linear_backward_weight(&mut self, dweight: Buf, dy: Buf, x: Buf, s: Linear) {
        let ([dw], [dy, x]) = self.arena.slices(
            [dweight],
            [dy.at(0, s.rows * s.outputs), x.at(0, s.rows * s.inputs)],
        );
        let a = Operand::columns(dy, s.rows, s.outputs);
        let b = Operand::columns(x, s.rows, s.inputs);
        let (level, threads, format) = (self.level, &self.threads, self.format);
        self.products
            .run(level, threads, format, dw, a, Right::Plain(b), true);
    }

    fn add_bias(&mut self, y: Buf, bias: Buf, rows: usize) {
        let width = bias.len();
        let ([y], [bias]) = self.arena.slices([y.at(0, rows * width)], [bias]);
        let level = self.level;
        self.threads.rows(y, width, |_, y| {
            for y in y.chunks_exact_mut(width) {
                rowwise::add(level, y, bias);
            }
        });
    }

    fn bias_backward(&mut self, dbias: Buf, dy: Buf, rows: usize) {
        let width = dbias.len();
        let ([dbias], [dy]) = self.arena.slices([dbias], [dy.at(0, rows * width)]);
        for dy in dy.chunks_exact(width) {
            rowwise::add(self.level, dbias, dy);
        }
    }

    fn rope_table(&mut self, table: Buf, frequencies: Buf) {
        let (tokens, half) = (self.batch.tokens.len(), frequencies.len());
        let ([table], [frequencies]) = self
            .arena
            .slices([table.at(0, tokens * 2 * half)], [frequencies]);
        let positions = &self.batch.positions;
        self.threads.rows(table, 2 * half, |i, table| {
            for (row, position) in table.chunks_exact_mut(2 * half).zip(&positions[i..]) {
                let (cos, sin) = row.split_at_mut(half);
                for ((cos, sin), frequency) in cos.iter_mut().zip(sin).zip(frequencies) {
                    (*sin, *cos) = (*position as f32 * frequency).sin_cos();
                }
            }
        });
    }

    fn rope(&mut self, x: Rows, table: Buf, heads: usize, head_dim: usize, inverse: bool) {
        let tokens = self.batch.tokens.len();
        self.raw(x, tokens, heads, head_dim);
        let ([y], [table]) = self.arena.slices([x.buf], [table.at(0, tokens * head_dim)]);
        let y = &mut y[..(tokens.saturating_sub(1) * x.stride + heads * head_dim) * tokens.min(1)];
        let (level, turn) = (self.level, if inverse { -1.0 } else { 1.0 });
        self.threads.rows(y, x.stride, |i, rows| {
            let table = table[i * head_dim..].chunks_exact(head_dim);
            for (row, table) in rows.chunks_mut(x.stride).zip(table) {
                rowwise::rope(level, row, table, heads, head_dim, turn);
            }
        });
    }

    fn write_kv(&mut self, store: Rows, src: Rows, heads: usize, head_dim: usize) {
        let end = self.batch.rows.iter().max().map_or(0, |row| row + 1);
        let to = self.store_rows(store, end, heads, head_dim);
        let from = self.raw(src, self.batch.tokens.len(), heads, head_dim);
        kv_caches::write(to, from, &self.batch.rows, heads, head_dim);
    }

    fn attention(&mut self, y: Rows, lse: Buf, a: &Attention) {
        let tokens = self.batch.tokens.len();
        let lse = self.raw(lse.rows(0, a.heads), tokens, a.heads, 1);
        let y = self.raw(y, tokens, a.heads, a.head_dim);
        let operands = self.operands(a);
        attention::forward(self.level, &self.plan, operands, y, lse, |n, f| {
            self.threads.each(n, f);
        });
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
        let operands = self.operands(a);
        let (tokens, count) = (operands.q.count, operands.k.count);
        let gradients = Gradients {
            dq: self.raw(dq, tokens, a.heads, a.head_dim),
            dk: self.raw(dk, count, a.kv_heads, a.head_dim),
            dv: self.raw(dv, count, a.kv_heads, a.head_dim),
            dy: self.raw(dy, tokens, a.heads, a.head_dim),
            y: self.raw(y, tokens, a.heads, a.head_dim),
            lse: self.raw(lse.rows(0, a.heads), tokens, a.heads, 1),
        };
        let (level, plan, threads) = (self.level, &self.plan, &self.threads);
        attention::backward(level, plan, operands, gradients, threads.count, |n, f| {
            threads.each(n, f);
        });
    }

    fn gate(&mut self, y: Buf, x: Buf, rows: usize, width: usize, activation: Activation) {
        let ([y], [x]) = self
            .arena
            .slices([y.at(0, rows * width)], [x.at(0, 2 * rows * width)]);
        let level = self.level;
        self.threads.rows(y, width, |i, y| {
            let x = &x[i * 2 * width..][..2 * y.len()];
            activation::forward(level, y, x, width, activation);
        });
    }

    fn gate_backward(
        &mut self,
        x: Buf,
        dy: Buf,
        rows: usize,
        width: usize,
        activation: Activation,
    ) {
        let ([x], [dy]) = self
            .arena
            .slices([x.at(0, 2 * rows * width)], [dy.at(0, rows * width)]);
        let level = self.level;
        self.threads.rows(x, 2 * width, |i, x| {
            let dy = &dy[i * width..][..x.len() / 2];
            activation::backward(level, x, dy, width, activation);
        });
    }

    fn scale(&mut self, x: Buf, factor: f32) {
        let ([x], []) = self.arena.slices([x], []);
        for x in x {
            *x *= factor;
        }
    }

    fn soft_cap(&mut self, x: Buf, cap: f32) {
        let ([x], []) = self.arena.slices([x], []);
        let level = self.level;
        self.threads
            .rows(x, 1, |_, x| activation::soft_cap(level, x, cap));
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
        let ([logp, entropy], [logits]) = self.arena.slices([logp, entropy], [logits]);
        let inverse = 1.0 / temperature;
        let level = self.level;
        let mut units = Vec::new();
        let (mut logp, mut entropy) = (logp, entropy);
        for group in targets.chunk_by(|a, b| a.row == b.row) {
            let (p, p_rest) = logp.split_at_mut(group.len());
            let (e, e_rest) = entropy.split_at_mut(group.len());
            units.push((group, p, e));
            (logp, entropy) = (p_rest, e_rest);
        }
        self.threads
            .all(units.into_iter(), |(targets, logp, entropy)| {
                let row = &logits[targets[0].row * vocabulary..][..vocabulary];
                let stats = softmax::row_stats(level, row, inverse, &mut []);
                for ((target, logp), entropy) in targets.iter().zip(logp).zip(entropy) {
                    *logp = stats.logp(row[target.token as usize], inverse);
                    *entropy = stats.entropy();
                }
            });
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
        let ([logits], []) = self.arena.slices([logits], []);
        let inverse = 1.0 / temperature;
        let level = self.level;
        // Slopes of the soft cap at the targets, computed before the logits are overwritten.
        let slope = |y: f32| soft_cap.map_or(1.0, |cap| 1.0 - (y / cap) * (y / cap));
        let at = |target: &Target| logits[target.row * vocabulary + target.token as usize];
        self.partial.clear();
        self.partial.extend(targets.iter().map(|t| slope(at(t))));
        let slopes = &self.partial;
        let rows = logits.chunks_exact_mut(vocabulary).enumerate();
        self.threads.all(rows, |(number, row)| {
            let from = targets.partition_point(|t| t.row < number);
            let to = targets.partition_point(|t| t.row <= number);
            let sum: f32 = dlogp[from..to].iter().sum();
            let stats = softmax::row_stats(level, row, inverse, &mut []);
            let factor = (-f64::from(sum * inverse) / stats.sum) as f32;
            softmax::row_gradient(level, row, inverse, stats.max, factor, soft_cap);
            for i in from..to {
                row[targets[i].token as usize] += dlogp[i] * inverse * slopes[i];
            }
        });
    }

    fn draws(&mut self, draws: &[Draw]) {
        self.draws.clear();
        self.draws.extend_from_slice(draws);
        self.sampled.clear();
        self.sampled.resize(draws.len(), Err(NotFinite));
    }

    fn sample(&mut self, logits: Buf, vocabulary: usize, draws: Range<usize>) {
        let len = draws.len() * vocabulary;
        let ([logits], []) = self.arena.slices([logits.at(0, len)], []);
        let level = self.level;
        let (draws, sampled) = (&self.draws[draws.clone()], &mut self.sampled[draws]);
        let rows = logits.chunks_exact_mut(vocabulary).zip(draws).zip(sampled);
        self.threads.all(rows, |((row, draw), sampled)| {
            *sampled = softmax::draw_row(level, row, draw);
        });
    }

    fn sampled(&mut self) -> Result<Vec<Sampled>, EngineError> {
        let sampled: Result<Vec<Sampled>, _> = self.sampled.iter().copied().collect();
        sampled.map_err(|e| EngineError::Numeric(e.to_string()))
    }

    fn sum_squares(&mut self, x: Buf) -> Result<Vec<f64>, EngineError> {
        let ([], [x]) = self.arena.slices([], [x]);
        let level = self.level;
        let mut sums = vec![0.0; x.len().div_ceil(SQUARES)];
        let chunks = x.chunks(SQUARES).zip(&mut sums);
        self.threads.all(chunks, |(x, sum)| {
            *sum = rowwise::sum_squares(level, x);
        });
        Ok(sums)
    }

    fn adamw(&mut self, weights: Buf, gradient: Buf, m: Buf, v: Buf, step: &AdamWStep) {
        self.weights.changed(weights);
        let ([w, m, v], [g]) = self.arena.slices([weights, m, v], [gradient]);
        let level = self.level;
        let chunks = w
            .chunks_mut(CHUNK)
            .zip(g.chunks(CHUNK))
            .zip(m.chunks_mut(CHUNK).zip(v.chunks_mut(CHUNK)));
        self.threads.all(chunks, |((w, g), (m, v))| {
            rowwise::adamw(level, w, g, m, v, step);
        });
    }
}

#[cfg(test)]
mod tests;
