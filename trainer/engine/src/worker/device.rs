//! Detects and opens the requested device.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::{fs, io};

use crate::api::{Device, EngineOptions};
use crate::backend::Bf16Kernel;
use crate::backend::cuda::emulated::{self, Emulated};
use crate::backend::cuda::kernel_cache;
use crate::backend::cuda::ledger;
pub(super) use crate::backend::cuda::ledger::{DeviceModel, Ledger};
use crate::backend::cuda::probe::{self, Absent, GpuInfo};
use crate::backend::cuda::profile;
pub(super) use crate::backend::cuda::profile::Profile;
use crate::backend::{Backend, Dtype, cpu, cuda};
use crate::error::EngineError;
use crate::parity::device::{Compared, Extent, with_cpu};

impl Device {
    /// The first GPU, or why no GPU can be used.
    ///
    /// # Errors
    /// [`Absent`] distinguishes a missing GPU from one that exists but cannot be used.
    pub fn gpu() -> Result<GpuInfo, Absent> {
        probe::find(0)
    }

    /// The device that the engine would compute on: `cpu`, or a GPU's number and name. The device is not opened.
    ///
    /// # Errors
    /// [`EngineError::Device`] if the device does not exist or cannot be used.
    pub fn available(self) -> Result<String, EngineError> {
        Ok(match self.resolved()? {
            Found::Cpu => "cpu".to_owned(),
            Found::Gpu(gpu) => format!("cuda:{}, {}", gpu.ordinal, gpu.name),
            Found::Emulated => "cuda:emulated, this machine's processor".to_owned(),
        })
    }

    /// What this device refers to on this machine.
    fn resolved(self) -> Result<Found, EngineError> {
        match self {
            Device::Cpu => Ok(Found::Cpu),
            Device::Emulated => Ok(Found::Emulated),
            Device::Auto => Ok(first_gpu().map_or(Found::Cpu, Found::Gpu)),
            Device::Cuda(n) => match probe::find(n) {
                Ok(gpu) => Ok(Found::Gpu(gpu)),
                Err(absent) => Err(EngineError::Device(format!(
                    "cuda:{n} cannot be used: {absent}"
                ))),
            },
        }
    }

    /// The GPU's memory in bytes; `None` for the CPU and for a missing GPU.
    pub fn memory(self) -> Option<u64> {
        match self.resolved() {
            Ok(Found::Gpu(gpu)) => Some(gpu.memory),
            Ok(Found::Emulated) => Some(emulated::MEMORY),
            Ok(Found::Cpu) | Err(_) => None,
        }
    }

    /// Opens a backend on the device. `threads` and `kernel` are the CPU's. With `auto`, the CPU is used if the GPU cannot be opened or does not compute what the CPU does.
    ///
    /// # Errors
    /// [`EngineError::Device`] if the device does not exist or cannot be used, or if the processor does not have the kernel.
    pub fn open(
        self,
        threads: Option<usize>,
        dtype: Dtype,
        kernel: Option<Bf16Kernel>,
    ) -> Result<Box<dyn Backend>, EngineError> {
        let gpu = match self.resolved()? {
            Found::Gpu(gpu) => gpu,
            Found::Emulated => return Ok(cuda::open_on(Emulated::open().0, dtype)),
            Found::Cpu => return cpu::open_with(threads, dtype, kernel),
        };
        if self == Device::Auto && !first_gpu_agrees(&gpu, dtype) {
            return cpu::open_with(threads, dtype, kernel);
        }
        let driver = cuda::device::open(gpu.ordinal)?;
        tracing::info!("computing on {gpu}");
        Ok(cuda::open_on(driver, dtype))
    }

    /// Opens a GPU, and measures each of its calls.
    ///
    /// # Errors
    /// [`EngineError::Device`] if the device is not a GPU, or cannot be used.
    pub(super) fn open_profiled(
        self,
        dtype: Dtype,
    ) -> Result<(impl OpenBackend, Profile), EngineError> {
        let driver = match self.resolved()? {
            Found::Gpu(gpu) => cuda::device::open(gpu.ordinal)?,
            Found::Emulated => Emulated::open().0,
            Found::Cpu => return Err(EngineError::Device(
                "the kernels of a GPU are measured one by one, and the device is the CPU; give --device cuda:N".into(),
            )),
        };
        let profiled = profile::open(driver);
        let (driver, profile) = profiled.map_err(|fault| EngineError::Device(fault.to_string()))?;
        let backend = move || {
            let mut backend = cuda::open_on(driver, dtype);
            backend.set_recording(false);
            Ok(backend)
        };
        Ok((backend, profile))
    }
}

