//! The CUDA backend on an emulated device, which runs the actual kernels, against the CPU backend: whole models, forward, backward, decoding, and failures of
//! the device.

mod decoding;

use crate::{long, support};

use std::sync::{Arc, Mutex};

use engine::backend::cuda::driver::{Arg, Launch};
use engine::backend::cuda::emulated::{Counters, Emulated, MULTIPROCESSORS};
use engine::backend::{Backend, Dtype, cpu, cuda};
use engine::batch::{Batch, KvRows};
use engine::config::{Family, ModelConfig};
use engine::load::Weights;
use engine::model::{Lora, Model, TensorKind};
use engine::parity::device::{Extent, phases, recordings, repeated_step, true_sizes, with_cpu};
use engine::sample::Sampling;
use engine::sample::{Draw, Sampled};
use engine::train::score;
use engine::{AdamW, EngineError, StepReport};
use support::{Case, Random, batch, distance, gather, largest_difference, weights};

const ADAMW: AdamW = AdamW {
    weight_decay: 0.01,
    ..AdamW::new(1e-3)
};

/// A random configuration with a head width that the kernels support.
fn config(random: &mut Random, family: Family) -> ModelConfig {
    let mut config = support::config(random, family);
    config.head_dim = random.pick(&[16, 32, 48, 64, 144]);
    config.vocab_size = 97 + random.below(300);
    config.num_hidden_layers = 2;
    if let Some(sliding) = &mut config.sliding {
        sliding.layers = vec![true, false];
    }
    config
}

fn case(seed: u64, family: Family) -> Case {
    let mut random = Random(seed);
    let config = config(&mut random, family);
    Case::of(random, config, 2)
}

/// A model on the emulated device, and the device's counters.
fn emulated_model(
    config: &ModelConfig,
    weights: &Weights,
    dtype: Dtype,
) -> (Model, Arc<Mutex<Counters>>) {
    let (device, counters) = Emulated::open();
    let backend = cuda::open_on(device, dtype);
    let model = Model::new(config.clone(), weights.clone(), backend).unwrap();
    (model, counters)
}

fn on_both(config: &ModelConfig, weights: &Weights, dtype: Dtype) -> [Model; 2] {
    let backend = cpu::open_with(Some(1), dtype, None).unwrap();
    let on_cpu = Model::new(config.clone(), weights.clone(), backend).unwrap();
    [emulated_model(config, weights, dtype).0, on_cpu]
}

fn emulated(dtype: Dtype) -> Result<Box<dyn Backend>, EngineError> {
    Ok(cuda::open_on(Emulated::open().0, dtype))
}

#[test]
fn every_operation_and_every_family_agrees_with_the_cpu() {
    for dtype in [Dtype::F32, Dtype::Bf16] {
        let results = with_cpu(&emulated, dtype, Extent::Full).unwrap();
        // The code for true sizes, at small ones.
        let sizes = true_sizes(&emulated, dtype, Extent::Reduced).unwrap();
        let counts = (results.len(), sizes.compared.len(), &sizes.left_out);
        assert!(
            counts.0 > 60 && counts.1 > 38 && counts.2.is_empty(),
            "{counts:?}"
        );
        let mut results = results.iter().chain(&sizes.compared);
        let different = results.find(|of| !of.agrees());
        assert_eq!(different, None, "{dtype:?}");
    }
}

#[test]
fn recordings_repetitions_and_phases_hold_on_the_emulated_device() {
    for dtype in [Dtype::F32, Dtype::Bf16] {
        for claim in [recordings, repeated_step, phases] {
            let claim = claim(&emulated, dtype, Extent::Reduced).unwrap();
            assert!(claim.is_ok(), "{dtype:?}: {claim:?}");
        }
    }
}

#[test]
fn a_device_that_records_nothing_does_not_pass_the_check_of_recordings() {
    let open = |dtype| {
        let (device, counters) = Emulated::open();
        counters.lock().unwrap().unrecordable = Some("record");
        Ok(cuda::open_on(device, dtype))
    };
    let claim = recordings(&open, Dtype::F32, Extent::Reduced).unwrap();
    assert_eq!(
        claim.unwrap_err(),
        "no decoding pass was recorded and replayed"
    );
}

