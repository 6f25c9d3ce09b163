//! The work of true configurations on a GPU, counted without one: what a decoding step and a training step launch, read and convert.
//!
//! The counts are held exactly, so that a change of any of them is seen. Where a count is above its target, a comment states the target.

use engine::backend::cuda::ledger::{CountedWork, DeviceModel, H200, Launches, Ledger, Line};
use engine::backend::{Dtype, cuda};
use engine::batch::{Batch, Group, KvRows};
use engine::config::{published, published_names};
use engine::load::Zeros;
use engine::model::Model;
use engine::sample::{Draw, Sampling};
use engine::train::step;
use engine::{AdamW, Engine, EngineOptions, Objective, TokenStats};

const QWEN: &str = "qwen2.5-0.5b";
/// Its layers, the weights of these, and the size of its vocabulary.
const LAYERS: u64 = 24;
const WEIGHTS: u64 = 4 * LAYERS;
const VOCABULARY: usize = 151_936;
/// Multiprocessors of the device.
const MULTIPROCESSORS: u64 = H200.multiprocessors as u64;
/// Keys of each sequence in a decoding step.
const CONTEXT: usize = 1024;

/// A model of a published configuration in bf16, and the ledger of its device.
fn planned(name: &str, device: DeviceModel) -> (Model, Ledger) {
    let (driver, ledger) = cuda::ledger::open(device);
    let backend = cuda::open_on(driver, Dtype::Bf16);
    let model = Model::new(published(name).unwrap(), Zeros, backend).unwrap();
    (model, ledger)
}

/// A pass that adds one token to each of some sequences. They then have `context` keys, in blocks of 16 rows that are not adjacent.
fn decode(model: &mut Model, sequences: &mut [KvRows], context: usize) {
    let count = sequences.len();
    let row =
        |sequence: usize, position: usize| 16 * (position / 16 * count + sequence) + position % 16;
    let mut batch = Batch::default();
    for (i, rows) in sequences.iter_mut().enumerate() {
        let mut kv = std::mem::take(rows);
        for position in kv.len()..context {
            kv.append(row(i, position), 1);
        }
        batch.add(&[i as u32], kv);
    }
    let draw = |seed| Draw::new(Sampling::default(), seed, 0);
    let draws: Vec<Draw> = (0..count as u64).map(draw).collect();
    let rows: Vec<usize> = (0..count).collect();
    model.infer(&batch, &rows, &draws).unwrap();
    for (rows, span) in sequences.iter_mut().zip(batch.spans) {
        *rows = span.kv;
    }
}

/// A replayed decoding step with `context` keys for each sequence.
fn decoded(name: &str, sequences: usize, context: usize) -> CountedWork {
    let (mut model, ledger) = planned(name, H200);
    model.reserve_kv(sequences * (context + 16)).unwrap();
    let mut rows = vec![KvRows::default(); sequences];
    // The first pass allocates, the second one is recorded, and the third one replayed.
    let mut pass = |context| {
        decode(&mut model, &mut rows, context);
        ledger.take()
    };
    pass(context - 2);
    pass(context - 1);
    let work = pass(context);
    assert_eq!(work.longest_step, work.seconds());
    work
}

/// The published models that one GPU can train.
fn trainable() -> impl Iterator<Item = &'static str> {
    published_names().filter(|name| *name != "qwen2.5-7b")
}

#[test]
fn the_meter_counts_the_memory_that_the_device_has_allocated() {
    let (driver, ledger) = cuda::ledger::open(H200);
    let backend = cuda::open_on(driver, Dtype::Bf16);
    let meter = backend.memory_meter().unwrap();
    let mut model = Model::new(published(QWEN).unwrap(), Zeros, backend).unwrap();
    // Weights and their bf16 copies are allocated one by one; the small buffers beside them have a slab of 2 MiB.
    let loaded = meter.take_peak();
    let slack = ledger.peak_bytes() - loaded;
    assert!(slack <= 2 << 20, "{slack} bytes");
    update(&mut model, &ledger, &[512, 512]);
    let trained = meter.take_peak();
    // Gradient and moments are 12 bytes per weight. Slabs are rounded up, and retained.
    assert!(trained > loaded + 12 * model.config().parameters());
    let device = ledger.peak_bytes();
    assert!(
        (device * 9 / 10..=device).contains(&trained),
        "{trained} of {device} bytes"
    );
    model.release_training();
    let [_, rest] = [(); 2].map(|()| meter.take_peak());
    assert!(loaded <= rest && rest < trained, "{rest} bytes");
}

/// Completions of these numbers of tokens, each with a prompt of its own.
fn groups(sequences: &[usize]) -> Vec<Group> {
    let group = |(number, tokens): (u32, &usize)| {
        let completion = (0..*tokens as u32).map(|i| (i * 7 + number) % 32_000);
        Group {
            prompt: vec![number].into(),
            completions: vec![completion.collect()],
        }
    };
    (0..).zip(sequences).map(group).collect()
}

fn objective() -> Objective {
    Box::new(|stats: &[TokenStats]| {
        let ones = stats.iter().map(|stats| vec![1.0; stats.logp.len()]);
        Ok(ones.collect())
    })
}

