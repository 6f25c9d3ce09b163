//! The model beside measurements of other programs' kernels on an H100 that were published. What is predicted is this backend's kernel for the same work.
//!
//! `PERFORMANCE.md` contains the rows and their sources.

use super::*;

/// Tokens, and the width of all heads together, in the measurements of FlashAttention.
const TOKENS: u64 = 16 * 1024;
const WIDTH: u64 = 2048;

/// A published measurement.
struct Measured {
    /// The kernel and its work, as in the document's table.
    work: String,
    seconds: f64,
    /// The model's seconds.
    predicted: f64,
}

impl Measured {
    fn ratio(&self) -> f64 {
        self.seconds / self.predicted
    }

    fn row(&self) -> String {
        let [measured, predicted] = [self.seconds, self.predicted].map(|seconds| 1e6 * seconds);
        let ratio = self.ratio();
        format!(
            "| {} | {measured:.1} | {predicted:.1} | {ratio:.2} |",
            self.work
        )
    }
}

/// The model's seconds for what is launched on an H100, in a recording or by itself.
fn predicted(in_recording: bool, run: impl FnOnce(&mut dyn Driver)) -> f64 {
    let (mut device, ledger) = open(H100);
    let device = device.as_mut();
    if in_recording {
        device.record().unwrap();
    }
    run(device);
    if in_recording {
        let recording = device.recorded().unwrap();
        device.replay(recording).unwrap();
    }
    counted(device, &ledger).total().seconds
}

/// Attention's keys and values: addresses and strides.
fn keys(width: u64) -> [Arg; 4] {
    let (address, stride) = (Arg::Address(256), Arg::Size(width));
    [address, stride, address, stride]
}

fn attention_shape(heads: u64, width: u64) -> [Arg; 6] {
    let [_, _, _, scale, soft_cap, window] = shape();
    let [heads, width] = [heads, width].map(|n| Arg::Word(n as u32));
    [heads, heads, width, scale, soft_cap, window]
}

/// FlashAttention-2's causal forward pass; its rate counts half of all pairs.
fn flash_attention_2(width: u64, length: u64, tflops: f64) -> Measured {
    let heads = WIDTH / width;
    let sequences = TOKENS / length;
    let flops = 4 * length * length / 2 * width * heads * sequences;
    let run = |device: &mut dyn Driver| {
        let span = |number| [number * length, length, length, number, 1];
        let spans: Vec<u32> = (0..sequences)
            .flat_map(span)
            .map(|word| word as u32)
            .collect();
        let tiles: Vec<u32> = (0..sequences)
            .flat_map(|number| (0..length).step_by(64).map(move |first| [number, first]))
            .flatten()
            .map(|word| word as u32)
            .collect();
        let blocks = tiles.len() as u32 / 2;
        let [spans, tiles] = [spans, tiles].map(|list| Arg::Address(words(device, &list)));
        let (address, stride) = (Arg::Address(256), Arg::Size(WIDTH));
        let mut args = vec![address, stride, address, address, stride];
        args.extend(keys(WIDTH));
        args.extend([spans, address, tiles]);
        args.extend(attention_shape(heads, width));
        let kernel = format!("attention_prefill<bf16, {width}>");
        let launch = launch([blocks, heads as u32, 1]);
        device.launch(&kernel, launch, &args).unwrap();
    };
    Measured {
        work: format!("FlashAttention-2, {sequences} × {length} tokens, heads of {width} [1]"),
        seconds: flops as f64 / (1e12 * tflops),
        predicted: predicted(false, run),
    }
}

/// cuBLAS's product of some rows with a weight of 12,288 × 5,376 in bf16.
fn cublas(rows: usize, tflops: f64) -> Measured {
    let (columns, inner) = (12_288, 5376);
    let matrix = |columns, transposed| Matrix {
        address: 256,
        format: Format::Bf16,
        columns,
        transposed,
    };
    let product = Product {
        a: matrix(inner, false),
        b: matrix(inner, true),
        y: matrix(columns, false),
        rows,
        columns,
        inner,
        accumulate: false,
    };
    Measured {
        work: format!("cuBLAS, {rows} × 5,376 by 5,376 × 12,288 [2]"),
        seconds: (2 * rows * columns * inner) as f64 / (1e12 * tflops),
        predicted: predicted(true, |device| device.multiply(&product).unwrap()),
    }
}

/// Liger's RMS norm of rows in bf16.
fn liger(rows: u32, width: u32, microseconds: f64) -> Measured {
    let address = Arg::Address(256);
    let stride = Arg::Size(width.into());
    let mut args = vec![address, stride, address, stride, address];
    args.extend([rows, 1, width].map(Arg::Word));
    args.extend([Arg::Float(1e-6), Arg::Float(0.0), Arg::Word(0)]);
    let kernel = "rms_norm<bf16, bf16>";
    let launch = launch([rows / 4, 1, 1]);
    Measured {
        work: format!("Liger's RMS norm, {rows} × {width} [3]"),
        seconds: 1e-6 * microseconds,
        predicted: predicted(false, |device| {
            device.launch(kernel, launch, &args).unwrap();
        }),
    }
}

/// FlashAttention-3's decoding of 16 sequences with 32 heads of 128 from a paged cache.
fn flash_attention_3(context: u32, microseconds: f64) -> Measured {
    let (sequences, heads, width) = (16, 32, 128);
    let run = |device: &mut dyn Driver| {
        let spans: Vec<u32> = (0..sequences)
            .flat_map(|number| [number, 1, context, 0, context / 8])
            .collect();
        let spans = Arg::Address(words(device, &spans));
        let (address, stride) = (Arg::Address(256), Arg::Size(heads * width));
        let mut args = vec![address, address, stride];
        args.extend(keys(heads * width));
        args.extend([spans, address]);
        args.extend(attention_shape(heads, width));
        args.push(Arg::Word(2));
        let kernel = "attention_decode<bf16, 128>";
        let launch = launch([sequences, heads as u32, 2]);
        device.launch(kernel, launch, &args).unwrap();
    };
    Measured {
        work: format!("FlashAttention-3, a token for 16 sequences of {context} [4]"),
        seconds: 1e-6 * microseconds,
        predicted: predicted(true, run),
    }
}

#[test]
fn published_kernels_take_as_long_as_predicted_to_1_8_times_as_long() {
    let measured = [
        flash_attention_2(64, 512, 180.0),
        flash_attention_2(64, 2048, 262.0),
        flash_attention_2(64, 16_384, 299.0),
        flash_attention_2(128, 512, 191.0),
        flash_attention_2(128, 2048, 298.0),
        flash_attention_2(128, 16_384, 335.0),
        cublas(64, 182.588_263),
        cublas(128, 352.560_566),
        liger(2048, 4096, 18.944),
        liger(2048, 8192, 29.504),
        liger(8192, 4096, 51.968),
        flash_attention_3(2000, 292.0),
        flash_attention_3(4000, 567.2),
    ];
    let document = include_str!("../../../../../PERFORMANCE.md");
    for measured in measured {
        let row = measured.row();
        assert!((0.98..1.8).contains(&measured.ratio()), "{row}");
        assert!(
            document.contains(&row),
            "PERFORMANCE.md lacks the row {row}"
        );
    }
}
