//! `[engine]`: the device, and limits on the engine's use of the machine.

use datasets::settings::{SettingError, settings, whole};
use engine::backend::Bf16Kernel;
use engine::{Device, Dtype, EngineOptions};

use super::limits::{MAX_COUNT, MAX_MIB, MAX_THREADS};

const DEFAULT: &str = ", or leave the key out for the default";

settings! {
    /// `[engine]`. `dtype` changes the numbers, and `kernel`, `device` and `pack_tokens` change their rounding. On a CPU, the other keys change no results; on a GPU,
    /// whose library chooses how to compute a product by its size, those that change how many sequences are computed at once may change the rounding.
    pub struct Engine {
        /// auto (a GPU if one works), cpu, cuda or cuda:N; `--device` sets it too.
        pub device: String = "auto".into(),
        /// Threads of the CPU backend; unless set, one per processor that the process may use.
        pub threads: Option<usize> => whole(1, MAX_THREADS as u64).hint(DEFAULT),
        /// auto, f32 or bf16: the number type of matrix products; `--dtype` sets it too. auto is bf16 on a CPU with AMX, else f32, also on a GPU.
        pub dtype: String = "auto".into(),
        /// auto, amx, avx512-bf16 or fma: how a CPU multiplies bf16 numbers. Each rounds sums in its own way; fma does so on every processor alike. auto is the
        /// fastest that the processor has.
        pub kernel: String = "auto".into(),
        /// Tokens of the KV cache; unless set, as many as the work needs.
        pub kv_tokens: Option<usize> => whole(1, MAX_COUNT).hint(DEFAULT),
        /// Maximum tokens of one training pack; unless set, 2048, and on a GPU as many up to 16384 as their activations fit into its memory, or a prompt with its
        /// completion if that is longer.
        pub pack_tokens: Option<usize> => whole(1, MAX_COUNT).hint(DEFAULT),
        /// Maximum sequences generated at once; unless set, 256.
        pub max_sequences: Option<usize> => whole(1, 1_000_000).hint(DEFAULT),
        /// MiB of activations that training keeps from the forward to the backward pass, instead of recomputing them; unless set, a third of the memory that weights,
        /// gradients and moments leave, up to 6144, and on a GPU half of it.
        pub activations_mib: Option<u64> => whole(0, MAX_MIB).hint(DEFAULT),
    }
}

impl Engine {
    /// The engine's options.
    ///
    /// # Errors
    /// If `device` is not a device, `dtype` not a number type, or `kernel` not a kernel.
    pub fn options(&self) -> Result<EngineOptions, SettingError> {
        let (device, dtype, kernel) = self.names()?;
        Ok(EngineOptions {
            device,
            threads: self.threads,
            dtype: dtype.unwrap_or_else(|| auto_dtype(device)),
            kernel,
            kv_tokens: self.kv_tokens,
            pack_tokens: self.pack_tokens,
            max_sequences: self.max_sequences,
            activation_bytes: self.activations_mib.map(|mib| mib.saturating_mul(1 << 20)),
            ..EngineOptions::default()
        })
    }

    /// The same settings with the number type and the kernel that this machine takes for auto, as a run saves them. Products of f32 numbers, and a GPU's, have
    /// no kernel to choose. Settings with a wrong name are unchanged.
    #[must_use]
    pub fn resolved(mut self) -> Self {
        let Ok(options) = self.options() else {
            return self;
        };
        self.dtype = options.dtype.name().to_owned();
        if options.dtype == Dtype::Bf16 && options.device.memory().is_none() {
            let kernel = options.kernel.unwrap_or_else(Bf16Kernel::detect);
            self.kernel = kernel.name().to_owned();
        }
        self
    }

