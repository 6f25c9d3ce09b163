//! Every operation of a backend on fixed inputs, with outputs that are poisoned before.

use super::{Results, numbers};
use crate::backend::{AdamWStep, Attention, Backend, Buf, Linear, Norm, Purpose, Rows, Target};
use crate::batch::Batch;
use crate::config::Activation;
use crate::error::EngineError;
use crate::sample::{Draw, Sampled, Sampling};

/// A device, and its results for fixed inputs.
pub(super) struct Bench<'a> {
    pub(super) backend: &'a mut dyn Backend,
    seed: u64,
    pub(super) results: Results,
}

impl<'a> Bench<'a> {
    pub(super) fn new(backend: &'a mut dyn Backend) -> Self {
        Self {
            backend,
            seed: 0,
            results: Vec::new(),
        }
    }

    /// A buffer of numbers that are the same on every device.
    pub(super) fn filled(&mut self, purpose: Purpose, len: usize) -> Result<Buf, EngineError> {
        let buf = self.backend.allocate(purpose, len)?;
        self.seed += 1;
        self.backend.upload(buf, &numbers(len, self.seed));
        Ok(buf)
    }

    /// A buffer of NaN: it remains where an operation writes nothing.
    pub(super) fn poisoned(&mut self, purpose: Purpose, len: usize) -> Result<Buf, EngineError> {
        let buf = self.backend.allocate(purpose, len)?;
        self.backend.upload(buf, &vec![f32::NAN; len]);
        Ok(buf)
    }

    pub(super) fn record(&mut self, what: &'static str, buf: Buf) -> Result<(), EngineError> {
        let mut values = vec![0.0; buf.len()];
        self.backend.download(buf, &mut values)?;
        self.results.push((what, values));
        Ok(())
    }
}

/// Two completions of one prompt, a separate sequence, and one token that attends to the prompt.
fn packed() -> Batch {
    batch([
        (70, vec![(0, 70)]),
        (9, vec![(0, 70), (70, 9)]),
        (4, vec![(0, 70), (79, 4)]),
        (130, vec![(83, 130)]),
        (1, vec![(0, 70), (213, 1)]),
    ])
}

/// The batch of some sequences' last tokens: their number, and the ranges of rows of each sequence's keys and values.
pub(super) fn batch(sequences: impl IntoIterator<Item = (usize, Vec<(usize, usize)>)>) -> Batch {
    let mut batch = Batch::default();
    for (count, kv) in sequences {
        let numbers = batch.tokens.len()..batch.tokens.len() + count;
        let tokens: Vec<u32> = numbers.map(|i| i as u32 % 97).collect();
        batch.add(&tokens, kv);
    }
    batch
}

/// Results of every operation, for heads of a width.
pub(super) fn operations(
    backend: &mut dyn Backend,
    head_dim: usize,
) -> Result<Results, EngineError> {
    let mut bench = Bench::new(backend);
    let batch = packed();
    let rows = batch.tokens.len();
    bench.backend.begin(&batch, rows, rows)?;
    streams(&mut bench, rows)?;
    products(&mut bench, rows)?;
    for (soft_cap, window) in [(None, None), (Some(0.8), Some(7)), (None, Some(100))] {
        let heads = Heads {
            heads: 6,
            kv_heads: 2,
            head_dim,
        };
        attention(&mut bench, rows, heads, soft_cap, window)?;
    }
    vocabulary(&mut bench)?;
    optimiser(&mut bench)?;
    Ok(bench.results)
}

