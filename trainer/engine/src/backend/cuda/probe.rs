//! Detects a machine's GPUs, and whether the backend can use one, without opening it.

#![allow(unsafe_code)]

use std::fmt;

use cudarc::driver::DriverError;
use cudarc::driver::result::{self, device};
use cudarc::driver::sys::{self, CUdevice_attribute, CUresult};

use super::compile::{self, CompileTarget};
use super::driver::Fault;
use super::handles::{check_call, describe};
use super::libraries::{self, MIN_CUDA};

/// A version, major and minor.
pub type Version = (u32, u32);

/// The lowest supported compute capability.
const MIN_CAPABILITY: Version = (compile::MIN_ARCH / 10, compile::MIN_ARCH % 10);

/// A usable GPU, and the software that it is used with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuInfo {
    /// Its number.
    pub ordinal: usize,
    /// Its name.
    pub name: String,
    /// A name that no other GPU has, on any machine.
    pub id: [u8; 16],
    /// Bytes of its memory.
    pub memory: u64,
    /// Its compute capability.
    pub capability: Version,
    /// The newest CUDA version that the driver supports.
    pub driver: Version,
    /// The driver's own version, if the system reports it.
    pub release: Option<String>,
    /// NVRTC's version.
    pub nvrtc: Version,
    /// cuBLASLt's version.
    pub cublaslt: Version,
    /// The compilation target of the kernels.
    pub target: CompileTarget,
    /// The driver's handle.
    pub(super) device: sys::CUdevice,
}

impl fmt::Display for GpuInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = |(major, minor): Version| format!("{major}.{minor}");
        let release = self.release.as_deref().unwrap_or_default();
        let space = if release.is_empty() { "" } else { " " };
        write!(
            f,
            "cuda:{}, {}, {:.1} GiB, compute capability {}, driver{space}{release} for CUDA {}, NVRTC {}, cuBLASLt {}",
            self.ordinal,
            self.name,
            self.memory as f64 / f64::from(1 << 30),
            version(self.capability),
            version(self.driver),
            version(self.nvrtc),
            version(self.cublaslt)
        )
    }
}

/// Why there is no GPU to compute with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Absent {
    /// The machine has no GPU, or no driver for one.
    #[error("{0}")]
    None(String),
    /// There may be a GPU, but it cannot be used at present. The message contains the remedy.
    #[error("{0}")]
    Unusable(String),
}

impl From<Fault> for Absent {
    fn from(fault: Fault) -> Self {
        Self::Unusable(fault.to_string())
    }
}

impl From<String> for Absent {
    fn from(reason: String) -> Self {
        Self::Unusable(reason)
    }
}

