use super::simd::{SimdLevel, levels};
use super::{Cpu, Format, Threads};
use crate::backend::{AdamWStep, Attention, Backend, Buf, Dtype, Linear, Purpose, SQUARES, Target};
use crate::batch::Batch;
use crate::config::Activation;
use crate::parity::device::{every_operation, numbers};
use crate::sample::{self, Draw, Sampling};

fn cpu(level: SimdLevel, threads: usize) -> Cpu {
    let threads = Threads::start(Some(threads)).expect("some threads");
    Cpu::new(level, Format::F32, Dtype::F32, threads)
}

const STEP: AdamWStep = AdamWStep {
    lr: 0.5,
    beta1: 0.9,
    beta2: 0.99,
    eps: 1e-8,
    decay: 0.1,
    bias1: 0.1,
    bias2: 0.01,
    grad_scale: 0.5,
};

/// A buffer of pseudo-random numbers.
fn filled(cpu: &mut Cpu, len: usize, seed: u64) -> Buf {
    let buf = cpu.allocate(Purpose::Activations, len);
    let buf = buf.expect("a little memory");
    cpu.upload(buf, &numbers(len, seed));
    buf
}

fn bits(cpu: &mut Cpu, buf: Buf) -> Vec<u32> {
    let mut values = vec![0.0; buf.len()];
    cpu.download(buf, &mut values).expect("downloads work");
    values.iter().map(|x| x.to_bits()).collect()
}

/// Results of every operation on fixed inputs, as bits. Their sizes are not multiples of the lanes.
fn everything(mut cpu: Cpu) -> Vec<(&'static str, Vec<u32>)> {
    let mut results = Vec::new();
    for head_dim in [12, 64, 90] {
        results.extend(every_operation(&mut cpu, head_dim).expect("a little memory"));
    }
    let [pairs, dy] = [2 * 53, 53].map(|width| filled(&mut cpu, 100 * width, 6));
    cpu.gate_backward(pairs, dy, 100, 53, Activation::GeluTanh);
    let mut results: Vec<_> = results
        .into_iter()
        .map(|(name, values)| (name, values.iter().map(|x| x.to_bits()).collect()))
        .collect();
    results.push(("gate backward", bits(&mut cpu, pairs)));
    let x = filled(&mut cpu, SQUARES + 1001, 7);
    let sums = cpu.sum_squares(x).expect("a sum");
    let halves = |sum: &f64| [sum.to_bits() as u32, (sum.to_bits() >> 32) as u32];
    results.push(("sum of squares", sums.iter().flat_map(halves).collect()));
    results
}

#[test]
fn every_operation_has_the_same_bits_at_every_level_and_threads() {
    let first = everything(cpu(SimdLevel::detect(), 1));
    let at_levels = levels().into_iter().map(|level| (level, 2));
    let on_threads = [3, 8, 8, 8].map(|threads| (SimdLevel::detect(), threads));
    for (level, threads) in at_levels.chain(on_threads) {
        let results = everything(cpu(level, threads));
        for ((name, first), (_, results)) in first.iter().zip(&results) {
            assert!(first == results, "{name} at {level:?} on {threads} threads");
        }
    }
}

/// Logits slightly below `largest` that compete at a temperature, as far as f32 distinguishes them.
fn competing(largest: f32, temperature: f32, vocabulary: usize) -> Vec<f32> {
    let step = temperature.max(largest * f32::EPSILON);
    (0..vocabulary as u32)
        .map(|i| largest - (i.wrapping_mul(2_654_435_761) >> 16) as f32 % 40.0 * step)
        .collect()
}

/// A row's log-probabilities in f64.
fn exact(row: &[f32], temperature: f32) -> Vec<f64> {
    let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let z = |logit: &f32| (f64::from(*logit) - f64::from(max)) / f64::from(temperature);
    let sum: f64 = row.iter().map(|logit| z(logit).exp()).sum();
    row.iter().map(|logit| z(logit) - sum.ln()).collect()
}