/// Operations on rows of the residual stream's width.
fn streams(t: &mut Bench<'_>, rows: usize) -> Result<(), EngineError> {
    use Purpose::{Activations, Sums, Weights};
    let width = 344;
    let as_rows = |x: Buf| x.rows(0, width);
    let norm = Norm {
        rows,
        heads: 1,
        eps: 1e-5,
        offset: 1.0,
    };
    let [table, weight] = [97 * width, width].map(|len| t.filled(Weights, len));
    let (table, weight) = (table?, weight?);
    let (x, y) = (
        t.poisoned(Sums, rows * width)?,
        t.poisoned(Activations, rows * width)?,
    );
    t.backend.embed(x, table, width, 3.0);
    t.record("embedding", x)?;
    t.backend
        .rms_norm(as_rows(y), as_rows(x), weight, norm, false);
    t.record("norm", y)?;
    t.backend
        .rms_norm(as_rows(x), as_rows(y), weight, norm, true);
    t.record("norm, added", x)?;
    let (dx, dweight) = (t.filled(Sums, rows * width)?, t.filled(Sums, width)?);
    let dy = t.filled(Activations, rows * width)?;
    t.backend
        .rms_norm_backward(as_rows(dx), dweight, as_rows(dy), as_rows(x), weight, norm);
    t.record("norm backward", dx)?;
    t.record("norm backward, weight", dweight)?;
    let dtable = t.filled(Purpose::Optimiser, 97 * width)?;
    t.backend.embed_backward(dtable, dx, width, 3.0);
    t.record("embedding backward", dtable)?;
    let indices: Vec<usize> = (0..40).map(|i| (i * 5) % rows).collect();
    let gathered = t.poisoned(Sums, indices.len() * width)?;
    t.backend.gather(gathered, x, &indices, width);
    t.record("rows taken", gathered)?;
    t.backend.scatter_add(x, gathered, &indices, width);
    t.record("rows given back", x)?;
    let pairs = t.filled(Activations, 2 * rows * width)?;
    for activation in [Activation::Silu, Activation::GeluTanh] {
        t.backend.gate(y, pairs, rows, width, activation);
        t.record("gate", y)?;
    }
    t.backend
        .gate_backward(pairs, dy, rows, width, Activation::Silu);
    t.record("gate backward", pairs)?;
    t.backend.scale(dy, 0.3);
    t.record("scaled", dy)
}

fn products(t: &mut Bench<'_>, rows: usize) -> Result<(), EngineError> {
    use Purpose::{Activations, Sums, Weights};
    let size = Linear {
        rows,
        outputs: 200,
        inputs: 136,
    };
    let x = t.filled(Activations, rows * size.inputs)?;
    let w = t.filled(Weights, size.outputs * size.inputs)?;
    let y = t.poisoned(Activations, rows * size.outputs)?;
    t.backend.linear(y, x, w, size, false);
    t.record("product", y)?;
    let sums = t.filled(Sums, rows * size.outputs)?;
    t.backend.linear(sums, x, w, size, true);
    t.record("product, added", sums)?;
    let bias = t.filled(Weights, size.outputs)?;
    t.backend.add_bias(y, bias, rows);
    t.record("bias", y)?;
    let dbias = t.filled(Purpose::Optimiser, size.outputs)?;
    t.backend.bias_backward(dbias, sums, rows);
    t.record("bias backward", dbias)?;
    let dx = t.poisoned(Activations, rows * size.inputs)?;
    t.backend.linear_backward_input(dx, sums, w, size, false);
    t.record("product backward, input", dx)?;
    let dw = t.filled(Purpose::Optimiser, size.outputs * size.inputs)?;
    t.backend.linear_backward_weight(dw, sums, x, size);
    t.record("product backward, weight", dw)
}

/// Heads of attention.
#[derive(Debug, Clone, Copy)]
pub(super) struct Heads {
    pub(super) heads: usize,
    pub(super) kv_heads: usize,
    pub(super) head_dim: usize,
}

/// Attention over the current batch, of `rows` tokens, forward and backward.
pub(super) fn attention(
    t: &mut Bench<'_>,
    rows: usize,
    Heads {
        heads,
        kv_heads,
        head_dim,
    }: Heads,
    soft_cap: Option<f32>,
    window: Option<usize>,
) -> Result<(), EngineError> {
    use Purpose::{Activations, Cache, Sums};
    let (q, kv) = (heads * head_dim, kv_heads * head_dim);
    let stride = q + 2 * kv;
    let qkv = t.filled(Activations, rows * stride)?;
    let frequencies = t.filled(Sums, head_dim / 2)?;
    let table = t.poisoned(Sums, rows * head_dim)?;
    t.backend.rope_table(table, frequencies);
    t.record("rotations", table)?;
    let bias = t.filled(Purpose::Weights, stride)?;
    t.backend.add_bias_and_rope(
        qkv.rows(0, stride),
        bias,
        rows,
        table,
        heads + kv_heads,
        head_dim,
    );
    t.record("rotated", qkv)?;
    let store = t.filled(Cache, rows * 2 * kv)?;
    let [k, v] = [0, kv].map(|column| store.rows(column, 2 * kv));
    let own = [q, q + kv].map(|column| qkv.rows(column, stride));
    t.backend.write_kv(k, own[0], kv_heads, head_dim);
    t.backend.write_kv(v, own[1], kv_heads, head_dim);
    let operands = |k: Rows, v: Rows| Attention {
        q: qkv.rows(0, stride),
        k,
        v,
        heads,
        kv_heads,
        head_dim,
        scale: 0.3,
        soft_cap,
        window,
    };
    let y = t.poisoned(Activations, rows * q)?;
    let lse = t.poisoned(Sums, rows * heads)?;
    t.backend.attention(y.rows(0, q), lse, &operands(k, v));
    t.record("attention", y)?;
    t.record("attention, log-sum-exp", lse)?;
    let [k, v] = own;
    t.backend.attention(y.rows(0, q), lse, &operands(k, v));
    let dy = t.filled(Activations, rows * q)?;
    let dqkv = t.filled(Sums, rows * stride)?;
    let [dk, dv] = [q, q + kv].map(|column| dqkv.rows(column, stride));
    let (dq, dy, y) = (dqkv.rows(0, stride), dy.rows(0, q), y.rows(0, q));
    t.backend
        .attention_backward(dq, dk, dv, dy, y, lse, &operands(k, v));
    t.record("attention backward", dqkv)?;
    t.backend.rope(dq, table, heads, head_dim, true);
    t.record("rotated back", dqkv)
}

