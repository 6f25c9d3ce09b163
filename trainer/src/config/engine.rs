//! `[engine]`: the device, and limits on the engine's use of the machine.

use datasets::settings::{SettingError, settings, whole};
use engine::{Device, Dtype, EngineOptions};

use super::error::ConfigError;
use super::limits::{MAX_COUNT, MAX_MIB, MAX_THREADS};

const DEFAULT: &str = ", or leave the key out for the default";

settings! {
    /// `[engine]`. `dtype` changes the numbers, and `device` and `pack_tokens` change their rounding; the other keys change no results.
    pub struct Engine {
        /// auto (a GPU if one works), cpu, cuda or cuda:N; `--device` sets it too.
        pub device: String = "auto".into(),
        /// Threads of the CPU backend; unless set, one per processor that the process may use.
        pub threads: Option<usize> => whole(1, MAX_THREADS as u64).hint(DEFAULT),
        /// f32 or bf16: the number type of matrix products; `--dtype` sets it too.
        pub dtype: String = "f32".into(),
        /// Tokens of the KV cache; unless set, as many as the work needs.
        pub kv_tokens: Option<usize> => whole(1, MAX_COUNT).hint(DEFAULT),
        /// Maximum tokens of one training pack; unless set, 2048, or a prompt with its completion if that is longer.
        pub pack_tokens: Option<usize> => whole(1, MAX_COUNT).hint(DEFAULT),
        /// Maximum sequences generated at once; unless set, 256.
        pub max_sequences: Option<usize> => whole(1, 1_000_000).hint(DEFAULT),
        /// MiB of activations that training keeps from the forward to the backward pass, instead of recomputing them; unless set, a third of the memory that weights,
        /// gradients and moments leave.
        pub activations_mib: Option<u64> => whole(0, MAX_MIB).hint(DEFAULT),
    }
}

impl Engine {
    /// The engine's options.
    ///
    /// # Errors
    /// If `device` is not a device, or `dtype` not a number type.
    pub fn options(&self) -> Result<EngineOptions, ConfigError> {
        let (device, dtype) = self.device_and_dtype()?;
        Ok(EngineOptions {
            device,
            threads: self.threads,
            dtype,
            kv_tokens: self.kv_tokens,
            pack_tokens: self.pack_tokens,
            max_sequences: self.max_sequences,
            activation_bytes: self.activations_mib.map(|mib| mib.saturating_mul(1 << 20)),
            lora: None,
        })
    }

    /// The values of `device` and `dtype`.
    pub(super) fn device_and_dtype(&self) -> Result<(Device, Dtype), SettingError> {
        let dtype = match self.dtype.as_str() {
            "f32" => Dtype::F32,
            "bf16" => Dtype::Bf16,
            other => {
                let reason =
                    format!("`{other}` is not a number type of the engine; give f32 or bf16");
                return Err(SettingError::value("engine.dtype", reason));
            }
        };
        let device = match self.device.as_str() {
            "auto" => Some(Device::Auto),
            "cpu" => Some(Device::Cpu),
            "cuda" => Some(Device::Cuda(0)),
            other => other
                .strip_prefix("cuda:")
                .and_then(|number| number.parse().ok())
                .map(Device::Cuda),
        };
        let device = device.ok_or_else(|| {
            let is_no_device = match self.device.as_str() {
                "cuda:plan" => "counts work and computes nothing, so only `rapid bench` accepts it",
                _ => "is not a device",
            };
            let reason = format!(
                "`{}` {is_no_device}; give auto, cpu, cuda or cuda:N",
                self.device
            );
            SettingError::value("engine.device", reason)
        })?;
        Ok((device, dtype))
    }
}
