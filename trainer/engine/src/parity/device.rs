//! Comparison of a device with the CPU backend: every operation, then whole models, on the same random numbers. For `rapid doctor --device cuda:0`, and for
//! tests.

use std::collections::BTreeMap;

use crate::api::{AdamW, Device};
use crate::backend::{
    AdamWStep, Attention, Backend, Buf, Dtype, Linear, Norm, Purpose, Rows, Target, cpu,
};
use crate::batch::{Batch, Group, Span};
use crate::config::{Activation, Family, ModelConfig, Sliding};
use crate::error::EngineError;
use crate::load::{Tensor, Weights};
use crate::model::{Model, TensorKind};
use crate::sample::{Draw, Sampled};
use crate::sample::{Sampling, uniform};
use crate::train;

/// The distance of a device's numbers from the CPU backend's.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Compared {
    /// Name of the computation.
    pub what: String,
    /// ‖device − cpu‖ / ‖cpu‖; infinite if a number is not finite.
    pub distance: f64,
    /// The largest distance that rounding explains.
    pub limit: f64,
}

impl Compared {
    /// Whether the two agree.
    pub fn agrees(&self) -> bool {
        self.distance <= self.limit
    }

    fn new(what: &str, device: &[f32], cpu: &[f32], limit: f64) -> Self {
        Self {
            what: what.to_owned(),
            distance: distance(device, cpu),
            limit,
        }
    }
}

fn distance(ours: &[f32], theirs: &[f32]) -> f64 {
    if ours.len() != theirs.len() || ours.iter().chain(theirs).any(|x| !x.is_finite()) {
        return f64::INFINITY;
    }
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|x| x * x).sum::<f64>().sqrt();
    let difference = ours.iter().zip(theirs);
    let difference = norm(&mut difference.map(|(a, b)| f64::from(*a) - f64::from(*b)));
    difference / norm(&mut theirs.iter().map(|x| f64::from(*x))).max(1e-30)
}

/// Compares a GPU with the CPU backend ([`with_cpu`]), with products in `dtype`.
///
/// # Errors
/// If the GPU does not exist or fails.
pub fn compare_gpu(device: Device, dtype: Dtype) -> Result<Vec<Compared>, EngineError> {
    with_cpu(&|dtype| device.open(None, dtype, None), dtype)
}

/// Compares a device with the CPU backend: operations, then logits, log-probabilities, gradients and decoded tokens of small random models of each family.
/// `open` opens the device with products in the given number format.
///
/// # Errors
/// If the device fails.
pub fn with_cpu(
    open: &dyn Fn(Dtype) -> Result<Box<dyn Backend>, EngineError>,
    dtype: Dtype,
) -> Result<Vec<Compared>, EngineError> {
    let (exact, rounded) = match dtype {
        Dtype::F32 => (1e-5, 1e-4),
        Dtype::Bf16 => (1e-2, 5e-2),
    };
    let mut results = Vec::new();
    for head_dim in [64, 128, 256] {
        let device = operations(open(dtype)?.as_mut(), head_dim)?;
        let reference = operations(cpu::open_with(None, dtype, None)?.as_mut(), head_dim)?;
        for ((what, device), (_, reference)) in device.iter().zip(&reference) {
            let what = format!("{what}, heads of {head_dim}");
            results.push(Compared::new(&what, device, reference, exact));
        }
    }
    for family in Family::ALL {
        let device = model(family, open(dtype)?)?;
        let reference = model(family, cpu::open_with(None, dtype, None)?)?;
        for ((what, device), (_, reference)) in device.iter().zip(&reference) {
            let what = format!("{}: {what}", family.name());
            results.push(Compared::new(&what, device, reference, rounded));
        }
    }
    Ok(results)
}

/// Pseudo-random numbers between −1 and 1, a function of the seed.
fn numbers(len: usize, seed: u64) -> Vec<f32> {
    (0..len as u64)
        .map(|i| (2.0 * uniform(seed, i) - 1.0) as f32)
        .collect()
}

/// A device, and its results for fixed inputs.
struct Bench<'a> {
    backend: &'a mut dyn Backend,
    seed: u64,
    results: Vec<(&'static str, Vec<f32>)>,
}