/// Information about a GPU, by its number.
///
/// # Errors
/// Why it cannot be used. The message contains the remedy.
pub fn find(ordinal: usize) -> Result<GpuInfo, Absent> {
    libraries::driver().map_err(Absent::None)?;
    let driver = libraries::driver_version()?;
    if driver.0 < MIN_CUDA {
        return Err(Absent::Unusable(format!(
            "the NVIDIA driver is too old: it is for CUDA {}.{}; install 580 or later (525 or later with the libraries for CUDA 12)",
            driver.0, driver.1
        )));
    }
    match result::init() {
        Ok(()) => {}
        Err(DriverError(CUresult::CUDA_ERROR_NO_DEVICE)) => {
            return Err(Absent::None("the NVIDIA driver sees no GPU".into()));
        }
        Err(error) => {
            let reason = format!("the NVIDIA driver does not start: {}", describe(error));
            return Err(Absent::Unusable(reason));
        }
    }
    let count = check_call("report the number of GPUs", device::get_count())?;
    let device = match i32::try_from(ordinal) {
        Ok(n) if n < count => check_call("open", device::get(n))?,
        _ => return Err(no_such_gpu(ordinal, count).into()),
    };
    let name = check_call("report its name", device::get_name(device))?;
    let number = |which| attribute(device, which);
    let capability = (
        number(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
        number(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
    );
    check_capability(&name, capability)?;
    let (nvrtc, cublaslt) = (compile::version()?, libraries::cublaslt_version()?);
    check_libraries(nvrtc, cublaslt)?;
    let known = compile::architectures()?;
    let target = CompileTarget::of(10 * capability.0 + capability.1, &known).ok_or_else(|| {
        format!(
            "NVRTC {}.{} has no compilation target that {name} can run; {}",
            nvrtc.0,
            nvrtc.1,
            libraries::remedy()
        )
    })?;
    check_driver(driver, nvrtc, cublaslt, target)?;
    let id = check_call("report its name", device::get_uuid(device))?;
    // SAFETY: the device is the driver's.
    let memory = check_call("report its memory", unsafe { device::total_mem(device) })?;
    Ok(GpuInfo {
        ordinal,
        name,
        id: id.bytes.map(|byte| byte as u8),
        memory: memory as u64,
        capability,
        driver,
        release: std::fs::read_to_string("/sys/module/nvidia/version")
            .ok()
            .map(|text| text.trim().to_owned()),
        nvrtc,
        cublaslt,
        target,
        device,
    })
}

pub(super) fn attribute(device: sys::CUdevice, which: CUdevice_attribute) -> Result<u32, Fault> {
    // SAFETY: the device is the driver's.
    let value = unsafe { device::get_attribute(device, which) };
    check_call("report an attribute", value).map(|value| value as u32)
}

fn no_such_gpu(ordinal: usize, count: i32) -> String {
    match count {
        1 => format!("there is no cuda:{ordinal}: this machine has one GPU, cuda:0"),
        _ => format!(
            "there is no cuda:{ordinal}: this machine has {count} GPUs, cuda:0 to cuda:{}",
            count - 1
        ),
    }
}

fn check_capability(name: &str, capability: Version) -> Result<(), String> {
    if capability >= MIN_CAPABILITY {
        return Ok(());
    }
    Err(format!(
        "{name} is of compute capability {}.{}; the kernels need {}.{} or more: Ampere (2020) or later",
        capability.0, capability.1, MIN_CAPABILITY.0, MIN_CAPABILITY.1
    ))
}

/// Checks that the libraries have all functions called here.
fn check_libraries(nvrtc: Version, cublaslt: Version) -> Result<(), String> {
    for (library, version) in [("NVRTC", nvrtc), ("cuBLASLt", cublaslt)] {
        if version.0 < MIN_CUDA {
            return Err(format!(
                "{library} {}.{} is too old: {MIN_CUDA}.0 or later is needed; {}. If the loader finds this one first, by its name without a version, \
                 remove it, or put a link of that name to the newer one into the first folder of LD_LIBRARY_PATH",
                version.0,
                version.1,
                libraries::remedy()
            ));
        }
    }
    Ok(())
}

/// Checks that a driver can load the libraries' output.
fn check_driver(
    driver: Version,
    nvrtc: Version,
    cublaslt: Version,
    target: CompileTarget,
) -> Result<(), String> {
    let newest = nvrtc.0.max(cublaslt.0);
    let jit = matches!(target, CompileTarget::Ptx(_)) && driver < nvrtc;
    if driver.0 >= newest && !jit {
        return Ok(());
    }
    let needed = if jit { nvrtc } else { (newest, 0) };
    let release = match needed {
        (13, 0) => " (580 or later)",
        _ => "",
    };
    let mut error = format!(
        "the NVIDIA driver is too old: it is for CUDA {}.{}, and NVRTC is {}.{} and cuBLASLt {}.{}; install a driver for CUDA {}.{} or later{release}",
        driver.0, driver.1, nvrtc.0, nvrtc.1, cublaslt.0, cublaslt.1, needed.0, needed.1
    );
    if driver.0 == MIN_CUDA && !jit {
        error += ", or the libraries for this one: `pip install nvidia-cuda-nvrtc-cu12 nvidia-cublas-cu12`";
    }
    Err(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_accepts_libraries_of_its_major_version_and_ptx_of_its_own() {
        let (cubin, ptx) = (CompileTarget::Cubin(90), CompileTarget::Ptx(120));
        for (driver, nvrtc, cublaslt, target, expected) in [
            ((13, 0), (13, 0), (13, 0), cubin, &[][..]),
            ((13, 0), (13, 5), (13, 1), cubin, &[]),
            ((12, 4), (12, 9), (12, 9), cubin, &[]),
            ((13, 0), (12, 8), (12, 9), cubin, &[]),
            ((13, 2), (13, 0), (13, 0), ptx, &[]),
            // Both remedies: a newer driver, or older libraries.
            (
                (12, 4),
                (13, 0),
                (13, 0),
                cubin,
                &["it is for CUDA 12.4", "nvidia-cuda-nvrtc-cu12"],
            ),
            (
                (12, 4),
                (12, 9),
                (13, 0),
                cubin,
                &["a driver for CUDA 13.0 or later"],
            ),
            (
                (13, 0),
                (13, 2),
                (13, 0),
                ptx,
                &["a driver for CUDA 13.2 or later"],
            ),
        ] {
            let checked = check_driver(driver, nvrtc, cublaslt, target);
            assert_eq!(checked.is_ok(), expected.is_empty(), "{checked:?}");
            let error = checked.err().unwrap_or_default();
            assert!(expected.iter().all(|part| error.contains(part)), "{error}");
        }
    }

    #[test]
    fn an_old_library_an_old_gpu_and_a_missing_one_are_named() {
        assert_eq!(check_libraries((12, 0), (13, 0)), Ok(()));
        assert_eq!(check_capability("NVIDIA A100", (8, 0)), Ok(()));
        let old_library = check_libraries((11, 8), (13, 0)).unwrap_err();
        let old_gpu = check_capability("Tesla V100", (7, 0)).unwrap_err();
        for (error, expected) in [
            (old_library, "NVRTC 11.8 is too old"),
            (old_gpu, "Tesla V100 is of compute capability 7.0"),
            (no_such_gpu(1, 1), "one GPU, cuda:0"),
            (no_such_gpu(8, 8), "8 GPUs, cuda:0 to cuda:7"),
        ] {
            assert!(error.contains(expected), "{error}");
        }
    }
}