/// A training step on sequences of these numbers of tokens.
fn update(model: &mut Model, ledger: &Ledger, sequences: &[usize]) -> CountedWork {
    let (groups, adamw) = (groups(sequences), AdamW::new(1e-6));
    step(model, &groups, 1.0, objective(), &adamw).unwrap();
    ledger.take()
}

/// A training step after the first one, in packs of at most `pack_tokens`.
fn trained(name: &str, pack_tokens: usize, sequences: &[usize]) -> CountedWork {
    let (mut model, ledger) = planned(name, H200);
    model.set_pack_tokens(pack_tokens);
    update(&mut model, &ledger, sequences);
    update(&mut model, &ledger, sequences)
}

/// How often a step reads each weight of the layers, and the head's, by each operation. The products with a weight have a line of their own.
fn weight_reads(work: &CountedWork, operation: &str) -> [u64; 2] {
    let vocabulary = VOCABULARY.to_string();
    let mut reads = [0; 2];
    for ((name, weight), of) in &work.lines {
        if *name == operation {
            reads[usize::from(weight.contains(&vocabulary))] += of.launches;
        }
    }
    assert_eq!(reads[0] % WEIGHTS, 0, "{operation}");
    [reads[0] / WEIGHTS, reads[1]]
}

#[test]
fn a_decoding_step_replays_12_kernels_a_layer() {
    for sequences in [256, 1024] {
        let work = decoded(QWEN, sequences, CONTEXT);
        assert_eq!(weight_reads(&work, "linear"), [1, 1], "{sequences}");
        // Beside the layers: rotations and embedding; and the head's norm, product and draws.
        let total = work.total();
        assert_eq!(total.launches, 12 * LAYERS + 2 + 3);
        assert_eq!(total.recorded, total.launches);
        for (operation, launches) in [
            ("linear", WEIGHTS + 1),
            ("rms_norm", 2 * LAYERS + 1),
            ("attention", 2 * LAYERS),
            ("store", 2 * LAYERS),
            ("rope", LAYERS),
            ("gate", LAYERS),
            ("convert", 0),
            ("copy", 0),
        ] {
            assert_eq!(work.operation(operation).launches, launches, "{operation}");
        }
        let host = work.host;
        assert_eq!((host.replays, host.allocations, host.waits), (1, 0, 0));
        // The batch and the draws go to the device, and the sampled tokens come back: 12 bytes each.
        assert_eq!((host.writes, host.reads), (2, 1));
        assert_eq!(host.read_bytes, 12 * sequences as u64);
    }
}

#[test]
fn a_decoding_step_sends_72_bytes_a_sequence_and_12_more_for_a_new_block() {
    for (sequences, context) in [(256, 1040), (1024, 1040), (64, 16 * 1041)] {
        let work = decoded(QWEN, sequences, context);
        // 3 words of a sequence's token, 5 of its span, 2 of its tile and 8 of its draw.
        assert_eq!(work.host.written_bytes, 80 * sequences as u64);
        // The step's token is the first one in a block of 16. Its segment is added to the table before the recording is replayed.
        let work = decoded(QWEN, sequences, context + 1);
        assert_eq!(work.host.written_bytes, 92 * sequences as u64);
        assert_eq!(work.total().launches, work.total().recorded + 1);
        assert_eq!(work.operation("set_segments").launches, 1);
        let host = work.host;
        assert_eq!((host.writes, host.allocations, host.waits), (2, 0, 0));
    }
}

#[test]
fn a_training_step_reads_each_weight_twice_a_pack() {
    let work = trained(QWEN, 2048, &[2048; 4]);
    // Activations are saved, so nothing is recomputed. The head's logits are computed again in the backward pass.
    assert_eq!(weight_reads(&work, "linear"), [4, 4 * 2]);
    assert_eq!(weight_reads(&work, "linear_backward_input"), [4, 4]);
    // Nothing is converted twice: the gradients in f32 of the results of three of a layer's four products, and of the logits.
    assert_eq!(work.operation("convert").launches, 4 * (3 * LAYERS + 1));
    let host = work.host;
    assert_eq!(host.allocations, 0);
    // Log-probabilities and entropies of each pack, and the gradient's norm; then the end of the update.
    assert_eq!((host.reads, host.waits), (4 * 2 + 1, 1));
}

#[test]
fn slices_of_more_weights_than_32_bits_count_are_added_up() {
    let config = published("qwen2.5-7b").unwrap();
    assert!(config.parameters() > u32::MAX.into());
    let device = DeviceModel {
        memory: 1 << 40,
        ..H200
    };
    let options = EngineOptions {
        dtype: Dtype::Bf16,
        slices: Some(2),
        ..EngineOptions::default()
    };
    let (engine, _) = Engine::planned(config, device, options).unwrap();
    engine
        .step(groups(&[16, 16]), 1.0, objective(), AdamW::new(1e-6))
        .unwrap();
}