/// Operations on rows of the vocabulary's width.
fn vocabulary(t: &mut Bench<'_>) -> Result<(), EngineError> {
    use Purpose::Sums;
    let (rows, vocabulary) = (6, 5003);
    let logits = t.filled(Sums, rows * vocabulary)?;
    t.backend.scale(logits, 6.0);
    t.backend.soft_cap(logits, 5.0);
    t.record("capped", logits)?;
    let targets = [(0, 5), (0, 5002), (2, 100), (5, 0)];
    let targets = targets.map(|(row, token)| Target { row, token });
    let (logp, entropy) = (t.poisoned(Sums, 4)?, t.poisoned(Sums, 4)?);
    t.backend
        .log_probs(logp, entropy, logits, vocabulary, &targets, 0.8);
    t.record("log-probabilities", logp)?;
    t.record("entropies", entropy)?;
    let draws: Vec<Draw> = (0..rows as u64)
        .map(|seed| {
            let sampling = Sampling {
                temperature: [1.0, 0.7, 0.0][seed as usize % 3],
                top_k: [0, 50][seed as usize / 3],
                ..Sampling::default()
            };
            Draw::new(sampling, seed, 4)
        })
        .collect();
    t.backend.draws(&draws);
    t.backend.sample(logits, vocabulary, 0..rows);
    let sampled = t.backend.sampled()?;
    t.results.push(("draws", as_numbers(&sampled)));
    // The same draws, without the tokens that they gave and a neighbour.
    let others: Vec<Draw> = draws
        .into_iter()
        .zip(&sampled)
        .map(|(draw, Sampled { token, .. })| Draw {
            suppressed: [*token, (*token + 1) % vocabulary as u32].into(),
            ..draw
        })
        .collect();
    let overwritten = t.backend.allocate(Sums, logits.len())?;
    t.backend.copy(overwritten, logits);
    t.backend.draws(&others);
    t.backend.sample(overwritten, vocabulary, 0..rows);
    let sampled = t.backend.sampled()?;
    t.results
        .push(("draws of other tokens", as_numbers(&sampled)));
    let dlogp = [0.5, -0.2, 1.0, 0.3];
    t.backend
        .log_probs_backward(logits, vocabulary, &targets, &dlogp, 0.8, Some(5.0));
    t.record("log-probabilities backward", logits)
}

/// Token ids, then their log-probabilities.
fn as_numbers(sampled: &[Sampled]) -> Vec<f32> {
    let tokens = sampled.iter().map(|sampled| sampled.token as f32);
    let logp = sampled.iter().map(|sampled| sampled.logp);
    tokens.chain(logp).collect()
}

fn optimiser(t: &mut Bench<'_>) -> Result<(), EngineError> {
    let n = 70_001;
    let weights = t.filled(Purpose::Weights, n)?;
    let gradient = t.filled(Purpose::Optimiser, n)?;
    let m = t.filled(Purpose::Optimiser, n)?;
    let v = t.backend.allocate(Purpose::Optimiser, n)?;
    let step = AdamWStep {
        lr: 0.01,
        beta1: 0.9,
        beta2: 0.99,
        eps: 1e-8,
        decay: 0.1,
        bias1: 0.1,
        bias2: 0.01,
        grad_scale: 0.5,
    };
    let squares: f64 = t.backend.sum_squares(gradient)?.iter().sum();
    t.results.push(("sum of squares", vec![squares as f32]));
    t.backend.adamw(weights, gradient, m, v, &step);
    t.record("AdamW, weights", weights)?;
    t.record("AdamW, first moment", m)?;
    t.record("AdamW, second moment", v)
}
