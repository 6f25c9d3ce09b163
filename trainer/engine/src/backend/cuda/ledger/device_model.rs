//! The time of a kernel by the roofline model (Williams et al. 2009): the larger of the time for its memory traffic and that for its arithmetic, plus its
//! launch.
//!
//! It is a lower limit: no kernel is faster, and many are slower. It knows nothing about latencies inside a kernel, caches beyond the rule of
//! [`super::cost`], waves of blocks, the algorithms that cuBLASLt chooses, and the host's own work.

use super::cost::{Cost, Unit};

/// A device's rates.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct DeviceModel {
    /// Its name.
    pub name: &'static str,
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// Bytes of memory.
    pub memory: u64,
    /// Bytes per second that copies read and write together.
    pub bandwidth: f64,
    /// FLOP/s of the library's bf16 products with f32 sums.
    pub bf16_products: f64,
    /// FLOP/s of kernels that multiply with `mma.sync`, as attention does in bf16.
    pub mma: f64,
    /// FLOP/s in f32 without tensor cores, a multiply-add counted as two.
    pub f32: f64,
    /// Bytes per second between the host and the device, in one direction.
    pub host_bandwidth: f64,
    /// Seconds that a launch adds.
    pub launch: f64,
    /// Seconds that a launch inside a replayed recording adds.
    pub recorded_launch: f64,
}

/// NVIDIA's H200 (SXM), the device that `cuda:plan` predicts.
///
/// | number | source |
/// | --- | --- |
/// | multiprocessors, memory, `f32` | published: 132, 141 GB, 67 TFLOP/s |
/// | `bandwidth`, `bf16_products` | measured on an H200: 4.3 TB/s of copies (4.8 published), 790 TFLOP/s of large products (989 published) |
/// | `mma` | 35% of 989 TFLOP/s, what FlashAttention-2 reaches on an H100 of the same arithmetic (Shah et al. 2024, FlashAttention-3, abstract) |
/// | `host_bandwidth` | published: PCIe 5.0 with 16 lanes, 63 GB/s |
/// | `launch`, `recorded_launch` | assumed: 2.5 µs, and 1 µs inside a CUDA graph |
pub const H200: DeviceModel = DeviceModel {
    name: "H200",
    multiprocessors: 132,
    memory: 141_000_000_000,
    bandwidth: 4.3e12,
    bf16_products: 790e12,
    mma: 346e12,
    f32: 67e12,
    host_bandwidth: 63e9,
    launch: 2.5e-6,
    recorded_launch: 1e-6,
};

/// NVIDIA's H100 (SXM): the H200 with a smaller and slower memory, 80 GB and 3.35 TB/s published. Its copies are assumed to reach the same share of that, 90%,
/// as QuACK's softmax does (3.01 TB/s; Guo et al. 2025, Getting Memory-bound Kernels to Speed-of-Light).
pub const H100: DeviceModel = DeviceModel {
    name: "H100",
    memory: 80_000_000_000,
    bandwidth: 3.0e12,
    ..H200
};

impl DeviceModel {
    /// Seconds of a launch of `blocks` blocks. Fewer blocks than multiprocessors use that share of the device, and a block uses one multiprocessor.
    pub fn seconds(&self, cost: &Cost, blocks: u64, recorded: bool) -> f64 {
        let all = f64::from(self.multiprocessors);
        let share = (blocks as f64 / all).clamp(1.0 / all, 1.0);
        let rate = match cost.unit {
            Unit::Cores => self.f32,
            Unit::Mma => self.mma,
            Unit::Products => self.bf16_products,
        };
        let memory = (cost.reads + cost.writes) as f64 / (self.bandwidth * share);
        let arithmetic = cost.flops as f64 / (rate * share);
        let longest = cost.longest_block as f64 / (rate / all);
        let launch = if recorded {
            self.recorded_launch
        } else {
            self.launch
        };
        memory.max(arithmetic).max(longest) + launch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slower_of_memory_and_arithmetic_determines_the_time() {
        let near = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-9;
        let copy = Cost {
            reads: 2_150_000_000,
            writes: 2_150_000_000,
            ..Cost::default()
        };
        assert!(near(H200.seconds(&copy, 5000, true), 1e-3 + 1e-6));
        // A half of the multiprocessors, and a launch of its own.
        assert!(near(H200.seconds(&copy, 66, false), 2e-3 + 2.5e-6));
        let product = Cost {
            flops: 790_000_000_000,
            unit: Unit::Products,
            ..copy
        };
        assert!(near(H200.seconds(&product, 5000, true), 1e-3 + 1e-6));
        // One block has all of the arithmetic.
        let uneven = Cost {
            flops: 67_000_000_000,
            longest_block: 67_000_000_000,
            ..Cost::default()
        };
        assert!(near(H200.seconds(&uneven, 132, true), 0.132 + 1e-6));
    }
}