    /// How matrix products are computed, and why so.
    ///
    /// # Errors
    /// As [`Engine::options`].
    pub fn arithmetic(&self) -> Result<String, SettingError> {
        let options = self.options()?;
        let why =
            |setting: &str, auto: &'static str| if setting == "auto" { auto } else { "as set" };
        let amx = if Bf16Kernel::detect() == Bf16Kernel::Amx {
            "auto: the processor has AMX"
        } else {
            "auto: the processor has no AMX"
        };
        let dtype = options.dtype.name();
        Ok(match (options.device.memory(), options.dtype) {
            (Some(_), _) => format!("{dtype} ({}) on the GPU", why(&self.dtype, "auto")),
            (None, Dtype::F32) => format!("f32 ({}) by fused multiply-adds", why(&self.dtype, amx)),
            (None, Dtype::Bf16) => format!(
                "bf16 ({}) by {} ({})",
                why(&self.dtype, amx),
                options
                    .kernel
                    .unwrap_or_else(Bf16Kernel::detect)
                    .instruction(),
                why(&self.kernel, "auto: the processor's fastest")
            ),
        })
    }

    /// The values of `device`, `dtype` and `kernel`; `None` stands for auto in the latter two.
    pub(super) fn names(
        &self,
    ) -> Result<(Device, Option<Dtype>, Option<Bf16Kernel>), SettingError> {
        let dtype = match self.dtype.as_str() {
            "auto" => None,
            "f32" => Some(Dtype::F32),
            "bf16" => Some(Dtype::Bf16),
            other => {
                let reason =
                    format!("`{other}` is not a number type of the engine; give auto, f32 or bf16");
                return Err(SettingError::value("engine.dtype", reason));
            }
        };
        let kernel = match self.kernel.as_str() {
            "auto" => None,
            name => {
                let kernel = Bf16Kernel::ALL
                    .into_iter()
                    .find(|kernel| kernel.name() == name);
                Some(kernel.ok_or_else(|| {
                    let reason =
                        format!("`{name}` is not a kernel; give auto, amx, avx512-bf16 or fma");
                    SettingError::value("engine.kernel", reason)
                })?)
            }
        };
        let device = match self.device.as_str() {
            "auto" => Some(Device::Auto),
            "cpu" => Some(Device::Cpu),
            "cuda" => Some(Device::Cuda(0)),
            "cuda:emulated" => Some(Device::Emulated),
            other => other
                .strip_prefix("cuda:")
                .and_then(|number| number.parse().ok())
                .map(Device::Cuda),
        };
        let device = device.ok_or_else(|| {
            let is_no_device = match self.device.as_str() {
                plan if plan.starts_with("cuda:plan") => {
                    "counts work and computes nothing, so only `rapid bench` accepts it"
                }
                _ => "is not a device",
            };
            let reason = format!(
                "`{}` {is_no_device}; give auto, cpu, cuda or cuda:N",
                self.device
            );
            SettingError::value("engine.device", reason)
        })?;
        Ok((device, dtype, kernel))
    }
}

/// The number type that auto stands for. It follows from what the processor reports, never from a measurement.
fn auto_dtype(device: Device) -> Dtype {
    if Bf16Kernel::detect() == Bf16Kernel::Amx && device.memory().is_none() {
        Dtype::Bf16
    } else {
        Dtype::F32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arithmetic_of_products_is_described_with_its_reason() {
        let described = |dtype: &str, kernel: &str| {
            let engine = Engine {
                device: "cpu".into(),
                dtype: dtype.into(),
                kernel: kernel.into(),
                ..Engine::default()
            };
            engine.arithmetic().map_err(|error| error.to_string())
        };
        assert_eq!(
            described("bf16", "fma").unwrap(),
            "bf16 (as set) by fused multiply-adds of f32 (as set)"
        );
        assert_eq!(
            described("f32", "auto").unwrap(),
            "f32 (as set) by fused multiply-adds"
        );
        let auto = described("auto", "auto").unwrap();
        let expected = match Bf16Kernel::detect() {
            Bf16Kernel::Amx => {
                "bf16 (auto: the processor has AMX) by AMX's tdpbf16ps (auto: the processor's fastest)"
            }
            Bf16Kernel::Avx512Bf16 | Bf16Kernel::Fma => {
                "f32 (auto: the processor has no AMX) by fused multiply-adds"
            }
        };
        assert_eq!(auto, expected);
        let error = described("bf16", "sse").unwrap_err();
        assert!(
            error.contains("give auto, amx, avx512-bf16 or fma"),
            "{error}"
        );
    }
}