#[test]
fn slow_kernels_of_training_have_two_blocks_a_multiprocessor() {
    for name in trainable() {
        let work = trained(name, 2048, &[2048; 2]);
        // The time that launching takes does not depend on the number of blocks.
        let running = |of: &Launches| of.seconds - of.launches as f64 * H200.launch;
        let slow = work
            .lines
            .iter()
            .filter(|(_, of)| running(of) > 0.01 * work.seconds());
        // The library chooses the blocks of products, and the driver those of copies and fills.
        let ours = slow.filter(|((operation, kernel), _)| {
            !operation.starts_with("linear") && !kernel.is_empty()
        });
        let few = ours.filter(|(_, of)| of.min_blocks < 2 * MULTIPROCESSORS);
        let few: Vec<(&str, u64)> = few
            .map(|((_, kernel), of)| (kernel.as_str(), of.min_blocks))
            .collect();
        // Gemma's 4 heads have a block for each of 32 or 33 tiles of queries. The target is an empty list.
        let expected: &[(&str, u64)] = match name {
            "gemma3-270m" | "gemma3-1b" => &[
                ("attention_prefill<bf16, 256>", 128),
                ("attention_backward_q<bf16, 256>", 128),
            ],
            _ => &[],
        };
        assert_eq!(few, expected, "{name}");
        // The gradients of keys and values are divided until the device is full.
        let mut lines = work.lines.iter();
        let of_keys =
            |((_, kernel), _): &(&Line, &Launches)| kernel.starts_with("attention_backward_kv");
        let (_, of) = lines.find(of_keys).unwrap();
        assert!(of.min_blocks >= 4 * MULTIPROCESSORS, "{name}");
    }
}

#[test]
fn what_short_groups_share_is_computed_once_and_delays_no_block() {
    let seconds = |alike: u32| {
        let (mut model, ledger) = planned(QWEN, H200);
        let group = |number: u32| Group {
            prompt: (0..160)
                .map(|i| if i < alike { i } else { 1000 + number })
                .collect(),
            completions: (0..8).map(|i| vec![2000 + 8 * number + i; 24]).collect(),
        };
        let groups: Vec<Group> = (0..64).map(group).collect();
        let mut update = || step(&mut model, &groups, 1.0, objective(), &AdamW::new(1e-6)).unwrap();
        update();
        ledger.take();
        update();
        ledger.take().seconds()
    };
    // 13,952 tokens in one pack instead of 22,016 in two.
    let [tree, alone] = [128, 0].map(seconds);
    assert!(tree < 0.75 * alone, "{tree} s, {alone} s");
}

#[test]
fn attention_of_default_packs_has_a_block_for_each_tile_and_head() {
    let work = trained("gemma3-1b", 16 * 1024, &[2048; 8]);
    for kernel in [
        "attention_prefill<bf16, 256>",
        "attention_backward_q<bf16, 256>",
    ] {
        let mut lines = work.lines.iter();
        let (_, of) = lines.find(|((_, name), _)| name == kernel).unwrap();
        assert!(of.min_blocks >= 8 * 128, "{kernel}: {}", of.min_blocks);
    }
}

#[test]
fn the_products_of_every_published_model_are_those_of_its_matrices() {
    for name in trainable() {
        let config = published(name).unwrap();
        let shapes = config.tensor_shapes();
        // The embedding is the head, too.
        let matrices = shapes.iter().filter(|(_, shape)| shape.len() == 2);
        let weights: usize = matrices.map(|(_, shape)| shape[0] * shape[1]).sum();
        let (sequences, tokens) = (64, 2048);
        let decoded = decoded(name, sequences, CONTEXT);
        let of_one = 2 * weights as u64;
        let linear = decoded.operation("linear").flops;
        assert_eq!(linear, of_one * sequences as u64, "{name}");
        let trained = trained(name, 2048, &[2048]);
        let of = |operation| trained.operation(operation).flops;
        // A sequence's last token is predicted and not an input, and its first one is not predicted.
        let head = 2 * (config.vocab_size * config.hidden_size) as u64;
        let expected = of_one * tokens;
        assert_eq!(of("linear_backward_input"), expected, "{name}");
        assert_eq!(of("linear_backward_weight"), expected, "{name}");
        // The head is computed again in the backward pass.
        assert_eq!(of("linear"), expected + head * tokens, "{name}");
    }
}

#[test]
fn a_decoding_step_computes_at_most_an_eighth_more_than_its_sequences() {
    let of = |sequences| decoded(QWEN, sequences, 64).operation("linear").flops;
    let of_one = of(1);
    for (sequences, computed) in [(64, 64), (520, 576), (1025, 1152), (1500, 1536)] {
        assert_eq!(of(sequences), computed * of_one, "{sequences}");
    }
}

#[test]
fn decoding_attention_reads_every_key_and_value_once() {
    let work = decoded(QWEN, 1024, CONTEXT);
    let mut lines = work.lines.iter();
    let decode = lines.find(|((_, kernel), _)| kernel.starts_with("attention_decode"));
    let (_, decode) = decode.unwrap();
    // Keys and values of 2 heads of 64 numbers in bf16.
    let cached = LAYERS * 1024 * CONTEXT as u64 * 2 * 2 * 64 * 2;
    assert!(decode.reads >= cached && decode.reads < cached + cached / 50);
}
