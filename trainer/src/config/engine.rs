//! `[engine]`: the device, and limits on the engine's use of the machine.

use std::str::FromStr;

use datasets::settings::{Setting, ValueKind, one_of, settings, whole};
use engine::backend::Bf16Kernel;
use engine::{Dtype, EngineOptions};
use serde::{Deserialize, Serialize};

use super::limits::{MAX_COUNT, MAX_MIB, MAX_THREADS};

const DEFAULT: &str = ", or leave the key out for the default";

settings! {
    /// `[engine]`. `dtype` changes the numbers, and `kernel`, `device` and `pack_tokens` change their rounding. On a CPU, the other keys change no results. On a
    /// GPU, the library chooses how to compute a product by its size, so keys that change how many sequences are computed at once may change the rounding.
    pub struct Engine {
        /// auto (a GPU if one works), cpu, cuda or cuda:N; `--device` sets it too.
        pub device: Device,
        /// Threads of the CPU backend; unless set, one per processor that the process may use.
        pub threads: Option<usize> => whole(1, MAX_THREADS as u64).hint(DEFAULT),
        /// The number type of matrix products; `--dtype` sets it too. auto is bf16 on a CPU with AMX, else f32, also on a GPU.
        pub dtype: String = "auto".into() => one_of(&["auto", "f32", "bf16"]),
        /// How a CPU multiplies bf16 numbers. Each kernel rounds sums in its own way; fma does so on every processor alike. auto is the fastest that the processor has.
        pub kernel: String = "auto".into() => one_of(&["auto", "amx", "avx512-bf16", "fma"]),
        /// Tokens of the KV cache; unless set, as many as the work needs.
        pub kv_tokens: Option<usize> => whole(1, MAX_COUNT).hint(DEFAULT),
        /// Maximum tokens of one training pack. Unless set, 2048, and on a GPU as many up to 16384 as their activations fit into its memory, or a prompt with its
        /// completion if that is longer.
        pub pack_tokens: Option<usize> => whole(1, MAX_COUNT).hint(DEFAULT),
        /// Maximum sequences generated at once; unless set, 256.
        pub max_sequences: Option<usize> => whole(1, 1_000_000).hint(DEFAULT),
        /// MiB of activations that training keeps from the forward to the backward pass, instead of recomputing them. Unless set, a third of the memory that
        /// weights, gradients and moments leave, up to 6144; on a GPU half of it.
        pub activations_mib: Option<u64> => whole(0, MAX_MIB).hint(DEFAULT),
    }
}

impl Engine {
    /// The engine's options.
    pub fn options(&self) -> EngineOptions {
        let Device(device) = self.device;
        let mut kernels = Bf16Kernel::ALL.into_iter();
        EngineOptions {
            device,
            threads: self.threads,
            dtype: match self.dtype.as_str() {
                "f32" => Dtype::F32,
                "bf16" => Dtype::Bf16,
                _ => auto_dtype(device),
            },
            kernel: kernels.find(|kernel| kernel.name() == self.kernel),
            kv_tokens: self.kv_tokens,
            pack_tokens: self.pack_tokens,
            max_sequences: self.max_sequences,
            activation_bytes: self.activations_mib.map(|mib| mib.saturating_mul(1 << 20)),
            ..EngineOptions::default()
        }
    }

    /// The same settings with the number type and the kernel that this machine takes for auto, as a run saves them. Products of f32 numbers, and a GPU's, have
    /// no kernel to choose.
    pub fn resolved(mut self) -> Self {
        let options = self.options();
        self.dtype = options.dtype.name().to_owned();
        if let Some(kernel) = kernel(&options) {
            self.kernel = kernel.name().to_owned();
        }
        self
    }

    /// How matrix products are computed.
    pub fn arithmetic(&self) -> String {
        let options = self.options();
        match kernel(&options) {
            Some(kernel) => format!("bf16 by {}", kernel.instruction()),
            None if options.device.memory().is_some() => {
                format!("{} on the GPU", options.dtype.name())
            }
            None => "f32 by fused multiply-adds".to_owned(),
        }
    }
}

/// Where to compute, in a recipe and as `--device`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Device(pub engine::Device);

impl FromStr for Device {
    type Err = String;

    /// The error says what is wrong, and names the devices.
    fn from_str(text: &str) -> Result<Self, String> {
        let reason = match text {
            "auto" => return Ok(Self(engine::Device::Auto)),
            "cpu" => return Ok(Self(engine::Device::Cpu)),
            "cuda" => return Ok(Self(engine::Device::Cuda(0))),
            "cuda:emulated" => return Ok(Self(engine::Device::Emulated)),
            plan if plan.starts_with("cuda:plan") => {
                "counts work and computes nothing, so only `rapid bench` accepts it"
            }
            other => match other.strip_prefix("cuda:").map(str::parse) {
                Some(Ok(number)) => return Ok(Self(engine::Device::Cuda(number))),
                _ => "is not a device",
            },
        };
        Err(format!("`{text}` {reason}; give auto, cpu, cuda or cuda:N"))
    }
}

impl TryFrom<String> for Device {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Device> for String {
    fn from(Device(device): Device) -> Self {
        match device {
            engine::Device::Auto => "auto".to_owned(),
            engine::Device::Cpu => "cpu".to_owned(),
            engine::Device::Cuda(0) => "cuda".to_owned(),
            engine::Device::Cuda(number) => format!("cuda:{number}"),
            engine::Device::Emulated => "cuda:emulated".to_owned(),
        }
    }
}

impl Setting for Device {
    const KIND: ValueKind = ValueKind::Parsed(|text| text.parse::<Self>().map(drop));
}

/// How a CPU multiplies bf16 numbers, if these options have it do so.
fn kernel(options: &EngineOptions) -> Option<Bf16Kernel> {
    let on_cpu = options.dtype == Dtype::Bf16 && options.device.memory().is_none();
    on_cpu.then(|| options.kernel.unwrap_or_else(Bf16Kernel::detect))
}

/// The number type that auto stands for. It follows from what the processor reports, never from a measurement.
fn auto_dtype(device: engine::Device) -> Dtype {
    if Bf16Kernel::detect() == Bf16Kernel::Amx && device.memory().is_none() {
        Dtype::Bf16
    } else {
        Dtype::F32
    }
}
