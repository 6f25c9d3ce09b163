//! Costs of single calls, computed by hand.

use super::super::driver::Matrix;
use super::signature::Kind;
use super::*;
use crate::backend::Dtype;

fn words(device: &mut dyn Driver, values: &[u32]) -> Address {
    let bytes: Vec<u8> = values.iter().flat_map(|word| word.to_le_bytes()).collect();
    let address = device.allocate(bytes.len()).unwrap();
    device.write(address, &bytes).unwrap();
    address
}

fn launch(grid: [u32; 3]) -> Launch {
    Launch {
        grid,
        block: 128,
        shared: 0,
    }
}

/// Waits for the device, and returns what was counted since the last call.
fn counted(device: &mut dyn Driver, ledger: &Ledger) -> CountedWork {
    device.synchronise().unwrap();
    ledger.take()
}

#[test]
fn every_kernel_has_a_cost() {
    let (mut device, ledger) = open(H200);
    let device = device.as_mut();
    let [ones, zeros] = [1, 0].map(|word| words(device, &[word; 4096]));
    let signatures = signature::signatures(kernels::SOURCES);
    for kernel in kernels::NAMES {
        let (name, instance) = kernel.split_once('<').unwrap_or((kernel, ""));
        let Signature {
            parameters,
            template,
        } = &signatures[name];
        let given = instance.split(',').filter(|text| !text.is_empty()).count();
        assert!(given <= template.len(), "{kernel}: {template:?}");
        let args: Vec<Arg> = parameters
            .iter()
            .map(|parameter| match parameter.kind {
                // The first tile of the first span.
                Kind::Pointer(_) if parameter.name == "tiles" => Arg::Address(zeros),
                Kind::Pointer(_) => Arg::Address(ones),
                Kind::Word => Arg::Word(1),
                Kind::Size => Arg::Size(1),
                Kind::Float => Arg::Float(1.0),
            })
            .collect();
        device.launch(kernel, launch([1, 1, 1]), &args).unwrap();
        let total = counted(device, &ledger).total();
        assert_eq!(total.launches, 1);
        assert!(total.reads + total.writes > 0, "{kernel}");
        let too_few = device.launch(kernel, launch([1, 1, 1]), &args[1..]);
        assert!(too_few.is_err());
    }
}

#[test]
fn a_norm_reads_its_rows_once() {
    let (mut device, ledger) = open(H200);
    let args = [
        Arg::Address(256),
        Arg::Size(896),
        Arg::Address(512),
        Arg::Size(896),
        Arg::Address(768),
        Arg::Word(1024),
        Arg::Word(1),
        Arg::Word(896),
        Arg::Float(1e-6),
        Arg::Float(0.0),
        Arg::Word(0),
    ];
    let kernel = "rms_norm<bf16, float>";
    device.launch(kernel, launch([128, 1, 1]), &args).unwrap();
    let work = counted(device.as_mut(), &ledger);
    let line = &work.lines[&("rms_norm", kernel.to_owned())];
    let n = 1024 * 896;
    assert_eq!((line.reads, line.writes), (4 * n + 4 * 896, 2 * n));
    assert_eq!((line.blocks, line.flops), (128, 5 * n));
}

/// Arguments that follow the outputs of attention's kernels: 14 heads of queries and 2 of keys, 64 wide.
fn shape() -> [Arg; 6] {
    [
        Arg::Word(14),
        Arg::Word(2),
        Arg::Word(64),
        Arg::Float(0.125),
        Arg::Float(0.0),
        Arg::Word(0),
    ]
}

#[test]
fn decoding_reads_the_keys_of_each_sequence_once() {
    let (mut device, ledger) = open(H200);
    let device = device.as_mut();
    // A sequence of 100 keys, one of 50, and a padding token.
    let spans = words(device, &[0, 1, 100, 0, 1, 1, 1, 50, 1, 2, 0, 0, 0, 0, 0]);
    let address = Arg::Address(256);
    let stride = Arg::Size(256);
    let mut args = vec![address, address, stride, address, stride, address, stride];
    args.extend([Arg::Address(spans), address]);
    args.extend(shape());
    args.push(Arg::Word(1));
    let kernel = "attention_decode<bf16, 64>";
    device.launch(kernel, launch([3, 2, 1]), &args).unwrap();
    let line = counted(device, &ledger).operation("attention");
    let kv = 150 * 2 * 64;
    let q = 2 * 14 * 64;
    let indices = 4 * 15 + 8 * 3;
    assert_eq!(line.reads, 2 * (2 * kv + q) + indices);
    assert_eq!(line.writes, 4 * 2 * 14 * 66);
    assert_eq!((line.flops, line.blocks), (4 * 150 * 14 * 64, 6));
}