#[test]
fn tokens_scores_and_gradients_match_the_reference_at_low_temperatures() {
    let vocabulary = 2777;
    for level in levels() {
        for temperature in [1e-3, 1e-6] {
            let c = &mut cpu(level, 2);
            let rows = [99.871, 123.456, 9_987.13, 12_345.6];
            let rows = rows.map(|largest| competing(largest, temperature, vocabulary));
            let exact = rows.each_ref().map(|row| exact(row, temperature));
            let logits = filled(c, rows.len() * vocabulary, 1);
            c.upload(logits, &rows.concat());
            let (logp, entropy) = (filled(c, 8, 2), filled(c, 8, 3));
            for seed in 0..20 {
                let sampling = Sampling::at(temperature);
                let draws = [0, 1, 2, 3].map(|index| Draw::new(sampling, seed, index));
                c.draws(&draws);
                c.sample(logits, vocabulary, 0..rows.len());
                let sampled = c.sampled().expect("finite logits");
                // For each row the sampled token, and a token that may be very unlikely.
                let targets: Vec<Target> = sampled
                    .iter()
                    .enumerate()
                    .flat_map(|(row, sampled)| {
                        [sampled.token, 5].map(|token| Target { row, token })
                    })
                    .collect();
                c.log_probs(logp, entropy, logits, vocabulary, &targets, temperature);
                let scores = bits(c, logp);
                for (row, (sampled, draw)) in sampled.iter().zip(&draws).enumerate() {
                    let what = format!("{level:?}, T {temperature}, row {row}, seed {seed}");
                    let reference = sample::draw(&rows[row], draw).expect("finite logits");
                    assert_eq!(sampled.token, reference.token, "{what}");
                    assert!(sampled.logp <= 0.0, "{what}: {sampled:?}");
                    let error = f64::from(sampled.logp) - exact[row][sampled.token as usize];
                    assert!(error.abs() < 1e-5, "{what}: {error}");
                    let error = sampled.logp - reference.logp;
                    assert!(error.abs() < 1e-5, "{what}: {error} from the reference");
                    assert_eq!(scores[2 * row], sampled.logp.to_bits(), "{what}");
                    let other = f64::from(f32::from_bits(scores[2 * row + 1]));
                    let error = (other - exact[row][5]).abs();
                    assert!(error < 1e-5 + 1e-6 * other.abs(), "{what}: {error}");
                }
            }
            let entropies = bits(c, entropy);
            for (row, exact) in exact.iter().enumerate() {
                let expected: f64 = exact.iter().map(|logp| -logp.exp() * logp).sum();
                let entropy = f64::from(f32::from_bits(entropies[2 * row]));
                assert!((entropy - expected).abs() < 1e-4, "{entropy} {expected}");
            }
            let targets = [0, 1, 2, 3].map(|row| Target { row, token: 5 });
            c.log_probs_backward(logits, vocabulary, &targets, &[1.0; 4], temperature, None);
            let mut gradient = vec![0.0; logits.len()];
            c.download(logits, &mut gradient).expect("downloads work");
            for (gradient, exact) in gradient.chunks(vocabulary).zip(&exact) {
                for (token, (gradient, logp)) in gradient.iter().zip(exact).enumerate() {
                    let expected = f64::from(u8::from(token == 5)) - logp.exp();
                    let error = f64::from(*gradient) * f64::from(temperature) - expected;
                    assert!(error.abs() < 1e-5, "token {token}: {error}");
                }
            }
        }
    }
}

#[test]
#[should_panic(expected = "overlaps")]
fn overlapping_gradients_of_attention_are_rejected() {
    let c = &mut cpu(SimdLevel::detect(), 2);
    let batch = Batch::text(&[0; 100]);
    c.begin(&batch, 100, 100).expect("a sound batch");
    let [qkv, dqkv, y, dy] = [1, 2, 3, 4].map(|seed| filled(c, 2400, seed));
    let lse = filled(c, 100, 5);
    let [q, k, v] = [0, 8, 16].map(|column| qkv.rows(column, 24));
    let attention = Attention {
        q,
        k,
        v,
        heads: 1,
        kv_heads: 1,
        head_dim: 8,
        scale: 0.3,
        soft_cap: None,
        window: None,
    };
    let [dq, dk] = [0, 8].map(|column| dqkv.rows(column, 24));
    let [y, dy] = [y, dy].map(|buf| buf.rows(0, 24));
    c.attention_backward(dq, dk, dk, dy, y, lse, &attention);
}

