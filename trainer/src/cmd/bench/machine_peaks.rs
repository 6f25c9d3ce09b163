//! The peak rates of the machine: those of arithmetic and of copies that bound the engine's work, measured without the engine's own products.
//!
//! On a CPU these are the widest multiply-add instruction on registers alone, and the standard library's copy; on a GPU, cuBLASLt's large products and the
//! driver's copy.

use std::time::{Duration, Instant};

use engine::backend::cpu::roofline;
use engine::backend::{Backend, Buf, Linear, Purpose};
use engine::sample::uniform;
use engine::{Device, EngineError, EngineOptions};

/// Minimum time of a measurement, long enough for a steady rate.
const MIN_TIME: Duration = Duration::from_millis(500);
/// Minimum time of a round, long enough that the wait for the device does not count.
const MIN_ROUND: Duration = Duration::from_millis(20);
/// Rows, outputs and inputs of a product, and numbers in one copy: more than any cache holds. An emulated GPU gets small ones, since its rates mean nothing.
const SIZES: (usize, usize) = (8192, 1 << 26);
const EMULATED_SIZES: (usize, usize) = (64, 1 << 16);

#[derive(Debug, Clone)]
pub(super) struct MachinePeaks {
    /// GFLOP/s of the numbers that the model multiplies.
    pub(super) gflop_per_s: f64,
    /// What was measured for them: an instruction, or a library.
    pub(super) by: String,
    /// GB/s of copies, read and written together.
    pub(super) gbyte_per_s: f64,
}

/// Measures the peak rates of the device. All of its buffers are released afterwards.
pub(super) fn measure(options: &EngineOptions) -> anyhow::Result<MachinePeaks> {
    if options.device.memory().is_none() {
        let all = || std::thread::available_parallelism().map_or(1, usize::from);
        let threads = options.threads.unwrap_or_else(all);
        let (gflop_per_s, instruction) = roofline::arithmetic(options.dtype, threads);
        return Ok(MachinePeaks {
            gflop_per_s,
            by: format!("this processor's {instruction}"),
            gbyte_per_s: roofline::copies(threads),
        });
    }
    let mut backend = options
        .device
        .open(options.threads, options.dtype, options.kernel)?;
    let backend = backend.as_mut();
    let (size, copied) = match options.device {
        Device::Emulated => EMULATED_SIZES,
        _ => SIZES,
    };
    let x = filled(backend, Purpose::Activations, size * size)?;
    let weight = filled(backend, Purpose::Weights, size * size)?;
    let y = filled(backend, Purpose::Activations, size * size)?;
    let product = Linear {
        rows: size,
        outputs: size,
        inputs: size,
    };
    let seconds = seconds_of(backend, y, |on| on.linear(y, x, weight, product, false))?;
    let gflop_per_s = 2.0 * (size as f64).powi(3) / seconds / 1e9;
    let from = filled(backend, Purpose::Sums, copied)?;
    let to = filled(backend, Purpose::Sums, copied)?;
    let seconds = seconds_of(backend, to, |on| on.copy(to, from))?;
    Ok(MachinePeaks {
        gflop_per_s,
        by: "cuBLASLt's large products".to_owned(),
        gbyte_per_s: (2 * copied * size_of::<f32>()) as f64 / seconds / 1e9,
    })
}

/// A buffer of ordinary numbers. Zeros and denormals are computed at other speeds, and a GPU multiplies equal numbers with less power and so faster.
fn filled(backend: &mut dyn Backend, purpose: Purpose, len: usize) -> Result<Buf, EngineError> {
    let buffer = backend.allocate(purpose, len)?;
    // In pieces, so that the copy on the machine does not raise the process's peak memory.
    let piece: Vec<f32> = (0..len.min(1 << 20) as u64)
        .map(|i| uniform(0, i) as f32 - 0.5)
        .collect();
    for start in (0..len).step_by(piece.len()) {
        let len = piece.len().min(len - start);
        backend.upload(buffer.at(start, len), &piece[..len]);
    }
    Ok(buffer)
}

/// The shortest time of an operation that writes `result`, in seconds, over half a second of repetitions. A device works asynchronously, so rounds of several
/// operations are timed, each until one number of the result has been downloaded.
fn seconds_of(
    backend: &mut dyn Backend,
    result: Buf,
    operation: impl Fn(&mut dyn Backend),
) -> Result<f64, EngineError> {
    let mut round = |count: u32| {
        let start = Instant::now();
        for _ in 0..count {
            operation(backend);
        }
        backend.download(result.at(0, 1), &mut [0.0])?;
        Ok::<Duration, EngineError>(start.elapsed())
    };
    let mut count = 1;
    round(count)?;
    while round(count)? < MIN_ROUND {
        count *= 2;
    }
    let (start, mut shortest) = (Instant::now(), f64::INFINITY);
    while start.elapsed() < MIN_TIME {
        shortest = shortest.min(round(count)?.as_secs_f64() / f64::from(count));
    }
    Ok(shortest)
}