#[test]
fn the_order_in_which_threads_run_changes_no_bit() {
    let others = "other families than Gemma 3, and wider heads, with threads in falling order";
    let extent = if long::long(others) {
        Extent::Full
    } else {
        Extent::Reduced
    };
    for dtype in [Dtype::F32, Dtype::Bf16] {
        let [rising, falling] = [false, true].map(|falling| {
            let device = || Emulated::other(MULTIPROCESSORS, falling);
            let open = |dtype| Ok(cuda::open_on(device(), dtype));
            with_cpu(&open, dtype, extent).unwrap()
        });
        assert_eq!(rising, falling);
    }
}

#[test]
fn logits_of_chunks_and_single_tokens_match_the_cpus() {
    for (seed, family) in (200..).zip(Family::ALL) {
        let mut random = Random(seed);
        let config = config(&mut random, family);
        let weights = weights(&mut random, &config);
        let tokens = random.tokens(90, config.vocab_size);
        let logits = |mut model: Model| {
            model.reserve_kv(100).unwrap();
            let mut done = 0;
            let mut logits = Vec::new();
            for n in [70, 1, 17, 1, 1] {
                let rows: Vec<usize> = (0..n).collect();
                let batch = batch(&tokens[..done + n], done, 7);
                logits.extend(model.logits(&batch, &rows).unwrap());
                done += n;
            }
            logits
        };
        let [gpu, cpu] = on_both(&config, &weights, Dtype::F32).map(&logits);
        let difference = largest_difference(&gpu, &cpu);
        assert!(difference < 1e-4, "{family:?}: {difference}");
        let [gpu, cpu] = on_both(&config, &weights, Dtype::Bf16).map(&logits);
        let distance = distance(&gpu, &cpu);
        assert!((1e-5..3e-2).contains(&distance), "{family:?}: {distance}");
    }
}

fn update(model: &mut Model, case: &Case) -> StepReport {
    support::update(model, &case.groups, &case.dlogp, &ADAMW).unwrap()
}

/// Numbers are loaded four at a time only where they begin at a multiple of 16 bytes. With 70,001 numbers in 1,024 parts, parts of equal length would begin anywhere.
#[test]
fn the_parts_of_a_sum_of_squares_begin_at_multiples_of_16_bytes() {
    const N: usize = 70_001;
    const PARTS: usize = 1024;
    let mut random = Random(205);
    let values: Vec<f32> = (0..N)
        .map(|_| random.below(2001) as f32 / 1000.0 - 1.0)
        .collect();
    let (mut device, _) = Emulated::open();
    let x = device.allocate(4 * N).unwrap();
    let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
    device.write(x, &bytes).unwrap();
    let partial = device.allocate(8 * PARTS).unwrap();
    let launch = Launch {
        grid: [PARTS as u32, 1, 1],
        block: 256,
        shared: 0,
    };
    let args = [Arg::Address(partial), Arg::Address(x), Arg::Size(N as u64)];
    device.launch("sum_squares", launch, &args).unwrap();
    let mut sums = vec![0; 8 * PARTS];
    device.read(partial, &mut sums).unwrap();
    // ⌈70,001 / 1,024⌉ is 69; the next multiple of 4 is 72.
    let mut parts = values.chunks(72);
    for sum in sums.as_chunks().0 {
        let part = parts.next().unwrap_or_default().iter();
        let exact: f64 = part.map(|x| f64::from(*x).powi(2)).sum();
        let sum = f64::from_le_bytes(*sum);
        assert!((sum - exact).abs() <= 1e-6 * exact, "{sum} {exact}");
    }
}