#[test]
fn bf16_weights_follow_every_change_of_the_f32_weights() {
    let mut cpu = cpu(SimdLevel::detect(), 2);
    cpu.format = Format::Bf16;
    let c = &mut cpu;
    let size = Linear {
        rows: 3,
        outputs: 40,
        inputs: 50,
    };
    let x = filled(c, 150, 1);
    let values = filled(c, 2000, 2);
    let weights = c.allocate(Purpose::Weights, 2100).expect("a little memory");
    let matrix = weights.at(64, 2000);
    let y = filled(c, 120, 3);
    // Weights in a buffer that the backend does not know as weights are packed for each product.
    let check = |c: &mut Cpu| {
        c.copy(values, matrix);
        c.linear(y, x, values, size, false);
        let expected = bits(c, y);
        c.linear(y, x, matrix, size, false);
        assert!(bits(c, y) == expected);
        expected
    };
    let initial = check(c);
    c.upload(matrix, &vec![3.0; 2000]);
    let uploaded = check(c);
    c.upload(matrix.at(1999, 1), &[77.0]);
    let changed = check(c);
    let [m, v, g] = [4, 5, 6].map(|seed| filled(c, 2000, seed));
    c.zero(v);
    c.adamw(matrix, g, m, v, &STEP);
    let updated = check(c);
    let all = [&initial, &uploaded, &changed, &updated];
    assert!((1..4).all(|i| all[i] != all[i - 1]));
}

#[test]
fn suppressed_tokens_are_left_out_as_by_the_reference() {
    let vocabulary = 2777;
    for level in levels() {
        let c = &mut cpu(level, 2);
        let logits = filled(c, 4 * vocabulary, 21);
        c.scale(logits, 5.0);
        let mut rows = vec![0.0; 4 * vocabulary];
        c.download(logits, &mut rows).expect("downloads work");
        let rows: Vec<&[f32]> = rows.chunks(vocabulary).collect();
        for seed in 0..20 {
            let base = Sampling::default();
            let top_k = Sampling { top_k: 3, ..base };
            let draws = [base, Sampling::at(0.3), Sampling::greedy(), top_k]
                .map(|sampling| Draw::new(sampling, seed, 4));
            let sample = |c: &mut Cpu, draws: &[Draw]| {
                c.upload(logits, &rows.concat());
                c.draws(draws);
                c.sample(logits, vocabulary, 0..4);
                c.sampled().expect("finite logits")
            };
            let any = sample(c, &draws);
            let without: Vec<Draw> = draws
                .iter()
                .zip(&any)
                .map(|(draw, any)| Draw {
                    suppressed: [any.token, 7, vocabulary as u32].into(),
                    ..draw.clone()
                })
                .collect();
            let others = sample(c, &without);
            for (row, (sampled, draw)) in others.iter().zip(&without).enumerate() {
                let what = format!("{level:?}, row {row}, seed {seed}: {sampled:?}");
                assert!(!draw.suppressed.contains(&sampled.token), "{what}");
                let reference = sample::draw(rows[row], draw).expect("finite logits");
                assert_eq!(sampled.token, reference.token, "{what}");
                let temperature = if row == 1 { 0.3 } else { 1.0 };
                let known = exact(rows[row], temperature)[sampled.token as usize];
                assert!((f64::from(sampled.logp) - known).abs() < 1e-5, "{what}");
            }
        }
        let all = Draw {
            suppressed: (0..vocabulary as u32).collect(),
            ..Draw::new(Sampling::default(), 0, 0)
        };
        c.upload(logits, &rows.concat());
        c.draws(&[all]);
        c.sample(logits, vocabulary, 0..1);
        assert!(c.sampled().is_err(), "nothing is left");
    }
}
