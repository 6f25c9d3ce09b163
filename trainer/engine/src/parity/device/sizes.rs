//! Operations at the sizes of real models, which small ones do not reach: a vocabulary of 151,936 tokens, groups of 7 and of 16 heads, windows over several
//! tiles. Also sequences of 2,048 tokens, decoding steps of 8 to 15 sequences, and a KV cache of more than 2³¹ elements.

use super::operations::{Bench, Heads, attention, batch};
use super::{Compared, Extent, Open, limits};
use crate::backend::{Attention, Backend, Buf, Dtype, Linear, Purpose, Target, cpu};
use crate::batch::Batch;
use crate::error::EngineError;
use crate::sample::{Draw, Sampling};

/// Heads of Qwen2.5-0.5B: 7 of queries for one of keys.
const QWEN: Heads = Heads {
    heads: 14,
    kv_heads: 2,
    head_dim: 64,
};
/// The largest group that the kernels support.
const GROUP_OF_16: Heads = Heads {
    heads: 16,
    kv_heads: 1,
    head_dim: 128,
};
/// Tokens of a completion that attends to the long sequence.
const COMPLETION: usize = 100;
/// Tokens that are written into the large KV cache.
const STORED: usize = 130;
/// Bytes that have to stay free in addition to the large KV cache.
const MARGIN: u64 = 1 << 30;

/// The comparison with the CPU at the sizes of real models.
#[derive(Debug, Clone, PartialEq)]
pub struct Sizes {
    /// What was compared.
    pub compared: Vec<Compared>,
    /// What the device's memory does not allow, with the reason.
    pub left_out: Vec<String>,
}

struct Scale {
    vocabulary: usize,
    logit_rows: usize,
    sequence: usize,
    window: usize,
    /// Sequences of decoding steps.
    sequences: &'static [usize],
    /// The middle of the rows that the large KV cache uses.
    stored_row: usize,
}

impl Scale {
    fn new(extent: Extent) -> Self {
        match extent {
            Extent::Full => Self {
                vocabulary: 151_936,
                logit_rows: 1024,
                sequence: 2048,
                window: 700,
                sequences: &[8, 9, 10, 11, 12, 13, 14, 15],
                stored_row: (1 << 31) / row_len(),
            },
            Extent::Reduced => Self {
                vocabulary: 9004,
                logit_rows: 6,
                sequence: 150,
                window: 130,
                sequences: &[8, 15],
                stored_row: 4096,
            },
        }
    }
}

/// Elements of a row of the large KV cache: keys and values.
const fn row_len() -> usize {
    2 * QWEN.kv_heads * QWEN.head_dim
}

/// Work on a backend. The second argument is the first row that it uses of a KV cache.
type Work<'a> = &'a dyn Fn(&mut Bench<'_>, usize) -> Result<(), EngineError>;

/// Compares a device with the CPU backend at the sizes of real models, or with the same code at small ones.
///
/// # Errors
/// If the device fails.
pub fn true_sizes(open: Open<'_>, dtype: Dtype, extent: Extent) -> Result<Sizes, EngineError> {
    let scale = Scale::new(extent);
    let mut compared = Vec::new();
    let mut compare = |of: &str, first_row: usize, work: Work<'_>| {
        let results = |mut backend: Box<dyn Backend>, first_row: usize| {
            let mut bench = Bench::new(backend.as_mut());
            work(&mut bench, first_row)?;
            Ok::<_, EngineError>(bench.results)
        };
        let device = results(open(dtype)?, first_row)?;
        let reference = results(cpu::open_with(None, dtype, None)?, 0)?;
        let of = |what: &str| format!("{what}, {of}");
        compared.extend(Compared::all(&device, &reference, of, limits(dtype).0));
        Ok::<_, EngineError>(())
    };

    let (rows, vocabulary) = (scale.logit_rows, scale.vocabulary);
    compare(
        &format!("{rows} rows of {vocabulary} logits"),
        0,
        &|t, _| logits(t, rows, vocabulary),
    )?;
    let length = scale.sequence;
    for (heads, window) in [
        (QWEN, None),
        (QWEN, Some(scale.window)),
        (GROUP_OF_16, Some(scale.window)),
    ] {
        let name = format!(
            "{length} tokens, groups of {} heads, window {}",
            heads.heads / heads.kv_heads,
            window.map_or("none".to_owned(), |keys| keys.to_string())
        );
        compare(&name, 0, &|t, _| {
            let batch = long(length);
            let rows = batch.tokens.len();
            t.backend.begin(&batch, rows, rows)?;
            attention(t, rows, heads, None, window)
        })?;
    }
    for &sequences in scale.sequences {
        compare(&format!("{sequences} sequences"), 0, &|t, _| {
            decoding(t, sequences)
        })?;
    }
    let first_row = scale.stored_row - STORED / 2;
    let elements = (first_row + STORED) * row_len();
    let needed = (elements * open(dtype)?.element_bytes().cache) as u64 + MARGIN;
    let free = open(dtype)?.free_memory();
    let mut left_out = Vec::new();
    match free {
        Some(free) if extent == Extent::Full && free < needed => left_out.push(format!(
            "a KV cache of more than 2³¹ elements, which needs {:.1} GB of {:.1} GB that are free",
            needed as f64 / 1e9,
            free as f64 / 1e9
        )),
        _ => compare(
            &format!("a KV cache of {elements} elements"),
            first_row,
            &stored,
        )?,
    }
    Ok(Sizes { compared, left_out })
}