#[test]
fn a_step_matches_the_cpus() {
    for (seed, family) in (210..).zip(Family::ALL.into_iter().cycle()).take(8) {
        let c = case(seed, family);
        let [mut gpu, mut cpu] = on_both(&c.config, &c.weights, Dtype::F32);
        let [ours, theirs] = [&mut gpu, &mut cpu].map(|model| update(model, &c));
        for (ours, theirs) in ours.stats.iter().zip(&theirs.stats) {
            assert!(largest_difference(&ours.logp, &theirs.logp) < 1e-4);
            assert!(largest_difference(&ours.entropy, &theirs.entropy) < 1e-4);
        }
        assert!((ours.grad_norm / theirs.grad_norm - 1.0).abs() < 1e-5);
        for kind in [
            TensorKind::Gradient,
            TensorKind::Moment1,
            TensorKind::Moment2,
        ] {
            let pairs = gather(&mut gpu, kind)
                .into_iter()
                .zip(gather(&mut cpu, kind));
            for ((name, ours), (_, theirs)) in pairs {
                let distance = distance(&ours, &theirs);
                assert!(distance < 1e-4, "seed {seed}, {name}: {distance}");
            }
        }
    }
}

#[test]
fn gradients_in_any_number_of_parts_are_the_same_up_to_rounding() {
    for (seed, family) in [(220, Family::Qwen3), (221, Family::Gemma3)] {
        let c = case(seed, family);
        for (dtype, most) in [(Dtype::F32, 1e-6), (Dtype::Bf16, 1e-2)] {
            // Mostly one part of each sum, a few, and more than there is work for.
            let gradients = [1, 5, 60].map(|multiprocessors| {
                let device = Emulated::other(multiprocessors, false);
                let backend = cuda::open_on(device, dtype);
                let mut model = Model::new(c.config.clone(), c.weights.clone(), backend).unwrap();
                update(&mut model, &c);
                let gradient = gather(&mut model, TensorKind::Gradient);
                gradient.into_values().flatten().collect::<Vec<f32>>()
            });
            for parts in &gradients[1..] {
                let distance = distance(parts, &gradients[0]);
                assert!(distance > 0.0, "{family:?}: the sums are in the same order");
                assert!(distance < most, "{family:?} in {dtype:?}: {distance}");
            }
        }
    }
}

#[test]
fn adapters_train_as_on_the_cpu() {
    let c = case(240, Family::Qwen3);
    let [gpu, cpu] = on_both(&c.config, &c.weights, Dtype::F32).map(|mut model| {
        let lora = Lora {
            rank: 5,
            alpha: 10.0,
            seed: 3,
        };
        model.attach(lora).unwrap();
        update(&mut model, &c);
        // From the second update on, `A` has a gradient too.
        update(&mut model, &c);
        gather(&mut model, TensorKind::Gradient)
    });
    for ((name, ours), (_, theirs)) in gpu.iter().zip(&cpu) {
        let distance = distance(ours, theirs);
        assert!(distance < 2e-3, "{name}: {distance}");
    }
}

/// Samples of two prompts, decoded step by step: `count` sequences that share their prompts' rows.
fn generate(model: &mut Model, random: &mut Random, count: usize, steps: u64) -> Vec<Sampled> {
    let vocabulary = model.config().vocab_size;
    model.reserve_kv(100 + count * 20).unwrap();
    let prompts = [random.tokens(40, vocabulary), random.tokens(9, vocabulary)];
    let at = [0, 50];
    for (prompt, row) in prompts.iter().zip(at) {
        model.infer(&batch(prompt, 0, row), &[], &[]).unwrap();
    }
    let mut last: Vec<u32> = random.tokens(count, vocabulary);
    let mut kv: Vec<KvRows> = (0..count)
        .map(|i| vec![(at[i % 2], prompts[i % 2].len())].into())
        .collect();
    let mut sampled = Vec::new();
    for step in 0..steps {
        let mut together = Batch::default();
        let mut draws = Vec::new();
        for (i, token) in last.iter().enumerate() {
            let row = 100 + 20 * i + step as usize;
            let mut kv = std::mem::take(&mut kv[i]);
            kv.append(row, 1);
            together.add(&[*token], kv);
            let cut = i % 3 == 2;
            let sampling = Sampling {
                temperature: if i % 5 == 4 { 0.0 } else { 0.8 },
                top_k: if cut { 20 } else { 0 },
                top_p: if cut { 0.9 } else { 1.0 },
                min_p: if cut { 0.01 } else { 0.0 },
            };
            // In some steps some sequences are without some tokens, the one before among them.
            let suppressed: Vec<u32> = match (step + i as u64) % 4 {
                0 => (0..vocabulary as u32 / 3).chain([*token]).collect(),
                1 => vec![*token, u32::MAX],
                _ => Vec::new(),
            };
            draws.push(Draw {
                suppressed: suppressed.into(),
                ..Draw::new(sampling, i as u64, step)
            });
        }
        let rows: Vec<usize> = (0..count).collect();
        let tokens = model.infer(&together, &rows, &draws).unwrap();
        for (sampled, draw) in tokens.iter().zip(&draws) {
            assert!(!draw.suppressed.contains(&sampled.token));
        }
        last = tokens.iter().map(|sampled| sampled.token).collect();
        sampled.extend(tokens);
        kv = together.spans.into_iter().map(|span| span.kv).collect();
    }
    sampled
}

