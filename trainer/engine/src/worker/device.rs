//! Finds and opens the device that was asked for.

use std::sync::OnceLock;

use crate::api::Device;
use crate::backend::cuda::probe::{self, Absent, Found};
use crate::backend::{Backend, Dtype, ElementBytes, cpu, cuda};
use crate::error::EngineError;
use crate::parity::device::{Compared, of_gpu};

impl Device {
    /// The first GPU, or why there is none.
    ///
    /// # Errors
    /// [`Absent`] says whether something can be done about it.
    pub fn gpu() -> Result<Found, Absent> {
        probe::find(0)
    }

    /// What the engine would compute with where this is asked for: `cpu`, or a GPU's number and name. It is not opened for this.
    ///
    /// # Errors
    /// [`EngineError::Device`] where there is no such device, or it cannot be used.
    pub fn available(self) -> Result<String, EngineError> {
        Ok(match self.found()? {
            Some(gpu) => format!("cuda:{}, {}", gpu.ordinal, gpu.name),
            None => "cpu".to_owned(),
        })
    }

    /// The GPU that is meant; `None` for the CPU.
    fn found(self) -> Result<Option<Found>, EngineError> {
        match self {
            Device::Cpu => Ok(None),
            Device::Auto => Ok(first()),
            Device::Cuda(n) => match probe::find(n) {
                Ok(gpu) => Ok(Some(gpu)),
                Err(absent) => Err(EngineError::Device(format!(
                    "cuda:{n} cannot be used: {absent}"
                ))),
            },
        }
    }

    /// Bytes that elements take on it. The CPU's for a GPU that is not there.
    pub(crate) fn element_bytes(self, dtype: Dtype) -> ElementBytes {
        match self.found() {
            Ok(Some(_)) => cuda::element_bytes(dtype),
            Ok(None) | Err(_) => cpu::element_bytes(dtype),
        }
    }

    /// Bytes of the memory of the GPU that is meant; `None` for the CPU, and for a GPU that is not there.
    pub fn memory(self) -> Option<u64> {
        let found = self.found().ok().flatten()?;
        Some(found.memory)
    }

    /// A backend on the device. Where a GPU that `auto` found cannot be opened, or does not compute what the CPU does, it is the CPU's.
    ///
    /// # Errors
    /// [`EngineError::Device`] where there is no such device, or it cannot be used.
    pub fn open(
        self,
        threads: Option<usize>,
        dtype: Dtype,
    ) -> Result<Box<dyn Backend>, EngineError> {
        let Some(gpu) = self.found()? else {
            return cpu::open_with(threads, dtype);
        };
        if self == Device::Auto && !agrees(&gpu, dtype) {
            return cpu::open_with(threads, dtype);
        }
        let driver = cuda::device::open(gpu.ordinal)?;
        tracing::info!("computing on {gpu}");
        Ok(cuda::open_on(driver, dtype))
    }
}

/// The first GPU. What stands in the way of one that could be used is said once a process.
fn first() -> Option<Found> {
    static FOUND: OnceLock<Option<Found>> = OnceLock::new();
    let found = FOUND.get_or_init(|| match Device::gpu() {
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
    found.clone()
}

/// Whether the first GPU, which nobody asked for by its number, computes what the CPU does; tried, and said, once a process.
fn agrees(gpu: &Found, dtype: Dtype) -> bool {
    static TRIED: [OnceLock<bool>; 2] = [const { OnceLock::new() }; 2];
    let tried = match dtype {
        Dtype::F32 => &TRIED[0],
        Dtype::Bf16 => &TRIED[1],
    };
    *tried.get_or_init(|| {
        let found = tried_on(gpu.ordinal, dtype);
        if let Err(reason) = &found {
            tracing::warn!("computing on the CPU, since {gpu} cannot be used: {reason}");
        }
        found.is_ok()
    })
}

fn tried_on(ordinal: usize, dtype: Dtype) -> Result<(), String> {
    let found = of_gpu(Device::Cuda(ordinal), dtype).map_err(|error| error.to_string())?;
    match found.iter().find(|compared| !compared.agrees()) {
        None => Ok(()),
        Some(Compared { what, distance, .. }) => Err(format!(
            "its {what} is {distance:.1e} from the CPU's; `rapid doctor --device cuda:{ordinal}` says more"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether this machine has no GPU, which most of these tests are about; says so where it has one.
    fn without_gpu() -> bool {
        let found = Device::gpu();
        if let Ok(gpu) = &found {
            eprintln!("SKIPPED: what is said where there is no GPU: this machine has {gpu}");
        }
        found.is_err()
    }

    #[test]
    fn a_gpu_that_is_not_there_is_an_error_that_says_why() {
        if without_gpu() {
            let error = Device::Cuda(0).available().unwrap_err().to_string();
            assert!(error.starts_with("cuda:0 cannot be used: "), "{error}");
            let reasons = ["driver", "GPU", "NVRTC", "cuBLASLt"];
            assert!(reasons.iter().any(|r| error.contains(r)), "{error}");
            assert!(cuda::device::open(0).is_err());
        }
    }

    #[test]
    fn auto_is_the_cpu_where_there_is_no_gpu() {
        if without_gpu() {
            assert_eq!(Device::Auto.available().unwrap(), "cpu");
            let backend = Device::Auto.open(Some(1), Dtype::F32).unwrap();
            assert_eq!(backend.name(), cpu::open(Some(1)).unwrap().name());
        }
    }

    #[test]
    fn the_cpu_is_always_there() {
        assert_eq!(Device::Cpu.available().unwrap(), "cpu");
    }
}
