//! `[engine]`: what it computes with, and limits on what it takes of the machine.

use datasets::settings::{SettingError, settings, whole};
use engine::{Device, Dtype, EngineOptions};

use super::error::ConfigError;
use super::limits::{MAX_COUNTED, MAX_MIB, MAX_THREADS};

const DEFAULT: &str = ", or leave the key out for the default";

settings! {
    /// `[engine]`. `dtype` changes what the numbers are, `device` and `pack_tokens` how they are rounded; the others change none.
    pub struct Engine {
        /// auto (a GPU if one works), cpu, cuda or cuda:N; `--device` sets it too.
        pub device: String = "auto".into(),
        /// Threads of the cpu backend; one per processor that the process may use unless set.
        pub threads: Option<usize> => whole(1, MAX_THREADS as u64).or(DEFAULT),
        /// f32 or bf16: the numbers that matrix products multiply; `--dtype` sets it too.
        pub dtype: String = "f32".into(),
        /// Tokens of the cache of keys and values; what the work needs unless set.
        pub kv_tokens: Option<usize> => whole(1, MAX_COUNTED).or(DEFAULT),
        /// Most tokens of one training pack; 2048, or a prompt with its completion if that is longer, unless set.
        pub pack_tokens: Option<usize> => whole(1, MAX_COUNTED).or(DEFAULT),
        /// Most sequences generated at once; 256 unless set.
        pub max_sequences: Option<usize> => whole(1, 1_000_000).or(DEFAULT),
        /// MiB of activations that training keeps from the forward to the backward pass, instead of computing them again; a third of what weights, gradients and moments
        /// leave unless set.
        pub activations_mib: Option<u64> => whole(0, MAX_MIB).or(DEFAULT),
    }
}

impl Engine {
    /// The engine's options.
    ///
    /// # Errors
    /// Where `device` names no device, or `dtype` no type.
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

    /// What the two names stand for.
    pub(super) fn device_and_dtype(&self) -> Result<(Device, Dtype), SettingError> {
        let dtype = match self.dtype.as_str() {
            "f32" => Dtype::F32,
            "bf16" => Dtype::Bf16,
            other => {
                let reason = format!("`{other}` is no type of the engine's; give f32 or bf16");
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
            let reason = format!(
                "`{}` is no device; give auto, cpu, cuda or cuda:N",
                self.device
            );
            SettingError::value("engine.device", reason)
        })?;
        Ok((device, dtype))
    }
}