impl EngineOptions {
    pub(super) fn backend(&self) -> impl OpenBackend + use<> {
        let (device, threads) = (self.device, self.threads);
        let (dtype, kernel) = (self.dtype, self.kernel);
        move || device.open(threads, dtype, kernel)
    }
}

pub(super) trait OpenBackend:
    FnOnce() -> Result<Box<dyn Backend>, EngineError> + Send + 'static
{
}

impl<F: FnOnce() -> Result<Box<dyn Backend>, EngineError> + Send + 'static> OpenBackend for F {}

/// A device that computes nothing and counts the work in the ledger.
pub(super) fn counting(device: DeviceModel, dtype: Dtype) -> (impl OpenBackend, Ledger) {
    let (driver, ledger) = ledger::open(device);
    (move || Ok(cuda::open_on(driver, dtype)), ledger)
}

/// A device of this machine.
enum Found {
    Cpu,
    Gpu(GpuInfo),
    Emulated,
}

/// The first GPU. A GPU that exists but cannot be used is logged once per process.
fn first_gpu() -> Option<GpuInfo> {
    static FIRST_GPU: OnceLock<Option<GpuInfo>> = OnceLock::new();
    let gpu = FIRST_GPU.get_or_init(|| match Device::gpu() {
        Ok(gpu) => Some(gpu),
        Err(Absent::None(reason)) => {
            tracing::debug!("computing on the CPU: {reason}");
            None
        }
        Err(Absent::Unusable(reason)) => {
            tracing::warn!("computing on the CPU: {reason}");
            None
        }
    });
    gpu.clone()
}

/// Whether the first GPU, selected by `auto`, computes what the CPU does. A difference is logged once per process. Agreement is remembered in the cache folder.
fn first_gpu_agrees(gpu: &GpuInfo, dtype: Dtype) -> bool {
    static RESULTS: [OnceLock<bool>; 2] = [const { OnceLock::new() }; 2];
    let result = match dtype {
        Dtype::F32 => &RESULTS[0],
        Dtype::Bf16 => &RESULTS[1],
    };
    *result.get_or_init(|| {
        let file = agreement(gpu, dtype);
        if file.as_ref().is_ok_and(|file| file.exists()) {
            return true;
        }
        let compared = compare_with_cpu(gpu.ordinal, dtype);
        match &compared {
            // A folder that cannot be written only costs time at the next start.
            Ok(()) => drop(file.and_then(|file| fs::write(file, gpu.to_string()))),
            Err(reason) => {
                tracing::warn!("computing on the CPU, since {gpu} cannot be used: {reason}");
            }
        }
        compared.is_ok()
    })
}

/// This file exists if this program has found that this GPU computes what the CPU does, with its present driver and libraries. It is beside the kernels.
fn agreement(gpu: &GpuInfo, dtype: Dtype) -> io::Result<PathBuf> {
    let program = blake3::hash(&fs::read(std::env::current_exe()?)?);
    let key = kernel_cache::key((program, gpu.to_string(), gpu.id, dtype));
    let folder = kernel_cache::home().join("kernels");
    Ok(folder.join(format!("{}.agrees", &key[..16])))
}

fn compare_with_cpu(ordinal: usize, dtype: Dtype) -> Result<(), String> {
    let open = |dtype| Device::Cuda(ordinal).open(None, dtype, None);
    let comparisons = with_cpu(&open, dtype, Extent::Full).map_err(|error| error.to_string())?;
    match comparisons.iter().find(|compared| !compared.agrees()) {
        None => Ok(()),
        Some(Compared { what, distance, .. }) => Err(format!(
            "its {what} is {distance:.1e} from the CPU's; `rapid doctor --device cuda:{ordinal}` shows more"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_gpu_is_an_error_and_auto_is_then_the_cpu() {
        if let Ok(gpu) = Device::gpu() {
            eprintln!("SKIPPED: errors without a GPU: this machine has {gpu}");
            return;
        }
        let error = Device::Cuda(0).available().unwrap_err().to_string();
        assert!(error.starts_with("cuda:0 cannot be used: "), "{error}");
        let reasons = ["driver", "GPU", "NVRTC", "cuBLASLt"];
        assert!(reasons.iter().any(|r| error.contains(r)), "{error}");
        assert!(cuda::device::open(0).is_err());
        assert_eq!(Device::Auto.available().unwrap(), "cpu");
        let backend = Device::Auto.open(Some(1), Dtype::F32, None).unwrap();
        assert_eq!(backend.name(), cpu::open(Some(1)).unwrap().name());
    }
}