impl Bench<'_> {
    /// A buffer of numbers that are the same on every device.
    fn filled(&mut self, purpose: Purpose, len: usize) -> Result<Buf, EngineError> {
        let buf = self.backend.allocate(purpose, len)?;
        self.seed += 1;
        self.backend.upload(buf, &numbers(len, self.seed));
        Ok(buf)
    }

    /// A buffer of NaN, which remains where an operation writes nothing.
    fn poisoned(&mut self, purpose: Purpose, len: usize) -> Result<Buf, EngineError> {
        let buf = self.backend.allocate(purpose, len)?;
        self.backend.upload(buf, &vec![f32::NAN; len]);
        Ok(buf)
    }

    fn record(&mut self, what: &'static str, buf: Buf) -> Result<(), EngineError> {
        let mut values = vec![0.0; buf.len()];
        self.backend.download(buf, &mut values)?;
        self.results.push((what, values));
        Ok(())
    }
}

/// Two completions of one prompt, a separate sequence, and one token that attends to the prompt.
fn packed() -> Batch {
    let spans = [
        (0, 70, vec![(0, 70)]),
        (70, 9, vec![(0, 70), (70, 9)]),
        (79, 4, vec![(0, 70), (79, 4)]),
        (83, 130, vec![(83, 130)]),
        (213, 1, vec![(0, 70), (213, 1)]),
    ];
    let spans = spans.map(|(q_start, q_len, kv)| Span {
        q_start,
        q_len,
        kv: kv.into(),
    });
    Batch {
        tokens: (0..214).map(|i| i % 97).collect(),
        positions: (0..214).collect(),
        rows: (0..214).collect(),
        spans: spans.to_vec(),
    }
}

