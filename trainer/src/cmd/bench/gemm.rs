//! The rate of large matrix products, through the same operation that the model uses.

use std::time::{Duration, Instant};

use engine::Device;
use engine::backend::{Linear, Purpose, cpu};

use crate::cmd::args::DeviceArgs;

/// Long enough to be a steady rate.
const AT_LEAST: Duration = Duration::from_millis(500);
const SIZE: usize = 1024;

/// GFLOP/s in f32 at `rows = outputs = inputs = 1024`; `None` for a device other than the CPU.
pub(super) fn gflop_per_s(device: &DeviceArgs) -> anyhow::Result<Option<f64>> {
    let options = device.options()?;
    if !matches!(options.device, Device::Auto | Device::Cpu) {
        return Ok(None);
    }
    let mut backend = cpu::open(options.threads)?;
    let size = Linear {
        rows: SIZE,
        outputs: SIZE,
        inputs: SIZE,
    };
    let mut matrix = |purpose, value: f32| -> anyhow::Result<_> {
        let buffer = backend.allocate(purpose, SIZE * SIZE)?;
        // Ordinary numbers: zeros and denormals have speeds of their own.
        backend.upload(buffer, &vec![value; SIZE * SIZE]);
        Ok(buffer)
    };
    let (x, weight, y) = (
        matrix(Purpose::Activations, 0.5)?,
        matrix(Purpose::Weights, 0.25)?,
        matrix(Purpose::Activations, 0.0)?,
    );
    backend.linear(y, x, weight, size, false);
    let started = Instant::now();
    let mut products = 0u32;
    while started.elapsed() < AT_LEAST {
        backend.linear(y, x, weight, size, false);
        products += 1;
    }
    let flop = 2.0 * (SIZE as f64).powi(3) * f64::from(products);
    Ok(Some(flop / started.elapsed().as_secs_f64() / 1e9))
}