#[test]
fn phases_share_the_same_memory() {
    let c = case(270, Family::Llama);
    let (mut model, counters) = emulated_model(&c.config, &c.weights, Dtype::Bf16);
    let phases = |model: &mut Model| {
        generate(model, &mut Random(1), 5, 4);
        model.release_kv();
        update(model, &c);
        score(model, &c.groups, 1.0).unwrap();
    };
    phases(&mut model);
    phases(&mut model);
    let state = || {
        let counters = counters.lock().unwrap();
        (counters.allocated, counters.calls["allocate"])
    };
    let before = state();
    for _ in 0..20 {
        phases(&mut model);
    }
    assert_eq!(state(), before);
}

#[test]
fn keys_and_values_return_to_memory_that_training_has_used() {
    let c = case(271, Family::Llama);
    let (mut model, counters) = emulated_model(&c.config, &c.weights, Dtype::Bf16);
    let rows = (32 << 20) / model.kv_row_bytes() as usize;
    let mut phase = || {
        model.release_training();
        model.reserve_kv(rows).unwrap();
        model.logits(&batch(&[1, 2, 3], 0, 0), &[2]).unwrap();
        model.release_kv();
        update(&mut model, &c);
        counters.lock().unwrap().allocated
    };
    let first = phase();
    for _ in 0..3 {
        assert!(phase() < first + (8 << 20));
    }
}

#[test]
fn a_failing_device_causes_an_error_and_not_a_panic() {
    let mut c = case(280, Family::Gemma3);
    c.groups.truncate(1);
    c.dlogp.truncate(c.groups[0].completions.len());
    let work = |failing| {
        let (device, counters) = Emulated::open();
        counters.lock().unwrap().failing = failing;
        let backend = cuda::open_on(device, Dtype::Bf16);
        let mut model = Model::new(c.config.clone(), c.weights.clone(), backend)?;
        support::update(&mut model, &c.groups, &c.dlogp, &ADAMW)?;
        model.tensor("model.norm.weight", TensorKind::Weight)
    };
    assert!(work(None).is_ok());
    for kind in [
        "allocate", "write", "read", "zero", "copy", "launch", "multiply",
    ] {
        // The first call of a kind, and one in the middle of the work.
        for after in [0, 2] {
            let error = work(Some((kind, after))).unwrap_err();
            support::assert_says(&error, &[kind, "fails"]);
        }
    }
}

#[test]
fn head_widths_that_the_kernels_do_not_support_are_rejected() {
    let mut random = Random(290);
    let mut config = config(&mut random, Family::Llama);
    config.head_dim = 20;
    let weights = weights(&mut random, &config);
    let (mut model, _) = emulated_model(&config, &weights, Dtype::F32);
    model.reserve_kv(8).unwrap();
    let error = model.logits(&batch(&[1, 2, 3], 0, 0), &[2]).unwrap_err();
    assert!(error.to_string().contains("heads of 20"), "{error}");
}