fn operations(
    backend: &mut dyn Backend,
    head_dim: usize,
) -> Result<Vec<(&'static str, Vec<f32>)>, EngineError> {
    let mut bench = Bench {
        backend,
        seed: 0,
        results: Vec::new(),
    };
    let batch = packed();
    let rows = batch.tokens.len();
    bench.backend.begin(&batch, rows, rows)?;
    streams(&mut bench, rows)?;
    products(&mut bench, rows)?;
    for (soft_cap, window) in [(None, None), (Some(0.8), Some(7)), (None, Some(100))] {
        attention(&mut bench, rows, head_dim, soft_cap, window)?;
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

fn attention(
    t: &mut Bench<'_>,
    rows: usize,
    head_dim: usize,
    soft_cap: Option<f32>,
    window: Option<usize>,
) -> Result<(), EngineError> {
    use Purpose::{Activations, Cache, Sums};
    let (heads, kv_heads) = (6, 2);
    let (q, kv) = (heads * head_dim, kv_heads * head_dim);
    let stride = q + 2 * kv;
    let qkv = t.filled(Activations, rows * stride)?;
    let frequencies = t.filled(Sums, head_dim / 2)?;
    let table = t.poisoned(Sums, rows * head_dim)?;
    t.backend.rope_table(table, frequencies);
    t.record("rotations", table)?;
    t.backend.rope(
        qkv.rows(0, stride),
        table,
        heads + kv_heads,
        head_dim,
        false,
    );
    t.record("rotated", qkv)?;
    let store = t.filled(Cache, rows * 2 * kv)?;
    let [k, v] = [0, kv].map(|column| store.rows(column, 2 * kv));
    let own = [q, q + kv].map(|column| qkv.rows(column, stride));
    t.backend.store(k, own[0], kv);
    t.backend.store(v, own[1], kv);
    t.record("stored", store)?;
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
        .map(|seed| Draw {
            sampling: Sampling {
                temperature: [1.0, 0.7, 0.0][seed as usize % 3],
                top_k: [0, 50][seed as usize / 3],
                ..Sampling::default()
            },
            seed,
            index: 4,
        })
        .collect();
    t.backend.draws(&draws);
    t.backend.sample(logits, vocabulary, 0..rows);
    let sampled = t.backend.sampled()?;
    t.results.push(("draws", as_numbers(&sampled)));
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
    let squares = t.backend.sum_squares(gradient)?;
    t.results.push(("sum of squares", vec![squares as f32]));
    t.backend.adamw(weights, gradient, m, v, &step);
    t.record("AdamW, weights", weights)?;
    t.record("AdamW, first moment", m)?;
    t.record("AdamW, second moment", v)
}

/// A small model with all features of its family.
fn small(family: Family) -> ModelConfig {
    let gemma = family == Family::Gemma3;
    ModelConfig {
        family,
        flags: family.flags(),
        vocab_size: 515,
        hidden_size: 136,
        intermediate_size: 200,
        num_hidden_layers: 2,
        num_attention_heads: 6,
        num_key_value_heads: 2,
        head_dim: 64,
        max_position_embeddings: 512,
        rms_norm_eps: 1e-6,
        rope_theta: 10_000.0,
        rope_scaling: None,
        sliding: gemma.then(|| Sliding {
            window: 17,
            layers: vec![true, false],
            rope_theta: Some(1000.0),
        }),
        query_pre_attn_scalar: 64.0,
        attn_logit_softcapping: gemma.then_some(5.0),
        final_logit_softcapping: gemma.then_some(20.0),
        tie_word_embeddings: gemma,
        bos_token_id: None,
        eos_token_ids: Vec::new(),
        pad_token_id: None,
    }
}

fn random_weights(config: &ModelConfig) -> Weights {
    let shapes = config.tensor_shapes().into_iter();
    let tensors = (100..).zip(shapes).map(|(seed, (name, shape))| {
        let mut data = numbers(shape.iter().product(), seed);
        let (base, factor) = match shape.get(1) {
            // This keeps activations near 1.
            Some(inputs) if !name.contains("embed") => (0.0, (3.0 / *inputs as f32).sqrt()),
            Some(_) => (0.0, 0.5),
            None if name.contains("norm") && !config.flags.unit_offset_norms => (1.0, 0.2),
            None => (0.0, 0.2),
        };
        for x in &mut data {
            *x = base + factor * *x;
        }
        (name, Tensor { shape, data })
    });
    Weights {
        tensors: tensors.collect::<BTreeMap<_, _>>(),
    }
}

/// Results of a model: logits of a text, then those of decoding steps and of an update.
fn model(
    family: Family,
    backend: Box<dyn Backend>,
) -> Result<Vec<(&'static str, Vec<f32>)>, EngineError> {
    let config = small(family);
    let weights = random_weights(&config);
    let mut model = Model::new(config, weights, backend)?;
    let tokens: Vec<u32> = (0..90).map(|i| (i * 37 + 11) % 515).collect();
    model.reserve_kv(128)?;
    let prompt = Batch {
        tokens: tokens.clone(),
        positions: (0..90).collect(),
        rows: (0..90).collect(),
        spans: vec![Span {
            q_start: 0,
            q_len: 90,
            kv: vec![(0, 90)].into(),
        }],
    };
    let all: Vec<usize> = (0..90).collect();
    let logits = model.logits(&prompt, &all)?;
    let mut results = vec![("logits", logits)];
    // Three steps of three sequences. The device may record the second and replay it for the third.
    for step in 0..3 {
        let spans = (0..3).map(|i| Span {
            q_start: i,
            q_len: 1,
            kv: vec![(0, 90), (90 + 4 * i, step + 1)].into(),
        });
        let decoding = Batch {
            tokens: vec![7, 8, 9],
            positions: vec![90 + step as u32; 3],
            rows: (0..3).map(|i| 90 + 4 * i + step).collect(),
            spans: spans.collect(),
        };
        let draws = [Draw {
            sampling: Sampling::greedy(),
            seed: 0,
            index: 0,
        }; 3];
        let sampled = model.infer(&decoding, &[0, 1, 2], &draws)?;
        let probabilities = sampled.iter().map(|sampled| sampled.logp.exp());
        results.push(("probabilities of decoded tokens", probabilities.collect()));
    }
    model.release_kv();
    let groups = [Group {
        prompt: tokens[..40].into(),
        completions: vec![tokens[40..75].to_vec(), tokens[50..53].to_vec()],
    }];
    let dlogp = vec![numbers(35, 1), numbers(3, 2)];
    let adamw = AdamW {
        lr: 1e-3,
        beta1: 0.9,
        beta2: 0.99,
        eps: 1e-8,
        weight_decay: 0.01,
        clip_norm: 1.0,
    };
    let objective = Box::new(move |_: &[_]| Ok(Some(dlogp)));
    let report = train::step(&mut model, &groups, 0.9, objective, &adamw)?;
    let stats = report.iter().flat_map(|report| &report.stats);
    let logp = stats.flat_map(|stats| stats.logp.clone());
    results.push(("log-probabilities", logp.collect()));
    let mut gradient = Vec::new();
    for (name, _) in model.trained_shapes() {
        gradient.extend(model.tensor(&name, TensorKind::Gradient)?);
    }
    results.push(("gradient", gradient));
    Ok(results)
}