#[test]
fn a_causal_gradient_computes_half_of_all_pairs_in_whole_tiles() {
    let (mut device, ledger) = open(H200);
    let device = device.as_mut();
    let spans = words(device, &[0, 256, 256, 0, 1]);
    let visits: Vec<u32> = (0..4).flat_map(|i| [0, 64 * i]).collect();
    let visits = words(device, &visits);
    let (address, stride) = (Arg::Address(256), Arg::Size(896));
    let mut gradient = |parts: u32| {
        let piece = |i: u32, part: u32| {
            let (partial, pieces) = (64 * (parts * i + part), if part == 0 { parts } else { 0 });
            [64 * i, 64, i, 1, part, parts, partial, pieces]
        };
        let pieces = (0..4).flat_map(|i| (0..parts).flat_map(move |part| piece(i, part)));
        let key_tiles = words(device, &pieces.collect::<Vec<u32>>());
        let mut args = vec![address, stride, address, stride, address];
        args.extend([address, stride, address, address]);
        args.extend([address, stride, address, stride, address, stride]);
        args.extend([spans, key_tiles, visits].map(Arg::Address));
        args.extend(shape());
        let kernel = "attention_backward_kv<bf16, 64>";
        let grid = [4 * parts, 2, 1];
        device.launch(kernel, launch(grid), &args).unwrap();
        let mut args = vec![address, stride, address, stride, address];
        args.extend([Arg::Address(key_tiles), Arg::Word(128)]);
        if parts > 1 {
            device
                .launch("attention_add_parts", launch([4 * parts, 16, 1]), &args)
                .unwrap();
        }
        counted(device, &ledger).lines
    };
    let lines = gradient(1);
    let of = |kernel: &str| ("attention_backward", kernel.to_owned());
    let line = &lines[&of("attention_backward_kv<bf16, 64>")];
    // The tiles' keys are attended to by 256, 192, 128 and 64 queries.
    let pairs = 64 * (256 + 192 + 128 + 64);
    assert_eq!(line.flops, 8 * 64 * 14 * pairs);
    let (q, kv) = (256 * 14 * 64, 256 * 2 * 64);
    assert_eq!(
        line.reads,
        2 * 2 * q + 2 * 4 * 256 * 14 + 2 * 2 * kv + 2 * 4 * kv
    );
    assert_eq!(line.writes, 2 * 4 * kv);
    // The first tile's block has 256 of 160 queries on average, on one of the multiprocessors.
    let longest = (8 * 64 * 7 * 64 * 256) as f64 / (H200.mma / 132.0);
    assert!((line.seconds / (longest + H200.launch) - 1.0).abs() < 1e-9);
    // Of its 7 · 8 tiles of queries each of 8 parts has 7. Each part's sums are written and read once.
    let parted = gradient(8);
    let parts = &parted[&of("attention_backward_kv<bf16, 64>")];
    assert_eq!((parts.flops, parts.blocks), (line.flops, 8 * line.blocks));
    assert_eq!(parts.reads, line.reads - 2 * 4 * kv);
    assert_eq!(parts.writes, 8 * 2 * 4 * kv);
    assert!((parts.seconds / (longest / 8.0 + H200.launch) - 1.0).abs() < 1e-9);
    let added = &parted[&of("attention_add_parts")];
    assert_eq!(added.reads, (8 + 1) * 2 * 4 * kv + 4 * 8 * 8 * 4);
    assert_eq!((added.writes, added.blocks), (2 * 4 * kv, 8 * 64));
}

#[test]
fn a_product_counts_its_three_matrices() {
    let (mut device, ledger) = open(H200);
    let matrix = |format, columns, transposed| Matrix {
        address: 256,
        format,
        columns,
        transposed,
    };
    let product = Product {
        a: matrix(Dtype::Bf16, 896, false),
        b: matrix(Dtype::Bf16, 896, true),
        y: matrix(Dtype::F32, 9728, false),
        rows: 1024,
        columns: 9728,
        inner: 896,
        accumulate: true,
    };
    device.multiply(&product).unwrap();
    let work = counted(device.as_mut(), &ledger);
    let line = &work.lines[&("linear", "9728 × 896".to_owned())];
    assert_eq!(line.reads, 2 * (1024 + 9728) * 896 + 4 * 1024 * 9728);
    assert_eq!(line.writes, 4 * 1024 * 9728);
    assert_eq!((line.flops, line.blocks), (2 * 1024 * 9728 * 896, 8 * 76));
}

#[test]
fn a_recording_counts_when_it_is_replayed_with_the_indices_of_then() {
    let (mut device, ledger) = open(H200);
    let device = device.as_mut();
    let rows = words(device, &[5, u32::MAX]);
    let (address, stride) = (Arg::Address(256), Arg::Size(128));
    let args = [
        address,
        stride,
        address,
        stride,
        Arg::Address(rows),
        Arg::Word(2),
        Arg::Word(64),
    ];
    device.begin_recording().unwrap();
    let kernel = "store<bf16, bf16>";
    device.launch(kernel, launch([2, 1, 1]), &args).unwrap();
    let recording = device.end_recording().unwrap();
    assert_eq!(counted(device, &ledger).total().launches, 0);
    device.replay(recording).unwrap();
    assert_eq!(counted(device, &ledger).total().writes, 2 * 64);
    device.write(rows + 4, &7_u32.to_le_bytes()).unwrap();
    device.replay(recording).unwrap();
    let work = counted(device, &ledger);
    assert_eq!(work.total().writes, 2 * 2 * 64);
    assert_eq!((work.total().recorded, work.host.replays), (1, 1));
    device.drop_recordings();
    assert!(device.replay(recording).is_err());
}

#[test]
fn memory_that_the_device_does_not_have_is_an_error() {
    let (mut device, _) = open(H100);
    let address = device.allocate(79_000_000_000).unwrap();
    let error = device.allocate(2_000_000_000);
    assert!(matches!(error, Err(Fault::Memory { .. })));
    device.free(address);
    assert!(device.allocate(2_000_000_000).is_ok());
    assert_eq!(device.memory().unwrap(), (78_000_000_000, 80_000_000_000));
}
