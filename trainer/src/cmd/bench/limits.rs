//! What the machine allows: the rates of large matrix products and of copies, through the same operations that the model uses.

use std::time::{Duration, Instant};

use engine::EngineError;
use engine::backend::{Backend, Buf, Linear, Purpose, cpu};

use crate::cmd::args::DeviceArgs;

/// Long enough to be a steady rate.
const AT_LEAST: Duration = Duration::from_millis(500);
/// Rows, outputs and inputs of a product.
const SIZE: usize = 2048;
/// Numbers that are copied at a time: more than any cache holds.
const COPIED: usize = 1 << 26;

/// Rates of one device.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// GFLOP/s of matrix products of the numbers that the model multiplies.
    pub(super) gflop_per_s: f64,
    /// GB/s, read and written together.
    pub(super) gbyte_per_s: f64,
}

/// Measured on the CPU; `None` for another device.
pub(super) fn measure(device: &DeviceArgs) -> anyhow::Result<Option<Limits>> {
    let options = device.options()?;
    if options.device.available()? != "cpu" {
        return Ok(None);
    }
    let mut backend = cpu::open_with(options.threads, options.dtype)?;
    let size = Linear {
        rows: SIZE,
        outputs: SIZE,
        inputs: SIZE,
    };
    let x = filled(backend.as_mut(), Purpose::Activations, SIZE * SIZE)?;
    let weight = filled(backend.as_mut(), Purpose::Weights, SIZE * SIZE)?;
    let y = filled(backend.as_mut(), Purpose::Activations, SIZE * SIZE)?;
    let seconds = seconds_of(|| backend.linear(y, x, weight, size, false));
    let gflop_per_s = 2.0 * (SIZE as f64).powi(3) / seconds / 1e9;
    let from = filled(backend.as_mut(), Purpose::Activations, COPIED)?;
    let to = filled(backend.as_mut(), Purpose::Activations, COPIED)?;
    let seconds = seconds_of(|| backend.copy(to, from));
    Ok(Some(Limits {
        gflop_per_s,
        gbyte_per_s: (2 * COPIED * size_of::<f32>()) as f64 / seconds / 1e9,
    }))
}

/// A buffer of ordinary numbers: zeros and denormals have speeds of their own.
fn filled(backend: &mut dyn Backend, purpose: Purpose, len: usize) -> Result<Buf, EngineError> {
    let buffer = backend.allocate(purpose, len)?;
    backend.upload(buffer, &vec![0.25; len]);
    Ok(buffer)
}

/// The least time of an operation, over half a second of them.
fn seconds_of(mut operation: impl FnMut()) -> f64 {
    operation();
    let (began, mut least) = (Instant::now(), f64::INFINITY);
    while began.elapsed() < AT_LEAST {
        let one = Instant::now();
        operation();
        least = least.min(one.elapsed().as_secs_f64());
    }
    least
}