/// Log-probabilities, their gradient, and draws. A draw between two tokens may be either, so draws are compared by the log-probability that comes with them.
fn logits(t: &mut Bench<'_>, rows: usize, vocabulary: usize) -> Result<(), EngineError> {
    use Purpose::Sums;
    let logits = t.filled(Sums, rows * vocabulary)?;
    t.backend.scale(logits, 6.0);
    let kept = t.backend.allocate(Sums, logits.len())?;
    t.backend.copy(kept, logits);
    let target = |row: usize, token: usize| Target {
        row,
        token: token as u32,
    };
    let of_row = |row| [row * 7919 % vocabulary, vocabulary - 1 - row].map(|id| target(row, id));
    let targets: Vec<Target> = (0..rows).flat_map(of_row).collect();
    let [logp, entropy] = [(), ()].map(|()| t.poisoned(Sums, targets.len()));
    let (logp, entropy) = (logp?, entropy?);
    t.backend
        .log_probs(logp, entropy, logits, vocabulary, &targets, 0.8);
    t.record("log-probabilities", logp)?;
    t.record("entropies", entropy)?;

    let draws: Vec<Draw> = (0..rows as u64)
        .map(|seed| {
            let temperature = if seed % 2 == 0 { 0.0 } else { 0.8 };
            let sampling = Sampling {
                temperature,
                ..Sampling::default()
            };
            Draw::new(sampling, seed, 4)
        })
        .collect();
    t.backend.draws(&draws);
    t.backend.sample(logits, vocabulary, 0..rows);
    let sampled = t.backend.sampled()?;
    let greedy = sampled.iter().step_by(2);
    let greedy = greedy.map(|sampled| sampled.token as f32).collect();
    t.results.push(("likeliest tokens", greedy));
    let drawn = sampled.iter().enumerate();
    let drawn: Vec<Target> = drawn
        .map(|(row, sampled)| target(row, sampled.token as usize))
        .collect();
    let (logp, entropy) = (logp.at(0, rows), entropy.at(0, rows));
    t.backend
        .log_probs(logp, entropy, kept, vocabulary, &drawn, 0.8);
    let mut known = vec![0.0; rows];
    t.backend.download(logp, &mut known)?;
    let random = sampled.iter().zip(&known).skip(1).step_by(2);
    let ratios = random.map(|(sampled, known)| (sampled.logp - known).exp());
    t.results
        .push(("draws by their log-probability", ratios.collect()));

    let dlogp: Vec<f32> = (0..targets.len())
        .map(|i| if i % 3 == 0 { -0.7 } else { 0.3 })
        .collect();
    t.backend
        .log_probs_backward(kept, vocabulary, &targets, &dlogp, 0.8, None);
    t.record("log-probabilities backward", kept)
}

/// A long sequence, a completion of it, and single tokens that attend to different parts of it.
fn long(length: usize) -> Batch {
    let sequences = [
        (length, vec![(0, length)]),
        (COMPLETION, vec![(0, length), (length, COMPLETION)]),
    ];
    let own = length + COMPLETION;
    let single = (0..4).map(|i| (1, vec![(0, length - 13 * i), (own + i, 1)]));
    batch(sequences.into_iter().chain(single))
}

/// A decoding step: a product, and attention of single tokens to a prompt.
fn decoding(t: &mut Bench<'_>, sequences: usize) -> Result<(), EngineError> {
    const PROMPT: usize = 40;
    let prompt = [(PROMPT, vec![(0, PROMPT)])];
    let single = (0..sequences).map(|i| (1, vec![(0, PROMPT - i), (PROMPT + i, 1)]));
    let batch = batch(prompt.into_iter().chain(single));
    let rows = batch.tokens.len();
    t.backend.begin(&batch, rows, rows)?;
    attention(t, rows, QWEN, None, None)?;
    let size = Linear {
        rows: sequences,
        outputs: 1152,
        inputs: 896,
    };
    let x = t.filled(Purpose::Activations, size.rows * size.inputs)?;
    let weight = t.filled(Purpose::Weights, size.outputs * size.inputs)?;
    let y = t.poisoned(Purpose::Activations, size.rows * size.outputs)?;
    t.backend.linear(y, x, weight, size, false);
    t.record("product", y)
}

/// Keys and values that are written into a KV cache from `first_row` on, and read by a prompt and by one token after it.
fn stored(t: &mut Bench<'_>, first_row: usize) -> Result<(), EngineError> {
    let Heads {
        heads,
        kv_heads,
        head_dim,
    } = QWEN;
    let (q, kv) = (heads * head_dim, kv_heads * head_dim);
    let stride = q + 2 * kv;
    let prompt = STORED - 1;
    let sequences = [
        (prompt, vec![(first_row, prompt)]),
        (1, vec![(first_row, prompt), (first_row + prompt, 1)]),
    ];
    let store_rows = first_row + STORED;
    t.backend.begin(&batch(sequences), STORED, store_rows)?;
    let qkv = t.filled(Purpose::Activations, STORED * stride)?;
    let store: Buf = t.backend.allocate(Purpose::Cache, store_rows * row_len())?;
    let [k, v] = [0, kv].map(|column| store.rows(column, row_len()));
    for (to, column) in [(k, q), (v, q + kv)] {
        t.backend
            .write_kv(to, qkv.rows(column, stride), kv_heads, head_dim);
    }
    let y = t.poisoned(Purpose::Activations, STORED * q)?;
    let lse = t.poisoned(Purpose::Sums, STORED * heads)?;
    let operands = Attention {
        q: qkv.rows(0, stride),
        k,
        v,
        heads,
        kv_heads,
        head_dim,
        scale: 0.3,
        soft_cap: None,
        window: None,
    };
    t.backend.attention(y.rows(0, q), lse, &operands);
    t.record("attention", y)?;
    t.record("attention, log-sum-exp", lse)
}
